"""All that knows napari, Qt or pyqtgraph: reader, sessions, and the panels.

Importing this costs nothing; the parts are loaded when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_4dstem.plugin.commands import explore as explore
    from napari_4dstem.plugin.sessions import Session as Session
    from napari_4dstem.plugin.sessions import session_for as session_for

_HOME = {"explore": "commands", "session_for": "sessions", "Session": "sessions"}

__all__ = ["Session", "explore", "session_for"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
