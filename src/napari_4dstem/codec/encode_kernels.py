"""Numba kernels of the encoder: the patterns of one block in, coded chunks out.

Serial and `nogil`: the caller spreads ranges of tiles over threads. Every buffer has the size of
the worst case, since Numba checks no array bounds. Little-endian machines only, like the format.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from napari_4dstem.codec.kernel_types import (
    MAX_CODE,
    Geometry,
    Int,
    TileRect,
    ValueCoding,
    tile_rect,
)
from napari_4dstem.codec.layout import RAW
from napari_4dstem.codec.model import CONSTANT, ESCAPE, Schedule
from napari_4dstem.codec.reduce_kernels import BlockSums, add_pass

_LOW = np.uint32(1 << 16)
_RENORM_SHIFT = np.uint32(20)


class Scratch(NamedTuple):
    """Buffers of one thread, for chunks of up to R passes and S steps.

    Attributes
    ----------
    bits
        u32[T * T, 32], source bits of one pass, by local pixel and lane.
    codes
        i32[R, T * T, 32], likewise of all passes; -1 where the value must escape.
    symbols
        u8[R * S, 32], by step (pass after pass) and lane.
    words
        u16[32 * R * S + 1], filled from the end, so that they lie in decoding order.
    """

    bits: NDArray[np.uint32]
    codes: NDArray[np.int32]
    symbols: NDArray[np.uint8]
    words: NDArray[np.uint16]


class Target(NamedTuple):
    """Where the chunks go: the same bytes as u8, u16 and u32."""

    u8: NDArray[np.uint8]
    u16: NDArray[np.uint16]
    u32: NDArray[np.uint32]


@njit(nogil=True, cache=True)
def _transpose(bits: Any, rect: TileRect, p: Int, out: NDArray[np.uint32]) -> None:
    """Copy one pass of one tile to out u32[T * T, 32], by local pixel and lane."""
    for r in range(rect.height):
        first = rect.first + r * rect.stride
        part = bits[p * 32 : p * 32 + 32, first : first + rect.width]
        target = out[r * rect.width : (r + 1) * rect.width]
        for lane in range(part.shape[0]):
            for c in range(part.shape[1]):
                target[c, lane] = np.uint32(part[lane, c])


@njit(nogil=True, cache=True)
def _codes_of(
    bits: NDArray[np.uint32], n_pixels: Int, live: Int, coding: ValueCoding, codes: Any
) -> None:
    """Fill codes i32[T * T, 32] of one pass from its bits."""
    for local in range(n_pixels):
        source, target = bits[local], codes[local]
        for lane in range(live):
            raw = np.int64(source[lane])
            code = (raw ^ coding.sign) - coding.sign - coding.offset
            coded = (raw != coding.nodata) & (code >= 0) & (code < MAX_CODE)
            target[lane] = np.int32(code) if coded else np.int32(-1)


@njit(nogil=True, cache=True)
def _gather(
    bits: Any, t: Int, rect: TileRect, coding: ValueCoding, scratch: Scratch, sums: BlockSums
) -> None:
    """Read one tile: fill the codes, and add to the sums while the numbers are at hand."""
    n = bits.shape[0]
    for p in range((n + 31) // 32):
        lanes = slice(p * 32, min(n, p * 32 + 32))
        _transpose(bits, rect, p, scratch.bits)
        live = lanes.stop - lanes.start
        _codes_of(scratch.bits, rect.height * rect.width, live, coding, scratch.codes[p])
        if sums.wanted:
            add_pass(scratch.bits, rect, coding, sums.tile_sum[t, lanes], sums)


@njit(nogil=True, cache=True)
def _must_be_raw(
    bits: Any, rect: TileRect, coding: ValueCoding, class_map: NDArray[np.uint8]
) -> bool:
    """Whether a constant pixel deviates, or a value has no code at all."""
    for r in range(rect.height):
        row = rect.first + r * rect.stride
        for c in range(row, row + rect.width):
            constant = class_map[c] == CONSTANT
            if not constant and coding.uncodable < 0:
                continue
            for i in range(bits.shape[0]):
                raw = np.int64(bits[i, c])
                if (constant and raw != coding.constant) or raw == coding.uncodable:
                    return True
    return False


@njit(nogil=True, cache=True)
def _all_zero(codes: NDArray[np.int32], n: Int, t: Int, steps: Schedule) -> bool:
    """Whether all coded pixels of a tile hold code 0 at all positions."""
    for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
        for i in range(np.int64(steps.size[s])):
            if (np.int64(steps.fields[s]) >> i) & 1:
                for position in range(n):
                    if codes[position // 32, steps.local[s] + i, position % 32] != 0:
                        return False
    return True


@njit(nogil=True, cache=True)
def _single_symbols(
    codes: NDArray[np.int32], live: Int, shift: Int, usable: NDArray[np.uint8], out: Any
) -> None:
    """Fill out[:live] with the symbols of one pixel.

    A code of -1 becomes a large unsigned number and so, like any that is too large, an escape.
    """
    for lane in range(live):
        symbol = np.uint32(codes[lane] >> np.int32(shift))
        out[lane] = usable[min(symbol, np.uint32(ESCAPE))]


@njit(nogil=True, cache=True)
def _packed_symbols(
    codes: NDArray[np.int32], live: Int, g: Int, fields: Int, usable: NDArray[np.uint8], out: Any
) -> None:
    """Fill out[:live] with the symbols of g pixels, codes i32[g, 32]."""
    width = 8 // g
    limit = np.uint32((1 << width) - 1)
    packed = np.zeros(32, np.uint32)
    any_bit = np.zeros(32, np.uint32)
    for i in range(g):
        if (fields >> i) & 1:
            row = codes[i]
            for lane in range(live):
                code = np.uint32(row[lane])
                any_bit[lane] |= code
                packed[lane] |= np.uint32(code << np.uint32(width * i))
    for lane in range(live):
        fits = any_bit[lane] <= limit
        out[lane] = usable[packed[lane] if fits else np.uint32(ESCAPE)]


@njit(nogil=True, cache=True)
def _fill_symbols(scratch: Scratch, n: Int, t: Int, steps: Schedule) -> Int:
    """Fill the symbols of a chunk; return the number of its literals."""
    literals: Int = 0
    row = 0
    for p in range((n + 31) // 32):
        live = min(32, n - p * 32)
        codes = scratch.codes[p]
        for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
            k, g, local = steps.cls[s], np.int64(steps.size[s]), steps.local[s]
            usable = steps.usable[k]
            out = scratch.symbols[row]
            if g == 1:
                _single_symbols(codes[local], live, np.int64(steps.shift[s]), usable, out)
            else:
                rows = codes[local : local + g]
                _packed_symbols(rows, live, g, np.int64(steps.fields[s]), usable, out)
            out[live:] = steps.filler[k]
            for lane in range(live):
                literals += g * np.int64(out[lane] == ESCAPE)
            row += 1
    return literals


@njit(nogil=True, cache=True)
def _encode_words(
    scratch: Scratch, passes: Int, t: Int, steps: Schedule, states: NDArray[np.uint32]
) -> Int:
    """Run rANS backwards over the symbols; return where the words begin in `scratch.words`."""
    states[:] = _LOW
    words = scratch.words
    at = np.int64(words.size)
    row = passes * (steps.tile_start[t + 1] - steps.tile_start[t])
    for _ in range(passes):
        for s in range(steps.tile_start[t + 1] - 1, steps.tile_start[t] - 1, -1):
            row -= 1
            freq = steps.freq[steps.cls[s]]
            cum = steps.cum[steps.cls[s]]
            inverse = steps.inverse[steps.cls[s]]
            for lane in range(31, -1, -1):
                y = scratch.symbols[row, lane]
                f = freq[y]
                x = states[lane]
                full = (x >> _RENORM_SHIFT) >= f
                # Written in any case and kept if needed: a branch here could not be predicted.
                words[at - 1] = np.uint16(x & np.uint32(0xFFFF))
                at -= np.int64(full)
                x = (x >> np.uint32(16)) if full else x
                # Exact, and quicker than a division of integers: both fit a float64 (x < 2^32), and
                # the quotient of x + 1/2 is never nearer to a whole number than 2^-13.
                q = np.uint32((np.float64(x) + 0.5) * inverse[y])
                states[lane] = np.uint32((q << np.uint32(12)) + (x - np.uint32(q * f)) + cum[y])
    return at


@njit(nogil=True, cache=True)
def _literals(
    bits: Any,
    scratch: Scratch,
    t: Int,
    steps: Schedule,
    out: NDArray[np.uint8],
    end: Int,
    width: Int,
) -> Int:
    """Write the literals, `width` bytes each, backwards from `end`; return the largest.

    With width 0 nothing is written: that call finds the width that is needed.
    """
    largest = np.int64(0)
    at = np.int64(end)
    row = 0
    for p in range((bits.shape[0] + 31) // 32):
        for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
            for lane in range(32):
                if scratch.symbols[row, lane] != ESCAPE:
                    continue
                for i in range(np.int64(steps.size[s])):
                    value = np.int64(0)
                    if (np.int64(steps.fields[s]) >> i) & 1:
                        value = np.int64(bits[p * 32 + lane, steps.pixel[s] + i])
                    largest = max(largest, value)
                    at -= width
                    for b in range(width):
                        out[at + b] = np.uint8((value >> (8 * b)) & 0xFF)
            row += 1
    return largest


@njit(nogil=True, cache=True)
def _write_planes(
    scratch: Scratch, n: Int, t: Int, steps: Schedule, out: NDArray[np.uint32], at: Int
) -> None:
    """Write the low bits of shifted pixels, one u32 of 32 lanes a bit, from out[at] on."""
    row = 0
    end = np.int64(at)
    for p in range((n + 31) // 32):
        for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
            codes = scratch.codes[p, steps.local[s]]
            for k in range(np.int64(steps.shift[s])):
                word = np.uint32(0)
                for lane in range(min(32, n - p * 32)):
                    coded = scratch.symbols[row, lane] != ESCAPE
                    bit = np.uint32(codes[lane] >> k) & np.uint32(coded)
                    word |= np.uint32(bit << np.uint32(lane))
                out[end] = word
                end += 1
            row += 1


@njit(nogil=True, cache=True)
def _write_raw(
    source: Any, rect: TileRect, itemsize: Int, out: NDArray[np.uint8], start: Int
) -> Int:
    """Write a chunk as plain values, pixel-major, padded to 4 bytes; return its length."""
    at = np.int64(start)
    for r in range(rect.height):
        row = rect.first + r * rect.stride
        for c in range(row, row + rect.width):
            for i in range(source.shape[0]):
                value = np.int64(source[i, c])
                for b in range(itemsize):
                    out[at] = np.uint8((value >> (8 * b)) & 0xFF)
                    at += 1
    while at % 4:
        out[at] = 0
        at += 1
    return at - start


@njit(nogil=True, cache=True)
def _write_chunk(
    bits: Any,
    scratch: Scratch,
    t: Int,
    steps: Schedule,
    raw_length: Int,
    target: Target,
    start: Int,
) -> tuple[Int, Int]:
    """Write one rANS chunk at byte `start`; return its length and mode; -1 if raw is not larger."""
    n = bits.shape[0]
    passes = (n + 31) // 32
    states = np.empty(32, np.uint32)
    literals = _fill_symbols(scratch, n, t, steps)
    first_word = _encode_words(scratch, passes, t, steps, states)
    words = scratch.words[first_word:]
    mode: Int = 0
    if literals:
        largest = _literals(bits, scratch, t, steps, target.u8, start, 0)
        mode = 2 if largest > 0xFFFF else 1 if largest > 0xFF else 0
    planes = 4 * passes * steps.tile_planes[t]
    length = (128 + planes + 2 * words.size + (literals << mode) + 3) // 4 * 4
    if length >= raw_length:
        return -1, RAW
    target.u32[start // 4 : start // 4 + 32] = states
    _write_planes(scratch, n, t, steps, target.u32, start // 4 + 32)
    at = (start + 128 + planes) // 2
    target.u16[at : at + words.size] = words
    target.u8[2 * (at + words.size) : start + length] = 0
    if literals:
        _literals(bits, scratch, t, steps, target.u8, start + length, 1 << mode)
    return length, mode


@njit(nogil=True, cache=True)
def encode_tiles(
    bits: Any,
    source: Any,
    t0: Int,
    t1: Int,
    geometry: Geometry,
    coding: ValueCoding,
    class_map: NDArray[np.uint8],
    steps: Schedule,
    scratch: Scratch,
    target: Target,
    sums: BlockSums,
    lengths: NDArray[np.int64],
    modes: NDArray[np.uint8],
) -> Int:
    """Encode tiles `t0:t1` of one block, one after the other into `target`.

    Parameters
    ----------
    bits
        u8/u16/u32[n, H * W], what is coded, in lane order.
    source
        Like `bits`: what a raw chunk holds. The same array, but for scaled floats.
    class_map
        u8[H * W].
    target
        At least the raw size of the tiles, each padded to 4 bytes.
    sums
        Receives the tiles' sums.
    lengths, modes
        i64[n_tiles], u8[n_tiles]: filled for `t0:t1`; lengths in bytes.

    Returns
    -------
    int
        Bytes written.
    """
    n = bits.shape[0]
    at: Int = 0
    for t in range(t0, t1):
        rect = tile_rect(t, geometry)
        raw_length = (rect.height * rect.width * n * coding.itemsize + 3) // 4 * 4
        length: Int = -1
        mode: Int = RAW
        _gather(bits, t, rect, coding, scratch, sums)
        if not _must_be_raw(bits, rect, coding, class_map):
            if _all_zero(scratch.codes, n, t, steps):
                length, mode = 0, 0
            else:
                length, mode = _write_chunk(bits, scratch, t, steps, raw_length, target, at)
        if length < 0:
            length = _write_raw(source, rect, coding.itemsize, target.u8, at)
        lengths[t] = length
        modes[t] = mode
        at += length
    return at
