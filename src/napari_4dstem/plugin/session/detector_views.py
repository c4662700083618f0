"""A virtual detector as the session keeps it: shape, name, colour, and whether it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.detectors import Annulus, Circle, Pair, Shape

PRESET_COLOURS = {
    "BF": "#4dd0e1",
    "ABF": "#81c784",
    "LAADF": "#ffe066",
    "ADF": "#ffa94d",
    "HAADF": "#f783ac",
}
_OTHER_COLOURS = ("#b197fc", "#74c0fc", "#a9e34b", "#ff8787", "#63e6be", "#e599f7")


@dataclass(frozen=True)
class DetectorView:
    """One virtual detector.

    Parameters
    ----------
    name
        Short and unique in its session: ``"BF"``.
    colour
        ``"#rrggbb"`` of its rings, chip and image title.
    shape
        Pixels of the camera that it sums.
    visible
        Whether rings and image are shown (and kept up to date).
    preset
        Whether the shape is still the one its preset gave.
    """

    name: str
    colour: str
    shape: Shape
    visible: bool = True
    preset: bool = False


def free_name(taken: Iterable[str]) -> str:
    """Return the first of D1, D2, ... that is not taken."""
    used = set(taken)
    return next(name for i in range(1, len(used) + 2) if (name := f"D{i}") not in used)


def colour_of(name: str, used: Iterable[str]) -> str:
    """Return the colour of a preset, or one for another detector that is not in use."""
    if name in PRESET_COLOURS:
        return PRESET_COLOURS[name]
    taken = list(used)
    return min(_OTHER_COLOURS, key=lambda c: (taken.count(c), _OTHER_COLOURS.index(c)))


def radii(shape: Shape) -> tuple[float, float] | None:
    """Return (inner, outer) radius of a round detector in pixels, None of another."""
    if isinstance(shape, Circle):
        return 0.0, shape.radius
    if isinstance(shape, Annulus):
        return shape.inner, shape.outer
    return None


def center_of(shape: Shape) -> Pair | None:
    """Return the (row, col) centre of a shape, None if it has none."""
    center: Pair | None = getattr(shape, "center", None)
    return center


def round_shape(center: Pair, inner: float, outer: float) -> Circle | Annulus:
    """Return the circle, or for an inner radius above 0 the annulus, of two radii."""
    low, high = sorted((max(0.0, inner), max(0.0, outer)))
    return Circle(center, high) if low == 0 else Annulus(center, low, high)


def range_text(shape: Shape, unit: str, step: float) -> str:
    """Return the radii for people: ``"0 – 17.5 px · 0 – 22.1 mrad"``."""
    both = radii(shape)
    if both is None:
        return shape.describe()
    texts = [f"{both[0]:.4g} – {both[1]:.4g} px"]
    if unit != "px":
        texts.append(f"{both[0] * step:.3g} – {both[1] * step:.3g} {unit}")
    return " · ".join(texts)


def coverage_texts(
    shape: Shape, detector_shape: tuple[int, int], masked: NDArray[np.bool_] | None
) -> tuple[str, str]:
    """Return how much of a detector counts: ``("90% inside", "4 px masked")``.

    Parameters
    ----------
    shape
        The detector.
    detector_shape
        (rows, columns) of the camera.
    masked
        bool, camera shape: pixels that never count; None: all do.
    """
    reason = shape.empty_reason(detector_shape)
    if reason is not None:
        return reason, ""
    inside, both = shape.mask(detector_shape), radii(shape)
    lost = 0 if masked is None else int((inside & masked).sum())
    whole = math.pi * (both[1] ** 2 - both[0] ** 2) if both is not None else 0.0
    # pixels are counted whole, so a small or a thin detector may seem to have another area
    share = 1.0 if whole < 200 else min(1.0, inside.sum() / whole)
    extent = f"{int(inside.sum())} px" if share > 0.98 else f"{share:.0%} inside"
    return extent, f"{lost} px masked" if lost else "none masked"


def mean_step(step: tuple[float, float]) -> float:
    """Return the size of a pixel for radii, where the two axes may differ a little."""
    return (step[0] + step[1]) / 2
