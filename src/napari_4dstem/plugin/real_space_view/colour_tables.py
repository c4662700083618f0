"""Colour tables for images drawn by us, and colours that stay readable on either theme.

Display scales (square root, logarithm) are folded into the table: a new image then costs one
look-up a pixel whatever the scale is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from cmap import Colormap
from numpy.typing import NDArray
from qtpy.QtGui import QColor

DisplayScale = Literal["linear", "sqrt", "log"]
DISPLAY_SCALES: tuple[DisplayScale, ...] = get_args(DisplayScale)
IMAGE_COLORMAPS = ("gray", "gray_r", "viridis", "inferno", "magma", "cividis", "turbo")

TABLE_SIZE = 4096  # fine enough that the darkest step of the logarithm is one shade
_LOG_SPAN = 1000.0  # the logarithm covers three decades between the two levels


@lru_cache(maxsize=32)
def colour_table(colormap: str, scale: DisplayScale = "linear") -> NDArray[np.uint32]:
    """Look-up table from a place between the levels to an opaque colour.

    Parameters
    ----------
    colormap
        Name known to ``cmap``.
    scale
        ``"linear"``, ``"sqrt"``, or ``"log"`` (three decades between the levels).

    Returns
    -------
    uint32, shape (4096,)
        RGBA bytes in memory order, one element a colour. Read-only.
    """
    place = np.linspace(0.0, 1.0, TABLE_SIZE)
    if scale == "sqrt":
        place = np.sqrt(place)
    elif scale == "log":
        place = np.log1p(_LOG_SPAN * place) / np.log1p(_LOG_SPAN)
    colours = Colormap(colormap)(place)
    table = np.ascontiguousarray(np.round(np.asarray(colours) * 255), dtype=np.uint8)
    table[:, 3] = 255
    packed = table.view(np.uint32).ravel()
    packed.flags.writeable = False
    return packed


def _luminance(colour: QColor) -> float:
    """Relative luminance (WCAG 2), 0 for black to 1 for white."""
    channels = np.array([colour.redF(), colour.greenF(), colour.blueF()])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(first: QColor, second: QColor) -> float:
    """Contrast ratio of two colours (WCAG 2), 1 to 21."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def readable(colour: QColor, background: QColor, *, ratio: float = 4.5) -> QColor:
    """Return `colour`, darkened or lightened just enough to be read on `background`.

    Parameters
    ----------
    colour, background
        A detector's colour and what lies behind its name.
    ratio
        Contrast ratio to reach; 4.5 is the usual limit for small text.
    """
    hue, saturation, lightness, alpha = colour.getHslF()
    step = -0.02 if _luminance(background) > 0.18 else 0.02
    result = QColor(colour)
    while contrast(result, background) < ratio and 0.0 < lightness < 1.0:
        lightness = min(max(lightness + step, 0.0), 1.0)
        result = QColor.fromHslF(hue, saturation, lightness, alpha)
    return result
