"""Work that cannot be interrupted does not hold up a cancel."""

from __future__ import annotations

import threading
import time

import pytest

from napari_4dstem.errors import CancelledError
from napari_4dstem.loading.waiting import run_cancellably


def test_it_waits_for_the_work() -> None:
    done: list[int] = []
    run_cancellably(lambda: time.sleep(0.1) or done.append(1), lambda: False)
    assert done == [1]


def test_errors_come_through() -> None:
    with pytest.raises(ZeroDivisionError):
        run_cancellably(lambda: 1 // 0 and None, lambda: False)


def test_a_cancel_ends_the_wait_at_once() -> None:
    release = threading.Event()
    began = time.monotonic()
    with pytest.raises(CancelledError):
        run_cancellably(lambda: release.wait(30) and None, lambda: True)
    assert time.monotonic() - began < 5
    release.set()
