"""Numba kernels that decode a block into what is asked for: patterns, sums, moments, reductions.

Serial and `nogil`: the caller spreads blocks or ranges of tiles over threads. Each sets `bad`
bool[n_tiles] where a chunk turns out damaged. Sums are 64-bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from napari_4dstem.codec.decode_kernels import (
    BlockBytes,
    Coding,
    decode_pass,
    is_sound,
    new_chunk,
    open_chunk,
)
from napari_4dstem.codec.kernel_types import Int, tile_rect, value_of


@njit(nogil=True, cache=True)
def decode_patterns(
    block: BlockBytes,
    coding: Coding,
    lanes: NDArray[np.int64],
    t0: Int,
    t1: Int,
    bad: NDArray[np.bool_],
    out: Any,
) -> None:
    """Decode the patterns of some positions, tiles `t0:t1`.

    Parameters
    ----------
    lanes
        i64[k], positions in the block, ascending, at least one.
    out
        u8/u16/u32[k, H * W], receives the bits (codes, for scaled floats).
    """
    chunk = new_chunk(coding.geometry)
    passes = lanes[-1] // 32 + 1
    complete = passes == (block.n + 31) // 32
    for t in range(t0, t1):
        rect = tile_rect(t, coding.geometry)
        kind = open_chunk(block, t, coding, chunk)
        first = 0
        for p in range(passes):
            last = first
            while last < lanes.size and lanes[last] // 32 == p:
                last += 1
            decode_pass(kind, block, t, p, coding, last > first, chunk)
            for k in range(first, last):
                lane = lanes[k] % 32
                local = 0
                for r in range(rect.height):
                    row = rect.first + r * rect.stride
                    for c in range(row, row + rect.width):
                        out[k, c] = chunk.bits[local, lane]
                        local += 1
            first = last
        if not is_sound(kind, complete, chunk):
            bad[t] = True


@njit(nogil=True, cache=True)
def decode_tile(
    block: BlockBytes, coding: Coding, t: Int, bad: NDArray[np.bool_], out: NDArray[np.uint32]
) -> None:
    """Decode one tile at all positions into out u32[pixels, n], like the bits of a `Chunk`."""
    chunk = new_chunk(coding.geometry)
    kind = open_chunk(block, t, coding, chunk)
    for p in range((block.n + 31) // 32):
        decode_pass(kind, block, t, p, coding, True, chunk)
        live = min(32, block.n - p * 32)
        out[:, p * 32 : p * 32 + live] = chunk.bits[: len(out), :live]
    if not is_sound(kind, True, chunk):
        bad[t] = True


@njit(nogil=True, cache=True)
def sum_tiles(
    block: BlockBytes,
    coding: Coding,
    tiles: NDArray[np.int64],
    pixels: NDArray[np.bool_],
    bad: NDArray[np.bool_],
    total: NDArray[np.int64],
    nodata: NDArray[np.int64],
) -> None:
    """Add the values under `pixels` bool[H * W] to total i64[n]; count no data in nodata i64[n]."""
    chunk = new_chunk(coding.geometry)
    for t in tiles:
        rect = tile_rect(t, coding.geometry)
        kind = open_chunk(block, t, coding, chunk)
        for p in range((block.n + 31) // 32):
            decode_pass(kind, block, t, p, coding, True, chunk)
            lanes = slice(p * 32, min(block.n, p * 32 + 32))
            p_total, p_nodata = total[lanes], nodata[lanes]
            for r in range(rect.height):
                for c in range(rect.width):
                    if pixels[rect.first + r * rect.stride + c]:
                        bits = chunk.bits[r * rect.width + c]
                        for lane in range(p_total.size):
                            p_total[lane] += value_of(bits[lane], coding.value)
                            p_nodata[lane] += np.int64(bits[lane] == coding.value.nodata)
        if not is_sound(kind, True, chunk):
            bad[t] = True


@njit(nogil=True, cache=True)
def moment_tiles(
    block: BlockBytes,
    coding: Coding,
    tiles: NDArray[np.int64],
    pixels: NDArray[np.bool_],
    bad: NDArray[np.bool_],
    moments: NDArray[np.int64],
    nodata: NDArray[np.int64],
) -> None:
    """Add value, row * value and column * value to moments i64[3, n]."""
    chunk = new_chunk(coding.geometry)
    for t in tiles:
        rect = tile_rect(t, coding.geometry)
        kind = open_chunk(block, t, coding, chunk)
        for p in range((block.n + 31) // 32):
            decode_pass(kind, block, t, p, coding, True, chunk)
            lanes = slice(p * 32, min(block.n, p * 32 + 32))
            p_total, p_rows, p_columns = moments[0, lanes], moments[1, lanes], moments[2, lanes]
            p_nodata = nodata[lanes]
            for r in range(rect.height):
                for c in range(rect.width):
                    pixel = rect.first + r * rect.stride + c
                    if not pixels[pixel]:
                        continue
                    row, column = pixel // rect.stride, pixel % rect.stride
                    bits = chunk.bits[r * rect.width + c]
                    for lane in range(p_total.size):
                        value = value_of(bits[lane], coding.value)
                        p_total[lane] += value
                        p_rows[lane] += row * value
                        p_columns[lane] += column * value
                        p_nodata[lane] += np.int64(bits[lane] == coding.value.nodata)
        if not is_sound(kind, True, chunk):
            bad[t] = True


@njit(nogil=True, cache=True)
def reduce_positions(
    block: BlockBytes,
    coding: Coding,
    t0: Int,
    t1: Int,
    lanes: NDArray[np.bool_],
    bad: NDArray[np.bool_],
    total: NDArray[np.int64],
    largest: NDArray[np.int64],
    nodata: NDArray[np.int64],
) -> None:
    """Add the patterns of the positions in `lanes` bool[n] to i64[H * W] sum, maximum, no data."""
    chunk = new_chunk(coding.geometry)
    for t in range(t0, t1):
        rect = tile_rect(t, coding.geometry)
        kind = open_chunk(block, t, coding, chunk)
        for p in range((block.n + 31) // 32):
            inside = lanes[p * 32 : min(block.n, p * 32 + 32)]
            wanted = bool(inside.any())
            decode_pass(kind, block, t, p, coding, wanted, chunk)
            if not wanted:
                continue
            for r in range(rect.height):
                for c in range(rect.width):
                    pixel = rect.first + r * rect.stride + c
                    bits = chunk.bits[r * rect.width + c]
                    for lane in range(inside.size):
                        if not inside[lane]:
                            continue
                        if bits[lane] == coding.value.nodata:
                            nodata[pixel] += 1
                        else:
                            value = value_of(bits[lane], coding.value)
                            total[pixel] += value
                            largest[pixel] = max(largest[pixel], value)
        if not is_sound(kind, True, chunk):
            bad[t] = True
