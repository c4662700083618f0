"""Numba kernels over plain patterns: statistics of a sample, and the exact sums of a block.

Serial and `nogil`: the caller spreads ranges of tiles over threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from napari_4dstem.codec.kernel_types import Geometry, Int, ValueCoding, tile_rect, value_of
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


@njit(nogil=True, cache=True)
def reduce_tiles(
    bits: Any,
    t0: Int,
    t1: Int,
    geometry: Geometry,
    coding: ValueCoding,
    masked: NDArray[np.bool_],
    tile_sum: NDArray[np.int64],
    sum_pattern: NDArray[np.int64],
    max_pattern: NDArray[np.int64],
    nodata_count: NDArray[np.int64],
) -> None:
    """Sum the true values of tiles `t0:t1` of one block `bits` u8/u16/u32[n, H * W].

    Fills tile_sum i64[n_tiles, n] (without masked pixels); adds to sum_pattern, max_pattern and
    nodata_count, i64[H * W] (all pixels). No data adds nothing.
    """
    for t in range(t0, t1):
        rect = tile_rect(t, geometry)
        for i in range(bits.shape[0]):
            total: Int = 0
            for r in range(rect.height):
                row = rect.first + r * rect.stride
                for c in range(row, row + rect.width):
                    if bits[i, c] == coding.nodata:
                        nodata_count[c] += 1
                        continue
                    value = value_of(bits[i, c], coding)
                    sum_pattern[c] += value
                    max_pattern[c] = max(max_pattern[c], value)
                    if not masked[c]:
                        total += value
            tile_sum[t, i] = total
