"""Writing an encoded scan to an ``.ans4d`` file: completely or not at all."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.layout import PADDING
from napari_4dstem.container.files import is_in_use, replacing, write_all
from napari_4dstem.container.hdf5 import ALIGNMENT, Dataset, Skeleton, make_skeleton
from napari_4dstem.container.header import ContainerHeader
from napari_4dstem.container.index_arrays import index_arrays
from napari_4dstem.container.table import (
    FORMAT_VERSION,
    ArrayEntry,
    FileTable,
    ValuesEntry,
    pack_table,
)
from napari_4dstem.errors import CancelledError, SaveError

Progress = Callable[[int, int], None]
"""Called with (bytes written, bytes in all)."""

DESCRIPTIONS: Final = {
    "positions": "scan indices (row-major) in coding order",
    "block_pos": "first entry of each block in positions",
    "class_map": "class of each camera pixel; 255 = constant, not coded",
    "classes": "(pixels per symbol, low bits kept apart) of each class",
    "freq": "rANS symbol frequencies of each class; sum 4096, symbol 255 = literal follows",
    "block_base": "first byte of each block in stream",
    "chunk_off": "start of each tile's chunk in its block, in 4-byte units",
    "chunk_mode": "literal width 1, 2, 4 bytes (0, 1, 2) or 3 = plain values",
    "chunk_crc": "CRC-32 of each chunk",
    "stream": "the coded patterns, block after block",
    "details": "source, orientation, remarks: JSON text",
    "calibration": "calibration: JSON text",
    "mask": "1 = masked camera pixel",
}


def write(
    path: str | Path,
    scan: EncodedScan,
    header: ContainerHeader,
    *,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Save an encoded scan.

    The file appears under its name only when all of it is on disk.

    Parameters
    ----------
    path
        The file to make or replace.
    scan
        Its blocks are read one after the other.
    header
        Made with ``ContainerHeader.of(scan, ...)``.
    progress
        Called after each block.
    cancelled
        Asked before each block.

    Raises
    ------
    SaveError
        If the file is open, there is no room, or the disk refuses; nothing is left behind.
    CancelledError
        If `cancelled` said so.
    UsageError
        If `header` describes another scan.
    """
    path = Path(path)
    header.check_fits(scan)
    if is_in_use(path):
        raise SaveError(
            "The file is open: an open scan would lose the data it shows",
            where=path,
            action="Close it first, or save under another name",
        )
    arrays = small_arrays(scan, header)
    lengths = 4 * scan.chunk_off[:, -1].astype(np.int64)
    # The end is padded so that decoders may read ahead, and to a size that HDF5 aligns.
    stream_size = max(int(lengths.sum()) + PADDING, ALIGNMENT)
    skeleton = make_skeleton(_datasets(arrays, stream_size), _attributes(scan))
    table = _table(scan, arrays, stream_size, skeleton)
    with replacing(path, skeleton.size) as file:
        for offset, piece in [*skeleton.pieces, (0, pack_table(table))]:
            write_all(file, offset, piece)
        for name, array in arrays.items():
            write_all(file, skeleton.offsets[name], array.data)
        at = skeleton.offsets["stream"]
        for block in _blocks(scan, lengths, cancelled):
            write_all(file, at, block.data)
            at += block.nbytes
            if progress is not None:
                progress(at, skeleton.size)
        file.truncate(skeleton.size)


def _blocks(
    scan: EncodedScan, lengths: NDArray[np.int64], cancelled: Callable[[], bool] | None
) -> Iterator[NDArray[np.uint8]]:
    for block, length in enumerate(lengths):
        if cancelled is not None and cancelled():
            raise CancelledError("Saving was cancelled; nothing was written")
        yield np.ascontiguousarray(scan.blocks[block][:length])


def small_arrays(scan: EncodedScan, header: ContainerHeader) -> dict[str, NDArray[Any]]:
    """Return all arrays of the file but the stream, as they are stored."""
    lengths = 4 * scan.chunk_off[:, -1].astype(np.uint64)
    arrays: dict[str, NDArray[Any]] = {
        "positions": scan.layout.positions,
        "block_pos": scan.layout.block_pos,
        "class_map": scan.model.class_map,
        "classes": scan.model.classes,
        "freq": scan.model.freq,
        "block_base": np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64),
        "chunk_off": scan.chunk_off,
        "chunk_mode": scan.chunk_mode,
        "chunk_crc": scan.chunk_crc,
        "details": _text(header.details().model_dump_json()),
    }
    if header.calibration:
        arrays["calibration"] = _text(header.calibration)
    if header.mask is not None:
        arrays["mask"] = header.mask.astype(np.uint8)
    arrays |= index_arrays(scan.index)
    return {name: _little_endian(array) for name, array in arrays.items()}


def _text(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _datasets(arrays: dict[str, NDArray[Any]], stream_size: int) -> dict[str, Dataset]:
    datasets = {
        name: Dataset(array.shape, array.dtype, DESCRIPTIONS.get(name, "exact short cut"))
        for name, array in arrays.items()
    }
    datasets["stream"] = Dataset((stream_size,), np.dtype("u1"), DESCRIPTIONS["stream"])
    return datasets


def _attributes(scan: EncodedScan) -> dict[str, str]:
    """Return what a person reads in an HDF5 program; we never read it back."""
    layout = scan.layout
    return {
        "format": "ans4d",
        "version": str(FORMAT_VERSION),
        "about": "4D-STEM scan, losslessly coded by napari-4dstem",
        "scan_shape": f"{layout.scan_shape[0]}, {layout.scan_shape[1]}",
        "detector_shape": f"{layout.detector_shape[0]}, {layout.detector_shape[1]}",
        "dtype": layout.dtype.name,
    }


def _table(
    scan: EncodedScan, arrays: dict[str, NDArray[Any]], stream_size: int, skeleton: Skeleton
) -> FileTable:
    entries = [
        ArrayEntry(
            name=name,
            dtype=array.dtype.str,
            shape=array.shape,
            offset=skeleton.offsets[name],
            crc=zlib.crc32(array.data) if array.size else 0,
        )
        for name, array in arrays.items()
    ]
    entries.append(
        ArrayEntry(
            name="stream", dtype="|u1", shape=(stream_size,), offset=skeleton.offsets["stream"]
        )
    )
    values, layout = scan.values, scan.layout
    table = FileTable(
        scan_shape=layout.scan_shape,
        detector_shape=layout.detector_shape,
        dtype=layout.dtype.newbyteorder("<").str,
        passes=layout.passes,
        tile=layout.tile,
        values=ValuesEntry(
            kind=values.kind, offset=values.offset, scale=values.scale, nodata=values.nodata
        ),
        file_size=skeleton.size,
        gaps_crc=0,
        arrays=tuple(entries),
    )
    return table.model_copy(update={"gaps_crc": _gaps_crc(table, skeleton)})


def _gaps_crc(table: FileTable, skeleton: Skeleton) -> int:
    crc = 0
    for begin, end in table.gaps():
        gap = bytearray(end - begin)
        for offset, piece in skeleton.pieces:
            low, high = max(begin, offset), min(end, offset + len(piece))
            if low < high:
                gap[low - begin : high - begin] = piece[low - offset : high - offset]
        crc = zlib.crc32(gap, crc)
    return crc
