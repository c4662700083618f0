"""The load panel: what it says about real files, which choices it passes on, what it remembers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from napari import Viewer
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QMimeData, QPointF, Qt, QUrl
from qtpy.QtGui import QDropEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QLabel

from napari_4dstem.errors import SourceError
from napari_4dstem.plugin.load_panel.file_report import error_report, report_on
from napari_4dstem.plugin.load_panel.load_dock import LoadDock, LoadPanel
from napari_4dstem.plugin.load_panel.load_texts import scan_fit
from napari_4dstem.plugin.real_space_view.number_text import grouped
from napari_4dstem.sources.scan_shape import ScanMap

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def dock(qtbot: QtBot) -> LoadPanel:
    widget = LoadPanel()
    qtbot.addWidget(widget)
    widget.resize(420, 700)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


def show(dock: LoadPanel, qtbot: QtBot, path: Path) -> None:
    dock.show_info(path)
    qtbot.waitUntil(lambda: dock.report is not None, timeout=10_000)


def settle(dock: LoadPanel, qtbot: QtBot) -> None:
    """Wait until the choices made were checked against the file."""
    before = dock.report
    qtbot.waitUntil(lambda: dock.report is not before, timeout=10_000)


def fact(dock: LoadPanel, name: str) -> str:
    form = dock.facts_form
    for row in range(form.rowCount()):
        label = form.itemAt(row, form.ItemRole.LabelRole).widget()
        value = form.itemAt(row, form.ItemRole.FieldRole).widget()
        assert isinstance(label, QLabel)
        assert isinstance(value, QLabel)
        if label.text() == name:
            return value.text()
    raise AssertionError(f"no line {name}")


@pytest.fixture
def frames_file(tmp_path: Path) -> Path:
    """36 frames without a word about the scan: 6 x 6 is a guess."""
    path = tmp_path / "frames.npy"
    np.save(path, np.random.default_rng(3).poisson(2, (36, 8, 10)).astype(np.uint16))
    return path


# -- does a shape fit the frames -------------------------------------------------------------


@pytest.mark.parametrize("offset", [-3, 0, 2])
@pytest.mark.parametrize("flyback", [0, 1])
@pytest.mark.parametrize("frames", [0, 17, 24, 27, 28, 29, 40])
@pytest.mark.parametrize("shape", [(4, 6), (3, 8), (1, 27)])
def test_fit_counts_empty_positions_as_the_readers_do(
    shape: tuple[int, int], frames: int, flyback: int, offset: int
) -> None:
    recorded = ScanMap(shape, offset, flyback).recorded(np.ones(frames, bool))
    empty = recorded.size - int(recorded.sum())
    fit = scan_fit(shape, frames, offset=offset, flyback=flyback)
    assert (fit.verdict == "short") == (empty > 0)
    if empty:
        assert f": {empty} position" in fit.text
        assert fit.text.endswith("no frame")


def test_fit_texts() -> None:
    assert (
        scan_fit((32, 32), 1024).text == f"32 x 32 = {grouped(1024)} positions of 1\u202f024 frames"
    )
    assert scan_fit((4, 6), 30).text.endswith("the last 6 are not used")
    assert scan_fit((4, 6), 30, offset=2, flyback=1).verdict == "fits"
    assert "2 skipped, 1 flyback a row" in scan_fit((4, 6), 30, offset=2, flyback=1).text
    assert scan_fit((0, 6), 30).verdict == "empty"


# -- what is said about files ----------------------------------------------------------------


def test_nothing_chosen(dock: LoadDock) -> None:
    assert "drop one here" in dock.banner.headline.text()
    assert not dock.open_button.isEnabled()
    assert not dock.form.isVisible()


def test_real_scan(dock: LoadPanel, qtbot: QtBot, shared_data: Path) -> None:
    show(dock, qtbot, shared_data / "sim_sto" / "sim_sto_master.h5")
    assert dock.banner.headline.text() == "Ready to open"
    assert fact(dock, "Format") == "Dectris Arina"
    assert fact(dock, "Frames") == grouped(1024)
    assert fact(dock, "Camera") == "96 x 96 pixels"
    assert "uint16" in fact(dock, "Numbers")
    assert fact(dock, "Full size") == "18.00 MiB"  # 1024 * 96 * 96 * 2 bytes
    assert fact(dock, "Beam energy") == "300 keV"
    assert fact(dock, "Masked pixels").startswith("4 of")
    assert fact(dock, "Scan step").startswith("~0.02441 nm")
    assert dock.form.shape == (32, 32)
    assert dock.form.line.text() == "32 x 32 = 1\u202f024 positions of 1\u202f024 frames"
    assert not dock.form.guessed.isVisible()
    assert dock.open_button.isEnabled()


def test_sidecar_gives_a_scan_that_is_not_square(
    dock: LoadPanel, qtbot: QtBot, shared_data: Path
) -> None:
    show(dock, qtbot, shared_data / "sim_variants" / "var_8x12_roi64x96_u8_master.h5")
    assert dock.form.shape == (8, 12)
    assert fact(dock, "Camera") == "64 x 96 pixels"
    assert dock.form.candidates.currentData() == (8, 12)


def test_interrupted_scan_is_opened_as_far_as_it_goes(
    dock: LoadPanel, qtbot: QtBot, shared_data: Path
) -> None:
    show(dock, qtbot, shared_data / "sim_variants" / "var_truncated_master.h5")
    assert not dock.open_button.isEnabled()
    assert dock.banner.tone == "attention"
    assert dock.banner.headline.text()
    assert dock.banner.text.text(), "an action must be named"
    assert fact(dock, "Frames") == "50 of 64 expected"
    assert dock.form.fit.verdict == "short"
    assert dock.form.line.text().endswith("14 positions have no frame")
    assert dock.form.partial.isVisible()
    dock.form.partial.click()
    settle(dock, qtbot)
    assert dock.open_button.isEnabled()
    assert dock.form.partial.isVisible(), "it must be possible to change one's mind"
    with qtbot.waitSignal(dock.open_requested) as opened:
        QTest.mouseClick(dock.open_button, LEFT)
    assert opened.args[1].partial
    assert opened.args[1].scan_shape == (8, 8)


def test_missing_data_file_is_named(
    dock: LoadPanel, qtbot: QtBot, shared_data: Path, tmp_path: Path
) -> None:
    for part in ("sim_sto_master.h5", "sim_sto_data_000001.h5", "sim_sto_data_000003.h5"):
        shutil.copy(shared_data / "sim_sto" / part, tmp_path)
    show(dock, qtbot, tmp_path / "sim_sto_master.h5")
    said = dock.banner.headline.text() + dock.banner.text.text()
    assert "sim_sto_data_000002.h5" in said
    assert not dock.open_button.isEnabled()
    assert dock.form.partial.isVisible()


def test_foreign_and_absent_files(dock: LoadPanel, qtbot: QtBot, tmp_path: Path) -> None:
    foreign = tmp_path / "notes.h5"
    foreign.write_text("not HDF5 at all")
    for path in (foreign, tmp_path / "absent_master.h5", tmp_path):
        show(dock, qtbot, path)
        assert dock.banner.tone == "error"
        assert dock.banner.headline.text()
        assert not dock.open_button.isEnabled()
        assert not dock.form.isVisible()


def test_errors_become_sentences(tmp_path: Path) -> None:
    error = SourceError("It broke", expected="a scan", found="soup", action="Eat it")
    report = error_report(tmp_path, error)
    assert (report.headline, report.text) == ("It broke", "Expected: a scan. Found: soup. Eat it.")
    assert "Permission" in error_report(tmp_path, PermissionError(13, "Permission denied")).text
    assert "ValueError: odd" in error_report(tmp_path, ValueError("odd")).text


# -- choices ---------------------------------------------------------------------------------


def test_guess_is_marked_until_the_user_chooses(
    dock: LoadPanel, qtbot: QtBot, frames_file: Path
) -> None:
    show(dock, qtbot, frames_file)
    assert dock.form.shape == (6, 6)
    assert dock.form.guessed.isVisible()
    assert "(guessed)" in dock.form.candidates.currentText()
    index = dock.form.candidates.findText("4 x 9")
    dock.form.candidates.setCurrentIndex(index)
    dock.form.candidates.activated.emit(index)
    assert dock.form.shape == (4, 9)
    assert not dock.form.guessed.isVisible()
    settle(dock, qtbot)
    with qtbot.waitSignal(dock.open_requested) as opened:
        QTest.mouseClick(dock.open_button, LEFT)
    path, options = opened.args
    assert path == frames_file
    assert options.scan_shape == (4, 9)


def test_typed_shape_offset_and_flyback(dock: LoadPanel, qtbot: QtBot, frames_file: Path) -> None:
    show(dock, qtbot, frames_file)
    for box, keys in ((dock.form.rows, "5"), (dock.form.columns, "6")):
        box.setFocus()
        box.selectAll()
        QTest.keyClicks(box, keys)
        QTest.keyClick(box, Qt.Key.Key_Return)
    assert dock.form.line.text() == "5 x 6 = 30 positions of 36 frames: the last 6 are not used"
    assert dock.form.candidates.currentIndex() == -1
    dock.form.flyback.setValue(1)
    dock.form.offset.setValue(1)
    assert dock.form.fit.verdict == "fits"
    settle(dock, qtbot)
    assert dock.open_button.isEnabled()
    with qtbot.waitSignal(dock.open_requested) as opened:
        QTest.mouseClick(dock.open_button, LEFT)
    options = opened.args[1]
    assert (options.scan_shape, options.frame_offset, options.flyback) == ((5, 6), 1, 1)


def test_shape_that_does_not_fit_cannot_be_opened(
    dock: LoadPanel, qtbot: QtBot, frames_file: Path
) -> None:
    show(dock, qtbot, frames_file)
    dock.form.rows.setValue(7)
    settle(dock, qtbot)
    assert dock.form.line.text() == "7 x 6 = 42 positions of 36 frames: 6 positions have no frame"
    assert not dock.open_button.isEnabled()
    dock.form.rows.setValue(6)
    settle(dock, qtbot)
    assert dock.open_button.isEnabled()


def test_shape_has_to_be_asked_for(dock: LoadPanel, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "frames.npy"
    np.save(path, np.zeros((35, 8, 10), np.uint8))
    show(dock, qtbot, path)
    assert not dock.open_button.isEnabled()
    assert dock.form.shape is None
    assert dock.form.rows.text() == "?"
    dock.form.rows.setValue(5)
    dock.form.columns.setValue(7)
    settle(dock, qtbot)
    assert dock.open_button.isEnabled()


def test_choices_are_remembered_for_each_file(
    dock: LoadPanel, qtbot: QtBot, frames_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.npy"
    np.save(other, np.zeros((5, 7, 8, 10), np.uint16))
    show(dock, qtbot, frames_file)
    dock.form.rows.setValue(3)
    dock.form.columns.setValue(11)
    dock.form.offset.setValue(2)
    show(dock, qtbot, other)
    assert dock.form.shape == (5, 7)
    assert dock.form.offset.value() == 0
    show(dock, qtbot, frames_file)
    assert dock.form.shape == (3, 11)
    assert dock.form.offset.value() == 2


def test_newest_file_wins(dock: LoadPanel, qtbot: QtBot, frames_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.npy"
    np.save(other, np.zeros((5, 7, 8, 10), np.uint16))
    for path in (other, frames_file, other):
        dock.show_info(path)
    qtbot.waitUntil(lambda: dock.report is not None)
    qtbot.wait(100)
    assert dock.report is not None
    assert dock.report.path == other
    assert dock.form.shape == (5, 7)
    assert dock.file_label.toolTip() == str(other)


def test_dropped_file_is_shown(dock: LoadPanel, qtbot: QtBot, frames_file: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(frames_file))])
    actions = Qt.DropAction.CopyAction
    event = QDropEvent(QPointF(5, 5), actions, data, LEFT, Qt.KeyboardModifier.NoModifier)
    dock.dropEvent(event)
    assert event.isAccepted()
    qtbot.waitUntil(lambda: dock.report is not None)
    assert dock.path == frames_file


def test_report_needs_no_gui(frames_file: Path) -> None:
    report = report_on(frames_file)
    assert report.ready
    assert report.info is not None
    assert report.info.scan_shape == (6, 6)


# -- with the rest of the program ------------------------------------------------------------


def test_encoded_file_needs_no_choices(
    dock: LoadPanel, qtbot: QtBot, shared_data: Path, tmp_path: Path
) -> None:
    import napari_4dstem as n4

    path = tmp_path / "scan.ans4d"
    with n4.load(shared_data / "sim_variants" / "var_8x12_roi64x96_u8_master.h5") as scan:
        scan.save(path)
    show(dock, qtbot, path)
    assert dock.banner.headline.text() == "Ready to open"
    assert not dock.form.isVisible()
    assert fact(dock, "Scan") == "8 x 12 positions"
    assert fact(dock, "Camera") == "64 x 96 pixels"
    assert fact(dock, "Full size") == "576.0 KiB"  # 8 * 12 * 64 * 96 bytes
    with qtbot.waitSignal(dock.open_requested) as opened:
        QTest.mouseClick(dock.open_button, LEFT)
    assert opened.args[1].scan_shape is None
    path.write_bytes(path.read_bytes()[:1000])
    show(dock, qtbot, path)
    assert dock.banner.tone == "error"
    assert not dock.open_button.isEnabled()


def test_open_shows_the_scan_in_the_viewer(
    make_napari_viewer: Callable[[], Viewer], qtbot: QtBot, frames_file: Path
) -> None:
    from napari_4dstem.plugin.sessions import session_for

    viewer = make_napari_viewer()
    dock = LoadDock(viewer)
    viewer.window.add_dock_widget(dock, name="load")
    show(dock, qtbot, frames_file)
    dock.form.rows.setValue(4)
    dock.form.columns.setValue(9)
    settle(dock, qtbot)
    QTest.mouseClick(dock.open_button, LEFT)
    assert dock.banner.headline.text() == "Opened frames.npy"
    acquisition = session_for(viewer).acquisition
    assert acquisition is not None
    assert acquisition.shape == (4, 9, 8, 10)
    assert viewer.layers[0].data.shape == (4, 9, 8, 10)
    frames_file.unlink()
    QTest.mouseClick(dock.open_button, LEFT)
    assert dock.banner.tone == "error"
    assert dock.banner.headline.text()
    session_for(viewer).close()
