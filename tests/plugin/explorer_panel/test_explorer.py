"""The explorer as a plain widget: what is pressed and typed reaches the session, and back."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from napari_4dstem.calibration import Quantity
from napari_4dstem.detectors import Annulus, Circle
from napari_4dstem.plugin.explorer_panel.explorer import ExplorerDock
from napari_4dstem.plugin.sessions import session_for
from tests.plugin.gui import pump, wait
from tests.plugin.scans import disk_scan, noise_scan, save

STEP = (Quantity(2.0, "mrad", "typed"),) * 2


@pytest.fixture
def viewer(qapp):
    made = ViewerModel()
    yield made
    session_for(made).close()


@pytest.fixture
def explorer(viewer, qtbot, tmp_path):
    dock = ExplorerDock(viewer)
    qtbot.addWidget(dock)
    dock.resize(560, 560)
    dock.show()
    session = session_for(viewer)
    session.open(save(disk_scan((9, 11, 48, 56)), tmp_path))
    wait(lambda: session.acquisition.state == "encoded", 120)
    wait(lambda: session.images and all(i.exact for i in session.images.values()))
    known = session.acquisition.calibration
    session.acquisition.calibration = known.model_copy(update={"camera_step": STEP})
    pump(0.1)
    return dock


def press(button):
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    pump(0.05)


def test_header_and_status(explorer, viewer):
    assert "9 x 11 scan · 48 x 56 camera" in explorer.header.title.text()
    assert "camera 2 mrad/px (typed)" in explorer.header.facts.text()
    assert not explorer.header.progress_row.isVisible()
    session_for(viewer).move_cursor(3, 5)
    assert explorer.status.text().startswith("scan (3, 5) · BF ")


def test_typed_radii_move_the_detector(explorer, viewer):
    session, form = session_for(viewer), explorer.form
    session.activate_detector("BF")
    center = session.detector("BF").shape.center
    assert form.outer_angle.value() == pytest.approx(2 * form.outer.value(), abs=0.02)
    form.outer_angle.setValue(18.0)
    shape = session.detector("BF").shape
    assert isinstance(shape, Circle)
    assert shape.radius == pytest.approx(9.0)
    assert form.outer.value() == pytest.approx(9.0)
    form.inner.setValue(4.0)
    shape = session.detector("BF").shape
    assert isinstance(shape, Annulus)
    assert (shape.inner, shape.outer) == pytest.approx((4.0, 9.0))
    form.row.setValue(20.0)
    assert session.detector("BF").shape.center == pytest.approx((20.0, center[1]), abs=0.01)


def test_numbers_follow_a_drag(explorer, viewer):
    session = session_for(viewer)
    session.activate_detector("BF")
    session.set_shape("BF", Circle((21.25, 30.5), 6.75))
    form = explorer.form
    numbers = [box.value() for box in (form.row, form.column, form.inner, form.outer)]
    assert numbers == [21.25, 30.5, 0.0, 6.75]
    title = explorer.images.views["BF"].detail.text()
    assert title == "0 – 6.75 px · 0 – 13.5 mrad"


def test_presets_show_and_hide_and_say_why_not(explorer, viewer):
    session, presets = session_for(viewer), explorer.detector_bar.presets
    assert presets["BF"].isChecked()
    press(presets["BF"])
    assert not session.detector("BF").visible
    assert "BF" not in explorer.images.views
    press(presets["ABF"])
    assert session.detector("ABF").preset
    assert list(explorer.images.views)[-1] == "ABF"
    wait(lambda: "ABF" in session.images)
    for preset in session.view.presets:
        assert presets[preset.name].isEnabled() == (preset.shape is not None)
        if preset.shape is None:
            assert preset.reason in presets[preset.name].toolTip()


def test_chips_edit_hide_and_remove(explorer, viewer):
    session, bar = session_for(viewer), explorer.detector_bar
    press(bar.chips["ADF"].edit)
    assert session.active_detector == "ADF"
    assert explorer.form.name.text() == "ADF"
    press(bar.chips["ADF"].eye)
    assert not session.detector("ADF").visible
    press(bar.chips["ADF"].remove)
    assert session.detector("ADF") is None
    assert list(bar.chips) == ["BF"]


def test_pattern_choices(explorer, viewer):
    session, bar = session_for(viewer), explorer.pattern_bar
    press(bar.scales["log"])
    press(bar.modes["maximum"])
    assert (session.pattern_mode, session.pattern_scale) == ("maximum", "log")
    session.pattern_mode = "cursor"
    assert bar.modes["cursor"].isChecked()


def test_arrow_keys_in_the_panel_move_the_cursor(explorer, viewer):
    session = session_for(viewer)
    session.move_cursor(4, 4)
    explorer.setFocus()
    QTest.keyClick(explorer, Qt.Key.Key_Down)
    QTest.keyClick(explorer, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert session.cursor == (5, 0)


def test_another_scan_is_chosen_in_the_header(explorer, viewer, tmp_path):
    session = session_for(viewer)
    first = session.acquisition
    assert not explorer.header.choice.isVisible()
    session.open(save(disk_scan((5, 6, 30, 32)), tmp_path, "second"))
    assert explorer.header.choice.isVisible()
    assert explorer.header.choice.currentText() == "second"
    explorer.header.choice.setCurrentIndex(0)
    assert session.acquisition is first
    assert session.scan_layer.layer.data.shape == (9, 11, 48, 56)
    np.testing.assert_allclose(session.scan_layer.layer.scale, (1, 1, 2, 2))


def test_cancel_and_encode_from_the_header(viewer, qtbot, tmp_path):
    dock = ExplorerDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    session = session_for(viewer)
    # Large enough that encoding is not over before the button is pressed.
    acquisition = session.open(save(noise_scan((100, 104, 128, 130)), tmp_path))
    wait(lambda: dock.header.bar.value() > 0 and dock.header.button.text() == "Cancel", 60)
    assert acquisition.state == "partial"
    press(dock.header.button)
    assert acquisition.state == "source"
    wait(lambda: dock.header.button.text() == "Encode")
    press(dock.header.button)
    wait(lambda: acquisition.state == "encoded", 60)
    wait(lambda: not dock.header.progress_row.isVisible())


def test_an_empty_explorer_says_what_to_do(viewer, qtbot):
    dock = ExplorerDock(viewer)
    qtbot.addWidget(dock)
    dock.show()
    assert "Drop" in dock.header.facts.text()
    for preset in dock.detector_bar.presets.values():
        assert not preset.isEnabled()
    press(dock.pattern_bar.modes["mean"])
    press(dock.detector_bar.find_button)
