"""The acquisitions of a session, and their events carried from worker threads to the GUI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from napari_4dstem.plugin.session.scan_view import ScanView

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.loading.events import Progress
    from napari_4dstem.plugin.gui_thread import GuiThread


class Listener(Protocol):
    """Who hears of acquisitions, on the GUI thread: the session."""

    def state_changed(self, acquisition: Acquisition) -> None:
        """Hear that an acquisition was encoded, cancelled, released, reloaded."""

    def progressed(self, acquisition: Acquisition, progress: Progress) -> None:
        """Hear how far reading and encoding are."""

    def mask_changed(self, acquisition: Acquisition) -> None:
        """Hear that other pixels are masked."""

    def facts_changed(self, acquisition: Acquisition) -> None:
        """Hear that calibration, problems or readiness changed."""

    def failed(self, error: Exception) -> None:
        """Hear that work in the background failed; called on any thread."""


class AcquisitionLink:
    """Listens to one acquisition; of several progress reports that wait only the newest arrives.

    Parameters
    ----------
    acquisition
        Whose events are listened to, until :meth:`close`.
    gui
        The way to the GUI thread.
    listener
        Who is told there.
    """

    def __init__(self, acquisition: Acquisition, gui: GuiThread, listener: Listener) -> None:
        self.acquisition, self._gui, self._listener = acquisition, gui, listener
        acquisition.events.state.connect(self._on_state)
        acquisition.events.progress.connect(self._on_progress)
        acquisition.events.mask.connect(self._on_mask)
        acquisition.events.changed.connect(self._on_changed)
        acquisition.events.failed.connect(self._on_failed)

    def close(self) -> None:
        """Stop listening."""
        events = self.acquisition.events
        events.state.disconnect(self._on_state, missing_ok=True)
        events.progress.disconnect(self._on_progress, missing_ok=True)
        events.mask.disconnect(self._on_mask, missing_ok=True)
        events.changed.disconnect(self._on_changed, missing_ok=True)
        events.failed.disconnect(self._on_failed, missing_ok=True)

    def _on_state(self, _state: str) -> None:
        self._gui.post(lambda: self._listener.state_changed(self.acquisition))

    def _on_progress(self, progress: Any) -> None:
        key = ("progress", id(self.acquisition))
        self._gui.post_latest(key, lambda: self._listener.progressed(self.acquisition, progress))

    def _on_mask(self, _version: int) -> None:
        self._gui.post(lambda: self._listener.mask_changed(self.acquisition))

    def _on_changed(self) -> None:
        self._gui.post(lambda: self._listener.facts_changed(self.acquisition))

    def _on_failed(self, error: Exception) -> None:
        self._listener.failed(error)


class ScanList:
    """The acquisitions of a session with what is remembered of each, in the order of opening.

    Parameters
    ----------
    gui, listener
        As of `AcquisitionLink`.
    """

    def __init__(self, gui: GuiThread, listener: Listener) -> None:
        self._gui, self._listener = gui, listener
        self.views: dict[Acquisition, ScanView] = {}
        self._links: dict[Acquisition, AcquisitionLink] = {}

    def add(self, acquisition: Acquisition) -> bool:
        """Take an acquisition in, with the cursor in its middle; return whether it is new."""
        if acquisition in self.views:
            return False
        rows, columns = acquisition.scan_shape
        camera = (acquisition.detector_shape[0], acquisition.detector_shape[1])
        self.views[acquisition] = ScanView(camera, ((rows - 1) // 2, (columns - 1) // 2))
        self._links[acquisition] = AcquisitionLink(acquisition, self._gui, self._listener)
        return True

    def remove(self, acquisition: Acquisition) -> None:
        """Forget an acquisition and close it."""
        self._links.pop(acquisition).close()
        del self.views[acquisition]
        acquisition.close()

    def close(self) -> None:
        """Forget and close all."""
        for acquisition in list(self.views):
            self.remove(acquisition)
