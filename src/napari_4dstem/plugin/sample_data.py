"""Sample data: a real encoded acquisition that comes with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sim_sto.ans4d"
"""A simulated SrTiO3 scan, 32 x 32 positions of 96 x 96 pixels."""


def open_sample() -> list[tuple[Any, ...]]:
    """Return the layer of the sample acquisition, as napari's *Open Sample* asks for it."""
    from napari_4dstem.plugin.reader import read

    return read(str(SAMPLE))
