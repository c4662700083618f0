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
from napari_4dstem.plugin.real_space_view.colour_tables import (
    DISPLAY_SCALES,
    IMAGE_COLORMAPS,
    TABLE_SIZE,
    DisplayScale,
    colour_table,
    readable,
)
from napari_4dstem.plugin.real_space_view.levels import robust_levels, sample_values
from napari_4dstem.plugin.real_space_view.levels_bar import LevelsBar
from napari_4dstem.plugin.real_space_view.raster_canvas import RasterCanvas
from napari_4dstem.plugin.real_space_view.scan_image import ScanImage

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
        self._image: ScanImage | None = None
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
        self.colormap_box.setIconSize(QSize(12, 10))
        self.scale_box = _combo("How values between the levels are spread", DISPLAY_SCALES)
        self.auto_button = QPushButton("Auto")
        self.auto_button.setCheckable(True)
        self.auto_button.setChecked(True)
        self.auto_button.setToolTip("On: each new image sets its own levels. Off: levels are kept")
        header, levels, colours = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        header.addWidget(self.title, 1)
        header.addWidget(self.badge)
        levels.addWidget(self.levels_bar, 1)
        levels.addWidget(self.auto_button)
        colours.addWidget(self.colormap_box, 1)
        colours.addWidget(self.scale_box)
        self.controls = QWidget()
        stack = QVBoxLayout(self.controls)
        stack.setContentsMargins(0, 0, 0, 0)
        stack.setSpacing(2)
        for row in (levels, colours):
            row.setSpacing(4)
            stack.addLayout(row)
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
        self._image = ScanImage(np.asarray(values), valid, overloaded, step, unit, value_unit)
        sample = sample_values(self._image.values, valid)
        if self._mode == "auto":
            self._use_levels(robust_levels(sample))
        self._draw()
        self.levels_bar.set_values(sample, self._levels)
        self._tell()

    def set_message(self, text: str) -> None:
        """Show a line of text instead of an image, for instance why there is none."""
        self._image = None
        self.canvas.set_message(text)
        self.badge.setVisible(False)
        self._tell()

    def _draw(self) -> None:
        image = self._image
        if image is None:
            return
        pixels, holes = image.pixels(self._levels, colour_table(self._colormap, self._scale))
        self.canvas.set_marks(image.marks(), holes=holes)
        known = image.step is not None
        self.canvas.set_pixels(pixels, image.step or (1.0, 1.0), image.unit if known else "px")

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
        if self._image is None:
            return
        sample = sample_values(self._image.values, self._image.valid)
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
        """One line about a scan position of the image shown; empty outside it."""
        image = self._image
        return image.readout(row, column) if image and image.contains(row, column) else ""

    def _tell(self) -> None:
        place = self._pointer or self._cursor
        self.readout_changed.emit("" if place is None else self.readout(*place))

    def _pick(self, row: float, column: float) -> None:
        if self._image is None:
            return
        # a drag beyond the edge keeps the crosshair on the edge
        limits = zip((row, column), self._image.values.shape, strict=True)
        place = tuple(min(max(round(x), 0), n - 1) for x, n in limits)
        self._pointer = None
        if place != self._cursor:
            self.set_cursor(*place)
            self.cursor_moved.emit(*place)
        else:
            self._tell()

    def _hover(self, row: float, column: float) -> None:
        place = (round(row), round(column))
        inside = self._image is not None and self._image.contains(*place)
        self._pointer = place if inside else None
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
