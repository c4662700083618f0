"""Small scans for the plugin's tests: written as real files, opened by the real reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def disk_scan(
    shape: tuple[int, int, int, int] = (10, 12, 48, 56), seed: int = 0, dtype: str = "u2"
) -> NDArray[np.generic]:
    """Return counts with a bright disk, darker over a lattice of atoms, and a dark-field halo."""
    rng = np.random.default_rng(seed)
    rows, columns, height, width = shape
    y, x = np.mgrid[:height, :width]
    r = np.hypot(y - 0.53 * height, x - 0.45 * width)
    radius = 0.18 * min(height, width)
    disk, halo = (r <= radius) * 6.0, (r > radius) * 0.3 * np.exp(-r / (3 * radius))
    i, j = np.mgrid[:rows, :columns]
    atoms = np.exp(-((i % 8 - 4) ** 2 + (j % 8 - 3) ** 2) / 4.0)
    rate = (1 - 0.5 * atoms)[..., None, None] * disk + (1 + 4 * atoms)[..., None, None] * halo
    return rng.poisson(rate).astype(dtype)


def noise_scan(shape: tuple[int, int, int, int], seed: int = 0) -> NDArray[np.uint8]:
    """Return counts that no coder makes smaller: the encoded scan is as large as the numbers."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(data: NDArray[np.generic], folder: Path, name: str = "scan") -> Path:
    """Write a scan as a NumPy file."""
    path = folder / f"{name}.npy"
    np.save(path, data)
    return path
