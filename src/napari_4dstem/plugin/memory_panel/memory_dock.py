"""The memory dock: what the open scans hold, what is free, and buttons that give memory back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSize, Qt, QTimer
from qtpy.QtGui import QCloseEvent, QColor, QHideEvent, QResizeEvent, QShowEvent
from qtpy.QtWidgets import (
    QFrame,
    QGraphicsOpacityEffect,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from napari_4dstem.plugin import notify
from napari_4dstem.plugin.gui_thread import GuiThread
from napari_4dstem.plugin.memory_panel.memory_meter import Meter, in_background
from napari_4dstem.plugin.memory_panel.memory_model import MemoryModel, ScanRow, Snapshot
from napari_4dstem.plugin.memory_panel.memory_table import ScanTable, copy_text
from napari_4dstem.plugin.memory_panel.stacked_bar import Legend, Segment, StackedBar
from napari_4dstem.residency.giving_back import GivenBack
from napari_4dstem.residency.report import FREE, OTHERS, PROCESS, Bar, MemoryReport
from napari_4dstem.residency.sizes import format_bytes

if TYPE_CHECKING:
    import napari.viewer

IDLE_MS, BUSY_MS = 1000, 250

_LOW_PX = 340  # a dock lower than this is laid out compactly
_NO_BREAK = "\u00a0"
_EMPTY = (
    "No scan is open. Drop a file (for example scan_master.h5) on napari, "
    "or use File > Open File(s)."
)
# Ours in colour, everything else in shades of the text colour; patterns tell them apart as well.
_LOOKS: dict[str, dict[str, Any]] = {
    "encoded": {"colour": QColor("#35a7c9")},
    "index": {"colour": QColor("#8f7ee8"), "pattern": Qt.BrushStyle.VerPattern},
    "cache": {"colour": QColor("#46b58a"), "pattern": Qt.BrushStyle.Dense6Pattern},
    "workspace": {"colour": QColor("#e29b42"), "pattern": Qt.BrushStyle.DiagCrossPattern},
    PROCESS: {"shade": 0.42, "pattern": Qt.BrushStyle.HorPattern},
    OTHERS: {"shade": 0.26, "pattern": Qt.BrushStyle.BDiagPattern},
    FREE: {"shade": 0.0},
}


class DeviceView(QWidget):
    """One device: a line of text, the stacked bar, its legend, a footnote."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.line, self.footnote = _text_label(), _text_label()
        self.bar, self.legend = StackedBar(), Legend()
        self._compact = False
        quiet = QGraphicsOpacityEffect(self.footnote)
        quiet.setOpacity(0.75)
        self.footnote.setGraphicsEffect(quiet)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        for widget in (self.line, self.bar, self.legend, self.footnote):
            layout.addWidget(widget)

    def set_compact(self, compact: bool) -> None:
        """Leave out legend and footnote: the line says the same more coarsely."""
        self._compact = compact
        self.legend.setHidden(compact)
        self.footnote.setHidden(compact or not self.footnote.text())

    def show_bar(self, bar: Bar) -> None:
        """Show the figures of one device."""
        words = [f"{text} <b>{_unbroken(figure)}</b>" for text, figure in bar.phrases()]
        _set_text(self.line, f"<b>{bar.title}</b>&nbsp; {', '.join(words)}")
        segments = segments_of(bar)
        tick = None if bar.ceiling is None or not bar.total else bar.ceiling / bar.total
        limit = "" if bar.ceiling is None else format_bytes(bar.ceiling)
        self.bar.setAccessibleName(f"Memory of {bar.title}")
        self.bar.set_segments(segments, tick=tick, tick_text=f"scans may take up to {limit}")
        self.legend.set_segments(segments)
        notes = [f"▼ scans may take up to {_unbroken(limit)}"] if limit else []
        if bar.mapped:
            mapped = _unbroken(format_bytes(bar.mapped))
            notes.append(f"mapped files {mapped} (reclaimable, part of free)")
        _set_text(self.footnote, " · ".join([*notes, bar.note] if bar.note else notes))
        self.bar.setToolTip("\n".join([*(f"{s.label} {s.figure}" for s in segments), *notes]))
        self.set_compact(self._compact)


def segments_of(bar: Bar) -> list[Segment]:
    """Return the parts of a bar and what is free, as drawn."""
    shown = bar.shown()
    parts = [(part.key, part.label, part.nbytes) for part in bar.parts]
    parts.append((FREE, "free", bar.free))
    return [
        Segment(key, label, _unbroken(shown[key]), size, **_LOOKS[key])
        for key, label, size in parts
    ]


class MemoryPanel(QWidget):
    """Shows a :class:`MemoryModel` and acts on it.

    Reads once a second while it can be seen, four times while something loads, not at all while
    it is hidden.

    Parameters
    ----------
    model
        What to show.
    parent
        Qt parent.
    """

    def __init__(self, model: MemoryModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = model
        self.report: MemoryReport | None = None
        self._listed: list[Any] = []
        self._asked: list[Any] = []
        self._again = self._unreadable = self._compact = False
        self._under_way: dict[int, str] = {}
        self._gui = GuiThread()
        self._meter = Meter(self._show_reading)
        self._timer = QTimer(self)
        self._timer.setObjectName("n4-memory-timer")
        self._timer.timeout.connect(self._tick)
        self._build()
        model.watch(self.refresh)
        self.destroyed.connect(model.unwatch)

    # -- what it looks like ----------------------------------------------------------------

    def _build(self) -> None:
        self.devices: dict[str, DeviceView] = {}
        self.table, self.empty, self.message = ScanTable(), _text_label(), _text_label()
        self.empty.setText(_EMPTY)
        self.message.setObjectName("n4-memory-message")
        self.message.hide()
        self.table.hide()
        self.table.pressed_action.connect(self._row_pressed)
        self.table.report_wanted.connect(self.copy_report)
        self._device_box = QVBoxLayout()
        self._device_box.setSpacing(8)
        inner = QWidget()
        content = QVBoxLayout(inner)
        content.setContentsMargins(8, 4, 8, 4)
        content.setSpacing(8)
        content.addLayout(self._device_box)
        content.addWidget(self.table)
        content.addWidget(self.empty)
        content.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(inner)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(4)
        layout.addWidget(scroll, 1)
        layout.addWidget(self.message)
        layout.addLayout(self._buttons())
        self.setMinimumSize(280, 170)

    def _buttons(self) -> QHBoxLayout:
        self.unload_all = QPushButton("Unload all")
        self.unload_all.setToolTip(
            "Give back the memory of all scans; files, layers, detectors stay."
        )
        self.unload_all.clicked.connect(self._unload_all)
        self.empty_cache = QPushButton("Empty cache")
        self.empty_cache.setToolTip(
            "Give back what can be computed again, such as decoded patterns. Scans stay loaded."
        )
        self.empty_cache.clicked.connect(self._empty_cache)
        row = QHBoxLayout()
        row.setContentsMargins(8, 0, 8, 0)
        row.addWidget(self.unload_all, 1)
        row.addWidget(self.empty_cache, 1)
        self.message.setContentsMargins(8, 0, 8, 0)
        return row

    def sizeHint(self) -> QSize:
        """Return a size at which all of a few scans can be read."""
        return QSize(440, 320)

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """In a low dock the scans and their buttons are more useful than the legend."""
        super().resizeEvent(event)
        self._compact = self.height() < _LOW_PX
        for device in self.devices.values():
            device.set_compact(self._compact)

    # -- readings --------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent | None) -> None:
        """Begin to read."""
        super().showEvent(event)
        self._meter.start()
        self._timer.start(IDLE_MS)
        self.refresh()

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Stop reading."""
        self._stop()
        super().hideEvent(event)

    def closeEvent(self, event: QCloseEvent | None) -> None:
        """Stop reading for good."""
        self._stop()
        self.model.unwatch()
        super().closeEvent(event)

    def _stop(self) -> None:
        self._timer.stop()
        self._meter.stop()

    def _tick(self) -> None:
        interval = BUSY_MS if self.model.busy() else IDLE_MS
        if self._timer.interval() != interval:
            self._timer.setInterval(interval)
        self.refresh()

    def refresh(self) -> None:
        """Read now; if a reading is under way, once more after it."""
        model, acquisitions = self.model, self.model.acquisitions()
        if self._meter.request(lambda: model.read(acquisitions)):
            self._asked = acquisitions
        else:
            self._again = self._meter.running

    def _show_reading(self, reading: Snapshot | Exception) -> None:
        if isinstance(reading, Snapshot):
            self._listed, self.report = self._asked, reading.report
            self._show_bars(reading.report.bars)
            self._show_rows(reading.rows)
            if self._unreadable:
                self._unreadable = False
                self._say("")
        else:
            self._unreadable = True
            self._say(f"The memory could not be read: {reading}")
        self._asked = []
        if self._again:
            self._again = False
            self.refresh()

    def _show_bars(self, bars: Sequence[Bar]) -> None:
        for bar in bars:
            if bar.device not in self.devices:
                self.devices[bar.device] = DeviceView()
                self.devices[bar.device].set_compact(self._compact)
                self._device_box.addWidget(self.devices[bar.device])
            self.devices[bar.device].show_bar(bar)
        for device in self.devices.keys() - {bar.device for bar in bars}:
            self.devices.pop(device).deleteLater()

    def _show_rows(self, rows: Sequence[ScanRow]) -> None:
        self.table.set_rows(
            [self._with_work(r, a) for r, a in zip(rows, self._listed, strict=True)]
        )
        self.table.setVisible(bool(rows))
        self.empty.setVisible(not rows)
        free = [not self._under_way.get(id(a)) for a in self._listed]
        can = [r.enabled and r.action == "Unload" for r in rows]
        self.unload_all.setEnabled(any(f and c for f, c in zip(free, can, strict=True)))

    def _with_work(self, row: ScanRow, acquisition: Any) -> ScanRow:
        """Say what is being done to an acquisition, and keep its button from doing it twice."""
        work = self._under_way.get(id(acquisition))
        if work is None:
            return row
        return ScanRow(*row.cells[:4], work, row.action, work, enabled=False)

    # -- actions ---------------------------------------------------------------------------

    @notify.guarded
    def _row_pressed(self, row: int) -> None:
        if row >= len(self._listed):
            return
        acquisition = self._listed[row]
        if self.table.rows[row].action == "Reload":
            self._work("reload", "reloading…", [acquisition], self.model.reload)
        else:
            self._work("unload", "unloading…", [acquisition], self.model.unload)

    @notify.guarded
    def _unload_all(self) -> None:
        pairs = zip(self._listed, self.table.rows, strict=False)
        chosen = [a for a, row in pairs if row.action == "Unload" and row.enabled]
        if chosen:
            self._work("unload", "unloading…", chosen, self.model.unload)

    @notify.guarded
    def _empty_cache(self) -> None:
        model, acquisitions = self.model, self.model.acquisitions()
        self.empty_cache.setEnabled(False)
        in_background(
            "empty-cache", lambda: ([], [model.empty_caches(acquisitions)]), self._gui, self._worked
        )

    def _work(
        self, name: str, words: str, acquisitions: list[Any], act: Callable[[Any], Any]
    ) -> None:
        self._under_way |= {id(a): words for a in acquisitions}
        self._show_rows_again()
        in_background(name, lambda: _one_by_one(acquisitions, act), self._gui, self._worked)

    def _show_rows_again(self) -> None:
        if len(self.table.rows) == len(self._listed):
            self._show_rows(self.table.rows)
        self.refresh()

    def _worked(self, outcome: tuple[list[Any], list[Any]] | Exception) -> None:
        self.empty_cache.setEnabled(True)
        acquisitions, results = ([], [outcome]) if isinstance(outcome, Exception) else outcome
        for acquisition in acquisitions:
            self._under_way.pop(id(acquisition), None)
        for error in (r for r in results if isinstance(r, Exception)):
            notify.report(error)
        self._say(summary_of([r for r in results if not isinstance(r, Exception)]))
        self.refresh()

    def _say(self, text: str) -> None:
        self.message.setText(text)
        self.message.setVisible(bool(text))

    def copy_report(self) -> None:
        """Copy all figures as text."""
        copy_text(str(self.report or ""))


class MemoryDock(MemoryPanel):
    """The memory dock of a napari viewer.

    Parameters
    ----------
    viewer
        The viewer whose scans are listed.
    """

    def __init__(self, viewer: napari.viewer.Viewer) -> None:
        from napari_4dstem.plugin.sessions import session_for

        super().__init__(MemoryModel.of_session(session_for(viewer)))


def summary_of(results: Sequence[Any]) -> str:
    """Return what to tell about what was done: each in words, or several unloadings in one."""
    if len(results) > 1 and all(isinstance(r, GivenBack) for r in results):
        total = sum(r.claimed for r in results)
        return f"Unloaded {len(results)} scans: {format_bytes(total)} back"
    return "; ".join(str(r) for r in results)


def _one_by_one(acquisitions: list[Any], act: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    results: list[Any] = []
    for acquisition in acquisitions:
        try:
            results.append(act(acquisition))
        except Exception as error:  # noqa: BLE001 - the others are still to be done
            error.__traceback__ = None
            results.append(error)
    return acquisitions, results


def _text_label() -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    label.setIndent(0)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def _set_text(label: QLabel, text: str) -> None:
    if label.text() != text:  # setting the same text would drop a selection
        label.setText(text)


def _unbroken(figure: str) -> str:
    return figure.replace(" ", _NO_BREAK)
