"""An independent reader of ``.ans4d`` files: plain NumPy, written from docs/format.md alone.

It shares no code with the library, so that a mistake in both coder and decoder there is seen here.
"""

import json
import struct
from pathlib import Path

import h5py
import numpy as np


def decode(path):
    """Return (patterns [rows, columns, H, W], recorded [rows, columns]); unrecorded are 0."""
    with Path(path).open("rb") as file:
        (length,) = struct.unpack("<12xI4x", file.read(20))
        head = json.loads(file.read(length))
    with h5py.File(path) as file:
        a = {k: file[k][...] for k in file if isinstance(file[k], h5py.Dataset)}
    (h, w), size, dtype = head["detector_shape"], head["tile"], np.dtype(head["dtype"])
    scan = np.zeros((*head["scan_shape"], h, w), dtype)
    recorded = np.zeros(head["scan_shape"], bool)
    flat = scan.reshape(-1, h, w)
    recorded.reshape(-1)[a["positions"]] = True
    corners = [(r, c) for r in range(0, h, size) for c in range(0, w, size)]
    for b in range(len(a["block_base"]) - 1):
        where = a["positions"][int(a["block_pos"][b]) : int(a["block_pos"][b + 1])]
        for t, (r, c) in enumerate(corners):
            start, stop = int(a["block_base"][b]) + 4 * a["chunk_off"][b, t : t + 2].astype(int)
            data, mode = a["stream"][start:stop].tobytes(), int(a["chunk_mode"][b, t])
            classes = a["class_map"][r : r + size, c : c + size]
            chunk = _chunk(data, mode, classes, a, len(where), head["values"], dtype)
            flat[where, r : r + size, c : c + size] = np.moveaxis(chunk, -1, 0)
    return scan, recorded


def _chunk(data, mode, classes, a, n, values, dtype):
    """Return one chunk as [tile rows, tile columns, n positions]."""
    if mode == 3:  # plain values, pixel by pixel
        return np.frombuffer(data, dtype, classes.size * n).reshape(*classes.shape, n)
    codes = np.zeros((*classes.shape, -(-n // 32) * 32), np.int64)
    bits = np.full(codes.shape, -1, np.int64)  # literals: the source's bits
    if data:
        _rans(data, 1 << mode, _steps(classes, a["classes"]), a, codes, bits)
    codes, bits = codes[..., :n], bits[..., :n]
    if values["kind"] == "f32scaled":  # literals hold codes here
        out = (np.where(bits < 0, codes, bits) * values["scale"]).astype(dtype)
    else:
        unsigned = np.dtype(f"<u{dtype.itemsize}")
        coded = (codes + values["offset"]).astype(dtype).view(unsigned)
        out = np.where(bits < 0, coded, bits).astype(unsigned).view(dtype)
        out[classes == 255] = np.iinfo(dtype).max
    return out


def _steps(classes, table):
    """Return [(class, row, first column, pixels)] of a tile in coding order."""
    steps = []
    for r, row in enumerate(classes):
        for octet in range(0, len(row), 8):
            coded = [int(k) for k in row[octet : octet + 8] if k != 255]
            g = int(table[coded[0], 0]) if coded else 8
            for c in range(octet, octet + 8, g):
                steps += [(int(k), r, c, g) for k in row[c : min(c + g, octet + 8)] if k != 255][:1]
    return sorted(steps)


def _rans(data, width, steps, a, codes, bits):
    """Decode a chunk into `codes`, and its literals into `bits`."""
    freq = a["freq"].astype(int)
    cum = np.cumsum(freq, axis=1) - freq
    symbol_of = [np.repeat(np.arange(256), f) for f in freq]
    shifts = [int(a["classes"][k, 1]) for k, *_ in steps]
    passes = codes.shape[-1] // 32
    x = np.frombuffer(data, "<u4", 32).astype(int)
    planes = np.frombuffer(data, "<u4", passes * sum(shifts), 128).astype(int)
    words = np.frombuffer(data, "<u2", offset=128 + 4 * len(planes)).astype(int)
    word, plane, literal = 0, 0, len(data)
    for first in range(0, 32 * passes, 32):
        for (k, r, c, g), shift in zip(steps, shifts, strict=True):
            symbol = symbol_of[k][x & 4095]
            x = freq[k][symbol] * (x >> 12) + (x & 4095) - cum[k][symbol]
            for lane in np.flatnonzero(x < 65536):
                x[lane] = x[lane] << 16 | words[word]
                word += 1
            inside = range(min(g, codes.shape[1] - c))
            for i in inside:
                field = symbol if g == 1 else symbol >> 8 // g * i & (1 << 8 // g) - 1
                codes[r, c + i, first : first + 32] = field << shift
            for bit in range(shift):
                codes[r, c, first : first + 32] += (planes[plane] >> np.arange(32) & 1) << bit
                plane += 1
            for lane in np.flatnonzero(symbol == 255):
                for i in range(g):
                    literal -= width
                    value = int.from_bytes(data[literal : literal + width], "little")
                    if i in inside:
                        bits[r, c + i, first + lane] = value
    assert (x == 65536).all()
    assert 0 <= literal - (128 + 4 * len(planes) + 2 * word) < 4
