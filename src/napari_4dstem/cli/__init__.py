"""The command line, ``napari-4dstem``: what the library does, without writing a program.

Only typer is imported until a command runs, so that ``--help`` answers at once. Results go to the
standard output, everything said to a person beside them to the standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run a command and end the process with its exit code.

    Parameters
    ----------
    args
        Words of the command line; None: those of this process.
    """
    from napari_4dstem.cli.app import app

    app(None if args is None else list(args), prog_name="napari-4dstem")
