"""What our own HDF5 exports say that no detector writes: the calibration, the value of no-data.

Without it, an export that is opened again would have lost what a user measured.
"""

from __future__ import annotations

import math

import h5py
from pydantic import BaseModel, ConfigDict, ValidationError

from napari_4dstem.calibration import Calibration
from napari_4dstem.sources.hdf5 import member, text

NOTES = "/entry/napari_4dstem"
"""Name of the dataset: one JSON text."""


class OwnNotes(BaseModel):
    """Notes of an export.

    Attributes
    ----------
    calibration
        Sizes of the axes, with their origins.
    nodata
        The value that marks a pixel without a count, None if there is none.
    metadata
        Facts for display.
    writer
        Program and version.
    """

    model_config = ConfigDict(frozen=True)

    calibration: Calibration = Calibration()
    nodata: int | None = None
    metadata: dict[str, str] = {}
    writer: str = ""


def read_notes(file: h5py.File) -> OwnNotes | None:
    """Return the notes of an HDF5 file, None if it has none that make sense."""
    stored = text(member(file, NOTES))
    if stored is None:
        return None
    try:
        notes = OwnNotes.model_validate_json(stored)
    except ValidationError:
        return None
    return notes if _sensible(notes.calibration) else None


def _sensible(calibration: Calibration) -> bool:
    """Tell whether all values can be sizes: a damaged file must not scale an axis by zero."""
    pairs = (calibration.scan_step, calibration.camera_step, calibration.suggested_camera_step)
    quantities = [q for pair in pairs if pair is not None for q in pair]
    quantities += [
        q for q in (calibration.beam_energy, calibration.convergence_angle) if q is not None
    ]
    return all(math.isfinite(q.value) and q.value > 0 for q in quantities)
