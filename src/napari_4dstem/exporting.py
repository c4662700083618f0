"""Back out again: every recorded pattern as plain HDF5 or NumPy, for any other program.

Files are written block by block, under a temporary name, and appear only when they are complete.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from napari_4dstem.calibration import Calibration
from napari_4dstem.container.files import replacing, write_all
from napari_4dstem.container.header import writer_version
from napari_4dstem.errors import CancelledError, MissingDependencyError, UsageError
from napari_4dstem.imaging.blocks import PatternBlocks
from napari_4dstem.sources.own_notes import NOTES, OwnNotes

_HDF5_SUFFIXES = (".h5", ".hdf5")
_NUMPY_SUFFIX = ".npy"
SUFFIXES = (*_HDF5_SUFFIXES, _NUMPY_SUFFIX)
"""Endings of the files that can be written."""

# HDF5's own structure around the chunks.
_HDF5_OVERHEAD = 1 << 16


@dataclass(frozen=True)
class ExportFacts:
    """What goes along with the counts.

    Parameters
    ----------
    calibration
        Sizes of the axes.
    mask
        Bool [H, W], True = masked, or None.
    nodata
        Value that marks an overload, or None.
    metadata
        Facts for display.
    least_bytes
        At least so large will a compressed file become, as far as is known.
    """

    calibration: Calibration
    mask: NDArray[np.bool_] | None
    nodata: int | None
    metadata: dict[str, str]
    least_bytes: int


class _Sink(Protocol):
    def put(self, first: int, patterns: NDArray[Any]) -> None:
        """Write patterns [n, H, W] of neighbouring positions in one scan row."""


def export(
    path: str | Path,
    blocks: PatternBlocks,
    facts: ExportFacts,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> NDArray[np.bool_]:
    """Write all patterns to ``.h5`` (bitshuffle-LZ4, a frame a chunk) or ``.npy``.

    Positions without data are 0, in floating-point scans NaN. In HDF5 the dataset
    ``/entry/data/valid`` says which those are; beside a ``.npy``, if there are any, the file
    ``NAME_valid.npy``.

    Parameters
    ----------
    path
        The file to make or replace.
    blocks
        Where the patterns come from.
    facts
        What goes along with them.
    progress
        Called with (positions done, positions in all).
    cancelled
        Asked between blocks.

    Returns
    -------
    NDArray
        Bool, scan shape: positions that were written.

    Raises
    ------
    SaveError
        If the disk refuses; the target is as it was before.
    MissingDependencyError
        If the package that compresses HDF5 is not installed.
    CancelledError
        If `cancelled` said so.
    UsageError
        For any other kind of file.
    """
    path = Path(path)
    write = {_NUMPY_SUFFIX: _write_npy} | dict.fromkeys(_HDF5_SUFFIXES, _write_hdf5)
    suffix = path.suffix.lower()
    if suffix not in write:
        raise UsageError(
            "Patterns cannot be written to this kind of file",
            where=path,
            expected="a name that ends in " + " or ".join(SUFFIXES),
            found=path.suffix or "no suffix",
        )
    return write[suffix](blocks, facts, path, _Watch(progress, cancelled))


@dataclass(frozen=True)
class _Watch:
    progress: Callable[[int, int], None] | None
    cancelled: Callable[[], bool] | None

    def report(self, done: int, total: int) -> None:
        if self.cancelled is not None and self.cancelled():
            raise CancelledError("Writing was cancelled; nothing was kept")
        if self.progress is not None:
            self.progress(done, total)


def _copy(blocks: PatternBlocks, sink: _Sink, watch: _Watch) -> NDArray[np.bool_]:
    """Send all patterns to `sink`; return bool, scan shape: the positions that have data."""
    layout = blocks.layout
    done = 0
    watch.report(0, layout.n_positions)
    for block in range(layout.n_blocks):
        positions = layout.block_positions(block).astype(np.int64)
        patterns = blocks.patterns(block)
        there = ~blocks.missing().reshape(-1)[positions]
        for start, stop in _runs(positions, there, layout.scan_shape[1]):
            sink.put(int(positions[start]), patterns[start:stop])
        done += len(positions)
        watch.report(done, layout.n_positions)
    return ~blocks.missing()


def _runs(
    positions: NDArray[np.int64], there: NDArray[np.bool_], columns: int
) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of positions that have data and are neighbours in one scan row."""
    lanes = np.flatnonzero(there)
    if not len(lanes):
        return
    flat = positions[lanes]
    apart = (np.diff(flat) != 1) | (np.diff(flat // columns) != 0) | (np.diff(lanes) != 1)
    for run in np.split(lanes, np.flatnonzero(apart) + 1):
        yield int(run[0]), int(run[-1]) + 1


# ---- NumPy


class _NpySink:
    def __init__(self, file: IO[bytes], offset: int, pattern_bytes: int) -> None:
        self._file, self._offset, self._size = file, offset, pattern_bytes

    def put(self, first: int, patterns: NDArray[Any]) -> None:
        # Written, not mapped: on a full disk a mapped file would end the process.
        data = np.ascontiguousarray(patterns, patterns.dtype.newbyteorder("<"))
        write_all(self._file, self._offset + first * self._size, data.data)


def _npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    text = io.BytesIO()
    descr = dtype.newbyteorder("<").str
    np.lib.format.write_array_header_1_0(
        text, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return text.getvalue()


def _write_npy(
    blocks: PatternBlocks, facts: ExportFacts, path: Path, watch: _Watch
) -> NDArray[np.bool_]:
    layout = blocks.layout
    shape = (*layout.scan_shape, *layout.detector_shape)
    header = _npy_header(shape, layout.dtype)
    pattern_bytes = layout.n_pixels * layout.dtype.itemsize
    size = len(header) + layout.scan_shape[0] * layout.scan_shape[1] * pattern_bytes
    with replacing(path, size) as file:
        write_all(file, 0, header)
        sink = _NpySink(file, len(header), pattern_bytes)
        valid = _copy(blocks, sink, watch)
        # What was never written reads as zeros.
        file.truncate(size)
        if layout.dtype.kind == "f":
            nothing = np.full((1, *layout.detector_shape), np.nan, layout.dtype)
            for position in np.flatnonzero(~valid):
                sink.put(int(position), nothing)
    if not valid.all():
        write_npy(path.with_name(f"{path.stem}_valid{_NUMPY_SUFFIX}"), valid)
    return valid


def write_npy(path: Path, array: NDArray[Any]) -> None:
    """Save one array as ``.npy``, completely or not at all.

    Raises
    ------
    SaveError
        If the disk refuses; the target is as it was before.
    """
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    header = _npy_header(array.shape, array.dtype)
    with replacing(path, len(header) + array.nbytes) as file:
        write_all(file, 0, header)
        write_all(file, len(header), array.view(np.uint8).data)


# ---- HDF5


class _Disk:
    """A file for HDF5 that never fails in its face.

    HDF5 cannot close a file that it cannot write: it would stay half open until the process ends.
    So the first error is kept, everything after it is dropped, and `check` raises it. That holds
    for Ctrl-C as well, which may come while HDF5 calls.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._error: BaseException | None = None

    def check(self) -> None:
        """Raise the error that was met, if any."""
        if self._error is not None:
            raise self._error

    def write(self, data: memoryview) -> int:
        if self._error is None:
            try:
                write_all(self._file, self._file.tell(), data)
            except BaseException as error:  # noqa: BLE001
                self._error = error
        return memoryview(data).nbytes

    def truncate(self, size: int | None = None) -> int:
        if self._error is None:
            try:
                return self._file.truncate(size)
            except BaseException as error:  # noqa: BLE001
                self._error = error
        return size or 0

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def readinto(self, target: memoryview) -> int:
        got: int = self._file.readinto(target)  # type: ignore[attr-defined]
        return got

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Nothing to do: the file has no buffer."""


class _Hdf5Sink:
    def __init__(self, dataset: h5py.Dataset, disk: _Disk, columns: int) -> None:
        self._dataset, self._disk, self._columns = dataset, disk, columns

    def put(self, first: int, patterns: NDArray[Any]) -> None:
        row, column = divmod(first, self._columns)
        self._dataset[row, column : column + len(patterns)] = patterns
        self._disk.check()


def _write_hdf5(
    blocks: PatternBlocks, facts: ExportFacts, path: Path, watch: _Watch
) -> NDArray[np.bool_]:
    compression = _bitshuffle_lz4()
    with replacing(path, facts.least_bytes + _HDF5_OVERHEAD) as raw:
        disk = _Disk(raw)
        file = h5py.File(disk, "w")
        try:
            dataset = _make_dataset(file, blocks, compression)
            _describe(file, dataset, facts)
            sink = _Hdf5Sink(dataset, disk, blocks.layout.scan_shape[1])
            valid = _copy(blocks, sink, watch)
            file["entry/data/valid"] = valid
        except BaseException:
            # Whatever HDF5 says on closing now is a consequence of what is being raised.
            with suppress(Exception):
                file.close()
            disk.check()  # if HDF5 stumbled over what was dropped
            raise
        file.close()
        disk.check()
    return valid


def _bitshuffle_lz4() -> dict[str, Any]:
    try:
        import hdf5plugin
    except ImportError as error:
        raise MissingDependencyError(
            "Compressed HDF5 cannot be written: the package hdf5plugin is not installed",
            action="Install it (pip install hdf5plugin), or write a .npy file instead",
        ) from error
    return dict(hdf5plugin.Bitshuffle(cname="lz4"))


def _make_dataset(
    file: h5py.File, blocks: PatternBlocks, compression: dict[str, Any]
) -> h5py.Dataset:
    layout = blocks.layout
    entry = file.create_group("entry")
    data = entry.create_group("data")
    entry.attrs["NX_class"], data.attrs["NX_class"] = "NXentry", "NXdata"
    data.attrs["signal"] = "data"
    data.attrs["scan_shape"] = np.array(layout.scan_shape, np.int64)
    # Chunks of positions without data are never written: readers see that they do not exist.
    dataset = data.create_dataset(
        "data",
        shape=(*layout.scan_shape, *layout.detector_shape),
        dtype=layout.dtype,
        chunks=(1, 1, *layout.detector_shape),
        fillvalue=np.nan if layout.dtype.kind == "f" else 0,
        **compression,
    )
    # Detector programs number the frames like this; ours knows the file by it.
    dataset.attrs["image_nr_low"] = np.uint64(1)
    dataset.attrs["image_nr_high"] = np.uint64(layout.scan_shape[0] * layout.scan_shape[1])
    return dataset


def _describe(file: h5py.File, dataset: h5py.Dataset, facts: ExportFacts) -> None:
    data = file["entry/data"]
    data.attrs["axes"] = ["scan_row", "scan_column", "camera_row", "camera_column"]
    # Read back by our own reader; the attributes below are for people and other programs.
    notes = OwnNotes(
        calibration=facts.calibration,
        nodata=facts.nodata,
        metadata=facts.metadata,
        writer=writer_version(),
    )
    file[NOTES] = notes.model_dump_json()
    for name, (unit, steps) in (
        ("scan", facts.calibration.scan_units()),
        ("camera", facts.calibration.camera_units()),
    ):
        data.attrs[f"{name}_step"] = np.array(steps)
        data.attrs[f"{name}_unit"] = unit
    detector = file.create_group("entry/instrument/detector")
    detector.attrs["NX_class"] = "NXdetector"
    detector["bit_depth_image"] = np.uint32(8 * dataset.dtype.itemsize)
    if facts.mask is not None:
        # NeXus: bit 0 marks a pixel without a count.
        detector["pixel_mask"] = facts.mask.astype(np.uint32)
