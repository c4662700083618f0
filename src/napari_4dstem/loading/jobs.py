"""What runs in the background of an acquisition: encoding a source, bringing a file into RAM.

A job works in a daemon thread of its own and reports to its acquisition's `Lifecycle`, which alone
changes the state and turns away the reports of a job that was cancelled.
"""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.imaging.blocks import DenseBlocks
from napari_4dstem.ledger import HostAllocator
from napari_4dstem.loading.backing import Backing
from napari_4dstem.loading.coarse import CoarseScan, read_coarse
from napari_4dstem.loading.events import Progress
from napari_4dstem.loading.promote import copy_to_ram
from napari_4dstem.loading.waiting import run_cancellably

_REPORT_EVERY = 0.05  # seconds between two progress signals

Finished = tuple[EncodedScan, NDArray[np.int64]]


class Host(Protocol):
    """What a job needs of the acquisition that it works for: its `Lifecycle`.

    The methods are explained there. A job that was cancelled is turned away with `CancelledError`.
    """

    nodata: int | None
    allocator: HostAllocator

    def know_coarse(self, job: Job, coarse: CoarseScan) -> None:
        """Keep the coarse scan."""

    def grow(self, job: Job, scan: EncodedScan, done: NDArray[np.bool_]) -> None:
        """Read finished blocks from the growing scan from now on."""

    def report(self, job: Job, progress: Progress) -> None:
        """Tell how far it is."""

    def finish(self, job: Job, scan: EncodedScan, lost: NDArray[np.int64]) -> None:
        """Switch over to the finished scan."""

    def fail(self, job: Job, error: BaseException) -> None:
        """Go back to where the job started."""


class Job:
    """One run in a daemon thread; subclasses say what it does.

    Parameters
    ----------
    life
        Whose state it works on.
    start
        The backing that it starts from, and that a cancel goes back to.
    total
        Scan positions to do.
    """

    def __init__(self, life: Host, start: Backing, total: int) -> None:
        self.life, self.start, self.total = life, start, total
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name="n4-load", daemon=True)
        self._reported = 0.0

    def work(self) -> Finished:
        """Return the encoded scan and the flat indices of positions that were damaged."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self.life.finish(self, *self.work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the user must hear it
            _forget_frames(error)
            if not (sys.is_finalizing() or "interpreter shutdown" in str(error)):
                self.life.fail(self, error)

    def tell(self, done: int, stage: str) -> None:
        """Report progress at once."""
        self._reported = time.monotonic()
        self.life.report(self, Progress(done, self.total, stage, True))

    def tell_sometimes(self, done: int, stage: str) -> None:
        """Report progress, but not more often than anybody can see."""
        if time.monotonic() - self._reported >= _REPORT_EVERY or done == self.total:
            self.tell(done, stage)


class EncodeJob(Job):
    """Encodes the source of its backing; an `Observer` of `encode_source`.

    Parameters
    ----------
    masked
        Bool [H, W], pixels that the tile sums leave out.
    """

    def __init__(self, life: Host, start: Backing, masked: NDArray[np.bool_]) -> None:
        assert start.source is not None
        self._source, self._masked = start.source, masked
        super().__init__(life, start, int(self._source.recorded.sum()))

    def work(self) -> Finished:
        """Encode everything; see `encode_source`."""
        life, cancelled = self.life, self.stop.is_set
        self.tell(0, "reading a coarse scan")
        coarse = read_coarse(self._source, life.nodata, life.allocator, cancelled)
        life.know_coarse(self, coarse)
        self.tell(0, "preparing the encoder")
        run_cancellably(partial(_make_coder_ready, self._source.dtype), cancelled)
        from napari_4dstem.loading.encode_source import encode_source

        return encode_source(
            self._source,
            coarse,
            life.allocator,
            self,
            nodata=life.nodata,
            masked=self._masked,
            cancelled=cancelled,
        )

    def damaged(self, positions: NDArray[np.int64]) -> None:
        """Take note of damaged patterns: they are missing from now on."""
        assert isinstance(self.start.blocks, DenseBlocks)
        self.start.blocks.lost.reshape(-1)[positions] = True

    def growing(self, scan: EncodedScan, done: NDArray[np.bool_]) -> None:
        """Take note that coding begins."""
        self.life.grow(self, scan, done)
        self.tell(0, "encoding")

    def block_done(self, positions: int) -> None:
        """Take note that one more block was coded."""
        self.tell_sometimes(positions, "encoding")


def _make_coder_ready(dtype: np.dtype[Any]) -> None:
    """Load and compile the coder; takes seconds the first time on a machine."""
    from napari_4dstem.codec.readiness import warm_up
    from napari_4dstem.loading import encode_source  # noqa: F401 - that it is loaded is the point

    warm_up(dtype)


def _forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error and of its causes: their frames hold the encoded bytes."""
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is not None:
            one.__traceback__ = None
            left += [one.__cause__, one.__context__]


class PromoteJob(Job):
    """Copies the mapped scan of its backing into RAM.

    Parameters
    ----------
    allocator
        Where the bytes come from.
    """

    def __init__(self, life: Host, start: Backing, allocator: HostAllocator) -> None:
        assert start.scan is not None
        self._scan, self._allocator = start.scan, allocator
        super().__init__(life, start, start.scan.layout.n_positions)

    def work(self) -> Finished:
        """Copy everything; see `copy_to_ram`."""
        copy = copy_to_ram(
            self._scan,
            self._allocator,
            advance=lambda done: self.tell_sometimes(done, "reading into RAM"),
            cancelled=self.stop.is_set,
        )
        return copy, np.zeros(0, np.int64)
