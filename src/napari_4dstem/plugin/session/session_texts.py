"""Lines of text about a session: header, calibration, status, read-outs. No Qt, no napari."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from napari_4dstem.detectors import Pair
from napari_4dstem.plugin.real_space_view.number_text import grouped, value_text

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.calibration import Calibration, Quantity
    from napari_4dstem.disk import Disk
    from napari_4dstem.plugin.sessions import Session

DOT = " · "


def shape_line(acquisition: Acquisition) -> str:
    """Return shapes and beam: ``"32 x 32 scan · 96 x 96 camera · uint16 · 300 kV · α 22 mrad"``."""
    rows, columns, height, width = acquisition.shape
    parts = [f"{rows} x {columns} scan", f"{height} x {width} camera", str(acquisition.dtype)]
    energy = acquisition.calibration.beam_energy
    angle = acquisition.calibration.convergence_angle
    parts.append("kV unknown" if energy is None else f"{energy.value:.4g} kV")
    if angle is not None:
        parts.append(f"α {angle.text}")
    return DOT.join(parts)


def calibration_line(acquisition: Acquisition) -> str:
    """Return the steps with where each value comes from."""
    calibration = acquisition.calibration
    parts = []
    for name, step, per in (
        ("scan", calibration.scan_step, "step"),
        ("camera", calibration.camera_step, "px"),
    ):
        if step is None:
            parts.append(f"{name} {per} unknown")
        elif step[0] == step[1]:
            parts.append(f"{name} {step[0].text}/{per} ({_origin(step[0])})")
        else:
            parts.append(f"{name} {step[0].text}, {step[1].text}/{per} ({_origin(step[0])})")
    return DOT.join(parts)


def origins_text(acquisition: Acquisition) -> str:
    """Return every known value with its origin, one a line, and what is odd about the file."""
    calibration = acquisition.calibration
    lines = [calibration_line(acquisition)]
    for name, value in (
        ("beam energy", calibration.beam_energy),
        ("semi-angle", calibration.convergence_angle),
    ):
        lines.append(
            f"{name} unknown" if value is None else f"{name} {value.text} ({value.origin})"
        )
    return "\n".join((*lines, *calibration.conflicts, *acquisition.problems))


def _origin(quantity: Quantity) -> str:
    return quantity.origin.removeprefix("file ").strip("()")


def cursor_text(acquisition: Acquisition, cursor: tuple[int, int]) -> str:
    """Return the scan position: ``"scan (8, 24) · 0.195, 0.586 nm"``."""
    unit, step = acquisition.calibration.scan_units()
    text = f"scan ({cursor[0]}, {cursor[1]})"
    if unit == "px":
        return text
    return f"{text}{DOT}{cursor[0] * step[0]:.3f}, {cursor[1] * step[1]:.3f} {unit}"


def status_line(session: Session) -> str:
    """Return cursor, the value of each shown detector there, and how final they are."""
    acquisition = session.acquisition
    if acquisition is None:
        return "No acquisition is open"
    row, column = session.cursor
    parts = [cursor_text(acquisition, session.cursor)]
    images = session.images
    shown = [images[d.name] for d in session.detectors if d.visible and d.name in images]
    for image in shown:
        if not image.valid[row, column]:
            parts.append(f"{image.name} not recorded")
            continue
        parts.append(f"{image.name} {value_text(float(image.values[row, column]))} counts")
        over = 0 if image.overloads is None else int(image.overloads[row, column])
        if over:
            parts.append(f"{grouped(over)} overloaded")
    if shown:
        coarse = next((image.label for image in shown if not image.exact), "exact")
        parts.append(coarse)
    return DOT.join(parts)


def disk_text(disk: Disk | None, calibration: Calibration, problem: str = "") -> str:
    """Return centre and radius of the bright-field disk, or why there is none."""
    if disk is None:
        return problem or "not searched yet"
    unit, step = calibration.camera_units()
    text = f"({disk.center[0]:.2f}, {disk.center[1]:.2f}) px, radius {disk.radius:.2f} px"
    if unit != "px":
        text += f" = {disk.radius * (step[0] + step[1]) / 2:.2f} {unit}"
    return text if disk.certain else f"{text} (uncertain)"


def camera_readout(
    acquisition: Acquisition, center: Pair | None, position: Pair, pattern: NDArray[Any] | None
) -> str:
    """Return the camera pixel under the pointer: counts, scattering angle, spacing, azimuth.

    Parameters
    ----------
    acquisition
        Its calibration is used; without one the angle is given in pixels.
    center
        (row, col) of the undiffracted beam; None leaves the angle out.
    position
        (row, col) in camera pixels.
    pattern
        What the canvas shows, in true counts; None leaves the counts out.

    Returns
    -------
    str
        Two lines; empty outside the camera. The azimuth is 0 to the right and grows anticlockwise.
    """
    row, column = math.floor(position[0] + 0.5), math.floor(position[1] + 0.5)
    height, width = acquisition.detector_shape
    if not (0 <= row < height and 0 <= column < width):
        return ""
    parts = [f"camera ({row}, {column})"]
    if pattern is not None:
        parts.append(f"{value_text(float(pattern[row, column]))} counts")
    if acquisition.mask is not None and acquisition.mask[row, column]:
        parts.append("masked")
    lines = [DOT.join(parts)]
    if center is not None:
        lines.append(DOT.join(_angle(acquisition, (row - center[0], column - center[1]))))
    return "\n".join(lines)


def _angle(acquisition: Acquisition, offset: Pair) -> list[str]:
    unit, step = acquisition.calibration.camera_units()
    angle = math.hypot(offset[0] * step[0], offset[1] * step[1])
    parts = [f"|k| {angle:.4g} {unit}"]
    wavelength = acquisition.calibration.wavelength_nm
    if unit == "mrad" and wavelength is not None and angle > 0:
        spatial = angle * 1e-3 / wavelength
        parts += [f"{spatial:.4g} 1/nm", f"d {1 / spatial:.4g} nm"]
    azimuth = math.degrees(math.atan2(-offset[0] * step[0], offset[1] * step[1])) % 360
    parts.append(f"{azimuth:.0f}°")
    return parts
