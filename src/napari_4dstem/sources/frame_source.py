"""The common part of all open sources: positions to frames, the gate, small pieces, closing.

A format only says how to read a few frames that follow each other and how to close its files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import ReleasedError, UsageError
from napari_4dstem.sources.base import PIECE_BYTES, PIECE_PATTERNS, SourceInfo
from napari_4dstem.sources.gate import Gate
from napari_4dstem.sources.scan_shape import ScanPlan, check_position


class FrameSource(ABC):
    """An open source of numbered frames; a :class:`~napari_4dstem.sources.base.Source`.

    Parameters
    ----------
    info
        What `inspect` said.
    plan
        A plan that is ready.
    """

    def __init__(self, info: SourceInfo, plan: ScanPlan) -> None:
        assert plan.map is not None
        assert plan.recorded is not None
        self.info = info
        self.recorded: NDArray[np.bool_] = plan.recorded
        self.recorded.flags.writeable = False
        self.scan_shape = plan.map.shape
        self.detector_shape = info.detector_shape
        self.dtype = info.dtype
        self.gate = Gate()
        self._map = plan.map
        self._closed = False
        nbytes = self.detector_shape[0] * self.detector_shape[1] * self.dtype.itemsize
        self._piece = max(1, min(PIECE_PATTERNS, PIECE_BYTES // nbytes))

    @abstractmethod
    def _read_frames(self, first: int, out: NDArray[Any]) -> None:
        """Read frames ``first:first + len(out)``; called inside the gate."""

    @abstractmethod
    def _close_files(self) -> None:
        """Close all files; called once, inside the gate."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise `SourceChangedError` if a file was rewritten since it was opened."""

    def read(self, row: int, columns: range, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read patterns of one scan row; see :meth:`napari_4dstem.sources.base.Source.read`."""
        self._check_recorded(row, columns)
        out = self._output(len(columns), out)
        for start in range(0, len(columns), self._piece):
            piece = out[start : start + self._piece]
            with self.gate.bulk():
                self._check_open()
                self._read_frames(self._map.frame(row, columns.start + start), piece)
        return out

    def pattern(self, row: int, column: int) -> NDArray[Any]:
        """Return one pattern; see :meth:`napari_4dstem.sources.base.Source.pattern`."""
        self._check_recorded(row, range(column, column + 1))
        out = self._output(1, None)
        with self.gate.cursor():
            self._check_open()
            self._read_frames(self._map.frame(row, column), out)
        return out[0]  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close all files; waits for the piece being read, not for the whole read."""
        with self.gate.cursor():
            if not self._closed:
                self._closed = True
                self._close_files()

    def _check_open(self) -> None:
        if self._closed:
            raise ReleasedError("The file was closed", where=self.info.path)

    def _check_recorded(self, row: int, columns: range) -> None:
        check_position(self.scan_shape, row, columns)
        recorded = self.recorded[row, columns.start : columns.stop]
        if not recorded.all():
            column = columns.start + int(np.argmin(recorded))
            raise IndexError(f"scan position ({row}, {column}) was not recorded")

    def _output(self, count: int, out: NDArray[Any] | None) -> NDArray[Any]:
        shape = (count, *self.detector_shape)
        if out is None:
            return np.empty(shape, self.dtype)
        if out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise UsageError(
                "The array to read into does not fit",
                where=self.info.path,
                expected=f"{shape} of {self.dtype}, C order",
                found=f"{out.shape} of {out.dtype}",
            )
        return out


def where_frame(path: Path, frame: int) -> str:
    """Return the name of a frame for an error."""
    return f"{path}, frame {frame}"
