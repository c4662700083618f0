"""The program ends at once, whatever runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import napari_4dstem as n4
from tests.plugin.scans import noise_scan, save

SCRIPT = """
import sys, time, napari
from qtpy.QtCore import QTimer
import napari_4dstem as n4

viewer = napari.Viewer()
if sys.argv[2] == "explore":
    session = n4.plugin.explore(viewer, sys.argv[1])
else:
    session = n4.plugin.session_for(viewer)
    session.open(sys.argv[1])
acquisition = session.acquisition
started = []

def look():
    if acquisition.state == "partial" and not started:
        started.append(time.monotonic())
    if started and time.monotonic() - started[0] > 1:
        timer.stop()
        assert acquisition.state == "partial", "the encode was too short for this test"
        print("closing", flush=True)
        viewer.window._qt_window.close()

timer = QTimer()
timer.timeout.connect(look)
timer.start(50)
napari.run()
"""


@pytest.mark.gui
@pytest.mark.slow
@pytest.mark.parametrize("how", ["explore", "session"])
def test_closing_the_window_during_a_long_encode_ends_the_program(tmp_path, how, qapp):
    data = tmp_path / "data"
    scratch = tmp_path / "scratch"
    data.mkdir()
    scratch.mkdir()
    path = save(noise_scan((64, 70, 256, 260)), data)
    environment = {
        **os.environ,
        "TMPDIR": str(scratch),
        "NAPARI_CONFIG": str(tmp_path / "settings.yaml"),
    }
    took = closing_takes([sys.executable, "-c", SCRIPT, str(path), how], environment)
    if took >= 2.0:  # napari alone needs half of that; other programs may have needed the machine
        took = closing_takes([sys.executable, "-c", SCRIPT, str(path), how], environment)
    assert took < 2.0
    assert [p.name for p in data.iterdir()] == ["scan.npy"]
    assert list(scratch.iterdir()) == []


COMPILING = """
import sys, napari
from qtpy.QtCore import QTimer
import napari_4dstem as n4

viewer = napari.Viewer()
session = n4.plugin.explore(viewer, sys.argv[1])
acquisition = session.acquisition

def look():
    if acquisition.progress.stage == "preparing the encoder" or not acquisition.ready:
        timer.stop()
        print("closing", flush=True)
        viewer.window._qt_window.close()
    assert acquisition.state != "partial", "the kernels were compiled already"

timer = QTimer()
timer.timeout.connect(look)
timer.start(50)
napari.run()
"""


@pytest.mark.gui
@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npy", ".ans4d"])
def test_closing_while_kernels_are_compiled_ends_the_program(tmp_path, suffix, qapp):
    """On a fresh installation the first seconds go into compiling: nobody waits for that."""
    path = save(noise_scan((16, 18, 64, 66)), tmp_path)
    if suffix == ".ans4d":
        path = tmp_path / "scan.ans4d"
        with n4.load(tmp_path / "scan.npy") as acquisition:
            acquisition.save(path)
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
        "NAPARI_CONFIG": str(tmp_path / "settings.yaml"),
    }
    took = closing_takes([sys.executable, "-c", COMPILING, str(path)], environment)
    assert took < 4.0  # compiling all kernels takes ten seconds and more


def closing_takes(command, environment):
    """Run the script; return the seconds from closing the window to the end of the program."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        try:
            while line := process.stdout.readline():
                if "closing" in line:
                    break
            closing = time.monotonic()
            assert process.wait(20) == 0, process.stderr.read()
            took = time.monotonic() - closing
        finally:
            process.kill()
    return took
