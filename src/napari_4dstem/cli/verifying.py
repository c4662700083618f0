"""The command ``verify``: whether an encoded file is whole, and the same as its source."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from napari_4dstem.cli.options import (
    Channel,
    Dataset,
    Flyback,
    FrameOffset,
    Json,
    Partial,
    ScanShape,
    open_options,
    open_scan,
)
from napari_4dstem.cli.reporting import DAMAGE, guarded, print_json, progress_bar
from napari_4dstem.errors import UsageError

if TYPE_CHECKING:
    from napari_4dstem.comparing import Comparison
    from napari_4dstem.container import VerifyReport
    from napari_4dstem.sources import OpenOptions

EncodedFile = Annotated[
    Path, typer.Argument(metavar="FILE.ans4d", help="The encoded scan.", show_default=False)
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="SOURCE",
        help="Compare every pattern bit for bit with this file: what it was encoded from, or what "
        "it was decoded to.",
    ),
]


@guarded
def verify(
    file: EncodedFile,
    against: Against = None,
    scan_shape: ScanShape = None,
    frame_offset: FrameOffset = 0,
    flyback: Flyback = 0,
    partial: Partial = False,
    channel: Channel = None,
    dataset: Dataset = None,
    as_json: Json = False,
) -> None:
    """Check every checksum of an .ans4d file and decode every pattern.

    With --against also compare with the source; where they differ, the first place is named. The
    exit code is 5 if anything is damaged or different.
    """
    if file.suffix.lower() != ".ans4d":
        raise UsageError(
            "Only encoded scans can be verified",
            where=file,
            expected="a file that ends in .ans4d",
            action="Encode it first: napari-4dstem encode SOURCE -o FILE.ans4d",
        )
    from napari_4dstem.container import verify as check

    options = open_options(scan_shape, frame_offset, flyback, partial, channel, dataset)
    with progress_bar("Checking", "blocks") as advance:
        report = check(file, progress=advance)
    comparison = None if against is None else _compare(file, against, options)
    if as_json:
        print_json(_facts(report, against, comparison))
    else:
        typer.echo(str(report))
        if comparison is not None:
            verdict = "equal to" if comparison.equal else "DIFFERENT from"
            typer.echo(f"{verdict} {against}: {comparison}")
    if not report.intact or (comparison is not None and not comparison.equal):
        raise typer.Exit(DAMAGE)


def _compare(file: Path, against: Path, options: OpenOptions) -> Comparison:
    from napari_4dstem.sources import OpenOptions

    with (
        open_scan(file, OpenOptions()) as encoded,
        open_scan(against, options) as source,
        progress_bar("Comparing") as advance,
    ):
        return encoded.compare(source, progress=advance)


def _facts(
    report: VerifyReport, against: Path | None, comparison: Comparison | None
) -> dict[str, Any]:
    facts = {
        "file": str(report.path),
        "intact": report.intact,
        "problems": report.problems,
        "pieces": report.n_chunks,
        "damaged_pieces": [asdict(piece) for piece in report.damaged],
        "missing_positions": int(report.missing.sum()),
    }
    if comparison is None:
        return facts | {"against": None}
    first = None if comparison.first is None else asdict(comparison.first)
    compared = {
        "source": str(against),
        "equal": comparison.equal,
        "mismatch": comparison.mismatch,
        "patterns_compared": comparison.n_compared,
        "patterns_different": int(comparison.differing.sum()),
        "missing_here": int(comparison.missing_here.sum()),
        "missing_there": int(comparison.missing_there.sum()),
        "first_difference": first,
    }
    return facts | {"against": compared}
