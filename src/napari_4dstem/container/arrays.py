"""The arrays of an ``.ans4d`` file as they lie on disk: extents and sums checked."""

from __future__ import annotations

import io
import mmap
import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.container.files import is_on_network, lock_shared
from napari_4dstem.container.table import (
    COPY_AGAIN,
    USER_BLOCK,
    ArrayEntry,
    check_extents,
    inside,
    parse_table,
)
from napari_4dstem.errors import ContainerError
from napari_4dstem.ledger import Allocator, Kind

REQUIRED: Final = (
    "stream",
    "positions",
    "block_pos",
    "class_map",
    "classes",
    "freq",
    "block_base",
    "chunk_off",
    "chunk_mode",
    "chunk_crc",
)
"""Arrays without which nothing can be decoded."""
_PIECE = 1 << 26


class ArrayFile:
    """An open file whose table was checked. A context manager; maps outlive it.

    Parameters
    ----------
    path
        An ``.ans4d`` file.
    allocator
        Gives the memory for large arrays when the file has to be read instead of mapped.
    mounts
        Text in the form of ``/proc/mounts``, by default the system's.

    Attributes
    ----------
    table, table_size
        From `parse_table`.
    size
        Bytes of the file now.
    mapped
        Whether `large` gives maps.

    Raises
    ------
    ContainerError
        If it is no such file, a newer one, damaged in its table, or cut off.
    """

    def __init__(
        self, path: Path, *, allocator: Allocator | None = None, mounts: str | None = None
    ) -> None:
        self.path, self._allocator = path, allocator
        self._file = io.FileIO(path)
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self.table, self.table_size = parse_table(self._file.read(USER_BLOCK), path)
            check_extents(self.table, REQUIRED, self.size, path)
            self.mapped = not is_on_network(path, mounts)
            self._map: mmap.mmap | None = None
            if self.mapped:
                lock_shared(self._file)
                # From 0: systems differ in the multiples at which a map may begin.
                self._map = mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def required(self, name: str) -> NDArray[Any]:
        """Return one of the `REQUIRED` arrays but the stream, read and checked."""
        array = self.read(self.entry(name))
        if not is_intact(self.entry(name), array):
            raise ContainerError(
                f"The array {name!r}, without which nothing can be decoded, is damaged",
                where=self.path,
                action=COPY_AGAIN,
            )
        return array

    def optional(self, name: str, *, kind: Kind | None = None) -> NDArray[Any] | None:
        """Return an array that is there and intact, else None.

        Parameters
        ----------
        kind
            If given, the array is large: it is mapped, or its memory booked as this.
        """
        entry = self.table.find(name)
        if entry is None or not inside(entry, self.size):
            return None
        array = self.read(entry) if kind is None else self.large(entry, kind)
        return array if is_intact(entry, array) else None

    def entry(self, name: str) -> ArrayEntry:
        """Return the table's entry of an array that is there."""
        entry = self.table.find(name)
        if entry is None:
            raise KeyError(name)
        return entry

    def read(self, entry: ArrayEntry) -> NDArray[Any]:
        """Read an array whose extent was checked; its checksum is not looked at."""
        array: NDArray[Any] = np.empty(entry.shape, entry.numpy_dtype)
        return self._fill(entry, array)

    def large(self, entry: ArrayEntry, kind: Kind) -> NDArray[Any]:
        """Map an array whose extent was checked, or read it if the file must not be mapped."""
        dtype = entry.numpy_dtype
        if self._map is not None and entry.offset % dtype.itemsize == 0 and entry.nbytes:
            count = entry.nbytes // dtype.itemsize
            return np.frombuffer(self._map, dtype, count, entry.offset).reshape(entry.shape)
        if self._allocator is None:
            return self.read(entry)
        return self._fill(entry, self._allocator.empty(kind, entry.shape, dtype))

    def bytes_between(self, begin: int, end: int) -> bytes:
        """Read bytes of the file, fewer at its end."""
        self._file.seek(begin)
        parts = []
        while begin < end and (part := self._file.read(min(end - begin, _PIECE))):
            parts.append(part)
            begin += len(part)
        return b"".join(parts)

    def _fill(self, entry: ArrayEntry, array: NDArray[Any]) -> NDArray[Any]:
        if array.size:
            self._file.seek(entry.offset)
            rest = array.reshape(-1).view(np.uint8).data
            while rest.nbytes:
                got = self._file.readinto(rest[:_PIECE])
                if not got:
                    raise ContainerError(
                        f"The file ended while the array {entry.name!r} was read",
                        where=self.path,
                        action=COPY_AGAIN,
                    )
                rest = rest[got:]
        return array.astype(array.dtype.newbyteorder("="), copy=False)


def is_intact(entry: ArrayEntry, array: NDArray[Any]) -> bool:
    """Return whether the bytes of an array have the checksum of the table."""
    stored = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return (zlib.crc32(stored.data) if array.size else 0) == entry.crc
