"""Where the chunks of a dataset lie, and a check of each before HDF5 may decode it.

The stored bytes are read beside HDF5, at the place its index names, and looked at by
:mod:`napari_4dstem.sources.chunks`. The index itself is not trusted either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import SourceError
from napari_4dstem.sources.chunks import ChunkError, Pipeline
from napari_4dstem.sources.hdf5 import hdf5_errors

# Chunks that were never written take no space: a bound on nonsense only.
_MOST_CHUNKS_PER_BYTE = 1100


@dataclass(frozen=True)
class ChunkIndex:
    """Place of every chunk of a dataset, by its flat number in the grid of chunks.

    Attributes
    ----------
    offset, size
        int64 [chunks], bytes; size 0: the chunk was never written.
    skipped
        int64 [chunks]: filter masks.
    """

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    skipped: NDArray[np.int64]

    @classmethod
    def of(cls, dataset: h5py.Dataset, grid: tuple[int, ...]) -> ChunkIndex:
        """Read the index of a chunked dataset."""
        offset, size, skipped = (np.zeros(math.prod(grid), np.int64) for _ in range(3))
        chunks = dataset.chunks

        def note(info: Any) -> None:
            place = tuple(o // c for o, c in zip(info.chunk_offset, chunks, strict=True))
            if all(0 <= p < n for p, n in zip(place, grid, strict=True)):
                number = int(np.ravel_multi_index(place, grid))
                offset[number] = min(info.byte_offset, np.iinfo(np.int64).max)
                size[number], skipped[number] = info.size, info.filter_mask

        dataset.id.chunk_iter(note)
        return cls(offset, size, skipped)


class ChunkGuard:
    """Checks chunks of one chunked dataset. Not thread-safe.

    Parameters
    ----------
    dataset, path
        An open dataset, and the file that it lies in.
    """

    def __init__(self, dataset: h5py.Dataset, path: Path) -> None:
        self.path, self.chunks = path, tuple(int(n) for n in dataset.chunks)
        self.pipeline = Pipeline.of(dataset, path)
        self.grid = tuple(-(-n // c) for n, c in zip(dataset.shape, self.chunks, strict=True))
        self._dataset = dataset
        self._size = path.stat().st_size
        if math.prod(self.grid) > self._size * _MOST_CHUNKS_PER_BYTE:
            raise SourceError(
                "The file is damaged: its size does not fit its shape", where=path,
                found=f"shape {dataset.shape} in {self._size} bytes", action="Copy the file again",
            )  # fmt: skip
        self._raw = path.open("rb", buffering=0)
        self._index: ChunkIndex | None = None
        self._sound: set[int] = set()

    @property
    def index(self) -> ChunkIndex:
        """Where the chunks lie; built once, when first needed."""
        if self._index is None:
            with hdf5_errors(self.path):
                self._index = ChunkIndex.of(self._dataset, self.grid)
        return self._index

    def complete(self) -> bool:
        """Tell whether as many chunks were written as the shape needs."""
        with hdf5_errors(self.path):
            return bool(self._dataset.id.get_num_chunks() == math.prod(self.grid))

    def numbers(self, lead: tuple[int, ...]) -> range:
        """Return the flat numbers of all chunks at element indices `lead` on the first axes."""
        first = 0
        for index, chunk, count in zip(lead, self.chunks, self.grid, strict=False):
            first = first * count + index // chunk
        rest = math.prod(self.grid[len(lead) :])
        return range(first * rest, (first + 1) * rest)

    def check(self, numbers: range) -> None:
        """Check the bytes of some chunks; loads the decompression filters if they need them.

        Raises
        ------
        ChunkError
            A chunk is not there or must not be decoded.
        """
        self.pipeline.load(self.path)
        for n in numbers:
            if n not in self._sound:
                self._check_one(n)
                # Chunks of one frame are read once or seldom; only others are worth remembering.
                if self.chunks[0] > 1:
                    self._sound.add(n)

    def _check_one(self, n: int) -> None:
        offset, size = int(self.index.offset[n]), int(self.index.size[n])
        if size == 0:
            raise ChunkError("it was never written")
        if offset < 0 or offset + size > self._size:
            raise ChunkError("it would lie outside the file")
        self._raw.seek(offset)
        data = self._raw.read(size)
        if len(data) != size:
            raise ChunkError("the file ends inside it")
        self.pipeline.check(data, int(self.index.skipped[n]))

    def close(self) -> None:
        """Close the file that the stored bytes are read from."""
        self._raw.close()


def read_array(dataset: h5py.Dataset, path: Path, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return a small array such as a pixel mask, None if its shape is another one.

    Raises
    ------
    SourceError
        If it is damaged.
    """
    if dataset.shape != shape or dataset.is_virtual or dataset.external:
        return None
    with hdf5_errors(path):
        if dataset.chunks:
            guard = ChunkGuard(dataset, path)
            try:
                guard.check(guard.numbers(()))
            except ChunkError as error:
                text = "An array in the header of the file is damaged"
                raise SourceError(text, where=f"{path}:{dataset.name}", found=str(error)) from error
            finally:
                guard.close()
        result: NDArray[Any] = dataset[()]
        return result
