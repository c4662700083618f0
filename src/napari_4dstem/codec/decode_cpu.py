"""The CPU decoder: the block-reading protocol on Numba kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec import decode_kernels as kernels
from napari_4dstem.codec.encode_kernels import Geometry
from napari_4dstem.codec.layout import RAW, EncodedScan
from napari_4dstem.codec.model import make_schedule
from napari_4dstem.codec.protocol import Moments, Reduced, Sums
from napari_4dstem.codec.values import bits_dtype, value_coding

_LOWEST = np.iinfo(np.int64).min


class CpuDecoder:
    """Decodes blocks of `scan` on the CPU; see `BlockDecoder` for the methods.

    Parameters
    ----------
    scan
        Its finished blocks can be decoded while others are still being coded.
    """

    def __init__(self, scan: EncodedScan) -> None:
        self.scan = scan
        layout = scan.layout
        self._all_tiles = np.arange(layout.n_tiles)
        self._coding = kernels.Coding(
            Geometry(layout.tile, *layout.detector_shape),
            value_coding(scan.values, layout.dtype),
            np.ascontiguousarray(scan.model.class_map).reshape(-1),
            make_schedule(scan.model, layout),
        )

    def _block(self, block: int) -> kernels.BlockBytes:
        u8 = self.scan.blocks[block]
        return kernels.BlockBytes(
            u8,
            u8[: u8.size // 2 * 2].view(np.uint16),
            self.scan.chunk_off[block],
            self.scan.chunk_mode[block],
            self.scan.layout.block_size(block),
        )

    def _run(
        self, block: int, tiles: NDArray[np.int64], kernel: Callable[[NDArray[np.bool_]], None]
    ) -> bool:
        """Check the chunks, run the kernel, note damage; return whether the result is good."""
        if not self.scan.check_chunks(block, tiles):
            return False
        bad = np.zeros(self.scan.layout.n_tiles, bool)
        kernel(bad)
        if bad.any():
            self.scan.damaged[block] |= bad
            return False
        return True

    def _float_tiles(
        self, block: int, tiles: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Split tiles into those that the kernels can sum and raw float ones."""
        if not self.scan.values.is_float:
            return tiles, tiles[:0]
        raw = self.scan.chunk_mode[block, tiles] == RAW
        return tiles[~raw], tiles[raw]

    def patterns(self, block: int, lanes: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return the patterns [n, H, W] of the given lanes (ascending), or of all."""
        layout = self.scan.layout
        if lanes is None:
            lanes = np.arange(layout.block_size(block))
        out = np.zeros((len(lanes), layout.n_pixels), bits_dtype(layout.dtype))

        def kernel(bad: NDArray[np.bool_]) -> None:
            kernels.decode_patterns(
                self._block(block), self._coding, lanes, 0, layout.n_tiles, bad, out
            )

        if len(lanes) and not self._run(block, self._all_tiles, kernel):
            out[...] = 0
        if self.scan.values.kind == "f32scaled":
            self._scale_in_place(block, out)
        return out.view(layout.dtype).reshape(len(lanes), *layout.detector_shape)

    def _scale_in_place(self, block: int, out: NDArray[np.uint32]) -> None:
        """Turn codes into floats, except in raw chunks, which hold floats already."""
        layout = self.scan.layout
        coded = np.ones(layout.detector_shape, bool)
        for t in np.flatnonzero(self.scan.chunk_mode[block] == RAW):
            rect = layout.tile_at(int(t))
            coded[rect.r0 : rect.r1, rect.c0 : rect.c1] = False
        columns = np.flatnonzero(coded)
        floats = (out[:, columns] * np.float64(self.scan.values.scale)).astype(np.float32)
        out[:, columns] = floats.view(np.uint32)

    def _raw_floats(self, block: int, tile: int) -> NDArray[np.float64]:
        """Return a raw float chunk as float64[pixels, n]."""
        n = self.scan.layout.block_size(block)
        count = self.scan.layout.tile_at(tile).n_pixels * n
        values = self.scan.chunk(block, tile)[: 4 * count].view(np.float32)
        return values.reshape(-1, n).astype(np.float64)

    def sums(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Sums:
        """Return sums under `pixels` bool[H, W] over the listed tiles."""
        moments = self._weighted(block, pixels, tiles, with_moments=False)
        return Sums(moments.total, moments.nodata)

    def moments(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        """Return first moments under `pixels` bool[H, W] over the listed tiles."""
        return self._weighted(block, pixels, tiles, with_moments=True)

    def _weighted(
        self,
        block: int,
        pixels: NDArray[np.bool_],
        tiles: NDArray[np.int64],
        *,
        with_moments: bool,
    ) -> Moments:
        n = self.scan.layout.block_size(block)
        flat = np.ascontiguousarray(pixels).reshape(-1)
        coded, raw = self._float_tiles(block, np.asarray(tiles, np.int64))
        sums = np.zeros((3, n), np.int64)
        nodata = np.zeros(n, np.int64)

        def kernel(bad: NDArray[np.bool_]) -> None:
            args = (self._block(block), self._coding, coded, flat, bad)
            if with_moments:
                kernels.moment_tiles(*args, sums, nodata)
            else:
                kernels.sum_tiles(*args, sums[0], nodata)

        good = self._run(block, tiles, kernel)
        if not good:
            sums[...], nodata[...] = 0, 0
        if not self.scan.values.is_float:
            return Moments(*sums, nodata)
        scaled = sums * np.float64(self.scan.values.scale)
        if good:
            for t in raw:
                self._add_raw_floats(block, int(t), pixels, scaled, nodata)
        return Moments(*scaled, nodata)

    def _add_raw_floats(
        self,
        block: int,
        tile: int,
        pixels: NDArray[np.bool_],
        moments: NDArray[np.float64],
        nodata: NDArray[np.int64],
    ) -> None:
        rect = self.scan.layout.tile_at(tile)
        row, column = np.nonzero(pixels[rect.r0 : rect.r1, rect.c0 : rect.c1])
        if not len(row):
            return
        values = self._raw_floats(block, tile)[row * (rect.c1 - rect.c0) + column]
        finite = np.isfinite(values)
        values[~finite] = 0
        nodata += (~finite).sum(axis=0)
        moments[0] += values.sum(axis=0)
        moments[1] += (values * (row + rect.r0)[:, None]).sum(axis=0)
        moments[2] += (values * (column + rect.c0)[:, None]).sum(axis=0)

    def reduce(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        """Return sum and maximum per pixel over the positions in `lanes` bool[n]."""
        layout = self.scan.layout
        if self.scan.values.is_float:
            return self._reduce_floats(block, lanes)
        total, nodata = np.zeros((2, layout.n_pixels), np.int64)
        largest = np.full(layout.n_pixels, _LOWEST)

        def kernel(bad: NDArray[np.bool_]) -> None:
            kernels.reduce_positions(
                self._block(block), self._coding, 0, layout.n_tiles, lanes, bad, total, largest,
                nodata,
            )  # fmt: skip

        if not self._run(block, self._all_tiles, kernel):
            total[...], nodata[...], largest[...] = 0, 0, _LOWEST
        shape = layout.detector_shape
        return Reduced(total.reshape(shape), largest.reshape(shape), nodata.reshape(shape))

    def _reduce_floats(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        values = self.patterns(block, np.flatnonzero(lanes))
        finite = np.isfinite(values)
        return Reduced(
            np.where(finite, values, 0).sum(axis=0, dtype=np.float64),
            np.where(finite, values, -np.inf).max(axis=0, initial=-np.inf).astype(np.float64),
            (~finite).sum(axis=0),
        )
