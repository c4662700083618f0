"""A real-space image: a virtual-detector image over the scan, with its crosshair and levels.

A plain Qt widget that knows neither napari nor an acquisition: it is given values and tells where
the user points. Several may stand side by side, linked by their cursors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import QEvent, QRectF, QSize, Signal
from qtpy.QtGui import QColor, QIcon, QImage, QPalette, QPixmap
from qtpy.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from napari_4dstem.errors import UsageError
from napari_4dstem.plugin.colour_tables import (
    DISPLAY_SCALES,
    IMAGE_COLORMAPS,
    TABLE_SIZE,
    DisplayScale,
    colour_table,
    readable,
)
from napari_4dstem.plugin.levels import robust_levels, sample_values
from napari_4dstem.plugin.levels_bar import LevelsBar
from napari_4dstem.plugin.number_text import grouped, value_text
from napari_4dstem.plugin.raster_canvas import RasterCanvas

LevelsMode = Literal["auto", "kept"]
_AMBER = QColor("#e0a030")


class RealSpaceView(QWidget):
    """Shows one image of the scan.

    Parameters
    ----------
    parent
        Qt parent.

    Attributes
    ----------
    cursor_moved
        Scan row and column the user moved the crosshair to (click, drag, or hover with Alt).
    readout_changed
        One line about the position under the pointer, or under the crosshair.
    levels_changed
        Low and high level in use, whenever they change.
    view_changed
        Part of the image that is seen after the user zoomed or panned, in physical units.
    """

    cursor_moved = Signal(int, int)
    readout_changed = Signal(str)
    levels_changed = Signal(float, float)
    view_changed = Signal(QRectF)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._values: NDArray[np.generic] | None = None
        self._valid: NDArray[np.bool_] | None = None
        self._overloads: NDArray[np.generic] | None = None
        self._step: tuple[float, float] | None = None
        self._unit = "px"
        self._value_unit = "counts"
        self._levels = (0.0, 1.0)
        self._mode: LevelsMode = "auto"
        self._colormap = "gray"
        self._scale: DisplayScale = "linear"
        self._cursor: tuple[int, int] | None = None
        self._pointer: tuple[int, int] | None = None
        self._colour: QColor | None = None
        self._build()
        self._connect()
        self.set_message("No image yet")

    def _build(self) -> None:
        self.title = QLabel()
        self.detail = QLabel()
        self.detail.setWordWrap(True)
        self.badge = QLabel()
        self.badge.setVisible(False)
        self.canvas = RasterCanvas()
        self.levels_bar = LevelsBar()
        self.colormap_box = _combo("Colour map", IMAGE_COLORMAPS)
        for index, name in enumerate(IMAGE_COLORMAPS):
            self.colormap_box.setItemIcon(index, _ramp_icon(name))
        self.colormap_box.setIconSize(QSize(28, 10))
        self.scale_box = _combo("How values between the levels are spread", DISPLAY_SCALES)
        self.auto_button = QPushButton("Auto")
        self.auto_button.setCheckable(True)
        self.auto_button.setChecked(True)
        self.auto_button.setToolTip("On: each new image sets its own levels. Off: levels are kept")
        header, controls = QHBoxLayout(), QHBoxLayout()
        header.addWidget(self.title, 1)
        header.addWidget(self.badge)
        for box in (self.colormap_box, self.scale_box, self.auto_button):
            controls.addWidget(box)
        controls.setSpacing(4)
        self.controls = QWidget()
        stack = QVBoxLayout(self.controls)
        stack.setContentsMargins(0, 0, 0, 0)
        stack.setSpacing(2)
        stack.addWidget(self.levels_bar)
        stack.addLayout(controls)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 4, 4, 2)
        layout.setSpacing(3)
        layout.addLayout(header)
        layout.addWidget(self.detail)
        layout.addWidget(self.canvas, 1)
        layout.addWidget(self.controls)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def _connect(self) -> None:
        self.canvas.picked.connect(self._pick)
        self.canvas.hovered.connect(self._hover)
        self.canvas.pointer_left.connect(self._leave)
        self.canvas.view_changed.connect(self.view_changed)
        self.levels_bar.levels_changed.connect(self.set_levels)
        self.levels_bar.auto_requested.connect(lambda: self.set_levels_mode("auto"))
        self.auto_button.clicked.connect(
            lambda checked: self.set_levels_mode("auto" if checked else "kept")
        )
        self.colormap_box.currentTextChanged.connect(self.set_colormap)
        self.scale_box.currentTextChanged.connect(self.set_display_scale)

    # -- image -----------------------------------------------------------------------------

    def set_image(
        self,
        values: NDArray[np.generic],
        *,
        valid: NDArray[np.bool_] | None = None,
        overloaded: NDArray[np.generic] | None = None,
        step: tuple[float, float] | None = None,
        unit: str = "nm",
        value_unit: str = "counts",
    ) -> None:
        """Show an image; the array is kept until the next one and must not be changed.

        Parameters
        ----------
        values
            Shape (scan rows, scan columns), any real dtype. NaN is shown like a missing position.
        valid
            bool, same shape; False where nothing was recorded. None: everything was.
        overloaded
            Same shape: number of overloaded pixels a position (or bool). Positions above 0 are
            marked.
        step
            Distance of neighbouring scan rows and columns in `unit`; None if unknown, the image
            is then measured in pixels.
        unit
            Unit of `step`.
        value_unit
            What the values count, for the read-out.
        """
        values = np.asarray(values)
        if values.ndim != 2 or values.size == 0:
            raise UsageError("An image needs two axes", found=f"shape {values.shape}")
        for other in (valid, overloaded):
            if other is not None and other.shape != values.shape:
                raise UsageError(
                    "A mask must have the shape of its image",
                    expected=str(values.shape),
                    found=str(other.shape),
                )
        self._values, self._valid, self._overloads = values, valid, overloaded
        self._step, self._unit = step, unit if step is not None else "px"
        self._value_unit = value_unit
        sample = sample_values(values, valid)
        if self._mode == "auto":
            self._use_levels(robust_levels(sample))
        self._draw()
        self.levels_bar.set_values(sample, self._levels)
        self._tell()

    def set_message(self, text: str) -> None:
        """Show a line of text instead of an image, for instance why there is none."""
        self._values = self._valid = self._overloads = None
        self.canvas.set_message(text)
        self.badge.setVisible(False)
        self._tell()

    def _draw(self) -> None:
        if self._values is None:
            return
        pixels, holes = _colours(
            self._values, self._valid, self._levels, colour_table(self._colormap, self._scale)
        )
        marks = None if self._overloads is None else self._overloads > np.array(0)
        self.canvas.set_marks(marks, holes=holes)
        self.canvas.set_pixels(pixels, self._step or (1.0, 1.0), self._unit)

    # -- title and badge -------------------------------------------------------------------

    def set_title(self, name: str, detail: str = "", colour: str | QColor | None = None) -> None:
        """Write name and range in the colour of their detector (made readable on the theme).

        Parameters
        ----------
        name
            Short: ``"BF"``.
        detail
            Second line: radii, in pixels and in mrad.
        colour
            The detector's colour; None is the colour of text.
        """
        new_colour = None if colour is None else QColor(colour)
        if (name, detail, new_colour) == (self.title.text(), self.detail.text(), self._colour):
            return
        self._colour = new_colour
        self.title.setText(name)
        self.detail.setText(detail)
        self.detail.setVisible(bool(detail))
        self._apply_theme()

    def set_badge(self, text: str) -> None:
        """Say how final the image is: ``"exact"``, ``"coarse 124 of 1024"``; empty hides it."""
        if text != self.badge.text():
            self.badge.setText(text)
            self._apply_theme()
        self.badge.setVisible(bool(text))

    def _apply_theme(self) -> None:
        palette = self.palette()
        background = palette.color(QPalette.ColorRole.Window)
        ink = palette.color(QPalette.ColorRole.WindowText)
        colour = ink if self._colour is None else readable(self._colour, background)
        self.title.setStyleSheet(f"color: {colour.name()}; font-weight: 600;")
        self.detail.setStyleSheet(f"color: {colour.name()};")
        final = self.badge.text().startswith("exact")
        tone = ink if final else readable(_AMBER, background)
        self.badge.setStyleSheet(
            f"color: {tone.name()}; border: 1px solid {tone.name()}; border-radius: 6px;"
            "padding: 0px 5px;"
        )

    def changeEvent(self, event: QEvent | None) -> None:
        """Follow a new theme."""
        super().changeEvent(event)
        kinds = (QEvent.Type.PaletteChange, QEvent.Type.StyleChange)
        if event is not None and event.type() in kinds and hasattr(self, "badge"):
            self._apply_theme()

    # -- levels and colours ----------------------------------------------------------------

    @property
    def levels(self) -> tuple[float, float]:
        """Values drawn with the first and the last colour."""
        return self._levels

    @property
    def levels_mode(self) -> LevelsMode:
        """``"auto"``: each image sets its levels; ``"kept"``: they stay."""
        return self._mode

    def set_levels(self, low: float, high: float) -> None:
        """Set both levels and keep them from now on."""
        if not high > low:
            raise UsageError("The high level must be above the low one", found=f"{low} and {high}")
        self._set_mode("kept")
        self._use_levels((float(low), float(high)))
        self._draw()
        self.levels_bar.set_levels(self._levels)

    def auto_levels(self) -> None:
        """Set the levels from the image shown now, whichever mode is chosen."""
        if self._values is None:
            return
        sample = sample_values(self._values, self._valid)
        self._use_levels(robust_levels(sample))
        self._draw()
        self.levels_bar.set_values(sample, self._levels)

    def set_levels_mode(self, mode: LevelsMode) -> None:
        """Choose whether each new image sets its own levels, or they are kept."""
        self._set_mode(mode)
        if mode == "auto":
            self.auto_levels()

    def _set_mode(self, mode: LevelsMode) -> None:
        self._mode = mode
        self.auto_button.setChecked(mode == "auto")

    def _use_levels(self, levels: tuple[float, float]) -> None:
        if levels != self._levels:
            self._levels = levels
            self.levels_changed.emit(*levels)

    @property
    def colormap(self) -> str:
        """Name of the colour map."""
        return self._colormap

    def set_colormap(self, name: str) -> None:
        """Use a colour map by its ``cmap`` name; one that is not in the list joins it."""
        table = colour_table(name, self._scale)
        self._colormap = name
        if self.colormap_box.findText(name) < 0:
            self.colormap_box.addItem(_ramp_icon(name), name)
        self.colormap_box.setCurrentText(name)
        self.levels_bar.set_table(table)
        self._draw()

    def set_display_scale(self, scale: DisplayScale) -> None:
        """Spread values between the levels linearly, by square root, or by logarithm."""
        self.levels_bar.set_table(colour_table(self._colormap, scale))
        self._scale = scale
        self.scale_box.setCurrentText(scale)
        self._draw()

    # -- cursor and read-out ---------------------------------------------------------------

    @property
    def cursor_position(self) -> tuple[int, int] | None:
        """Scan row and column of the crosshair."""
        return self._cursor

    def set_cursor(self, row: int, column: int) -> None:
        """Put the crosshair on a scan position; emits no ``cursor_moved``."""
        self._cursor = (int(row), int(column))
        self.canvas.set_cursor(self._cursor)
        self._tell()

    def readout(self, row: int, column: int) -> str:
        """One line about a scan position: place, value, and what is wrong with it."""
        parts = [f"scan ({row}, {column})"]
        if self._step is not None:
            places = (f"{i * s:.4g}" for i, s in zip((row, column), self._step, strict=True))
            parts.append(f"{', '.join(places)} {self._unit}")
        if self._values is not None:
            value = self._values[row, column]
            recorded = self._valid is None or bool(self._valid[row, column])
            text = f"{value_text(float(value))} {self._value_unit}".rstrip()
            parts.append(text if recorded else "not recorded")
            over = 0 if self._overloads is None else int(self._overloads[row, column])
            if over:
                many = "" if self._overloads.dtype == np.bool_ else f"{grouped(over)} "
                parts.append(f"{many}overloaded pixel{'' if many and over == 1 else 's'}")
        return " · ".join(parts)

    def _tell(self) -> None:
        place = self._pointer or self._cursor
        if place is None or self._values is None or not self._inside(*place):
            self.readout_changed.emit("")
        else:
            self.readout_changed.emit(self.readout(*place))

    def _inside(self, row: int, column: int) -> bool:
        if self._values is None:
            return False
        rows, columns = self._values.shape
        return 0 <= row < rows and 0 <= column < columns

    def _pick(self, row: float, column: float) -> None:
        if self._values is None:
            return
        # a drag beyond the edge keeps the crosshair on the edge
        limits = zip((row, column), self._values.shape, strict=True)
        place = tuple(min(max(round(x), 0), n - 1) for x, n in limits)
        self._pointer = None
        if place != self._cursor:
            self.set_cursor(*place)
            self.cursor_moved.emit(*place)
        else:
            self._tell()

    def _hover(self, row: float, column: float) -> None:
        place = (round(row), round(column))
        self._pointer = place if self._inside(*place) else None
        self._tell()

    def _leave(self) -> None:
        self._pointer = None
        self._tell()


def link_views(views: Sequence[RealSpaceView]) -> None:
    """Move crosshair, zoom and pan of several views together.

    Parameters
    ----------
    views
        Views of the same scan. Their parents keep them alive, the links do not.
    """
    for view in views:
        for other in views:
            if other is not view:
                view.cursor_moved.connect(other.set_cursor)
                view.view_changed.connect(other.canvas.show_rect)


def _colours(
    values: NDArray[np.generic],
    valid: NDArray[np.bool_] | None,
    levels: tuple[float, float],
    table: NDArray[np.uint32],
) -> tuple[NDArray[np.uint8], bool]:
    """RGBA pixels of an image, transparent where there is no value; and whether any is."""
    place = np.subtract(values, levels[0], dtype=np.float64)
    place *= (TABLE_SIZE - 1) / (levels[1] - levels[0])
    np.clip(place, 0, TABLE_SIZE - 1, out=place)
    missing = None if valid is None or valid.all() else ~valid
    if values.dtype.kind == "f":
        unknown = np.isnan(place)
        if unknown.any():
            place[unknown] = 0
            missing = unknown if missing is None else missing | unknown
    colours = table[place.astype(np.uint16)]
    if missing is not None:
        colours[missing] = 0
    return colours.view(np.uint8).reshape(*values.shape, 4), missing is not None


def _combo(tip: str, names: Sequence[str]) -> QComboBox:
    box = QComboBox()
    box.addItems(list(names))
    box.setToolTip(tip)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    return box


def _ramp_icon(name: str) -> QIcon:
    table = colour_table(name)
    row = np.ascontiguousarray(np.tile(table[:: TABLE_SIZE // 64], (10, 1)))
    image = QImage(row.tobytes(), row.shape[1], 10, 4 * row.shape[1], QImage.Format.Format_RGBA8888)
    return QIcon(QPixmap.fromImage(image))
