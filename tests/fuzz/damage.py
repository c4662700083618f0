"""Ready-made ways to damage a file; each is a function of a random generator alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_NASTY = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)


def flip_bits(rng: np.random.Generator, path: Path, start: int, stop: int) -> str:
    """Flip 1 to 4 single bits in bytes ``start:stop`` of `path`."""
    data = bytearray(path.read_bytes())
    places = rng.integers(start, stop, size=int(rng.integers(1, 5)))
    for place in places:
        data[place] ^= 1 << int(rng.integers(0, 8))
    path.write_bytes(data)
    return f"bits flipped in {path.name} at {sorted(map(int, places))}"


def overwrite(rng: np.random.Generator, path: Path, start: int, stop: int) -> str:
    """Write 1 to 8 bytes in ``start:stop`` of `path`: random, or a value at the end of a range."""
    data = bytearray(path.read_bytes())
    place, length = int(rng.integers(start, stop)), int(rng.integers(1, 9))
    fill = int(rng.choice(_NASTY)) if rng.random() < 0.5 else None
    for i in range(place, min(place + length, len(data))):
        data[i] = int(rng.integers(0, 256)) if fill is None else fill
    path.write_bytes(data)
    return f"{length} bytes overwritten in {path.name} at {place}"


def cut(rng: np.random.Generator, path: Path) -> str:
    """Cut `path` short at a random byte, sometimes to nothing."""
    size = path.stat().st_size
    keep = 0 if rng.random() < 0.1 else int(rng.integers(0, size))
    path.write_bytes(path.read_bytes()[:keep])
    return f"{path.name} cut to {keep} of {size} bytes"


def damage_file(
    rng: np.random.Generator, path: Path, ranges: list[tuple[int, int]] | None = None
) -> str:
    """Apply one kind of damage, chosen at random, somewhere in `path`.

    Parameters
    ----------
    ranges
        Byte ranges (half-open) worth hitting, such as headers; half of the damage goes there.
    """
    size = path.stat().st_size
    start, stop = 0, size
    if ranges and rng.random() < 0.5:
        start, stop = ranges[int(rng.integers(0, len(ranges)))]
    kind = rng.random()
    if kind < 0.6:
        return flip_bits(rng, path, start, stop)
    if kind < 0.95:
        return overwrite(rng, path, start, stop)
    return cut(rng, path)
