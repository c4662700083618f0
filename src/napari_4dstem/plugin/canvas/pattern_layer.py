"""What napari needs to know to show an acquisition as one 4D image layer."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import FourDStemError
from napari_4dstem.plugin.canvas.pattern_stack import PatternStack

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition

AXIS_LABELS = ("scan row", "scan column", "camera row", "camera column")
RELEASED = " (released)"

# napari parses units with pint
_PINT_UNIT = {"px": "pixel"}


def pattern_limits(
    pattern: NDArray[Any], masked: NDArray[np.bool_] | None, nodata: int | None
) -> tuple[float, float]:
    """Return contrast limits that a bright beam or a hot pixel does not spoil.

    Parameters
    ----------
    pattern
        One pattern, or a mean pattern, shape (H, W).
    masked
        bool, (H, W): pixels to leave out.
    nodata
        Value that marks an overload, if any.

    Returns
    -------
    (low, high)
        0 (or the 0.1 % point of signed data) and about the 99.9 % point of the valid pixels.
    """
    good = np.isfinite(pattern)
    if masked is not None:
        good &= ~masked
    if nodata is not None:
        good &= pattern != nodata
    values = pattern[good].astype(np.float64)
    if values.size == 0:
        return 0.0, 1.0
    low, high = (float(v) for v in np.percentile(values, (0.1, 99.9)))
    low = 0.0 if values.min() >= 0 else low
    if not high > low:
        high = float(values.max())
    if pattern.dtype.kind in "iub":
        high = max(high, low + 1.0)
    return (low, high) if high > low else (low, low + 1.0)


def first_limits(acquisition: Acquisition) -> tuple[float, float]:
    """Return contrast limits from one recorded pattern near the middle of the scan."""
    if not acquisition.ready:  # decoding a pattern would wait for the compiler
        mean = acquisition.mean_pattern()
        return (0.0, 1.0) if mean is None else mean_limits(mean, acquisition)
    valid = np.asarray(acquisition.valid)
    middle = np.array(valid.shape) // 2
    places = np.argwhere(valid)
    if len(places) == 0:
        return 0.0, 1.0
    row, column = places[np.argmin(((places - middle) ** 2).sum(axis=1))]
    try:
        pattern = acquisition.pattern_at(int(row), int(column))
    except (FourDStemError, IndexError):
        return 0.0, 1.0
    return pattern_limits(pattern, acquisition.mask, nodata_value(acquisition))


def mean_limits(mean: NDArray[Any], acquisition: Acquisition) -> tuple[float, float]:
    """Return contrast limits for single patterns, from the mean pattern (H, W)."""
    low, high = pattern_limits(mean, acquisition.mask, None)
    if acquisition.dtype.kind in "iu":
        # one pattern scatters about the mean as counts do
        high = max(1.0, float(np.ceil(high + 3.0 * np.sqrt(max(high, 0.0)))))
    return low, high


def nodata_value(acquisition: Acquisition) -> int | None:
    """Return the value that marks an overload in this acquisition, if it has one."""
    return None if acquisition.info is None else acquisition.info.nodata


def axes_of(
    acquisition: Acquisition, origin: tuple[float, float] | None = None
) -> dict[str, tuple[Any, ...]]:
    """Return units, scale, translate and axis labels of the 4D layer.

    Parameters
    ----------
    acquisition
        Whose calibration is used; what is unknown is measured in pixels.
    origin
        Fitted centre (row, col) of the undiffracted beam. Coordinates then count from it if the
        camera is calibrated; in pixels they are the pixel's own numbers.
    """
    scan_unit, scan_step = acquisition.calibration.scan_units()
    camera_unit, camera_step = acquisition.calibration.camera_units()
    start = (0.0, 0.0)
    if camera_unit != "px":
        rows, columns = acquisition.detector_shape
        row, column = origin or ((rows - 1) / 2, (columns - 1) / 2)
        start = (-row * camera_step[0], -column * camera_step[1])
    units = (scan_unit, scan_unit, camera_unit, camera_unit)
    return {
        "units": tuple(_PINT_UNIT.get(unit, unit) for unit in units),
        "scale": (*scan_step, *camera_step),
        "translate": (0.0, 0.0, *start),
        "axis_labels": AXIS_LABELS,
    }


def camera_axes(axes: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Return the part of `axes_of` that belongs to a 2D layer over the camera."""
    return {name: value[2:] for name, value in axes.items()}


def set_axes(layer: Any, axes: dict[str, tuple[Any, ...]]) -> None:
    """Give a layer units, scale, translate and axis labels, as far as they are new to it."""
    for name in ("axis_labels", "units", "scale", "translate"):
        old, new = tuple(getattr(layer, name)), tuple(axes[name])
        if old != new and tuple(map(str, old)) != tuple(map(str, new)):
            setattr(layer, name, new)


def layer_arguments(acquisition: Acquisition) -> dict[str, Any]:
    """Return the keyword arguments of the 4D layer; reads one pattern."""
    return {
        "name": acquisition.name,
        "contrast_limits": first_limits(acquisition),
        "colormap": "inferno",
        "projection_mode": "none",
        "rgb": False,
        "multiscale": False,
        # a weak reference: a copied or kept layer must not keep the data in memory
        "metadata": {"acquisition": weakref.ref(acquisition)},
        **axes_of(acquisition),
    }


def layer_tuple(acquisition: Acquisition) -> tuple[PatternStack, dict[str, Any], str]:
    """Return what a napari reader returns for an acquisition."""
    return PatternStack(acquisition), layer_arguments(acquisition), "image"


def is_pattern_layer(layer: Any) -> bool:
    """Whether a napari layer shows one of our acquisitions."""
    return isinstance(getattr(layer, "data", None), PatternStack)
