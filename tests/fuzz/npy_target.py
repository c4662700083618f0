"""Damage in NumPy files: never a crash; what comes back is what `numpy.load` reads, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from napari_4dstem.sources import OpenOptions, inspect, open_source, sniff
from tests.fuzz import WrongResult, damage_file

_TYPES = {"counts": "u2", "floats": "f4", "double": "f8", "swapped": ">u4", "fortran": "u1"}


def make_seed_files(folder: Path) -> None:
    """Write one file a type."""
    rng = np.random.default_rng(4)
    for name, dtype in _TYPES.items():
        array = rng.poisson(3.0, (3, 5, 6, 7)).astype(dtype)
        np.save(folder / f"{name}.npy", np.asfortranarray(array) if name == "fortran" else array)


def mutate(rng: np.random.Generator, folder: Path) -> str:
    """Damage one file, most often in its header, and leave only this one."""
    files = sorted(folder.glob("*.npy"))
    path = files[int(rng.integers(0, len(files)))]
    for other in files:
        if other != path:
            other.unlink()
    return damage_file(rng, path, [(0, 128)])


def check(folder: Path) -> str:
    """Read everything that can be read."""
    (path,) = folder.glob("*.npy")
    sniff(path)
    options = OpenOptions()
    if not inspect(path).ready:
        options = OpenOptions(scan_shape=(3, 5), partial=True)
    source = open_source(path, options)
    try:
        rows, columns = (min(n, 20) for n in source.scan_shape)
        expected = np.load(path).astype(source.dtype)
        frames = expected.reshape(-1, *expected.shape[-2:])
        for row in range(rows):
            for column in range(columns):
                if source.recorded[row, column]:
                    frame = frames[row * source.scan_shape[1] + column]
                    if source.pattern(row, column).tobytes() != frame.tobytes():
                        raise WrongResult(f"pattern {(row, column)} differs from numpy.load")
    finally:
        source.close()
    return "read"
