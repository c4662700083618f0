"""One worker thread per session, on which only the newest request of each kind is run.

While a detector is dragged, requests come faster than images: what has not begun is replaced by
the newer request, and what runs is given up only if it is slow, so that a drag shows images
instead of starving.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from napari_4dstem.errors import CancelledError

# A thread without work ends after this time: a viewer that was closed leaves none behind.
IDLE_S = 2.0

# A running job younger than this is let finish although a newer one waits.
PATIENCE_S = 1.0

Cancelled = Callable[[], bool]


@dataclass
class _Job:
    """One request: what to run, and where its outcome goes."""

    key: str
    run: Callable[[Cancelled], Any]
    done: Callable[[Any], None] | None
    failed: Callable[[Exception], None]
    started: float = 0.0
    superseded: bool = False
    dropped: threading.Event = field(default_factory=threading.Event)

    def cancelled(self) -> bool:
        """Whether to give up: told so, or slow while a newer request waits."""
        late = self.superseded and time.monotonic() - self.started > PATIENCE_S
        return late or self.dropped.is_set()


class ImageWorker:
    """A thread that runs the newest job of each key, in the order in which keys were asked for.

    The thread starts with the first job and ends when there is nothing to do. `done` and `failed`
    are called on it.

    Parameters
    ----------
    name
        Name of the thread.
    """

    def __init__(self, name: str = "n4-session") -> None:
        self._name = name
        self._condition = threading.Condition()
        self._waiting: dict[str, _Job] = {}
        self._running: _Job | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def submit(
        self,
        key: str,
        run: Callable[[Cancelled], Any],
        *,
        failed: Callable[[Exception], None],
        done: Callable[[Any], None] | None = None,
    ) -> None:
        """Run `run(cancelled)` soon, in place of a job of this key that has not begun."""
        with self._condition:
            if self._stopped:
                return
            self._waiting[key] = _Job(key, run, done, failed)
            if self._running is not None and self._running.key == key:
                self._running.superseded = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_work, args=(self,), name=self._name, daemon=True
                )
                self._thread.start()
            self._condition.notify()

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._condition:
            return self._running is None and not self._waiting

    def cancel(self) -> None:
        """Forget what waits and give up what runs."""
        with self._condition:
            self._waiting.clear()
            if self._running is not None:
                self._running.dropped.set()

    def stop(self, timeout: float = 1.0) -> bool:
        """End the thread; return whether it ended within `timeout` seconds."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
            thread = self._thread
        self.cancel()
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _next(self) -> _Job | None:
        with self._condition:
            self._running = None
            while not self._waiting and not self._stopped:
                if not self._condition.wait(IDLE_S) and not self._waiting:
                    self._thread = None  # the next job starts another
                    return None
            if self._stopped:
                return None
            job = self._waiting.pop(next(iter(self._waiting)))
            job.started = time.monotonic()
            self._running = job
            return job


def _work(worker: ImageWorker) -> None:
    while True:
        job = worker._next()
        if job is None:
            return
        _run(job)
        del job  # a waiting thread must hold no buffers of the last job


def _run(job: _Job) -> None:
    try:
        result = job.run(job.cancelled)
    except CancelledError:
        return
    except Exception as error:  # noqa: BLE001 - goes to the one who asked
        if not job.dropped.is_set():
            job.failed(error)
        return
    if job.done is not None and not job.dropped.is_set():
        job.done(result)
