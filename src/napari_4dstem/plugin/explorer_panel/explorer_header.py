"""Top of the explorer: which scan, how it is calibrated, and how far encoding is."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from qtpy.QtWidgets import QComboBox, QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget
from superqt import QElidingLabel

from napari_4dstem.plugin.notify import guarded
from napari_4dstem.plugin.real_space_view.number_text import grouped
from napari_4dstem.plugin.session.session_texts import calibration_line, origins_text, shape_line

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.calibration import Calibration
    from napari_4dstem.plugin.sessions import Session


class ExplorerHeader(QWidget):
    """Names the active acquisition and offers what its state allows.

    Parameters
    ----------
    session
        Observed through its events.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = weakref.ref(session)
        self.title, self.facts = QElidingLabel(), QElidingLabel()
        self.title.setStyleSheet("font-weight: 600;")
        # Bold underscores reach below what the label takes by itself.
        self.title.setMinimumHeight(self.title.fontMetrics().height() + 6)
        self.stage = QElidingLabel()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setMaximumHeight(10)
        self.button = QPushButton("Cancel")
        self.progress_row = QWidget()
        row = QHBoxLayout(self.progress_row)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.stage, 1)
        row.addWidget(self.bar, 1)
        row.addWidget(self.button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        self.accept = QPushButton()
        facts_row = QHBoxLayout()
        facts_row.addWidget(self.facts, 1)
        facts_row.addWidget(self.accept)
        self.choice = QComboBox()
        self.choice.setToolTip("The scan that is shown")
        title_row = QHBoxLayout()
        title_row.addWidget(self.choice)
        title_row.addWidget(self.title, 1)
        layout.addLayout(title_row)
        layout.addLayout(facts_row)
        layout.addWidget(self.progress_row)
        self.accept.clicked.connect(self._accept_camera_step)
        self.button.clicked.connect(self._pressed)
        self.choice.currentIndexChanged.connect(self._chosen)
        events = session.events
        for signal in (events.acquisition, events.acquisitions, events.state, events.progress):
            signal.connect(self.update_texts)
        self.update_texts()

    @guarded
    def update_texts(self) -> None:
        """Show the active acquisition as it is now."""
        session = self._session()
        acquisition = None if session is None else session.acquisition
        self.progress_row.setVisible(False)
        if session is None or acquisition is None:
            self.title.setText("No acquisition is open")
            self.facts.setText("Drop a scan_master.h5 or .ans4d file on the window")
            self.accept.setVisible(False)
            self.choice.setVisible(False)
            return
        name = "" if len(session.acquisitions) > 1 else f"{acquisition.name} · "
        self.title.setText(name + shape_line(acquisition))
        self.title.setToolTip(str(acquisition.path))
        self._show_choice(session)
        self.facts.setText(calibration_line(acquisition))
        self.facts.setToolTip(origins_text(acquisition))
        self._show_suggestion(acquisition.calibration)
        self._show_progress(acquisition)

    def _show_choice(self, session: Session) -> None:
        """Offer the other acquisitions, if there are any."""
        self.choice.setVisible(len(session.acquisitions) > 1)
        self.choice.blockSignals(True)  # filling the list is no choice of the user
        self.choice.clear()
        for one in session.acquisitions:
            self.choice.addItem(one.name)
        if session.acquisition is not None:
            self.choice.setCurrentIndex(session.acquisitions.index(session.acquisition))
        self.choice.blockSignals(False)

    @guarded
    def _chosen(self, index: int) -> None:
        session = self._session()
        if session is not None and 0 <= index < len(session.acquisitions):
            session.activate(session.acquisitions[index])

    def _show_suggestion(self, calibration: Calibration) -> None:
        suggested = calibration.suggested_camera_step
        self.accept.setVisible(calibration.camera_step is None and suggested is not None)
        if suggested is not None:
            self.accept.setText(f"Use {suggested[0].text}/px")
            self.accept.setToolTip(
                "Pixel size / nominal camera length of the file. It may be far off: the "
                "bright-field disk should come out as the semi-angle of the probe."
            )

    def _show_progress(self, acquisition: Acquisition) -> None:
        progress, state = acquisition.progress, acquisition.state
        if state == "encoded" and acquisition.ready:
            return
        self.progress_row.setVisible(True)
        self.bar.setVisible(progress.running)
        self.button.setVisible(state != "encoded")
        total = progress.total or acquisition.scan_shape[0] * acquisition.scan_shape[1]
        count = f"{grouped(progress.done)} of {grouped(total)} positions"
        if state == "encoded":
            self.stage.setText("Preparing the decoder (once for this version)...")
        elif state == "released":
            self.stage.setText(f"Unloaded · reloading needs {acquisition.reload_cost}")
            self._offer("Reload", "Read the scan again", enabled=acquisition.can_reload)
        elif progress.running:
            self.bar.setRange(0, total)
            self.bar.setValue(progress.done)
            stage = progress.stage.capitalize() or "Working"
            self.stage.setText(f"{stage} {count}" if progress.done else f"{stage}...")
            self._offer("Cancel", "Stop encoding; patterns still come from the file")
        else:
            self.stage.setText("Not in memory: patterns come from the file")
            self._offer("Encode", "Read the whole scan into memory, losslessly compressed")

    def _offer(self, text: str, tip: str, *, enabled: bool = True) -> None:
        self.button.setText(text)
        self.button.setToolTip(tip)
        self.button.setEnabled(enabled)

    @guarded
    def _accept_camera_step(self) -> None:
        session = self._session()
        acquisition = None if session is None else session.acquisition
        if acquisition is not None:
            known = acquisition.calibration
            step = known.suggested_camera_step
            acquisition.calibration = known.model_copy(update={"camera_step": step})

    @guarded
    def _pressed(self) -> None:
        session = self._session()
        acquisition = None if session is None else session.acquisition
        if session is None or acquisition is None:
            return
        if acquisition.state == "released":
            session.reload()
        elif acquisition.progress.running:
            session.cancel()
        else:
            acquisition.encode(wait=False)
