"""The benchmarks run, and the GPU check needs nothing but NumPy, Numba and torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.synthetic import Recipe, simulate
from tests.test_architecture import run_without

REPOSITORY = Path(__file__).resolve().parents[1]
ABSENT = (
    "PyQt6", "cmap", "hdf5plugin", "magicgui", "napari", "npe2", "pint", "psutil", "psygnal",
    "pydantic", "pyqtgraph", "qtpy", "rich", "scipy", "superqt", "tifffile", "typer", "vispy",
)  # fmt: skip


def test_synthetic_counts_are_what_was_asked_for() -> None:
    recipe = Recipe((5, 7), (48, 40), 3_000, hot=0)
    data = simulate(recipe)
    assert data.shape == (5, 7, 48, 40)
    assert data.dtype == np.uint16
    assert data.sum(axis=(2, 3)).mean() == pytest.approx(3_000, rel=0.02)
    assert (data.max(axis=(0, 1)) == 0).sum() >= recipe.dead
    np.testing.assert_array_equal(data, simulate(recipe))


@pytest.mark.slow
def test_the_gpu_check_runs_on_a_bare_machine() -> None:
    code = f"""
import runpy, sys
sys.path.insert(0, {str(REPOSITORY)!r})
sys.argv = ["gpu_check.py", "--quick", "--device", "cpu"]
runpy.run_path({str(REPOSITORY / "benchmarks" / "gpu_check.py")!r}, run_name="__main__")
"""
    result = run_without(ABSENT, code)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["exact"]
    assert report["returned"]
    assert len(report["wrong"]) == 8


def test_the_gpu_check_notices_wrong_counts() -> None:
    from benchmarks.gpu_check import encode, wrong_readings
    from napari_4dstem.codec.decode_cpu import CpuDecoder

    data = simulate(Recipe((5, 7), (48, 40), 3_000))
    decoder = CpuDecoder(encode(data))
    assert wrong_readings(decoder, data, None) == []
    data[2, 3, 20, 18] += 1
    assert wrong_readings(decoder, data, None) == [
        "columns", "pattern", "rows", "sum", "sum pattern",
    ]  # fmt: skip


def test_the_entropy_of_known_distributions() -> None:
    from benchmarks.bench import entropy_bytes

    rng = np.random.default_rng(0)
    data = np.zeros((100, 100, 8, 8), np.uint16)
    assert entropy_bytes(data + np.uint16(3)) == pytest.approx(0, abs=1e-6)
    data[..., :4, :] = rng.integers(0, 4, (100, 100, 4, 8))
    data[..., 4:, :] = 1000 + rng.integers(0, 16, (100, 100, 4, 8))
    assert entropy_bytes(data) == pytest.approx((2 + 4) / 2 * data.size / 8, rel=1e-3)


@pytest.mark.slow
def test_the_quick_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.bench import main

    assert main(["--quick"]) == 0
    printed = capsys.readouterr().out
    assert "of the entropy" in printed
    assert "of the dense sum" in printed
