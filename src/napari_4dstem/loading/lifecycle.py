"""Open, encode, switch over, cancel, release, reload, close: all changes of state, in one place."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.layout import EncodedScan
from napari_4dstem.codec.protocol import BlockDecoder
from napari_4dstem.errors import CancelledError, FourDStemError, ReleasedError
from napari_4dstem.imaging.blocks import CodedBlocks, DenseBlocks, GrowingBlocks
from napari_4dstem.imaging.region_pattern import PatternSummary
from napari_4dstem.ledger import HostAllocator, ledger
from napari_4dstem.loading.backing import Backing, Place
from napari_4dstem.loading.coarse import CoarseScan, source_layout
from napari_4dstem.loading.events import AcquisitionEvents, Progress
from napari_4dstem.sources import Source

_numbers = itertools.count(1)
_NOTHING = Progress(0, 0, "", False)
_REPORT_EVERY = 0.05  # seconds between two progress signals


def source_backing(source: Source, nodata: int | None) -> Backing:
    """Return the backing of an open source."""
    layout = source_layout(source)
    return Backing(
        "source",
        "source",
        DenseBlocks(source, layout, nodata),
        DenseBlocks(source, layout, None),
        source,
    )


def encoded_backing(scan: EncodedScan, place: Place) -> Backing:
    """Return the backing of an encoded scan."""

    def make(*, count_nodata: bool) -> BlockDecoder:
        # Imported here: opening a file must not wait for the compiler to load.
        from napari_4dstem.codec.decode_cpu import CpuDecoder

        return CpuDecoder(scan, count_nodata=count_nodata)

    return Backing(
        "encoded",
        place,
        CodedBlocks(scan, partial(make, count_nodata=False)),
        CodedBlocks(scan, partial(make, count_nodata=True), raw_values=True),
        scan=scan,
    )


class Lifecycle:
    """The state of one acquisition and its transitions. Thread-safe.

    Parameters
    ----------
    name
        For threads and the ledger.
    opener
        Opens the source or the encoded file and returns its backing; called again by `reload`.
    nodata
        Source value that means "no data", or None.
    """

    def __init__(
        self, name: str, opener: Callable[[HostAllocator], Backing], nodata: int | None
    ) -> None:
        self.owner = f"{name} [{next(_numbers)}]"
        self.events = AcquisitionEvents()
        self.nodata = nodata
        self.coarse: CoarseScan | None = None
        self.problems: tuple[str, ...] = ()
        self._opener = opener
        self._allocator = HostAllocator(ledger, self.owner)
        self._lock = threading.RLock()
        self._job: _Job | None = None
        self._progress = _NOTHING
        self._summary: PatternSummary | None = None
        self._backing = opener(self._allocator)
        if self._backing.scan is not None:
            self._summary = index_summary(self._backing.scan)

    # ---- reading

    @property
    def backing(self) -> Backing:
        """What is read from now."""
        return self._backing

    @contextmanager
    def lease(self) -> Iterator[Backing]:
        """Hold the present backing for a read.

        Raises
        ------
        ReleasedError
            If the acquisition was released.
        """
        with self._lock:
            backing = self._backing
            if backing.state == "released":
                raise ReleasedError(f"{self.owner} is unloaded", action="Reload it to use it again")
            held = backing.leased()
            held.__enter__()
        try:
            yield backing
        finally:
            held.__exit__(None, None, None)

    @property
    def progress(self) -> Progress:
        """How far loading is."""
        return self._progress

    @property
    def summary(self) -> PatternSummary | None:
        """Sum and maximum pattern over the positions known so far, or None."""
        return self._summary

    # ---- encoding

    def encode(self, masked: NDArray[np.bool_]) -> threading.Thread | None:
        """Start encoding in the background; return its thread, None if nothing is to be done."""
        with self._lock:
            if self._backing.state in ("encoded", "partial"):
                return None if self._job is None else self._job.thread
            if self._job is not None:
                return self._job.thread
            if self._backing.state == "released":
                raise ReleasedError(f"{self.owner} is unloaded", action="Reload it first")
            self._job = _Job(self, self._backing, masked)
            self._job.thread.start()
            return self._job.thread

    def cancel(self, *, wait: bool = True) -> None:
        """Stop encoding: back to the source, encoded bytes and index freed."""
        with self._lock:
            job, self._job = self._job, None
            if job is None:
                return
            job.stop.set()
            self.coarse = None
            if self._backing.state == "partial":
                self._replace(job.source_backing)
            self._set_progress(replace(self._progress, stage="cancelled", running=False))
        if wait and job.thread is not threading.current_thread():
            job.thread.join()

    def finish(self, job: _Job, scan: EncodedScan, lost: NDArray[np.int64]) -> None:
        """Switch over to the finished encoded scan (called by the job)."""
        backing = encoded_backing(scan, "RAM")
        with self._lock:
            if self._job is not job:
                raise CancelledError("Loading was cancelled")
            self._job = None
            self.coarse = None
            self._summary = index_summary(scan)
            if len(lost):
                self.problems += (
                    f"{len(lost)} damaged pattern(s) could not be read and are shown as missing",
                )
            self._replace(backing)
            total = scan.layout.n_positions
            self._set_progress(Progress(total, total, "", False))
        job.source_backing.wait_until_unused()
        if job.source_backing.source is not None:
            job.source_backing.source.close()

    def fail(self, job: _Job, error: BaseException) -> None:
        """Go back to the source after an error or a cancel (called by the job)."""
        with self._lock:
            if self._job is not job:
                return
            self._job = self.coarse = None
            if self._backing.state == "partial":
                self._replace(job.source_backing)
            self._set_progress(replace(self._progress, stage="failed", running=False))
        if not isinstance(error, CancelledError):
            problem = error if isinstance(error, FourDStemError) else _unexpected(error)
            self.problems += (str(problem),)
            self.events.failed.emit(problem)

    def grow(self, job: _Job, backing: Backing) -> None:
        """Read from the growing scan from now on (called by the job)."""
        with self._lock:
            if self._job is not job:
                raise CancelledError("Loading was cancelled")
            self._replace(backing)

    def know_coarse(self, job: _Job, coarse: CoarseScan) -> None:
        """Keep the coarse scan, for images of the whole field (called by the job)."""
        summary = coarse.summary()
        with self._lock:
            if self._job is not job:
                raise CancelledError("Loading was cancelled")
            self.coarse, self._summary = coarse, summary

    def report(self, job: _Job, progress: Progress) -> None:
        """Tell how far loading is (called by the job)."""
        with self._lock:
            if self._job is job:
                self._set_progress(progress)

    # ---- the end

    def release(self) -> int:
        """Give the memory back; wait for running reads. Return the bytes that were held."""
        self.cancel()
        held = ledger.total(owner=self.owner)
        with self._lock:
            old = self._backing
            if old.state == "released":
                return 0
            self.coarse = self._summary = None
            self._replace(Backing("released", "none"))
            self._set_progress(_NOTHING)
        old.wait_until_unused()
        if old.source is not None:
            old.source.close()
        del old
        return held - ledger.total(owner=self.owner)

    def reload(self) -> None:
        """Open the source or the encoded file again after `release`."""
        with self._lock:
            if self._backing.state != "released":
                return
            backing = self._opener(self._allocator)
            if backing.scan is not None:
                self._summary = index_summary(backing.scan)
            self._replace(backing)

    def shutdown(self) -> None:
        """Cancel without waiting: the program is about to end."""
        self.cancel(wait=False)

    def _replace(self, backing: Backing) -> None:
        self._backing = backing
        self.events.state.emit(backing.state)

    def _set_progress(self, progress: Progress) -> None:
        self._progress = progress
        self.events.progress.emit(progress)


def index_summary(scan: EncodedScan) -> PatternSummary | None:
    """Return sum and maximum pattern from the index, or None if it has none."""
    if scan.index is None:
        return None
    index = scan.index
    return PatternSummary(
        index.sum_pattern, index.max_pattern, index.nodata_count, scan.layout.n_positions
    )


def _unexpected(error: BaseException) -> FourDStemError:
    return FourDStemError(
        f"Loading failed: {type(error).__name__}: {error}",
        action="Please report this with the file's name and size",
    )


class _Job:
    """One encoding run in its own daemon thread; an `Observer` of `encode_source`."""

    def __init__(self, life: Lifecycle, source_backing: Backing, masked: NDArray[np.bool_]) -> None:
        self.life, self.source_backing, self._masked = life, source_backing, masked
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name="n4-load", daemon=True)
        self._reported = 0.0
        assert source_backing.source is not None
        self._source = source_backing.source
        self._total = int(self._source.recorded.sum())

    def _run(self) -> None:
        # Imported in this thread: it loads the compiler.
        from napari_4dstem.loading.encode_source import encode_source

        life = self.life
        try:
            self._tell(0, "reading a coarse scan")
            scan, lost = encode_source(
                self._source,
                life._allocator,
                self,
                nodata=life.nodata,
                masked=self._masked,
                cancelled=self.stop.is_set,
            )
            life.finish(self, scan, lost)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the user must hear it
            # Not kept: a traceback would hold the encoded bytes.
            error.__traceback__ = None
            if not (sys.is_finalizing() or "interpreter shutdown" in str(error)):
                life.fail(self, error)

    def _tell(self, done: int, stage: str) -> None:
        self._reported = time.monotonic()
        self.life.report(self, Progress(done, self._total, stage, True))

    def sampled(self, coarse: CoarseScan) -> None:
        """Take note that the coarse scan was read."""
        self.life.know_coarse(self, coarse)
        self._tell(0, "preparing the encoder")

    def growing(self, scan: EncodedScan, done: NDArray[np.bool_]) -> None:
        """Take note that coding begins."""
        coded, raw = encoded_backing(scan, "RAM"), self.source_backing
        nodata = self.life.nodata
        blocks = [
            GrowingBlocks(part, DenseBlocks(self._source, scan.layout, value), done)
            for part, value in ((coded.blocks, nodata), (coded.raw_blocks, None))
            if isinstance(part, CodedBlocks)
        ]
        backing = Backing("partial", "RAM", blocks[0], blocks[1], raw.source, scan)
        self.life.grow(self, backing)
        self._tell(0, "encoding")

    def block_done(self, positions: int) -> None:
        """Take note that one more block was coded."""
        if time.monotonic() - self._reported >= _REPORT_EVERY or positions == self._total:
            self._tell(positions, "encoding")
