"""The load panel: choose a file, see what it holds, say how its frames form a scan, open it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt, QTimer, Signal
from qtpy.QtGui import QDragEnterEvent, QDropEvent
from qtpy.QtWidgets import (
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)
from superqt import QElidingLabel
from superqt.utils import create_worker

from napari_4dstem.plugin.load_panel.banner import Banner
from napari_4dstem.plugin.load_panel.file_report import FileReport, error_report, report_on
from napari_4dstem.plugin.load_panel.scan_form import ScanForm
from napari_4dstem.plugin.notify import guarded

if TYPE_CHECKING:
    import napari.viewer

    from napari_4dstem.sources import OpenOptions

_FILTERS = "4D-STEM scans (*_master.h5 *.ans4d *.npy);;All files (*)"
_CHECK_AFTER_MS = 150  # quiet time after a choice before the headers are looked at again


class LoadPanel(QWidget):
    """What a file holds and misses, how its frames form a scan, and a button to open it.

    Attributes
    ----------
    open_requested
        Path and options, when the user presses Open.
    """

    open_requested = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self._path: Path | None = None
        self._report: FileReport | None = None
        self._chosen: dict[Path, OpenOptions] = {}
        self._request = 0  # number of the newest look at a file: older answers are dropped
        self._check = QTimer(self)
        self._check.setSingleShot(True)
        self._check.setInterval(_CHECK_AFTER_MS)
        self._build()
        self._connect()
        self.setAcceptDrops(True)
        self._show_nothing()

    # -- layout ----------------------------------------------------------------------------

    def _build(self) -> None:
        self.file_label = QElidingLabel()
        self.file_label.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.choose_button = QPushButton("Choose file...")
        self.banner = Banner()
        self.form = ScanForm()
        self.facts = QWidget()
        self.facts_form = QFormLayout(self.facts)
        self.facts_form.setContentsMargins(0, 0, 0, 0)
        self.facts_form.setVerticalSpacing(3)
        self.open_button = QPushButton("Open")
        self.open_button.setStyleSheet("font-weight: 600; padding: 5px;")
        top = QHBoxLayout()
        top.addWidget(self.file_label, 1)
        top.addWidget(self.choose_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addLayout(top)
        layout.addWidget(self.banner)
        layout.addWidget(self._scrolled(), 1)
        layout.addWidget(self.open_button)

    def _scrolled(self) -> QScrollArea:
        content = QWidget()
        self._rule = QFrame()
        self._rule.setFrameShape(QFrame.Shape.HLine)
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 4, 0, 4)
        column.setSpacing(8)
        column.addWidget(self.form)
        column.addWidget(self._rule)
        column.addWidget(self.facts)
        column.addStretch(1)
        area = QScrollArea()
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(content)
        return area

    def _connect(self) -> None:
        self.choose_button.clicked.connect(self._choose)
        self.open_button.clicked.connect(self._open)
        self.form.changed.connect(self._options_changed)
        self._check.timeout.connect(self._look_again)

    # -- a file ----------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The file shown."""
        return self._path

    @property
    def report(self) -> FileReport | None:
        """What is shown about the file; None while it is being looked at."""
        return self._report

    def show_info(self, path: str | Path) -> None:
        """Show what a file holds, and the choices made for it earlier in this session.

        Parameters
        ----------
        path
            Any file; one that cannot be opened is shown with the reason.
        """
        self._remember()
        self._path = Path(path)
        self._report = None
        self._check.stop()
        self.file_label.setText(self._path.name)
        self.file_label.setToolTip(str(self._path))
        self.banner.say(f"Reading the headers of {self._path.name}...")
        self._show_body(visible=False)
        self._look(self._chosen.get(self._path), first=True)

    def _look(self, options: OpenOptions | None, *, first: bool) -> None:
        self._request += 1
        create_worker(
            _look_at,
            self._request,
            self._path,
            options,
            first,
            _connect={"returned": self._arrived},
        )

    @guarded
    def _arrived(self, answer: tuple[int, bool, OpenOptions | None, FileReport]) -> None:
        request, first, options, report = answer
        if request != self._request:
            return
        self._report = report
        self.banner.say(report.headline, report.text, tone=report.tone)
        if report.info is not None:
            if first:
                self.form.set_info(report.info)
                if options is not None:
                    self.form.set_options(options)
            else:
                self.form.update_info(report.info)
        if first or report.info is not None:
            self._fill_facts(report)
        self._show_body(visible=True)

    def _show_nothing(self) -> None:
        self.file_label.setText("No file chosen")
        self.banner.say("Choose a 4D-STEM scan, or drop one here")
        self._show_body(visible=False)

    def _show_body(self, *, visible: bool) -> None:
        report = self._report
        has_form = report is not None and report.info is not None
        self.form.setVisible(visible and has_form)
        self._rule.setVisible(visible and has_form)
        self.facts.setVisible(visible)
        self._update_button()

    def _fill_facts(self, report: FileReport) -> None:
        while self.facts_form.rowCount():
            self.facts_form.removeRow(0)
        for label, text, tip in report.facts:
            value = QLabel(text)
            value.setToolTip(tip)
            value.setWordWrap(True)
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self.facts_form.addRow(label, value)

    # -- choices ---------------------------------------------------------------------------

    @guarded
    def _options_changed(self) -> None:
        self._update_button()
        self._check.start()

    @guarded
    def _look_again(self) -> None:
        if self._path is not None:
            self._look(self.form.options(), first=False)

    def _update_button(self) -> None:
        self.open_button.setEnabled(self._report is not None and self._report.ready)

    def _remember(self) -> None:
        if self._path is not None and self._report is not None and self._report.info is not None:
            self._chosen[self._path] = self.form.options()

    # -- opening ---------------------------------------------------------------------------

    @guarded
    def _choose(self) -> None:
        folder = str(self._path.parent) if self._path is not None else str(Path.home())
        name, _ = QFileDialog.getOpenFileName(self, "Open a 4D-STEM scan", folder, _FILTERS)
        if name:
            self.show_info(name)

    @guarded
    def _open(self) -> None:
        if self._path is None or self._report is None:
            return
        from napari_4dstem.sources import OpenOptions

        self._remember()
        source = self._report.info is not None
        self.open_requested.emit(self._path, self.form.options() if source else OpenOptions())

    # -- drop ------------------------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent | None) -> None:
        """Take a file."""
        if event is not None and _dropped_file(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent | None) -> None:
        """Show the file dropped (the first of several)."""
        path = None if event is None else _dropped_file(event)
        if event is not None and path is not None:
            event.acceptProposedAction()
            self.show_info(path)


def _look_at(
    request: int, path: Path, options: OpenOptions | None, first: bool
) -> tuple[int, bool, OpenOptions | None, FileReport]:
    """Work of the thread: the answer carries the number of its request."""
    return request, first, options, report_on(path, options)


def _keywords(options: OpenOptions) -> dict[str, Any]:
    """Choices that differ from the default, as keywords of `napari_4dstem.open`."""
    chosen = ((field, getattr(options, field.name)) for field in fields(options))
    return {field.name: value for field, value in chosen if value != field.default}


def _dropped_file(event: Any) -> Path | None:
    files = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
    return Path(files[0]) if files else None


class LoadDock(LoadPanel):
    """The load panel of a napari window: opens files in the session of its viewer.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    # napari gives a viewer only to a parameter that is annotated with exactly this.
    def __init__(self, viewer: napari.viewer.Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self.open_requested.connect(self._open_in_session)

    @guarded
    def _open_in_session(self, path: Path, options: OpenOptions) -> None:
        from napari_4dstem.plugin import docks
        from napari_4dstem.plugin.sessions import session_for

        try:
            session_for(self._viewer).open(path, **_keywords(options))
        except Exception as error:  # noqa: BLE001 - shown where the user is looking
            shown = error_report(path, error)
            self.banner.say(shown.headline, shown.text, tone=shown.tone)
            return
        self.banner.say(f"Opened {path.name}", tone="good")
        if docks.has_window(self._viewer):
            docks.show_panels(self._viewer)
