"""What is known of an image while the scan is still being encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.imaging.blocks import CodedBlocks, GrowingBlocks, PatternBlocks
from napari_4dstem.imaging.spread import Run
from napari_4dstem.imaging.virtual_image import Aperture, virtual_images
from napari_4dstem.loading.coarse import CoarseScan


@dataclass(frozen=True, eq=False)
class Preview:
    """An image that is partly exact, partly the nearest coarse pattern's value.

    Attributes
    ----------
    values
        i64 or float64, scan shape.
    exact, known
        Bool, scan shape: values that will not change, and values that stand for something at all;
        neither where there is no pattern.
    blocks
        Bool[n_blocks], the finished blocks that are in it.
    """

    values: NDArray[Any]
    exact: NDArray[np.bool_]
    known: NDArray[np.bool_]
    blocks: NDArray[np.bool_]

    @property
    def n_exact(self) -> int:
        """Positions whose value is exact."""
        return int(self.exact.sum())


def preview_image(
    blocks: PatternBlocks,
    coarse: CoarseScan | None,
    aperture: Aperture,
    run: Run,
    *,
    raw_values: bool = False,
    previous: Preview | None = None,
) -> Preview:
    """Return what is known of an image now, without touching the source.

    Parameters
    ----------
    blocks
        The scan as it is read now; only finished blocks of `GrowingBlocks` are decoded.
    coarse
        The coarse scan, if it was read already.
    previous
        An earlier preview of the same aperture: only blocks finished since are decoded.
    """
    layout = blocks.layout
    if previous is None or previous.blocks.size != layout.n_blocks or not previous.known.any():
        previous = _coarse_only(blocks, coarse, aperture, raw_values)
    new = _finished(blocks) & ~previous.blocks
    if not new.any():
        return previous
    only = np.flatnonzero(new)
    (fresh,) = virtual_images(blocks, [aperture], run, only=only)
    positions = np.concatenate([layout.block_positions(int(b)) for b in only])
    values, exact, known = previous.values.copy(), previous.exact.copy(), previous.known.copy()
    values.reshape(-1)[positions] = fresh.reshape(-1)[positions]
    exact.reshape(-1)[positions] = True
    known.reshape(-1)[positions] = True
    return _without_missing(values, exact, known, previous.blocks | new, blocks)


def _finished(blocks: PatternBlocks) -> NDArray[np.bool_]:
    """Bool[n_blocks]: blocks that can be decoded."""
    if isinstance(blocks, GrowingBlocks):
        return blocks.done.copy()
    return np.full(blocks.layout.n_blocks, isinstance(blocks, CodedBlocks))


def _coarse_only(
    blocks: PatternBlocks, coarse: CoarseScan | None, aperture: Aperture, raw_values: bool
) -> Preview:
    layout = blocks.layout
    none_done, exact = np.zeros(layout.n_blocks, bool), np.zeros(layout.scan_shape, bool)
    if coarse is None:
        number = np.float64 if layout.dtype.kind == "f" else np.int64
        return Preview(np.zeros(layout.scan_shape, number), exact, exact.copy(), none_done)
    exact.reshape(-1)[coarse.positions] = True
    values = coarse.image(aperture.pixels, raw_values=raw_values)
    return _without_missing(values, exact, np.ones(layout.scan_shape, bool), none_done, blocks)


def _without_missing(
    values: NDArray[Any],
    exact: NDArray[np.bool_],
    known: NDArray[np.bool_],
    done: NDArray[np.bool_],
    blocks: PatternBlocks,
) -> Preview:
    """Return the preview without positions that were never recorded or are damaged."""
    there = ~blocks.missing()
    return Preview(np.where(there, values, 0), exact & there, known & there, done)
