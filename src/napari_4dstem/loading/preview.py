"""What is known of an image while the scan is still being encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.imaging.blocks import GrowingBlocks, PatternBlocks
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
        Bool, scan shape: values that will not change, and values that stand for something at all.
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
    if previous is None or previous.blocks.size != layout.n_blocks:
        previous = _coarse_only(layout.n_blocks, blocks, coarse, aperture, raw_values)
    if not isinstance(blocks, GrowingBlocks):
        return previous
    new = blocks.done & ~previous.blocks
    if not new.any():
        return previous
    only = np.flatnonzero(new)
    (fresh,) = virtual_images(blocks, [aperture], run, only=only)
    positions = np.concatenate([layout.block_positions(int(b)) for b in only])
    values, exact, known = previous.values.copy(), previous.exact.copy(), previous.known.copy()
    values.reshape(-1)[positions] = fresh.reshape(-1)[positions]
    exact.reshape(-1)[positions] = True
    known.reshape(-1)[positions] = True
    return Preview(values, exact, known, previous.blocks | new)


def _coarse_only(
    n_blocks: int,
    blocks: PatternBlocks,
    coarse: CoarseScan | None,
    aperture: Aperture,
    raw_values: bool,
) -> Preview:
    shape = blocks.layout.scan_shape
    none_done, exact = np.zeros(n_blocks, bool), np.zeros(shape, bool)
    if coarse is None:
        number = np.float64 if blocks.layout.dtype.kind == "f" else np.int64
        return Preview(np.zeros(shape, number), exact, exact.copy(), none_done)
    exact.reshape(-1)[coarse.positions] = True
    values = coarse.image(aperture.pixels, raw_values=raw_values)
    return Preview(values, exact, np.ones(shape, bool), none_done)
