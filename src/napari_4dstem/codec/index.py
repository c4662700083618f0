"""Exact short cuts kept beside the code: sums per tile, and sum and maximum pattern.

Each part is optional and can be dropped: it only saves decoding. Tile sums leave out the pixels
that were masked when they were made (`masked`); a tile whose mask changed is decoded instead.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.ledger import Allocator, Kind

_WIDTHS = {
    False: (np.uint8, np.uint16, np.uint32, np.uint64),
    True: (np.int8, np.int16, np.int32, np.int64),
}


@dataclass(eq=False)
class Index:
    """The short cuts of one encoded scan.

    Parameters
    ----------
    tile_sum
        One row per tile, [n_positions] in coding order, each in the narrowest integer dtype that
        holds it; None for float sources, or when dropped.
    sum_pattern, max_pattern
        [H, W], i64 (float64 for float sources), over all recorded positions, masks ignored,
        no-data left out. `max_pattern` is the smallest value where a pixel never had data.
    nodata_count
        i64[H, W], positions at which a pixel held no data.
    masked
        Bool[H, W], pixels that `tile_sum` leaves out.
    """

    tile_sum: list[NDArray[Any]] | None
    sum_pattern: NDArray[Any]
    max_pattern: NDArray[Any]
    nodata_count: NDArray[np.int64]
    masked: NDArray[np.bool_]
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        rows = sum(row.nbytes for row in self.tile_sum or ())
        fixed = (self.sum_pattern, self.max_pattern, self.nodata_count, self.masked)
        return rows + sum(part.nbytes for part in fixed)

    def add_block(
        self,
        first: int,
        tile_sum: NDArray[np.int64] | None,
        sum_pattern: NDArray[Any],
        max_pattern: NDArray[Any],
        nodata_count: NDArray[np.int64],
        allocator: Allocator,
    ) -> None:
        """Enter the sums of one block, whose positions start at `first` in coding order.

        Parameters
        ----------
        tile_sum
            i64[n_tiles, n] or None.
        """
        with self._lock:
            self.sum_pattern += sum_pattern
            np.maximum(self.max_pattern, max_pattern, out=self.max_pattern)
            self.nodata_count += nodata_count
            if tile_sum is None or self.tile_sum is None:
                return
            lows, highs = tile_sum.min(axis=1), tile_sum.max(axis=1)
            for t, row in enumerate(tile_sum):
                stored = self.tile_sum[t]
                needed = _narrowest(int(lows[t]), int(highs[t]), stored.dtype.kind == "i")
                if needed.itemsize > stored.dtype.itemsize:
                    wider = allocator.empty(Kind.INDEX, stored.shape, needed)
                    wider[...] = stored
                    stored = self.tile_sum[t] = wider
                stored[first : first + len(row)] = row


def new_index(
    layout: ScanLayout,
    masked: NDArray[np.bool_],
    expected_tile_sum: NDArray[np.int64] | None,
    allocator: Allocator,
) -> Index:
    """Return an empty index.

    Parameters
    ----------
    masked
        Bool[H, W].
    expected_tile_sum
        i64[n_tiles], largest sums expected (from a sample): the first guess of each row's width.
        None: no tile sums (float sources).
    """
    is_float = layout.dtype.kind == "f"
    number = np.float64 if is_float else np.int64
    lowest = -np.inf if is_float else np.iinfo(np.int64).min
    shape = layout.detector_shape
    rows = None
    if expected_tile_sum is not None:
        signed = layout.dtype.kind == "i"
        rows = [
            allocator.empty(Kind.INDEX, layout.n_positions, _narrowest(0, int(top), signed))
            for top in expected_tile_sum
        ]
    max_pattern = allocator.empty(Kind.INDEX, shape, number)
    max_pattern[...] = lowest
    kept_mask = allocator.empty(Kind.INDEX, shape, np.bool_)
    kept_mask[...] = masked
    return Index(
        tile_sum=rows,
        sum_pattern=allocator.empty(Kind.INDEX, shape, number),
        max_pattern=max_pattern,
        nodata_count=allocator.empty(Kind.INDEX, shape, np.int64),
        masked=kept_mask,
    )


def _narrowest(low: int, high: int, signed: bool) -> np.dtype[Any]:
    for width in _WIDTHS[signed]:
        info = np.iinfo(width)
        if info.min <= low and high <= info.max:
            return np.dtype(width)
    return np.dtype(_WIDTHS[signed][-1])
