"""The bright-field disk of a pattern, and the detectors that follow from it.

Detector presets, the origin of the camera axes and centre-of-mass references all start from this
circle. A wrong one that looks right would spoil them silently, so the fit says when it is not
certain, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_4dstem.detectors import Annulus, Circle
from napari_4dstem.disk_edges import Field, Floats, smooth
from napari_4dstem.disk_fit import Disk, measure, search
from napari_4dstem.hot_pixels import checked_pattern, hot_pixels

__all__ = [
    "FACTORS",
    "OCTAVE_FACTORS",
    "Disk",
    "Preset",
    "find_disk",
    "hot_pixels",
    "preset_table",
    "presets",
    "share_on_camera",
]

# The disk is first looked for in a pattern of at most this many pixels across, and measured
# where its radius is at most that many pixels: more would cost time and gain nothing.
_SEARCH_SIZE = 256
_MEASURE_RADIUS = 96
_LEAST_RADIUS = 8.0

Factors = Mapping[str, tuple[float, float | None]]

FACTORS: Factors = MappingProxyType(
    {
        "BF": (0.0, 1.0),
        "ABF": (0.5, 1.0),
        "LAADF": (1.1, 1.5),
        "ADF": (1.5, 3.0),
        "HAADF": (3.0, None),
    }
)
"""Inner and outer radius of each preset in disk radii; None: the largest circle on the camera.

Rings outside the disk end at that circle in any case.
"""

OCTAVE_FACTORS: Factors = MappingProxyType(
    {
        "BF": (0.0, 1.0),
        "ABF": (0.5, 1.0),
        "LAADF": (1.0, 2.0),
        "ADF": (2.0, 4.0),
        "HAADF": (4.0, None),
    }
)
"""The other convention, in which each dark-field ring doubles the angle."""

_LEAST_WIDTH = 3.0

# Larger circles have so many pixels that their area in square pixels is their number.
_COUNTABLE = 4000


def find_disk(pattern: ArrayLike, masked: NDArray[np.bool_] | None = None) -> Disk:
    """Find the bright-field disk: the round plateau that holds the brightest smoothed peak.

    Parameters
    ----------
    pattern
        (rows, columns), counts; best the mean pattern of a scan. Values that are not finite are
        left out.
    masked
        bool, (rows, columns); True = no data. Hot pixels need not be masked, see `hot_pixels`.

    Returns
    -------
    Disk
        A pattern without a disk is no error: ``certain`` is False and ``reason`` says why.

    Raises
    ------
    UsageError
        The pattern is no two-dimensional array of numbers, or the mask has another shape.
    """
    values, known = checked_pattern(pattern, masked)
    if not known.any():
        return _nothing(values.shape, "every pixel is masked")
    if min(values.shape) < 8:
        return _nothing(values.shape, "the pattern is too small for a disk")
    if not np.ptp(values[known]) > 0:
        return _nothing(values.shape, "all pixels are equal")
    disk = _located(values, known)
    return disk or _nothing(values.shape, "no round edge was found")


def _located(values: Floats, known: NDArray[np.bool_]) -> Disk | None:
    """Find the disk in a shrunken pattern, then measure it as finely as its size is worth."""
    shrink = -(-max(values.shape) // _SEARCH_SIZE)
    field = _field(values, known, shrink)
    if not field.weight.any():
        return None
    disk = search(field)
    if shrink == 1:
        return disk
    if disk is None or disk.radius < _LEAST_RADIUS:
        # Too small to be judged when shrunken: look about the brightest place.
        bright = np.nan_to_num(smooth(field, 1.0), nan=-np.inf)
        row, col = np.unravel_index(int(np.argmax(bright)), bright.shape)
        window = _window(values.shape, (row * shrink, col * shrink), max(values.shape) / 8)
        found = _located(values[window], known[window])
        return None if found is None else _moved(found, window)
    return _sharpened(values, known, _scaled(disk, shrink), shrink)


def _sharpened(values: Floats, known: NDArray[np.bool_], disk: Disk, shrink: int) -> Disk:
    """Measure a disk found in a shrunken pattern again where it lies."""
    finer = max(1, int(disk.radius // _MEASURE_RADIUS))
    if finer >= shrink:
        return disk
    window = _window(values.shape, disk.center, 1.6 * disk.radius + 16 * finer, finer)
    start = _moved(disk, window, back=-1)
    row, col = ((c + 0.5) / finer - 0.5 for c in start.center)
    field = _field(values[window], known[window], finer)
    fit = measure(field, Circle((row, col), disk.radius / finer))
    if fit is None:
        return replace(disk, certain=False, reason=disk.reason or "no round edge was found")
    fine = _moved(_scaled(fit.disk, finer), window)
    # What the whole pattern gave reason to doubt stays doubtful.
    reason = disk.reason or fine.reason
    return replace(fine, certain=not reason, reason=reason)


def _window(
    shape: tuple[int, ...], center: tuple[float, float], half: float, whole: int = 1
) -> tuple[slice, slice]:
    """Return the part of a plane within ``half`` pixels of a position, from multiples of whole."""
    row, col = (
        slice(max(0, int(c - half) // whole * whole), min(n, int(c + half) + 1))
        for c, n in zip(center, shape, strict=True)
    )
    return row, col


def _moved(disk: Disk, window: tuple[slice, slice], back: int = 1) -> Disk:
    """Bring a disk of a window to the whole plane, or with ``back=-1`` the other way."""
    row, col = (c + back * w.start for c, w in zip(disk.center, window, strict=True))
    return replace(disk, center=(row, col))


def _scaled(disk: Disk, factor: int) -> Disk:
    """Bring a disk of a pattern shrunk by ``factor`` back to camera pixels."""
    row, col = ((c + 0.5) * factor - 0.5 for c in disk.center)
    return replace(
        disk, center=(row, col), radius=disk.radius * factor, residual=disk.residual * factor
    )


def _nothing(shape: tuple[int, ...], reason: str) -> Disk:
    """Return a circle to start from by hand."""
    middle = ((shape[0] - 1) / 2, (shape[1] - 1) / 2)
    return Disk(middle, min(shape) / 4, float("nan"), certain=False, reason=reason)


def _field(values: Floats, known: NDArray[np.bool_], shrink: int) -> Field:
    """Average squares of ``shrink`` pixels over what is known, and leave hot pixels out."""
    weight = known.astype(np.float64)
    values = np.where(known, values, 0.0)
    if shrink > 1:
        rows, cols = (np.arange(0, n, shrink) for n in values.shape)
        total = np.add.reduceat(np.add.reduceat(values, rows, axis=0), cols, axis=1)
        count = np.add.reduceat(np.add.reduceat(weight, rows, axis=0), cols, axis=1)
        # A square at the border that is not whole has its centre elsewhere.
        weight = (count > 0.5 * shrink * shrink).astype(np.float64)
        values = np.where(weight > 0, total / np.maximum(count, 1.0), 0.0)
    weight = np.where(hot_pixels(values, weight == 0), 0.0, weight)
    # Lone gaps are closed, so that rays across them still know the levels on both sides.
    ring_weight, ring_total = _ring(weight), _ring(values * weight)
    gap = (weight == 0) & (ring_weight >= 5)
    values = np.where(gap, ring_total / np.maximum(ring_weight, 1.0), values * weight)
    return Field(values, np.where(gap, 1.0, weight))


def _ring(values: Floats) -> Floats:
    """Sum of the eight neighbours of each pixel."""
    padded = np.pad(values, 1)
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return np.asarray(rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - values)


@dataclass(frozen=True)
class Preset:
    """A detector preset as a button shows it.

    Attributes
    ----------
    name
        ``"BF"``, ``"ADF"``, ...
    shape
        The detector, None where the camera or the disk leaves no room for it.
    reason
        Why it cannot be used, in words; empty if it can.
    """

    name: str
    shape: Circle | Annulus | None
    reason: str


def preset_table(
    disk: Disk, shape: tuple[int, ...], factors: Factors = FACTORS
) -> tuple[Preset, ...]:
    """Return all presets, those that cannot be used with the reason.

    Parameters
    ----------
    disk
        The bright-field disk.
    shape
        Of the camera or of the whole acquisition: the last two axes are the camera's.
    factors
        Inner and outer radius of each preset in disk radii; None for the largest whole circle
        on the camera. Default: `FACTORS`.
    """
    height, width = shape[-2:]
    row, col = disk.center
    # Camera pixels reach half a pixel beyond their centres.
    end = max(0.0, min(row, col, height - 1 - row, width - 1 - col) + 0.5)
    return tuple(_preset(name, disk, end, *factors[name]) for name in factors)


def _preset(name: str, disk: Disk, end: float, inner: float, outer: float | None) -> Preset:
    start = inner * disk.radius
    wanted = end if outer is None else outer * disk.radius
    # A dark-field ring stops where the camera first cuts it: one with a side missing would show
    # which way atoms deflect the beam, and an atom's peak beside the atom.
    stop = wanted if inner < 1 else min(wanted, end)
    if min(stop, end) - start < _LEAST_WIDTH:
        if end < wanted or outer is None:
            reason = f"begins at {start:.1f} px, and the camera ends at {end:.1f} px"
        else:
            reason = f"is only {stop - start:.1f} px wide, for the disk is small"
        return Preset(name, None, f"{name} {reason}")
    if start == 0:
        return Preset(name, Circle(disk.center, stop), "")
    return Preset(name, Annulus(disk.center, start, stop), "")


def presets(
    disk: Disk, shape: tuple[int, ...], factors: Factors = FACTORS
) -> dict[str, Circle | Annulus]:
    """Return the presets that can be used, by name; see `preset_table`."""
    return {p.name: p.shape for p in preset_table(disk, shape, factors) if p.shape is not None}


def share_on_camera(detector: Circle | Annulus, shape: tuple[int, ...]) -> float:
    """Return the part of a detector's pixels that lies on the camera, from 0 to 1.

    Parameters
    ----------
    detector
        A circle or annulus.
    shape
        Of the camera or of the whole acquisition: the last two axes are the camera's.
    """
    height, width = shape[-2:]
    there = int(np.count_nonzero(detector.mask((height, width))))
    inner, outer = (
        (0.0, detector.radius) if isinstance(detector, Circle) else (detector.inner, detector.outer)
    )
    if outer > _COUNTABLE:
        return min(1.0, there / (np.pi * (outer**2 - inner**2))) if outer > inner else 0.0
    # The same detector on a plane that holds all of it: moved by whole pixels, so that every
    # pixel centre keeps its distance.
    around = int(np.ceil(outer)) + 2
    low_row, low_col = (int(np.floor(c)) - around for c in detector.center)
    whole = detector.with_center((detector.center[0] - low_row, detector.center[1] - low_col))
    total = int(np.count_nonzero(whole.mask((2 * around + 2, 2 * around + 2))))
    return there / total if total else 0.0
