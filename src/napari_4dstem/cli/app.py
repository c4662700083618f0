"""The commands and their help, put together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from napari_4dstem.cli.converting import decode, encode
from napari_4dstem.cli.describing import info, memory
from napari_4dstem.cli.imaging import image
from napari_4dstem.cli.verifying import verify
from napari_4dstem.cli.view import view

_EXIT_CODES = """\
Every pair is (row, column), row 0 is on top, and pixel i is centred at i.

Exit codes: 0 done, 1 an error, 2 wrong use, 5 verify found damage or a difference, 130 Ctrl-C."""

_ABOUT = """\
Look at 4D-STEM scans, encode them without loss, make virtual-detector images.

A FILE is an Arina master (NAME_master.h5), a NumPy array (.npy), or an encoded scan (.ans4d).

Each command has a help page with examples: napari-4dstem image --help"""

app = typer.Typer(
    help=_ABOUT,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EXIT_CODES,
)


def _add(command: Callable[..., None], *examples: str) -> None:
    """Make a function a command; its docstring is the help, the examples follow the options."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    # typer keeps line breaks, which are those of the source and not of the screen.
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    listed = [f"  napari-4dstem {example}" for example in examples]
    app.command(help=text, epilog="\n\n".join(["[bold]Examples[/bold]", *listed]))(command)


def _version(wanted: bool) -> None:
    if wanted:
        from napari_4dstem import __version__

        typer.echo(f"napari-4dstem {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Put the options before the command into effect."""


_add(
    info,
    "info scan_master.h5",
    "info scan_master.h5 --scan-shape 256x512",
    "info scan.ans4d --json",
)
_add(
    encode,
    "encode scan_master.h5 -o scan.ans4d",
    "encode frames.npy --scan-shape 128x256 --flyback 2 -o scan.ans4d",
    "encode interrupted_master.h5 --partial -o scan.ans4d",
)
_add(decode, "decode scan.ans4d -o back.h5", "decode scan.ans4d -o back.npy")
_add(verify, "verify scan.ans4d", "verify scan.ans4d --against scan_master.h5")
_add(
    image,
    "image scan_master.h5 --detector circle:51,43,17.5 -o bf.npy",
    "image scan.ans4d --detector annulus:51,43,24,44 -o adf.tif",
    "image scan.ans4d -d circle:51,43,17 -d annulus:51,43,17,40 -o both.npy",
    "image scan.ans4d -d mask:my_mask.npy --mask none -o raw.npy",
)
_add(view, "view scan_master.h5", "view before.ans4d after.ans4d")
_add(memory, "memory", "memory --json")
