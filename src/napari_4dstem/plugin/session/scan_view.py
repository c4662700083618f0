"""What a session remembers of one acquisition: cursor, virtual detectors, images, the disk.

Plain values without a viewer, so that switching between acquisitions is swapping one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from napari_4dstem.detectors import Circle, Shape
from napari_4dstem.plugin.session.detector_views import DetectorView, colour_of, free_name
from napari_4dstem.plugin.session.session_images import ImageResult

if TYPE_CHECKING:
    from napari_4dstem.disk import Disk, Preset

# Shown when an acquisition is opened, once the disk is known: the first of each that fits.
FIRST_DETECTORS = (("BF",), ("ADF", "LAADF", "HAADF"))


@dataclass
class ScanView:
    """The state of one acquisition on screen.

    Parameters
    ----------
    detector_shape
        (rows, columns) of the camera.
    cursor
        Scan position (row, col).
    """

    detector_shape: tuple[int, int]
    cursor: tuple[int, int]
    detectors: list[DetectorView] = field(default_factory=list)
    active: str | None = None
    images: dict[str, ImageResult] = field(default_factory=dict)
    disk: Disk | None = None
    disk_problem: str = ""
    presets: Sequence[Preset] = ()
    untouched: bool = True

    def find(self, name: str) -> DetectorView | None:
        """Return the detector of a name, None if there is none."""
        return next((d for d in self.detectors if d.name == name), None)

    def preset(self, name: str) -> Preset | None:
        """Return a preset by name, None before the disk is known."""
        return next((p for p in self.presets if p.name == name), None)

    def add(self, shape: Shape, name: str | None = None, *, preset: bool = False) -> DetectorView:
        """Add a detector, or replace the one of this name, and make it the active one."""
        name = name or free_name(d.name for d in self.detectors)
        colour = colour_of(name, (d.colour for d in self.detectors))
        detector = DetectorView(name, colour, shape, preset=preset)
        if self.find(name) is not None:
            self.change(detector)
        else:
            self.detectors.append(detector)
        self.active = name
        return detector

    def change(self, detector: DetectorView) -> None:
        """Replace the detector of the same name."""
        self.detectors = [detector if d.name == detector.name else d for d in self.detectors]

    def remove(self, name: str) -> None:
        """Remove a detector and its image."""
        self.detectors = [d for d in self.detectors if d.name != name]
        self.images.pop(name, None)
        if self.active == name:
            self.active = self.detectors[-1].name if self.detectors else None

    def use_presets(self, disk: Disk, presets: Sequence[Preset]) -> list[DetectorView]:
        """Take a newly fitted disk over; return the detectors that it made or changed.

        A detector that the user has touched stays as it is.
        """
        self.disk, self.presets, self.disk_problem = disk, presets, ""
        if self.untouched and not self.detectors:
            return self._first_detectors()
        changed = []
        for detector in self.detectors:
            preset = self.preset(detector.name)
            shape = None if preset is None else preset.shape
            if detector.preset and shape is not None and shape != detector.shape:
                changed.append(replace(detector, shape=shape))
        for detector in changed:
            self.change(detector)
        return changed

    def use_fallback(self, problem: str) -> list[DetectorView]:
        """Start with a circle in the middle of the camera, because no disk was found."""
        self.disk_problem = problem
        if not self.untouched or self.detectors:
            return []
        rows, columns = self.detector_shape
        return [self.add(Circle(((rows - 1) / 2, (columns - 1) / 2), min(rows, columns) / 8))]

    def _first_detectors(self) -> list[DetectorView]:
        made = []
        for choices in FIRST_DETECTORS:
            found = (self.preset(name) for name in choices)
            fitting = next((p for p in found if p is not None and p.shape is not None), None)
            if fitting is not None and fitting.shape is not None:
                made.append(self.add(fitting.shape, fitting.name, preset=True))
        if made:
            self.active = made[0].name
        return made
