"""Interactive 4D-STEM exploration: losslessly encoded acquisitions, decoded where you look.

The public names are loaded on first use, so that importing the package costs next to nothing and
needs neither Qt, napari, torch nor a GPU.

Examples
--------
>>> import napari_4dstem as n4
>>> n4.Circle(center=(51, 43), radius=17.5).describe()
'circle at (51, 43), radius 17.5 px'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition as Acquisition
    from napari_4dstem.calibration import Calibration as Calibration
    from napari_4dstem.detectors import Annulus as Annulus
    from napari_4dstem.detectors import Circle as Circle
    from napari_4dstem.detectors import Mask as Mask
    from napari_4dstem.detectors import Point as Point
    from napari_4dstem.detectors import Polygon as Polygon
    from napari_4dstem.detectors import Rectangle as Rectangle
    from napari_4dstem.disk import Disk as Disk
    from napari_4dstem.disk import presets as presets
    from napari_4dstem.opening import inspect as inspect
    from napari_4dstem.opening import load as load
    from napari_4dstem.opening import memory as memory
    from napari_4dstem.opening import open as open  # noqa: A004 - it is called as n4.open

_HOME = {
    "Acquisition": "acquisition",
    "inspect": "opening",
    "load": "opening",
    "memory": "opening",
    "open": "opening",
    "Calibration": "calibration",
    "Annulus": "detectors",
    "Circle": "detectors",
    "Mask": "detectors",
    "Point": "detectors",
    "Polygon": "detectors",
    "Rectangle": "detectors",
    "Disk": "disk",
    "presets": "disk",
}
_SUBPACKAGES = ("plugin", "errors")

__all__ = [*_HOME, "__version__", "errors", "plugin"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("napari-4dstem")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
