"""Numbers of the detector being edited: centre and radii, typed in pixels or in mrad."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from qtpy.QtWidgets import QDoubleSpinBox, QGridLayout, QLabel, QWidget
from superqt import QElidingLabel

from napari_4dstem.plugin.notify import guarded
from napari_4dstem.plugin.session.detector_views import (
    DetectorView,
    center_of,
    coverage_texts,
    mean_step,
    radii,
    round_shape,
)

if TYPE_CHECKING:
    from napari_4dstem.plugin.sessions import Session


class DetectorForm(QWidget):
    """Centre row and column, inner and outer radius; radii also in the camera's unit.

    Parameters
    ----------
    session
        Its active detector is shown and changed.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = weakref.ref(session)
        self._busy = False
        self.name = QLabel()
        self.row, self.column = _number(), _number()
        self.inner, self.outer = _number(0.0), _number(0.0)
        self.inner_angle, self.outer_angle = _number(0.0), _number(0.0)
        self.notes = (QElidingLabel(), QElidingLabel())
        self._lay_out()
        for box in (self.row, self.column, self.inner, self.outer):
            box.setSuffix(" px")
            box.valueChanged.connect(self._pixels_typed)
        for box in (self.inner_angle, self.outer_angle):
            box.valueChanged.connect(self._angles_typed)
        for signal in (
            session.events.detectors,
            session.events.active_detector,
            session.events.acquisition,
        ):
            signal.connect(self.refresh)
        self.refresh()

    def _lay_out(self) -> None:
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.name, 0, 0)
        columns = (
            ("row", self.row, "col", self.column),
            ("inner", self.inner, "", self.inner_angle),
            ("outer", self.outer, "", self.outer_angle),
        )
        for column, (above, first, below, second) in enumerate(columns):
            for line, (text, box) in enumerate(((above, first), (below, second))):
                layout.addWidget(QLabel(text), line, 1 + 2 * column)
                layout.addWidget(box, line, 2 + 2 * column)
        for line, note in enumerate(self.notes):
            layout.addWidget(note, line, 7)
        layout.setColumnStretch(7, 1)
        self.row.setToolTip("Row of the centre in camera pixels; pixel 0 is centred at 0")
        self.column.setToolTip("Column of the centre in camera pixels; pixel 0 is centred at 0")
        self.inner.setToolTip("Inner radius in camera pixels; 0 makes a circle")
        self.inner_angle.setToolTip("Inner collection angle")
        self.outer.setToolTip("Outer radius in camera pixels")
        self.outer_angle.setToolTip("Outer collection angle")

    @guarded
    def refresh(self) -> None:
        """Show the active detector."""
        session = self._session()
        detector = None if session is None else session.detector(session.active_detector or "")
        both = None if detector is None else radii(detector.shape)
        self.setEnabled(both is not None)
        if session is None or detector is None or session.acquisition is None or both is None:
            return
        center = center_of(detector.shape)
        if center is None:
            return
        unit, step = session.acquisition.calibration.camera_units()
        self._busy = True
        try:
            self._show(detector, center, both, unit, mean_step(step))
        finally:
            self._busy = False

    def _show(
        self,
        detector: DetectorView,
        center: tuple[float, float],
        both: tuple[float, float],
        unit: str,
        step: float,
    ) -> None:
        self.name.setText(detector.name)
        self.name.setStyleSheet(f"color: {detector.colour}; font-weight: 600;")
        boxes = (self.row, self.column, self.inner, self.outer)
        for box, value in zip(boxes, (*center, *both), strict=True):
            _set(box, value)
        for box, value in zip((self.inner_angle, self.outer_angle), both, strict=True):
            box.setVisible(unit != "px")
            box.setSuffix(f" {unit}")
            _set(box, value * step)
        session = self._session()
        view = None if session is None else session.view
        acquisition = None if session is None else session.acquisition
        if view is not None and acquisition is not None:
            texts = coverage_texts(detector.shape, view.detector_shape, acquisition.mask)
            for note, text in zip(self.notes, texts, strict=True):
                note.setText(text)
                note.setToolTip(f"On the camera: {texts[0]}; {texts[1]}")

    # -- what is typed ---------------------------------------------------------------------

    @guarded
    def _pixels_typed(self) -> None:
        self._apply(self.inner.value, self.outer.value)

    @guarded
    def _angles_typed(self) -> None:
        session = self._session()
        if session is None or session.acquisition is None:
            return
        step = mean_step(session.acquisition.calibration.camera_units()[1])
        self._apply(
            lambda: self.inner_angle.value() / step, lambda: self.outer_angle.value() / step
        )

    def _apply(self, inner: Callable[[], float], outer: Callable[[], float]) -> None:
        session = self._session()
        if self._busy or session is None or session.active_detector is None:
            return
        center = (self.row.value(), self.column.value())
        session.set_shape(session.active_detector, round_shape(center, inner(), outer()))


def _number(lowest: float = -1e4) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setRange(lowest, 1e5)
    box.setDecimals(2)
    box.setSingleStep(0.5)
    box.setKeyboardTracking(False)
    # the arrow keys and the wheel step; napari's large buttons would hide the digits
    box.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
    digits = box.fontMetrics().horizontalAdvance("0000.00 mrad")
    box.setFixedWidth(digits)
    return box


def _set(box: QDoubleSpinBox, value: float) -> None:
    if not math.isclose(box.value(), value, abs_tol=0.005):
        box.setValue(value)
