"""Numba kernels over plain patterns: statistics of a sample, and the exact sums of a block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from napari_4dstem.codec.kernel_types import Int, TileRect, ValueCoding, value_of
from napari_4dstem.codec.model import CONSTANT, ESCAPE, OCTET


@njit(nogil=True, cache=True)
def add_moments(
    codes: NDArray[np.int32],
    total: NDArray[np.float64],
    squares: NDArray[np.float64],
    overflow: NDArray[np.int64],
) -> None:
    """Add one pattern to the sums from which pixels are sorted into classes.

    Parameters
    ----------
    codes
        i32[P], negative where a value has no code.
    total, squares
        f64[P], sums of the codes and of their squares.
    overflow
        i64[3, P], how often a code fits none of the fields of g = 2, 4, 8.
    """
    for c in range(codes.size):
        code = codes[c]
        for k in range(3):
            limit = (1 << (4 >> k)) - 1
            overflow[k, c] += code < 0 or code > limit
        if code > 0:
            total[c] += code
            squares[c] += float(code) * float(code)


@njit(nogil=True, cache=True)
def count_symbols(
    codes: NDArray[np.int32],
    class_map: NDArray[np.uint8],
    sizes: NDArray[np.uint8],
    shifts: NDArray[np.uint8],
    counts: NDArray[np.int64],
) -> None:
    """Add the symbols of one pattern i32[H, W] to the class histograms `counts` i64[K, 256].

    `sizes` and `shifts` u8[256] hold (g, shift) by class.
    """
    h, w = codes.shape
    for row in range(h):
        for first in range(0, w, OCTET):
            last = min(first + OCTET, w)
            g: Int = 0
            for c in range(first, last):
                if class_map[row, c] != CONSTANT:
                    g = np.int64(sizes[class_map[row, c]])
            if g == 0:
                continue
            bits = 8 // g
            limit = (1 << bits) - 1
            for start in range(first, last, g):
                k: Int = CONSTANT
                symbol: Int = 0
                for c in range(start, min(start + g, last)):
                    if class_map[row, c] == CONSTANT:
                        continue
                    k = np.int64(class_map[row, c])
                    value = np.int64(codes[row, c]) >> np.int64(shifts[k])
                    if value < 0 or value > limit:
                        symbol = ESCAPE
                        break
                    symbol |= value << (bits * (c - start))
                if k != CONSTANT:
                    counts[k, symbol] += 1


class BlockSums(NamedTuple):
    """The exact sums of one block, which grow tile by tile.

    Attributes
    ----------
    wanted
        Whether they are made at all (floats are summed elsewhere).
    masked
        Bool[H * W], pixels that `tile_sum` leaves out.
    tile_sum
        i64[n_tiles, n].
    total, largest, nodata
        i64[H * W], over the positions: sum, maximum, and how often there is no data.
    """

    wanted: bool
    masked: NDArray[np.bool_]
    tile_sum: NDArray[np.int64]
    total: NDArray[np.int64]
    largest: NDArray[np.int64]
    nodata: NDArray[np.int64]


_LOWEST = np.iinfo(np.int64).min


def new_block_sums(
    shape: tuple[int, int], n: int, masked: NDArray[np.bool_], *, wanted: bool
) -> BlockSums:
    """Return empty sums of a block of `n` positions; `shape` is (tiles, pixels)."""
    tiles, pixels = shape if wanted else (1, 1)
    total, nodata = np.zeros((2, pixels), np.int64)
    largest = np.full(pixels, _LOWEST)
    return BlockSums(wanted, masked, np.zeros((tiles, n), np.int64), total, largest, nodata)


@njit(nogil=True, cache=True)
def add_pass(
    bits: NDArray[np.uint32],
    rect: TileRect,
    coding: ValueCoding,
    tile_sum: NDArray[np.int64],
    sums: BlockSums,
) -> None:
    """Add one pass of one tile to the sums; no data adds nothing.

    Parameters
    ----------
    bits
        u32[T * T, 32], source bits by local pixel and lane.
    tile_sum
        i64[live lanes], the part of ``sums.tile_sum`` that belongs to it.
    """
    for r in range(rect.height):
        for c in range(rect.width):
            pixel = rect.first + r * rect.stride + c
            row = bits[r * rect.width + c]
            total = np.int64(0)
            largest = np.int64(_LOWEST)
            missing = np.int64(0)
            # All bits set, or none: without a branch the loop becomes vector instructions.
            unmasked = np.int64(0) if sums.masked[pixel] else np.int64(-1)
            for lane in range(tile_sum.size):
                gone = row[lane] == coding.nodata
                value = value_of(row[lane], coding)
                total += value
                largest = max(largest, np.int64(_LOWEST) if gone else value)
                missing += np.int64(gone)
                tile_sum[lane] += value & unmasked
            sums.total[pixel] += total
            sums.largest[pixel] = max(sums.largest[pixel], largest)
            sums.nodata[pixel] += missing
