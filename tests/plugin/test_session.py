"""Sessions on a viewer without a window: most of the logic, quickly."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils._proxies import PublicOnlyProxy

import napari_4dstem as n4
from napari_4dstem.calibration import Quantity
from napari_4dstem.detectors import Annulus, Circle
from napari_4dstem.errors import UsageError
from napari_4dstem.plugin.session.session_texts import (
    camera_readout,
    disk_text,
    shape_line,
    status_line,
)
from napari_4dstem.plugin.sessions import open_sessions, session_for
from tests.plugin.gui import pump, wait
from tests.plugin.scans import disk_scan, save

DATA = disk_scan((12, 14, 48, 56))


@pytest.fixture
def session(qapp, tmp_path):
    viewer = ViewerModel()
    made = session_for(viewer)
    made.open(save(DATA, tmp_path))
    wait(lambda: made.acquisition.state == "encoded", 120)
    wait(lambda: made.images and all(i.exact for i in made.images.values()))
    yield made
    made.close()
    del viewer


def newest(session, name):
    wait(
        lambda: (
            name in session.images and session.images[name].shape == session.detector(name).shape
        )
    )
    wait(lambda: session.images[name].exact)
    return session.images[name].values


def dense(shape):
    return DATA[:, :, shape.mask(DATA.shape[2:])].sum(-1, dtype=np.int64)


def test_one_session_a_viewer_and_its_proxy(qapp):
    one, other = ViewerModel(), ViewerModel()
    session = session_for(one)
    assert session_for(PublicOnlyProxy(one)) is session
    assert session_for(other) is not session
    for each in (session, session_for(other)):
        each.close()


def test_a_session_keeps_no_viewer_alive(qapp):
    viewer = ViewerModel()
    reference = weakref.ref(viewer)
    session = session_for(viewer)
    del viewer
    gc.collect()
    assert reference() is None
    assert session.closed
    assert session not in open_sessions()


def test_presets_come_from_the_fitted_disk(session):
    assert session.disk.certain
    assert session.disk.center == pytest.approx((0.53 * 48, 0.45 * 56), abs=0.3)
    bf = session.detector("BF")
    assert bf.preset
    assert bf.shape.radius == pytest.approx(session.disk.radius)
    np.testing.assert_array_equal(newest(session, "BF"), dense(bf.shape))


def test_a_preset_without_room_says_why(session):
    missing = [p for p in session.view.presets if p.shape is None]
    for preset in missing:
        with pytest.raises(UsageError, match=r"camera|pixel|wide"):
            session.add_preset(preset.name)


def test_shapes_change_and_images_follow(session):
    for radius in (3.0, 9.5, 0.2):
        session.set_shape("BF", Circle((24, 30), radius))
        np.testing.assert_array_equal(newest(session, "BF"), dense(Circle((24, 30), radius)))
    assert not session.detector("BF").preset
    session.set_shape("nobody", Circle((1, 1), 1))


def test_a_stream_of_requests_ends_with_the_newest(session):
    shown = []
    session.events.images.connect(lambda name: shown.append(session.images[name].shape))
    shapes = [Annulus((25, 25), r / 10, r / 5) for r in range(1, 120)]
    for shape in shapes:
        session.set_shape("ADF", shape) if session.detector("ADF") else session.add_detector(
            shape, "ADF"
        )
    np.testing.assert_array_equal(newest(session, "ADF"), dense(shapes[-1]))
    order = [shapes.index(s) for s in shown if s in shapes]
    assert order == sorted(order), "an older image never replaces a newer one"
    assert len(order) < len(shapes)


def test_added_hidden_shown_removed(session):
    made = session.add_detector(Circle((20, 20), 5))
    assert made.name == "D1"
    assert session.active_detector == "D1"
    newest(session, "D1")
    session.show_detector("D1", False)
    session.set_shape("D1", Circle((20, 20), 7))
    pump(0.2)
    assert session.images["D1"].shape == Circle((20, 20), 5)
    session.show_detector("D1", True)
    np.testing.assert_array_equal(newest(session, "D1"), dense(Circle((20, 20), 7)))
    session.remove_detector("D1")
    assert "D1" not in session.images
    assert session.active_detector != "D1"
    colours = {session.add_detector(Circle((20, 20), 5)).colour for _ in range(5)}
    assert len(colours) == 5


def test_the_mask_changes_the_images(session):
    masked = np.zeros(DATA.shape[2:], bool)
    masked[20:30, 20:30] = True
    session.acquisition.mask = masked
    shape = session.detector("BF").shape
    expected = DATA[:, :, shape.mask(masked.shape) & ~masked].sum(-1, dtype=np.int64)
    wait(lambda: np.array_equal(session.images["BF"].values, expected))


def test_the_cursor_stays_on_the_scan(session):
    session.move_cursor(99, -5)
    assert session.cursor == (11, 0)
    session.step_cursor(-3, 20)
    assert session.cursor == (8, 13)
    assert session.viewer.dims.current_step[:2] == (8, 13)


def test_a_typed_calibration_reaches_the_layers(session):
    step = (Quantity(1.25, "mrad", "typed"),) * 2
    known = session.acquisition.calibration
    session.acquisition.calibration = known.model_copy(update={"camera_step": step})
    layer = session.scan_layer.layer
    wait(lambda: layer.scale[2] == 1.25)
    assert [str(unit) for unit in layer.units[2:]] == ["milliradian", "milliradian"]
    assert layer.translate[2:] == pytest.approx([-1.25 * c for c in session.disk.center])
    detectors = session.viewer.layers["virtual detectors"]
    assert tuple(detectors.scale) == tuple(layer.scale[2:])
    assert tuple(detectors.translate) == tuple(layer.translate[2:])
    world = layer.data_to_world((0, 0, *session.disk.center))
    assert world[2:] == pytest.approx((0, 0), abs=1e-6)


def test_released_and_reloaded(session):
    layer = session.scan_layer.layer
    session.release()
    wait(lambda: layer.name == "scan (released)")
    assert not layer.data[3, 4].any()
    assert "unloaded" in session.viewer.canvas.overlays.text.text
    session.reload()
    wait(lambda: session.acquisition.state == "encoded", 60)
    wait(lambda: layer.name == "scan")
    np.testing.assert_array_equal(layer.data[3, 4], DATA[3, 4])


def test_a_duplicated_layer_shares_the_scan(session):
    layer = session.scan_layer.layer
    twin = session.viewer.add_layer(layer.create(*layer.as_layer_data_tuple()))
    pump(0.1)
    assert session.scan_layer.layer is layer
    session.viewer.layers.remove(layer)
    pump(0.2)
    assert session.acquisitions[0].state == "encoded"
    session.viewer.layers.remove(twin)
    wait(lambda: session.acquisitions[0].state == "released")


def test_a_scan_without_a_disk_starts_in_the_middle_and_says_so(qapp, tmp_path):
    viewer = ViewerModel()
    session = session_for(viewer)
    session.open(save(np.zeros((6, 7, 20, 24), "u2"), tmp_path, "dark"))
    wait(lambda: session.images and all(i.exact for i in session.images.values()), 120)
    assert not session.disk.certain
    assert session.disk.reason
    assert session.detector("BF").shape.center == (9.5, 11.5)
    assert "uncertain" in disk_text(session.disk, session.acquisition.calibration)
    session.close()


def test_texts(session):
    session.move_cursor(4, 3)
    assert shape_line(session.acquisition).startswith("12 x 14 scan · 48 x 56 camera · uint16")
    line = status_line(session)
    assert line.startswith("scan (4, 3) · BF ")
    assert line.endswith(" · exact")
    value = int(session.images["BF"].values[4, 3])
    assert str(value) in line.replace("\u202f", "")
    text = camera_readout(
        session.acquisition, (25, 25), (25.4, 28.7), session.display.shown_pattern()
    )
    counts = DATA[4, 3, 25, 29]
    assert text.splitlines()[0] == f"camera (25, 29) · {counts} counts"
    assert text.splitlines()[1] == "|k| 4 px · 0°"
    assert camera_readout(session.acquisition, (25, 25), (-0.6, 3), None) == ""


def test_the_readout_counts_the_azimuth_anticlockwise_and_knows_the_spacing(session):
    step = (Quantity(1.0, "mrad", "typed"),) * 2
    beam = Quantity(300.0, "keV", "typed")
    known = session.acquisition.calibration
    session.acquisition.calibration = known.model_copy(
        update={"camera_step": step, "beam_energy": beam}
    )
    line = camera_readout(session.acquisition, (25, 25), (15, 25), None).splitlines()[1]
    assert line == "|k| 10 mrad · 5.079 1/nm · d 0.1969 nm · 90°"


def test_closing_twice_is_harmless(session):
    session.close()
    session.close()
    assert session.acquisitions == []


def test_n4_names_the_console_entry():
    assert n4.plugin.session_for is session_for
