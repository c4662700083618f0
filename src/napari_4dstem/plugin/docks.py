"""Puts our panels into the napari window: explorer on the right, memory below it."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, cast

from qtpy.QtCore import QObject, Qt, QTimer
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget

from napari_4dstem.plugin import notify

if TYPE_CHECKING:
    from napari_4dstem.plugin.explorer_panel.explorer import ExplorerDock
    from napari_4dstem.plugin.load_panel.load_dock import LoadDock
    from napari_4dstem.plugin.memory_panel.memory_dock import MemoryDock

PLUGIN = "napari-4dstem"
EXPLORER, MEMORY, LOAD = "4D-STEM explorer", "4D-STEM memory", "4D-STEM load"

# Share of the window's width for the explorer, and of its height for the memory panel.
_EXPLORER_SHARE, _MEMORY_SHARE = 0.45, 0.3
_LOAD_WIDTH = 440
_CANVAS_SETTLES_MS = (50, 400)


def show_panels(viewer: Any) -> None:
    """Show explorer and memory panel, and fit the pattern into what is left for the canvas."""
    show_explorer(viewer)
    show_memory(viewer)
    # the window lays its panels out one event-loop turn later
    QTimer.singleShot(0, functools.partial(_settle, weakref.ref(viewer)))


def show_explorer(viewer: Any) -> ExplorerDock:
    """Show the explorer; return it."""
    return cast("ExplorerDock", _show(viewer, EXPLORER)[1])


def show_memory(viewer: Any) -> MemoryDock:
    """Show the memory panel; return it."""
    return cast("MemoryDock", _show(viewer, MEMORY)[1])


@notify.guarded
def _settle(reference: weakref.ref[Any]) -> None:
    viewer = reference()
    if viewer is None:
        return
    (explorer, panel), (memory, _) = _show(viewer, EXPLORER), _show(viewer, MEMORY)
    window = _main_window(explorer)
    if window is None or explorer.isFloating() or memory.isFloating():
        return
    _tabify_left(window)
    # Qt keeps the minimum from before napari's style was applied, which is much wider
    explorer.setMinimumWidth(panel.minimumSizeHint().width())
    width, height = window.width(), window.height()
    window.resizeDocks([explorer], [round(width * _EXPLORER_SHARE)], Qt.Orientation.Horizontal)
    below = round(height * _MEMORY_SHARE)
    window.resizeDocks([explorer, memory], [height - below, below], Qt.Orientation.Vertical)
    fit = _CanvasFit(reference)
    for delay in _CANVAS_SETTLES_MS:
        QTimer.singleShot(delay, functools.partial(fit.apply))  # a partial keeps `fit` alive


class _CanvasFit:
    """Fits the pattern into the canvas, which gets its new size only when the window has drawn.

    Parameters
    ----------
    viewer
        Weak reference to the viewer. If the user has moved the camera meanwhile, it stays.
    """

    def __init__(self, viewer: weakref.ref[Any]) -> None:
        self._viewer = viewer
        self._zoom: float | None = None

    @notify.guarded
    def apply(self) -> None:
        """Fit, unless the zoom is no longer the one that was set here."""
        viewer = self._viewer()
        if viewer is not None and self._zoom in (None, viewer.scene.camera.zoom):
            viewer.reset_view()
            self._zoom = viewer.scene.camera.zoom


def show_load(viewer: Any, path: str | None = None) -> LoadDock:
    """Show the load panel, with what a file holds and misses; return it."""
    dock, widget = _show(viewer, LOAD)
    dock.raise_()
    panel = cast("LoadDock", widget)
    if path is not None:
        panel.show_info(path)
    # the window lays its panels out one event-loop turn later
    QTimer.singleShot(0, functools.partial(_widen, weakref.ref(dock)))
    return panel


@notify.guarded
def _widen(reference: weakref.ref[QDockWidget]) -> None:
    """Give a dock that came up alone the width that its fields and texts need."""
    dock = reference()
    window = None if dock is None else _main_window(dock)
    if dock is None or window is None or dock.isFloating():
        return
    if dock.width() < _LOAD_WIDTH:
        window.resizeDocks([dock], [_LOAD_WIDTH], Qt.Orientation.Horizontal)


def has_window(viewer: Any) -> bool:
    """Whether a viewer is shown in a window (a bare viewer model is not)."""
    return hasattr(viewer, "window")


def _show(viewer: Any, name: str) -> tuple[QDockWidget, QWidget]:
    dock, widget = viewer.window.add_plugin_dock_widget(PLUGIN, name)
    dock.show()
    return dock, widget


def _main_window(dock: QDockWidget) -> QMainWindow | None:
    parent: QObject | None = dock.parent()
    while parent is not None and not isinstance(parent, QMainWindow):
        parent = parent.parent()
    return parent


def _tabify_left(window: QMainWindow) -> None:
    """Stack layer controls and layer list, so that both fit beside a tall canvas."""
    found = {dock.objectName(): dock for dock in window.findChildren(QDockWidget)}
    layers, controls = found.get("layer list"), found.get("layer controls")
    if layers is None or controls is None or layers.isFloating() or controls.isFloating():
        return
    areas = {window.dockWidgetArea(dock) for dock in (layers, controls)}
    if areas == {Qt.DockWidgetArea.LeftDockWidgetArea} and not window.tabifiedDockWidgets(layers):
        window.tabifyDockWidget(controls, layers)
        controls.raise_()
