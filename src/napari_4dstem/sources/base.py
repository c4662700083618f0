"""What every source is: the answer of `inspect`, the options of `open_source`, the protocol.

Loading, the acquisition and the screens know sources only through the types of this module.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from napari_4dstem.calibration import Calibration
from napari_4dstem.errors import SourceChangedError, SourceError

# A bulk read holds the gate for at most this much: so long can a cursor read have to wait.
PIECE_PATTERNS = 16
PIECE_BYTES = 2 << 20

_EXACT = {"u1", "u2", "u4", "i1", "i2", "i4", "f4"}
_WIDENED = {"b1": "u1", "f2": "f4", "f8": "f4"}


@dataclass(frozen=True)
class OpenOptions:
    """What a user may say about a source before it is opened.

    Parameters
    ----------
    scan_shape
        (rows, columns); None: by the rule of :mod:`napari_4dstem.sources.scan_shape`.
    frame_offset
        Frames to skip before the first scan position; negative: that many positions at the
        beginning of the scan were never recorded.
    flyback
        Extra frames at the end of each scan row, left out.
    partial
        Open what was recorded although frames are missing.
    dataset
        Path of the dataset inside the file, where there are several.
    channel
        Which channel (energy threshold) of a file that holds several; None: the first.
    """

    scan_shape: tuple[int, int] | None = None
    frame_offset: int = 0
    flyback: int = 0
    partial: bool = False
    dataset: str | None = None
    channel: int | None = None


class SourceInfo(BaseModel):
    """What the headers of a source say. Made by `inspect`, which reads no counts.

    Attributes
    ----------
    ready, reason, action
        If it cannot be opened as it stands: why, and what to do about it.
    scan_shape
        (rows, columns), None where the user has to say.
    scan_shape_origin
        "given", "sidecar", "attribute", "4D dataset", "perfect square (guessed)", or "".
    scan_shape_candidates
        All (rows, columns) with the right number of positions, nearest to square first.
    detector_shape, dtype
        Of one pattern; native byte order.
    frames_found, frames_expected
        Frames in the files, and frames that the detector was told to record (None: not known).
    stored_bytes
        Size of the files that hold the counts.
    nodata
        The value that marks a pixel without a count, None if there is none.
    mask
        bool, detector shape; True where the file's own rule masks the pixel. None: no mask.
    files, missing_files
        Files that hold counts, and those that ought to be there and cannot be read.
    partial_possible
        Whether ``OpenOptions(partial=True)`` would open what there is.
    problems
        Sentences for the user about what is odd but does not prevent opening.
    channels
        Names of the channels, where the file holds several.
    metadata
        Facts for display, in words.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    path: Path
    format: str
    ready: bool = True
    reason: str = ""
    action: str = ""
    scan_shape: tuple[int, int] | None = None
    scan_shape_origin: str = ""
    scan_shape_guessed: bool = False
    scan_shape_candidates: tuple[tuple[int, int], ...] = ()
    detector_shape: tuple[int, int]
    dtype: np.dtype[Any]
    frames_found: int
    frames_expected: int | None = None
    stored_bytes: int
    nodata: int | None = None
    calibration: Calibration = Field(default_factory=Calibration)
    mask: NDArray[np.bool_] | None = None
    files: tuple[Path, ...] = ()
    missing_files: tuple[Path, ...] = ()
    partial_possible: bool = False
    problems: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    metadata: dict[str, str] = Field(default_factory=dict)


class Source(Protocol):
    """An open detector file. All methods may be called from any thread."""

    @property
    def info(self) -> SourceInfo:
        """What `inspect` said, with the options it was opened with."""
        ...

    @property
    def scan_shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        ...

    @property
    def detector_shape(self) -> tuple[int, int]:
        """(rows, columns) of one pattern."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the counts, native byte order."""
        ...

    @property
    def recorded(self) -> NDArray[np.bool_]:
        """bool, scan shape: which positions have a pattern in the files."""
        ...

    def read(self, row: int, columns: range, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read patterns of one scan row, in small pieces, stepping back for the cursor.

        Parameters
        ----------
        row, columns
            Scan positions; all of them must be recorded. `columns` has step 1.
        out
            (len(columns), H, W) of this source's dtype, C order; None: a new array.

        Raises
        ------
        IndexError
            A position lies outside the scan or was not recorded.
        DamagedDataError
            A pattern cannot be decoded.
        """
        ...

    def pattern(self, row: int, column: int) -> NDArray[Any]:
        """Return one pattern (H, W), ahead of all bulk reads. Errors as in :meth:`read`."""
        ...

    def check_unchanged(self) -> None:
        """Raise `SourceChangedError` if a file was rewritten since it was opened."""
        ...

    def close(self) -> None:
        """Close all files; later calls do nothing."""
        ...


@dataclass(frozen=True)
class FileIdentity:
    """How a file is recognised: another size, time or inode is another file."""

    path: Path
    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> FileIdentity:
        """Return the identity that `path` has now."""
        return cls._from_stat(path, path.stat())

    @classmethod
    def _from_stat(cls, path: Path, stat: os.stat_result) -> FileIdentity:
        return cls(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)

    def check(self) -> None:
        """Raise `SourceChangedError` unless the file is still the same."""
        action = "Close it and open it again"
        try:
            now = FileIdentity.of(self.path)
        except OSError as error:
            raise SourceChangedError(
                "A file disappeared while it was open",
                where=self.path,
                found=error.strerror,
                action=action,
            ) from error
        if now != self:
            raise SourceChangedError(
                "A file changed while it was open",
                where=self.path,
                expected=f"{self.size} bytes, unchanged since it was opened",
                found=f"{now.size} bytes, written again",
                action=action,
            )


def native_dtype(stored: np.dtype[Any], where: str | Path) -> np.dtype[Any]:
    """Return the dtype in which values of dtype `stored` are given out, exactly.

    Integers up to 32 bit and float32 keep their kind, in native byte order; bool becomes uint8,
    float16 float32. float64 becomes float32, which :func:`convert` does only if it is exact.

    Raises
    ------
    SourceError
        For any other dtype.
    """
    code = f"{stored.kind}{stored.itemsize}"
    if code in _EXACT:
        return np.dtype(code)
    if code in _WIDENED:
        return np.dtype(_WIDENED[code])
    raise SourceError(
        f"Counts of type {stored} cannot be kept exactly",
        where=where,
        expected="integers of 8, 16 or 32 bit, or float32",
        found=str(stored),
        action="Convert the file to one of these types first",
    )


def convert(stored: NDArray[Any], out: NDArray[Any], where: str | Path) -> None:
    """Copy `stored` into `out` (dtype by :func:`native_dtype`), bit for bit or not at all.

    Raises
    ------
    SourceError
        If a float64 value does not fit float32 exactly.
    """
    if stored.dtype.kind == "f" and stored.dtype.itemsize > out.dtype.itemsize:
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(out, stored, casting="same_kind")
        exact = (out == stored) | (np.isnan(out) & np.isnan(stored))
        if not exact.all():
            raise SourceError(
                "float64 values are not exact as float32",
                where=where,
                expected="values that float32 holds exactly",
                found=f"for example {stored[~exact].flat[0]!r}",
                action="Convert the file to float32 first, if the difference does not matter",
            )
        return
    np.copyto(out, stored, casting="safe")
