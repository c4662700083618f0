"""Virtual detectors on the napari canvas: drawn in a passive layer, dragged by the viewer.

The session's detectors are the truth. The layer only draws them: it has no editing tools, and if
the user deletes it, it is drawn again. Dragging is a callback of the *viewer*, so it works whatever
layer and tool are active.

Rings are drawn as short lines of a Vectors layer. A Shapes layer costs three times as much per
update, and napari compiles its triangulation with Numba on first use: on the GUI thread, and behind
whatever is being compiled in the background (measured: the window stood still for a minute).
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.detectors import Pair
from napari_4dstem.plugin import notify
from napari_4dstem.plugin.canvas.detector_handles import Handle, drag, find_handle
from napari_4dstem.plugin.canvas.detector_lines import detector_lines
from napari_4dstem.plugin.canvas.pattern_layer import set_axes

if TYPE_CHECKING:
    from napari.layers import Vectors

    from napari_4dstem.plugin.sessions import Session

LAYER_NAME = "virtual detectors"
_LINE_PIXELS = 1.6


class DetectorOverlay:
    """Draws and drags the detectors of a session.

    Parameters
    ----------
    session
        Whose detectors are drawn, in its viewer.
    """

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)
        self._layer: Vectors | None = None
        self._drawing = False
        self._drawn: tuple[Any, ...] = ()
        events = session.events
        events.detectors.connect(self.draw)
        events.active_detector.connect(self.draw)
        events.disk.connect(self.draw)
        viewer = session.viewer
        if viewer is not None:
            viewer.mouse_drag_callbacks.append(_drag_callback(self))
            viewer.layers.events.removed.connect(self._on_removed)
            viewer.scene.camera.events.zoom.connect(self._on_zoom)

    # -- drawing ---------------------------------------------------------------------------

    def clear(self) -> None:
        """Take the layer away, because its axes are about to change."""
        layer, self._layer, self._drawn = self._layer, None, ()
        session = self._session()
        if layer is not None and session is not None and session.viewer is not None:
            self._drawing = True
            try:
                if layer in session.viewer.layers:
                    session.viewer.layers.remove(layer)
            finally:
                self._drawing = False

    @notify.guarded
    def draw(self) -> None:
        """Draw the detectors as they are now, if anything about them changed."""
        session = self._session()
        if session is None or session.viewer is None or session.scan_layer.layer is None:
            return
        visible = [d for d in session.detectors if d.visible]
        if not visible and self._layer is None:
            return
        pixel = self.pixel_size()
        zoom = round(math.log2(max(pixel[0], 1e-9)), 1)
        uncertain = session.disk is not None and not session.disk.certain
        axes = [tuple(map(str, value)) for value in self._camera_axes().values()]
        state = (visible, session.active_detector, zoom, uncertain, axes)
        if self._layer is not None and self._drawn == state:
            return
        lines = detector_lines(
            visible, pixel, active=session.active_detector, dash_presets=uncertain
        )
        self._drawing = True
        try:
            self._update(*lines, width=_LINE_PIXELS / ((pixel[0] + pixel[1]) / 2))
            self._drawn = state
        finally:
            self._drawing = False

    def _update(
        self, lines: NDArray[np.float64], colours: NDArray[np.float64], *, width: float
    ) -> None:
        layer = self._ensure_layer()
        if layer is None:
            return
        layer.data = lines
        if not np.array_equal(colours, layer.edge_color):
            layer.edge_color = colours
        if not math.isclose(layer.edge_width, width, rel_tol=0.02):
            layer.edge_width = width
        set_axes(layer, self._camera_axes())

    def _ensure_layer(self) -> Vectors | None:
        session = self._session()
        viewer = None if session is None else session.viewer
        if session is None or viewer is None:
            return None
        if self._layer is not None and self._layer in viewer.layers:
            return self._layer
        active = viewer.layers.selection.active
        layer = viewer.add_vectors(
            np.zeros((1, 2, 2)),
            ndim=2,
            name=LAYER_NAME,
            vector_style="line",
            **self._camera_axes(),
        )
        self._layer = layer
        # the user's layer stays the chosen one: ours only draws
        viewer.layers.selection.active = active or session.scan_layer.layer
        return layer

    def _camera_axes(self) -> dict[str, tuple[Any, ...]]:
        session = self._session()
        return {} if session is None else session.scan_layer.camera_axes()

    def pixel_size(self) -> Pair:
        """Return height and width of one camera pixel in pixels of the screen."""
        session = self._session()
        viewer = None if session is None else session.viewer
        scale = self._camera_axes().get("scale", (1.0, 1.0))
        zoom = 1.0 if viewer is None else viewer.scene.camera.zoom
        return abs(scale[0]) * zoom, abs(scale[1]) * zoom

    # -- what the user does to the layer ---------------------------------------------------

    def _post(self, key: str) -> None:
        session = self._session()
        if session is not None:
            session.gui.post_latest(("overlay", key), self.draw)

    def _on_removed(self, event: Any) -> None:
        if event.value is self._layer and not self._drawing:
            self._layer, self._drawn = None, ()
            self._post("removed")

    def _on_zoom(self) -> None:
        self._post("zoom")

    # -- dragging --------------------------------------------------------------------------

    def grab(self, event: Any) -> Handle | None:
        """Return the handle under a mouse event, None if there is none."""
        session = self._session()
        position = self.camera_position(event)
        if session is None or position is None:
            return None
        return find_handle(session.detectors, position, self.pixel_size(), session.active_detector)

    def camera_position(self, event: Any) -> Pair | None:
        """Return the camera pixel under a mouse event, None in 3D or without a pattern."""
        session = self._session()
        layer = None if session is None else session.scan_layer.layer
        if layer is None or len(event.dims_displayed) != 2:
            return None
        if tuple(event.dims_displayed) != (len(event.position) - 2, len(event.position) - 1):
            return None
        row, column = layer.world_to_data(event.position)[-2:]
        return float(row), float(column)

    def drag_to(self, handle: Handle, event: Any) -> None:
        """Let a grabbed handle follow a mouse event."""
        session, position = self._session(), self.camera_position(event)
        if session is not None and position is not None:
            session.set_shape(handle.name, drag(handle, position))


def _drag_callback(overlay: DetectorOverlay) -> Any:
    """Return the viewer's drag callback; the viewer keeps it, and it keeps no session."""
    reference = weakref.ref(overlay)

    def drag_detector(viewer: Any, event: Any) -> Iterator[None]:
        target = reference()
        handle = None
        if target is not None and event.button == 1:
            handle = _quietly(target.grab, event)
        if target is None or handle is None:
            return
        session = target._session()
        if session is not None:
            session.activate_detector(handle.name)
        event.handled = True
        yield
        while event.type == "mouse_move":
            _quietly(target.drag_to, handle, event)
            event.handled = True
            yield
        event.handled = True

    return drag_detector


def _quietly(function: Any, *arguments: Any) -> Any:
    return notify.guarded(function)(*arguments)
