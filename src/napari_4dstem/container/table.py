"""The table in front of an ``.ans4d`` file: all that is needed to open it without HDF5.

The first 64 KiB are the HDF5 user block, which HDF5 skips. It holds a magic number, the format
version and a checksummed JSON table of every array in the file, so that a scan opens in about a
millisecond and every extent can be checked before a byte of it is touched.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from napari_4dstem.codec.value_map import ValueKind, ValueMap
from napari_4dstem.errors import ContainerError

MAGIC: Final = b"ANS4D\r\n\x1a"
"""First bytes of a file; the line ends reveal a transfer in text mode."""
FORMAT_VERSION: Final = 1
USER_BLOCK: Final = 1 << 16
"""Bytes in front of the HDF5 part."""
MAX_POSITIONS: Final = 1 << 32
"""Scan positions are numbered with 32 bits."""
FEATURES: Final[frozenset[str]] = frozenset()
"""Names this version understands in `requires`; files of version 1 need none."""

_PREFIX = struct.Struct("<8sIII")  # magic, version, length of the JSON, CRC-32 of all three
_ARRAY_DTYPE = re.compile(r"<[uif][248]|\|[ui]1")
_SOURCE_DTYPES = ("|u1", "<u2", "<u4", "|i1", "<i2", "<i4", "<f4")
COPY_AGAIN = "Copy the file again from where it came from, or encode the scan again"
_UPDATE = "Update napari-4dstem"


class ArrayEntry(BaseModel):
    """Where one array lies.

    Parameters
    ----------
    name
        Its HDF5 path without the leading slash.
    dtype
        NumPy's short form, little-endian: ``<u4``.
    shape
        Its shape.
    offset
        First byte, from the start of the file.
    crc
        CRC-32 of its bytes; None for the coded stream, whose chunks have their own.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    dtype: str
    shape: tuple[NonNegativeInt, ...]
    offset: NonNegativeInt
    crc: NonNegativeInt | None = None

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype; names other than plain little-endian numbers are refused."""
        if not _ARRAY_DTYPE.fullmatch(self.dtype):
            raise ContainerError(
                f"The array {self.name!r} has an unknown data type",
                expected="little-endian numbers of 1 to 8 bytes",
                found=self.dtype,
                action=_UPDATE,
            )
        return np.dtype(self.dtype)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.numpy_dtype.itemsize

    @property
    def end(self) -> int:
        """First byte after the array, from the start of the file."""
        return self.offset + self.nbytes


class ValuesEntry(BaseModel):
    """The `ValueMap` of the scan as it is written."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    kind: ValueKind
    offset: int = 0
    scale: float = 1.0
    nodata: int | None = None

    def value_map(self) -> ValueMap:
        """Return the codec's own form."""
        return ValueMap(self.kind, self.offset, self.scale, self.nodata)


class FileTable(BaseModel):
    """What the user block says about the file.

    Parameters
    ----------
    requires
        Names of what a reader has to understand to decode the file.
    scan_shape, detector_shape, dtype, passes, tile
        As in `ScanLayout`; `dtype` in NumPy's short form.
    values
        The value map.
    file_size
        Bytes of the whole file.
    gaps_crc
        CRC-32 of all bytes behind the user block that belong to no array (HDF5's own).
    arrays
        Every array of the file.
    """

    model_config = ConfigDict(frozen=True)

    requires: tuple[str, ...] = ()
    scan_shape: tuple[PositiveInt, PositiveInt]
    detector_shape: tuple[PositiveInt, PositiveInt]
    dtype: str
    passes: PositiveInt
    tile: PositiveInt
    values: ValuesEntry
    file_size: NonNegativeInt
    gaps_crc: NonNegativeInt
    arrays: tuple[ArrayEntry, ...]

    def find(self, name: str) -> ArrayEntry | None:
        """Return the entry of an array, or None if the file has no such array."""
        return next((a for a in self.arrays if a.name == name), None)

    def gaps(self) -> list[tuple[int, int]]:
        """Return the byte ranges behind the user block that belong to no array."""
        gaps, at = [], USER_BLOCK
        for entry in sorted(self.arrays, key=lambda a: a.offset):
            if entry.nbytes == 0:
                continue
            if entry.offset > at:
                gaps.append((at, entry.offset))
            at = max(at, entry.end)
        if self.file_size > at:
            gaps.append((at, self.file_size))
        return gaps


def pack_table(table: FileTable) -> bytes:
    """Return the bytes at the start of the file; what follows up to 64 KiB is zero.

    Raises
    ------
    ValueError
        If the table does not fit: large things belong into arrays.
    """
    body = table.model_dump_json().encode()
    if _PREFIX.size + len(body) > USER_BLOCK:
        raise ValueError(f"the table needs {len(body)} bytes, more than the user block holds")
    crc = _table_crc(FORMAT_VERSION, body)
    return _PREFIX.pack(MAGIC, FORMAT_VERSION, len(body), crc) + body


def _table_crc(version: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(struct.pack("<8sII", MAGIC, version, len(body))))


def parse_table(block: bytes, path: Path) -> tuple[FileTable, int]:
    """Read the table from the first 64 KiB of a file.

    Parameters
    ----------
    block
        The first `USER_BLOCK` bytes, or all if the file is shorter.
    path
        Named in errors.

    Returns
    -------
    table, size
        The table, and how many of the bytes it takes.

    Raises
    ------
    ContainerError
        If this is no such file, a newer one, or the table is damaged.
    """
    if len(block) < _PREFIX.size or block[: len(MAGIC)] != MAGIC:
        raise ContainerError(
            "This is not an encoded scan",
            where=path,
            expected="a file that begins with the mark of .ans4d files",
            found=_first_bytes(block),
            action="Open a file that napari-4dstem has saved; if it is one, it is damaged: "
            + COPY_AGAIN[0].lower()
            + COPY_AGAIN[1:],
        )
    _, version, length, crc = _PREFIX.unpack_from(block)
    if version != FORMAT_VERSION:
        raise ContainerError(
            "The file was written by a newer version of napari-4dstem, or its head is damaged",
            where=path,
            expected=f"format version {FORMAT_VERSION}",
            found=f"format version {version}",
            action=_UPDATE,
        )
    body = block[_PREFIX.size : _PREFIX.size + length]
    if len(body) != length or _table_crc(version, body) != crc:
        raise ContainerError(
            "The table of contents of the file is damaged", where=path, action=COPY_AGAIN
        )
    return _validated(body, path), _PREFIX.size + length


def _first_bytes(block: bytes) -> str:
    return f"it begins with {block[:8]!r}" if block else "an empty file"


def _validated(body: bytes, path: Path) -> FileTable:
    try:
        table = FileTable.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        raise ContainerError(
            "The table of contents of the file cannot be understood",
            where=path,
            found=f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            action=_UPDATE,
        ) from None
    unknown = [name for name in table.requires if name not in FEATURES]
    if unknown:
        raise ContainerError(
            "The file uses something that this version of napari-4dstem does not know",
            where=path,
            found=", ".join(repr(name) for name in unknown),
            action=_UPDATE,
        )
    _check_dtype(table, path)
    if math.prod(table.scan_shape) > MAX_POSITIONS:
        raise ContainerError(
            "The scan is larger than a file can hold",
            where=path,
            expected=f"at most {MAX_POSITIONS} positions",
            found=f"{table.scan_shape[0]} x {table.scan_shape[1]}",
            action=COPY_AGAIN,
        )
    return table


def _check_dtype(table: FileTable, path: Path) -> None:
    kinds = {"u": ("uint",), "i": ("int",), "f": ("f32scaled", "f32raw")}
    if table.dtype not in _SOURCE_DTYPES or table.values.kind not in kinds[table.dtype[1]]:
        raise ContainerError(
            "The file holds values of an unknown kind",
            where=path,
            expected="8, 16 or 32 bit integers or float32",
            found=f"{table.dtype} as {table.values.kind}",
            action=_UPDATE,
        )


def check_extents(table: FileTable, names: tuple[str, ...], size: int, path: Path) -> None:
    """Check that the arrays `names` exist and lie inside a file of `size` bytes.

    Raises
    ------
    ContainerError
        If one is missing or reaches beyond the end: the file was cut off.
    """
    for name in names:
        entry = table.find(name)
        if entry is None:
            raise ContainerError(f"The array {name!r} is missing", where=path, action=COPY_AGAIN)
        if not inside(entry, size):
            raise ContainerError(
                "The file is shorter than it should be: it was cut off",
                where=path,
                expected=f"{table.file_size} bytes",
                found=f"{size} bytes",
                action=COPY_AGAIN,
            )


def inside(entry: ArrayEntry, size: int) -> bool:
    """Return whether an array lies between the user block and the end of the file."""
    return entry.nbytes == 0 or (entry.offset >= USER_BLOCK and entry.end <= size)
