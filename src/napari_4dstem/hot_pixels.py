"""Pixels that count where no electron fell: found from the data, for masks of cameras have holes.

Real masters often carry an empty pixel mask although the camera has hot pixels; a single one
spoils display limits, disk fits and detector sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_4dstem.errors import UsageError

Floats = NDArray[np.float64]


def checked_pattern(
    pattern: ArrayLike, masked: NDArray[np.bool_] | None
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a pattern as float64 and which of its pixels are known.

    Raises
    ------
    UsageError
        It is no two-dimensional array of numbers, or the mask has another shape.
    """
    values = np.asarray(pattern)
    if values.ndim != 2 or values.size == 0 or values.dtype.kind not in "biuf":
        raise UsageError(
            "A pattern must be a two-dimensional array of numbers",
            found=f"shape {values.shape}, dtype {values.dtype}",
        )
    values = values.astype(np.float64)
    known = np.isfinite(values)
    if masked is not None:
        if np.shape(masked) != values.shape:
            raise UsageError(
                "The mask does not fit the pattern",
                expected=f"shape {values.shape}",
                found=f"shape {np.shape(masked)}",
            )
        known &= ~np.asarray(masked, np.bool_)
    return values, known


def hot_pixels(pattern: ArrayLike, masked: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """Find pixels that stand far above all of their neighbours but one.

    A real spot, even of one pixel, spreads into its neighbours; a hot pixel does not. One
    neighbour may be as bright, so that pairs of hot pixels are found too.

    Parameters
    ----------
    pattern
        (rows, columns), counts; best the mean or sum pattern of a scan.
    masked
        bool, (rows, columns); True = no data, neither looked at nor reported.

    Returns
    -------
    ndarray of bool, (rows, columns)
    """
    values, known = checked_pattern(pattern, masked)
    background, lowest, second, count = _neighbours(values, known)
    above = values - background
    noise = _noise_per_count(values, background, known & (count >= 3))
    allowed = 8 * np.sqrt(noise * np.maximum(background, 0.0) + noise**2)
    alone = values - lowest > 6 * (second - lowest)
    standing_out = (above > allowed) & (above > 0.25 * np.abs(background)) & alone
    return np.asarray(known & (count >= 3) & standing_out)


def _neighbours(values: Floats, known: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return (mean without the highest two, lowest, second highest, number) of known neighbours."""
    height, width = values.shape
    padded = np.pad(np.where(known, values, -np.inf), 1, constant_values=-np.inf)
    first = np.full(values.shape, -np.inf)
    lowest = -first
    second, total, count = first.copy(), np.zeros(values.shape), np.zeros(values.shape)
    for row in range(3):
        for col in range(3):
            if (row, col) == (1, 1):
                continue
            neighbour = padded[row : row + height, col : col + width]
            there = np.isfinite(neighbour)
            count += there
            total += np.where(there, neighbour, 0.0)
            lowest = np.minimum(lowest, np.where(there, neighbour, np.inf))
            second = np.maximum(second, np.minimum(first, neighbour))
            first = np.maximum(first, neighbour)
    rest = count - 2
    usable = rest >= 1
    top = np.where(usable, first, 0.0) + np.where(usable, second, 0.0)
    background = np.where(usable, (total - top) / np.where(usable, rest, 1.0), 0.0)
    # Without three known neighbours nothing is compared: any finite values will do.
    lowest, second = np.where(usable, lowest, 0.0), np.where(usable, second, 0.0)
    return background, lowest, second, count


def _noise_per_count(values: Floats, background: Floats, usable: NDArray[np.bool_]) -> float:
    """Estimate variance / mean: 1 for counts of one pattern, 1 / n for the mean of n patterns."""
    lit = usable & (background > 0)
    if not lit.any():
        return float(np.abs(values[usable]).max()) if usable.any() else 0.0
    off = np.abs(values[lit] - background[lit]) / np.sqrt(background[lit])
    estimate = float((1.4826 * np.median(off)) ** 2)
    dark = usable & (values == 0)
    if np.count_nonzero(dark) > 0.01 * np.count_nonzero(usable):
        # With empty pixels about, the smallest value is a single count.
        estimate = max(estimate, float(values[usable & (values > 0)].min()))
    return estimate
