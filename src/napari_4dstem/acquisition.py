"""`Acquisition`: one recorded scan, opened, with its state and the memory that it holds."""

from __future__ import annotations

import sys
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.calibration import Calibration
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.comparing import Comparison, compare
from napari_4dstem.container import ContainerHeader, SourceIdentity, write
from napari_4dstem.errors import FourDStemError, SaveError
from napari_4dstem.exporting import ExportFacts, export
from napari_4dstem.ledger import ledger
from napari_4dstem.loading.backing import Place, State
from napari_4dstem.loading.events import AcquisitionEvents, Progress
from napari_4dstem.loading.open_file import Opened, is_encoded, open_file, scan_name
from napari_4dstem.scan_reader import Advance, Cancelled, ScanReader
from napari_4dstem.sources import OpenOptions, SourceInfo

open_acquisitions: weakref.WeakSet[Acquisition] = weakref.WeakSet()
"""Every acquisition of this process that is still referred to: the rows of the memory meter."""


class Acquisition(ScanReader):
    """One recorded scan. Made by `open` and `load`.

    Axes are (scan row, scan column, camera row, camera column), in file order. Everything may be
    called from any thread.

    Parameters
    ----------
    path
        The file it was opened from.
    options
        How its source is to be read.
    mask
        "file": the file's own mask. An array: bool [H, W], True = masked. None: raw values,
        nothing is left out of sums, not even overloads.
    device
        What decodes the patterns once they are encoded; see `open`.

    Examples
    --------
    >>> from importlib.resources import files
    >>> import napari_4dstem as n4
    >>> with n4.load(files("napari_4dstem") / "data" / "sim_sto.ans4d") as acq:
    ...     acq.image(n4.Circle((51, 43), 17.5)).shape
    (32, 32)
    """

    def __init__(
        self,
        path: str | Path,
        options: OpenOptions | None = None,
        mask: Literal["file"] | NDArray[np.bool_] | None = "file",
        device: str = "auto",
    ) -> None:
        self.path = Path(path)
        self._opened: Opened = open_file(self.path, options or OpenOptions(), device)
        super().__init__(scan_name(self.path), self._opened.life)
        self._calibration = self._opened.calibration
        try:
            self.mask = self._file_mask() if isinstance(mask, str) else mask
        except BaseException:
            self._life.release()
            raise
        weakref.finalize(self, self._life.shutdown)
        self._preparing: threading.Thread | None = None
        open_acquisitions.add(self)

    def _file_mask(self) -> NDArray[np.bool_]:
        stored = self._opened.mask
        return np.zeros(self.detector_shape, bool) if stored is None else stored

    # ---- what it is

    @property
    def info(self) -> SourceInfo | None:
        """What the source's headers say; None for an encoded file."""
        return self._opened.info

    @property
    def calibration(self) -> Calibration:
        """Sizes of the axes; unknown stays None. Can be set."""
        return self._calibration

    @calibration.setter
    def calibration(self, value: Calibration) -> None:
        self._calibration = value
        self.events.changed.emit()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is odd or was found damaged, in sentences."""
        return self._opened.problems + self._life.problems

    # ---- where it is

    @property
    def state(self) -> State:
        """``source``, ``partial`` (being encoded), ``encoded`` or ``released``."""
        return self._life.backing.state

    @property
    def place(self) -> Place:
        """Where the patterns are: ``source``, ``RAM``, ``disk``, ``GPU`` or ``none``."""
        return self._life.backing.place

    store = place

    @property
    def device(self) -> str:
        """Device that decodes the encoded patterns: ``cpu``, ``cuda:0``, ``mps`` ..."""
        return self._opened.device

    @property
    def owner(self) -> str:
        """Name under which the ledger books the bytes of this acquisition."""
        return self._life.owner

    @property
    def resident_bytes(self) -> int:
        """Bytes held in memory for this acquisition, everything included."""
        return ledger.total(owner=self.owner)

    @property
    def encoded_bytes(self) -> int:
        """Bytes of the encoded form without index; 0 while there is none."""
        scan = self._life.backing.scan
        return 0 if scan is None else scan.nbytes

    @property
    def logical_bytes(self) -> int:
        """Bytes of all recorded patterns as plain numbers."""
        return self._layout.n_positions * self._layout.n_pixels * self.dtype.itemsize

    @property
    def progress(self) -> Progress:
        """How far encoding is."""
        return self._life.progress

    @property
    def events(self) -> AcquisitionEvents:
        """Signals; emitted from worker threads."""
        return self._life.events

    # ---- life

    def encode(self, *, wait: bool = False) -> Self:
        """Encode in the background, or read an encoded file into RAM if it fits there.

        With `wait`, return when it is done.

        Raises
        ------
        FourDStemError
            With `wait`: what went wrong.
        """
        failures: list[Exception] = []
        self.events.failed.connect(failures.append)
        try:
            thread = self._life.encode(self._masked)
            if wait and thread is not None:
                thread.join()
        finally:
            self.events.failed.disconnect(failures.append)
        if failures:
            raise failures[0]
        return self

    @property
    def ready(self) -> bool:
        """Whether a pattern can be had at once; else `prepare` first, outside the screen's thread.

        Only an encoded file opened in a fresh process is not: its decoder has to be compiled.
        """
        if self.state in ("source", "released"):
            return True
        if "numba" not in sys.modules:
            return False
        from napari_4dstem.codec.readiness import is_ready

        return is_ready(self.dtype)

    def prepare(self) -> threading.Thread | None:
        """Compile the decoder in the background; `events.changed` tells when it is ready.

        Returns
        -------
        threading.Thread or None
            None if there is nothing to do.
        """
        if self.ready:
            return None
        if self._preparing is None or not self._preparing.is_alive():
            self._preparing = threading.Thread(target=self._prepare, name="n4-jit", daemon=True)
            self._preparing.start()
        return self._preparing

    def _prepare(self) -> None:
        from napari_4dstem.codec.readiness import warm_up

        warm_up(self.dtype)
        self.events.changed.emit()

    def cancel(self, *, wait: bool = True) -> None:
        """Stop encoding and go back to the source."""
        self._life.cancel(wait=wait)

    def release(self) -> int:
        """Give all memory back; return the bytes freed. `reload` opens it again."""
        return self._life.release()

    def reload(self) -> Self:
        """Open it again after `release`, and encode it or read it into RAM in the background."""
        self._life.reload()
        return self.encode()

    @property
    def can_reload(self) -> bool:
        """Whether the file it came from is still there."""
        return self.path.exists()

    @property
    def reload_cost(self) -> str:
        """What `reload` takes, in words."""
        kind = "opened at once" if is_encoded(self.path) else "read and encoded again"
        return f"{self.path.name}, {kind}"

    def close(self) -> None:
        """Release everything for good."""
        self._life.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        return f"<Acquisition {self.name}: {size} {self.dtype}, {self.state} ({self.place})>"

    def save(self, path: str | Path) -> None:
        """Save as an ``.ans4d`` file, encoding first if need be.

        Raises
        ------
        SaveError
            The target is then as it was before.
        """
        self.encode(wait=True)
        with self._life.lease() as backing:
            if backing.scan is None or backing.state != "encoded":
                raise FourDStemError(
                    "There is nothing to save: encoding was cancelled", action="Encode it first"
                )
            write(path, backing.scan, self._header(backing.scan))

    def _header(self, scan: EncodedScan) -> ContainerHeader:
        opened = self._opened
        source = opened.header.source if opened.header is not None else None
        if opened.info is not None:
            source = SourceIdentity(name=self.path.name, size=opened.info.stored_bytes)
        return ContainerHeader.of(
            scan,
            calibration=self.calibration.to_json(),
            mask=self._mask if self._mask is not None else opened.mask,
            source=source,
            problems=self.problems,
            metadata=(opened.info.metadata if opened.info is not None else {}),
        )

    def decode(
        self,
        path: str | Path,
        *,
        progress: Advance | None = None,
        cancelled: Cancelled | None = None,
    ) -> NDArray[np.bool_]:
        """Write all patterns as plain numbers to an ``.h5`` or ``.npy`` file; see `export`.

        Returns
        -------
        NDArray
            Bool, scan shape: positions that were written; the others have no (intact) data.

        Raises
        ------
        SaveError
            Also if the scan would be written over the file that it is read from.
        """
        self._refuse_own_file(Path(path))
        opened = self._opened
        with self._life.lease() as backing:
            scan = backing.scan if backing.state == "encoded" else None
            facts = ExportFacts(
                calibration=self.calibration,
                mask=self._mask if self._mask is not None else opened.mask,
                nodata=self._life.nodata if scan is None else scan.values.nodata,
                metadata=dict((opened.info or opened.header).metadata),  # type: ignore[union-attr]
                # The other form is larger than the encoded one.
                least_bytes=0 if scan is None else scan.nbytes,
            )
            blocks = backing.blocks_for(raw_values=False)
            return export(path, blocks, facts, progress=progress, cancelled=cancelled)

    def _refuse_own_file(self, target: Path) -> None:
        info = self.info
        own = (self.path, *(info.files if info is not None else ()))
        if target.exists() and any(f.exists() and f.samefile(target) for f in own):
            raise SaveError(
                "This file holds the scan itself", where=target, action="Choose another name"
            )

    def compare(
        self,
        other: Acquisition,
        *,
        progress: Advance | None = None,
        cancelled: Cancelled | None = None,
    ) -> Comparison:
        """Compare all patterns with those of another acquisition, bit for bit."""
        with self._life.lease() as mine, other._life.lease() as theirs:
            return compare(
                mine.blocks_for(raw_values=False),
                theirs.blocks_for(raw_values=False),
                progress=progress,
                cancelled=cancelled,
            )
