"""The session of a viewer: what is open, where the cursor is, which detectors there are.

The session is the one truth of the graphical side. Docks and layers observe it through
`Session.events` and change it through its methods. Everything here runs on the GUI thread, except
where it says otherwise.
"""

from __future__ import annotations

import functools
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from napari_4dstem.errors import UsageError
from napari_4dstem.plugin import notify
from napari_4dstem.plugin.canvas.canvas_readout import CanvasReadout
from napari_4dstem.plugin.canvas.cursor_keys import bind_cursor_keys
from napari_4dstem.plugin.canvas.detector_overlay import DetectorOverlay
from napari_4dstem.plugin.canvas.pattern_display import PatternDisplay
from napari_4dstem.plugin.canvas.scan_layer import ScanLayer
from napari_4dstem.plugin.gui_thread import GuiThread
from napari_4dstem.plugin.session.image_worker import ImageWorker
from napari_4dstem.plugin.session.scan_list import ScanList
from napari_4dstem.plugin.session.scan_view import ScanView
from napari_4dstem.plugin.session.session_detectors import SessionDetectors
from napari_4dstem.plugin.session.session_events import SessionEvents
from napari_4dstem.plugin.session.session_images import ImageBoard

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image

    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.loading.events import Progress

PatternMode = Literal["cursor", "mean", "maximum"]
PatternScale = Literal["linear", "sqrt", "log"]


class Session(SessionDetectors):
    """Everything about one viewer that outlives a dock; get it with :func:`session_for`.

    Parameters
    ----------
    viewer
        The napari viewer (unwrapped), held weakly.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = weakref.ref(viewer)
        self.events = SessionEvents()
        self.gui = GuiThread()
        self.worker = ImageWorker()
        self.board = ImageBoard(self.worker, self._image_from_worker, self.failed)
        self._scans = ScanList(self.gui, self)
        self._acquisition: Acquisition | None = None
        self._pattern_mode: PatternMode = "cursor"
        self._pattern_scale: PatternScale = "linear"
        self._closed = False
        self.scan_layer = ScanLayer(
            self._viewer, appeared=self._layer_appeared, removed=self._layer_removed
        )
        self.display = PatternDisplay(self)
        self.overlay = DetectorOverlay(self)
        self.readout = CanvasReadout(self)
        viewer.dims.events.current_step.connect(self._step_changed)
        bind_cursor_keys(viewer, self)
        self.scan_layer.look()

    # -- what is open ----------------------------------------------------------------------

    @property
    def viewer(self) -> ViewerModel | None:
        """The napari viewer, None once it is gone."""
        return self._viewer()

    @property
    def acquisition(self) -> Acquisition | None:
        """The acquisition on screen."""
        return self._acquisition

    @property
    def acquisitions(self) -> list[Acquisition]:
        """All acquisitions of this viewer, in the order in which they were opened."""
        return list(self._scans.views)

    @property
    def view(self) -> ScanView | None:
        """What is remembered of the acquisition on screen."""
        return None if self._acquisition is None else self._scans.views.get(self._acquisition)

    @property
    def closed(self) -> bool:
        """Whether the viewer was closed."""
        return self._closed

    def open(self, path: str | Path, **options: Any) -> Acquisition:
        """Open a file and show it; encoding starts in the background.

        Parameters
        ----------
        path
            A detector file or an ``.ans4d`` file.
        options
            As of `napari_4dstem.open`: scan_shape, frame_offset, flyback, partial, mask.
        """
        from napari_4dstem.opening import open as open_acquisition

        acquisition = open_acquisition(path, **options)
        self.add_acquisition(acquisition)
        return acquisition

    def add_acquisition(self, acquisition: Acquisition) -> None:
        """Take an acquisition into the list, show it, and start to bring it into RAM, encoded."""
        new = self._scans.add(acquisition)
        if new:
            self.events.acquisitions.emit()
        self.activate(acquisition)
        if new and acquisition.state != "released":
            acquisition.encode(wait=False)

    def activate(self, acquisition: Acquisition) -> None:
        """Show one of the acquisitions: the pattern layer's data, scale and units are swapped."""
        if acquisition not in self._scans.views:
            raise UsageError(f"{acquisition.name} is not open in this viewer")
        self.board.forget()
        self.overlay.clear()
        self.display.clear()
        self._acquisition = None  # steps of the swap itself are nobody's cursor moves
        view = self._scans.views[acquisition]
        self.scan_layer.show(acquisition, None if view.disk is None else view.disk.center)
        self._acquisition = acquisition
        self.move_cursor(*view.cursor)
        self._announce(acquisition)

    def _announce(self, acquisition: Acquisition) -> None:
        stack = self.scan_layer.stack
        if stack is not None:
            stack.placeholders = hasattr(self.viewer, "window")
            stack.on_problem = functools.partial(_warn_later, weakref.ref(self))
        self.scan_layer.mark_released(acquisition.state == "released")
        self.events.acquisition.emit(acquisition)
        self.events.cursor.emit(*self.cursor)
        self._detectors_changed()
        self._look_for_disk()
        self.request_images()

    def remove_acquisition(self, acquisition: Acquisition) -> None:
        """Close an acquisition and take it off the list."""
        if acquisition not in self._scans.views:
            return
        if acquisition is self._acquisition:
            self._show_nothing()
        self._scans.remove(acquisition)
        self.events.acquisitions.emit()

    def cancel(self) -> None:
        """Stop encoding the active acquisition at once; its thread ends a little later."""
        if self._acquisition is not None:
            self._acquisition.cancel(wait=False)

    def release(self, acquisition: Acquisition | None = None) -> None:
        """Give the memory of an acquisition back, off the GUI thread; its layer stays."""
        target = acquisition or self._acquisition
        if target is not None:
            self.worker.cancel()
            release = functools.partial(_release, target)
            self.worker.submit(f"release {id(target)}", release, failed=self.failed)

    def release_all(self) -> None:
        """Give the memory of all acquisitions of this viewer back."""
        self.worker.cancel()
        for acquisition in self.acquisitions:
            release = functools.partial(_release, acquisition)
            self.worker.submit(f"release {id(acquisition)}", release, failed=self.failed)

    def reload(self, acquisition: Acquisition | None = None) -> None:
        """Bring a released acquisition back, in the background."""
        target = acquisition or self._acquisition
        if target is not None:
            self.worker.submit("reload", lambda _: target.reload(), failed=self.failed)

    def close(self) -> None:
        """Cancel what runs, end the worker, close all acquisitions. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self.gui.stop()
        self.board.forget()
        self.worker.cancel()
        for acquisition in self.acquisitions:
            acquisition.cancel(wait=False)
        self.worker.stop()
        self._scans.close()
        self.scan_layer.layer = None
        self._acquisition = None

    def _show_nothing(self) -> None:
        self.board.forget()
        self.overlay.clear()
        self.display.clear()
        self.scan_layer.remove()
        self._acquisition = None
        self.events.acquisition.emit(None)

    # -- layers that others add and remove -------------------------------------------------

    def _layer_appeared(self, layer: Image) -> None:
        # napari is still busy adding it: swap layers one event-loop turn later
        self.gui.post(lambda: self.adopt(layer))

    def adopt(self, layer: Image) -> None:
        """Explore the acquisition of a layer that a reader made; it becomes the pattern layer."""
        viewer = self.viewer
        acquisition: Acquisition = layer.data.acquisition
        known = acquisition is self._acquisition and self.scan_layer.layer is not None
        if viewer is None or layer not in viewer.layers or known:
            return
        self.overlay.clear()
        self.display.clear()
        self._acquisition = None
        self.scan_layer.adopt(layer)
        self.add_acquisition(acquisition)

    def _layer_removed(self, acquisition: Acquisition) -> None:
        self.gui.post(lambda: self._release_unshown(acquisition))

    def _release_unshown(self, acquisition: Acquisition) -> None:
        if self.scan_layer.shows(acquisition):
            return
        if acquisition is self._acquisition:
            self._show_nothing()
        acquisition.cancel(wait=False)
        self.release(acquisition)

    # -- cursor ----------------------------------------------------------------------------

    @property
    def cursor(self) -> tuple[int, int]:
        """Scan position (row, col)."""
        return (0, 0) if self.view is None else self.view.cursor

    def move_cursor(self, row: int, column: int) -> None:
        """Go to a scan position; beyond the edge is on the edge. One pattern is asked for."""
        viewer, acquisition = self.viewer, self._acquisition
        if viewer is None or acquisition is None:
            return
        rows, columns = acquisition.scan_shape
        place = (min(max(int(row), 0), rows - 1), min(max(int(column), 0), columns - 1))
        first = viewer.dims.ndim - 4
        if first >= 0 and tuple(viewer.dims.current_step[first : first + 2]) != place:
            viewer.dims.set_current_step((first, first + 1), place)

    def step_cursor(self, rows: int, columns: int) -> None:
        """Move the scan position by whole steps."""
        self.move_cursor(self.cursor[0] + rows, self.cursor[1] + columns)

    def _step_changed(self) -> None:
        viewer, view, acquisition = self.viewer, self.view, self._acquisition
        if viewer is None or view is None or acquisition is None or viewer.dims.ndim < 4:
            return
        first = viewer.dims.ndim - 4
        step = viewer.dims.current_step[first : first + 2]
        limits = zip(step, acquisition.scan_shape, strict=True)
        row, column = (min(max(0, int(s)), n - 1) for s, n in limits)
        if (row, column) != view.cursor:
            view.cursor = (row, column)
            self.events.cursor.emit(row, column)

    # -- how patterns are shown ------------------------------------------------------------

    @property
    def pattern_mode(self) -> PatternMode:
        """Which pattern the canvas shows: of the cursor, the mean, or the maximum."""
        return self._pattern_mode

    @pattern_mode.setter
    def pattern_mode(self, mode: PatternMode) -> None:
        if mode not in get_args(PatternMode):
            raise UsageError(
                "Unknown pattern mode", expected=str(get_args(PatternMode)), found=mode
            )
        if mode != self._pattern_mode:
            self._pattern_mode = mode
            self.events.pattern_mode.emit(mode)

    @property
    def pattern_scale(self) -> PatternScale:
        """How counts become brightness: linear, square root, or log(1 + counts)."""
        return self._pattern_scale

    @pattern_scale.setter
    def pattern_scale(self, scale: PatternScale) -> None:
        if scale not in get_args(PatternScale):
            raise UsageError("Unknown scale", expected=str(get_args(PatternScale)), found=scale)
        if scale != self._pattern_scale:
            self._pattern_scale = scale
            self.events.pattern_scale.emit(scale)

    # -- what acquisitions tell ------------------------------------------------------------

    def state_changed(self, acquisition: Acquisition) -> None:
        """Follow an acquisition that was encoded, cancelled, released or reloaded."""
        if acquisition not in self._scans.views:
            return
        if acquisition is self._acquisition:
            self.scan_layer.mark_released(acquisition.state == "released")
            self._look_for_disk()
            self.request_images()
        self.events.state.emit(acquisition)

    def progressed(self, acquisition: Acquisition, progress: Progress) -> None:
        """Follow reading and encoding: the coarse images refine."""
        if acquisition is self._acquisition:
            self._look_for_disk()
            self._preview_soon()
            self.events.progress.emit(progress)

    def mask_changed(self, acquisition: Acquisition) -> None:
        """Make all images again with the new mask."""
        if acquisition is self._acquisition:
            self.request_images()

    def facts_changed(self, acquisition: Acquisition) -> None:
        """Follow a new calibration, or a decoder that is ready now."""
        if acquisition is self._acquisition:
            self.scan_layer.place(acquisition, self.origin())
            self.scan_layer.refresh()
            self._detectors_changed()
            self.events.state.emit(acquisition)


def _release(acquisition: Acquisition, _cancelled: object) -> None:
    acquisition.release()


def _warn_later(session: weakref.ref[Session], text: str) -> None:
    """Show a warning of the pattern stack, which may come from a slicing thread."""
    target = session()
    if target is not None:
        target.gui.post(lambda: notify.warn(text))


_sessions: dict[int, Session] = {}


def session_for(viewer: Any) -> Session:
    """Return the session of a napari viewer, made on first use.

    Parameters
    ----------
    viewer
        A napari viewer, or the proxy of one that plugins are given.
    """
    viewer = getattr(viewer, "__wrapped__", viewer)
    session = _sessions.get(id(viewer))
    if session is None or session.viewer is not viewer or session.closed:
        session = _sessions[id(viewer)] = Session(viewer)
        weakref.finalize(viewer, _forget, id(viewer), weakref.ref(session)).atexit = False
        _close_all_with_application()
    return session


def open_sessions() -> list[Session]:
    """Return the sessions of all open viewers."""
    return [session for session in _sessions.values() if not session.closed]


def _forget(key: int, session: weakref.ref[Session]) -> None:
    gone = session()
    if gone is not None:
        gone.close()
        if _sessions.get(key) is gone:
            del _sessions[key]


def _close_all() -> None:
    for session in list(_sessions.values()):
        session.close()
    _sessions.clear()


def _close_all_with_application() -> None:
    """End workers and close files when the program quits, so that it ends at once."""
    from qtpy.QtWidgets import QApplication

    application = QApplication.instance()
    if application is not None and not application.property("n4-closes-sessions"):
        application.setProperty("n4-closes-sessions", True)
        application.aboutToQuit.connect(_close_all)
