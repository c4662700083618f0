"""Tell the user what went wrong, in napari's own notifications.

PyQt6 ends the program when a slot raises. Every slot of ours is therefore wrapped in
:func:`guarded`, which turns an exception into a notification that says what to do.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from napari_4dstem.errors import CancelledError, FourDStemError

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def report(error: BaseException) -> None:
    """Show an error; call on the GUI thread.

    Parameters
    ----------
    error
        One of ours is shown with its own text, which tells what to do; of any other the
        traceback goes to the log. A cancelled operation is no error.
    """
    if isinstance(error, CancelledError):
        return
    from napari.utils.notifications import show_error

    if isinstance(error, FourDStemError):
        _log.info("%s", error)
        show_error(str(error))
        return
    _log.error("Unexpected error in the 4D-STEM plugin", exc_info=error)
    show_error(
        f"4D-STEM: unexpected {type(error).__name__}: {error}. "
        "Your data are unchanged; please report this with the log (Help menu)."
    )


def warn(text: str) -> None:
    """Show a warning; call on the GUI thread."""
    from napari.utils.notifications import show_warning

    show_warning(text)


def tell(text: str) -> None:
    """Show a piece of information; call on the GUI thread."""
    from napari.utils.notifications import show_info

    show_info(text)


def guarded(function: Callable[_P, _R]) -> Callable[..., _R | None]:
    """Wrap a slot or callback so that an exception becomes a notification.

    Arguments beyond those that `function` takes are dropped, as Qt does for a plain slot.
    """
    room = _positional_room(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> _R | None:
        try:
            return function(*args[:room], **kwargs)
        except Exception as error:  # noqa: BLE001 - the program must outlive any slot
            report(error)
            return None

    return call


def _positional_room(function: Callable[..., Any]) -> int | None:
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in plain for kind in kinds)
