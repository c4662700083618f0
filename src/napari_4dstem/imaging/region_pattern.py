"""Sum, mean and maximum pattern of a set of scan positions."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.imaging.blocks import PatternBlocks
from napari_4dstem.imaging.spread import Run, spread

Reduction = Literal["sum", "mean", "max"]


@dataclass(frozen=True, eq=False)
class PatternSummary:
    """Sums over `count` patterns.

    Attributes
    ----------
    sum, maximum
        [H, W], i64 or float64; `maximum` is the smallest number where there was no data.
    nodata
        i64[H, W], patterns without data at the pixel.
    count
        Number of patterns.
    """

    sum: NDArray[Any]
    maximum: NDArray[Any]
    nodata: NDArray[np.int64]
    count: int

    def with_raw_values(self, value: int) -> PatternSummary:
        """Return the same with every no-data value counted as the number `value` that it is."""
        return PatternSummary(
            self.sum + self.nodata * value,
            np.where(self.nodata > 0, np.maximum(self.maximum, value), self.maximum),
            np.zeros_like(self.nodata),
            self.count,
        )

    def mean(self, masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the mean over the valid values of each pixel; NaN where there is none."""
        valid = np.where(masked, 0, self.count - self.nodata)
        mean = np.full(self.sum.shape, np.nan)
        np.divide(self.sum, valid, out=mean, where=valid > 0)
        return mean

    def reduced(self, how: Reduction, masked: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the sum, mean or maximum pattern; masked pixels are 0 (NaN in the mean)."""
        if how == "mean":
            return self.mean(masked)
        if how == "sum":
            return np.where(masked, 0, self.sum)
        return np.where(masked | (self.nodata >= self.count), 0, self.maximum)


def summarise(blocks: PatternBlocks, region: NDArray[np.bool_], run: Run) -> PatternSummary:
    """Return the sums over the recorded positions in `region` (bool, scan shape)."""
    layout = blocks.layout
    inside = region.reshape(-1)
    chosen = [b for b in range(layout.n_blocks) if inside[layout.block_positions(b)].any()]
    empty = empty_summary(layout)
    total, largest, nodata = empty.sum, empty.maximum, empty.nodata
    lock = threading.Lock()
    # Float sums must not depend on which thread is first: one block after the other.
    ordered = Run(1, run.progress, run.cancelled) if layout.dtype.kind == "f" else run

    def work(block: int) -> None:
        part = blocks.reduce(block, inside[layout.block_positions(block)])
        with lock:
            np.add(total, part.sum, out=total)
            np.maximum(largest, part.maximum, out=largest)
            np.add(nodata, part.nodata, out=nodata)

    spread(work, chosen, ordered)
    count = int((region & ~blocks.missing()).sum())
    return PatternSummary(total, largest, nodata, count)


def empty_summary(layout: ScanLayout) -> PatternSummary:
    """Return the summary of no patterns at all."""
    is_float = layout.dtype.kind == "f"
    number = np.float64 if is_float else np.int64
    lowest = -np.inf if is_float else np.iinfo(np.int64).min
    shape = layout.detector_shape
    return PatternSummary(
        np.zeros(shape, number), np.full(shape, lowest, number), np.zeros(shape, np.int64), 0
    )
