"""Arrow keys of the viewer move the scan position."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from napari_4dstem.plugin.notify import guarded

if TYPE_CHECKING:
    from napari_4dstem.plugin.sessions import Session

_DIRECTIONS = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}
_FAST = 10


def bind_cursor_keys(viewer: Any, session: Session) -> None:
    """Bind the arrows, and with Shift ten steps at a time, on one viewer.

    Parameters
    ----------
    viewer
        A napari viewer; it keeps the bindings, which keep no session.
    session
        Whose cursor moves.
    """
    reference = weakref.ref(session)
    for key, (row, column) in _DIRECTIONS.items():
        for prefix, steps in (("", 1), ("Shift-", _FAST)):
            move = _mover(reference, row * steps, column * steps)
            viewer.bind_key(prefix + key, move, overwrite=True)


def _mover(session: weakref.ref[Session], rows: int, columns: int) -> Callable[..., Any]:
    @guarded
    def move(viewer: Any) -> None:
        """Move the scan position."""
        target = session()
        if target is not None:
            target.step_cursor(rows, columns)

    return move
