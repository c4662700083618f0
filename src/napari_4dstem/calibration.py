"""What the axes mean: sizes, units, and where each value comes from.

A value that nobody measured must not look like one that somebody did. So each carries its origin,
and what is not known stays None: the program then counts in pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

Origin = Literal["measured", "typed", "file (calibrated)", "file (nominal)"]

_PLANCK = 6.62607015e-34  # J s
_CHARGE = 1.602176634e-19  # C
_ELECTRON_MASS = 9.1093837015e-31  # kg
_LIGHT = 299792458.0  # m/s


@dataclass(frozen=True)
class Quantity:
    """A number with its unit and its origin.

    Examples
    --------
    >>> Quantity(0.02440625, "nm", "file (nominal)").text
    '~0.02441 nm'
    """

    value: float
    unit: str
    origin: Origin

    @property
    def text(self) -> str:
        """The value for the screen, four digits; ``~`` in front of a nominal one."""
        mark = "~" if self.origin == "file (nominal)" else ""
        return f"{mark}{self.value:.4g} {self.unit}".rstrip()


class Calibration(BaseModel):
    """Sizes of the axes of one acquisition. Immutable; unknown is None.

    Attributes
    ----------
    beam_energy
        keV.
    scan_step
        (row, col) distance of neighbouring scan positions, nm.
    camera_step
        (row, col) angle from one camera pixel to the next, mrad.
    suggested_camera_step
        (row, col), mrad: pixel size / camera length. Nominal lengths are often far off, so this is
        only offered to the user and never used on its own.
    convergence_angle
        Semi-angle of the probe, mrad.
    conflicts
        Sentences about values of the file that contradict each other.
    """

    model_config = ConfigDict(frozen=True)

    beam_energy: Quantity | None = None
    scan_step: tuple[Quantity, Quantity] | None = None
    camera_step: tuple[Quantity, Quantity] | None = None
    suggested_camera_step: tuple[Quantity, Quantity] | None = None
    convergence_angle: Quantity | None = None
    conflicts: tuple[str, ...] = ()

    @property
    def wavelength_nm(self) -> float | None:
        """Wavelength of the electrons in nm, None while the beam energy is unknown."""
        if self.beam_energy is None:
            return None
        return electron_wavelength_nm(self.beam_energy.value)

    def camera_units(self) -> tuple[str, tuple[float, float]]:
        """Return the unit of the camera axes and their (row, col) step: mrad if known, else px."""
        return _units(self.camera_step, "mrad")

    def scan_units(self) -> tuple[str, tuple[float, float]]:
        """Return the unit of the scan axes and their (row, col) step: nm if known, else px."""
        return _units(self.scan_step, "nm")

    def to_json(self) -> str:
        """Return all values as a JSON text for :meth:`from_json`."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Calibration:
        """Return the calibration that :meth:`to_json` wrote."""
        return cls.model_validate_json(text)


def _units(step: tuple[Quantity, Quantity] | None, unit: str) -> tuple[str, tuple[float, float]]:
    if step is None or any(q.unit != unit for q in step):
        return "px", (1.0, 1.0)
    return unit, (step[0].value, step[1].value)


def electron_wavelength_nm(energy_kev: float) -> float:
    """Return the relativistic wavelength of an electron, 1.9687 pm at 300 keV.

    lambda = h / sqrt(2 m E (1 + E / (2 m c^2))), for instance Reimer and Kohl, *Transmission
    Electron Microscopy*, eq. 2.5.

    Parameters
    ----------
    energy_kev
        Kinetic energy in keV, above 0.

    Raises
    ------
    ValueError
        If the energy is not a positive finite number.
    """
    if not (math.isfinite(energy_kev) and energy_kev > 0):
        raise ValueError(f"a beam energy must be above 0 keV, not {energy_kev}")
    energy = energy_kev * 1e3 * _CHARGE
    momentum = math.sqrt(
        2 * _ELECTRON_MASS * energy * (1 + energy / (2 * _ELECTRON_MASS * _LIGHT**2))
    )
    return _PLANCK / momentum * 1e9
