"""The scale bar of an image: a length that is easy to read, and where to put it."""

from __future__ import annotations

import math

from qtpy.QtCore import QPointF, QRectF, Qt
from qtpy.QtGui import QColor, QFontMetricsF, QPainter

_PADDING = 5.0  # logical pixels around the bar's text
_BAR_HEIGHT = 3.0
_MARGIN = 8.0  # between the plate and the edge of the image


def nice_length(longest: float, *, smallest: float = 0.0) -> float:
    """Largest 1, 2 or 5 times a power of ten that is not above `longest`.

    Parameters
    ----------
    longest
        Longest acceptable length, in any unit; above 0.
    smallest
        Never go below this (1 for pixels).
    """
    power = 10.0 ** math.floor(math.log10(longest))
    # 1e-9: a length that is a nice number but for rounding is that nice number
    factor = next((f for f in (5.0, 2.0) if f * power <= longest * (1 + 1e-9)), 1.0)
    return max(factor * power, smallest)


def length_text(length: float, unit: str) -> str:
    """Write a length of 1-2-5 form with its unit; large ones in nm become µm or mm."""
    if unit == "nm" and length >= 1e6:
        length, unit = length / 1e6, "mm"
    elif unit == "nm" and length >= 1e3:
        length, unit = length / 1e3, "µm"
    return f"{length:.10g} {unit}"


class ScaleBar:
    """Draws a scale bar below, beside or, where there is no room, on an image.

    Parameters
    ----------
    unit
        Unit of the view's coordinates: ``"nm"`` or ``"px"``.
    """

    def __init__(self, unit: str = "px") -> None:
        self.unit = unit
        self.length = 0.0  # in units, as last drawn
        self.text = ""

    def paint(
        self, painter: QPainter, image: QRectF, view: QRectF, pixels_per_unit: float, ink: QColor
    ) -> None:
        """Draw the bar.

        Parameters
        ----------
        painter
            In logical pixels of the view.
        image, view
            Where the image lies, and what can be seen, in logical pixels.
        pixels_per_unit
            Logical pixels per unit along the columns.
        ink
            Colour outside the image; on the image the bar is white on a dark plate.
        """
        seen = image.intersected(view)
        if seen.width() < 40 or pixels_per_unit <= 0:
            self.length, self.text = 0.0, ""
            return
        longest = min(max(seen.width() * 0.3, 36.0), 150.0) / pixels_per_unit
        self.length = nice_length(longest, smallest=1.0 if self.unit == "px" else 0.0)
        self.text = length_text(self.length, self.unit)
        metrics = QFontMetricsF(painter.font())
        bar = self.length * pixels_per_unit
        width = max(bar, metrics.horizontalAdvance(self.text)) + 2 * _PADDING
        height = metrics.height() + _BAR_HEIGHT + 1.5 * _PADDING
        plate, outside = _place(seen, view, width, height)
        if not outside:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(0, 0, 0, 150))
            painter.drawRoundedRect(plate, 3, 3)
        self._draw(painter, plate, bar, ink if outside else QColor("white"))

    def _draw(self, painter: QPainter, plate: QRectF, bar: float, ink: QColor) -> None:
        left = plate.center().x() - bar / 2
        top = plate.bottom() - _PADDING / 2 - _BAR_HEIGHT
        painter.fillRect(QRectF(round(left), round(top), round(bar), _BAR_HEIGHT), ink)
        painter.setPen(ink)
        text_area = QRectF(plate.left(), plate.top(), plate.width(), top - plate.top())
        painter.drawText(text_area, Qt.AlignmentFlag.AlignCenter, self.text)


def _place(seen: QRectF, view: QRectF, width: float, height: float) -> tuple[QRectF, bool]:
    """Rectangle for the bar, and whether it lies outside the image."""
    if view.bottom() - seen.bottom() >= height + 2:
        return QRectF(QPointF(seen.right() - width, seen.bottom() + 2), seen.size()).adjusted(
            0, 0, width - seen.width(), height - seen.height()
        ), True
    if view.right() - seen.right() >= width + 4:
        return QRectF(seen.right() + 4, seen.bottom() - height, width, height), True
    return QRectF(
        seen.right() - width - _MARGIN, seen.bottom() - height - _MARGIN, width, height
    ), False
