"""Virtual-detector images: the sum under a detector at every scan position, exactly.

Tiles that lie whole inside the detector come from the index; only those on its edge are decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.index import Index
from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.detectors import tile_cover
from napari_4dstem.imaging.blocks import PatternBlocks
from napari_4dstem.imaging.spread import Run, spread


@dataclass(frozen=True, eq=False)
class Aperture:
    """The pixels of a detector.

    Parameters
    ----------
    detector
        Bool[H, W], pixels of the shape.
    masked
        Bool[H, W], pixels that the mask takes out.
    """

    detector: NDArray[np.bool_]
    masked: NDArray[np.bool_]

    @property
    def pixels(self) -> NDArray[np.bool_]:
        """Bool[H, W]: pixels that count."""
        return self.detector & ~self.masked


@dataclass(frozen=True, eq=False)
class TilePlan:
    """Tiles whose sum is known, and tiles to decode."""

    known: NDArray[np.int64]
    decoded: NDArray[np.int64]


def plan_tiles(aperture: Aperture, layout: ScanLayout, index: Index | None) -> TilePlan:
    """Decide which tiles of an aperture need decoding.

    A tile is known if the detector covers it whole and its mask is the one of the tile sums.
    """
    touched_cover = tile_cover(aperture.pixels, layout.tile)
    touched = np.union1d(touched_cover.inside, touched_cover.boundary)
    if index is None or index.tile_sum is None:
        return TilePlan(np.zeros(0, np.int64), touched)
    same_mask = aperture.detector & (aperture.masked == index.masked)
    known = tile_cover(same_mask, layout.tile).inside
    return TilePlan(np.intersect1d(known, touched), np.setdiff1d(touched, known))


def virtual_images(
    blocks: PatternBlocks,
    apertures: list[Aperture],
    run: Run,
    *,
    only: NDArray[np.int64] | None = None,
) -> list[NDArray[Any]]:
    """Return the image of each aperture; 0 where there is no data.

    Parameters
    ----------
    blocks
        The scan.
    apertures
        Any number: they are computed in one pass over the blocks.
    run
        Threads, progress, cancel.
    only
        Blocks to compute; the others stay 0.

    Returns
    -------
    list of NDArray
        i64 (float64 for float sources), scan shape.
    """
    layout = blocks.layout
    number = np.float64 if layout.dtype.kind == "f" else np.int64
    images = np.zeros((len(apertures), layout.scan_shape[0] * layout.scan_shape[1]), number)
    plans: dict[tuple[int, bool], TilePlan] = {}
    pixels = [aperture.pixels for aperture in apertures]

    def work(block: int) -> None:
        index = blocks.index_for(block)
        positions = layout.block_positions(block)
        for k, aperture in enumerate(apertures):
            key = (k, index is None)
            if key not in plans:
                plans[key] = plan_tiles(aperture, layout, index)
            plan = plans[key]
            total = _known_sums(index, plan.known, layout, block)
            if len(plan.decoded):
                total = total + blocks.sums(block, pixels[k], plan.decoded).total
            images[k, positions] = total

    spread(work, range(layout.n_blocks) if only is None else only.tolist(), run)
    images[:, blocks.missing().reshape(-1)] = 0
    return [image.reshape(layout.scan_shape) for image in images]


def _known_sums(
    index: Index | None, tiles: NDArray[np.int64], layout: ScanLayout, block: int
) -> NDArray[np.int64]:
    first, stop = int(layout.block_pos[block]), int(layout.block_pos[block + 1])
    total = np.zeros(stop - first, np.int64)
    if index is not None and index.tile_sum is not None:
        for t in tiles:
            total += index.tile_sum[t][first:stop].astype(np.int64, copy=False)
    return total


def overload_counts(blocks: PatternBlocks, aperture: Aperture, run: Run) -> NDArray[np.int64]:
    """Return, per scan position, how many pixels of an aperture hold no data; i64, scan shape."""
    layout = blocks.layout
    counts = np.zeros(layout.scan_shape[0] * layout.scan_shape[1], np.int64)
    pixels = aperture.pixels

    def work(block: int) -> None:
        index = blocks.index_for(block)
        wanted = pixels if index is None else pixels & (index.nodata_count > 0)
        cover = tile_cover(wanted, layout.tile)
        tiles = np.union1d(cover.inside, cover.boundary)
        if len(tiles):
            nodata = blocks.sums(block, wanted, tiles).nodata
            counts[layout.block_positions(block)] = nodata

    spread(work, range(layout.n_blocks), run)
    return counts.reshape(layout.scan_shape)
