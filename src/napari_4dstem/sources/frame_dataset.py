"""One HDF5 dataset of frames: its shape, which frames were written, read some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import DamagedDataError, SourceError
from napari_4dstem.sources.base import convert, native_dtype
from napari_4dstem.sources.chunk_guard import ChunkGuard
from napari_4dstem.sources.chunks import ChunkError
from napari_4dstem.sources.frame_source import where_frame
from napari_4dstem.sources.hdf5 import hdf5_errors, is_dataset, member, open_file

_LONGEST_SIDE = 1 << 16
_LARGEST_FRAME = 1 << 30  # bytes


@dataclass(frozen=True)
class FrameLayout:
    """Shape and type of a dataset of frames.

    Parameters
    ----------
    lead
        The axes in front of the camera's two: (frames,), (frames, channels) or scan (rows, cols).
    detector_shape
        (rows, columns) of one frame.
    stored
        Dtype in the file.
    """

    lead: tuple[int, ...]
    detector_shape: tuple[int, int]
    stored: np.dtype[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype in which counts are given out."""
        return native_dtype(self.stored, "")

    @property
    def words(self) -> str:
        """Size and type of a frame, for messages."""
        return f"{self.detector_shape[0]} x {self.detector_shape[1]} {self.stored}"

    def alike(self, other: FrameLayout) -> bool:
        """Tell whether frames of both can stand in one acquisition."""
        return (self.detector_shape, self.stored) == (other.detector_shape, other.stored)

    @classmethod
    def of(cls, dataset: h5py.Dataset, where: str | Path) -> FrameLayout:
        """Return the layout of a dataset that can be read frame by frame.

        Raises
        ------
        SourceError
            If it is no stack of frames of a sensible size.
        """
        shape = tuple(int(n) for n in dataset.shape or ())
        if len(shape) not in (3, 4):
            raise SourceError(
                "The dataset is no stack of frames", where=where,
                expected="3 or 4 axes, the last two those of the camera",
                found=f"shape {shape} of {dataset.dtype}", action="Choose another dataset",
            )  # fmt: skip
        native_dtype(dataset.dtype, where)
        height, width = shape[-2:]
        sensible = 0 < height <= _LONGEST_SIDE and 0 < width <= _LONGEST_SIDE
        if not sensible or height * width * dataset.dtype.itemsize > _LARGEST_FRAME:
            raise SourceError(
                "The file is damaged: this can be no camera's frame", where=where,
                found=f"shape {shape} of {dataset.dtype}", action="Copy the file again",
            )  # fmt: skip
        return cls(shape[:-2], (height, width), dataset.dtype)


class FrameDataset:
    """An open dataset of frames. Not thread-safe: its owner's gate is.

    Parameters
    ----------
    path, name
        File, and dataset inside it.
    channel
        Index on the second leading axis; None: frames are numbered over all leading axes.
    """

    def __init__(self, path: Path, name: str, channel: int | None = None) -> None:
        self.path, self.name, self.channel = path, name, channel
        self._guard: ChunkGuard | None = None
        self._file = open_file(path)
        try:
            with hdf5_errors(path):
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        dataset = member(self._file, self.name)
        if not is_dataset(dataset):
            raise SourceError(
                "The file holds no counts", where=self.path, expected=f"the dataset {self.name}"
            )
        self.layout = FrameLayout.of(dataset, self.path)
        lead = self.layout.lead
        if self.channel is not None and (len(lead) != 2 or self.channel >= lead[1]):
            raise SourceError(
                "The file does not have the chosen channel", where=self.path,
                expected=f"frames, {self.channel + 1} or more channels, camera rows and columns",
                found=f"shape {dataset.shape}",
            )  # fmt: skip
        if dataset.is_virtual or dataset.external:
            raise SourceError(
                "The counts lie in other files, in a way that is not supported",
                where=f"{self.path}:{self.name}",
                action="Open the files that hold the counts",
            )
        self._dataset = dataset
        if dataset.chunks:
            self._guard = ChunkGuard(dataset, self.path)

    @property
    def count(self) -> int:
        """Number of frames."""
        lead = self.layout.lead
        return lead[0] if self.channel is not None else math.prod(lead)

    def attribute(self, name: str) -> Any:
        """Return an attribute of the dataset, None if there is none."""
        with hdf5_errors(self.path):
            return self._dataset.attrs.get(name)

    def load_filters(self) -> None:
        """Make HDF5 know how to decompress; `MissingDependencyError` if it cannot."""
        if self._guard is not None:
            self._guard.pipeline.load(self.path)

    def written(self) -> NDArray[np.bool_]:
        """Return bool [frames]: whether a frame is in the file, not only its place."""
        if self._guard is None:
            with hdf5_errors(self.path):
                return np.full(self.count, self._dataset.id.get_storage_size() > 0)
        if self._guard.complete():
            return np.ones(self.count, bool)
        stored = self._guard.index.size > 0
        of_frames = [self._guard.numbers(self._lead(f)) for f in range(self.count)]
        return np.array([stored[n.start : n.stop].all() for n in of_frames], bool)

    def _lead(self, frame: int) -> tuple[int, ...]:
        if self.channel is not None:
            return (frame, self.channel)
        lead = self.layout.lead
        return (frame,) if len(lead) == 1 else divmod(frame, lead[1])

    def read(self, first: int, out: NDArray[Any]) -> None:
        """Read frames ``first:first + len(out)`` into `out` (n, H, W) of ``layout.dtype``.

        Raises
        ------
        DamagedDataError
            A frame was not written, or cannot be decoded.
        """
        stored: NDArray[Any] = out
        if self.layout.stored != out.dtype:
            stored = np.empty(out.shape, self.layout.stored)
        self._check_frames(range(first, first + len(out)))
        if len(self.layout.lead) == 1:
            self._transfer(np.s_[first : first + len(out)], stored, first)
        else:
            for i in range(len(out)):
                self._transfer(self._lead(first + i), stored[i], first + i)
        if stored is not out:
            convert(stored, out, where_frame(self.path, first))

    def _check_frames(self, frames: range) -> None:
        if self._guard is None:
            return
        for frame in frames:
            try:
                self._guard.check(self._guard.numbers(self._lead(frame)))
            except ChunkError as error:
                raise self._damaged(frame, str(error)) from error
            except SourceError as error:  # the index of the chunks
                raise self._damaged(frame, error.found or error.what) from error

    def _transfer(self, selection: Any, target: NDArray[Any], frame: int) -> None:
        try:
            with hdf5_errors(self.path):
                self._dataset.read_direct(target, selection)
        except SourceError as error:
            raise self._damaged(frame, error.found or "it cannot be decoded") from error

    def _damaged(self, frame: int, found: str) -> DamagedDataError:
        return DamagedDataError(
            "A recorded pattern is damaged",
            where=where_frame(self.path, frame),
            found=found,
            action="Copy the file again from the detector's computer",
        )

    def close(self) -> None:
        """Close the file."""
        if self._guard is not None:
            self._guard.close()
        with hdf5_errors(self.path):
            self._file.close()
