"""The HDF5 part of an ``.ans4d`` file: HDF5's own bytes around arrays that we write ourselves.

HDF5 lays out the datasets in a file that exists only in memory and holds nothing but its few KiB
of structure. All writing to disk is then ours, so that a full disk is an ordinary error of the
system instead of a half-closed HDF5 file.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_4dstem.container.table import USER_BLOCK
from napari_4dstem.errors import MissingDependencyError

ALIGNMENT = 4096
"""Arrays of at least this many bytes begin at a multiple of it."""


@dataclass(frozen=True)
class Dataset:
    """One dataset to lay out.

    Parameters
    ----------
    shape, dtype
        Of the array.
    description
        One line for people who look at the file with an HDF5 program.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    description: str


@dataclass(frozen=True)
class Skeleton:
    """HDF5's structure.

    Parameters
    ----------
    pieces
        (offset, bytes) to write.
    offsets
        First byte of each dataset's array; 0 for empty ones.
    size
        Bytes of the whole file.
    """

    pieces: list[tuple[int, bytes]]
    offsets: dict[str, int]
    size: int


class _SparseFile(io.RawIOBase):
    """A file in memory of which only the written bytes exist; the rest reads as zero."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, bytes]] = []
        self.size = 0
        self._at = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = base + offset
        return self._at

    def truncate(self, size: int | None = None) -> int:
        self.size = self._at if size is None else size
        return self.size

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self.pieces.append((self._at, piece))
        self._at += len(piece)
        self.size = max(self.size, self._at)
        return len(piece)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))
        begin, end = self._at, self._at + len(view)
        for offset, piece in self.pieces:  # later writes lie over earlier ones
            low, high = max(begin, offset), min(end, offset + len(piece))
            if low < high:
                view[low - begin : high - begin] = piece[low - offset : high - offset]
        self._at = end
        return len(view)


def make_skeleton(datasets: Mapping[str, Dataset], attributes: Mapping[str, str]) -> Skeleton:
    """Lay out contiguous, uncompressed, aligned datasets behind the user block.

    Parameters
    ----------
    datasets
        By HDF5 path without the leading slash; they lie in the file in this order.
    attributes
        Of the root group. They are written as fixed-length bytes: variable-length strings would
        lie in HDF5's global heap, which has no checksum.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(
            "Saving an encoded scan needs h5py", action="Install it: pip install h5py"
        ) from error
    file = _SparseFile()
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    access.set_alignment(ALIGNMENT, ALIGNMENT)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, file)
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_userblock(USER_BLOCK)
    creation.set_obj_track_times(False)  # the same scan gives the same file
    offsets = {}
    identity = h5py.h5f.create(b"ans4d", h5py.h5f.ACC_TRUNC, creation, access)
    with h5py.File(identity) as handle:
        for name, value in attributes.items():
            handle.attrs[name] = np.bytes_(value.encode())
        for name, dataset in datasets.items():
            offsets[name] = _create(handle, name, dataset)
    return Skeleton(file.pieces, offsets, file.size)


def _create(handle: Any, name: str, dataset: Dataset) -> int:
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.CONTIGUOUS)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    folder, _, leaf = name.rpartition("/")
    group = _group(handle, folder) if folder else handle
    identity = h5py.h5d.create(
        group.id,
        leaf.encode(),
        h5py.h5t.py_create(dataset.dtype),
        h5py.h5s.create_simple(dataset.shape),
        creation,
    )
    h5py.Dataset(identity).attrs["description"] = np.bytes_(dataset.description.encode())
    return int(identity.get_offset()) if np.prod(dataset.shape) else 0


def _group(handle: Any, name: str) -> Any:
    import h5py

    if name not in handle:
        creation = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
        creation.set_obj_track_times(False)
        h5py.h5g.create(handle.id, name.encode(), gcpl=creation)
    return handle[name]
