"""The public functions that open acquisitions and report on memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.acquisition import Acquisition, open_acquisitions
from napari_4dstem.ledger import ledger
from napari_4dstem.loading.events import Progress
from napari_4dstem.residency.report import MemoryReport, memory_report
from napari_4dstem.scan_reader import Advance
from napari_4dstem.sources import OpenOptions, SourceInfo
from napari_4dstem.sources import inspect as inspect_source


def inspect(path: str | Path, **options: Any) -> SourceInfo:
    """Read the headers of a detector file and say what is in it.

    Parameters
    ----------
    path
        An Arina master, one of its data files, or a ``.npy`` file.
    **options
        Fields of `OpenOptions`: scan_shape, frame_offset, flyback, partial, dataset, channel.

    Returns
    -------
    SourceInfo
        If not ``ready``, with a reason and an action.

    Raises
    ------
    SourceError
        The file is of no known format, or its headers cannot be read.
    """
    return inspect_source(path, OpenOptions(**options))


def open(  # noqa: A001 - it is called as n4.open
    path: str | Path,
    *,
    scan_shape: tuple[int, int] | None = None,
    frame_offset: int = 0,
    flyback: int = 0,
    partial: bool = False,
    channel: int | None = None,
    dataset: str | None = None,
    mask: Literal["file"] | NDArray[np.bool_] | None = "file",
    device: str = "auto",
) -> Acquisition:
    """Open an acquisition at once; patterns come straight from the file.

    Parameters
    ----------
    path
        A detector file (see `inspect`) or an ``.ans4d`` file.
    scan_shape, frame_offset, flyback, partial, channel, dataset
        How a source is read; see `OpenOptions`.
    mask
        See `Acquisition`.
    device
        What decodes the patterns once they are encoded: "cpu"; "cuda", "cuda:1" or "mps" with the
        torch build for it. "auto" is the CPU, which is faster for now: the decoder for GPUs is
        exact but plain. The encoded bytes are then in RAM (or in the file) and on the GPU.

    Raises
    ------
    NotReadyError, SourceError, ContainerError
        With the reason and what to do.
    MissingDependencyError, DeviceError
        The device needs torch, or is not there.
    """
    options = OpenOptions(
        scan_shape=scan_shape,
        frame_offset=frame_offset,
        flyback=flyback,
        partial=partial,
        channel=channel,
        dataset=dataset,
    )
    return Acquisition(path, options, mask, device)


def load(path: str | Path, *, progress: Advance | None = None, **options: Any) -> Acquisition:
    """Open an acquisition, encode it, and wait until that is done.

    Parameters
    ----------
    path
        A detector file or an ``.ans4d`` file (which is encoded already).
    progress
        Called with (positions done, positions in all).
    **options
        As in `open`.
    """
    acquisition = open(path, **options)

    def advance(now: Progress) -> None:
        if progress is not None:
            progress(now.done, now.total)

    acquisition.events.progress.connect(advance)
    try:
        acquisition.encode(wait=True)
    except BaseException:
        acquisition.close()
        raise
    finally:
        acquisition.events.progress.disconnect(advance)
    return acquisition


def memory() -> MemoryReport:
    """Return who holds how much memory: the whole machine, this process, each acquisition."""
    acquisitions = sorted(open_acquisitions, key=lambda acquisition: acquisition.owner)
    return memory_report(ledger, acquisitions)
