"""The sample acquisition that comes with the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import napari_4dstem as n4
from napari_4dstem.container import verify
from napari_4dstem.plugin.sample_data import SAMPLE

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "make_sample.py"


def test_the_sample_is_small_intact_and_calibrated() -> None:
    assert SAMPLE.stat().st_size < 1.5e6
    assert verify(SAMPLE).intact
    with n4.open(SAMPLE) as acquisition:
        assert acquisition.shape == (32, 32, 96, 96)
        assert acquisition.valid.all()
        assert not acquisition.problems
        known = acquisition.calibration
        assert known.wavelength_nm == pytest.approx(1.9687e-3, rel=1e-4)
        assert known.scan_units() == ("nm", (0.02440625, 0.02440625))
        assert known.camera_units() == ("mrad", (1.2604, 1.2604))
        # The bright-field disk is as large as the semi-angle says: the calibration is true.
        assert known.convergence_angle is not None
        radius = acquisition.find_disk().radius * known.camera_units()[1][0]
        assert radius == pytest.approx(known.convergence_angle.value, rel=0.02)
        adf = acquisition.image(n4.Annulus((51, 43), 24, 44))
        assert np.unravel_index(adf.argmax(), adf.shape) == (8, 24)


def test_the_sample_is_the_simulated_scan(shared_data: Path) -> None:
    source = shared_data / "sim_sto" / "sim_sto_master.h5"
    with n4.open(SAMPLE) as sample, n4.open(source) as simulated:
        assert sample.compare(simulated).equal
        assert np.array_equal(sample.mask, simulated.mask)
        assert np.array_equal(sample.overloads(), simulated.overloads())


def test_making_it_again_gives_the_same_file(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "sim_sto" / "sim_sto_master.h5"
    for name in ("one.ans4d", "two.ans4d"):
        subprocess.run([sys.executable, SCRIPT, source, "-o", tmp_path / name], check=True)
    assert (tmp_path / "one.ans4d").read_bytes() == (tmp_path / "two.ans4d").read_bytes()
