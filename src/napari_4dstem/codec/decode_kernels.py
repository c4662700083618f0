"""Numba kernels of the decoder (scalar; any processor).

Serial and `nogil`: the caller spreads blocks or ranges of tiles over threads. Every kernel decodes
a chunk one pass (32 positions) at a time into `values` i64[T * T, 32] and reduces from there. The
word, plane and literal pointers are held inside the chunk, so that damaged bytes give wrong values
(which the checksums find) but never a read outside the block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from napari_4dstem.codec.encode_kernels import Geometry, TileRect, ValueCoding, tile_rect
from napari_4dstem.codec.layout import RAW
from napari_4dstem.codec.model import CONSTANT, ESCAPE, Schedule

NODATA = -(1 << 62)
"""In `values`: there is no data at this pixel and position."""
_LOW = np.uint32(1 << 16)


class BlockBytes(NamedTuple):
    """One block as the kernels see it.

    `u8` and `u16` are views of the same bytes, `offsets` u32[n_tiles + 1] in 4-byte units, `modes`
    u8[n_tiles], `n` the number of positions.
    """

    u8: NDArray[np.uint8]
    u16: NDArray[np.uint16]
    offsets: NDArray[np.uint32]
    modes: NDArray[np.uint8]
    n: int


class Coding(NamedTuple):
    """What all chunks of a scan share."""

    geometry: Geometry
    value: ValueCoding
    class_map: NDArray[np.uint8]
    steps: Schedule


@njit(nogil=True, cache=True)
def _value_of(bits: int, coding: ValueCoding) -> int:
    if bits == coding.nodata:
        return NODATA
    return (bits ^ coding.sign) - coding.sign


@njit(nogil=True, cache=True)
def _read(u8: NDArray[np.uint8], at: int, width: int) -> int:
    value = np.int64(0)
    for b in range(width):
        value |= np.int64(u8[at + b]) << (8 * b)
    return value


@njit(nogil=True, cache=True)
def _raw_pass(
    block: BlockBytes, t: int, p: int, rect: TileRect, coding: Coding, values: NDArray[np.int64]
) -> None:
    itemsize = coding.value.itemsize
    start = 4 * np.int64(block.offsets[t])
    for local in range(rect.height * rect.width):
        for lane in range(min(32, block.n - p * 32)):
            at = start + (local * block.n + p * 32 + lane) * itemsize
            values[local, lane] = _value_of(_read(block.u8, at, itemsize), coding.value)


@njit(nogil=True, cache=True)
def _fill_uncoded(rect: TileRect, coding: Coding, values: NDArray[np.int64]) -> None:
    """Set the constant pixels, and code 0 elsewhere: what a chunk without a coded bit holds."""
    constant = _value_of(coding.value.constant, coding.value)
    local = 0
    for r in range(rect.height):
        row = rect.first + r * rect.stride
        for c in range(row, row + rect.width):
            fill = constant if coding.class_map[c] == CONSTANT else coding.value.offset
            for lane in range(32):
                values[local, lane] = fill
            local += 1


@njit(nogil=True, cache=True)
def _expand(
    symbols: NDArray[np.uint8],
    s: int,
    steps: Schedule,
    offset: int,
    u8: NDArray[np.uint8],
    plane: int,
    values: NDArray[np.int64],
) -> None:
    """Unpack the symbols of one step into the values of its pixels."""
    g = np.int64(steps.size[s])
    local = steps.local[s]
    if g == 1:
        shift = np.int64(steps.shift[s])
        for lane in range(32):
            values[local, lane] = (np.int64(symbols[lane]) << shift) + offset
        for k in range(shift):
            word = _read(u8, plane + 4 * k, 4)
            for lane in range(32):
                values[local, lane] += ((word >> lane) & 1) << k
        return
    bits = 8 // g
    limit = (1 << bits) - 1
    for i in range(g):
        if (np.int64(steps.fields[s]) >> i) & 1:
            for lane in range(32):
                values[local + i, lane] = ((np.int64(symbols[lane]) >> (bits * i)) & limit) + offset


@njit(nogil=True, cache=True)
def _put_literals(
    symbols: NDArray[np.uint8],
    s: int,
    steps: Schedule,
    value: ValueCoding,
    u8: NDArray[np.uint8],
    first: int,
    at: int,
    width: int,
    values: NDArray[np.int64],
) -> int:
    """Put the literals of one step in place; return the place of the next one."""
    for lane in range(32):
        if symbols[lane] != ESCAPE:
            continue
        for i in range(np.int64(steps.size[s])):
            at -= width
            bits = _read(u8, max(at, first), width)
            if (np.int64(steps.fields[s]) >> i) & 1:
                values[steps.local[s] + i, lane] = _value_of(bits, value)
    return at


@njit(nogil=True, cache=True)
def _rans_pass(
    block: BlockBytes,
    t: int,
    coding: Coding,
    wanted: bool,
    states: NDArray[np.uint32],
    cursor: NDArray[np.int64],
    values: NDArray[np.int64],
) -> None:
    """Decode the next pass of a chunk; `cursor` holds word, plane and literal pointers."""
    steps = coding.steps
    symbols = np.empty(32, np.uint8)
    first = 4 * np.int64(block.offsets[t])
    last_word = 2 * np.int64(block.offsets[t + 1])
    width = 1 << np.int64(block.modes[t])
    w, plane, literal = cursor[0], cursor[1], cursor[2]
    for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
        table = steps.table[steps.cls[s]]
        escapes = 0
        for lane in range(32):
            x = states[lane]
            e = table[x & np.uint32(0xFFF)]
            f = ((e >> np.uint32(8)) & np.uint32(0xFFF)) + np.uint32(1)
            x = np.uint32(f * (x >> np.uint32(12)) + (e >> np.uint32(20)))
            need = x < _LOW
            refilled = np.uint32((x << np.uint32(16)) | np.uint32(block.u16[w]))
            states[lane] = refilled if need else x
            w += np.int64(need)
            y = np.uint8(e & np.uint32(0xFF))
            symbols[lane] = y
            escapes += np.int64(y == ESCAPE)
        if w > last_word:  # damaged: stay inside, and never end exactly there
            w = last_word
            cursor[3] = 1
        if wanted:
            _expand(symbols, s, steps, coding.value.offset, block.u8, plane, values)
        plane += 4 * np.int64(steps.shift[s])
        if escapes:
            if wanted:
                _put_literals(
                    symbols, s, steps, coding.value, block.u8, first, literal, width, values
                )
            literal -= escapes * np.int64(steps.size[s]) * width
    cursor[0], cursor[1], cursor[2] = w, plane, literal


@njit(nogil=True, cache=True)
def _open_chunk(
    block: BlockBytes,
    t: int,
    coding: Coding,
    states: NDArray[np.uint32],
    cursor: NDArray[np.int64],
    values: NDArray[np.int64],
) -> int:
    """Prepare a chunk; return 0 nothing coded, 1 rANS, 2 raw, -1 too short to be one."""
    rect = tile_rect(t, coding.geometry)
    start = 4 * np.int64(block.offsets[t])
    end = 4 * np.int64(block.offsets[t + 1])
    _fill_uncoded(rect, coding, values)
    if block.modes[t] == RAW:
        size = rect.height * rect.width * block.n * coding.value.itemsize
        return 2 if end - start == (size + 3) // 4 * 4 else -1
    if end == start:
        return 0
    planes = 4 * ((block.n + 31) // 32) * coding.steps.tile_planes[t]
    if end - start < 128 + planes:
        return -1
    for lane in range(32):
        states[lane] = np.uint32(_read(block.u8, start + 4 * lane, 4))
    cursor[0] = (start + 128 + planes) // 2
    cursor[1] = start + 128
    cursor[2] = end
    cursor[3] = 0
    return 1


@njit(nogil=True, cache=True)
def _decode_pass(
    kind: int,
    block: BlockBytes,
    t: int,
    p: int,
    coding: Coding,
    wanted: bool,
    states: NDArray[np.uint32],
    cursor: NDArray[np.int64],
    values: NDArray[np.int64],
) -> None:
    if kind == 1:
        _rans_pass(block, t, coding, wanted, states, cursor, values)
    elif kind == 2 and wanted:
        _raw_pass(block, t, p, tile_rect(t, coding.geometry), coding, values)


@njit(nogil=True, cache=True)
def _ends_well(kind: int, states: NDArray[np.uint32], cursor: NDArray[np.int64]) -> bool:
    """Whether a fully decoded chunk was consumed exactly and left every lane at its start."""
    if kind != 1:
        return kind >= 0
    gap = cursor[2] - 2 * cursor[0]
    ok = cursor[3] == 0 and gap >= 0 and gap < 4
    for lane in range(32):
        ok &= states[lane] == _LOW
    return ok


@njit(nogil=True, cache=True)
def decode_patterns(
    block: BlockBytes,
    coding: Coding,
    lanes: NDArray[np.int64],
    t0: int,
    t1: int,
    bad: NDArray[np.bool_],
    out: Any,
) -> None:
    """Decode the patterns of some positions, tiles `t0:t1`.

    Parameters
    ----------
    lanes
        i64[k], positions in the block, ascending.
    bad
        Bool[n_tiles]: set where a chunk turns out damaged (fully decoded ones only).
    out
        u8/u16/u32[k, H * W], receives the source's bits.
    """
    values = np.empty((coding.geometry.tile * coding.geometry.tile, 32), np.int64)
    states = np.empty(32, np.uint32)
    cursor = np.zeros(4, np.int64)
    passes = (block.n + 31) // 32
    for t in range(t0, t1):
        rect = tile_rect(t, coding.geometry)
        kind = _open_chunk(block, t, coding, states, cursor, values)
        first = 0
        for p in range(lanes[-1] // 32 + 1):
            last = first
            while last < lanes.size and lanes[last] // 32 == p:
                last += 1
            _decode_pass(kind, block, t, p, coding, last > first, states, cursor, values)
            for k in range(first, last):
                local = 0
                for r in range(rect.height):
                    row = rect.first + r * rect.stride
                    for c in range(row, row + rect.width):
                        v = values[local, lanes[k] % 32]
                        out[k, c] = coding.value.nodata if v == NODATA else v
                        local += 1
            first = last
        if lanes[-1] // 32 + 1 == passes and not _ends_well(kind, states, cursor):
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
    values = np.empty((coding.geometry.tile * coding.geometry.tile, 32), np.int64)
    states = np.empty(32, np.uint32)
    cursor = np.zeros(4, np.int64)
    for t in tiles:
        rect = tile_rect(t, coding.geometry)
        kind = _open_chunk(block, t, coding, states, cursor, values)
        for p in range((block.n + 31) // 32):
            _decode_pass(kind, block, t, p, coding, True, states, cursor, values)
            live = min(32, block.n - p * 32)
            for r in range(rect.height):
                for c in range(rect.width):
                    if not pixels[rect.first + r * rect.stride + c]:
                        continue
                    local = r * rect.width + c
                    for lane in range(live):
                        v = values[local, lane]
                        gone = v == NODATA
                        total[p * 32 + lane] += np.int64(0) if gone else v
                        nodata[p * 32 + lane] += np.int64(gone)
        if not _ends_well(kind, states, cursor):
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
    values = np.empty((coding.geometry.tile * coding.geometry.tile, 32), np.int64)
    states = np.empty(32, np.uint32)
    cursor = np.zeros(4, np.int64)
    for t in tiles:
        rect = tile_rect(t, coding.geometry)
        kind = _open_chunk(block, t, coding, states, cursor, values)
        for p in range((block.n + 31) // 32):
            _decode_pass(kind, block, t, p, coding, True, states, cursor, values)
            live = min(32, block.n - p * 32)
            for r in range(rect.height):
                for c in range(rect.width):
                    pixel = rect.first + r * rect.stride + c
                    if not pixels[pixel]:
                        continue
                    row = pixel // rect.stride
                    column = pixel % rect.stride
                    for lane in range(live):
                        v = values[r * rect.width + c, lane]
                        if v == NODATA:
                            nodata[p * 32 + lane] += 1
                        else:
                            moments[0, p * 32 + lane] += v
                            moments[1, p * 32 + lane] += row * v
                            moments[2, p * 32 + lane] += column * v
        if not _ends_well(kind, states, cursor):
            bad[t] = True


@njit(nogil=True, cache=True)
def reduce_positions(
    block: BlockBytes,
    coding: Coding,
    t0: int,
    t1: int,
    lanes: NDArray[np.bool_],
    bad: NDArray[np.bool_],
    total: NDArray[np.int64],
    largest: NDArray[np.int64],
    nodata: NDArray[np.int64],
) -> None:
    """Add the patterns of the positions in `lanes` bool[n] to i64[H * W] sum, maximum, no data."""
    values = np.empty((coding.geometry.tile * coding.geometry.tile, 32), np.int64)
    states = np.empty(32, np.uint32)
    cursor = np.zeros(4, np.int64)
    for t in range(t0, t1):
        rect = tile_rect(t, coding.geometry)
        kind = _open_chunk(block, t, coding, states, cursor, values)
        for p in range((block.n + 31) // 32):
            inside = lanes[p * 32 : min(block.n, p * 32 + 32)]
            wanted = inside.any()
            _decode_pass(kind, block, t, p, coding, wanted, states, cursor, values)
            if not wanted:
                continue
            for r in range(rect.height):
                for c in range(rect.width):
                    pixel = rect.first + r * rect.stride + c
                    for lane in range(inside.size):
                        v = values[r * rect.width + c, lane]
                        if not inside[lane]:
                            continue
                        if v == NODATA:
                            nodata[pixel] += 1
                        else:
                            total[pixel] += v
                            largest[pixel] = max(largest[pixel], v)
        if not _ends_well(kind, states, cursor):
            bad[t] = True
