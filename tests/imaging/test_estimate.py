"""The rough image: exact for whole tiles, close elsewhere, none without tile sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import napari_4dstem as n4


def counts_of_disks(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:40, :48]
    disk = np.hypot(row - 19, column - 24) < 12
    return rng.poisson(np.where(disk, 6.0, 0.4), (7, 9, 40, 48)).astype(np.uint16)


def test_estimate_is_exact_on_whole_tiles_and_close_elsewhere(tmp_path: Path) -> None:
    scan = counts_of_disks(3)
    np.save(tmp_path / "scan.npy", scan)
    with n4.load(tmp_path / "scan.npy") as acq:
        everything = acq.estimate(n4.Rectangle(0, 40, 0, 48))
        assert everything is not None
        assert np.array_equal(everything, scan.sum(axis=(2, 3)))
        shape = n4.Circle((19, 24), 9.3)
        exact = acq.image(shape)
        rough = acq.estimate(shape)
        assert rough is not None
        assert 0 < np.abs(rough - exact).max() < 0.25 * exact.mean()


def test_masked_pixels_add_nothing(tmp_path: Path) -> None:
    scan = counts_of_disks(4)
    np.save(tmp_path / "scan.npy", scan)
    masked = np.zeros((40, 48), bool)
    masked[3:20, 7:30] = True
    with n4.load(tmp_path / "scan.npy", mask=masked) as acq:
        rough = acq.estimate(n4.Rectangle(0, 40, 0, 48))
        assert np.array_equal(rough, np.where(masked, 0, scan).sum(axis=(2, 3)))


def test_there_is_none_before_encoding_and_for_floats(tmp_path: Path) -> None:
    scan = counts_of_disks(5).astype(np.float32) / np.float32(3)
    np.save(tmp_path / "scan.npy", scan)
    with n4.open(tmp_path / "scan.npy") as acq:
        assert acq.estimate(n4.Circle((19, 24), 9)) is None
        acq.encode(wait=True)
        assert acq.estimate(n4.Circle((19, 24), 9)) is None
