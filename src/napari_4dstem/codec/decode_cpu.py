"""The CPU decoder: the block-reading protocol on Numba kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_4dstem.codec import product_kernels as kernels
from napari_4dstem.codec.decode_kernels import BlockBytes, Coding
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.kernel_types import Geometry, kernel_array
from napari_4dstem.codec.layout import RAW
from napari_4dstem.codec.model import make_schedule
from napari_4dstem.codec.moments import moments_fit, refuse_moments
from napari_4dstem.codec.protocol import Moments, Reduced, Sums
from napari_4dstem.codec.values import bits_dtype, float_values, sums_exactly, value_coding

_LOWEST = np.iinfo(np.int64).min
_U8, _U16, _U32 = (np.dtype(name) for name in ("u1", "u2", "u4"))
_BOOL, _I64 = np.dtype(bool), np.dtype(np.int64)


class CpuDecoder:
    """Decodes blocks of `scan` on the CPU; see `BlockDecoder` for the methods.

    Parameters
    ----------
    scan
        Its finished blocks can be decoded while others are still being coded.
    count_nodata
        Whether no-data values count as the numbers they are: what `mask=None` (raw values) needs.

    Raises
    ------
    ContainerError
        If the tables of a scan from a file contradict each other.
    """

    def __init__(self, scan: EncodedScan, *, count_nodata: bool = False) -> None:
        self.scan = scan
        layout = scan.layout
        values = replace(scan.values, nodata=None) if count_nodata else scan.values
        if not scan.trusted:
            scan.check_offsets()
        self._all_tiles = np.arange(layout.n_tiles)
        self._coding = Coding(
            Geometry(layout.tile, *layout.detector_shape),
            value_coding(values, layout.dtype),
            kernel_array(scan.model.class_map, _U8).reshape(-1),
            make_schedule(scan.model, layout),
        )
        self._codes_sum_exactly = sums_exactly(scan.values)

    def _block(self, block: int) -> BlockBytes:
        u8 = kernel_array(self.scan.blocks[block], _U8)
        return BlockBytes(
            u8,
            u8[: u8.size // 2 * 2].view(np.uint16),
            kernel_array(self.scan.chunk_off[block], _U32),
            kernel_array(self.scan.chunk_mode[block], _U8),
            self.scan.layout.block_size(block),
        )

    def _run(self, block: int, tiles: NDArray[np.int64], kernel: Callable[..., None]) -> bool:
        """Check the chunks, run ``kernel(block bytes, bad)``, note damage; return whether good."""
        if not self.scan.check_chunks(block, tiles):
            return False
        bad = np.zeros(self.scan.layout.n_tiles, bool)
        kernel(self._block(block), bad)
        if bad.any():
            self.scan.damaged[block] |= bad
            return False
        return True

    def patterns(self, block: int, lanes: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return the patterns [n, H, W] of the given lanes (ascending), or of all."""
        layout = self.scan.layout
        n = layout.block_size(block)
        wanted = kernel_array(np.asarray(np.arange(n) if lanes is None else lanes), _I64)
        _check_ascending(wanted, n)
        out = np.zeros((len(wanted), layout.n_pixels), bits_dtype(layout.dtype))

        def kernel(data: BlockBytes, bad: NDArray[np.bool_]) -> None:
            kernels.decode_patterns(data, self._coding, wanted, 0, layout.n_tiles, bad, out)

        if len(wanted):
            if not self._run(block, self._all_tiles, kernel):
                out[...] = 0
            elif self.scan.values.kind == "f32scaled":
                self._scale_in_place(block, out)
        return out.view(layout.dtype).reshape(len(wanted), *layout.detector_shape)

    def _scale_in_place(self, block: int, out: NDArray[np.uint32]) -> None:
        """Turn codes into floats, except in raw chunks, which hold floats already."""
        layout = self.scan.layout
        raw = np.zeros(layout.detector_shape, bool)
        for t in np.flatnonzero(self.scan.chunk_mode[block] == RAW):
            rect = layout.tile_at(int(t))
            raw[rect.r0 : rect.r1, rect.c0 : rect.c1] = True
        for pattern in out:  # one at a time: no copies of a whole block in float64
            floats = float_values(pattern, raw.reshape(-1), self.scan.values.scale)
            pattern[...] = floats.view(np.uint32)

    def sums(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Sums:
        """Return sums under `pixels` bool[H, W] over the listed tiles."""
        moments = self._weighted(block, pixels, tiles, with_moments=False)
        return Sums(moments.total, moments.nodata)

    def moments(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        """Return first moments under `pixels` bool[H, W] over the listed tiles.

        Raises
        ------
        UsageError
            If they could exceed 64 bits.
        """
        if not moments_fit(self.scan):
            refuse_moments()
        return self._weighted(block, pixels, tiles, with_moments=True)

    def _weighted(
        self, block: int, pixels: NDArray[np.bool_], tiles: ArrayLike, *, with_moments: bool
    ) -> Moments:
        layout = self.scan.layout
        tiles = kernel_array(np.asarray(tiles), _I64)
        if tiles.size and not (tiles.min() >= 0 and tiles.max() < layout.n_tiles):
            raise IndexError(f"tile outside 0..{layout.n_tiles - 1}")
        flat = kernel_array(_shaped(pixels, layout.detector_shape), _BOOL).reshape(-1)
        coded, floats = self._split_tiles(block, tiles)
        sums = np.zeros((3, layout.block_size(block)), np.int64)
        nodata = np.zeros(layout.block_size(block), np.int64)
        rounded = np.zeros((3, layout.block_size(block)))

        def kernel(data: BlockBytes, bad: NDArray[np.bool_]) -> None:
            if with_moments:
                kernels.moment_tiles(data, self._coding, coded, flat, bad, sums, nodata)
            else:
                kernels.sum_tiles(data, self._coding, coded, flat, bad, sums[0], nodata)
            for t in floats:
                self._add_float_tile(data, int(t), pixels, bad, rounded, nodata)

        if not self._run(block, tiles, kernel):
            sums[...], nodata[...], rounded[...] = 0, 0, 0
        if not self.scan.values.is_float:
            return Moments(sums[0], sums[1], sums[2], nodata)
        rounded += sums * np.float64(self.scan.values.scale)
        return Moments(rounded[0], rounded[1], rounded[2], nodata)

    def _split_tiles(
        self, block: int, tiles: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Split tiles into those whose codes can be summed, and those to be summed as floats."""
        if not self.scan.values.is_float:
            return tiles, tiles[:0]
        as_floats = self.scan.chunk_mode[block, tiles] == RAW
        as_floats |= not self._codes_sum_exactly
        return tiles[~as_floats], tiles[as_floats]

    def _float_tile(self, data: BlockBytes, tile: int, bad: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the values of a tile of a float scan as float64[pixels, n]."""
        out = np.empty((self.scan.layout.tile_at(tile).n_pixels, data.n), np.uint32)
        kernels.decode_tile(data, self._coding, tile, bad, out)
        raw = data.modes[tile : tile + 1] == RAW
        return float_values(out, raw, self.scan.values.scale).astype(np.float64)

    def _add_float_tile(
        self,
        data: BlockBytes,
        tile: int,
        pixels: NDArray[np.bool_],
        bad: NDArray[np.bool_],
        moments: NDArray[np.float64],
        nodata: NDArray[np.int64],
    ) -> None:
        rect = self.scan.layout.tile_at(tile)
        row, column = np.nonzero(pixels[rect.r0 : rect.r1, rect.c0 : rect.c1])
        values = self._float_tile(data, tile, bad)[row * (rect.c1 - rect.c0) + column]
        finite = np.isfinite(values)
        values[~finite] = 0
        nodata += (~finite).sum(axis=0)
        moments[0] += values.sum(axis=0)
        moments[1] += (values * (row + rect.r0)[:, None]).sum(axis=0)
        moments[2] += (values * (column + rect.c0)[:, None]).sum(axis=0)

    def reduce(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        """Return sum and maximum per pixel over the positions in `lanes` bool[n]."""
        layout = self.scan.layout
        wanted = kernel_array(_shaped(lanes, (layout.block_size(block),)), _BOOL)
        is_float = self.scan.values.is_float
        total: NDArray[Any] = np.zeros(layout.n_pixels, np.float64 if is_float else np.int64)
        largest = np.full_like(total, -np.inf if is_float else _LOWEST)
        nodata = np.zeros(layout.n_pixels, np.int64)

        def kernel(data: BlockBytes, bad: NDArray[np.bool_]) -> None:
            if is_float:
                self._reduce_floats(data, wanted, bad, total, largest, nodata)
            else:
                kernels.reduce_positions(
                    data, self._coding, 0, layout.n_tiles, wanted, bad, total, largest, nodata
                )

        if not self._run(block, self._all_tiles, kernel):
            total[...], largest[...], nodata[...] = 0, 0, 0
            largest[...] = -np.inf if is_float else _LOWEST
        shape = layout.detector_shape
        return Reduced(total.reshape(shape), largest.reshape(shape), nodata.reshape(shape))

    def _reduce_floats(
        self,
        data: BlockBytes,
        lanes: NDArray[np.bool_],
        bad: NDArray[np.bool_],
        total: NDArray[np.float64],
        largest: NDArray[np.float64],
        nodata: NDArray[np.int64],
    ) -> None:
        layout = self.scan.layout
        flat = np.arange(layout.n_pixels).reshape(layout.detector_shape)
        for t in range(layout.n_tiles):
            rect = layout.tile_at(t)
            pixels = flat[rect.r0 : rect.r1, rect.c0 : rect.c1].reshape(-1)
            values = self._float_tile(data, t, bad)[:, lanes]
            finite = np.isfinite(values)
            total[pixels] = np.where(finite, values, 0).sum(axis=1)
            largest[pixels] = np.where(finite, values, -np.inf).max(axis=1, initial=-np.inf)
            nodata[pixels] = (~finite).sum(axis=1)


def _check_ascending(lanes: NDArray[np.int64], n: int) -> None:
    inside = not lanes.size or (lanes.min() >= 0 and lanes.max() < n)
    if lanes.ndim != 1 or not inside or bool((np.diff(lanes) < 0).any()):
        raise IndexError(f"lanes must ascend within 0..{n - 1}")


def _shaped(array: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if array.shape != shape:
        raise ValueError(f"expected bool{list(shape)}, found shape {array.shape}")
    return array
