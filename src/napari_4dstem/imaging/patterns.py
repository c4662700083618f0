"""Patterns of many scan positions as one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.imaging.blocks import PatternBlocks
from napari_4dstem.imaging.spread import Run, spread


def one_pattern(blocks: PatternBlocks, row: int, column: int) -> NDArray[Any]:
    """Return the pattern [H, W] of one scan position; zeros where there is none."""
    layout = blocks.layout
    place = layout.find(row, column)
    if place is None:
        return np.zeros(layout.detector_shape, layout.dtype)
    block, lane = place
    pattern: NDArray[Any] = blocks.patterns(block, np.array([lane], np.int64))[0]
    return pattern


def gather_patterns(blocks: PatternBlocks, positions: NDArray[np.int64], run: Run) -> NDArray[Any]:
    """Return the patterns of flat scan indices; zeros where there is none.

    Returns
    -------
    NDArray
        [n, H, W], source dtype.
    """
    layout = blocks.layout
    out = np.zeros((len(positions), *layout.detector_shape), layout.dtype)
    slots = layout.slot_of[positions]
    there = np.flatnonzero(slots >= 0)
    block_of = np.searchsorted(layout.block_pos.astype(np.int64), slots[there], side="right") - 1

    def work(block: int) -> None:
        wanted = there[block_of == block]
        lanes = slots[wanted] - int(layout.block_pos[block])
        unique, back = np.unique(lanes, return_inverse=True)
        out[wanted] = blocks.patterns(block, unique)[back]

    spread(work, np.unique(block_of).tolist(), run)
    return out
