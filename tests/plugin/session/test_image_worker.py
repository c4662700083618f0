from __future__ import annotations

import threading
import time

import pytest

from napari_4dstem.errors import CancelledError
from napari_4dstem.plugin.session import image_worker
from napari_4dstem.plugin.session.image_worker import ImageWorker


@pytest.fixture
def worker():
    made = ImageWorker("n4-session")
    yield made
    assert made.stop()


def idle(worker):
    end = time.monotonic() + 5
    while not worker.idle:
        assert time.monotonic() < end
        time.sleep(0.002)


class Held:
    """A job that runs until it is let go."""

    def __init__(self):
        self.began, self.go, self.saw_cancel = threading.Event(), threading.Event(), False

    def __call__(self, cancelled):
        self.began.set()
        while not self.go.wait(0.005):
            if cancelled():
                self.saw_cancel = True
                raise CancelledError("given up")
        return "held"


def test_only_the_newest_waiting_job_of_a_key_runs(worker):
    held, results = Held(), []
    worker.submit("a", held, failed=results.append)
    held.began.wait(5)
    for number in range(50):
        worker.submit("b", lambda _, n=number: n, done=results.append, failed=results.append)
    held.go.set()
    idle(worker)
    assert results == [49]


def test_a_young_job_is_let_finish_although_a_newer_one_waits(worker):
    held, results = Held(), []
    worker.submit("a", held, done=results.append, failed=results.append)
    held.began.wait(5)
    worker.submit("a", lambda _: "newer", done=results.append, failed=results.append)
    held.go.set()
    idle(worker)
    assert results == ["held", "newer"]


def test_a_slow_job_gives_way_to_a_newer_one(worker, monkeypatch):
    monkeypatch.setattr(image_worker, "PATIENCE_S", 0.02)
    held, results = Held(), []
    worker.submit("a", held, done=results.append, failed=results.append)
    held.began.wait(5)
    worker.submit("a", lambda _: "newer", done=results.append, failed=results.append)
    idle(worker)
    assert held.saw_cancel
    assert results == ["newer"]


def test_cancel_drops_what_runs_and_what_waits(worker):
    held, results = Held(), []
    worker.submit("a", held, done=results.append, failed=results.append)
    held.began.wait(5)
    worker.submit("b", lambda _: "b", done=results.append, failed=results.append)
    worker.cancel()
    idle(worker)
    assert held.saw_cancel
    assert results == []


def test_errors_are_handed_over(worker):
    errors = []
    worker.submit("a", lambda _: 1 / 0, failed=errors.append)
    idle(worker)
    assert isinstance(errors[0], ZeroDivisionError)


def test_the_thread_ends_without_work_and_starts_again(worker, monkeypatch):
    monkeypatch.setattr(image_worker, "IDLE_S", 0.02)
    for number in range(3):
        results = []
        worker.submit("a", lambda _, n=number: n, done=results.append, failed=results.append)
        idle(worker)
        assert results == [number]
        end = time.monotonic() + 5
        while any(t.name == "n4-session" for t in threading.enumerate()):
            assert time.monotonic() < end
            time.sleep(0.005)


def test_stop_ends_the_thread_and_nothing_runs_afterwards():
    worker = ImageWorker("n4-session")
    held, results = Held(), []
    worker.submit("a", held, failed=results.append)
    held.began.wait(5)
    assert worker.stop(2.0)
    worker.submit("b", results.append, failed=results.append)
    assert results == []
    assert not [t for t in threading.enumerate() if t.name == "n4-session"]
