"""What an acquisition tells its observers. Signals are emitted from worker threads."""

from __future__ import annotations

from dataclasses import dataclass

from psygnal import Signal, SignalGroup


@dataclass(frozen=True)
class Progress:
    """How far loading is.

    Parameters
    ----------
    done, total
        Scan positions.
    stage
        What happens now, for people; "" when nothing does.
    running
        Whether loading goes on.
    """

    done: int
    total: int
    stage: str
    running: bool


class AcquisitionEvents(SignalGroup):
    """Signals of one acquisition.

    A receiver with a screen must pass them on to its own thread.
    """

    state = Signal(str)
    """New state: source, partial, encoded, released."""
    progress = Signal(Progress)
    """Loading went on."""
    mask = Signal(int)
    """The mask changed; its new version."""
    changed = Signal()
    """Anything else that is shown changed (calibration, problems, readiness)."""
    failed = Signal(Exception)
    """Loading in the background ended with an error."""
