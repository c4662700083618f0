"""Damage in an Arina acquisition: in the master, in its data files, in all layouts that are read.

Nothing may crash or hang; and a pattern that comes back must be one that h5py reads from the same
damaged files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import DamagedDataError
from napari_4dstem.sources import OpenOptions, inspect, open_source, sniff
from tests.fuzz import WrongResult, damage_file
from tests.fuzz.run import ROOT
from tests.sources.arina_files import Writer, counts, write_sidecar, write_virtual

MEMORY_LIMIT = 2 << 30
_SCAN = (3, 5)
_SETS = {
    "linked": Writer(per_file=6, block=64),
    "linked_new": Writer(per_file=6, block=64, libver="latest"),
    "one_file": Writer(block=64),
    "one_file_new": Writer(block=128, libver="latest"),
    "lz4": Writer(per_file=8, filters="lz4", block=100),
    "zstd": Writer(filters="bitshuffle-zstd", block=64),
    "gzip": Writer(filters="gzip"),
    "plain": Writer(chunk=None),
    "large_chunks": Writer(per_file=10, chunk=4, block=64),
}
_PER_FILE = {"virtual": 6, "simulated": 50}
# A larger set, where the files are at hand (the cases of a seed are others without it).
_SIMULATED = Path(os.environ.get("N4_SHARED_DATA", ROOT.parent / "shared" / "data"), "sim_variants")


def make_seed_files(folder: Path) -> None:
    """Write one set a layout, each in a folder of its own."""
    rng = np.random.default_rng(7)
    frames = counts(rng, (_SCAN[0] * _SCAN[1], 22, 26))
    mask = np.zeros(frames.shape[1:], np.uint32)
    mask[3, 4] = 1
    for name, writer in _SETS.items():
        master = writer.write(folder / name, frames, mask=mask)
        write_sidecar(master, NumPixelsX=_SCAN[1], NumPixelsY=_SCAN[0], PixelSize=0.02)
    master = write_virtual(folder / "virtual", frames[:, None].repeat(2, 1), 6, ["low", "high"])
    write_sidecar(master, NumPixelsX=_SCAN[1], NumPixelsY=_SCAN[0])
    if _SIMULATED.is_dir():
        (folder / "simulated").mkdir()
        for path in _SIMULATED.glob("var_8x12*.h5"):
            shutil.copyfile(path, folder / "simulated" / path.name)


def warm_up(folder: Path) -> None:
    """Read every undamaged set."""
    for name in sorted(p.name for p in folder.iterdir()):
        if _look(folder / name) != "read":
            raise AssertionError(f"{name} cannot be read undamaged")


def mutate(rng: np.random.Generator, folder: Path) -> str:
    """Damage one file of one set, and leave only this set."""
    names = sorted(p.name for p in folder.iterdir())
    name = names[int(rng.integers(0, len(names)))]
    files = sorted((folder / name).glob("*.h5"))
    path = files[int(rng.integers(0, len(files)))]
    text = damage_file(rng, path, list(_interesting(path)))
    (folder / "chosen").write_text(name)
    return f"{name}: {text}"


def _interesting(path: Path) -> Iterator[tuple[int, int]]:
    """Yield where the headers of chunks lie, and the file's own header."""
    yield 0, 96
    with h5py.File(path, "r") as file:
        data = file.get("entry/data/data")
        if isinstance(data, h5py.Dataset) and data.chunks:
            found: list[Any] = []
            data.id.chunk_iter(found.append)
            for info in found[:8]:
                yield info.byte_offset, info.byte_offset + 20


def check(folder: Path) -> str:
    """Read everything that can be read and compare it with what h5py reads."""
    return _look(folder / (folder / "chosen").read_text())


def _look(folder: Path) -> str:
    (master,) = folder.glob("*_master.h5")
    sniff(master)
    options = OpenOptions()
    info = inspect(master)
    if not info.ready:
        options = OpenOptions(scan_shape=info.scan_shape or _SCAN, partial=True)
    source = open_source(master, options)
    try:
        got, damaged = _read_all(source)
    finally:
        source.close()
    per_file = _PER_FILE.get(folder.name) or _SETS[folder.name].per_file
    columns = source.scan_shape[1]
    known = _read_with_h5py(master, [r * columns + c for r, c in got], per_file, source.dtype)
    for place, frame in got.items():
        if frame.tobytes() not in known:
            raise WrongResult(f"pattern {place} is none that h5py reads")
    if damaged:
        return "hole"
    return "read" if options == OpenOptions() else "partial"


def _read_all(source: Any) -> tuple[dict[tuple[int, int], NDArray[Any]], int]:
    got, damaged = {}, 0
    rows, columns = source.scan_shape
    if rows * columns > 1000:
        rows, columns = 1, min(columns, 50)
    for row in range(rows):
        for column in range(columns):
            if not source.recorded[row, column]:
                continue
            try:
                got[row, column] = source.pattern(row, column)
                again = source.read(row, range(column, column + 1))
            except DamagedDataError:
                damaged += 1
                continue
            if again[0].tobytes() != got[row, column].tobytes():
                raise WrongResult(f"pattern {(row, column)} differs between pattern() and read()")
    return got, damaged


def _read_with_h5py(
    master: Path, frames: list[int], per_file: int, dtype: np.dtype[Any]
) -> set[bytes]:
    """Return the frames that plain h5py reads at the places where the undamaged set had them.

    Only frames that our source has given out: the others could crash the decompression.
    """
    assert hdf5plugin is not None
    found = set()
    for frame in frames:
        number, place = divmod(frame, per_file) if per_file else (0, frame)
        path = master
        if per_file:
            path = Path(str(master).replace("_master.h5", f"_data_{number + 1:06d}.h5"))
        try:
            with h5py.File(path, "r") as file:
                data = file["entry/data/data"]
                index = (place, 0) if data.ndim == 4 else (place,)
                found.add(data[index].astype(dtype).tobytes())
        except (OSError, KeyError, RuntimeError, ValueError, TypeError):
            continue
    return found
