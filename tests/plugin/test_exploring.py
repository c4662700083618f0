"""The main job, end to end, in a real viewer with real mouse events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from napari_4dstem.detectors import Annulus, Circle
from napari_4dstem.ledger import ledger
from napari_4dstem.plugin.sessions import session_for
from tests.plugin.gui import at, canvas, drag, pump, wait
from tests.plugin.scans import disk_scan, noise_scan, save


@pytest.fixture
def viewer(make_napari_viewer):
    made = make_napari_viewer(show=True)
    made.window.resize(1280, 800)
    yield made
    session_for(made).close()


@pytest.fixture
def session(viewer, shared_data):
    """A session in which the simulated scan was opened as a user opens it, and is encoded."""
    path = str(shared_data / "sim_sto" / "sim_sto_master.h5")
    viewer.open(path, plugin="napari-4dstem")
    found = session_for(viewer)
    wait(lambda: found.acquisition is not None)
    exact(found)
    pump(0.6)  # the panels find their place
    return found


def exact(session):
    wait(lambda: session.acquisition.state == "encoded", 120)
    wait(lambda: session.images and all(i.exact for i in session.images.values()))


def counting(acquisition, monkeypatch):
    asked = []
    read = acquisition.pattern_at
    monkeypatch.setattr(
        acquisition, "pattern_at", lambda r, c: (asked.append((r, c)), read(r, c))[1]
    )
    return asked


@pytest.fixture(scope="module")
def counts(shared_data):
    """The simulated scan as HDF5 gives it, without masked pixels and overloads."""
    import h5py
    import hdf5plugin  # noqa: F401 - registers the filter

    with h5py.File(shared_data / "sim_sto" / "sim_sto_master.h5") as file:
        parts = [file[f"entry/data/data_{i:06d}"][()] for i in (1, 2, 3)]
        mask = file["entry/instrument/detector/detectorSpecific/pixel_mask"][()] & 0xFFFF
    data = np.concatenate(parts).reshape(32, 32, 96, 96)
    return np.where((mask > 0) | (data == 65535), 0, data)


def dense(counts, shape):
    """Sum under a shape, by NumPy."""
    return counts[:, :, shape.mask(counts.shape[2:])].sum(axis=-1, dtype=np.int64)


def pattern_layer(viewer):
    return next(layer for layer in viewer.layers if layer.name.startswith("sim_sto"))


def test_opening_shows_images_of_the_fitted_detectors(session, viewer, counts, shared_data):
    expected = np.load(shared_data / "sim_sto" / "sim_sto_expected.npz")
    assert session.disk.center == pytest.approx((51, 43), abs=0.2)
    assert [d.name for d in session.detectors] == ["BF", "ADF"]
    for name in ("BF", "ADF"):
        image = session.images[name]
        np.testing.assert_array_equal(image.values, dense(counts, image.shape))
    adf = session.images["ADF"].values
    assert adf[8, 24] > 0.98 * adf.max(), "the heaviest column of the simulated crystal"
    session.set_shape("BF", Circle((51, 43), 17.5))
    wait(lambda: session.images["BF"].shape == Circle((51, 43), 17.5))
    np.testing.assert_array_equal(session.images["BF"].values, expected["bf"])
    names = list(viewer.window.dock_widgets)
    assert any("explorer" in name for name in names)
    assert any("memory" in name for name in names)


def test_one_step_reads_one_pattern(session, viewer, monkeypatch):
    asked = counting(session.acquisition, monkeypatch)
    steps = [(8, 24), (9, 25), (0, 31)]
    for place in steps:
        session.move_cursor(*place)
        pump(0.05)
    assert asked == steps
    widget = canvas(viewer)
    widget.setFocus()
    viewer.layers.selection.active = pattern_layer(viewer)
    for key, modifier in ((Qt.Key.Key_Down, 0), (Qt.Key.Key_Left, 0), (Qt.Key.Key_Left, 1)):
        pressed = Qt.KeyboardModifier.ShiftModifier if modifier else Qt.KeyboardModifier.NoModifier
        QTest.keyClick(widget, key, pressed)
        pump(0.05)
    assert asked == [*steps, (1, 31), (1, 30), (1, 20)]
    assert session.cursor == (1, 20)


def test_the_crosshair_moves_the_pattern_and_the_sliders_move_the_crosshair(
    session, viewer, monkeypatch
):
    asked = counting(session.acquisition, monkeypatch)
    explorer = next(w for n, w in viewer.window.dock_widgets.items() if "explorer" in n)
    bf, adf = explorer.images.views["BF"], explorer.images.views["ADF"]
    port = bf.canvas.viewport()
    QTest.mouseClick(port, Qt.MouseButton.LeftButton, pos=bf.canvas.point_of(5, 7).toPoint())
    pump(0.05)
    assert viewer.dims.current_step[:2] == (5, 7)
    assert adf.cursor_position == (5, 7)
    assert asked == [(5, 7)]
    viewer.dims.set_current_step(1, 12)
    pump(0.05)
    assert bf.cursor_position == (5, 12)
    assert "scan (5, 12)" in explorer.status.text()
    assert asked == [(5, 7), (5, 12)]
    places = [adf.canvas.point_of(5, 12).toPoint(), adf.canvas.point_of(20, 27).toPoint()]
    drag(adf.canvas.viewport(), *places, steps=12)
    assert session.cursor == (20, 27)
    assert len(asked) == len(set(asked)), "one pattern a position"
    assert 5 < len(asked) <= 15


def test_a_detector_is_dragged_whatever_layer_is_active(session, viewer, counts):
    layer = pattern_layer(viewer)
    camera = viewer.scene.camera.center
    shown = []
    session.events.images.connect(shown.append)
    for active in (layer, viewer.layers["virtual detectors"], None):
        viewer.layers.selection.active = active
        session.add_preset("BF")
        wait(lambda: session.images["BF"].shape == session.detector("BF").shape)
        before, adf = session.detector("BF").shape, session.detector("ADF").shape
        shown.clear()
        row, column = before.center
        start = at(viewer, layer, row, column + before.radius)
        drag(canvas(viewer), start, at(viewer, layer, row, column + before.radius + 5), steps=40)
        after = session.detector("BF").shape
        assert after.center == before.center
        assert after.radius == pytest.approx(before.radius + 5, abs=0.4)
        assert session.detector("ADF").shape == adf
        assert viewer.scene.camera.center == camera
        wait(lambda: session.images["BF"].shape == session.detector("BF").shape)
        assert shown.count("BF") >= 10
        np.testing.assert_array_equal(session.images["BF"].values, dense(counts, after))


def test_an_inner_ring_moves_alone_and_elsewhere_the_view_pans(session, viewer):
    layer = pattern_layer(viewer)
    viewer.layers.selection.active = layer
    session.set_shape("ADF", Annulus((51, 43), 10, 40))
    session.set_shape("BF", Circle((51, 43), 4))
    camera = viewer.scene.camera.center
    widget = canvas(viewer)
    drag(widget, at(viewer, layer, 61, 43), at(viewer, layer, 67, 43))
    adf = session.detector("ADF").shape
    assert adf.inner == pytest.approx(16, abs=0.4)
    assert (adf.center, adf.outer) == ((51, 43), 40)
    assert session.detector("BF").shape == Circle((51, 43), 4)
    assert viewer.scene.camera.center == camera
    drag(widget, at(viewer, layer, 76, 43), at(viewer, layer, 70, 40))
    assert viewer.scene.camera.center != camera
    assert session.detector("ADF").shape == adf


def test_our_layer_is_drawn_again_when_deleted(session, viewer):
    viewer.layers.remove("virtual detectors")
    wait(lambda: "virtual detectors" in viewer.layers)
    viewer.layers.clear()
    wait(lambda: session.acquisition is None)
    pump(0.2)
    assert len(viewer.layers) == 0


def test_mean_pattern_and_scales_leave_the_counts_alone(session, viewer):
    layer = pattern_layer(viewer)
    counts = np.array(layer.data[8, 24])
    session.pattern_scale = "log"
    assert layer.gamma == pytest.approx(0.25)
    session.pattern_mode = "mean"
    pump(0.1)
    mean = viewer.layers["sim_sto: mean"]
    assert not layer.visible
    np.testing.assert_allclose(
        mean.data, np.nan_to_num(session.acquisition.mean_pattern()), rtol=1e-6
    )
    np.testing.assert_array_equal(layer.data[8, 24], counts)
    session.pattern_mode, session.pattern_scale = "cursor", "linear"
    assert layer.visible
    assert layer.gamma == 1
    assert layer.colormap.name == "inferno"
    assert "sim_sto: mean" not in viewer.layers


def test_another_scan_takes_over_the_pattern_layer(session, viewer, tmp_path, monkeypatch):
    first = session.acquisition
    data = disk_scan((9, 13, 40, 36), seed=3)
    second = session.open(save(data, tmp_path, "other"))
    exact(session)
    assert session.acquisitions == [first, second]
    layers = [layer for layer in viewer.layers if layer.ndim == 4]
    assert len(layers) == 1
    assert layers[0].data.shape == data.shape
    asked = counting(second, monkeypatch)
    for place in [(0, 0), (8, 12), (3, 4)]:
        viewer.dims.set_current_step((0, 1), place)
        pump(0.05)
        assert session.cursor == place
    assert asked == [(8, 12), (3, 4)] or asked == [(0, 0), (8, 12), (3, 4)]
    np.testing.assert_array_equal(layers[0].data[3, 4], data[3, 4])
    session.activate(first)
    exact(session)
    assert layers[0].data.acquisition is first
    assert tuple(viewer.dims.range[0])[2] == pytest.approx(0.02440625)


def test_a_second_file_dropped_on_napari_joins_the_list(session, viewer, shared_data):
    first = session.acquisition
    path = str(shared_data / "sim_variants" / "u8_master.h5")
    candidates = sorted((shared_data / "sim_variants").glob("*_master.h5"))
    path = str(candidates[0])
    layer = viewer.open(path, plugin="napari-4dstem")[0]
    wait(lambda: session.acquisition is not first)
    pump(0.2)
    assert [one for one in viewer.layers if one.ndim == 4] == [layer]
    assert first.state == "encoded"
    assert len(session.acquisitions) == 2


def test_cancel_gives_the_bytes_back(viewer, tmp_path):
    data = noise_scan((100, 104, 128, 130))
    held = ledger.total()
    session = session_for(viewer)
    acquisition = session.open(save(data, tmp_path))
    wait(lambda: acquisition.state == "partial" and acquisition.progress.done > 100, 60)
    assert ledger.total() > held
    session.cancel()
    wait(lambda: acquisition.state == "source", 5)
    wait(lambda: ledger.total(owner=acquisition.owner) == 0 and ledger.total() == held, 5)
    np.testing.assert_array_equal(session.scan_layer.stack[3, 4], data[3, 4])


def test_release_returns_the_memory_and_the_layer_says_so(viewer, tmp_path):
    data = noise_scan((48, 50, 170, 172))
    session = session_for(viewer)
    acquisition = session.open(save(data, tmp_path, "big"))
    del data
    exact(session)
    pump(0.2)
    claimed = acquisition.resident_bytes
    assert claimed >= 64 << 20
    before = anonymous_bytes()
    session.release()
    wait(lambda: acquisition.state == "released")
    pump(0.3)
    assert before - anonymous_bytes() >= 0.95 * claimed
    layer = session.scan_layer.layer
    assert layer in viewer.layers
    assert layer.name == "big (released)"
    assert not layer.data[1, 1].any()
    assert "unloaded" in viewer.canvas.overlays.text.text
    session.move_cursor(3, 4)
    session.reload()
    exact(session)
    wait(lambda: layer.name == "big")


def anonymous_bytes():
    with Path("/proc/self/status").open() as status:
        line = next(line for line in status if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def test_removing_the_layer_releases(session, viewer):
    acquisition = session.acquisition
    viewer.layers.remove(pattern_layer(viewer))
    wait(lambda: acquisition.state == "released")
    assert session.acquisition is None
    assert acquisition in session.acquisitions


def test_saving_another_layer_as_tif_is_still_naparis(session, viewer, tmp_path):
    import tifffile

    layer = viewer.add_image(np.arange(12.0).reshape(3, 4), name="mine")
    saved = viewer.layers.save(str(tmp_path / "mine.tif"), selected=True)
    assert saved == [str(tmp_path / "mine.tif")]
    assert tifffile.imread(saved[0]).shape == (3, 4)
    viewer.layers.remove(layer)


def test_everything_fits_on_a_small_screen(session, viewer):
    from qtpy.QtWidgets import QLabel, QPushButton

    session.add_preset("ABF")
    wait(lambda: "ABF" in session.images)
    pump(0.2)
    explorer = next(w for n, w in viewer.window.dock_widgets.items() if "explorer" in n)
    window = explorer.window()
    assert (window.width(), window.height()) == (1280, 800)
    for kind in (QPushButton, QLabel):
        for widget in explorer.findChildren(kind):
            text = widget.text()
            if not widget.isVisible() or not text or getattr(widget, "wordWrap", bool)():
                continue
            if type(widget).__name__ != kind.__name__:
                continue  # an eliding label shows that it was cut, and the rest as its tip
            assert widget.width() >= widget.fontMetrics().horizontalAdvance(text), text
