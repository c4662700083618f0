"""Notices that a napari window closes, so that the session's threads and files end with it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QObject
from qtpy.QtWidgets import QWidget

if TYPE_CHECKING:
    from napari_4dstem.plugin.sessions import Session

_NAME = "n4-window-watch"


class _WindowWatch(QObject):
    """Closes a session when a window that was told to close is hidden.

    A close event alone does not count: the user may still decide to stay.
    """

    def __init__(self, window: QWidget, session: Session) -> None:
        super().__init__(window)
        self.setObjectName(_NAME)
        self.session = weakref.ref(session)
        self._closing = False
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Look at the window's events; none is held back."""
        if event is None or watched is not self.parent():
            return False
        if event.type() == QEvent.Type.Close:
            self._closing = True
        elif event.type() == QEvent.Type.Hide and self._closing:
            session = self.session()
            if session is not None:
                session.close()
        elif event.type() in (QEvent.Type.Show, QEvent.Type.WindowActivate):
            self._closing = False
        return False


def close_with_window(widget: QWidget, session: Session) -> None:
    """Close `session` when the main window around `widget` closes; may be called again."""
    window = widget.window()
    if window is None or window is widget or window.inherits("QDockWidget"):
        return
    for watch in window.findChildren(QObject, _NAME):
        if isinstance(watch, _WindowWatch) and watch.session() is session:
            return
    _WindowWatch(window, session)
