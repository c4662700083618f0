"""Open, encode, switch over, cancel, release, reload, close: all changes of state, in one place."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.errors import CancelledError, FourDStemError, ReleasedError, SourceChangedError
from napari_4dstem.imaging.blocks import CodedBlocks, DenseBlocks, GrowingBlocks
from napari_4dstem.imaging.region_pattern import PatternSummary
from napari_4dstem.ledger import HostAllocator, ledger
from napari_4dstem.loading.backing import Backing
from napari_4dstem.loading.coarse import CoarseScan, source_layout
from napari_4dstem.loading.encoded_backing import MakeEncoded, on_host
from napari_4dstem.loading.events import AcquisitionEvents, Progress
from napari_4dstem.loading.jobs import EncodeJob, Job, PromoteJob
from napari_4dstem.residency.budget import usable_now
from napari_4dstem.sources import Source

_numbers = itertools.count(1)
_NOTHING = Progress(0, 0, "", False)


def source_backing(source: Source, nodata: int | None) -> Backing:
    """Return the backing of an open source."""
    layout = source_layout(source)
    lost = np.zeros(source.scan_shape, bool)
    return Backing(
        "source",
        "source",
        DenseBlocks(source, layout, nodata, lost),
        DenseBlocks(source, layout, None, lost),
        source,
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
    make_encoded
        Makes the backing of a scan that was encoded.
    """

    def __init__(
        self,
        name: str,
        opener: Callable[[HostAllocator], Backing],
        nodata: int | None,
        make_encoded: MakeEncoded = on_host,
    ) -> None:
        self.owner = f"{name} [{next(_numbers)}]"
        self.events = AcquisitionEvents()
        self.nodata = nodata
        self.coarse: CoarseScan | None = None
        self.problems: tuple[str, ...] = ()
        self._opener, self._make_encoded = opener, make_encoded
        self.allocator = HostAllocator(ledger, self.owner)
        self._lock = threading.RLock()
        self._job: Job | None = None
        self._progress = _NOTHING
        self._summary: PatternSummary | None = None
        self._backing = opener(self.allocator)
        self._form = _form(self._backing)
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
        """Start to encode a source, or to read an encoded file into RAM if it fits there.

        Returns the thread that does it in the background; None if there is nothing to do.
        """
        with self._lock:
            if self._job is None:
                self._job = self._next_job(masked)
                if self._job is not None:
                    self.problems = ()  # of an earlier try
                    self._job.thread.start()
            return None if self._job is None else self._job.thread

    def _next_job(self, masked: NDArray[np.bool_]) -> Job | None:
        backing = self._backing
        if backing.state == "released":
            raise ReleasedError(f"{self.owner} is unloaded", action="Reload it first")
        if backing.state == "source":
            return EncodeJob(self, backing, masked)
        if backing.scan is None or backing.place != "disk":
            return None
        available = usable_now("cpu", ledger)
        index = backing.scan.index
        need = backing.scan.nbytes + (0 if index is None else index.nbytes)
        fits = available is None or need <= available
        return PromoteJob(self, backing, self.allocator) if fits else None

    def cancel(self, *, wait: bool = True) -> None:
        """Stop encoding: back to the source, encoded bytes and index freed."""
        with self._lock:
            job, self._job = self._job, None
            if job is None:
                return
            job.stop.set()
            self.coarse = None
            if self._backing.state == "partial":
                self._replace(job.start)
            self._set_progress(replace(self._progress, stage="cancelled", running=False))
        if wait and job.thread is not threading.current_thread():
            job.thread.join()

    def finish(self, job: Job, scan: EncodedScan, lost: NDArray[np.int64]) -> None:
        """Switch over to the finished encoded scan (called by the job)."""
        backing = self._make_encoded(scan, "RAM", self.owner)
        with self._lock:
            if self._job is not job:
                backing.close()
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
        job.start.close()

    def fail(self, job: Job, error: BaseException) -> None:
        """Go back to the source after an error or a cancel (called by the job)."""
        with self._lock:
            if self._job is not job:
                return
            self._job = self.coarse = None
            if self._backing.state == "partial":
                self._replace(job.start)
            self._set_progress(replace(self._progress, stage="failed", running=False))
        if not isinstance(error, CancelledError):
            problem = error if isinstance(error, FourDStemError) else _unexpected(error)
            self.problems += (str(problem),)
            self.events.failed.emit(problem)

    def grow(self, job: Job, scan: EncodedScan, done: NDArray[np.bool_]) -> None:
        """Read finished blocks from the growing scan from now on (called by the job)."""
        source = job.start.source
        assert source is not None
        assert isinstance(job.start.blocks, DenseBlocks)
        lost, coded = job.start.blocks.lost, on_host(scan, "RAM")
        plain, raw = (
            GrowingBlocks(part, DenseBlocks(source, scan.layout, value, lost), done)
            for part, value in ((coded.blocks, self.nodata), (coded.raw_blocks, None))
            if isinstance(part, CodedBlocks)
        )
        with self._lock:
            if self._job is not job:
                raise CancelledError("Loading was cancelled")
            self._replace(job.start.growing(scan, plain, raw))

    def know_coarse(self, job: Job, coarse: CoarseScan) -> None:
        """Keep the coarse scan, for images of the whole field (called by the job)."""
        summary = coarse.summary()
        with self._lock:
            if self._job is not job:
                raise CancelledError("Loading was cancelled")
            self.coarse, self._summary = coarse, summary

    def report(self, job: Job, progress: Progress) -> None:
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
        old.close()
        del old
        return held - ledger.total(owner=self.owner)

    def reload(self) -> None:
        """Open the source or the encoded file again after `release`.

        Raises
        ------
        SourceChangedError
            If it is another scan now.
        """
        with self._lock:
            if self._backing.state != "released":
                return
            backing = self._opener(self.allocator)
            form = _form(backing)
            if form != self._form:
                backing.close()
                raise SourceChangedError(
                    f"{self.owner} is another scan now",
                    expected=self._form,
                    found=form,
                    action="Open it again instead of reloading it",
                )
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


def _form(backing: Backing) -> str:
    layout = backing.blocks_for(raw_values=False).layout
    return f"{' x '.join(map(str, (*layout.scan_shape, *layout.detector_shape)))} {layout.dtype}"


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
