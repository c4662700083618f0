"""Mask, energies, pixel sizes and the sidecar: values with their origin, contradictions unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from napari_4dstem.sources import SourceInfo, inspect
from tests.sources.arina_files import Writer, counts, write_sidecar

FRAMES = counts(np.random.default_rng(4), (15, 22, 26))
DETECTOR = "entry/instrument/detector"
SPECIFIC = f"{DETECTOR}/detectorSpecific"


def info_of(
    folder: Path, *, mask: Any = None, energy: float | None = 200e3, **sidecar: Any
) -> SourceInfo:
    master = Writer(per_file=8, energy_ev=energy).write(folder, FRAMES, mask=mask)
    if sidecar:
        write_sidecar(master, **sidecar)
    return inspect(master)


def change(folder: Path, name: str, value: Any, units: bytes | None = None) -> SourceInfo:
    """Replace one header value and inspect again."""
    master = folder / "scan_master.h5"
    with h5py.File(master, "a") as file:
        if name in file:
            del file[name]
        if value is not None:
            file[name] = value
            if units is not None:
                file[name].attrs["units"] = np.bytes_(units)
    return inspect(master)


def test_mask_rule(tmp_path: Path) -> None:
    """The lower 16 bits mask a pixel; bit 31 marks a virtual pixel, which is usable."""
    mask = np.zeros(FRAMES.shape[1:], np.uint32)
    for bit in range(32):
        mask[bit // 8, bit % 8] = 1 << bit
    mask[10, 10] = (1 << 31) | 1
    info = info_of(tmp_path, mask=mask)
    assert info.mask is not None
    expected = {(bit // 8, bit % 8) for bit in range(16)} | {(10, 10)}
    assert {tuple(p) for p in np.argwhere(info.mask).tolist()} == expected


@pytest.mark.parametrize(
    ("mask", "problem"),
    [
        (np.zeros((4, 4), np.uint32), "shape (4, 4) instead of"),
        (np.full((22, 26), 0.5), "fractions"),
        (np.full((22, 26), -1, np.int32), "no mask"),
        (np.full((22, 26), np.nan), "fractions"),
    ],
)
def test_a_mask_that_is_none(tmp_path: Path, mask: Any, problem: str) -> None:
    info_of(tmp_path)
    info = change(tmp_path, f"{SPECIFIC}/pixel_mask", mask)
    assert info.mask is None
    assert any(problem in p for p in info.problems)


def test_a_float_mask_of_whole_numbers_is_used(tmp_path: Path) -> None:
    info_of(tmp_path)
    mask = np.zeros((22, 26))
    mask[2, 5] = 8.0
    info = change(tmp_path, f"{SPECIFIC}/pixel_mask", mask)
    assert info.mask is not None
    assert np.argwhere(info.mask).tolist() == [[2, 5]]


def test_no_mask(tmp_path: Path) -> None:
    assert info_of(tmp_path).mask is None


def test_mask_of_the_chosen_channel(tmp_path: Path) -> None:
    mask = np.zeros((22, 26), np.uint32)
    mask[7, 7] = 1
    master = Writer().write(tmp_path, FRAMES[:, None].repeat(2, 1))
    with h5py.File(master, "a") as file:
        file["entry/data/channel"] = [b"threshold_1", b"threshold_2"]
        file[f"{DETECTOR}/threshold_1_channel/pixel_mask"] = mask
    info = inspect(master)
    assert info.mask is not None
    assert info.mask[7, 7]


@pytest.mark.parametrize(
    ("energy", "tension", "expected", "origin"),
    [
        (200e3, 200e3, 200.0, "file (calibrated)"),
        (200e3, None, 200.0, "file (nominal)"),
        (None, 300e3, 300.0, "file (calibrated)"),
        (None, None, None, None),
        (200e3, 199_990.0, 199.99, "file (calibrated)"),
    ],
)
def test_beam_energy(
    tmp_path: Path, energy: Any, tension: Any, expected: float | None, origin: str | None
) -> None:
    sidecar = {} if tension is None else {"HighTension": tension}
    found = info_of(tmp_path, energy=energy, **sidecar).calibration.beam_energy
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found.value, found.origin, found.unit) == (expected, origin, "keV")


def test_energies_that_disagree_leave_the_wavelength_unknown(tmp_path: Path) -> None:
    info = info_of(tmp_path, energy=300e3, HighTension=200e3)
    assert info.calibration.beam_energy is None
    assert info.calibration.wavelength_nm is None
    (conflict,) = info.calibration.conflicts
    assert "photon_energy 300 keV" in conflict
    assert "High Tension 200 keV" in conflict
    assert conflict in info.problems


def test_an_x_ray_energy_is_no_beam_energy(tmp_path: Path) -> None:
    info = info_of(tmp_path, energy=8048.0)
    assert info.calibration.beam_energy is None
    assert "8.048 keV" in info.calibration.conflicts[0]


@pytest.mark.parametrize("arrays", [True, False])
@pytest.mark.parametrize(
    ("calibrated", "origin"),
    [(0, "file (nominal)"), (None, "file (nominal)"), (1, "file (calibrated)")],
)
def test_sidecar_pixel_size(
    tmp_path: Path, arrays: bool, calibrated: int | None, origin: str
) -> None:
    values: dict[str, Any] = {"NumPixelsX": 5, "NumPixelsY": 3, "PixelSize": 0.139}
    if calibrated is not None:
        values["IsPixelSizeCalibrated"] = calibrated
    info = info_of(tmp_path, arrays=arrays, **values)
    assert (info.scan_shape, info.scan_shape_origin) == ((3, 5), "sidecar")
    step = info.calibration.scan_step
    assert step is not None
    assert [(q.value, q.unit, q.origin) for q in step] == [(0.139, "nm", origin)] * 2


@pytest.mark.parametrize(("units", "value"), [(b"m", 1e-4), (b"um", 100.0), (b"mm", 0.1)])
def test_camera_step_is_only_suggested(tmp_path: Path, units: bytes, value: float) -> None:
    info_of(tmp_path, CameraLength=0.125)
    info = change(tmp_path, f"{DETECTOR}/x_pixel_size", value, units)
    assert info.calibration.camera_step is None
    suggested = info.calibration.suggested_camera_step
    assert suggested is not None
    # rows have 200 um pixels, columns 100 um
    assert [q.value for q in suggested] == [pytest.approx(1.6), pytest.approx(0.8)]
    assert [q.origin for q in suggested] == ["file (nominal)"] * 2


def test_a_pixel_size_without_unit_suggests_nothing(tmp_path: Path) -> None:
    info_of(tmp_path, CameraLength=0.125)
    info = change(tmp_path, f"{DETECTOR}/x_pixel_size", 1e-4)
    assert info.calibration.suggested_camera_step is None


def test_a_distance_of_zero_is_unset(tmp_path: Path) -> None:
    info_of(tmp_path)
    info = change(tmp_path, f"{DETECTOR}/detector_distance", 0.0)
    assert info.calibration.suggested_camera_step is None
    info = change(tmp_path, f"{DETECTOR}/detector_distance", 0.1)
    assert info.calibration.suggested_camera_step is not None


def test_scan_shape_attribute(tmp_path: Path) -> None:
    info_of(tmp_path)
    with h5py.File(tmp_path / "scan_master.h5", "a") as file:
        file["entry"].attrs["scan_shape"] = np.array([5, 3])
    info = inspect(tmp_path / "scan_master.h5")
    assert (info.scan_shape, info.scan_shape_origin) == ((5, 3), "attribute")
    assert not info.scan_shape_guessed


def test_a_sidecar_of_another_scan_is_told(tmp_path: Path) -> None:
    info = info_of(tmp_path, NumPixelsX=8, NumPixelsY=8)
    assert not info.ready
    assert "sidecar says 8 x 8 = 64 positions, but there are 15 frames" in info.reason


@pytest.mark.parametrize("content", [b"", b"no HDF5", b"\x89HDF\r\n\x1a\n" + bytes(50)])
def test_a_broken_sidecar_costs_only_what_it_would_say(tmp_path: Path, content: bytes) -> None:
    info_of(tmp_path)
    (tmp_path / "scan.h5").write_bytes(content)
    info = inspect(tmp_path / "scan_master.h5")
    assert info.frames_found == 15
    assert any("scan.h5 cannot be read" in p for p in info.problems)


def test_frames_ordered_are_triggers_times_images(tmp_path: Path) -> None:
    info_of(tmp_path)
    change(tmp_path, f"{SPECIFIC}/ntrigger", np.uint64(3))
    info = change(tmp_path, f"{SPECIFIC}/nimages", np.uint64(5))
    assert info.frames_expected == 15
    info = change(tmp_path, f"{SPECIFIC}/nimages", np.uint64(1 << 63))
    assert info.frames_expected is None
    assert any("makes no sense" in p for p in info.problems)


def test_metadata_is_in_words(tmp_path: Path) -> None:
    info_of(tmp_path, CameraLength=0.125)
    info = change(tmp_path, f"{DETECTOR}/frame_time", 9.96e-5, b"s")
    assert info.metadata["camera"] == "Dectris ARINA"
    assert info.metadata["frame time"] == "9.96e-05 s"
    assert info.metadata["saturation value"] == "4000"
    assert info.metadata["camera length"] == "0.125 m"
    assert info.nodata == 65535


def test_a_header_that_links_elsewhere_is_not_followed(tmp_path: Path) -> None:
    info_of(tmp_path)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["name"] = np.bytes_(b"from elsewhere")
    with h5py.File(tmp_path / "scan_master.h5", "a") as file:
        del file[f"{DETECTOR}/description"]
        file[f"{DETECTOR}/description"] = h5py.ExternalLink("other.h5", "/name")
        file[f"{DETECTOR}/detector_number"] = h5py.SoftLink("/entry/definition")
        file[f"{SPECIFIC}/compression"] = h5py.SoftLink(f"/{SPECIFIC}/compression")  # to itself
    metadata = inspect(tmp_path / "scan_master.h5").metadata
    assert "camera" not in metadata
    assert metadata["detector number"] == "NXmx"
    assert "compression" not in metadata
    assert metadata["sensor"] == "Si"
