"""The part of a session that looks after virtual detectors, their images, and the disk."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from napari_4dstem.detectors import Pair, Shape
from napari_4dstem.errors import FourDStemError, UsageError
from napari_4dstem.plugin import notify
from napari_4dstem.plugin.session.detector_views import DetectorView
from napari_4dstem.plugin.session.session_images import ImageBoard, ImageResult

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.disk import Disk
    from napari_4dstem.plugin.canvas.scan_layer import ScanLayer
    from napari_4dstem.plugin.gui_thread import GuiThread
    from napari_4dstem.plugin.session.image_worker import ImageWorker
    from napari_4dstem.plugin.session.scan_view import ScanView

# While encoding runs, coarse images are made at most this often: they cost what encoding needs.
_PREVIEW_EVERY_S = 0.3


class SessionDetectors:
    """Detectors, images and disk of the active acquisition; a base of `Session`."""

    events: Any
    gui: GuiThread
    worker: ImageWorker
    board: ImageBoard
    scan_layer: ScanLayer
    _preview_due = 0.0

    @property
    def acquisition(self) -> Acquisition | None:
        """The acquisition on screen."""
        raise NotImplementedError

    @property
    def view(self) -> ScanView | None:
        """What is remembered of the acquisition on screen."""
        raise NotImplementedError

    # -- detectors -------------------------------------------------------------------------

    @property
    def detectors(self) -> list[DetectorView]:
        """Virtual detectors of the active acquisition."""
        return [] if self.view is None else list(self.view.detectors)

    @property
    def active_detector(self) -> str | None:
        """Name of the detector whose numbers are shown for editing."""
        return None if self.view is None else self.view.active

    def detector(self, name: str) -> DetectorView | None:
        """Return the detector of a name, None if there is none."""
        return None if self.view is None else self.view.find(name)

    def add_detector(self, shape: Shape, name: str | None = None) -> DetectorView:
        """Add a detector and make it the active one; its image is made at once.

        Parameters
        ----------
        shape
            Pixels of the camera.
        name
            A detector of the same name is replaced; None takes the first free of D1, D2, ...
        """
        return self._add(shape, name, preset=False)

    def add_preset(self, name: str) -> DetectorView:
        """Add BF, ABF, LAADF, ADF or HAADF, or show it again as its preset."""
        preset = None if self.view is None else self.view.preset(name)
        if preset is None or preset.shape is None:
            reason = "the disk is not known yet" if preset is None else preset.reason
            raise UsageError(
                f"{name} cannot be set: {reason}", action="Use Find disk, or draw a detector"
            )
        return self._add(preset.shape, name, preset=True)

    def _add(self, shape: Shape, name: str | None, *, preset: bool) -> DetectorView:
        if self.view is None:
            raise UsageError("No acquisition is open", action="Open one first")
        detector = self.view.add(shape, name, preset=preset)
        self.view.untouched = False
        self._detectors_changed([detector])
        self.events.active_detector.emit(detector.name)
        return detector

    def set_shape(self, name: str, shape: Shape) -> None:
        """Move or resize a detector; its image follows."""
        detector = self.detector(name)
        if self.view is None or detector is None or detector.shape == shape:
            return
        changed = replace(detector, shape=shape, preset=False)
        self.view.change(changed)
        self.view.untouched = False
        self._detectors_changed([changed])

    def show_detector(self, name: str, visible: bool) -> None:
        """Show or hide rings and image of a detector."""
        detector = self.detector(name)
        if self.view is None or detector is None or detector.visible == visible:
            return
        changed = replace(detector, visible=visible)
        self.view.change(changed)
        self._detectors_changed([changed])

    def remove_detector(self, name: str) -> None:
        """Remove a detector and its image."""
        if self.view is None or self.view.find(name) is None:
            return
        self.view.remove(name)
        self.view.untouched = False
        self._detectors_changed()
        self.events.active_detector.emit(self.active_detector)

    def activate_detector(self, name: str | None) -> None:
        """Choose the detector whose numbers are shown for editing."""
        if self.view is not None and name != self.view.active:
            self.view.active = name
            self.events.active_detector.emit(name)

    def _detectors_changed(self, changed: Iterable[DetectorView] = ()) -> None:
        self.events.detectors.emit()
        self.request_images(changed)

    # -- images ----------------------------------------------------------------------------

    @property
    def images(self) -> dict[str, ImageResult]:
        """The newest image of each detector, by name."""
        return {} if self.view is None else dict(self.view.images)

    def request_images(self, detectors: Iterable[DetectorView] | None = None) -> None:
        """Ask for images of these detectors (default: all), as far as they are shown."""
        if self.acquisition is None or self.acquisition.state == "released":
            return
        wanted = self.detectors if detectors is None else detectors
        self.board.request(self.acquisition, [d for d in wanted if d.visible])

    def _image_from_worker(self, acquisition: Acquisition, result: ImageResult) -> None:
        """Take a result over; called on the worker's thread."""
        key = ("image", result.name)
        self.gui.post_latest(key, lambda: self._take_image(acquisition, result))

    def _take_image(self, acquisition: Acquisition, result: ImageResult) -> None:
        view = self.view
        if view is None or acquisition is not self.acquisition:
            return
        shown = view.images.get(result.name)
        late = shown is not None and shown.generation > result.generation
        if view.find(result.name) is None or late:
            return
        view.images[result.name] = result
        self.events.images.emit(result.name)

    def failed(self, error: Exception) -> None:
        """Report an error of work in the background; called on any thread."""
        self.gui.post(lambda: notify.report(error))

    # -- disk ------------------------------------------------------------------------------

    @property
    def disk(self) -> Disk | None:
        """The fitted bright-field disk, None if it is not known (yet)."""
        return None if self.view is None else self.view.disk

    def find_disk(self) -> None:
        """Fit the disk and set the presets again, on request of the user, in the background."""
        acquisition = self.acquisition
        if acquisition is not None:
            self.worker.submit(
                "disk",
                lambda _: acquisition.find_disk(),
                done=lambda disk: self.gui.post(lambda: self._use_disk(acquisition, disk)),
                failed=self.failed,
            )

    def _look_for_disk(self) -> None:
        """Fit the disk when enough positions are known; a failure is no error."""
        acquisition, view = self.acquisition, self.view
        if acquisition is None or view is None or acquisition.state == "released":
            return
        first = view.disk is None and not view.disk_problem
        if acquisition.mean_pattern() is None or not (first or acquisition.state == "encoded"):
            return
        self.worker.submit(
            "disk",
            lambda _: acquisition.find_disk(),
            done=lambda disk: self.gui.post(lambda: self._use_disk(acquisition, disk)),
            failed=lambda error: self.gui.post(lambda: self._no_disk(acquisition, error)),
        )

    def _use_disk(self, acquisition: Acquisition, disk: Disk) -> None:
        from napari_4dstem.disk import preset_table

        view = self.view
        if view is None or acquisition is not self.acquisition:
            return
        if disk.radius <= 0:
            self._no_disk(acquisition, FourDStemError(f"No disk was found: {disk.reason}"))
            return
        changed = view.use_presets(disk, preset_table(disk, view.detector_shape))
        self.scan_layer.place(acquisition, disk.center)
        self.events.disk.emit(disk)
        self._detectors_changed(changed)
        self.events.active_detector.emit(self.active_detector)

    def _no_disk(self, acquisition: Acquisition, error: Exception) -> None:
        view = self.view
        if view is None or acquisition is not self.acquisition:
            return
        if not isinstance(error, FourDStemError):
            notify.report(error)
        changed = view.use_fallback(str(error))
        self.events.disk.emit(view.disk)
        self._detectors_changed(changed)
        self.events.active_detector.emit(self.active_detector)

    def _preview_soon(self) -> None:
        """Make coarse images of what is known by now, unless that was done a moment ago."""
        now = time.monotonic()
        if now >= self._preview_due:
            self._preview_due = now + _PREVIEW_EVERY_S
            self.request_images()

    def origin(self) -> Pair | None:
        """Fitted centre of the undiffracted beam in camera pixels, None if it is not known."""
        return None if self.disk is None else self.disk.center
