"""Numba kernels of the encoder: patterns of one block in, coded chunks and exact sums out.

Serial and `nogil`: the caller spreads ranges of tiles over threads. Every buffer has the size of
the worst case, since Numba checks no array bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from napari_4dstem.codec.layout import RAW
from napari_4dstem.codec.model import CONSTANT, ESCAPE, OCTET, Schedule

_LOW = np.uint32(1 << 16)
_RENORM_SHIFT = np.uint32(20)
# Codes from here on are always escaped, so that 32-bit signed scratch suffices.
MAX_CODE = 1 << 30


class Geometry(NamedTuple):
    """Tile edge and camera size, in pixels."""

    tile: int
    height: int
    width: int


class ValueCoding(NamedTuple):
    """How source bits become codes: code = (bits ^ sign) - sign - offset.

    Bits equal to `nodata` are always escaped; a chunk with bits equal to `uncodable`, or with a
    constant pixel that is not `constant`, is written raw. -1 stands for "none".
    """

    offset: int
    sign: int
    nodata: int
    uncodable: int
    constant: int
    itemsize: int


class TileRect(NamedTuple):
    """One tile: flat index of its first pixel, its height and width, pixels of a camera row."""

    first: int
    height: int
    width: int
    stride: int


@njit(nogil=True, cache=True)
def tile_rect(t: int, geometry: Geometry) -> TileRect:
    """Return the pixels of tile `t` (row-major)."""
    columns = (geometry.width + geometry.tile - 1) // geometry.tile
    r0 = t // columns * geometry.tile
    c0 = t % columns * geometry.tile
    return TileRect(
        r0 * geometry.width + c0,
        min(geometry.tile, geometry.height - r0),
        min(geometry.tile, geometry.width - c0),
        geometry.width,
    )


@njit(nogil=True, cache=True)
def count_symbols(
    codes: NDArray[np.int32],
    class_map: NDArray[np.uint8],
    sizes: NDArray[np.uint8],
    shifts: NDArray[np.uint8],
    counts: NDArray[np.int64],
) -> None:
    """Add the symbols of `codes` i32[n, H, W] to the class histograms `counts` i64[K, 256]."""
    n, h, w = codes.shape
    for row in range(h):
        for first in range(0, w, OCTET):
            last = min(first + OCTET, w)
            g = 0
            for c in range(first, last):
                if class_map[row, c] != CONSTANT:
                    g = np.int64(sizes[class_map[row, c]])
            if g == 0:
                continue
            bits = 8 // g
            limit = (1 << bits) - 1
            for start in range(first, last, g):
                stop = min(start + g, last)
                k = CONSTANT
                for c in range(start, stop):
                    if class_map[row, c] != CONSTANT:
                        k = np.int64(class_map[row, c])
                if k == CONSTANT:
                    continue
                for i in range(n):
                    symbol = 0
                    for c in range(start, stop):
                        if class_map[row, c] == CONSTANT:
                            continue
                        value = np.int64(codes[i, row, c]) >> np.int64(shifts[k])
                        if value < 0 or value > limit:
                            symbol = ESCAPE
                        else:
                            symbol |= value << (bits * (c - start))
                    counts[k, symbol] += 1


@njit(nogil=True, cache=True)
def _gather(bits: Any, rect: TileRect, coding: ValueCoding, scratch: NDArray[np.int32]) -> None:
    """Transpose one tile: scratch[local pixel, position] = code, or -1 where it must escape."""
    for i in range(bits.shape[0]):
        local = 0
        for r in range(rect.height):
            row = rect.first + r * rect.stride
            for c in range(row, row + rect.width):
                raw = np.int64(bits[i, c])
                code = (raw ^ coding.sign) - coding.sign - coding.offset
                if raw == coding.nodata or code < 0 or code >= MAX_CODE:
                    code = np.int64(-1)
                scratch[local, i] = np.int32(code)
                local += 1


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
def _all_zero(scratch: NDArray[np.int32], n: int, t: int, steps: Schedule) -> bool:
    for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
        for i in range(np.int64(steps.size[s])):
            if (np.int64(steps.fields[s]) >> i) & 1:
                for j in range(n):
                    if scratch[steps.local[s] + i, j] != 0:
                        return False
    return True


@njit(nogil=True, cache=True)
def _symbols(
    scratch: NDArray[np.int32], n: int, p: int, s: int, steps: Schedule, out: NDArray[np.uint8]
) -> None:
    """Fill out[32] with the symbols of step `s` in pass `p`."""
    k = steps.cls[s]
    g = np.int64(steps.size[s])
    shift = np.int64(steps.shift[s])
    fields = np.int64(steps.fields[s])
    local = steps.local[s]
    freq = steps.freq[k]
    bits = 8 // g
    limit = (1 << bits) - 1
    for lane in range(32):
        position = p * 32 + lane
        if position >= n:
            out[lane] = steps.filler[k]
            continue
        symbol = np.int64(0)
        if g == 1:
            symbol = np.int64(scratch[local, position]) >> shift
            if symbol < 0 or symbol > ESCAPE:
                symbol = np.int64(ESCAPE)
        else:
            for i in range(g):
                if (fields >> i) & 1:
                    value = np.int64(scratch[local + i, position])
                    if value < 0 or value > limit:
                        symbol = np.int64(ESCAPE)
                        break
                    symbol |= value << (bits * i)
        if freq[symbol] == 0:
            symbol = np.int64(ESCAPE)
        out[lane] = symbol


@njit(nogil=True, cache=True)
def _encode_words(
    scratch: NDArray[np.int32],
    n: int,
    t: int,
    steps: Schedule,
    states: NDArray[np.uint32],
    reverse: NDArray[np.uint16],
) -> tuple[int, int]:
    """Run rANS backwards; return the number of words (last first in `reverse`) and of literals."""
    symbols = np.empty(32, np.uint8)
    states[:] = _LOW
    words = 0
    literals = 0
    for p in range((n + 31) // 32 - 1, -1, -1):
        for s in range(steps.tile_start[t + 1] - 1, steps.tile_start[t] - 1, -1):
            _symbols(scratch, n, p, s, steps, symbols)
            freq = steps.freq[steps.cls[s]]
            cum = steps.cum[steps.cls[s]]
            for lane in range(31, -1, -1):
                y = symbols[lane]
                f = freq[y]
                x = states[lane]
                if (x >> _RENORM_SHIFT) >= f:
                    reverse[words] = np.uint16(x & np.uint32(0xFFFF))
                    words += 1
                    x = x >> np.uint32(16)
                q = np.uint32(x // f)
                rest = np.uint32(x - np.uint32(q * f))
                states[lane] = np.uint32((q << np.uint32(12)) + rest + cum[y])
                if y == ESCAPE:
                    literals += np.int64(steps.size[s])
    return words, literals


@njit(nogil=True, cache=True)
def _literals(
    bits: Any,
    scratch: NDArray[np.int32],
    t: int,
    steps: Schedule,
    out: NDArray[np.uint8],
    end: int,
    width: int,
) -> int:
    """Write the literals, `width` bytes each, backwards from `end`; return the largest.

    With width 0 nothing is written: that call finds the width that is needed.
    """
    symbols = np.empty(32, np.uint8)
    n = bits.shape[0]
    largest = np.int64(0)
    at = end
    for p in range((n + 31) // 32):
        for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
            _symbols(scratch, n, p, s, steps, symbols)
            for lane in range(32):
                if symbols[lane] != ESCAPE:
                    continue
                for i in range(np.int64(steps.size[s])):
                    value = np.int64(0)
                    if (np.int64(steps.fields[s]) >> i) & 1:
                        value = np.int64(bits[p * 32 + lane, steps.pixel[s] + i])
                    largest = max(largest, value)
                    at -= width
                    for b in range(width):
                        out[at + b] = np.uint8((value >> (8 * b)) & 0xFF)
    return largest


@njit(nogil=True, cache=True)
def _put_u32(out: NDArray[np.uint8], at: int, value: int) -> None:
    for i in range(4):
        out[at + i] = np.uint8((value >> (8 * i)) & 0xFF)


@njit(nogil=True, cache=True)
def _write_planes(
    scratch: NDArray[np.int32], n: int, t: int, steps: Schedule, out: NDArray[np.uint8], at: int
) -> int:
    """Write the low bits of shifted pixels, one u32 of 32 lanes a bit; return the end."""
    for p in range((n + 31) // 32):
        for s in range(steps.tile_start[t], steps.tile_start[t + 1]):
            planes = np.int64(steps.shift[s])
            for k in range(planes):
                word = np.int64(0)
                for lane in range(min(32, n - p * 32)):
                    code = np.int64(scratch[steps.local[s], p * 32 + lane])
                    symbol = code >> planes
                    if code >= 0 and symbol < ESCAPE and steps.freq[steps.cls[s], symbol] != 0:
                        word |= ((code >> k) & 1) << lane
                _put_u32(out, at, word)
                at += 4
    return at


@njit(nogil=True, cache=True)
def _write_raw(source: Any, rect: TileRect, itemsize: int, out: NDArray[np.uint8], at: int) -> int:
    """Write a chunk as plain values, pixel-major, padded to 4 bytes; return the end."""
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
    return at


@njit(nogil=True, cache=True)
def _write_chunk(
    bits: Any,
    scratch: NDArray[np.int32],
    t: int,
    steps: Schedule,
    reverse: NDArray[np.uint16],
    raw_length: int,
    out: NDArray[np.uint8],
    start: int,
) -> tuple[int, int]:
    """Write one rANS chunk; return its length and mode, or length -1 if raw is not larger."""
    n = bits.shape[0]
    states = np.empty(32, np.uint32)
    words, literals = _encode_words(scratch, n, t, steps, states, reverse)
    mode = 0
    if literals:
        largest = _literals(bits, scratch, t, steps, out, start, 0)
        mode = 2 if largest > 0xFFFF else 1 if largest > 0xFF else 0
    planes = (n + 31) // 32 * steps.tile_planes[t]
    length = (128 + 4 * planes + 2 * words + (literals << mode) + 3) // 4 * 4
    if length >= raw_length:
        return -1, RAW
    for lane in range(32):
        _put_u32(out, start + 4 * lane, np.int64(states[lane]))
    at = _write_planes(scratch, n, t, steps, out, start + 128)
    for i in range(words - 1, -1, -1):
        out[at] = np.uint8(reverse[i] & np.uint16(0xFF))
        out[at + 1] = np.uint8(reverse[i] >> np.uint16(8))
        at += 2
    end = start + length
    out[at:end] = 0
    if literals:
        _literals(bits, scratch, t, steps, out, end, 1 << mode)
    return length, mode


@njit(nogil=True, cache=True)
def encode_tiles(
    bits: Any,
    source: Any,
    t0: int,
    t1: int,
    geometry: Geometry,
    coding: ValueCoding,
    class_map: NDArray[np.uint8],
    steps: Schedule,
    scratch: NDArray[np.int32],
    reverse: NDArray[np.uint16],
    out: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    modes: NDArray[np.uint8],
) -> int:
    """Encode tiles `t0:t1` of one block, one after the other into `out`.

    Parameters
    ----------
    bits
        u8/u16/u32[n, H * W], what is coded, in lane order.
    source
        Like `bits`: what a raw chunk holds. The same array, but for scaled floats.
    class_map
        u8[H * W].
    scratch, reverse
        i32[T * T, 32 R] and u16[32 R * most steps of a tile].
    out
        u8, at least the raw size of the tiles, each padded to 4 bytes.
    lengths, modes
        i64[n_tiles], u8[n_tiles]: filled for `t0:t1`; lengths in bytes.

    Returns
    -------
    int
        Bytes written.
    """
    n = bits.shape[0]
    at = 0
    for t in range(t0, t1):
        rect = tile_rect(t, geometry)
        raw_length = (rect.height * rect.width * n * coding.itemsize + 3) // 4 * 4
        length, mode = np.int64(-1), np.int64(RAW)
        if not _must_be_raw(bits, rect, coding, class_map):
            _gather(bits, rect, coding, scratch)
            if _all_zero(scratch, n, t, steps):
                length, mode = np.int64(0), np.int64(0)
            else:
                length, mode = _write_chunk(bits, scratch, t, steps, reverse, raw_length, out, at)
        if length < 0:
            length = _write_raw(source, rect, coding.itemsize, out, at) - at
        lengths[t] = length
        modes[t] = mode
        at += length
    return at


@njit(nogil=True, cache=True)
def reduce_tiles(
    bits: Any,
    t0: int,
    t1: int,
    geometry: Geometry,
    coding: ValueCoding,
    masked: NDArray[np.bool_],
    tile_sum: NDArray[np.int64],
    sum_pattern: NDArray[np.int64],
    max_pattern: NDArray[np.int64],
    nodata_count: NDArray[np.int64],
) -> None:
    """Sum the true values of tiles `t0:t1` of one block.

    Fills tile_sum i64[n_tiles, n] (without masked pixels); adds to sum_pattern, max_pattern and
    nodata_count, i64[H * W] (all pixels). No data adds nothing.
    """
    for t in range(t0, t1):
        rect = tile_rect(t, geometry)
        for i in range(bits.shape[0]):
            total = np.int64(0)
            for r in range(rect.height):
                row = rect.first + r * rect.stride
                for c in range(row, row + rect.width):
                    raw = np.int64(bits[i, c])
                    if raw == coding.nodata:
                        nodata_count[c] += 1
                        continue
                    value = (raw ^ coding.sign) - coding.sign
                    sum_pattern[c] += value
                    max_pattern[c] = max(max_pattern[c], value)
                    if not masked[c]:
                        total += value
            tile_sum[t, i] = total
