"""Display levels: which value is black and which is white, chosen robustly; and a histogram.

Pure functions of the values, cheap enough for thirty images a second.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_MOST_VALUES = 1 << 14  # levels and histogram of larger images come from a sample of this size
LOW_PERCENT, HIGH_PERCENT = 0.3, 99.7


def sample_values(
    values: NDArray[np.generic], valid: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Finite, valid values of an image, thinned to a number that is cheap to sort.

    Parameters
    ----------
    values
        Image, any shape and real dtype.
    valid
        Same shape; False where nothing was recorded.

    Returns
    -------
    float64, shape (n,)
    """
    flat = values.reshape(-1)
    chosen = None if valid is None else valid.reshape(-1)
    if flat.size > 2 * _MOST_VALUES:
        # An odd step that shares no factor with the width does not fall on one column again and
        # again; a lattice image thinned along its own period would lose its atoms.
        step = _thinning_step(flat.size, values.shape[-1])
        flat = flat[::step]
        chosen = None if chosen is None else chosen[::step]
    if chosen is not None:
        flat = flat[chosen]
    numbers = flat.astype(np.float64)
    return numbers if flat.dtype.kind in "biu" else numbers[np.isfinite(numbers)]


def _thinning_step(size: int, width: int) -> int:
    step = (size // _MOST_VALUES) | 1
    while np.gcd(step, width) != 1:
        step += 2
    return step


def robust_levels(sample: NDArray[np.float64]) -> tuple[float, float]:
    """Levels that a few odd positions do not move: the 0.3 and 99.7 percentiles.

    Images that are flat but for a few positions get their full range; a constant image gets a
    range of one about its value. The second level is always above the first.
    """
    if sample.size == 0:
        return 0.0, 1.0
    ranks = [round(p / 100 * (sample.size - 1)) for p in (LOW_PERCENT, HIGH_PERCENT)]
    ordered = np.partition(sample, ranks)
    low, high = float(ordered[ranks[0]]), float(ordered[ranks[1]])
    if high > low:
        return low, high
    low, high = float(sample.min()), float(sample.max())
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def histogram_range(
    sample: NDArray[np.float64], low: float, high: float, most_bins: int
) -> tuple[float, float, int]:
    """Range and number of bins for a histogram of `sample` over ``low..high``.

    Whole numbers get bins of a whole width: otherwise some bins hold one value more than their
    neighbours and the histogram of a smooth distribution looks like a comb.
    """
    whole = high - low < 64 * most_bins and bool(np.all(sample == np.floor(sample)))
    if not whole:
        return low, high, most_bins
    first, last = math.floor(low), math.ceil(high)
    width = math.ceil((last - first + 1) / most_bins)
    bins = math.ceil((last - first + 1) / width)
    return first - 0.5, first - 0.5 + bins * width, bins


def histogram(sample: NDArray[np.float64], low: float, high: float, bins: int) -> NDArray[np.intp]:
    """Count of values in `bins` equal steps from `low` to `high` (both included).

    Parameters
    ----------
    sample
        float64, shape (n,); values outside the range are left out.
    low, high
        Range; ``low < high``.
    bins
        Number of steps.

    Returns
    -------
    intp, shape (bins,)
    """
    place = (sample - low) * (bins / (high - low))
    inside = (place >= 0) & (sample <= high)
    return np.bincount(np.minimum(place[inside].astype(np.intp), bins - 1), minlength=bins)
