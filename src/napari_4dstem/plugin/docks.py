"""Puts our panels into the napari window: explorer on the right, memory below it."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, cast

from qtpy.QtCore import QObject, QSize, Qt, QTimer
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
    """Show the explorer, in front of what shares its place; return it."""
    dock, widget = _show(viewer, EXPLORER)
    dock.raise_()
    return cast("ExplorerDock", widget)


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
    before = _window_size(viewer)
    dock, widget = _show(viewer, LOAD)
    dock.raise_()
    panel = cast("LoadDock", widget)
    if path is not None:
        panel.show_info(path)
    _make_room(dock)
    # the window lays its panels out one event-loop turn later
    QTimer.singleShot(0, functools.partial(_settle_load, weakref.ref(dock), before))
    return panel


def _window_size(viewer: Any) -> QSize | None:
    """Return the size of the window, if a panel of a plugin is shown in it."""
    for widget in viewer.window.dock_widgets.values():
        window = _main_window(widget)
        if window is not None:
            return window.size()
    return None


@notify.guarded
def _settle_load(reference: weakref.ref[QDockWidget], before: QSize | None) -> None:
    """Take back what the window grew by while the load panel had no tab yet."""
    dock = reference()
    window = None if dock is None else _main_window(dock)
    if dock is None or window is None:
        return
    _make_room(dock)
    if before is not None and not window.isMaximized():
        window.resize(before)


def _make_room(dock: QDockWidget) -> None:
    """Give the load panel room: a tab beside the explorer's, or the width that its texts need."""
    window = _main_window(dock)
    if window is None or dock.isFloating():
        return
    explorer = _beside(window, dock, EXPLORER)
    if explorer is not None:
        window.tabifyDockWidget(explorer, dock)
        dock.raise_()
    elif dock.width() < _LOAD_WIDTH:
        window.resizeDocks([dock], [_LOAD_WIDTH], Qt.Orientation.Horizontal)


def _beside(window: QMainWindow, dock: QDockWidget, name: str) -> QDockWidget | None:
    """Return our dock `name` if it is shown in the same area as `dock`."""
    area = window.dockWidgetArea(dock)
    for other in window.findChildren(QDockWidget):
        shown = other.isVisible() and not other.isFloating() and other is not dock
        if shown and name in other.windowTitle() and window.dockWidgetArea(other) == area:
            return other
    return None


def has_window(viewer: Any) -> bool:
    """Whether a viewer is shown in a window (a bare viewer model is not)."""
    return hasattr(viewer, "window")


def _show(viewer: Any, name: str) -> tuple[QDockWidget, QWidget]:
    dock, widget = viewer.window.add_plugin_dock_widget(PLUGIN, name)
    dock.show()
    return dock, widget


def _main_window(dock: QWidget) -> QMainWindow | None:
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
