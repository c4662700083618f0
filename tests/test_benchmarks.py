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
