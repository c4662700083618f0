"""Centre of mass of every pattern: where the beam was deflected to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.detectors import tile_cover
from napari_4dstem.imaging.blocks import PatternBlocks
from napari_4dstem.imaging.spread import Run, spread
from napari_4dstem.imaging.virtual_image import Aperture


def center_of_mass(
    blocks: PatternBlocks, aperture: Aperture, run: Run
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centre of mass under an aperture.

    ``row = sum(r I) / sum(I)``, ``column = sum(c I) / sum(I)``, from exact moments.

    Returns
    -------
    row, column
        float64, scan shape, camera pixels; NaN where a pattern is empty or missing.
    """
    layout = blocks.layout
    cover = tile_cover(aperture.pixels, layout.tile)
    tiles = np.union1d(cover.inside, cover.boundary)
    size = layout.scan_shape[0] * layout.scan_shape[1]
    centers = np.full((2, size), np.nan)
    pixels = aperture.pixels

    def work(block: int) -> None:
        moments = blocks.moments(block, pixels, tiles)
        positions = layout.block_positions(block)
        filled = moments.total != 0
        for axis, moment in enumerate((moments.rows, moments.columns)):
            centers[axis, positions[filled]] = moment[filled] / moments.total[filled]

    if len(tiles):
        spread(work, range(layout.n_blocks), run)
    centers[:, blocks.missing().reshape(-1)] = np.nan
    row, column = centers.reshape(2, *layout.scan_shape)
    return row, column
