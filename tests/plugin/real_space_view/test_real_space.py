"""The real-space view: what is drawn where, what the mouse does, what the read-out says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyqtgraph as pg
import pytest
from numpy.typing import NDArray
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QCoreApplication, QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QColor, QImage, QKeyEvent, QMouseEvent, QPalette, QWheelEvent
from qtpy.QtTest import QTest

from napari_4dstem.errors import UsageError
from napari_4dstem.plugin.real_space_view.colour_tables import contrast, readable
from napari_4dstem.plugin.real_space_view.levels import (
    histogram,
    histogram_range,
    robust_levels,
    sample_values,
)
from napari_4dstem.plugin.real_space_view.number_text import grouped, short_text, value_text
from napari_4dstem.plugin.real_space_view.real_space import RealSpaceView, link_views
from napari_4dstem.plugin.real_space_view.scale_bar import length_text, nice_length

ROWS, COLUMNS = 5, 7


def ramp() -> NDArray[np.int64]:
    return np.arange(ROWS * COLUMNS, dtype=np.int64).reshape(ROWS, COLUMNS) * 100


@pytest.fixture
def view(qtbot: QtBot) -> RealSpaceView:
    widget = RealSpaceView()
    qtbot.addWidget(widget)
    widget.resize(420, 460)
    with qtbot.waitExposed(widget):
        widget.show()
    widget.set_image(ramp())
    return widget


def point(view: RealSpaceView, row: float, column: float) -> QPoint:
    return view.canvas.point_of(row, column).toPoint()


def colour_at(view: RealSpaceView, row: float, column: float) -> QColor:
    """Colour really drawn at a scan position, from a picture of the widget."""
    picture: QImage = view.canvas.grab().toImage()
    ratio = picture.devicePixelRatio()
    place = view.canvas.point_of(row, column) * ratio
    return picture.pixelColor(place.toPoint())


# -- geometry --------------------------------------------------------------------------------


def test_row_zero_is_on_top_and_pixel_i_is_centred_at_i(view: RealSpaceView) -> None:
    area = view.canvas.image_area()
    first, last = view.canvas.point_of(0, 0), view.canvas.point_of(ROWS - 1, COLUMNS - 1)
    pixel = area.width() / COLUMNS
    assert first.x() == pytest.approx(area.left() + pixel / 2)
    assert first.y() == pytest.approx(area.top() + pixel / 2)
    assert last.y() > first.y()
    assert last.x() > first.x()
    assert colour_at(view, 0, 0).red() < 10
    assert colour_at(view, ROWS - 1, COLUMNS - 1).red() > 245
    # the value of every pixel is drawn in every corner of that pixel, and nowhere else
    for offset in (-0.4, 0.4):
        assert colour_at(view, 2 + offset, 3 - offset) == colour_at(view, 2, 3)


def test_pixels_are_square_by_their_physical_step(view: RealSpaceView) -> None:
    view.set_image(ramp(), step=(0.4, 0.1), unit="nm")
    area = view.canvas.image_area()
    assert (area.height() / ROWS) / (area.width() / COLUMNS) == pytest.approx(4.0, rel=1e-6)
    assert view.canvas.viewport().rect().contains(area.toRect())


def test_image_fills_the_widget_and_refits_on_resize(view: RealSpaceView, qtbot: QtBot) -> None:
    for size in ((300, 560), (640, 320)):
        view.resize(*size)
        qtbot.wait(30)
        area, seen = view.canvas.image_area(), view.canvas.viewport().rect()
        assert max(area.width() / seen.width(), area.height() / seen.height()) > 0.95
        assert seen.contains(area.toRect())


@pytest.mark.parametrize(
    ("longest", "smallest", "expected"),
    [(10, 0, 10), (9.99, 0, 5), (0.3, 0, 0.2), (0.19999, 0, 0.1), (4.2e-3, 0, 2e-3), (0.4, 1, 1)],
)
def test_scale_bar_length_is_1_2_5(longest: float, smallest: float, expected: float) -> None:
    assert nice_length(longest, smallest=smallest) == pytest.approx(expected)


def test_scale_bar_text() -> None:
    assert length_text(0.2, "nm") == "0.2 nm"
    assert length_text(5000.0, "nm") == "5 µm"
    assert length_text(50.0, "px") == "50 px"


def test_scale_bar_is_as_long_as_it_says(view: RealSpaceView) -> None:
    view.set_image(np.zeros((20, 30)), step=(0.5, 0.25), unit="nm")
    view.canvas.grab()
    bar = view.canvas.scale_bar
    assert bar.text == "2 nm"
    columns = bar.length / 0.25
    drawn = view.canvas.point_of(0, columns).x() - view.canvas.point_of(0, 0).x()
    assert 36 <= drawn <= 0.31 * view.canvas.image_area().width()
    view.set_image(np.zeros((20, 30)))
    view.canvas.grab()
    assert bar.text == "5 px"


# -- mouse -----------------------------------------------------------------------------------


def test_click_moves_the_cursor(view: RealSpaceView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.cursor_moved) as moved:
        qtbot.mouseClick(
            view.canvas.viewport(), Qt.MouseButton.LeftButton, pos=point(view, 3.4, 5.4)
        )
    assert moved.args == [3, 5]
    assert view.cursor_position == (3, 5)


def test_drag_moves_the_cursor_and_stops_at_the_edge(view: RealSpaceView) -> None:
    places: list[tuple[int, int]] = []
    view.cursor_moved.connect(lambda r, c: places.append((r, c)))
    port, left = view.canvas.viewport(), Qt.MouseButton.LeftButton
    before = view.canvas.image_area()
    QTest.mousePress(port, left, pos=point(view, 1, 1))
    for column in (2, 3, 4, 9):
        QTest.mouseMove(port, point(view, 1, column))
    QTest.mouseRelease(port, left, pos=point(view, 1, 9))
    QTest.mouseMove(port, point(view, 3, 3))
    assert places == [(1, 1), (1, 2), (1, 3), (1, 4), (1, COLUMNS - 1)]
    assert view.canvas.image_area() == before  # the drag did not pan


def test_hover_moves_the_cursor_only_with_alt(view: RealSpaceView) -> None:
    port = view.canvas.viewport()
    view.set_cursor(0, 0)
    QTest.mouseMove(port, point(view, 2, 2))
    assert view.cursor_position == (0, 0)
    _send_move(view, point(view, 3, 4), Qt.KeyboardModifier.AltModifier)
    assert view.cursor_position == (3, 4)
    _send_move(view, point(view, 1, 1), Qt.KeyboardModifier.NoModifier)
    assert view.cursor_position == (3, 4)


def _send_move(view: RealSpaceView, place: QPoint, modifier: Qt.KeyboardModifier) -> None:
    port = view.canvas.viewport()
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(place),
        QPointF(port.mapToGlobal(place)),
        Qt.MouseButton.NoButton,
        Qt.MouseButton.NoButton,
        modifier,
    )
    QCoreApplication.sendEvent(port, event)


def test_middle_drag_pans_and_double_click_shows_everything(
    view: RealSpaceView, qtbot: QtBot
) -> None:
    port, middle = view.canvas.viewport(), Qt.MouseButton.MiddleButton
    home = view.canvas.image_area()
    view.set_cursor(1, 1)
    QTest.mousePress(port, middle, pos=point(view, 2, 3))
    for step in range(1, 6):
        QTest.mouseMove(port, point(view, 2, 3) + QPoint(8 * step, 0), 20)
    QTest.mouseRelease(port, middle, pos=point(view, 2, 3) + QPoint(40, 0))
    assert abs(view.canvas.image_area().left() - home.left()) > 20
    assert view.cursor_position == (1, 1)
    qtbot.mouseDClick(port, Qt.MouseButton.LeftButton, pos=port.rect().center())
    assert view.canvas.image_area().left() == pytest.approx(home.left(), abs=1)


def test_programmatic_cursor_emits_nothing(view: RealSpaceView) -> None:
    seen: list[object] = []
    view.cursor_moved.connect(lambda *place: seen.append(place))
    view.set_cursor(2, 4)
    assert seen == []
    assert view.cursor_position == (2, 4)


def test_linked_views_share_cursor_and_zoom(qtbot: QtBot, view: RealSpaceView) -> None:
    other = RealSpaceView()
    qtbot.addWidget(other)
    other.resize(300, 300)
    with qtbot.waitExposed(other):
        other.show()
    other.set_image(ramp() + 7)
    link_views([view, other])
    QTest.mouseClick(view.canvas.viewport(), Qt.MouseButton.LeftButton, pos=point(view, 4, 6))
    assert other.cursor_position == (4, 6)
    QTest.mouseClick(other.canvas.viewport(), Qt.MouseButton.LeftButton, pos=point(other, 1, 2))
    assert view.cursor_position == (1, 2)
    wide = other.canvas.image_area().width() / other.width()
    _wheel(view, 4)
    assert view.canvas.image_area().width() / view.width() > 1.2
    assert other.canvas.image_area().width() / other.width() > 1.2 * wide


def _wheel(view: RealSpaceView, notches: int) -> None:
    port = view.canvas.viewport()
    middle = QPointF(port.rect().center())
    event = QWheelEvent(
        middle,
        QPointF(port.mapToGlobal(middle.toPoint())),
        QPoint(),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QCoreApplication.sendEvent(port, event)


# -- read-out --------------------------------------------------------------------------------


def test_readout_follows_the_pointer_and_returns_to_the_cursor(view: RealSpaceView) -> None:
    lines: list[str] = []
    view.readout_changed.connect(lines.append)
    view.set_image(ramp(), step=(0.5, 0.25), unit="nm")
    view.set_cursor(4, 6)
    assert lines[-1] == f"scan (4, 6) · 2, 1.5 nm · {grouped(3400)} counts"
    QTest.mouseMove(view.canvas.viewport(), point(view, 1, 2))
    assert lines[-1] == "scan (1, 2) · 0.5, 0.5 nm · 900 counts"
    QCoreApplication.sendEvent(view.canvas, QEvent(QEvent.Type.Leave))
    assert lines[-1].startswith("scan (4, 6)")


def test_readout_names_missing_and_overloaded_positions(view: RealSpaceView) -> None:
    valid = np.ones((ROWS, COLUMNS), bool)
    valid[1, 2] = False
    overloads = np.zeros((ROWS, COLUMNS), np.int64)
    overloads[3, 4], overloads[2, 2] = 12, 1
    view.set_image(ramp(), valid=valid, overloaded=overloads)
    assert view.readout(1, 2) == "scan (1, 2) · not recorded"
    assert view.readout(3, 4).endswith("12 overloaded pixels")
    assert view.readout(2, 2).endswith("1 overloaded pixel")
    view.set_image(ramp() / 3, value_unit="px")
    assert view.readout(0, 1) == "scan (0, 1) · 33.333 px"


def test_numbers_on_screen() -> None:
    assert value_text(1234567.0) == grouped(1234567) == "1\u202f234\u202f567"
    assert value_text(0.1234567) == "0.12346"
    assert value_text(float("nan")) == "nan"
    numbers = [0.01234, 3914, 12345, 4.56e6, -7.8e9]
    assert [short_text(v) for v in numbers] == ["0.0123", "3\u202f914", "12.3k", "4.56M", "-7.8G"]


# -- colours and levels ----------------------------------------------------------------------


def test_missing_positions_and_nan_show_the_hatching(view: RealSpaceView) -> None:
    values = np.full((ROWS, COLUMNS), 500.0)
    values[0, 0] = np.nan
    valid = np.ones((ROWS, COLUMNS), bool)
    valid[4, 6] = False
    view.set_image(values, valid=valid)
    picture = view.canvas.grab().toImage()
    for row, column in ((0, 0), (4, 6)):
        shades = {
            picture.pixelColor(point(view, row - 0.4 + i / 50, column)).name() for i in range(40)
        }
        assert len(shades) > 1, "a hole is hatched, not one colour"
    drawn = {picture.pixelColor(point(view, 2 - 0.4 + i / 50, 3)).name() for i in range(40)}
    assert len(drawn) == 1


def test_overloaded_positions_are_marked(view: RealSpaceView) -> None:
    overloaded = np.zeros((ROWS, COLUMNS), bool)
    overloaded[2, 3] = True
    plain = colour_at(view, 2, 3)
    view.set_image(ramp(), overloaded=overloaded)
    marked = colour_at(view, 2, 3)
    assert marked != plain
    assert marked.red() > marked.green() + 100
    assert colour_at(view, 2, 4).saturation() == 0


def test_auto_levels_follow_and_kept_levels_stay(view: RealSpaceView, qtbot: QtBot) -> None:
    view.set_image(ramp() + 10_000)
    assert view.levels[0] >= 10_000
    qtbot.mouseClick(view.auto_button, Qt.MouseButton.LeftButton)
    assert view.levels_mode == "kept"
    kept = view.levels
    view.set_image(ramp())
    assert view.levels == kept
    assert colour_at(view, 4, 6).red() < 10  # far below the kept levels: black
    qtbot.mouseClick(view.auto_button, Qt.MouseButton.LeftButton)
    assert view.levels == (0, 3400)


def test_dragging_a_handle_sets_one_level(view: RealSpaceView) -> None:
    bar, left = view.levels_bar, Qt.MouseButton.LeftButton
    low, high = view.levels
    start = QPoint(round(bar.x_of(high)), 12)
    QTest.mousePress(bar, left, pos=start)
    QTest.mouseMove(bar, start - QPoint(100, 0))
    QTest.mouseRelease(bar, left, pos=start - QPoint(100, 0))
    assert view.levels[0] == low
    assert low < view.levels[1] < high
    assert view.levels_mode == "kept"
    assert not view.auto_button.isChecked()
    assert bar.levels == view.levels
    assert colour_at(view, 4, 6).red() == 255
    QTest.mouseDClick(bar, left, pos=start)
    assert view.levels == (low, high)
    assert view.levels_mode == "auto"


def test_levels_ignore_a_few_odd_positions_but_not_a_lone_atom() -> None:
    rng = np.random.default_rng(5)
    image = rng.poisson(100, (64, 48)).astype(np.int64)
    image[3, 4] = 1_000_000
    low, high = robust_levels(sample_values(image))
    assert 60 < low < 90
    assert 110 < high < 150
    flat = np.zeros((64, 48), np.int64)
    flat[1, 1] = 50
    assert robust_levels(sample_values(flat)) == (0, 50)
    assert robust_levels(sample_values(np.full((3, 4), 7))) == (6.5, 7.5)
    assert robust_levels(np.empty(0)) == (0, 1)


def test_thinned_sample_is_not_fooled_by_a_lattice() -> None:
    image = np.zeros((512, 512), np.int64)
    image[::8, ::8] = 1000  # one position in 64 is bright: 1.6 %
    sample = sample_values(image)
    assert sample.size < 40_000
    assert np.mean(sample == 1000) == pytest.approx(1 / 64, rel=0.1)
    assert robust_levels(sample) == (0, 1000)


def test_histogram_counts_every_value_once() -> None:
    rng = np.random.default_rng(6)
    whole = rng.integers(0, 175, 10_000).astype(float)
    low, high, bins = histogram_range(whole, whole.min(), whole.max(), 96)
    counts = histogram(whole, low, high, bins)
    np.testing.assert_array_equal(counts, np.histogram(whole, bins, (low, high))[0])
    assert counts.sum() == whole.size
    assert (high - low) % bins == 0  # whole bins: as many values in each
    broken = rng.normal(size=1000)
    low, high, bins = histogram_range(broken, broken.min(), broken.max(), 96)
    assert histogram(broken, low, high, bins).sum() == 1000
    assert bins == 96


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log"])
def test_display_scale_spreads_dark_values(view: RealSpaceView, scale: str) -> None:
    view.scale_box.setCurrentText(scale)
    assert colour_at(view, 0, 0).red() < 10
    assert colour_at(view, 4, 6).red() > 245
    place = 300 / 3400
    expected = {
        "linear": place,
        "sqrt": place**0.5,
        "log": np.log1p(1000 * place) / np.log1p(1000),
    }[scale]
    assert colour_at(view, 0, 3).red() == pytest.approx(255 * expected, abs=2)


def test_colour_map_by_name(view: RealSpaceView) -> None:
    view.colormap_box.setCurrentText("inferno")
    assert view.colormap == "inferno"
    assert colour_at(view, 3, 0).saturation() > 50
    view.set_colormap("twilight")  # not in the list: joins it
    assert view.colormap_box.currentText() == "twilight"


def test_title_stays_readable_on_both_themes(view: RealSpaceView) -> None:
    cyan = QColor("#4dd0e1")
    for background in (QColor("white"), QColor("#262930")):
        assert contrast(readable(cyan, background), background) >= 4.5
        palette = QPalette(view.palette())
        palette.setColor(QPalette.ColorRole.Window, background)
        view.setPalette(palette)
        view.set_title("BF", "0 to 17.5 px", cyan)
        assert readable(cyan, background).name() in view.title.styleSheet()
    assert readable(cyan, QColor("#262930")) == cyan  # good enough as it is


def test_badge(view: RealSpaceView) -> None:
    assert not view.badge.isVisible()
    view.set_badge("coarse 124 of 1024")
    assert view.badge.isVisible()
    coarse = view.badge.styleSheet()
    view.set_badge("exact")
    assert view.badge.styleSheet() != coarse


# -- bad input and manners -------------------------------------------------------------------


def test_wrong_shapes_are_refused(view: RealSpaceView) -> None:
    with pytest.raises(UsageError, match="two axes"):
        view.set_image(np.zeros((2, 3, 4)))
    with pytest.raises(UsageError, match="shape of its image"):
        view.set_image(ramp(), valid=np.ones((COLUMNS, ROWS), bool))
    with pytest.raises(UsageError, match="above the low"):
        view.set_levels(3, 3)


def test_message_and_clicks_without_an_image(view: RealSpaceView) -> None:
    view.set_message("Released")
    lines: list[str] = []
    view.readout_changed.connect(lines.append)
    QTest.mouseClick(
        view.canvas.viewport(), Qt.MouseButton.LeftButton, pos=view.canvas.rect().center()
    )
    QTest.mouseMove(view.canvas.viewport(), QPoint(30, 30))
    assert view.cursor_position is None
    assert set(lines) <= {""}
    view.set_image(ramp())
    assert colour_at(view, 4, 6).red() > 245


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1)])
def test_degenerate_scans_are_shown(view: RealSpaceView, shape: tuple[int, int]) -> None:
    view.set_image(np.zeros(shape, np.int64), step=(2.0, 1.0))
    view.set_cursor(shape[0] - 1, shape[1] - 1)
    assert not view.canvas.grab().isNull()
    assert view.canvas.viewport().rect().contains(view.canvas.image_area().toRect())


def test_pyqtgraph_options_are_left_alone(view: RealSpaceView) -> None:
    assert pg.getConfigOption("imageAxisOrder") == "col-major"
    assert pg.getConfigOption("background") == "k"


def test_keys_are_left_to_the_window(view: RealSpaceView) -> None:
    event = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Left, Qt.KeyboardModifier.NoModifier)
    event.accept()
    view.canvas.keyPressEvent(event)
    assert not event.isAccepted()


def test_real_virtual_image(view: RealSpaceView, shared_data: Path) -> None:
    expected = np.load(shared_data / "sim_sto" / "sim_sto_expected.npz")
    adf = expected["adf"]
    view.set_image(adf, step=(0.0244, 0.0244), unit="nm")
    brightest = np.unravel_index(np.argmax(adf), adf.shape)
    assert brightest == (8, 24)
    assert colour_at(view, 8, 24).red() == 255
    assert colour_at(view, 4, 4).red() < 40
    view.canvas.grab()
    assert view.canvas.scale_bar.text == "0.2 nm"
