"""The coarse scan: every n-th pattern, read first.

It gives an image of the whole field within seconds, and the statistics for the codec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.layout import ScanLayout, choose_passes, cut_blocks
from napari_4dstem.errors import CancelledError, DamagedDataError, NotReadyError
from napari_4dstem.imaging.region_pattern import PatternSummary
from napari_4dstem.ledger import Allocator, Kind
from napari_4dstem.sources import Source

_STEP = 8
_ENOUGH = 256
_AT_MOST_BYTES = 96 << 20
_FEWEST = 16


def choose_step(scan_shape: tuple[int, int], pattern_bytes: int) -> int:
    """Return the distance of coarse positions: 8, less for small scans, more for large patterns.

    Examples
    --------
    >>> choose_step((256, 256), 192 * 192 * 2)
    8
    >>> choose_step((32, 32), 96 * 96 * 2)
    2
    """

    def count(step: int) -> int:
        rows, columns = scan_shape
        return -(-rows // step) * -(-columns // step)

    most = max(_FEWEST, _AT_MOST_BYTES // pattern_bytes)
    step = _STEP
    while step > 1 and count(step) < _ENOUGH:
        step //= 2
    while count(step) > most:
        step += 1
    return step


@dataclass(frozen=True, eq=False)
class CoarseScan:
    """Patterns on a coarse grid of scan positions.

    Attributes
    ----------
    scan_shape
        Of the whole scan.
    positions
        i64[n], flat scan indices.
    patterns
        [n, H, W], source dtype.
    nodata
        Source value that means "no data", or None.
    nearest
        i64, scan shape: for every scan position the entry that stands for it.
    """

    scan_shape: tuple[int, int]
    positions: NDArray[np.int64]
    patterns: NDArray[Any]
    nodata: int | None
    nearest: NDArray[np.int64]

    def image(self, pixels: NDArray[np.bool_], *, raw_values: bool) -> NDArray[Any]:
        """Return the sum under `pixels` bool[H, W] of the nearest coarse pattern, scan shape."""
        is_float = self.patterns.dtype.kind == "f"
        inside = self.patterns[:, pixels]
        if is_float:
            inside = np.where(np.isfinite(inside), inside, 0)
        elif self.nodata is not None and not raw_values:
            inside = np.where(inside == self.nodata, 0, inside)
        sums = inside.sum(axis=1, dtype=np.float64 if is_float else np.int64)
        image: NDArray[Any] = sums[self.nearest]
        return image

    def summary(self) -> PatternSummary:
        """Return sum and maximum pattern of the coarse positions."""
        is_float = self.patterns.dtype.kind == "f"
        number = np.float64 if is_float else np.int64
        shape = self.patterns.shape[1:]
        total, nodata = np.zeros(shape, number), np.zeros(shape, np.int64)
        largest = np.full(shape, -np.inf if is_float else np.iinfo(np.int64).min, number)
        for pattern in self.patterns:
            if is_float:
                gone = ~np.isfinite(pattern)
            else:
                gone = pattern == self.nodata if self.nodata is not None else np.zeros(shape, bool)
            total += np.where(gone, 0, pattern)
            np.maximum(largest, pattern, out=largest, where=~gone)
            nodata += gone
        return PatternSummary(total, largest, nodata, len(self.patterns))


def read_coarse(
    source: Source,
    nodata: int | None,
    allocator: Allocator,
    cancelled: Callable[[], bool],
) -> CoarseScan:
    """Read the coarse positions of a source.

    Raises
    ------
    CancelledError
        If `cancelled` says so between two patterns.
    NotReadyError
        If no pattern can be read.
    """
    rows, columns = source.scan_shape
    h, w = source.detector_shape
    step = choose_step(source.scan_shape, h * w * source.dtype.itemsize)
    chosen = np.zeros(source.scan_shape, bool)
    chosen[min(step // 2, rows - 1) :: step, min(step // 2, columns - 1) :: step] = True
    if not (chosen & source.recorded).any():
        chosen[...] = True
    chosen &= source.recorded
    every = max(1, int(chosen.sum()) * h * w * source.dtype.itemsize // (2 * _AT_MOST_BYTES))
    positions = np.flatnonzero(chosen)[::every]
    patterns = allocator.empty(Kind.WORKSPACE, (len(positions), h, w), source.dtype)
    kept = 0
    for position in positions:
        if cancelled():
            raise CancelledError("Loading was cancelled")
        row, column = divmod(int(position), columns)
        try:
            source.read(row, range(column, column + 1), out=patterns[kept : kept + 1])
        except DamagedDataError:
            continue  # the encoding pass meets it again, and reports it
        positions[kept] = position
        kept += 1
    if kept == 0:
        raise NotReadyError(
            "No pattern could be read",
            where=source.info.path,
            expected=f"{int(source.recorded.sum())} recorded patterns",
            found="none that can be decoded",
            action="Check that the files were copied completely",
        )
    positions = positions[:kept]
    return CoarseScan(
        source.scan_shape,
        positions,
        patterns[:kept],
        nodata,
        _nearest(positions, source.scan_shape),
    )


def _nearest(positions: NDArray[np.int64], scan_shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return for every scan position the nearest coarse row's nearest entry."""
    rows, columns = np.divmod(positions, scan_shape[1])
    coarse_rows = np.unique(rows)
    middle = (coarse_rows[1:] + coarse_rows[:-1]) / 2
    which_row = np.searchsorted(middle, np.arange(scan_shape[0]))
    nearest = np.empty(scan_shape, np.int64)
    for k, row in enumerate(coarse_rows):
        entries = np.flatnonzero(rows == row)
        edges = (columns[entries][1:] + columns[entries][:-1]) / 2
        line = entries[np.searchsorted(edges, np.arange(scan_shape[1]))]
        nearest[which_row == k] = line
    return nearest


def source_layout(source: Source) -> ScanLayout:
    """Return the cut of a source that is not encoded: blocks and tiles of the usual size."""
    passes = choose_passes(source.detector_shape)
    positions, block_pos = cut_blocks(source.recorded, passes)
    return ScanLayout(
        source.scan_shape, source.detector_shape, source.dtype, passes, 8, positions, block_pos
    )
