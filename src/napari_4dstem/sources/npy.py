"""NumPy files: a 4D array, or the frames of a scan one after the other (3D).

The file is memory-mapped and its size checked before each read: a mapped file that someone cuts
short would otherwise end the process. Python objects in a file are never unpickled.
"""

from __future__ import annotations

import contextlib
import mmap
import tokenize
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import NotReadyError, SourceError
from napari_4dstem.sources.base import (
    FileIdentity,
    OpenOptions,
    SourceInfo,
    convert,
    native_dtype,
)
from napari_4dstem.sources.frame_source import FrameSource, where_frame
from napari_4dstem.sources.scan_shape import ScanPlan, ShapeClues, plan_scan

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 16
# The header is the text of a Python value; this is what NumPy lets out when it is not.
_UNREADABLE = (
    ValueError, OSError, EOFError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError,
    tokenize.TokenError,
)  # fmt: skip


class _Header:
    """Shape, dtype and place of the array in a NumPy file."""

    def __init__(self, path: Path) -> None:
        self.identity = _identity(path)
        with path.open("rb") as file:
            self.shape, self.fortran, self.stored = _read_header(file, path)
            self.offset = file.tell()
        self.count = 1
        for n in self.shape:
            self.count *= n
        needed = self.offset + self.count * self.stored.itemsize
        if self.identity.size < needed:
            raise SourceError(
                f"The file is truncated at {self.identity.size} of {needed} bytes; "
                "was the copy complete?",
                where=path,
                action="Copy it again",
            )


def _identity(path: Path) -> FileIdentity:
    try:
        return FileIdentity.of(path)
    except OSError as error:
        raise SourceError(
            f"The file cannot be read: {error.strerror}", where=path, action="Check the path"
        ) from error


def _read_header(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    expected = "a NumPy file (.npy) with a 3D or 4D array of numbers"
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version, np.lib.format.read_array_header_2_0)
        shape, fortran, dtype = read(file, max_header_size=_LONGEST_HEADER)
    except _UNREADABLE as error:
        raise SourceError(
            "The header of the file cannot be read",
            where=path,
            expected=expected,
            found=str(error).split("\n")[0],
            action="Save the array again with numpy.save",
        ) from error
    if dtype.hasobject:
        raise SourceError(
            "The file holds Python objects, which could run any program when read",
            where=path,
            expected=expected,
            action="Save the numbers as a plain array",
        )
    if len(shape) not in (3, 4) or min(shape) < 1 or dtype.subdtype is not None:
        raise SourceError(
            "The array has the wrong number of axes",
            where=path,
            expected="scan rows, scan columns, camera rows, camera columns; or frames, camera "
            "rows, camera columns",
            found=f"shape {shape} of {dtype}",
            action="Reshape the array and save it again",
        )
    return tuple(int(n) for n in shape), bool(fortran), dtype


def sniff(path: Path) -> bool:
    """Tell whether `path` is a NumPy file, by its name and its first bytes."""
    if path.suffix.lower() != ".npy":
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def inspect(path: Path, options: OpenOptions) -> SourceInfo:
    """Read the header; see `napari_4dstem.sources.inspect`."""
    return _inspect(_Header(path), path, options)[0]


def _inspect(header: _Header, path: Path, options: OpenOptions) -> tuple[SourceInfo, ScanPlan]:
    *scan, height, width = header.shape
    frames = scan[0] if len(scan) == 1 else scan[0] * scan[1]
    clues = ShapeClues(
        frames_found=frames,
        given=options.scan_shape,
        dataset=(scan[0], scan[1]) if len(scan) == 2 else None,
        frame_offset=options.frame_offset,
        flyback=options.flyback,
    )
    plan = plan_scan(clues, np.ones(frames, bool), partial=options.partial)
    problems = list(plan.problems)
    if header.fortran:
        problems.append("The array is in Fortran order: reading a pattern is slow.")
    info = SourceInfo(
        path=path,
        format="NumPy",
        ready=not plan.reason,
        reason=plan.reason,
        action=plan.action,
        scan_shape=plan.choice.shape,
        scan_shape_origin=plan.choice.origin,
        scan_shape_guessed=plan.choice.guessed,
        scan_shape_candidates=plan.choice.candidates,
        detector_shape=(height, width),
        dtype=native_dtype(header.stored, path),
        frames_found=frames,
        stored_bytes=header.identity.size,
        files=(path,),
        partial_possible=plan.recorded is not None and bool(plan.recorded.any()),
        problems=tuple(problems),
    )
    return info, plan


def open_source(path: Path, options: OpenOptions) -> NpySource:
    """Open the file; see `napari_4dstem.sources.open_source`."""
    header = _Header(path)
    info, plan = _inspect(header, path, options)
    if plan.reason:
        raise NotReadyError(info.reason, where=path, action=info.action)
    return NpySource(header, info, plan)


class NpySource(FrameSource):
    """An open NumPy file; a :class:`~napari_4dstem.sources.base.Source`."""

    def __init__(self, header: _Header, info: SourceInfo, plan: ScanPlan) -> None:
        super().__init__(info, plan)
        self._identity = header.identity
        self._file = info.path.open("rb")
        self._mapping = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._frames: NDArray[Any] | None = self._view(header)

    def _view(self, header: _Header) -> NDArray[Any]:
        """Return the mapped frames, (frames, H, W), or (rows, columns, H, W) in Fortran order."""
        flat: NDArray[Any] = np.frombuffer(
            self._mapping, header.stored, header.count, header.offset
        )
        if header.fortran:
            return flat.reshape(header.shape, order="F")
        return flat.reshape(-1, *header.shape[-2:])

    def _read_frames(self, first: int, out: NDArray[Any]) -> None:
        assert self._frames is not None
        # Touching a mapped page that is no longer in the file would end the process.
        self._identity.check()
        lead = self._frames.shape[:-2]
        for i in range(len(out)):
            frame = self._frames[np.unravel_index(first + i, lead)]
            convert(frame, out[i], where_frame(self.info.path, first + i))

    def check_unchanged(self) -> None:
        """Raise `SourceChangedError` if the file was rewritten since it was opened."""
        self._identity.check()

    def _close_files(self) -> None:
        self._frames = None
        # A caller's traceback may still hold a view: then the mapping goes when that does.
        with contextlib.suppress(BufferError):
            self._mapping.close()
        self._file.close()
