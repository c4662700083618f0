"""How the frames of a file fold into a scan: the choices of the load panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, Qt, Signal
from qtpy.QtGui import QColor, QPalette
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QSpinBox,
    QWidget,
)

from napari_4dstem.plugin.load_panel.load_texts import ScanFit, scan_fit
from napari_4dstem.plugin.real_space_view.colour_tables import readable

if TYPE_CHECKING:
    from napari_4dstem.sources import OpenOptions, SourceInfo

_MOST = 1_000_000
_AMBER = QColor("#e0a030")


class ScanForm(QWidget):
    """Scan shape, frame offset, flyback, channel, and whether to open what there is.

    Parameters
    ----------
    parent
        Qt parent.

    Attributes
    ----------
    changed
        The user chose something else.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._frames = 0
        self._dataset: str | None = None
        self._build()
        self._connect()

    def _build(self) -> None:
        self.rows = _spin(0, _MOST, "Scan rows (the slow direction)")
        self.columns = _spin(0, _MOST, "Scan columns (the fast direction)")
        for box in (self.rows, self.columns):
            box.setSpecialValueText("?")  # 0: not chosen yet
        self.candidates = QComboBox()
        self.candidates.setPlaceholderText("own choice")
        self.candidates.setToolTip("Shapes with the right number of positions")
        self.guessed = QLabel("guessed, please check")
        self.guessed.setToolTip("The file does not say its scan shape; this one fits the frames")
        self.line = QLabel()
        self.line.setWordWrap(True)
        self.offset = _spin(
            -_MOST,
            _MOST,
            "Frames to skip before the first scan position; negative if the first positions "
            "were never recorded",
        )
        self.flyback = _spin(0, _MOST, "Extra frames at the end of each scan row, left out")
        self.channel = QComboBox()
        self.channel.setToolTip("The file holds several images of each position: choose one")
        self.partial = QCheckBox("Open the frames that exist")
        self.partial.setToolTip("Positions without a frame are shown hatched")
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow("Scan rows x columns", _row(self.rows, QLabel("x"), self.columns))
        form.addRow("Shapes that fit", self.candidates)
        form.addRow("", self.guessed)
        form.addRow(self.line)
        form.addRow("Frame offset", self.offset)
        form.addRow("Flyback frames a row", self.flyback)
        form.addRow("Channel", self.channel)
        form.addRow(self.partial)
        self._form = form

    def _connect(self) -> None:
        for box in (self.rows, self.columns):
            box.valueChanged.connect(self._shape_edited)
        for box in (self.offset, self.flyback):
            box.valueChanged.connect(self._edited)
        self.candidates.activated.connect(self._candidate_chosen)
        self.channel.activated.connect(self._edited)
        self.partial.toggled.connect(self._edited)

    # -- from the file ---------------------------------------------------------------------

    def set_info(self, info: SourceInfo) -> None:
        """Show what a file says: its shape (or a guess), candidates, channels."""
        self.blockSignals(True)
        rows, columns = info.scan_shape or (0, 0)
        self.rows.setValue(rows)
        self.columns.setValue(columns)
        self.offset.setValue(0)
        self.flyback.setValue(0)
        self.partial.setChecked(False)
        self._dataset = None
        self.channel.clear()
        self.channel.addItems(list(info.channels))
        self._form.setRowVisible(self.channel, len(info.channels) > 1)
        self._form.setRowVisible(self.guessed, info.scan_shape_guessed)
        self.blockSignals(False)
        self.update_info(info)

    def update_info(self, info: SourceInfo) -> None:
        """Take over what depends on the choices made: which frames and what may be opened."""
        self._frames = info.frames_found
        self._fill_candidates(info)
        # once ticked it must stay within reach, though the file counts as ready then
        offered = info.partial_possible and not info.ready
        possible = offered or self.partial.isChecked()
        self._form.setRowVisible(self.partial, possible)
        self._refresh()

    def _fill_candidates(self, info: SourceInfo) -> None:
        self.candidates.clear()
        for shape in info.scan_shape_candidates:
            guess = info.scan_shape_guessed and shape == info.scan_shape
            self.candidates.addItem(
                "{} x {}".format(*shape) + ("  (guessed)" if guess else ""), shape
            )
        self._form.setRowVisible(self.candidates, self.candidates.count() > 0)

    # -- choices ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int] | None:
        """Chosen scan rows and columns; None while one of them is 0."""
        rows, columns = self.rows.value(), self.columns.value()
        return (rows, columns) if rows and columns else None

    @property
    def fit(self) -> ScanFit:
        """Whether the chosen shape fits the frames."""
        return scan_fit(
            self.shape or (0, 0),
            self._frames,
            offset=self.offset.value(),
            flyback=self.flyback.value(),
        )

    def options(self) -> OpenOptions:
        """Everything chosen, for opening."""
        from napari_4dstem.sources import OpenOptions

        return OpenOptions(
            scan_shape=self.shape,
            frame_offset=self.offset.value(),
            flyback=self.flyback.value(),
            partial=self.partial.isChecked(),
            dataset=self._dataset,
            channel=self.channel.currentIndex() if self.channel.count() > 1 else None,
        )

    def set_options(self, options: OpenOptions) -> None:
        """Show choices made earlier."""
        self.blockSignals(True)
        if options.scan_shape is not None:
            self.rows.setValue(options.scan_shape[0])
            self.columns.setValue(options.scan_shape[1])
        self.offset.setValue(options.frame_offset)
        self.flyback.setValue(options.flyback)
        self._form.setRowVisible(self.partial, options.partial or self.partial.isVisibleTo(self))
        self.partial.setChecked(options.partial)
        self._dataset = options.dataset
        if options.channel is not None:
            self.channel.setCurrentIndex(options.channel)
        self.blockSignals(False)
        self._refresh()

    def _shape_edited(self) -> None:
        self._form.setRowVisible(self.guessed, False)  # now it is the user's choice
        self._edited()

    def _candidate_chosen(self, index: int) -> None:
        rows, columns = self.candidates.itemData(index)
        self._form.setRowVisible(self.guessed, False)
        # one change, one signal: the pair (new rows, old columns) is nobody's choice
        self.blockSignals(True)
        self.rows.setValue(rows)
        self.columns.setValue(columns)
        self.blockSignals(False)
        self._edited()

    def _edited(self) -> None:
        self._refresh()
        self.changed.emit()

    def changeEvent(self, event: QEvent | None) -> None:
        """Follow a new theme."""
        super().changeEvent(event)
        kinds = (QEvent.Type.PaletteChange, QEvent.Type.StyleChange)
        if event is not None and event.type() in kinds and hasattr(self, "_form"):
            self._apply_theme()

    def _refresh(self) -> None:
        shape = self.shape
        shapes = [self.candidates.itemData(i) for i in range(self.candidates.count())]
        self.candidates.setCurrentIndex(shapes.index(shape) if shape in shapes else -1)
        self.line.setText(self.fit.text)
        self._apply_theme()

    def _apply_theme(self) -> None:
        palette = self.palette()
        ink = palette.color(QPalette.ColorRole.WindowText).name()
        amber = readable(_AMBER, palette.color(QPalette.ColorRole.Window)).name()
        self.line.setStyleSheet(f"color: {ink if self.fit.verdict == 'fits' else amber};")
        self.guessed.setStyleSheet(f"color: {amber}; font-weight: 600;")


def _spin(low: int, high: int, tip: str) -> QSpinBox:
    box = QSpinBox()
    box.setRange(low, high)
    box.setToolTip(tip)
    box.setAlignment(Qt.AlignmentFlag.AlignRight)
    # every digit typed would be a choice of its own: wait for the end of the typing
    box.setKeyboardTracking(False)
    return box


def _row(*widgets: QWidget) -> QWidget:
    holder = QWidget()
    layout = QHBoxLayout(holder)
    layout.setContentsMargins(0, 0, 0, 0)
    for widget in widgets:
        layout.addWidget(widget, 0 if isinstance(widget, QLabel) else 1)
    return holder
