"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from napari_4dstem.errors import SaveError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.sources import OpenOptions

_SOURCE = "How the source is read"

ScanFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="NAME_master.h5, .npy or .ans4d file.", show_default=False),
]
ScanShape = Annotated[
    str | None,
    typer.Option(
        "--scan-shape",
        metavar="ROWSxCOLUMNS",
        help="Scan positions, for example 256x512, if the file does not say it or says it wrong.",
        rich_help_panel=_SOURCE,
    ),
]
FrameOffset = Annotated[
    int,
    typer.Option(
        "--frame-offset",
        metavar="N",
        help="Skip N frames before the first scan position; below 0: the first N positions of the "
        "scan were not recorded.",
        rich_help_panel=_SOURCE,
    ),
]
Flyback = Annotated[
    int,
    typer.Option(
        "--flyback",
        metavar="N",
        min=0,
        help="Leave out N extra frames at the end of every scan row.",
        rich_help_panel=_SOURCE,
    ),
]
Partial = Annotated[
    bool,
    typer.Option(
        "--partial",
        metavar="",  # or typer would call it a <bool>
        help="Take what was recorded although frames or data files are missing.",
        rich_help_panel=_SOURCE,
    ),
]
Channel = Annotated[
    int | None,
    typer.Option(
        "--channel",
        metavar="N",
        min=0,
        help="Which energy threshold of a file that holds several; 0 is the first.",
        rich_help_panel=_SOURCE,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="Dataset inside the HDF5 file, where it is not the usual one.",
        rich_help_panel=_SOURCE,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", metavar="", help="Print JSON for programs; messages go to stderr.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", metavar="", help="Replace the output if it exists.")
]
MaskChoice = Annotated[
    str,
    typer.Option(
        "--mask",
        metavar="none|file|FILE.npy",
        help="Camera pixels left out of sums: those that the file names, those that are True in a "
        "NumPy array, or none (then overloads count as the numbers they are, too).",
    ),
]

_SHAPE = re.compile(r"\s*(\d{1,9})\s*[xX×*,]\s*(\d{1,9})\s*")


def parse_scan_shape(text: str | None) -> tuple[int, int] | None:
    """Return (rows, columns) from ``256x512``."""
    if text is None:
        return None
    match = _SHAPE.fullmatch(text)
    if match is None or not int(match[1]) or not int(match[2]):
        raise UsageError(
            "This is no scan shape",
            where="--scan-shape",
            expected="rows x columns, for example 256x512",
            found=repr(text),
        )
    return int(match[1]), int(match[2])


def open_options(
    scan_shape: str | None,
    frame_offset: int,
    flyback: int,
    partial: bool,
    channel: int | None,
    dataset: str | None,
) -> OpenOptions:
    """Return what was said about the source."""
    from napari_4dstem.sources import OpenOptions

    return OpenOptions(
        scan_shape=parse_scan_shape(scan_shape),
        frame_offset=frame_offset,
        flyback=flyback,
        partial=partial,
        channel=channel,
        dataset=dataset,
    )


def open_scan(path: Path, options: OpenOptions, mask: str = "file") -> Acquisition:
    """Open a scan for a command."""
    from napari_4dstem.acquisition import Acquisition

    return Acquisition(path, options, read_mask(mask))


def read_mask(choice: str) -> Literal["file"] | NDArray[np.bool_] | None:
    """Return what ``--mask`` asks for."""
    if choice == "file":
        return "file"
    if choice == "none":
        return None
    from napari_4dstem.detectors import Mask

    return Mask.load(choice).array


def check_target(target: Path, suffixes: tuple[str, ...], *, overwrite: bool) -> None:
    """Look at an output's name before any work is done.

    Raises
    ------
    UsageError
        The suffix is none of `suffixes`.
    SaveError
        The file exists, or its folder does not.
    """
    if target.suffix.lower() not in suffixes:
        raise UsageError(
            "The output cannot be a file of this kind",
            where=target,
            expected="a name that ends in " + " or ".join(suffixes),
            found=target.suffix or "no suffix",
            action="Choose another name with -o",
        )
    if not target.parent.is_dir():
        raise SaveError(
            "The output's folder does not exist",
            where=target.parent,
            action="Create it first, or choose another",
        )
    if target.is_dir() or (target.exists() and not overwrite):
        raise SaveError(
            "The output exists already, nothing was done",
            where=target,
            action="Choose another name, or add --overwrite to replace it",
        )
