"""Basic indexing of the scan axes: ``acq[12, 40]``, ``acq[0:8, 3:9, 10, :]``."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import UsageError


def scan_positions(
    key: Any, scan_shape: tuple[int, int]
) -> tuple[NDArray[np.int64], tuple[int, ...], tuple[Any, ...]]:
    """Split an index of a 4D scan.

    Parameters
    ----------
    key
        Integers, slices and at most one ellipsis, for up to four axes.
    scan_shape
        (rows, columns).

    Returns
    -------
    positions
        i64[n], flat scan indices.
    shape
        Shape that the scan axes have in the result: no entry for an integer.
    rest
        Index for the camera axes.

    Raises
    ------
    IndexError
        Outside the scan, or too many indices.
    UsageError
        Anything but integers, slices and an ellipsis.

    Examples
    --------
    >>> positions, shape, rest = scan_positions((1, slice(0, 3)), (4, 5))
    >>> positions.tolist(), shape, rest
    ([5, 6, 7], (3,), (slice(None, None, None), slice(None, None, None)))
    """
    parts = _four(key if isinstance(key, tuple) else (key,))
    axes = [_axis(part, size) for part, size in zip(parts[:2], scan_shape, strict=True)]
    positions = axes[0][0][:, None] * scan_shape[1] + axes[1][0]
    shape = tuple(len(indices) for indices, keeps in axes if keeps)
    return positions.reshape(-1), shape, tuple(parts[2:])


def _four(parts: tuple[Any, ...]) -> list[Any]:
    if any(not isinstance(p, slice) and p is not Ellipsis and not _is_integer(p) for p in parts):
        raise UsageError(
            "This kind of index is not supported",
            expected="integers and slices, as in acq[12, 40] or acq[0:8, 0:8]",
            found=", ".join(type(p).__name__ for p in parts),
        )
    given = [p for p in parts if p is not Ellipsis]
    if len(given) > 4 or len(parts) - len(given) > 1:
        raise IndexError(f"too many indices for a scan with 4 axes: {len(parts)}")
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(given))
    return given[:at] + [slice(None)] * (4 - len(given)) + given[at:]


def _is_integer(part: Any) -> bool:
    try:
        operator.index(part)
    except TypeError:
        return False
    return not isinstance(part, bool | np.bool_)


def _axis(part: Any, size: int) -> tuple[NDArray[np.int64], bool]:
    if isinstance(part, slice):
        return np.arange(*part.indices(size), dtype=np.int64), True
    index = operator.index(part)
    if not -size <= index < size:
        raise IndexError(f"index {index} lies outside 0..{size - 1}")
    return np.array([index % size], np.int64), False
