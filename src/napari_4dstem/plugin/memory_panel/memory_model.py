"""What the memory dock shows and does, without a widget: it stands between dock and session.

Everything that may be slow (the machine, the file system, waiting for reads to end) is a plain
function here that the dock runs off the GUI thread.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_4dstem.ledger import Ledger
from napari_4dstem.ledger import ledger as process_ledger
from napari_4dstem.residency.giving_back import GivenBack, empty_caches, unload
from napari_4dstem.residency.report import AcquisitionRow, MemoryReport, memory_report
from napari_4dstem.residency.sizes import format_bytes

if TYPE_CHECKING:
    from napari_4dstem.plugin.sessions import Session

_STATES = {
    "source": "read from file",
    "partial": "partly encoded",
    "encoded": "ready",
    "released": "unloaded",
}
NOTHING = "–"
_PLACES = {"source": "file", "none": NOTHING}


@dataclass(frozen=True)
class ScanRow:
    """One line of the dock's table, as text.

    Attributes
    ----------
    name, encoded, full_size, place, state
        The cells.
    action
        Text of the button: "Unload" or "Reload".
    hint
        What the button does and costs.
    enabled
        Whether it can be pressed.
    """

    name: str
    encoded: str
    full_size: str
    place: str
    state: str
    action: str
    hint: str
    enabled: bool

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """The texts, column by column."""
        return self.name, self.encoded, self.full_size, self.place, self.state

    @property
    def summary(self) -> str:
        """What a narrow table shows under the name."""
        size = f"{self.encoded} of {self.full_size}"
        if self.encoded == NOTHING:
            size = f"full size {self.full_size}"
        return size if self.place == NOTHING else f"{size} · {self.place}"


@dataclass(frozen=True)
class Snapshot:
    """One reading: the report, and the rows in the order of the acquisitions asked for."""

    report: MemoryReport
    rows: tuple[ScanRow, ...]


class MemoryModel:
    """What the memory dock observes.

    Parameters
    ----------
    acquisitions
        Called on the GUI thread: the acquisitions to list, in order.
    ledger
        Whose bytes are ours.
    signals
        psygnal signals after which the dock looks again at once; emitted on the GUI thread.
    """

    def __init__(
        self,
        acquisitions: Callable[[], Sequence[Any]],
        *,
        ledger: Ledger = process_ledger,
        signals: Sequence[Any] = (),
    ) -> None:
        self._acquisitions, self._ledger, self._signals = acquisitions, ledger, signals
        self._watcher: weakref.WeakMethod[Callable[[], None]] | None = None

    @classmethod
    def of_session(cls, session: Session) -> MemoryModel:
        """Return the model of what a napari viewer has open."""
        events = session.events
        signals = (events.acquisitions, events.acquisition, events.state)
        return cls(lambda: session.acquisitions, signals=signals)

    def acquisitions(self) -> list[Any]:
        """Return the acquisitions to list."""
        return list(self._acquisitions())

    def busy(self) -> bool:
        """Return whether something is being loaded, so that figures move fast."""
        return any(a.progress.running for a in self.acquisitions())

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed`, a bound method held weakly, when the list or a state changes."""
        self._watcher = weakref.WeakMethod(changed)
        for signal in self._signals:
            signal.connect(changed, max_args=0)

    def unwatch(self) -> None:
        """Stop calling. Idempotent."""
        watcher, self._watcher = self._watcher, None
        changed = None if watcher is None else watcher()
        for signal in self._signals if changed is not None else ():
            signal.disconnect(changed, missing_ok=True)

    # -- callable from any thread ----------------------------------------------------------

    def read(self, acquisitions: Sequence[Any]) -> Snapshot:
        """Read the machine and what each acquisition holds."""
        report = memory_report(self._ledger, acquisitions)
        pairs = zip(report.rows, acquisitions, strict=True)
        return Snapshot(report, tuple(scan_row(row, a) for row, a in pairs))

    def unload(self, acquisition: Any) -> GivenBack:
        """Give the memory of one acquisition back; blocks until running reads have ended."""
        return unload(self._ledger, acquisition)

    def reload(self, acquisition: Any) -> str:
        """Bring a released acquisition back; return what to tell the user."""
        acquisition.reload()
        return f"Reloading {acquisition.name}: {acquisition.reload_cost}"

    def empty_caches(self, acquisitions: Sequence[Any]) -> GivenBack:
        """Drop what can be computed again; the encoded scans stay."""
        return empty_caches(self._ledger, acquisitions)


def scan_row(row: AcquisitionRow, acquisition: Any) -> ScanRow:
    """Put into words what an acquisition holds, and what its button does."""
    released = row.state == "released"
    progress = acquisition.progress
    state = _STATES.get(row.state, row.state)
    if progress.running:
        percent = 100 * progress.done // max(progress.total, 1)
        state = f"{progress.stage or 'loading'} {percent} %"
    if released:
        enabled = bool(acquisition.can_reload)
        hint = f"Reload {row.name}: {acquisition.reload_cost}."
        if not enabled:
            hint = f"{row.name} cannot be reloaded: its file is not there any more."
    else:
        enabled = row.resident_bytes > 0 or progress.running
        hint = _unload_hint(row, acquisition) if enabled else _NOTHING_HELD
    return ScanRow(
        name=row.name,
        encoded=format_bytes(row.encoded_bytes) if row.encoded_bytes else NOTHING,
        full_size=format_bytes(row.full_bytes),
        place=_PLACES.get(row.place, row.place),
        state=state,
        action="Reload" if released else "Unload",
        hint=hint,
        enabled=enabled,
    )


_NOTHING_HELD = "Nothing to unload: patterns are read from the file as you look at them."


def _unload_hint(row: AcquisitionRow, acquisition: Any) -> str:
    hint = (
        f"Frees {format_bytes(row.resident_bytes)}: the encoded patterns and what was computed "
        "from them.\nThe file, the layer with its settings and the virtual detectors stay."
    )
    if acquisition.can_reload:
        return f"{hint}\nReloading: {acquisition.reload_cost}."
    return f"{hint}\nIt cannot be reloaded: its file is not there any more. Save it first."
