"""Damaged counts: one pattern is lost, the process and the other patterns are not."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest

from napari_4dstem.errors import DamagedDataError, SourceError
from napari_4dstem.sources import OpenOptions, inspect, open_source
from napari_4dstem.sources.chunks import BITSHUFFLE, LZ4, ChunkError, Filter, Pipeline
from tests.sources.arina_files import Writer, counts

FRAMES = counts(np.random.default_rng(9), (12, 30, 22))
OPTIONS = OpenOptions(scan_shape=(3, 4))


def chunks_of(path: Path) -> list[Any]:
    found: list[Any] = []
    with h5py.File(path, "r") as file:
        file["entry/data/data"].id.chunk_iter(found.append)
    return sorted(found, key=lambda c: c.chunk_offset)


def patch(path: Path, place: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)


def readable(path: Path) -> list[int]:
    """Return the frames that can be read; each of them must be right."""
    source = open_source(path, OPTIONS)
    try:
        good = []
        for frame in range(12):
            try:
                pattern = source.pattern(*divmod(frame, 4))
            except DamagedDataError:
                with pytest.raises(DamagedDataError, match=rf"{path}, frame {frame}\b"):
                    source.pattern(*divmod(frame, 4))
                with pytest.raises(DamagedDataError):
                    source.read(frame // 4, range(4))
                continue
            assert np.array_equal(pattern, FRAMES[frame])
            good.append(frame)
        return good
    finally:
        source.close()


@pytest.mark.parametrize("filters", ["bitshuffle", "bitshuffle-zstd", "lz4"])
@pytest.mark.parametrize(
    ("place", "content"),
    [
        (0, struct.pack(">Q", 1 << 62)),
        (0, struct.pack(">Q", 0)),
        (0, struct.pack(">Q", 30 * 22 * 2 - 2)),
        (8, struct.pack(">I", 0)),
        (8, struct.pack(">I", 0xFFFFFFFF)),
        (8, struct.pack(">I", 32)),
        (12, struct.pack(">I", 0xFFFFFFFF)),
        (12, struct.pack(">I", 0x7FFFFFFF)),
        (12, struct.pack(">I", 100_000)),
    ],
)
def test_lengths_that_would_crash_the_filter(
    tmp_path: Path, filters: str, place: int, content: bytes
) -> None:
    master = Writer(filters=filters, block=64).write(tmp_path, FRAMES)
    chunk = chunks_of(master)[5]
    patch(master, chunk.byte_offset + place, content)
    assert readable(master) == [f for f in range(12) if f != 5]


@pytest.mark.parametrize("filters", ["bitshuffle", "lz4", "gzip"])
def test_garbage_in_a_chunk(tmp_path: Path, filters: str) -> None:
    master = Writer(filters=filters, block=64).write(tmp_path, FRAMES)
    chunk = chunks_of(master)[7]
    patch(master, chunk.byte_offset, np.random.default_rng(1).bytes(chunk.size))
    assert readable(master) == [f for f in range(12) if f != 7]


def test_a_damaged_chunk_of_several_frames(tmp_path: Path) -> None:
    master = Writer(chunk=4, block=64).write(tmp_path, FRAMES)
    patch(master, chunks_of(master)[1].byte_offset + 12, b"\xff\xff\xff\xff")
    assert readable(master) == [0, 1, 2, 3, 8, 9, 10, 11]


def test_the_plain_read_would_have_crashed(tmp_path: Path) -> None:
    """The check is needed: without it this very file ends the process (or reads rubbish)."""
    master = Writer(block=64).write(tmp_path, FRAMES)
    patch(master, chunks_of(master)[5].byte_offset + 12, b"\x7f\xff\xff\xff")
    code = f"import h5py, hdf5plugin; h5py.File({str(master)!r})['entry/data/data'][5]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode != 0
    assert readable(master) == [f for f in range(12) if f != 5]


def test_chunks_the_index_puts_outside_the_file(tmp_path: Path) -> None:
    master = Writer(per_file=12, block=64).write(tmp_path, FRAMES)
    path = tmp_path / "scan_data_000001.h5"
    chunk = chunks_of(path)[3]
    stored = path.read_bytes()
    address = struct.pack("<Q", chunk.byte_offset)
    assert stored.count(address) == 1
    path.write_bytes(stored.replace(address, struct.pack("<Q", 1 << 40)))
    source = open_source(master, OPTIONS)
    try:
        with pytest.raises(DamagedDataError, match=r"outside the file.*Copy"):
            source.pattern(0, 3)
        assert np.array_equal(source.pattern(0, 2), FRAMES[2])
    finally:
        source.close()


def test_settings_of_the_filter_that_make_no_sense(tmp_path: Path) -> None:
    """The element size of bitshuffle is in the file's header, apart from the dataset's type."""
    master = Writer(block=64).write(tmp_path, FRAMES)
    stored = master.read_bytes()
    settings = struct.pack("<5I", 0, 4, 2, 64, 2)
    place = stored.find(struct.pack("<3I", 2, 64, 2))
    assert place > 0, settings
    patch(master, place, struct.pack("<3I", 0, 64, 2))
    info = inspect(master, OPTIONS)
    assert not info.ready
    assert "settings of its compression make no sense" in info.reason


def test_other_compressions_are_refused_by_name(tmp_path: Path) -> None:
    master = Writer().write(tmp_path, FRAMES)
    with h5py.File(master, "a") as file:
        del file["entry/data/data"]
        file.create_dataset(
            "entry/data/data", data=FRAMES, chunks=(1, 30, 22), **hdf5plugin.Blosc()
        )
    assert "compressed with Blosc" in inspect(master, OPTIONS).reason


@pytest.mark.parametrize(
    ("number", "values"),
    [(BITSHUFFLE, (0, 4, 2, 0, 2)), (BITSHUFFLE, (0, 4, 2, 0, 3)), (LZ4, ())],
)
def test_every_length_of_a_chunk_is_checked(number: int, values: tuple[int, ...]) -> None:
    """Cut at any byte, a chunk is refused; whole, it passes."""
    pipeline = Pipeline((Filter(number, values),), 2, 2 * 645)
    # ten blocks of 64 elements, and five elements left over
    blocks = [bytes(range(20 + i)) for i in range(10)]
    tail = b"0123456789"
    if number == LZ4:
        blocks, tail = [*blocks, tail], b""
    body = b"".join(struct.pack(">I", len(b)) + b for b in blocks)
    chunk = struct.pack(">QI", 1290, 128) + body + tail
    pipeline.check(chunk, 0)
    for length in range(len(chunk)):
        with pytest.raises(ChunkError):
            pipeline.check(chunk[:length], 0)
    with pytest.raises(ChunkError, match="filter mask"):
        pipeline.check(chunk, 2)
    with pytest.raises(ChunkError, match="instead of 1290"):
        pipeline.check(chunk, 1)
    pipeline.check(bytes(1290), 1)


def test_a_missing_hdf5plugin_is_named(tmp_path: Path) -> None:
    mask = np.zeros((30, 22), np.uint32)
    master = Writer(block=64).write(tmp_path, FRAMES, mask=mask)
    code = f"""
import json, sys
sys.modules["hdf5plugin"] = None
from napari_4dstem.errors import MissingDependencyError
from napari_4dstem.sources import OpenOptions, inspect, open_source, sniff
options = OpenOptions(scan_shape=(3, 4))
info = inspect({str(master)!r}, options)
try:
    open_source({str(master)!r}, options)
    text = ""
except MissingDependencyError as error:
    text = str(error)
print(json.dumps([info.ready, text, list(info.problems)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ready, text, problems = json.loads(done.stdout)
    assert ready
    assert "pip install hdf5plugin" in text
    assert any("pixel mask could not be read" in p for p in problems)


def test_a_damaged_master_names_the_file(tmp_path: Path) -> None:
    master = Writer().write(tmp_path, FRAMES)
    stored = bytearray(master.read_bytes())
    stored[96:800] = bytes(704)
    master.write_bytes(bytes(stored))
    with pytest.raises(SourceError, match=r"scan_master\.h5"):
        inspect(master)
