"""Fixtures for every test, and the guards that fail a test which leaves something behind."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# napari reads this when its settings are first imported: tests must not touch the user's own.
_SETTINGS = tempfile.TemporaryDirectory(prefix="n4-tests-")
os.environ["NAPARI_CONFIG"] = str(Path(_SETTINGS.name) / "settings.yaml")

REPOSITORY = Path(__file__).resolve().parents[1]

# How long a test's threads may take to end after the test has closed what it opened.
_THREADS_END_WITHIN_S = 2.0
_MODAL_DIALOG_LIMIT_S = 2.0

_failed = pytest.StashKey[bool]()


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs under test, also where the tests run in the background.

    A shell starts background jobs with SIGINT ignored, and children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of detector files with known answers (``manifest.json``), beside the repository."""
    place = Path(os.environ.get("N4_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (place / "manifest.json").exists():
        pytest.skip(f"no detector files in {place} (set N4_SHARED_DATA to their folder)")
    return place


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves one of our threads, timers or booked bytes behind.

    A test that failed already keeps things alive through its traceback: it is left in peace.
    """
    threads = set(_our_threads())
    owners = _bytes_by_owner().keys()
    yield
    if request.node.stash.get(_failed, False):
        return
    left = _threads_left(threads) + _bytes_left(owners)
    if _uses_qt(request):
        left += _timers_left()
    if left:
        pytest.fail("The test left behind: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def no_modal_dialog(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close a modal dialog that waits for a user who is not there, and fail the test."""
    if not _uses_qt(request):
        yield
        return
    request.getfixturevalue("qapp")
    from qtpy.QtCore import QTimer

    guard = _ModalGuard()
    timer = QTimer()
    timer.timeout.connect(guard.look)
    timer.start(200)
    yield
    timer.stop()
    guard.look()
    if guard.closed:
        pytest.fail(f"The test waited in a modal dialog: {', '.join(guard.closed)}", pytrace=False)


def _uses_qt(request: pytest.FixtureRequest) -> bool:
    return any(name.startswith(("qapp", "qtbot", "make_napari")) for name in request.fixturenames)


class _ModalGuard:
    """Remembers since when a modal dialog is open, and closes one that stays too long."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self._dialog: Any = None
        self._since = 0.0

    def look(self) -> None:
        from qtpy.QtWidgets import QApplication

        dialog = QApplication.activeModalWidget()
        if dialog is not self._dialog:
            self._dialog, self._since = dialog, time.monotonic()
        elif dialog is not None and time.monotonic() - self._since > _MODAL_DIALOG_LIMIT_S:
            text = dialog.property("text") or ""
            self.closed.append(f"{type(dialog).__name__} '{dialog.windowTitle()}' {text}".strip())
            dialog.close()


def _our_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("n4-")]


def _threads_left(before: set[threading.Thread]) -> list[str]:
    deadline = time.monotonic() + _THREADS_END_WITHIN_S
    for thread in set(_our_threads()) - before:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [f"thread {t.name}" for t in _our_threads() if t not in before]


def _bytes_by_owner() -> dict[str, int]:
    module = sys.modules.get("napari_4dstem.ledger")
    if module is None:
        return {}
    return {owner: module.ledger.total(owner=owner) for owner in module.ledger.owners()}


def _bytes_left(owners_before: Any) -> list[str]:
    """Return what is booked for owners that the test brought in.

    Fixtures of a wider scope may grow (caches fill), so owners from before are not compared.
    """
    held = {o: n for o, n in _bytes_by_owner().items() if o not in owners_before}
    if held:
        gc.collect()
        held = {o: n for o, n in _bytes_by_owner().items() if o not in owners_before}
    return [f"{nbytes} bytes booked for {owner}" for owner, nbytes in held.items() if nbytes]


def _timers_left() -> list[str]:
    from qtpy import QtCore as core

    # Widgets that the test closed are deleted by an event that is still to come.
    core.QCoreApplication.sendPostedEvents(None, core.QEvent.Type.DeferredDelete.value)
    if not any(_is_ours(timer) for timer in _active_timers(core)):
        return []
    gc.collect()
    return [f"running timer of {_owner(t)}" for t in _active_timers(core) if _is_ours(t)]


def _active_timers(core: Any) -> list[Any]:
    found = []
    for candidate in gc.get_objects():
        if type(candidate) is core.QTimer:
            try:
                if candidate.isActive():
                    found.append(candidate)
            except RuntimeError:
                continue  # Qt's half of the object is gone already
    return found


def _owner(timer: Any) -> str:
    """Return the first object above `timer` whose class, or its own name, is ours."""
    node = timer
    while node is not None:
        if type(node).__module__.startswith("napari_4dstem"):
            return type(node).__qualname__
        if node.objectName().startswith("n4-"):
            return str(node.objectName())
        node = node.parent()
    return ""


def _is_ours(timer: Any) -> bool:
    return bool(_owner(timer))


@pytest.fixture(scope="session", autouse=True)
def closes_every_file() -> Iterator[None]:
    """Fail at the end if HDF5 files are still open."""
    yield
    h5py = sys.modules.get("h5py")
    if h5py is None:
        return
    gc.collect()
    identifiers = h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)
    names = sorted({h5py.h5f.get_name(i).decode() for i in identifiers})
    if names:
        pytest.fail(f"HDF5 files were left open: {', '.join(names)}", pytrace=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything that asks for a real viewer as ``gui``."""
    for item in items:
        if {"make_napari_viewer", "make_napari_viewer_proxy"} & set(
            getattr(item, "fixturenames", ())
        ):
            item.add_marker(pytest.mark.gui)


_compilation: Any = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Time what Numba compiles."""
    global _compilation
    from numba.core import event

    _compilation = event.TimingListener()
    event.register("numba:compile", _compilation)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    seconds = _compilation.duration if _compilation is not None and _compilation.done else 0.0
    terminalreporter.write_line(f"Numba compiled for {seconds:.1f} s")
