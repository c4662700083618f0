"""Presets and chips of the explorer: which virtual detectors there are, and which one is edited."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

from qtpy.QtCore import QSize, Qt
from qtpy.QtGui import QColor, QIcon, QPainter, QPen, QPixmap
from qtpy.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from superqt import QElidingLabel

from napari_4dstem.detectors import Annulus, Circle
from napari_4dstem.plugin.notify import guarded
from napari_4dstem.plugin.session.detector_views import (
    PRESET_COLOURS,
    DetectorView,
    mean_step,
    range_text,
)
from napari_4dstem.plugin.session.session_texts import disk_text

if TYPE_CHECKING:
    from napari_4dstem.plugin.sessions import Session


class DetectorBar(QWidget):
    """Two rows: preset buttons, and a coloured chip for each detector.

    Parameters
    ----------
    session
        Observed and changed.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = weakref.ref(session)
        self.presets = {name: self._preset_button(name) for name in PRESET_COLOURS}
        self.add_button = QPushButton("Add")
        self.add_button.setToolTip("Add a circle or a ring; drag it on the pattern")
        menu = QMenu(self.add_button)
        for text, kind in (("Circle", Circle), ("Annulus", Annulus)):
            menu.addAction(text, functools.partial(self._add, kind.__name__))
        self.add_button.setMenu(menu)
        self.find_button = QPushButton("Find disk")
        self.find_button.setToolTip(
            "Fit the bright-field disk on the mean pattern, and set the presets from it"
        )
        self.find_button.clicked.connect(self._find_disk)
        self.disk = DiskLabel(session)
        self.chips: dict[str, DetectorChip] = {}
        first, self._chip_row = QHBoxLayout(), QHBoxLayout()
        first.addWidget(QLabel("Detectors"))
        for button in (*self.presets.values(), self.add_button, self.find_button):
            first.addWidget(button)
        first.addStretch(1)
        self._chip_row.addSpacing(6)
        self._chip_row.addWidget(self.disk, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        for row in (first, self._chip_row):
            row.setSpacing(3)
            layout.addLayout(row)
        for signal in (
            session.events.detectors,
            session.events.active_detector,
            session.events.disk,
            session.events.acquisition,
        ):
            signal.connect(self.refresh)
        self.refresh()

    def _preset_button(self, name: str) -> QPushButton:
        button = QPushButton(name)
        button.setCheckable(True)
        button.clicked.connect(functools.partial(self._preset_pressed, name))
        return button

    @guarded
    def refresh(self) -> None:
        """Show the session's presets and detectors."""
        session = self._session()
        if session is None:
            return
        for name, button in self.presets.items():
            self._refresh_preset(session, name, button)
        self.add_button.setEnabled(session.acquisition is not None)
        names = [d.name for d in session.detectors]
        if list(self.chips) != names:
            self._rebuild(session.detectors)
        for detector in session.detectors:
            chip = self.chips[detector.name]
            chip.show_detector(detector, active=detector.name == session.active_detector)

    def _refresh_preset(self, session: Session, name: str, button: QPushButton) -> None:
        preset = None if session.view is None else session.view.preset(name)
        shape = None if preset is None else preset.shape
        detector = session.detector(name)
        button.setEnabled(shape is not None)
        button.setChecked(detector is not None and detector.visible and detector.preset)
        if shape is not None and session.acquisition is not None:
            unit, step = session.acquisition.calibration.camera_units()
            button.setToolTip(f"{name}: {range_text(shape, unit, mean_step(step))}")
        elif preset is not None:
            button.setToolTip(f"{name}: {preset.reason}")
        else:
            button.setToolTip(f"{name}: the bright-field disk is not known yet")

    def _rebuild(self, detectors: list[DetectorView]) -> None:
        for chip in self.chips.values():
            self._chip_row.removeWidget(chip)
            chip.setParent(None)
            chip.deleteLater()
        self.chips = {}
        for index, detector in enumerate(detectors):
            chip = self.chips[detector.name] = DetectorChip(detector.name)
            chip.edit.clicked.connect(functools.partial(self._edit, detector.name))
            chip.eye.clicked.connect(functools.partial(self._show, detector.name))
            chip.remove.clicked.connect(functools.partial(self._remove, detector.name))
            self._chip_row.insertWidget(index, chip)

    # -- what is pressed -------------------------------------------------------------------

    @guarded
    def _preset_pressed(self, name: str) -> None:
        session = self._session()
        if session is None:
            return
        detector = session.detector(name)
        if detector is not None and detector.visible and detector.preset:
            session.show_detector(name, False)
        else:
            session.add_preset(name)
        self.refresh()

    @guarded
    def _find_disk(self) -> None:
        session = self._session()
        if session is not None:
            session.find_disk()

    @guarded
    def _edit(self, name: str) -> None:
        session = self._session()
        if session is not None:
            session.activate_detector(name)
            self.refresh()

    @guarded
    def _show(self, name: str) -> None:
        session = self._session()
        if session is not None:
            session.show_detector(name, self.chips[name].eye.isChecked())

    @guarded
    def _remove(self, name: str) -> None:
        session = self._session()
        if session is not None:
            session.remove_detector(name)

    @guarded
    def _add(self, kind: str) -> None:
        session = self._session()
        if session is None or session.view is None:
            return
        rows, columns = session.view.detector_shape
        center = session.origin() or ((rows - 1) / 2, (columns - 1) / 2)
        size = min(rows, columns)
        if kind == "Circle":
            session.add_detector(Circle(center, size / 8))
        else:
            session.add_detector(Annulus(center, size / 8, size / 4))


class DiskLabel(QElidingLabel):
    """What is known of the bright-field disk.

    Parameters
    ----------
    session
        Observed.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = weakref.ref(session)
        for signal in (session.events.disk, session.events.acquisition, session.events.state):
            signal.connect(self.refresh)
        self.refresh()

    @guarded
    def refresh(self) -> None:
        """Show the session's disk."""
        session = self._session()
        view = None if session is None else session.view
        if session is None or view is None or session.acquisition is None:
            self.setText("")
            return
        calibration = session.acquisition.calibration
        text = "Disk " + disk_text(view.disk, calibration, view.disk_problem)
        self.setText(text)
        self.setToolTip(text if view.disk is None else f"{text}\n{view.disk.reason}".strip())


class DetectorChip(QFrame):
    """One detector: its eye, its name in its colour, and a button that removes it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setObjectName("n4-chip")
        self.eye, self.edit, self.remove = QToolButton(), QToolButton(), QToolButton()
        self.eye.setCheckable(True)
        self.eye.setToolTip(f"Show or hide {name}")
        self.eye.setIconSize(QSize(12, 12))
        self.edit.setText(name)
        self.edit.setToolTip(f"Edit {name}: its numbers are shown below")
        self.remove.setText("×")
        self.remove.setToolTip(f"Remove {name}")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(3, 1, 1, 1)
        layout.setSpacing(0)
        for button in (self.eye, self.edit, self.remove):
            button.setAutoRaise(True)
            button.setStyleSheet(
                "QToolButton { border: none; background: transparent; padding: 1px 3px; }"
            )
            layout.addWidget(button)

    def show_detector(self, detector: DetectorView, *, active: bool) -> None:
        """Show colour and visibility, with a thick edge if this is the detector being edited."""
        self.eye.setChecked(detector.visible)
        self.eye.setIcon(swatch(detector.colour, filled=detector.visible))
        edge = f"2px solid {detector.colour}" if active else "1px solid palette(mid)"
        self.setStyleSheet(f"#n4-chip {{ border: {edge}; border-radius: 5px; }}")


def swatch(colour: str, *, filled: bool) -> QIcon:
    """Return a round patch of a colour: filled for shown, a ring for hidden."""
    pixmap = QPixmap(24, 24)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(colour), 3))
    if filled:
        painter.setBrush(QColor(colour))
    painter.drawEllipse(4, 4, 16, 16)
    painter.end()
    return QIcon(pixmap)
