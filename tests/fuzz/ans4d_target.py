"""Damaged ``.ans4d`` files: refused, or every value right outside of reported holes.

Seed files are the golden files, which cover every value map and kind of chunk. Most cases damage
one anywhere or aim at one of its parts. The others give the damaged bytes right checksums again, so
that what lies behind the checksums is tried too: of those, values may differ, but nothing may
crash, hang or read outside its buffers.
"""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.container import open_container, verify
from tests.fuzz.damage import cut, flip_bits, overwrite
from tests.fuzz.run import WrongResult
from tests.golden.make_golden import CASES, FOLDER, truth

TIME_LIMIT_S = 20.0
FORGED = "forged.txt"
"""A file of this name in the folder: checksums were made right again, values may differ."""
_USER_BLOCK = 65536


def make_seed_files(folder: Path) -> None:
    for name in CASES:
        shutil.copy(FOLDER / f"{name}.ans4d", folder)


def warm_up(folder: Path) -> None:
    for name in CASES:
        _look(folder / f"{name}.ans4d", name)


@cache
def _truth(name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    return truth(name)


# ------------------------------------------------------------------------- damage


def mutate(rng: np.random.Generator, folder: Path) -> str:
    """Keep one of the seed files and damage it."""
    name = str(rng.choice(list(CASES)))
    path = folder / f"{name}.ans4d"
    for other in folder.iterdir():
        if other != path:
            other.unlink()
    kinds = {
        _anywhere: 0.2,
        _in_an_array: 0.25,
        _in_the_table: 0.05,
        _lost_sector: 0.1,
        cut: 0.05,
        _extend: 0.05,
        _swap: 0.1,
        _forge_array: 0.15,
        _forge_table: 0.05,
    }
    kind = list(kinds)[int(rng.choice(len(kinds), p=list(kinds.values())))]
    return f"{name}: {kind(rng, path)}"


def _anywhere(rng: np.random.Generator, path: Path) -> str:
    return _bits_or_bytes(rng, path, 0, path.stat().st_size)


def _bits_or_bytes(rng: np.random.Generator, path: Path, start: int, stop: int) -> str:
    return (flip_bits if rng.random() < 0.6 else overwrite)(rng, path, start, stop)


def _in_an_array(rng: np.random.Generator, path: Path) -> str:
    entry = _pick(rng, _table(path.read_bytes()))
    end = entry["offset"] + _nbytes(entry)
    return f"{entry['name']}: {_bits_or_bytes(rng, path, entry['offset'], end)}"


def _in_the_table(rng: np.random.Generator, path: Path) -> str:
    (length,) = struct.unpack_from("<I", path.read_bytes(), 12)
    return f"table: {_bits_or_bytes(rng, path, 0, 20 + length)}"


def _lost_sector(rng: np.random.Generator, path: Path) -> str:
    data = bytearray(path.read_bytes())
    place = int(rng.integers(0, len(data)))
    stop = min(place + int(rng.choice([16, 512, 4096])), len(data))
    data[place:stop] = bytes(stop - place) if rng.random() < 0.5 else rng.bytes(stop - place)
    path.write_bytes(data)
    return f"{stop - place} bytes replaced at {place}"


def _extend(rng: np.random.Generator, path: Path) -> str:
    """Add bytes at the end, or push them in somewhere."""
    data = path.read_bytes()
    place = len(data) if rng.random() < 0.5 else int(rng.integers(0, len(data)))
    more = rng.bytes(int(rng.integers(1, 5000)))
    path.write_bytes(data[:place] + more + data[place:])
    return f"{len(more)} bytes put in at {place}"


def _swap(rng: np.random.Generator, path: Path) -> str:
    """Let two sectors, or two pieces of the coded stream, change places."""
    data = bytearray(path.read_bytes())
    size = int(rng.choice([4, 512, 4096]))
    start, stop = 0, len(data)
    if rng.random() < 0.5:
        stream = next(e for e in _table(data)["arrays"] if e["name"] == "stream")
        start, stop = stream["offset"], stream["offset"] + _nbytes(stream)
    a, b = sorted(int(n) for n in rng.integers(start, stop, 2))
    size = min(size, b - a, len(data) - b)
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    path.write_bytes(data)
    return f"{size} bytes swapped between {a} and {b}"


def _forge_array(rng: np.random.Generator, path: Path) -> str:
    """Damage an array and make all checksums right again."""
    text = _in_an_array(rng, path)
    data = bytearray(path.read_bytes())
    _seal(data, _table(data))
    path.write_bytes(data)
    (path.parent / FORGED).touch()
    return f"forged {text}"


def _forge_table(rng: np.random.Generator, path: Path) -> str:
    """Change one entry of the table and make its checksum right again."""
    data = bytearray(path.read_bytes())
    table = _table(data)
    entry = table["arrays"][int(rng.integers(0, len(table["arrays"])))]
    value = int(rng.choice([0, 1, 3, 31, 255, 65535, 1 << 20, 1 << 32, 1 << 62, -1]))
    where = int(rng.integers(0, 6))
    if where == 0:
        entry["offset"] = value
    elif where == 1:
        entry["shape"][int(rng.integers(0, len(entry["shape"])))] = value
    elif where == 2:
        entry["dtype"] = str(rng.choice(["|u1", "<u2", "<u4", "<u8", "<i8", "<f8", "O", ""]))
    elif where == 3:
        table[str(rng.choice(["scan_shape", "detector_shape"]))][int(rng.integers(0, 2))] = value
    elif where == 4:
        table[str(rng.choice(["passes", "tile", "file_size"]))] = value
    else:
        table["values"][str(rng.choice(["offset", "scale", "nodata"]))] = value
    _seal(data, table)
    path.write_bytes(data)
    (path.parent / FORGED).touch()
    rest = {k: v for k, v in table.items() if k != "arrays"}
    return f"forged table: {json.dumps(rest)}, {json.dumps(entry)}"


def _table(data: bytes | bytearray) -> dict[str, Any]:
    (length,) = struct.unpack_from("<I", data, 12)
    table: dict[str, Any] = json.loads(data[20 : 20 + length])
    return table


def _nbytes(entry: dict[str, Any]) -> int:
    return int(np.prod(entry["shape"])) * int(entry["dtype"][-1])


def _pick(rng: np.random.Generator, table: dict[str, Any]) -> dict[str, Any]:
    entries = [e for e in table["arrays"] if _nbytes(e)]
    entry: dict[str, Any] = entries[int(rng.integers(0, len(entries)))]
    return entry


def _seal(data: bytearray, table: dict[str, Any]) -> None:
    """Make the checksums of chunks, arrays and table right, as far as they make sense."""
    with suppress(LookupError, ValueError, OverflowError, TypeError):
        _seal_chunks(data, table)
    for entry in table["arrays"]:
        with suppress(ValueError, OverflowError, LookupError):
            if entry["crc"] is not None:
                start = entry["offset"]
                entry["crc"] = zlib.crc32(data[start : start + _nbytes(entry)])
    body = json.dumps(table).encode()
    head = struct.pack("<8sII", bytes(data[:8]), 1, len(body))
    data[:_USER_BLOCK] = bytes(_USER_BLOCK)
    data[: 20 + len(body)] = head + struct.pack("<I", zlib.crc32(head + body)) + body


def _seal_chunks(data: bytearray, table: dict[str, Any]) -> None:
    arrays = {
        e["name"]: np.frombuffer(data, e["dtype"], int(np.prod(e["shape"])), e["offset"]).reshape(
            e["shape"]
        )
        for e in table["arrays"]
        if e["name"] in ("stream", "chunk_off", "chunk_crc", "block_base")
    }
    for block, row in enumerate(arrays["chunk_off"].astype(np.int64) * 4):
        base = int(arrays["block_base"][block])
        for tile, (start, stop) in enumerate(pairwise(row)):
            part = arrays["stream"][base + int(start) : base + int(stop)]
            arrays["chunk_crc"][block, tile] = zlib.crc32(part)


# -------------------------------------------------------------------------- check


def check(folder: Path) -> str:
    (path,) = folder.glob("*.ans4d")
    if (folder / FORGED).exists():
        _use(open_container(path).scan)
        label = "forged, read"
    else:
        label = _look(path, path.stem)
    verify(path)
    return label


def _look(path: Path, name: str) -> str:
    opened = open_container(path)
    scan, (expected, recorded) = opened.scan, _truth(name)
    layout = scan.layout
    if (*layout.scan_shape, *layout.detector_shape) != expected.shape:
        raise WrongResult(f"shape {layout.scan_shape} x {layout.detector_shape}")
    if layout.dtype != expected.dtype or not np.array_equal(layout.recorded, recorded):
        raise WrongResult("another dtype, or other recorded positions")
    decoder = CpuDecoder(scan)
    _compare_patterns(scan, decoder, expected)
    if expected.dtype.kind != "f":
        _compare_images(scan, decoder, expected)
    if not np.array_equal(scan.valid, recorded):
        return "hole"
    return "read, a part dropped" if opened.problems else "read"


def _use(scan: EncodedScan) -> None:
    layout, decoder = scan.layout, CpuDecoder(scan)
    pixels, tiles = np.ones(layout.detector_shape, bool), np.arange(layout.n_tiles)
    for block in range(layout.n_blocks):
        decoder.patterns(block)
        decoder.sums(block, pixels, tiles)
        decoder.moments(block, pixels, tiles)
        decoder.reduce(block, np.ones(layout.block_size(block), bool))


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    bits: NDArray[Any] = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return bits


def _compare_patterns(scan: EncodedScan, decoder: CpuDecoder, expected: NDArray[Any]) -> None:
    flat = expected.reshape(-1, *scan.layout.detector_shape)
    for block in range(scan.layout.n_blocks):
        patterns = decoder.patterns(block)
        wanted = flat[scan.layout.block_positions(block)]
        if not scan.damaged[block].any() and not np.array_equal(_bits(patterns), _bits(wanted)):
            raise WrongResult(f"other patterns in block {block}, which is not reported")


def _compare_images(scan: EncodedScan, decoder: CpuDecoder, expected: NDArray[Any]) -> None:
    """Compare detector images, decoded and from the stored tile sums."""
    layout, index = scan.layout, scan.index
    h, w = layout.detector_shape
    rows, columns = np.ogrid[:h, :w]
    pixels = (rows - h // 2) ** 2 + (columns - w // 2) ** 2 <= 20
    counts = expected.reshape(-1, h, w).astype(np.int64)
    if scan.values.nodata is not None:
        counts = np.where(counts == scan.values.nodata, 0, counts)
    for block in range(layout.n_blocks):
        total = decoder.sums(block, pixels, np.arange(layout.n_tiles)).total
        wanted = counts[layout.block_positions(block)][:, pixels].sum(axis=1)
        if not scan.damaged[block].any() and not np.array_equal(total, wanted):
            raise WrongResult(f"another image in block {block}, which is not reported")
    if index is None:
        return
    in_order = counts[layout.positions]
    if not np.array_equal(index.sum_pattern, in_order.sum(axis=0)):
        raise WrongResult("another sum pattern")
    in_order = np.where(index.masked, 0, in_order)
    for t, row in enumerate(index.tile_sum or ()):
        tile = layout.tile_at(t)
        part = in_order[:, tile.r0 : tile.r1, tile.c0 : tile.c1]
        if not np.array_equal(row, part.sum(axis=(1, 2))):
            raise WrongResult(f"other sums of tile {t}")
