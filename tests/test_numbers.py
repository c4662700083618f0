"""The large numbers that the project answers for: minutes each, only in ``make test-full``."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import napari_4dstem as n4
from benchmarks import bench
from napari_4dstem.disk import find_disk
from tests.disk_patterns import KINDS, make_pattern
from tests.fuzz import run_target
from tests.test_disk import is_right

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("target", ["ans4d", "arina", "npy"])
def test_2000_damaged_files_never_crash(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = run_target(target, 2000, seed=int(time.time()) % 1_000_000)
    with capsys.disabled():
        print(f"\n{report}")
    assert not report.failures, str(report)


def test_size_is_within_10_percent_of_the_entropy(capsys: pytest.CaptureFixture[str]) -> None:
    """64 x 64 positions, 192 x 192 pixels, 20 000 counts a pattern; the bench judges the size."""
    status = bench.main([])
    with capsys.disabled():
        print("\n" + capsys.readouterr().out)
    assert status == 0


@pytest.mark.parametrize("kind", KINDS)
def test_100_disks_of_a_kind_are_right_or_uncertain(kind: str) -> None:
    """Of patterns with all difficulties at once two in a hundred may be off (seen: 0.31 px)."""
    wrong = []
    for seed in range(10_000, 10_100):
        pattern = make_pattern(kind, seed)
        disk = find_disk(pattern.values, pattern.masked)
        if disk.certain and not is_right(disk, pattern):
            wrong.append((seed, disk, pattern.center, pattern.radius))
            assert np.hypot(*np.subtract(disk.center, pattern.center)) < 0.35, wrong
            assert abs(disk.radius / pattern.radius - 1) < 0.03, wrong
    assert len(wrong) <= (2 if kind == "mixed" else 0), wrong


def test_a_scan_of_many_blocks_is_exact_everywhere(tmp_path: Path) -> None:
    """128 x 120 positions: more blocks than threads, several stretches, every row compared."""
    rng = np.random.default_rng(11)
    row, column = np.mgrid[:96, :90]
    rate = 0.05 + 9.0 * (np.hypot(row - 50, column - 41) < 20)
    path = tmp_path / "scan.npy"
    scan = np.lib.format.open_memmap(path, "w+", np.uint16, (128, 120, 96, 90))
    for r in range(128):
        scan[r] = rng.poisson(rate * rng.uniform(0.5, 1.5, (120, 1, 1)))
    scan.flush()
    detectors = [n4.Circle((50, 41), 20), n4.Annulus((50, 41), 20, 44), n4.Circle((30, 60), 3.3)]
    with n4.load(path) as acq:
        for detector, image in zip(detectors, acq.images(detectors), strict=True):
            inside = detector.mask((96, 90))
            truth = np.stack([scan[r][:, inside].sum(axis=1, dtype=np.int64) for r in range(128)])
            assert np.array_equal(image, truth)
        for r in range(0, 128, 9):
            assert np.array_equal(acq[r], scan[r])
