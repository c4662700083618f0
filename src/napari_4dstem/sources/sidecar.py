"""The microscope's own notes beside an Arina master: ``NAME.h5`` with the group STEM Metadata.

Newer sets have it, older do not; values may be numbers or arrays of one number. A broken one costs
only what it would have said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import h5py

from napari_4dstem.errors import SourceError
from napari_4dstem.sources.hdf5 import integer, member, number, reading

_GROUP = "STEM Metadata"
_SHOWN = {
    "Camera Length": ("camera length", "m"),
    "Magnification": ("magnification", ""),
    "Rotation": ("scan rotation", ""),
    "ScanDwellTime": ("scan dwell time", ""),
    "SpotSize": ("spot size", ""),
    "NumPixelsPrescan": ("prescan pixels", ""),
}


@dataclass(frozen=True)
class Sidecar:
    """What the sidecar says; None where it is silent.

    Attributes
    ----------
    scan_shape
        (rows, columns) = (NumPixelsY, NumPixelsX).
    pixel_size_nm
        Distance of scan positions.
    pixel_size_calibrated
        Whether the microscope calls that value calibrated.
    high_tension_v, camera_length_m
        Volts, metres.
    facts
        For display.
    """

    scan_shape: tuple[int, int] | None = None
    pixel_size_nm: float | None = None
    pixel_size_calibrated: bool = False
    high_tension_v: float | None = None
    camera_length_m: float | None = None
    facts: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def sidecar_path(master: Path) -> Path | None:
    """Return where the sidecar of a master would be: NAME.h5 for NAME_master.h5."""
    stem = master.stem
    return master.with_name(f"{stem.removesuffix('_master')}.h5") if _is_master(stem) else None


def _is_master(stem: str) -> bool:
    return stem.endswith("_master") and len(stem) > len("_master")


def read_sidecar(master: Path) -> Sidecar:
    """Read the sidecar of a master, if it has one."""
    path = sidecar_path(master)
    if path is None or not path.is_file():
        return Sidecar()
    try:
        with reading(path) as file:
            return _read(file)
    except SourceError as error:
        text = f"The microscope's notes {path.name} cannot be read ({error.found or error.what})."
        return Sidecar(problems=(text,))


def _read(file: h5py.File) -> Sidecar:
    group = member(file, _GROUP)
    if not isinstance(group, h5py.Group):
        return Sidecar()
    rows, columns = (integer(group.attrs.get(f"NumPixels{axis}")) for axis in "YX")
    facts = {}
    for key, (label, unit) in _SHOWN.items():
        value = number(group.attrs.get(key))
        if value:
            facts[label] = f"{value:g} {unit}".rstrip()
    step = number(group.attrs.get("Pixel Size"))
    return Sidecar(
        scan_shape=(rows, columns) if rows and columns and rows > 0 and columns > 0 else None,
        pixel_size_nm=step if step and step > 0 else None,
        pixel_size_calibrated=number(group.attrs.get("IsPixelSizeCalibrated")) == 1,
        high_tension_v=number(group.attrs.get("High Tension")),
        camera_length_m=number(group.attrs.get("Camera Length")),
        facts=facts,
    )
