"""A rough image at once: tile sums weighted by how much of each tile a detector covers.

Nothing is decoded. It stands in while an exact image is being made, and is labelled as rough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.imaging.blocks import PatternBlocks
from napari_4dstem.imaging.virtual_image import Aperture


def estimate_image(blocks: PatternBlocks, aperture: Aperture) -> NDArray[np.float64] | None:
    """Return an estimate of an image, or None if there are no tile sums to make it from.

    Each tile counts with the share of its unmasked pixels that lie in the aperture; tiles that lie
    in it whole are exact.

    Returns
    -------
    NDArray or None
        float64, scan shape; 0 where there is no data.
    """
    layout = blocks.layout
    index = blocks.index_for(0) if layout.n_blocks else None
    if index is None or index.tile_sum is None:
        return None
    wanted = _per_tile(aperture.pixels & ~index.masked, layout.tile)
    summed = _per_tile(~index.masked, layout.tile)
    share = np.divide(wanted, summed, out=np.zeros(wanted.shape), where=summed > 0)
    total = np.zeros(layout.n_positions)
    for tile in np.flatnonzero(share):
        total += share[tile] * index.tile_sum[tile]
    image = np.zeros(layout.scan_shape)
    image.reshape(-1)[layout.positions] = total
    image[blocks.missing()] = 0
    return image


def _per_tile(pixels: NDArray[np.bool_], tile: int) -> NDArray[np.int64]:
    """Return the number of selected pixels of each tile, row-major."""
    rows, columns = (np.arange(0, size, tile) for size in pixels.shape)
    counts = pixels.astype(np.int64)
    summed: NDArray[np.int64] = np.add.reduceat(np.add.reduceat(counts, rows, 0), columns, 1)
    return summed.reshape(-1)
