"""The memory dock shows what the ledger and the kernel say, and gives memory back on a button."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt
from qtpy.QtGui import QGuiApplication, QImage, QPalette

from napari_4dstem.errors import DeviceError
from napari_4dstem.ledger import HostAllocator, Kind, Ledger
from napari_4dstem.loading.events import Progress
from napari_4dstem.plugin.memory_panel.memory_dock import (
    BUSY_MS,
    IDLE_MS,
    MemoryDock,
    MemoryPanel,
    segments_of,
)
from napari_4dstem.plugin.memory_panel.memory_model import MemoryModel, Snapshot
from napari_4dstem.plugin.memory_panel.stacked_bar import segment_widths
from napari_4dstem.plugin.sessions import session_for
from napari_4dstem.residency.sizes import parse_size

MIB = 1 << 20
IDLE = Progress(0, 0, "", running=False)


class Scan:
    """A scan that holds real memory and is released as an acquisition is."""

    def __init__(self, ledger: Ledger, name: str, encoded: int, *, cache: int = 0) -> None:
        self.name, self._ledger, self._size, self._cache_size = name, ledger, encoded, cache
        self.logical_bytes, self.progress = 32 * encoded, IDLE
        self.can_reload, self.reload_cost = True, f"{name}_master.h5, read and encoded again"
        self.release_calls: list[str] = []
        self.reload()

    @property
    def state(self) -> str:
        return "released" if self.encoded is None else "encoded"

    @property
    def place(self) -> str:
        return "none" if self.encoded is None else "RAM"

    @property
    def encoded_bytes(self) -> int:
        return 0 if self.encoded is None else self.encoded.nbytes

    @property
    def resident_bytes(self) -> int:
        return self._ledger.total(owner=self.name)

    def release(self) -> None:
        self.release_calls.append(threading.current_thread().name)
        self.encoded = self.cache = None

    def reload(self) -> None:
        allocator = HostAllocator(self._ledger, self.name)
        self.encoded: Any = allocator.empty(Kind.ENCODED, self._size, "u1")
        self.encoded[:] = 9
        self.cache: Any = allocator.empty(Kind.CACHE, self._cache_size, "u1")

    def empty_cache(self) -> None:
        self.cache = None


@pytest.fixture
def scans() -> list[Scan]:
    ledger = Ledger()
    return [
        Scan(ledger, "scan_003", 40 * MIB, cache=2 * MIB),
        Scan(ledger, "a_rather_long_name_of_a_scan_0042", 3 * MIB),
    ]


@pytest.fixture
def panel(qtbot: QtBot, scans: list[Scan]) -> MemoryPanel:
    return shown(qtbot, MemoryPanel(model_of(scans)))


def model_of(scans: list[Scan]) -> MemoryModel:
    return MemoryModel(lambda: scans, ledger=scans[0]._ledger)


def shown(qtbot: QtBot, panel: MemoryPanel, width: int = 620) -> MemoryPanel:
    qtbot.addWidget(panel)
    panel.resize(width, 500)
    panel.show()
    qtbot.waitUntil(lambda: panel.report is not None)
    return panel


def meter_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "n4-meter"]


def row(panel: MemoryPanel, number: int) -> tuple[str, ...]:
    return tuple(panel.table.item(number, column).text() for column in range(5))


# -- what it shows ---------------------------------------------------------------------------


def test_shows_the_ledger_in_figures_that_add_up(panel: MemoryPanel, scans: list[Scan]) -> None:
    assert row(panel, 0) == ("scan_003", "40.00 MiB", "1.25 GiB", "RAM", "ready")
    assert row(panel, 1)[1:3] == ("3.00 MiB", "96.00 MiB")
    device = panel.devices["cpu"]
    legend = {k: e.label.text() for k, e in device.legend.entries.items()}
    assert legend["encoded"].replace("\u00a0", " ") == "encoded 43.00 MiB"
    assert legend["cache"].replace("\u00a0", " ") == "cache 2.00 MiB"
    assert "workspace" not in legend  # nothing to tell
    assert panel.report is not None
    total = panel.report.bars[0].total
    read = sum(parse_size(" ".join(text.split()[-2:])).nbytes for text in legend.values())
    assert read == pytest.approx(total, abs=0.006 * 2**30)
    assert sum(s.size for s in device.bar.segments) == total
    assert "ours <b>45.00\u00a0MiB</b>" in device.line.text()


def test_parts_differ_by_more_than_colour(panel: MemoryPanel) -> None:
    assert panel.report is not None
    segments = segments_of(panel.report.bars[0])
    assert len(segments) == 7
    assert len({s.pattern for s in segments[:-1]}) == 6
    assert segments[-1].key == "free"
    assert (segments[-1].colour, segments[-1].shade) == (None, 0)  # the only empty one


@pytest.mark.parametrize("dark", [True, False])
def test_bar_is_painted_in_both_themes(panel: MemoryPanel, dark: bool) -> None:
    bar = panel.devices["cpu"].bar
    ink, paper = ("#f0f1f2", "#23242b") if dark else ("#1e1e21", "#ebe7e6")
    bar.setStyleSheet(f"color: {ink}; background-color: {paper};")
    assert bar.palette().color(QPalette.ColorRole.WindowText).name() == ink
    image: QImage = bar.grab().toImage()
    segment, box = bar.boxes()[0]
    assert segment.key == "encoded"
    found = image.pixelColor(int(box.left()) + 1, int(box.center().y()))
    assert found.name() == "#35a7c9"
    segment, box = bar.boxes()[-1]
    assert segment.key == "free"
    assert image.pixelColor(int(box.left()) + 4, int(box.center().y())).name() == paper
    assert bar._tip_at(int(box.left()) + 2).startswith("free ")


def test_widths_add_up_and_keep_small_parts_visible() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        sizes = [int(s) for s in rng.choice([0, 1, 10**6, 10**11], 7)]
        width = int(rng.integers(60, 900))
        widths = segment_widths(sizes, width)
        assert sum(widths) == (width if any(sizes) else 0)
        assert all(w >= 3 if size else w == 0 for w, size in zip(widths, sizes, strict=True))


def test_no_scan_is_said_in_words(qtbot: QtBot) -> None:
    panel = shown(qtbot, MemoryPanel(MemoryModel(list, ledger=Ledger())))
    assert panel.empty.isVisible()
    assert "Drop a file" in panel.empty.text()
    assert not panel.table.isVisible()
    assert not panel.unload_all.isEnabled()


@pytest.mark.parametrize("width", [320, 620])
def test_readable_at_every_width(qtbot: QtBot, scans: list[Scan], width: int) -> None:
    panel = shown(qtbot, MemoryPanel(model_of(scans)), width)
    assert panel.width() == width
    assert panel.table.narrow == (width < 470)
    for number in range(2):
        button = panel.table.button(number)
        assert button is not None
        text = button.fontMetrics().horizontalAdvance(button.text())
        assert text <= button.width()
        assert button.mapTo(panel, button.rect().topRight()).x() < width
    for name in ("unload_all", "empty_cache"):
        button = getattr(panel, name)
        assert button.fontMetrics().horizontalAdvance(button.text()) <= button.width()
    for entry in panel.devices["cpu"].legend.entries.values():
        assert entry.label.width() >= entry.label.sizeHint().width()
        assert entry.mapTo(panel, entry.rect().topRight()).x() < width


def test_a_low_dock_still_shows_scans_and_buttons(qtbot: QtBot, panel: MemoryPanel) -> None:
    device = panel.devices["cpu"]
    assert device.legend.isVisible()
    panel.resize(620, 230)
    qtbot.waitUntil(lambda: not device.legend.isVisible())
    assert not device.footnote.isVisible()
    assert "free" in device.line.text()
    for number in range(2):
        button = panel.table.button(number)
        assert button is not None
        assert button.mapTo(panel, button.rect().bottomLeft()).y() < panel.unload_all.y()
    panel.resize(620, 500)
    qtbot.waitUntil(device.legend.isVisible)
    assert device.footnote.isVisible()


def test_progress_is_shown_and_read_four_times_a_second(
    qtbot: QtBot, panel: MemoryPanel, scans: list[Scan]
) -> None:
    assert panel._timer.interval() == IDLE_MS == 1000
    scans[1].progress = Progress(30, 70, "encoding", running=True)
    qtbot.waitUntil(lambda: row(panel, 1)[4] == "encoding 42 %")
    qtbot.waitUntil(lambda: panel._timer.interval() == BUSY_MS == 250)
    scans[1].progress = IDLE
    qtbot.waitUntil(lambda: panel._timer.interval() == IDLE_MS)
    qtbot.waitUntil(lambda: row(panel, 1)[4] == "ready")


# -- reading ---------------------------------------------------------------------------------


def test_reads_nothing_while_hidden(qtbot: QtBot, panel: MemoryPanel, scans: list[Scan]) -> None:
    assert len(meter_threads()) == 1
    panel.hide()
    assert meter_threads() == []
    assert not panel._timer.isActive()
    scans[1].release()
    panel.refresh()
    qtbot.wait(50)
    assert row(panel, 1)[4] == "ready"
    panel.show()
    qtbot.waitUntil(lambda: row(panel, 1)[4] == "unloaded")
    panel.close()
    assert meter_threads() == []
    assert not panel._timer.isActive()


class SlowModel(MemoryModel):
    """Takes its time, and notes who reads when."""

    def __init__(self, scans: list[Scan]) -> None:
        super().__init__(lambda: scans, ledger=scans[0]._ledger)
        self.spans: list[tuple[float, float]] = []
        self.names: set[str] = set()
        self.broken = False

    def read(self, acquisitions: Any) -> Snapshot:
        begin = time.monotonic()
        self.names.add(threading.current_thread().name)
        time.sleep(0.03)
        self.spans.append((begin, time.monotonic()))
        if self.broken:
            raise DeviceError("The driver does not answer")
        return super().read(acquisitions)


def test_readings_are_off_the_gui_thread_and_never_overlap(qtbot: QtBot, scans: list[Scan]) -> None:
    model = SlowModel(scans)
    panel = shown(qtbot, MemoryPanel(model))
    for turn in range(30):
        if turn % 7 == 3:
            panel.hide()
            panel.show()
        panel.refresh()
        qtbot.wait(5)
    panel.close()
    assert model.names == {"n4-meter"}
    assert len(model.spans) >= 4
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(model.spans))


def test_a_failed_reading_is_told_and_the_next_one_tried(qtbot: QtBot, scans: list[Scan]) -> None:
    model = SlowModel(scans)
    panel = shown(qtbot, MemoryPanel(model))
    model.broken = True
    panel.refresh()
    qtbot.waitUntil(lambda: "driver does not answer" in panel.message.text())
    model.broken = False
    scans[0].release()
    panel.refresh()
    qtbot.waitUntil(lambda: row(panel, 0)[4] == "unloaded")
    assert panel.message.text() == ""


def test_a_dock_that_is_just_dropped_takes_its_thread_along(
    qtbot: QtBot, scans: list[Scan]
) -> None:
    panel = MemoryPanel(model_of(scans))
    panel.show()
    qtbot.waitUntil(lambda: len(meter_threads()) == 1)
    gone = weakref.ref(panel)
    del panel
    gc.collect()
    assert gone() is None
    qtbot.waitUntil(lambda: meter_threads() == [], timeout=2000)


# -- giving memory back ----------------------------------------------------------------------


def test_unload_and_reload(qtbot: QtBot, panel: MemoryPanel, scans: list[Scan]) -> None:
    button = panel.table.button(0)
    assert button is not None
    assert button.text() == "Unload"
    assert "Frees 42.00 MiB" in button.toolTip()
    assert "stay" in button.toolTip()
    assert "scan_003_master.h5, read and encoded again" in button.toolTip()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert row(panel, 0)[4] == "unloading…"
    assert not button.isEnabled()
    qtbot.waitUntil(lambda: panel.message.text() == "Unloaded scan_003: 42.00 MiB back")
    qtbot.waitUntil(lambda: button.text() == "Reload" and button.isEnabled())
    assert row(panel, 0) == ("scan_003", "–", "1.25 GiB", "–", "unloaded")
    assert scans[0].release_calls == ["n4-unload"]
    assert scans[0].resident_bytes == 0
    assert scans[1].release_calls == []
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: button.text() == "Unload")
    qtbot.waitUntil(lambda: panel.message.text().startswith("Reloading scan_003: scan_003_master"))
    assert row(panel, 0)[1] == "40.00 MiB"


def test_unloaded_without_its_file_cannot_be_reloaded(
    qtbot: QtBot, panel: MemoryPanel, scans: list[Scan]
) -> None:
    scans[0].can_reload = False
    panel.refresh()
    button = panel.table.button(0)
    assert button is not None
    qtbot.waitUntil(lambda: "Save it first" in button.toolTip())
    scans[0].release()
    panel.refresh()
    qtbot.waitUntil(lambda: button.text() == "Reload")
    assert not button.isEnabled()
    assert "its file is not there any more" in button.toolTip()


def test_unload_all(qtbot: QtBot, panel: MemoryPanel, scans: list[Scan]) -> None:
    qtbot.mouseClick(panel.unload_all, Qt.MouseButton.LeftButton)
    assert not panel.unload_all.isEnabled()
    qtbot.waitUntil(lambda: panel.message.text() == "Unloaded 2 scans: 45.00 MiB back")
    qtbot.waitUntil(lambda: row(panel, 1)[4] == "unloaded")
    assert not panel.unload_all.isEnabled()
    assert scans[0]._ledger.total() == 0


def test_one_scan_that_fails_does_not_keep_the_others(
    qtbot: QtBot, panel: MemoryPanel, scans: list[Scan], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise DeviceError("The device is lost", action="Restart napari")

    monkeypatch.setattr(scans[0], "release", fail)
    notification_manager.records.clear()
    qtbot.mouseClick(panel.unload_all, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.message.text().startswith("Unloaded a_rather_long"))
    assert "The device is lost. Restart napari." in notification_manager.records[-1].message
    qtbot.waitUntil(lambda: row(panel, 0)[4] == "ready")
    assert panel.unload_all.isEnabled()


def test_empty_cache(qtbot: QtBot, panel: MemoryPanel, scans: list[Scan]) -> None:
    qtbot.mouseClick(panel.empty_cache, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.message.text() == "Emptied the cache: 2.00 MiB back")
    assert scans[0].encoded is not None
    assert panel.empty_cache.isEnabled()


def test_rows_are_text_to_copy(qtbot: QtBot, panel: MemoryPanel) -> None:
    clipboard = QGuiApplication.clipboard()
    assert clipboard is not None
    panel.table.selectRow(0)
    qtbot.keyClick(panel.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard.text() == (
        "Scan\tEncoded\tFull size\tPlace\tState\nscan_003\t40.00 MiB\t1.25 GiB\tRAM\tready"
    )
    menu = panel.table.menu_at(panel.table.visualItemRect(panel.table.item(1, 0)).center())
    actions = {a.text(): a for a in menu.actions() if a.text()}
    assert list(actions) == [
        "Unload a_rather_long_name_of_a_scan_0042",
        "Copy rows",
        "Copy memory report",
    ]
    actions["Copy memory report"].trigger()
    assert clipboard.text() == str(panel.report)
    menu.deleteLater()


# -- with a real acquisition and a real session ----------------------------------------------


@pytest.fixture
def scan_file(tmp_path: Path) -> Path:
    counts = np.random.default_rng(1).poisson(2.0, (9, 11, 24, 20)).astype("u2")
    np.save(tmp_path / "scan_7.npy", counts)
    return tmp_path / "scan_7.npy"


def drive_dock(qtbot: QtBot, viewer: Any, dock: MemoryDock, path: Path) -> None:
    session = session_for(viewer)
    acquisition = session.open(path)
    qtbot.waitUntil(lambda: acquisition.state == "encoded", timeout=60_000)
    qtbot.waitUntil(lambda: dock.table.rowCount() == 1 and row(dock, 0)[4] == "ready")
    assert row(dock, 0)[0] == acquisition.name
    assert acquisition.resident_bytes > 0
    button = dock.table.button(0)
    assert button is not None
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: dock.message.text().startswith(f"Unloaded {acquisition.name}: "))
    qtbot.waitUntil(lambda: button.text() == "Reload" and button.isEnabled())
    assert (acquisition.state, acquisition.resident_bytes) == ("released", 0)
    session.remove_acquisition(acquisition)
    qtbot.waitUntil(lambda: dock.table.rowCount() == 0)


def test_follows_the_session_of_a_viewer(qtbot: QtBot, scan_file: Path) -> None:
    viewer = ViewerModel()
    dock = MemoryDock(viewer)  # type: ignore[arg-type]
    shown(qtbot, dock)
    drive_dock(qtbot, viewer, dock, scan_file)
    dock.close()
    session_for(viewer).close()


@pytest.mark.gui
def test_in_a_real_window(
    qtbot: QtBot, make_napari_viewer: Callable[..., Any], scan_file: Path
) -> None:
    viewer = make_napari_viewer(show=True)
    dock = MemoryDock(viewer)
    viewer.window.add_dock_widget(dock, name="4D-STEM memory", area="right")
    qtbot.waitUntil(lambda: dock.report is not None)
    drive_dock(qtbot, viewer, dock, scan_file)
    assert len(meter_threads()) == 1
    viewer.window.remove_dock_widget(dock)
    qtbot.waitUntil(lambda: meter_threads() == [])
    session_for(viewer).close()
