"""Careful access to HDF5 files: is it whole, does it stay inside its folder, what went wrong.

What h5py says about a bad file is meant for programmers of HDF5. Here a file's size is compared
with what its superblock promises before HDF5 sees it, links are followed one step at a time (a
file must not make us open another one that the user did not choose), and errors become ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from napari_4dstem.errors import FourDStemError, NotReadyError, SourceError

SIGNATURE = b"\x89HDF\r\n\x1a\n"

# What h5py lets out when a file is damaged. IndexError and AttributeError are not among them: they
# would be mistakes of ours.
_FROM_H5PY = (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError, MemoryError)
_SOFT_LINKS = 8


@contextlib.contextmanager
def hdf5_errors(where: str | Path) -> Iterator[None]:
    """Turn what h5py raises on a damaged file into a `SourceError`."""
    try:
        yield
    except FourDStemError:
        raise
    except _FROM_H5PY as error:
        raise _damaged(where, error) from error


def _damaged(where: str | Path, error: BaseException) -> SourceError:
    return SourceError(
        "The file is damaged, or was not finished",
        where=where,
        found=_short(error),
        action="Copy it again from the detector's computer; if it is still being written, wait",
    )


def _short(error: BaseException) -> str:
    text = str(error).split("\n")[0].strip("'\" ")
    return re.sub(r"\s+", " ", text)[:200] or type(error).__name__


def has_signature(path: Path) -> bool:
    """Tell whether the file begins as an HDF5 file does (also behind a user block)."""
    return _superblock_offset(path) is not None


def _superblock_offset(path: Path) -> int | None:
    size = path.stat().st_size
    with path.open("rb") as file:
        offset = 0
        while offset + 8 <= size and offset <= 1 << 24:
            file.seek(offset)
            if file.read(8) == SIGNATURE:
                return offset
            offset = max(512, offset * 2)
    return None


def promised_size(path: Path) -> int | None:
    """Return the file size that the superblock promises, None if it does not tell."""
    start = _superblock_offset(path)
    if start is None:
        return None
    with path.open("rb") as file:
        file.seek(start)
        head = file.read(96)
    try:
        version = head[8]
        width = head[13] if version < 2 else head[9]
        place = {0: 24, 1: 28}.get(version, 12)
        if width not in (4, 8) or version > 3:
            return None
        _, _, end = struct.unpack_from(f"<3{'Q' if width == 8 else 'I'}", head, place)
    except (struct.error, IndexError):
        return None
    # The writer counts from the beginning of the file, a user block included.
    return int(end) if end < 1 << 60 else None


def check_whole(path: Path) -> int:
    """Return the size of an HDF5 file after a look at whether all of it is there.

    Raises
    ------
    NotReadyError
        It is empty or cut short: a copy or a recording may still be going on.
    SourceError
        It cannot be read, or is no HDF5 file.
    """
    try:
        size = path.stat().st_size
        promised = promised_size(path)
        signed = has_signature(path)
    except OSError as error:
        raise SourceError(
            f"The file cannot be read: {error.strerror}", where=path, action="Check the path"
        ) from error
    if size == 0:
        raise NotReadyError(
            "The file is empty (0 bytes)",
            where=path,
            action="If it is still being written or copied, wait; else copy it again",
        )
    if not signed:
        raise SourceError(
            "This is no HDF5 file",
            where=path,
            expected="the HDF5 signature",
            action="Choose another file, or copy it again",
        )
    if promised is not None and promised > size:
        raise NotReadyError(
            f"The file is truncated at {size} of {promised} bytes; was the copy complete?",
            where=path,
            action="If it is still being written or copied, wait; else copy it again",
        )
    return size


@contextlib.contextmanager
def reading(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file for a short look at its headers."""
    file = open_file(path)
    try:
        with hdf5_errors(path):
            yield file
    finally:
        with hdf5_errors(path):
            file.close()


def open_file(path: Path) -> h5py.File:
    """Open an HDF5 file for reading.

    Raises
    ------
    NotReadyError, SourceError
        As :func:`check_whole`, and when another program has it open for writing.
    """
    check_whole(path)
    try:
        return _open(path)
    except OSError as error:
        busy = error.errno in (errno.EAGAIN, errno.EACCES) and os.access(path, os.R_OK)
        if busy or "already open for" in str(error):
            raise NotReadyError(
                "The file is still being written",
                where=path,
                action="Wait until the recording has ended; if the writing program crashed, "
                "run `h5clear -s` on a copy of the file",
            ) from error
        raise _damaged(path, error) from error


def _open(path: Path) -> h5py.File:
    """Open with HDF5's usual locks if possible.

    They tell when a detector is still writing. But all who have a file open in this process must
    use the same setting, and some file systems have no locks.
    """
    try:
        return h5py.File(path, "r")
    except OSError as error:
        first = error
    settings: list[bool | str] = [False]
    if "file locking" in str(first):
        settings += [True, "best-effort"]
    elif first.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
        raise first
    for locking in settings:
        with contextlib.suppress(OSError):
            return h5py.File(path, "r", locking=locking)
    raise first


def member(group: h5py.Group, path: str) -> Any:
    """Return the group or dataset at `path`, or None; never leaves the file.

    External links are not followed, soft links only a few deep.
    """
    node, parts, soft = group, [p for p in path.split("/") if p], 0
    if path.startswith("/"):
        node = group.file
    while parts:
        name = parts.pop(0)
        if not isinstance(node, h5py.Group):
            return None
        link = node.get(name, getlink=True)
        if isinstance(link, h5py.SoftLink):
            soft += 1
            if soft > _SOFT_LINKS:
                return None
            parts = [p for p in link.path.split("/") if p] + parts
            node = node.file if link.path.startswith("/") else node
        elif isinstance(link, h5py.HardLink):
            node = node[name]
        else:
            return None
    return node


def external_link(group: h5py.Group, name: str) -> h5py.ExternalLink | None:
    """Return the external link `name` of a group, None if it is something else."""
    link = group.get(name, getlink=True)
    return link if isinstance(link, h5py.ExternalLink) else None


def is_dataset(node: Any) -> bool:
    """Tell whether a member is a dataset."""
    return isinstance(node, h5py.Dataset)


def _is_plain_scalar(node: h5py.Dataset) -> bool:
    """Tell whether a dataset is one value that can be read without any decompression."""
    filters = node.id.get_create_plist().get_nfilters()
    return node.size == 1 and not filters and not node.is_virtual


def number(node: Any) -> float | None:
    """Return the one finite number in a dataset or attribute value, None if there is none."""
    if isinstance(node, h5py.Dataset) and not _is_plain_scalar(node):
        return None
    value = node[()] if isinstance(node, h5py.Dataset) else node
    if value is None or isinstance(value, h5py.Empty | h5py.Group):
        return None
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iufb":
        return None
    result = float(array.reshape(-1)[0])
    return result if np.isfinite(result) else None


def integer(node: Any) -> int | None:
    """Return the one integer in a dataset or attribute value as a Python int, or None."""
    value = number(node)
    return int(value) if value is not None and value == int(value) else None


def text(value: Any) -> str | None:
    """Return a fixed-length or variable-length string, or None."""
    if isinstance(value, h5py.Dataset):
        if not _is_plain_scalar(value) or value.dtype.kind not in "SOU":
            return None
        value = value[()]
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return value.rstrip("\0").strip() if isinstance(value, str) else None
