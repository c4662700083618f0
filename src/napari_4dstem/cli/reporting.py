"""How commands talk: errors, remarks and progress on stderr, results on stdout."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from napari_4dstem.errors import CancelledError, FourDStemError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

ERROR, WRONG_USE, DAMAGE, INTERRUPTED = 1, 2, 5, 130
"""Exit codes."""

_P = ParamSpec("_P")


def guarded(command: Callable[_P, None]) -> Callable[_P, None]:
    """Turn our errors into a text and an exit code; any other one is a mistake of ours."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (KeyboardInterrupt, CancelledError):
            _errors().print("Cancelled; nothing was written.", style="yellow")
            raise typer.Exit(INTERRUPTED) from None
        except FourDStemError as error:
            print_error(error)
            raise typer.Exit(WRONG_USE if isinstance(error, UsageError) else ERROR) from None

    # typer asks for the signature, whose annotations are texts in the command's own module.
    run.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
    return run


def _errors() -> Console:
    from rich.console import Console

    # File names must not be broken at the edge of a screen, or taken for markup.
    return Console(stderr=True, soft_wrap=True, markup=False, highlight=False, emoji=False)


def print_error(error: FourDStemError) -> None:
    """Say what, where, what was expected, what was found, and what to do."""
    from rich.text import Text

    end = "" if error.what.endswith((".", "?", "!")) else "."
    lines = [Text.assemble(("Error: ", "bold red"), error.what + end)]
    for label, text in (
        ("where", error.where),
        ("expected", error.expected),
        ("found", error.found),
        ("to do", error.action),
    ):
        if text:
            lines.append(Text.assemble((f"  {label:9}", "bold"), text))
    console = _errors()
    for line in lines:
        console.print(line)


def tell(text: str) -> None:
    """Say something that is no result."""
    _errors().print(text)


def tell_all(problems: tuple[str, ...]) -> None:
    """Say what is odd about a file."""
    from rich.text import Text

    for problem in problems:
        _errors().print(Text.assemble(("Note: ", "yellow"), problem))


def print_json(value: Any) -> None:
    """Print a result for programs."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def print_rows(rows: list[tuple[str, str]]) -> None:
    """Print a result for people: names and values in two columns."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, markup=False, highlight=False, emoji=False)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        for i, line in enumerate(value.split("\n")):
            label = name if i == 0 else ""
            console.print(Text.assemble((f"{label:{width}}  ", "bold"), line))


@contextmanager
def progress_bar(what: str, unit: str = "positions") -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr, where that is a terminal.

    Yields
    ------
    advance
        To be called with (done, total), from any thread.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = _errors()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def advance(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield advance


def shape_text(shape: tuple[int, ...]) -> str:
    """Return ``256 x 512``."""
    return " x ".join(map(str, shape))
