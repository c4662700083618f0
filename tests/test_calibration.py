"""Calibration: the wavelength, units only when known, a text round trip."""

from __future__ import annotations

import pytest

from napari_4dstem.calibration import Calibration, Quantity, electron_wavelength_nm


@pytest.mark.parametrize(
    ("kilovolts", "picometres"),
    # Reimer and Kohl, table 2.1, and De Graef, table 2.2
    [(60, 4.8661), (100, 3.7014), (200, 2.5079), (300, 1.9687)],
)
def test_wavelength_is_relativistic(kilovolts: float, picometres: float) -> None:
    assert electron_wavelength_nm(kilovolts) * 1e3 == pytest.approx(picometres, abs=1e-4)


@pytest.mark.parametrize("energy", [0.0, -200.0, float("nan"), float("inf")])
def test_wavelength_of_nonsense_is_refused(energy: float) -> None:
    with pytest.raises(ValueError, match="above 0 keV"):
        electron_wavelength_nm(energy)


def test_unknown_is_counted_in_pixels() -> None:
    unknown = Calibration()
    assert unknown.wavelength_nm is None
    assert unknown.camera_units() == ("px", (1.0, 1.0))
    assert unknown.scan_units() == ("px", (1.0, 1.0))


def test_a_suggestion_is_not_used() -> None:
    nominal = Quantity(1.739, "mrad", "file (nominal)")
    assert Calibration(suggested_camera_step=(nominal, nominal)).camera_units()[0] == "px"


def test_row_and_column_steps_stay_apart() -> None:
    row, column = (Quantity(v, "mrad", "measured") for v in (0.5, 0.75))
    assert Calibration(camera_step=(row, column)).camera_units() == ("mrad", (0.5, 0.75))
    row, column = (Quantity(v, "nm", "typed") for v in (0.02, 0.03))
    assert Calibration(scan_step=(row, column)).scan_units() == ("nm", (0.02, 0.03))


def test_nominal_values_are_marked() -> None:
    assert Quantity(0.02440625, "nm", "file (nominal)").text == "~0.02441 nm"
    assert Quantity(300.0, "keV", "file (calibrated)").text == "300 keV"


def test_json_round_trip() -> None:
    step = (Quantity(0.1, "nm", "typed"), Quantity(0.3, "nm", "measured"))
    calibration = Calibration(
        beam_energy=Quantity(200.0, "keV", "file (nominal)"),
        scan_step=step,
        convergence_angle=Quantity(22.0, "mrad", "typed"),
        conflicts=("photon_energy 200 keV, High Tension 300 keV",),
    )
    assert Calibration.from_json(calibration.to_json()) == calibration
    assert Calibration.from_json(calibration.to_json().encode()) == calibration


def test_it_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Calibration().conflicts = ("x",)  # type: ignore[misc]
