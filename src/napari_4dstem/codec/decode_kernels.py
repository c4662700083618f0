"""Numba kernels of the decoder: one chunk to source bits (scalar; any processor).

A chunk is decoded one pass (32 positions) at a time into `bits` u32[T * T, 32]; the kernels in
``product_kernels`` reduce from there. The word, plane and literal pointers are held inside the
chunk, so that damaged bytes give wrong values (which the checksums find) but never a read outside
the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from napari_4dstem.codec.kernel_types import Geometry, Int, TileRect, ValueCoding, tile_rect
from napari_4dstem.codec.layout import RAW
from napari_4dstem.codec.model import CONSTANT, ESCAPE, Schedule

_LOW = np.uint32(1 << 16)

_TOO_SHORT = -1
_NOTHING = 0
_RANS = 1
_PLAIN = 2


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


class Chunk(NamedTuple):
    """A chunk that is being decoded.

    Attributes
    ----------
    states
        u32[32], of the lanes.
    cursor
        i64[4]: next word (in 2-byte units), next plane and end of the literals to come (in
        bytes), all from the block's start; and 1 if the words ran out.
    bits
        u32[T * T, 32], the pass decoded last, by local pixel and lane: the source's bits (codes,
        for scaled floats).
    """

    states: NDArray[np.uint32]
    cursor: NDArray[np.int64]
    bits: NDArray[np.uint32]


@njit(nogil=True, cache=True)
def new_chunk(geometry: Geometry) -> Chunk:
    """Return the buffers for any chunk of this geometry."""
    return Chunk(
        np.empty(32, np.uint32),
        np.zeros(4, np.int64),
        np.empty((geometry.tile * geometry.tile, 32), np.uint32),
    )


@njit(nogil=True, cache=True)
def _all_bits(value: ValueCoding) -> Int:
    return (1 << (8 * value.itemsize)) - 1


@njit(nogil=True, cache=True)
def _read(u8: NDArray[np.uint8], at: Int, width: Int) -> Int:
    value = np.int64(0)
    for b in range(width):
        value |= np.int64(u8[at + b]) << (8 * b)
    return value


@njit(nogil=True, cache=True)
def _raw_pass(
    block: BlockBytes, t: Int, p: Int, rect: TileRect, itemsize: Int, chunk: Chunk
) -> None:
    start = 4 * np.int64(block.offsets[t])
    for local in range(rect.height * rect.width):
        for lane in range(min(32, block.n - p * 32)):
            at = start + (local * block.n + p * 32 + lane) * itemsize
            chunk.bits[local, lane] = np.uint32(_read(block.u8, at, itemsize))


@njit(nogil=True, cache=True)
def _fill_uncoded(rect: TileRect, coding: Coding, chunk: Chunk) -> None:
    """Set the constant pixels, and code 0 elsewhere: what a chunk without a coded bit holds."""
    zero = coding.value.offset & _all_bits(coding.value)
    local = 0
    for r in range(rect.height):
        row = rect.first + r * rect.stride
        for c in range(row, row + rect.width):
            uncoded = coding.class_map[c] == CONSTANT
            chunk.bits[local, :] = np.uint32(coding.value.constant if uncoded else zero)
            local += 1


@njit(nogil=True, cache=True)
def _unpack_fields(
    symbols: NDArray[np.uint8],
    g: Int,
    fields: Int,
    offset: Int,
    all_bits: Int,
    bits: NDArray[np.uint32],
) -> None:
    """Unpack symbols of g pixels each into the rows of bits u32[g, 32] that `fields` names."""
    width = 8 // g
    limit = np.uint32((1 << width) - 1)
    for i in range(g):
        if (fields >> i) & 1:
            row = bits[i]
            down = np.uint32(width * i)
            for lane in range(32):
                code = (np.uint32(symbols[lane]) >> down) & limit
                row[lane] = np.uint32(code + np.uint32(offset)) & np.uint32(all_bits)


@njit(nogil=True, cache=True)
def _join_planes(
    symbols: NDArray[np.uint8],
    shift: Int,
    u8: NDArray[np.uint8],
    plane: Int,
    offset: Int,
    all_bits: Int,
    row: NDArray[np.uint32],
) -> None:
    """Put symbols of one pixel and their `shift` low bits, from byte `plane` on, together."""
    for lane in range(32):
        row[lane] = np.uint32(symbols[lane]) << np.uint32(shift)
    for k in range(shift):
        word = np.uint32(_read(u8, plane + 4 * k, 4))
        for lane in range(32):
            bit = (word >> np.uint32(lane)) & np.uint32(1)
            row[lane] |= np.uint32(bit << np.uint32(k))
    for lane in range(32):
        row[lane] = np.uint32(row[lane] + np.uint32(offset)) & np.uint32(all_bits)


@njit(nogil=True, cache=True)
def _put_literals(
    symbols: NDArray[np.uint8],
    s: Int,
    steps: Schedule,
    u8: NDArray[np.uint8],
    first: Int,
    end: Int,
    width: Int,
    chunk: Chunk,
) -> None:
    """Put the literals of one step in place; they lie backwards from `end`, never below `first`."""
    at = np.int64(end)
    for lane in range(32):
        if symbols[lane] != ESCAPE:
            continue
        for i in range(np.int64(steps.size[s])):
            at -= width
            if (np.int64(steps.fields[s]) >> i) & 1:
                literal = np.uint32(_read(u8, max(at, first), width))
                chunk.bits[steps.local[s] + i, lane] = literal


@njit(nogil=True, cache=True)
def _rans_pass(block: BlockBytes, t: Int, coding: Coding, wanted: bool, chunk: Chunk) -> None:
    steps = coding.steps
    states, cursor = chunk.states, chunk.cursor
    symbols = np.empty(32, np.uint8)
    first = 4 * np.int64(block.offsets[t])
    last_word = 2 * np.int64(block.offsets[t + 1])
    width = np.int64(1) << np.int64(block.modes[t])
    w, plane, literal = cursor[0], cursor[1], cursor[2]
    offset, all_bits = coding.value.offset, _all_bits(coding.value)
    for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
        table = steps.table[steps.cls[s]]
        escapes: Int = 0
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
        if w > last_word:  # damaged: stay inside, the padding allows for one step too far
            w = last_word
            cursor[3] = 1
        if wanted:
            g, local = np.int64(steps.size[s]), steps.local[s]
            if g == 1:
                shift = np.int64(steps.shift[s])
                row = chunk.bits[local]
                _join_planes(symbols, shift, block.u8, plane, offset, all_bits, row)
            else:
                rows = chunk.bits[local : local + g]
                _unpack_fields(symbols, g, np.int64(steps.fields[s]), offset, all_bits, rows)
        plane += 4 * np.int64(steps.shift[s])
        if escapes:
            if wanted:
                _put_literals(symbols, s, steps, block.u8, first, literal, width, chunk)
            literal -= escapes * np.int64(steps.size[s]) * width
    cursor[0], cursor[1], cursor[2] = w, plane, literal


@njit(nogil=True, cache=True)
def open_chunk(block: BlockBytes, t: Int, coding: Coding, chunk: Chunk) -> Int:
    """Prepare a chunk for `decode_pass`; return its kind, negative if it is too short for one."""
    rect = tile_rect(t, coding.geometry)
    start = 4 * np.int64(block.offsets[t])
    end = 4 * np.int64(block.offsets[t + 1])
    _fill_uncoded(rect, coding, chunk)
    chunk.cursor[:] = 0
    if block.modes[t] == RAW:
        size = rect.height * rect.width * block.n * coding.value.itemsize
        return _PLAIN if end - start == (size + 3) // 4 * 4 else _TOO_SHORT
    if end == start:
        return _NOTHING
    planes = 4 * ((block.n + 31) // 32) * coding.steps.tile_planes[t]
    if block.modes[t] > RAW or end - start < 128 + planes:
        return _TOO_SHORT
    for lane in range(32):
        chunk.states[lane] = np.uint32(_read(block.u8, start + 4 * lane, 4))
    chunk.cursor[0] = (start + 128 + planes) // 2
    chunk.cursor[1] = start + 128
    chunk.cursor[2] = end
    return _RANS


@njit(nogil=True, cache=True)
def decode_pass(
    kind: Int, block: BlockBytes, t: Int, p: Int, coding: Coding, wanted: bool, chunk: Chunk
) -> None:
    """Decode pass `p`, the one after the last; its values only if they are `wanted`."""
    if kind == _RANS:
        _rans_pass(block, t, coding, wanted, chunk)
    elif kind == _PLAIN and wanted:
        rect = tile_rect(t, coding.geometry)
        _raw_pass(block, t, p, rect, coding.value.itemsize, chunk)


@njit(nogil=True, cache=True)
def is_sound(kind: Int, complete: bool, chunk: Chunk) -> bool:
    """Whether nothing speaks against a chunk decoded so far.

    A completely decoded one was consumed exactly, and left every lane where the encoder began.
    """
    if kind != _RANS:
        return kind != _TOO_SHORT
    gap = chunk.cursor[2] - 2 * chunk.cursor[0]
    sound = bool(chunk.cursor[3] == 0 and gap >= 0)
    if complete:
        sound = sound and gap < 4
        for lane in range(32):
            sound = sound and chunk.states[lane] == _LOW
    return sound
