"""Virtual detectors on the napari canvas: drawn in a passive layer, dragged by the viewer.

The session's detectors are the truth. The Shapes layer only draws them: if the user edits or
deletes it, it is drawn again. Dragging is a callback of the *viewer*, so it works whatever layer
and tool are active.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.detectors import Pair, Polygon, Rectangle, Shape
from napari_4dstem.plugin import notify
from napari_4dstem.plugin.detector_handles import Handle, drag, find_handle
from napari_4dstem.plugin.detector_views import DetectorView, center_of, radii

if TYPE_CHECKING:
    from napari.layers import Shapes

    from napari_4dstem.plugin.sessions import Session

LAYER_NAME = "virtual detectors"
_LINE_PIXELS, _ACTIVE_LINE_PIXELS = 1.6, 2.6
_MARK_PIXELS = 6.0

_Outline = tuple[NDArray[np.float64], str]


class DetectorOverlay:
    """Draws and drags the detectors of a session.

    Parameters
    ----------
    session
        Whose detectors are drawn, in its viewer.
    """

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)
        self._layer: Shapes | None = None
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
        outlines = _outlines(visible, pixel, session.active_detector)
        state = (visible, session.active_detector, round(math.log2(pixel[0] + 1e-9), 1))
        if self._layer is not None and self._drawn == state:
            return
        self._drawing = True
        try:
            self._update(outlines)
            self._drawn = state
        finally:
            self._drawing = False

    def _update(self, outlines: list[tuple[_Outline, str, float]]) -> None:
        layer = self._ensure_layer()
        if layer is None:
            return
        data = [outline for outline, _, _ in outlines]
        colours = [colour for _, colour, _ in outlines]
        widths = [width for _, _, width in outlines]
        same = len(data) == layer.nshapes and widths == list(layer.edge_width)
        if same and self._colours == colours:
            layer.data = data
        else:
            layer.data = []
            if data:
                layer.add(
                    [vertices for vertices, _ in data],
                    shape_type=[kind for _, kind in data],
                    edge_color=colours,
                    edge_width=widths,
                    face_color="transparent",
                )
            self._colours = colours
        axes = self._camera_axes()
        for name, value in axes.items():
            if tuple(getattr(layer, name)) != tuple(value):
                setattr(layer, name, value)

    def _ensure_layer(self) -> Shapes | None:
        session = self._session()
        viewer = None if session is None else session.viewer
        if session is None or viewer is None:
            return None
        if self._layer is not None and self._layer in viewer.layers:
            return self._layer
        active = viewer.layers.selection.active
        layer = viewer.add_shapes(ndim=2, name=LAYER_NAME, **self._camera_axes())
        layer.editable = False
        layer.events.set_data.connect(self._on_edited)
        self._layer, self._colours = layer, []
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

    def _on_edited(self) -> None:
        if not self._drawing:
            self._drawn = ()
            self._post("edited")

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


def _outlines(
    detectors: list[DetectorView], pixel: Pair, active: str | None
) -> list[tuple[_Outline, str, float]]:
    """Return (outline, colour, line width in camera pixels), the active detector last."""
    size = max(1e-9, (pixel[0] + pixel[1]) / 2)
    found, marked = [], set()
    for detector in sorted(detectors, key=lambda d: d.name == active):
        line = _ACTIVE_LINE_PIXELS if detector.name == active else _LINE_PIXELS
        outlines = _shape_outlines(detector.shape)
        found += [(outline, detector.colour, line / size) for outline in outlines]
        center = center_of(detector.shape)
        if center is not None and center not in marked:
            marked.add(center)
            marks = _centre_mark(center, _MARK_PIXELS / size)
            found += [(mark, detector.colour, _LINE_PIXELS / size) for mark in marks]
    return found


def _shape_outlines(shape: Shape) -> list[_Outline]:
    both, center = radii(shape), center_of(shape)
    if both is not None and center is not None:
        return [(_box(center, r, r), "ellipse") for r in both if r > 0]
    if isinstance(shape, Rectangle):
        half = ((shape.r1 - shape.r0) / 2, (shape.c1 - shape.c0) / 2)
        return [(_box(shape.center, *half), "rectangle")]
    if isinstance(shape, Polygon):
        return [(np.asarray(shape.vertices, np.float64), "polygon")]
    return []


def _box(center: Pair, rows: float, columns: float) -> NDArray[np.float64]:
    corners = ((-rows, -columns), (-rows, columns), (rows, columns), (rows, -columns))
    return np.asarray(center, np.float64) + np.asarray(corners, np.float64)


def _centre_mark(center: Pair, arm: float) -> list[_Outline]:
    row, column = center
    return [
        (np.array([[row - arm, column], [row + arm, column]]), "line"),
        (np.array([[row, column - arm], [row, column + arm]]), "line"),
    ]
