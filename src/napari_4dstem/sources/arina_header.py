"""What a Dectris master says about the detector: mask, energies, pixel size, number of frames.

Values are taken with their origin, and those that contradict each other are left unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from napari_4dstem.calibration import Calibration, Origin, Quantity
from napari_4dstem.errors import MissingDependencyError
from napari_4dstem.sources.chunk_guard import read_array
from napari_4dstem.sources.hdf5 import integer, is_dataset, member, number, text
from napari_4dstem.sources.sidecar import Sidecar

DETECTOR = "/entry/instrument/detector"
SPECIFIC = f"{DETECTOR}/detectorSpecific"
# NeXus: bits 0..15 are reasons not to use a pixel, bit 31 marks an interpolated, usable one.
_MASK_BITS = 0xFFFF
_MOST_FRAMES = 1 << 27
_METRES = {"m": 1.0, "mm": 1e-3, "um": 1e-6, "µm": 1e-6, "nm": 1e-9}
# Electron microscopes; an X-ray detector's photon energy is none of these.
_LOWEST_KEV, _HIGHEST_KEV = 15.0, 1500.0
_SAME_ENERGY = 1e-3
_SHOWN = {
    "description": "camera", "detector_number": "detector number", "frame_time": "frame time",
    "count_time": "count time", "saturation_value": "saturation value",
    "threshold_energy": "threshold energy", "sensor_material": "sensor",
    "bit_depth_image": "bit depth", "pixel_mask_applied": "mask applied by the camera",
    "detectorSpecific/data_collection_date": "recorded",
    "detectorSpecific/software_version": "software",
    "detectorSpecific/eiger_fw_version": "firmware",
    "detectorSpecific/compression": "compression",
}  # fmt: skip


@dataclass(frozen=True)
class ArinaHeader:
    """The header of a master, or the little that a data file has.

    Attributes
    ----------
    frames_expected
        Triggers x images, None if not said.
    frame_shape, dtype
        As the header says; the counts' own dataset knows better.
    scan_attribute
        (rows, columns) from an attribute ``scan_shape`` that some programs add.
    """

    frames_expected: int | None
    frame_shape: tuple[int, int] | None
    dtype: np.dtype[Any] | None
    scan_attribute: tuple[int, int] | None
    metadata: dict[str, str]
    problems: tuple[str, ...]


def read_header(file: h5py.File) -> ArinaHeader:
    """Read the scalars of a master."""
    problems: list[str] = []
    triggers = integer(member(file, f"{SPECIFIC}/ntrigger"))
    images = integer(member(file, f"{SPECIFIC}/nimages"))
    expected = triggers * images if triggers and images else None
    if expected is not None and not 0 < expected <= _MOST_FRAMES:
        problems.append(f"The number of frames ordered ({triggers} x {images}) makes no sense.")
        expected = None
    height = integer(member(file, f"{SPECIFIC}/y_pixels_in_detector"))
    width = integer(member(file, f"{SPECIFIC}/x_pixels_in_detector"))
    sides = height and width and 0 < height <= 1 << 16 and 0 < width <= 1 << 16
    depth = integer(member(file, f"{DETECTOR}/bit_depth_image"))
    return ArinaHeader(
        frames_expected=expected,
        frame_shape=(height, width) if sides and height and width else None,
        dtype=np.dtype(f"u{depth // 8}") if depth in (8, 16, 32) else None,
        scan_attribute=_scan_attribute(file),
        metadata=_metadata(file),
        problems=tuple(problems),
    )


def _scan_attribute(file: h5py.File) -> tuple[int, int] | None:
    for path in ("/", "/entry", "/entry/data"):
        group = member(file, path)
        if not isinstance(group, h5py.Group) or "scan_shape" not in group.attrs:
            continue
        value = np.asarray(group.attrs["scan_shape"])
        if value.shape == (2,) and value.dtype.kind in "iu" and (value > 0).all():
            return int(value[0]), int(value[1])
    return None


def _metadata(file: h5py.File) -> dict[str, str]:
    facts = {}
    for key, label in _SHOWN.items():
        node = member(file, f"{DETECTOR}/{key}")
        if not is_dataset(node):
            continue
        words = text(node)
        value = number(node) if words is None else None
        if value is not None:
            words = f"{value:g} {text(node.attrs.get('units')) or ''}".rstrip()
        if words:
            facts[label] = words
    return facts


def read_mask(
    file: h5py.File, path: Path, shape: tuple[int, int], channel: str | None
) -> tuple[NDArray[np.bool_] | None, tuple[str, ...]]:
    """Return the mask (True = not to be used) and what is odd about it.

    Raises
    ------
    SourceError
        If it is damaged.
    """
    places = [f"{DETECTOR}/{channel}_channel", f"{DETECTOR}/{channel}"] if channel else []
    for place in (*places, SPECIFIC, DETECTOR):
        node = member(file, f"{place}/pixel_mask")
        if not is_dataset(node):
            continue
        try:
            mask = read_array(node, path, shape)
        except MissingDependencyError as error:
            return None, (f"The pixel mask could not be read: {error}",)
        if mask is None:
            return None, (f"The pixel mask has the shape {node.shape} instead of {shape}.",)
        if mask.dtype.kind == "f" and not (mask == np.floor(mask)).all():
            return None, ("The pixel mask holds fractions; it is not used.",)
        if mask.dtype.kind not in "iufb" or (mask < 0).any() or (mask > 0xFFFFFFFF).any():
            return None, ("The pixel mask holds values that are no mask; it is not used.",)
        return (mask.astype(np.uint32) & _MASK_BITS) != 0, ()
    return None, ()


def read_calibration(file: h5py.File, sidecar: Sidecar) -> Calibration:
    """Return what master and sidecar say together."""
    energy, conflicts = _beam_energy(file, sidecar)
    step = None
    if sidecar.pixel_size_nm is not None:
        origin: Origin = "file (calibrated)" if sidecar.pixel_size_calibrated else "file (nominal)"
        quantity = Quantity(sidecar.pixel_size_nm, "nm", origin)
        step = (quantity, quantity)
    return Calibration(
        beam_energy=energy,
        scan_step=step,
        suggested_camera_step=_suggested_camera_step(file, sidecar),
        conflicts=conflicts,
    )


def _beam_energy(file: h5py.File, sidecar: Sidecar) -> tuple[Quantity | None, tuple[str, ...]]:
    """Compare all energies; one that stands alone on the detector was typed there: nominal."""
    found: dict[str, float] = {}
    for label, path in (
        ("photon_energy", f"{SPECIFIC}/photon_energy"),
        ("photon_energy", f"{DETECTOR}/photon_energy"),
        ("incident_energy", "/entry/instrument/beam/incident_energy"),
    ):
        value = number(member(file, path))
        if value:
            found[label] = value / 1e3
    if sidecar.high_tension_v:
        found["High Tension"] = sidecar.high_tension_v / 1e3
    if not found:
        return None, ()
    low, high = min(found.values()), max(found.values())
    listed = ", ".join(f"{label} {value:g} keV" for label, value in found.items())
    if high - low > _SAME_ENERGY * high:
        return None, (f"The beam energy is not clear: {listed}. Choose one.",)
    if not _LOWEST_KEV <= low <= high <= _HIGHEST_KEV:
        return None, (f"The beam energy makes no sense for electrons: {listed}.",)
    trusted = len(found) > 1 or "High Tension" in found
    origin: Origin = "file (calibrated)" if trusted else "file (nominal)"
    return Quantity(found.get("High Tension", low), "keV", origin), ()


def _suggested_camera_step(file: h5py.File, sidecar: Sidecar) -> tuple[Quantity, Quantity] | None:
    distance = number(member(file, f"{DETECTOR}/detector_distance"))
    length = sidecar.camera_length_m or distance
    if not length or length <= 0:
        return None
    sizes = [_metres(member(file, f"{DETECTOR}/{axis}_pixel_size")) for axis in "yx"]
    if sizes[0] is None or sizes[1] is None:
        return None
    row, column = (
        Quantity(size / length * 1e3, "mrad", "file (nominal)") for size in sizes if size
    )
    return row, column


def _metres(node: Any) -> float | None:
    """Return a length in metres; without a unit that is known there is no length."""
    value = number(node)
    unit = text(node.attrs.get("units")) if is_dataset(node) else None
    if value is None or value <= 0 or unit not in _METRES:
        return None
    return value * _METRES[unit]
