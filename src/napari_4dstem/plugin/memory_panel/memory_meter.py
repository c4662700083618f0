"""Readings off the GUI thread, one at a time: a slow driver or disk must not stall the window."""

from __future__ import annotations

import functools
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any

from napari_4dstem.plugin.gui_thread import GuiThread

# A reading takes about a millisecond; a hanging driver must not hold up the window for longer.
_JOIN_S = 0.5


class Meter:
    """Takes readings on a thread named ``n4-meter`` and delivers them on the GUI thread.

    Parameters
    ----------
    deliver
        Bound method, held weakly; called on the GUI thread with what a reading returned, or with
        the exception it raised.

    Notes
    -----
    All methods are called on the GUI thread. The thread lives from :meth:`start` to :meth:`stop`
    and ends by itself when the meter is garbage collected.
    """

    def __init__(self, deliver: Callable[[Any], None]) -> None:
        self._gui = GuiThread()
        self._deliver = weakref.WeakMethod(deliver)
        self._reading = threading.Lock()  # also between a stopped thread and the next one
        self._jobs: queue.SimpleQueue[Callable[[], Any] | None] | None = None
        self._thread: threading.Thread | None = None
        self._waiting = False

    @property
    def running(self) -> bool:
        """Whether the thread lives."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread, if it does not run."""
        if self._thread is not None:
            return
        self._jobs, self._waiting = queue.SimpleQueue(), False
        arguments = (self._jobs, self._reading, self._gui, weakref.WeakMethod(self._done))
        self._thread = threading.Thread(target=_serve, args=arguments, name="n4-meter", daemon=True)
        weakref.finalize(self, self._jobs.put, None).atexit = False
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None and self._jobs is not None:
            self._jobs.put(None)
            thread.join(_JOIN_S)

    def request(self, take: Callable[[], Any]) -> bool:
        """Ask for a reading; refused (False) while one is under way or the meter is stopped."""
        if self._waiting or self._thread is None or self._jobs is None:
            return False
        self._waiting = True
        self._jobs.put(take)
        return True

    def _done(self, result: Any) -> None:
        self._waiting = False
        deliver = self._deliver()
        if deliver is not None and self._thread is not None:
            deliver(result)


def _serve(
    jobs: queue.SimpleQueue[Callable[[], Any] | None],
    reading: threading.Lock,
    gui: GuiThread,
    done: weakref.WeakMethod[Callable[[Any], None]],
) -> None:
    while (take := jobs.get()) is not None:
        try:
            with reading:
                result = take()
        except Exception as error:  # noqa: BLE001 - shown in the dock; the next reading may work
            error.__traceback__ = None  # its frames would keep what was read alive
            result = error
        del take
        gui.post(functools.partial(_call, done, result))
        del result


def _call(target: weakref.WeakMethod[Callable[[Any], None]], result: Any) -> None:
    method = target()
    if method is not None:
        method(result)


def in_background(
    name: str, work: Callable[[], Any], gui: GuiThread, done: Callable[[Any], None]
) -> None:
    """Run `work` once on a thread ``n4-<name>``; `done`, a bound method, gets result or exception.

    `done` is called on the GUI thread and held weakly.
    """
    target = weakref.WeakMethod(done)

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - reported to the user by `done`
            error.__traceback__ = None
            result = error
        gui.post(lambda: _call(target, result))

    threading.Thread(target=run, name=f"n4-{name}", daemon=True).start()
