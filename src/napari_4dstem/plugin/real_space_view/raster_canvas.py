"""The drawing surface of a real-space image: pixels, crosshair, scale bar, marks, and the mouse.

pyqtgraph draws by raster painting, so this may float, be dragged and docked again where a second
OpenGL canvas would lose its context. Coordinates of the view are physical: x = column times
column step, y = row times row step, downwards; that makes pixels square by their physical size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from qtpy.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from qtpy.QtGui import (
    QBrush,
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPalette,
    QPen,
    QPolygonF,
)
from qtpy.QtWidgets import QWidget

from napari_4dstem.plugin.real_space_view.scale_bar import ScaleBar

OVERLOAD_COLOUR = QColor("#ff40d0")
_FIT_PADDING = 0.015


class _Pixels(pg.ImageItem):  # type: ignore[misc]
    """An image whose pixels are sharp when enlarged and averaged when there is no room for all."""

    def paint(self, painter: QPainter, *args: Any) -> None:
        shrunk = abs(painter.worldTransform().m11()) < 1.0
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, shrunk)
        super().paint(painter, *args)


class RasterCanvas(pg.GraphicsView):  # type: ignore[misc]
    """Shows RGBA pixels with a crosshair and a scale bar; reports where the mouse is.

    Parameters
    ----------
    parent
        Qt parent.

    Attributes
    ----------
    picked
        Scan row and column (not rounded) where the user clicks, drags, or hovers with Alt.
    hovered
        Scan row and column under the pointer.
    pointer_left
        The pointer went away.
    """

    picked = Signal(float, float)
    hovered = Signal(float, float)
    pointer_left = Signal()
    view_changed = Signal(QRectF)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, useOpenGL=False, background=None)
        self.setCacheMode(self.CacheModeFlag.CacheNone)  # hatching moves with the view
        self.scale_bar = ScaleBar()
        self._box = pg.ViewBox(lockAspect=True, invertY=True, enableMenu=False)
        self._box.disableAutoRange()
        self._item = _Pixels(axisOrder="row-major")
        self._box.addItem(self._item, ignoreBounds=True)
        self.setCentralItem(self._box)
        self._shape = (0, 0)
        self._step = (1.0, 1.0)
        self._cursor: tuple[int, int] | None = None
        self._marks: NDArray[np.intp] | None = None
        self._holes = False
        self._message = ""
        self._fitted = True
        self._picking = False
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setMinimumSize(96, 96)
        self._box.sigResized.connect(self._refit)
        self._box.sigRangeChangedManually.connect(self._moved_by_hand)
        self.apply_theme()

    # -- what is shown ---------------------------------------------------------------------

    def set_pixels(self, rgba: NDArray[np.uint8], step: tuple[float, float], unit: str) -> None:
        """Show an image.

        Parameters
        ----------
        rgba
            uint8, shape (rows, columns, 4).
        step
            Distance of neighbouring rows and columns, in `unit`; above 0.
        unit
            ``"nm"`` or ``"px"``.
        """
        self._item.setImage(rgba, autoLevels=False, levels=None)
        rows, columns = rgba.shape[:2]
        if (rows, columns) != self._shape or step != self._step:
            self._shape, self._step = (rows, columns), step
            self._item.setRect(self._image_rect())
            self._box.setLimits(minXRange=2 * step[1], minYRange=2 * step[0])
            self._fitted = True
            self._refit()
        self.scale_bar.unit = unit
        self._message = ""
        self.viewport().update()

    def set_marks(self, marks: NDArray[np.bool_] | None, *, holes: bool) -> None:
        """Mark positions (bool, shape (rows, columns)) as overloaded; say whether holes show."""
        self._marks = None if marks is None or not marks.any() else np.argwhere(marks)
        self._holes = holes

    def set_message(self, text: str) -> None:
        """Show a line of text instead of an image."""
        self._item.clear()
        self._shape = (0, 0)
        self._message = text
        self.viewport().update()

    def set_cursor(self, cursor: tuple[int, int] | None) -> None:
        """Put the crosshair on a scan position (row, column), or take it away."""
        if cursor != self._cursor:
            self._cursor = cursor
            self.viewport().update()

    def fit(self) -> None:
        """Show the whole image, and keep doing so when the widget is resized."""
        self._fitted = True
        self._refit()

    def show_rect(self, rect: QRectF) -> None:
        """Show a part of the image, in physical units (x, y, width, height)."""
        self._fitted = False
        self._box.setRange(rect, padding=0)
        self.viewport().update()

    def _image_rect(self) -> QRectF:
        (rows, columns), (row_step, column_step) = self._shape, self._step
        return QRectF(-0.5 * column_step, -0.5 * row_step, columns * column_step, rows * row_step)

    def _refit(self, *_: object) -> None:
        if self._fitted and self._shape[0]:
            self._box.setRange(self._image_rect(), padding=_FIT_PADDING)
        self.viewport().update()

    def _moved_by_hand(self, *_: object) -> None:
        self._fitted = False
        self.viewport().update()
        self.view_changed.emit(self._box.viewRect())

    # -- coordinates -----------------------------------------------------------------------

    def point_of(self, row: float, column: float) -> QPointF:
        """Logical pixel of the viewport at which a scan position is drawn."""
        physical = QPointF(column * self._step[1], row * self._step[0])
        return QPointF(self.viewportTransform().map(self._box.mapViewToScene(physical)))

    def position_at(self, point: QPointF) -> tuple[float, float]:
        """Scan row and column (not rounded) at a logical pixel of the viewport."""
        scene = self.viewportTransform().inverted()[0].map(point)
        physical = self._box.mapSceneToView(scene)
        return physical.y() / self._step[0], physical.x() / self._step[1]

    def image_area(self) -> QRectF:
        """Where the image lies, in logical pixels of the viewport."""
        rows, columns = self._shape
        return QRectF(self.point_of(-0.5, -0.5), self.point_of(rows - 0.5, columns - 0.5))

    # -- drawing over and under the image --------------------------------------------------

    def apply_theme(self) -> None:
        """Take the background from the palette, which napari's themes set."""
        self.setBackground(self.palette().color(QPalette.ColorRole.Window))

    def changeEvent(self, event: QEvent | None) -> None:
        """Follow a new theme."""
        super().changeEvent(event)
        kinds = (QEvent.Type.PaletteChange, QEvent.Type.StyleChange)
        if event is not None and event.type() in kinds and hasattr(self, "_message"):
            self.apply_theme()

    def _ink(self) -> QColor:
        return QColor(self.palette().color(QPalette.ColorRole.WindowText))

    def drawBackground(self, painter: QPainter | None, rect: QRectF) -> None:
        """Hatch what shows through where nothing was recorded."""
        super().drawBackground(painter, rect)
        if painter is None or not self._holes or not self._shape[0]:
            return
        ink = self._ink()
        ink.setAlpha(90)
        painter.save()
        painter.resetTransform()
        painter.fillRect(self.image_area(), QBrush(ink, Qt.BrushStyle.BDiagPattern))
        painter.restore()

    def drawForeground(self, painter: QPainter | None, rect: QRectF) -> None:
        """Draw marks, crosshair and scale bar, or the message."""
        if painter is None:
            return
        painter.save()
        painter.resetTransform()
        painter.setFont(self.font())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        view = QRectF(self.viewport().rect())
        if not self._shape[0]:
            painter.setPen(self._ink())
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(view.adjusted(8, 8, -8, -8), int(flags), self._message)
        else:
            self._paint_marks(painter)
            self._paint_crosshair(painter, view)
            scale = abs(self.point_of(0, 1).x() - self.point_of(0, 0).x()) / self._step[1]
            self.scale_bar.paint(painter, self.image_area(), view, scale, self._ink())
        painter.restore()

    def _paint_marks(self, painter: QPainter) -> None:
        if self._marks is None:
            return
        origin, unit = self.point_of(0, 0), self.point_of(1, 1)
        width, height = unit.x() - origin.x(), unit.y() - origin.y()
        size = min(max(min(width, height) * 0.5, 1.5), 6.0)
        painter.setPen(QPen(OVERLOAD_COLOUR, size, cap=Qt.PenCapStyle.RoundCap))
        points = QPolygonF(
            [QPointF(origin.x() + c * width, origin.y() + r * height) for r, c in self._marks]
        )
        painter.drawPoints(points)

    def _paint_crosshair(self, painter: QPainter, view: QRectF) -> None:
        if self._cursor is None:
            return
        row, column = self._cursor
        area = self.image_area().intersected(view)
        pixel = QRectF(
            self.point_of(row - 0.5, column - 0.5), self.point_of(row + 0.5, column + 0.5)
        )
        middle = pixel.center()
        # never smaller than 7 px, so that the value inside can still be seen
        grow_x, grow_y = max(0.0, 3.5 - pixel.width() / 2), max(0.0, 3.5 - pixel.height() / 2)
        box = pixel.adjusted(-grow_x, -grow_y, grow_x, grow_y)
        lines = [
            (QPointF(area.left(), middle.y()), QPointF(box.left(), middle.y())),
            (QPointF(box.right(), middle.y()), QPointF(area.right(), middle.y())),
            (QPointF(middle.x(), area.top()), QPointF(middle.x(), box.top())),
            (QPointF(middle.x(), box.bottom()), QPointF(middle.x(), area.bottom())),
        ]
        painter.setBrush(Qt.BrushStyle.NoBrush)
        # dark under light: readable on a bright BF and on a dark ADF image alike
        for colour, width in ((QColor(0, 0, 0, 130), 3.0), (QColor(255, 255, 255, 220), 1.0)):
            painter.setPen(QPen(colour, width))
            for start, end in lines:
                # a line may be empty or run backwards where the cursor is out of view
                if end.x() >= start.x() and end.y() >= start.y():
                    painter.drawLine(start, end)
            painter.drawRect(box)

    # -- mouse and keys --------------------------------------------------------------------

    def _pans(self, event: QMouseEvent) -> bool:
        shift = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        return event.button() != Qt.MouseButton.LeftButton or bool(shift)

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        """Left: take the crosshair along. Middle or Shift and left: pan. Right: zoom."""
        if event is None or self._pans(event):
            super().mousePressEvent(event)
            return
        self._picking = True
        self.picked.emit(*self.position_at(event.position()))
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        """Drag the crosshair, report the position below the pointer."""
        if event is None:
            return
        place = self.position_at(event.position())
        if self._picking:
            self.picked.emit(*place)
            event.accept()
            return
        super().mouseMoveEvent(event)
        alt = event.modifiers() & Qt.KeyboardModifier.AltModifier
        if alt and event.buttons() == Qt.MouseButton.NoButton:
            self.picked.emit(*place)
        self.hovered.emit(*place)

    def mouseReleaseEvent(self, event: QMouseEvent | None) -> None:
        """End a drag."""
        if self._picking and event is not None and event.button() == Qt.MouseButton.LeftButton:
            self._picking = False
            event.accept()
            return
        super().mouseReleaseEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent | None) -> None:
        """Show the whole image again."""
        self.fit()

    def leaveEvent(self, event: QEvent | None) -> None:
        """Say that the pointer is gone."""
        super().leaveEvent(event)
        self.pointer_left.emit()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Leave every key to the window: arrows move the scan position there."""
        if event is not None:
            event.ignore()
