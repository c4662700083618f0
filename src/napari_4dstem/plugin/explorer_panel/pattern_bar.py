"""Choices of the explorer about the pattern on the canvas: which one, and on what scale."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from qtpy.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QWidget

from napari_4dstem.plugin.notify import guarded

if TYPE_CHECKING:
    from napari_4dstem.plugin.sessions import PatternMode, PatternScale, Session

_MODES = {
    "cursor": ("Cursor", "The pattern at the crosshair"),
    "mean": ("Mean", "The mean of all patterns read so far"),
    "maximum": ("Maximum", "The largest count of each pixel so far: finds faint spots"),
}
_SCALES = {
    "linear": ("Linear", "Brightness follows counts"),
    "sqrt": ("Sqrt", "Brightness follows the square root of counts"),
    "log": ("Log", "Brightness follows log(1 + counts)"),
}


class PatternBar(QWidget):
    """One row: Cursor | Mean | Maximum, and Linear | Sqrt | Log.

    Parameters
    ----------
    session
        Observed and changed.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = weakref.ref(session)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(QLabel("Pattern"))
        self.modes = self._group(layout, _MODES, self._mode_chosen)
        layout.addSpacing(12)
        layout.addWidget(QLabel("Display"))
        self.scales = self._group(layout, _SCALES, self._scale_chosen)
        layout.addStretch(1)
        session.events.pattern_mode.connect(self.refresh)
        session.events.pattern_scale.connect(self.refresh)
        self.refresh()

    def _group(
        self, layout: QHBoxLayout, choices: dict[str, tuple[str, str]], slot: Callable[..., object]
    ) -> dict[str, QPushButton]:
        group = QButtonGroup(self)
        buttons = {}
        for name, (text, tip) in choices.items():
            button = buttons[name] = QPushButton(text)
            button.setCheckable(True)
            button.setToolTip(tip)
            button.setProperty("n4-choice", name)
            group.addButton(button)
            layout.addWidget(button)
        group.buttonClicked.connect(slot)
        return buttons

    @guarded
    def refresh(self) -> None:
        """Show the session's choices."""
        session = self._session()
        if session is not None:
            self.modes[session.pattern_mode].setChecked(True)
            self.scales[session.pattern_scale].setChecked(True)

    @guarded
    def _mode_chosen(self, button: QPushButton) -> None:
        session = self._session()
        if session is not None:
            session.pattern_mode = cast("PatternMode", button.property("n4-choice"))

    @guarded
    def _scale_chosen(self, button: QPushButton) -> None:
        session = self._session()
        if session is not None:
            session.pattern_scale = cast("PatternScale", button.property("n4-choice"))
