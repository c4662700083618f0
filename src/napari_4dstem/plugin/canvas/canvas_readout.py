"""Text and scale bar on the napari canvas: scan position, and what is under the pointer."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from napari_4dstem.detectors import Pair
from napari_4dstem.plugin.notify import guarded
from napari_4dstem.plugin.session.session_texts import camera_readout, cursor_text

if TYPE_CHECKING:
    from napari_4dstem.plugin.sessions import Session


class CanvasReadout:
    """Writes two lines in the corner of the canvas.

    Parameters
    ----------
    session
        Whose viewer is written on.
    """

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)
        self._pointer: Pair | None = None
        events = session.events
        for signal in (
            events.cursor,
            events.acquisition,
            events.state,
            events.disk,
            events.pattern_mode,
        ):
            signal.connect(self.refresh)
        viewer = session.viewer
        if viewer is not None:
            viewer.mouse_move_callbacks.append(_move_callback(self))

    @guarded
    def refresh(self) -> None:
        """Write the lines anew."""
        session = self._session()
        viewer = None if session is None else session.viewer
        if session is None or viewer is None:
            return
        overlays = viewer.canvas.overlays
        text = self.text()
        if overlays.text.text != text:
            overlays.text.text = text
        overlays.text.visible = bool(text)
        if session.acquisition is not None and not overlays.scale_bar.visible:
            overlays.scale_bar.visible = True
            overlays.text.font_size = 9
            overlays.text.position = "top_left"

    def text(self) -> str:
        """Return what is written now."""
        session = self._session()
        acquisition = None if session is None else session.acquisition
        if session is None or acquisition is None:
            return ""
        if acquisition.state == "released":
            first = f"{acquisition.name} was unloaded."
            return f"{first}\nReload it in the explorer:\n{acquisition.reload_cost}"
        first = cursor_text(acquisition, session.cursor)
        if session.pattern_mode != "cursor":
            first = f"{session.pattern_mode} pattern of all positions"
        if self._pointer is None:
            return first
        pattern = session.display.shown_pattern()
        second = camera_readout(acquisition, session.origin(), self._pointer, pattern)
        return f"{first}\n{second}" if second else first

    def point(self, event: Any) -> None:
        """Take over where the pointer is."""
        session = self._session()
        if session is not None:
            self._pointer = session.overlay.camera_position(event)
            self.refresh()


def _move_callback(readout: CanvasReadout) -> Any:
    reference = weakref.ref(readout)

    @guarded
    def point(viewer: Any, event: Any) -> None:
        target = reference()
        if target is not None:
            target.point(event)

    return point
