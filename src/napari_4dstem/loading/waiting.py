"""Work that cannot be interrupted, in a thread that nobody has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from napari_4dstem.errors import CancelledError

_LOOK_EVERY = 0.05  # seconds


def run_cancellably(work: Callable[[], None], cancelled: Callable[[], bool]) -> None:
    """Do some work in a thread of its own and wait for it, unless cancelled.

    Raises
    ------
    CancelledError
        If `cancelled` said so; the work then goes on by itself and its outcome is dropped.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            failures.append(error)

    thread = threading.Thread(target=run, name="n4-jit", daemon=True)
    thread.start()
    while thread.is_alive():
        if cancelled():
            raise CancelledError("Loading was cancelled")
        thread.join(_LOOK_EVERY)
    if failures:
        raise failures[0]
