"""The commands that write scans: ``encode`` and ``decode``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from napari_4dstem.cli.options import (
    Channel,
    Dataset,
    Flyback,
    FrameOffset,
    Json,
    Overwrite,
    Partial,
    ScanFile,
    ScanShape,
    check_target,
    open_options,
    open_scan,
)
from napari_4dstem.cli.reporting import (
    guarded,
    print_json,
    progress_bar,
    shape_text,
    tell,
    tell_all,
)
from napari_4dstem.errors import FourDStemError

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.loading.events import Progress

Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE.ans4d", help="The file to write.")
]
PlainOutput = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE.h5|FILE.npy",
        help="The file to write: .h5 (bitshuffle-LZ4) or .npy (not compressed).",
    ),
]


@guarded
def encode(
    file: ScanFile,
    output: Output,
    scan_shape: ScanShape = None,
    frame_offset: FrameOffset = 0,
    flyback: Flyback = 0,
    partial: Partial = False,
    channel: Channel = None,
    dataset: Dataset = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compress a scan without loss into an .ans4d file.

    Every count comes back bit for bit; the .ans4d file opens at once and takes a fraction of the
    room. The output appears when it is complete, or not at all.
    """
    check_target(output, (".ans4d",), overwrite=overwrite)
    options = open_options(scan_shape, frame_offset, flyback, partial, channel, dataset)
    began = time.perf_counter()
    with open_scan(file, options) as acquisition:
        stored = acquisition.path.stat().st_size
        if acquisition.info is not None:
            stored = acquisition.info.stored_bytes
        _encode(acquisition)
        tell_all(acquisition.problems)
        acquisition.save(output)
        _report(acquisition, output, stored, time.perf_counter() - began, as_json=as_json)


def _encode(acquisition: Acquisition) -> None:
    with progress_bar("Encoding") as advance:

        def follow(progress: Progress) -> None:
            advance(progress.done, progress.total)

        acquisition.events.progress.connect(follow)
        try:
            acquisition.encode(wait=True)
        except KeyboardInterrupt:
            acquisition.cancel()
            raise
        finally:
            acquisition.events.progress.disconnect(follow)
    if acquisition.state != "encoded":
        raise FourDStemError("Encoding did not finish", where=acquisition.path)


def _report(
    acquisition: Acquisition, output: Path, stored: int, seconds: float, *, as_json: bool
) -> None:
    from napari_4dstem.residency.sizes import format_bytes

    size = output.stat().st_size
    missing = int((~acquisition.valid).sum())
    if as_json:
        print_json(
            {
                "output": str(output),
                "scan_shape": acquisition.scan_shape,
                "detector_shape": acquisition.detector_shape,
                "dtype": acquisition.dtype.name,
                "missing_positions": missing,
                "source_bytes": stored,
                "file_bytes": size,
                "encoded_bytes": acquisition.encoded_bytes,
                "full_bytes": acquisition.logical_bytes,
                "seconds": round(seconds, 3),
                "problems": acquisition.problems,
            }
        )
        return
    if missing:
        tell(f"{missing} of {acquisition.valid.size} scan positions have no data.")
    tell(
        f"Wrote {output}: {shape_text(acquisition.shape)} {acquisition.dtype.name}, "
        f"{format_bytes(size)} (source {format_bytes(stored)}, "
        f"as plain numbers {format_bytes(acquisition.logical_bytes)}), {seconds:.1f} s"
    )


@guarded
def decode(
    file: ScanFile,
    output: PlainOutput,
    scan_shape: ScanShape = None,
    frame_offset: FrameOffset = 0,
    flyback: Flyback = 0,
    partial: Partial = False,
    channel: Channel = None,
    dataset: Dataset = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write all patterns of a scan as plain numbers, for other programs.

    .h5: bitshuffle-LZ4, the dataset /entry/data/data has the scan's and the camera's axes, one
    pattern a chunk; calibration and mask go with it, and this program opens it again. Positions
    without data are 0 and listed in /entry/data/valid. .npy: a 4D array; the list is beside it, in
    NAME_valid.npy, if there are such positions. Neither the counts nor their type change; masked
    pixels keep their values.
    """
    check_target(output, (".h5", ".hdf5", ".npy"), overwrite=overwrite)
    options = open_options(scan_shape, frame_offset, flyback, partial, channel, dataset)
    began = time.perf_counter()
    with open_scan(file, options) as acquisition:
        tell_all(acquisition.problems)
        with progress_bar("Decoding") as advance:
            valid = acquisition.decode(output, progress=advance)
        shape, dtype = acquisition.shape, acquisition.dtype.name
    missing = int((~valid).sum())
    seconds = time.perf_counter() - began
    if missing:
        tell(f"{missing} of {valid.size} scan positions have no data.")
    size = output.stat().st_size
    if as_json:
        facts = {"output": str(output), "shape": shape, "dtype": dtype, "file_bytes": size}
        print_json(facts | {"missing_positions": missing, "seconds": round(seconds, 3)})
        return
    from napari_4dstem.residency.sizes import format_bytes

    tell(f"Wrote {output}: {shape_text(shape)} {dtype}, {format_bytes(size)}, {seconds:.1f} s")
