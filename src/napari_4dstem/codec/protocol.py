"""What every decoder offers: the block-reading protocol that products are written against.

The Numba decoder and the torch oracle implement it. A block is the unit of work: callers spread
blocks over threads and put the results in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums under a detector, one per position of a block.

    Attributes
    ----------
    total
        i64[n] (float64 for float sources): values, without no-data.
    nodata
        i64[n]: pixels under the detector that hold no data (overloads, non-finite values).
    """

    total: NDArray[Any]
    nodata: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Moments:
    """First moments under a detector: total, sum of row x value, sum of column x value; [n]."""

    total: NDArray[Any]
    rows: NDArray[Any]
    columns: NDArray[Any]
    nodata: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reduced:
    """Sum, maximum and number of no-data values per pixel over some positions; [H, W].

    `maximum` is i64 or float64; where no position had data it is the smallest value there is.
    """

    sum: NDArray[Any]
    maximum: NDArray[Any]
    nodata: NDArray[np.int64]


class BlockDecoder(Protocol):
    """Decodes parts of one block. Thread-safe; releases the GIL while it works.

    Positions of a damaged chunk's block come back as zeros and are marked in `scan.damaged`.
    """

    scan: EncodedScan

    def patterns(self, block: int, lanes: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return the patterns [n, H, W], source dtype, of the given lanes (ascending; all)."""
        ...

    def sums(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Sums:
        """Return sums under `pixels` bool[H, W]; only the listed tiles are looked at."""
        ...

    def moments(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        """Return first moments under `pixels`; only the listed tiles are looked at."""
        ...

    def reduce(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        """Return sum and maximum per pixel over the positions in `lanes` bool[n]."""
        ...
