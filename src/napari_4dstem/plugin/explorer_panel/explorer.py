"""The explorer: the panel in which a scan is explored."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtGui import QKeyEvent, QShowEvent
from qtpy.QtWidgets import QSizePolicy, QVBoxLayout, QWidget
from superqt import QElidingLabel

from napari_4dstem.plugin.explorer_panel.detector_bar import DetectorBar
from napari_4dstem.plugin.explorer_panel.detector_form import DetectorForm
from napari_4dstem.plugin.explorer_panel.explorer_header import ExplorerHeader
from napari_4dstem.plugin.explorer_panel.image_grid import ImageGrid
from napari_4dstem.plugin.explorer_panel.pattern_bar import PatternBar
from napari_4dstem.plugin.notify import guarded
from napari_4dstem.plugin.session.session_texts import status_line
from napari_4dstem.plugin.sessions import session_for
from napari_4dstem.plugin.window_watch import close_with_window

if TYPE_CHECKING:
    import napari.viewer

_ARROWS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}


class ExplorerDock(QWidget):
    """Images over the scan, virtual detectors, and how the pattern is shown.

    Parameters
    ----------
    viewer
        The napari viewer; its session is observed, so that any number of explorers agree.
    """

    def __init__(self, viewer: napari.viewer.Viewer) -> None:
        super().__init__()
        session = session_for(viewer)
        self._session = weakref.ref(session)
        self.header = ExplorerHeader(session)
        self.pattern_bar = PatternBar(session)
        self.detector_bar = DetectorBar(session)
        self.images = ImageGrid(session)
        self.status = QElidingLabel()
        self.form = DetectorForm(session)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 4, 6, 4)
        layout.setSpacing(5)
        parts: tuple[QWidget, ...] = (
            self.header,
            self.pattern_bar,
            self.detector_bar,
            self.images,
            self.status,
            self.form,
        )
        for part in parts:
            layout.addWidget(part, int(part is self.images))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        events = session.events
        for signal in (events.cursor, events.images, events.detectors, events.acquisition):
            signal.connect(self.refresh_status)
        self.refresh_status()

    @guarded
    def refresh_status(self) -> None:
        """Write cursor and values there."""
        session = self._session()
        if session is not None:
            text = status_line(session)
            self.status.setText(text)
            self.status.setToolTip(text)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Move the scan position with the arrow keys, ten at a time with Shift."""
        session = self._session()
        if event is None or session is None or event.key() not in _ARROWS:
            super().keyPressEvent(event)
            return
        steps = 10 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1
        row, column = _ARROWS[Qt.Key(event.key())]
        session.step_cursor(row * steps, column * steps)

    def showEvent(self, event: QShowEvent | None) -> None:
        """Watch the window that the panel is in: closing it ends the session's work."""
        super().showEvent(event)
        session = self._session()
        if session is not None:
            close_with_window(self, session)
