"""A compact histogram with two handles: what is drawn black and what is drawn white."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from qtpy.QtGui import (
    QColor,
    QImage,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPolygonF,
)
from qtpy.QtWidgets import QSizePolicy, QWidget

from napari_4dstem.plugin.real_space_view.colour_tables import colour_table
from napari_4dstem.plugin.real_space_view.levels import histogram, histogram_range
from napari_4dstem.plugin.real_space_view.number_text import short_text

_BINS = 96
_RAMP_HEIGHT = 6.0
_SIDE = 6.0  # room for half a handle
_GRAB = 9.0  # logical pixels within which a press takes a handle


class LevelsBar(QWidget):
    """Histogram of an image over its colour ramp, with a handle for each level.

    Drag a handle to change a level, the part between them to shift both, double-click for
    automatic levels.

    Parameters
    ----------
    parent
        Qt parent.

    Attributes
    ----------
    levels_changed
        Emitted with the new low and high level while the user drags.
    auto_requested
        Emitted on a double-click.
    """

    levels_changed = Signal(float, float)
    auto_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._counts = np.zeros(_BINS, np.intp)
        self._edges = np.linspace(0.0, 1.0, _BINS + 1)
        self._range = (0.0, 1.0)
        self._levels = (0.0, 1.0)
        self._ramp = QImage()
        self._grabbed: str | None = None
        self._grab_place = (0.0, (0.0, 1.0))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        self.setToolTip("Drag a handle to set black or white; double-click for automatic levels")
        self.set_table(colour_table("gray"))

    @property
    def levels(self) -> tuple[float, float]:
        """The two levels as shown, in values of the image."""
        return self._levels

    def sizeHint(self) -> QSize:
        """Height for the histogram, the ramp and one line of text."""
        return QSize(160, self.minimumSizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Wide enough for both level texts."""
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance("-12.3M") * 2 + 12, 37 + metrics.height())

    def set_table(self, table: NDArray[np.uint32]) -> None:
        """Show another colour ramp (uint32 RGBA, shape (n,), as from ``colour_table``)."""
        row = np.ascontiguousarray(table[:: max(len(table) // 256, 1)])
        image = QImage(row.tobytes(), len(row), 1, 4 * len(row), QImage.Format.Format_RGBA8888)
        self._ramp = image.copy()  # QImage only borrows the bytes
        self.update()

    def set_values(self, sample: NDArray[np.float64], levels: tuple[float, float]) -> None:
        """Show the histogram of `sample` (float64, shape (n,)) and the levels in use."""
        self._levels = levels
        if self._grabbed is None:  # the scale under a held handle stays where it is
            ends = [*levels] + ([float(sample.min()), float(sample.max())] if sample.size else [])
            low, high = min(ends), max(ends)
            self._range = (low, high if high > low else low + 1.0)
        first, last, bins = histogram_range(sample, *self._range, _BINS)
        self._counts = histogram(sample, first, last, bins)
        self._edges = np.linspace(first, last, bins + 1)
        self.update()

    def set_levels(self, levels: tuple[float, float]) -> None:
        """Move the handles; the histogram stays."""
        self._levels = levels
        self.update()

    # -- drawing ---------------------------------------------------------------------------

    def _plot(self) -> QRectF:
        bottom = self.height() - self.fontMetrics().height() - 5.0
        return QRectF(_SIDE, 1.0, self.width() - 2 * _SIDE, bottom - 1.0)

    def x_of(self, value: float) -> float:
        """Horizontal place of a value, in logical pixels."""
        plot, (low, high) = self._plot(), self._range
        return plot.left() + (value - low) / (high - low) * plot.width()

    def _value_at(self, x: float) -> float:
        plot, (low, high) = self._plot(), self._range
        return low + (x - plot.left()) / plot.width() * (high - low)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw histogram, ramp, handles and the two numbers."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ink = self.palette().color(QPalette.ColorRole.WindowText)
        self._paint_histogram(painter, ink)
        self._paint_ramp(painter)
        self._paint_handles(painter, ink)
        painter.end()

    def _paint_histogram(self, painter: QPainter, ink: QColor) -> None:
        plot = self._plot().adjusted(0, 0, 0, -_RAMP_HEIGHT - 1)
        if not self._counts.any():
            return
        # square root: a few bright columns stay visible beside thousands of background pixels
        heights = np.sqrt(self._counts / self._counts.max()) * plot.height()
        low, high = self._range
        edges = plot.left() + (self._edges - low) / (high - low) * plot.width()
        edges = np.clip(edges, plot.left(), plot.right())
        outline = QPolygonF([QPointF(plot.left(), plot.bottom())])
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            outline.append(QPointF(left, plot.bottom() - height))
            outline.append(QPointF(right, plot.bottom() - height))
        outline.append(QPointF(plot.right(), plot.bottom()))
        soft = QColor(ink)
        soft.setAlpha(120)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(soft)
        painter.drawPolygon(outline)

    def _paint_ramp(self, painter: QPainter) -> None:
        plot = self._plot()
        low, high = (min(max(self.x_of(v), plot.left()), plot.right()) for v in self._levels)
        ramp = QRectF(plot.left(), plot.bottom() - _RAMP_HEIGHT, plot.width(), _RAMP_HEIGHT)
        ends = QColor(self._ramp.pixelColor(0, 0)), self._ramp.pixelColor(self._ramp.width() - 1, 0)
        painter.fillRect(ramp, ends[0])
        painter.fillRect(QRectF(high, ramp.top(), ramp.right() - high, ramp.height()), ends[1])
        if high > low:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.drawImage(QRectF(low, ramp.top(), high - low, ramp.height()), self._ramp)

    def _paint_handles(self, painter: QPainter, ink: QColor) -> None:
        plot = self._plot()
        for value in self._levels:
            x = min(max(self.x_of(value), plot.left()), plot.right())
            painter.setPen(ink)
            painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()))
            painter.setBrush(ink)
            top = plot.bottom() - _RAMP_HEIGHT
            grip = [QPointF(x - 5, top + 9), QPointF(x + 5, top + 9), QPointF(x, top)]
            painter.drawPolygon(QPolygonF(grip))
        area = QRectF(0, self.height() - self.fontMetrics().height(), self.width(), 1)
        area.setBottom(self.height())
        painter.setPen(ink)
        painter.drawText(area, Qt.AlignmentFlag.AlignLeft, " " + short_text(self._levels[0]))
        painter.drawText(area, Qt.AlignmentFlag.AlignRight, short_text(self._levels[1]) + " ")

    def changeEvent(self, event: QEvent | None) -> None:
        """Follow a new theme or font."""
        super().changeEvent(event)
        self.update()

    # -- mouse -----------------------------------------------------------------------------

    def _part_at(self, x: float) -> str | None:
        low, high = (self.x_of(v) for v in self._levels)
        near_low, near_high = abs(x - low), abs(x - high)
        if min(near_low, near_high) <= _GRAB:
            # two handles on one spot: the side that is pressed says which one is meant
            if near_low == near_high:
                return "low" if x < low else "high"
            return "low" if near_low < near_high else "high"
        return "both" if low < x < high else None

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        """Take a handle, or both."""
        if event is None or event.button() != Qt.MouseButton.LeftButton:
            return
        x = event.position().x()
        self._grabbed = self._part_at(x)
        self._grab_place = (self._value_at(x), self._levels)
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        """Drag what was taken; otherwise show by the pointer's shape what can be taken."""
        if event is None:
            return
        x = event.position().x()
        if self._grabbed is None:
            shapes = {"both": Qt.CursorShape.SizeHorCursor, None: Qt.CursorShape.ArrowCursor}
            self.setCursor(shapes.get(self._part_at(x), Qt.CursorShape.SplitHCursor))
            return
        start, (low, high) = self._grab_place
        shift = self._value_at(x) - start
        least = (self._range[1] - self._range[0]) * 1e-3
        if self._grabbed == "low":
            low = min(low + shift, high - least)
        elif self._grabbed == "high":
            high = max(high + shift, low + least)
        else:
            low, high = low + shift, high + shift
        self.set_levels((low, high))
        self.levels_changed.emit(low, high)

    def mouseReleaseEvent(self, event: QMouseEvent | None) -> None:
        """Let go."""
        self._grabbed = None

    def mouseDoubleClickEvent(self, event: QMouseEvent | None) -> None:
        """Ask for automatic levels."""
        self._grabbed = None
        self.auto_requested.emit()
