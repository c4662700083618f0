"""One gate per open source: who may read from the file, and in which order.

HDF5 lets one thread in at a time. Without an order a cursor move waits for whatever bulk read has
come first (a quarter of a second was measured); with the gate a bulk reader works in small pieces
and steps back while a cursor read waits (under a millisecond).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Lets one reader in at a time, cursor reads first. Not reentrant.

    Examples
    --------
    >>> gate = Gate()
    >>> with gate.bulk():
    ...     pass  # read a small piece
    >>> with gate.cursor():
    ...     pass  # read one pattern
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._urgent = 0
        self._busy = False

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """Hold the gate for one piece of a long read; waits while anybody urgent waits."""
        with self._condition:
            while self._urgent or self._busy:
                self._condition.wait()
            self._busy = True
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def cursor(self) -> Iterator[None]:
        """Hold the gate for something a user waits for: one pattern, or closing the file."""
        with self._condition:
            self._urgent += 1
            try:
                while self._busy:
                    self._condition.wait()
            finally:
                self._urgent -= 1
            self._busy = True
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._condition:
            self._busy = False
            self._condition.notify_all()
