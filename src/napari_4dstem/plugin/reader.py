"""The napari reader: quick to say whether a file is ours, and quick to show it.

This module is loaded when napari starts and asks about any file, so it imports neither Qt nor
anything that computes.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition

LayerData = tuple[Any, ...]
Reader = Callable[[str | Sequence[str]], list[LayerData]]

# napari adds the layer some time after reading it, usually at once.
_LOOK_AFTER_MS = (0, 200, 2000)

# What a reader returns to say: this file is mine, but there is no layer for it (yet).
NO_LAYER: list[LayerData] = [(None,)]


def get_reader(path: str | Sequence[str]) -> Reader | None:
    """Return the function that reads `path`, or None if it is no 4D-STEM acquisition.

    Parameters
    ----------
    path
        A file, or several.
    """
    paths = _paths(path)
    if not paths or not all(_is_ours(p) for p in paths):
        return None
    return read


def read(path: str | Sequence[str]) -> list[LayerData]:
    """Return one 4D image layer for each file. Never raises: problems open the load panel.

    Parameters
    ----------
    path
        A file, or several, that `get_reader` accepted.

    Returns
    -------
    list
        (lazy array, keyword arguments, ``"image"``); ``[(None,)]`` if nothing can be shown yet.
    """
    layers = []
    for one in _paths(path):
        try:
            layers.append(_read(one))
        except Exception as error:  # noqa: BLE001 - a reader that raises is tried again by napari
            _explain_soon(one, error)
    return layers or list(NO_LAYER)


def _read(path: Path) -> LayerData:
    from napari_4dstem.opening import open as open_acquisition
    from napari_4dstem.plugin.canvas.pattern_layer import layer_tuple

    acquisition = open_acquisition(path)
    try:
        layer = layer_tuple(acquisition)
    except BaseException:
        acquisition.close()
        raise
    # in a window nobody may wait for the decoder to be compiled; a script rather waits
    layer[0].placeholders = _window() is not None
    _explore_soon(acquisition)
    return layer


def _paths(path: str | Sequence[str]) -> list[Path]:
    return [Path(path)] if isinstance(path, (str, Path)) else [Path(p) for p in path]


def _is_ours(path: Path) -> bool:
    try:
        if path.suffix.lower() == ".ans4d":
            return path.is_file()
        from napari_4dstem.sources import sniff

        return path.is_file() and sniff(path)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not ours
        return False


# -- after reading -------------------------------------------------------------------------


def _window() -> Any:
    """Return the viewer in whose window a file is being opened, None if there is none."""
    import sys

    if "napari.viewer" not in sys.modules or "qtpy" not in sys.modules:
        return None
    import napari
    from qtpy.QtWidgets import QApplication

    return napari.current_viewer() if QApplication.instance() is not None else None


def _explore_soon(acquisition: Acquisition) -> None:
    if _window() is None:
        return
    from qtpy.QtCore import QTimer

    # weak: whoever called the reader without a viewer may drop what it returned
    explore = functools.partial(_explore, weakref.ref(acquisition), [])
    for delay in _LOOK_AFTER_MS:
        QTimer.singleShot(delay, explore)


def _explore(reference: weakref.ref[Acquisition], found: list[bool]) -> None:
    """Explore the layer of an acquisition, unless an earlier call found it."""
    from napari_4dstem.plugin.opening import explore_layer

    acquisition = reference()
    if acquisition is not None and not any(found):
        found.append(bool(explore_layer(acquisition)))


def _explain_soon(path: Path, error: Exception) -> None:
    if _window() is None:
        from napari_4dstem.plugin.notify import report

        report(error)
        return
    from qtpy.QtCore import QTimer

    QTimer.singleShot(0, lambda: _explain(path, error))


def _explain(path: Path, error: Exception) -> None:
    from napari_4dstem.plugin.opening import explain

    explain(path, error)
