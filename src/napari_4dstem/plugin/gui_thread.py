"""The one way from worker threads to the GUI thread: queued calls, coalesced by key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from qtpy.QtCore import QObject, Qt, Signal

from napari_4dstem.plugin.notify import report


class GuiThread(QObject):
    """Runs calls on the thread that made it (the GUI thread), one event-loop turn later.

    Calls may be posted from any thread. After :meth:`stop` they are dropped.
    """

    _posted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._newest: dict[Hashable, Callable[[], object]] = {}
        self._stopped = False
        queued = Qt.ConnectionType.QueuedConnection
        self._posted.connect(self._run, queued)  # type: ignore[call-arg] # missing in PyQt's stubs

    def post(self, call: Callable[[], object]) -> None:
        """Run `call` on the GUI thread soon; any number of calls keep their order."""
        if self._stopped:
            return
        try:
            self._posted.emit(call)
        except RuntimeError:  # Qt's half is gone: the program is ending
            self._stopped = True

    def post_latest(self, key: Hashable, call: Callable[[], object]) -> None:
        """Run `call` on the GUI thread soon; of several waiting under one key, only the newest."""
        with self._lock:
            waiting = key in self._newest
            self._newest[key] = call
        if not waiting:
            self.post(lambda: self._run_newest(key))

    def stop(self) -> None:
        """Drop what waits and whatever is posted later."""
        self._stopped = True
        with self._lock:
            self._newest.clear()

    def _run_newest(self, key: Hashable) -> None:
        with self._lock:
            call = self._newest.pop(key, None)
        if call is not None:
            call()

    def _run(self, call: Callable[[], object]) -> None:
        if self._stopped:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the program must outlive any slot
            report(error)
