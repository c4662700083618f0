"""A stacked bar with its legend: parts of a whole, told apart by colour and by pattern.

Knows nothing of memory: it draws parts with a name, a size and a text.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from qtpy.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from qtpy.QtGui import (
    QBrush,
    QColor,
    QHelpEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
    QPolygonF,
)
from qtpy.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolTip, QWidget
from superqt import QFlowLayout

_LEAST_PX = 3
_TICK_PX = 5


@dataclass(frozen=True)
class Segment:
    """One part.

    Attributes
    ----------
    key
        Stable name.
    label, figure
        For people: "other programs", "5.10 GiB".
    size
        Share of the bar, in any unit.
    colour
        Of the fill; None takes a shade of the text colour, strength `shade`.
    pattern
        Laid over the fill, so that parts differ without their colour.
    shade
        0 (invisible) to 1 (as strong as text), used where `colour` is None.
    """

    key: str
    label: str
    figure: str
    size: int
    colour: QColor | None = None
    pattern: Qt.BrushStyle = Qt.BrushStyle.NoBrush
    shade: float = 0.0

    def fill(self, palette: QPalette) -> QColor:
        """Return the colour on this background."""
        if self.colour is not None:
            return self.colour
        ink, paper = palette.color(QPalette.ColorRole.WindowText), _paper(palette)
        return _mixed(ink, paper, self.shade)


def segment_widths(sizes: Sequence[int], width: int, least: int = _LEAST_PX) -> list[int]:
    """Share `width` pixels among parts; whatever is not zero stays visible.

    Parameters
    ----------
    sizes
        Of the parts, not negative.
    width
        Pixels; the result adds up to it if any size is positive.
    least
        Pixels of a part that is not zero; the largest part pays for it.
    """
    total = sum(sizes)
    if total == 0 or width <= 0:
        return [0] * len(sizes)
    edges, done = [0], 0
    for size in sizes:
        done += size
        edges.append(round(width * done / total))
    widths = [b - a for a, b in itertools.pairwise(edges)]
    for i, size in enumerate(sizes):
        lack = min(least, width // len(sizes)) - widths[i]
        if size and lack > 0:
            widths[i] += lack
            widths[widths.index(max(widths))] -= lack
    return widths


class StackedBar(QWidget):
    """The bar. Hover a part for its name and figure.

    Parameters
    ----------
    parent
        Qt parent.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.segments: tuple[Segment, ...] = ()
        self.tick: float | None = None
        self.tick_text = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_segments(
        self, segments: Sequence[Segment], *, tick: float | None = None, tick_text: str = ""
    ) -> None:
        """Show `segments` from left to right, and a tick at this fraction (0 to 1) of the bar."""
        shown = (tuple(segments), tick, tick_text)
        if shown != (self.segments, self.tick, self.tick_text):
            self.segments, self.tick, self.tick_text = shown
            self.setAccessibleDescription(", ".join(f"{s.label} {s.figure}" for s in segments))
            self.update()

    def sizeHint(self) -> QSize:
        """Return the size that shows a line of text comfortably."""
        return QSize(280, self.fontMetrics().height() + 10 + _TICK_PX)

    def minimumSizeHint(self) -> QSize:
        """Return the least useful size."""
        return QSize(120, self.sizeHint().height())

    def boxes(self) -> list[tuple[Segment, QRectF]]:
        """Return the segments with their places, in this widget's coordinates."""
        widths = segment_widths([s.size for s in self.segments], self.width())
        boxes, left = [], 0
        for segment, width in zip(self.segments, widths, strict=True):
            box = QRectF(left, _TICK_PX, width, self.height() - _TICK_PX)
            boxes.append((segment, box))
            left += width
        return boxes

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the bar."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        frame = QRectF(0, _TICK_PX, self.width(), self.height() - _TICK_PX)
        outline = QPainterPath()
        outline.addRoundedRect(frame.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        painter.save()
        painter.setClipPath(outline)
        for segment, box in self.boxes():
            self._draw_segment(painter, segment, box)
        painter.restore()
        ink, paper = self.palette().color(QPalette.ColorRole.WindowText), _paper(self.palette())
        painter.setPen(QPen(_mixed(ink, paper, 0.45), 1))
        painter.drawPath(outline)
        if self.tick is not None and 0 <= self.tick <= 1:
            self._draw_tick(painter, ink, paper)

    def _draw_segment(self, painter: QPainter, segment: Segment, box: QRectF) -> None:
        if box.width() <= 0:
            return
        draw_fill(painter, segment, box, self.palette())
        painter.fillRect(
            QRectF(box.right() - 1, box.top(), 1, box.height()), _paper(self.palette())
        )
        for text in (f"{segment.label} {segment.figure}", segment.label):
            if self.fontMetrics().horizontalAdvance(text) + 10 <= box.width():
                painter.setPen(_readable_on(segment.fill(self.palette())))
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
                return

    def _draw_tick(self, painter: QPainter, ink: QColor, paper: QColor) -> None:
        x = round((self.tick or 0) * (self.width() - 1)) + 0.5
        painter.setPen(QPen(paper, 3))
        painter.drawLine(QPointF(x, _TICK_PX), QPointF(x, self.height()))
        painter.setPen(QPen(ink, 1.2))
        painter.drawLine(QPointF(x, _TICK_PX - 1), QPointF(x, self.height()))
        painter.setBrush(ink)
        painter.setPen(Qt.PenStyle.NoPen)
        triangle = [QPointF(x - _TICK_PX, 0), QPointF(x + _TICK_PX, 0), QPointF(x, _TICK_PX + 1)]
        painter.drawPolygon(QPolygonF(triangle))

    def event(self, event: QEvent | None) -> bool:
        """Show the part under the mouse, and the widget's own tool tip below it."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            texts = (self._tip_at(event.pos().x()), self.toolTip())
            QToolTip.showText(event.globalPos(), "\n\n".join(t for t in texts if t), self)
            return True
        return bool(super().event(event))

    def _tip_at(self, x: int) -> str:
        if self.tick is not None and abs(x - self.tick * self.width()) <= _TICK_PX:
            return self.tick_text
        for segment, box in self.boxes():
            if box.left() <= x < box.right():
                return f"{segment.label} {segment.figure}"
        return ""


class Legend(QWidget):
    """Names and figures of a bar's parts, each beside a swatch like its part; wraps to the width.

    Parameters
    ----------
    parent
        Qt parent.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.entries: dict[str, LegendEntry] = {}
        self._layout = QFlowLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setHorizontalSpacing(12)
        self._layout.setVerticalSpacing(1)

    def set_segments(self, segments: Sequence[Segment]) -> None:
        """List the parts that are not zero; one that came once stays, so that nothing jumps."""
        shown = [s for s in segments if s.size or s.key in self.entries]
        if [s.key for s in shown] != list(self.entries):
            self._arrange([s.key for s in shown])
        for segment in shown:
            self.entries[segment.key].set_segment(segment)

    def _arrange(self, keys: Sequence[str]) -> None:
        while self._layout.takeAt(0) is not None:
            pass
        self.entries = {key: self.entries.get(key) or LegendEntry(self) for key in keys}
        for entry in self.entries.values():
            self._layout.addWidget(entry)


class LegendEntry(QWidget):
    """A swatch, a name and a figure."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.swatch, self.label = _Swatch(self), QLabel(self)
        self.label.setIndent(0)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(5)
        layout.addWidget(self.swatch)
        layout.addWidget(self.label)

    def set_segment(self, segment: Segment) -> None:
        """Show this part."""
        self.swatch.segment = segment
        text = f"{segment.label} {segment.figure}"
        if self.label.text() != text:
            self.label.setText(text)
        self.swatch.update()


class _Swatch(QWidget):
    """A sample of a part's colour and pattern."""

    segment: Segment | None = None

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFixedSize(14, 12)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the sample."""
        if self.segment is None:
            return
        painter = QPainter(self)
        draw_fill(painter, self.segment, QRectF(self.rect()), self.palette())
        ink, paper = self.palette().color(QPalette.ColorRole.WindowText), _paper(self.palette())
        painter.setPen(QPen(_mixed(ink, paper, 0.45), 1))
        painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))


def draw_fill(painter: QPainter, segment: Segment, box: QRectF, palette: QPalette) -> None:
    """Fill `box` as the part is filled."""
    fill = segment.fill(palette)
    painter.fillRect(box, fill)
    if segment.pattern != Qt.BrushStyle.NoBrush:
        lines = QColor(_readable_on(fill))
        lines.setAlpha(90)
        painter.fillRect(box, QBrush(lines, segment.pattern))


def _paper(palette: QPalette) -> QColor:
    return palette.color(QPalette.ColorRole.Window)


def _mixed(ink: QColor, paper: QColor, share: float) -> QColor:
    pairs = zip(ink.getRgb()[:3], paper.getRgb()[:3], strict=True)
    return QColor(*(round(share * a + (1 - share) * b) for a, b in pairs))


def _readable_on(fill: QColor) -> QColor:
    luminance = 0.2126 * fill.redF() + 0.7152 * fill.greenF() + 0.0722 * fill.blueF()
    return QColor("#101216") if luminance > 0.45 else QColor("#f4f5f7")
