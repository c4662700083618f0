"""What a session tells its observers."""

from __future__ import annotations

from psygnal import Signal, SignalGroup


class SessionEvents(SignalGroup):
    """What a session tells, always on the GUI thread."""

    acquisition = Signal(object, description="the active acquisition, or None")
    acquisitions = Signal(description="the list of acquisitions changed")
    state = Signal(object, description="an acquisition whose state changed")
    progress = Signal(object, description="progress of the active acquisition")
    cursor = Signal(int, int, description="scan row and column")
    detectors = Signal(description="detectors came, went, moved, were shown or hidden")
    active_detector = Signal(object, description="name, or None")
    images = Signal(str, description="name of the detector whose image is new")
    disk = Signal(object, description="the fitted disk, or None")
    pattern_mode = Signal(str)
    pattern_scale = Signal(str)
