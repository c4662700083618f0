"""The guards of conftest.py: they must fail a test that leaves something behind, and no other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

GUARDED = """
import threading, time
import pytest
from napari_4dstem.ledger import HostAllocator, Kind, ledger

kept = []

@pytest.fixture(scope="module")
def shared():
    return HostAllocator(ledger, "shared").empty(Kind.ENCODED, 10, "u1")

def test_clean(shared):
    array = HostAllocator(ledger, "clean").empty(Kind.ENCODED, 10, "u1")
    thread = threading.Thread(target=time.sleep, args=(0.2,), name="n4-short")
    thread.start()

def test_foreign_thread(shared):
    threading.Thread(target=time.sleep, args=(4,), name="other", daemon=True).start()

def test_leaves_thread():
    threading.Thread(target=time.sleep, args=(4,), name="n4-long", daemon=True).start()

def test_leaves_bytes():
    kept.append(HostAllocator(ledger, "leak").empty(Kind.ENCODED, 77, "u1"))

def test_fails_by_itself():
    array = kept.append(HostAllocator(ledger, "own").empty(Kind.ENCODED, 77, "u1"))
    assert False

def test_leaves_timer(qapp):
    from qtpy.QtCore import QTimer
    timer = QTimer()
    timer.setObjectName("n4-tick")
    timer.start(1000)
    kept.append(timer)

def test_stops_timer(qapp):
    from qtpy.QtCore import QTimer
    kept[-1].stop()
    other = QTimer()
    other.start(1000)
    kept.append(other)

def test_waits_in_a_dialog(qapp):
    from qtpy.QtWidgets import QMessageBox
    QMessageBox(text="Overwrite?").exec()
"""


@pytest.mark.slow
def test_a_test_that_leaves_something_behind_fails(tmp_path: Path) -> None:
    test_file = tmp_path / "test_guarded.py"
    test_file.write_text(GUARDED)
    options = ["-p", "tests.conftest", "-c", REPOSITORY / "pyproject.toml", "-v", "-p", "no:napari"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *map(str, options), str(test_file)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    outcomes = dict(re.findall(r"::(test_\w+) (PASSED|FAILED)", result.stdout))
    errors = set(re.findall(r"ERROR .*::(test_\w+)", result.stdout))
    assert outcomes.pop("test_fails_by_itself") == "FAILED"
    assert set(outcomes.values()) == {"PASSED"}, result.stdout
    assert errors == {
        "test_leaves_thread",
        "test_leaves_bytes",
        "test_leaves_timer",
        "test_waits_in_a_dialog",
    }
    for text in ("thread n4-long", "77 bytes booked for leak", "timer of n4-tick", "Overwrite?"):
        assert text in result.stdout
