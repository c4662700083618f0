"""Opening an ``.ans4d`` file by its own table and a memory map, without HDF5."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.layout import PADDING, ScanLayout, check_offsets
from napari_4dstem.codec.model import PixelModel
from napari_4dstem.container.arrays import REQUIRED, ArrayFile
from napari_4dstem.container.header import ContainerHeader, Details
from napari_4dstem.container.index_arrays import read_index
from napari_4dstem.container.table import FileTable
from napari_4dstem.errors import ContainerError
from napari_4dstem.ledger import Allocator, Kind

_ENCODE_AGAIN = "The file is damaged: encode the scan again from its source"


@dataclass(frozen=True, eq=False)
class OpenedContainer:
    """An opened file.

    Parameters
    ----------
    scan
        The coded scan; its bytes are mapped, not read, unless the file is on a network.
    header
        What the file says about it.
    path
        The file.
    mapped
        Whether the bytes are a memory map of the file.
    problems
        Damage found on opening that leaves the scan readable; also in `header.problems`.
    """

    scan: EncodedScan
    header: ContainerHeader
    path: Path
    mapped: bool
    problems: tuple[str, ...] = ()


def open_container(
    path: str | Path,
    *,
    with_index: bool = True,
    allocator: Allocator | None = None,
    mounts: str | None = None,
) -> OpenedContainer:
    """Open an encoded scan.

    Every array but the coded stream is read and checked; the chunks of the stream are checked
    when they are first decoded. The map lives as long as the arrays of the result.
    Checking the index takes about 1 ms per MiB, all the rest a few milliseconds.

    Parameters
    ----------
    path
        An ``.ans4d`` file.
    with_index
        Whether the stored short cuts are wanted; without them, ``scan.index`` is None.
    allocator
        Gives the memory when the file has to be read instead of mapped.
    mounts
        Text in the form of ``/proc/mounts``, by default the system's.

    Raises
    ------
    ContainerError
        If it is no such file, was written by a newer version, or is damaged where it matters.
    """
    path = Path(path)
    try:
        with ArrayFile(path, allocator=allocator, mounts=mounts) as file:
            return _open(file, with_index=with_index)
    except OSError as error:
        raise ContainerError(
            "The file cannot be read",
            where=path,
            found=error.strerror or str(error),
            action="Check that the file and its folder exist and that you may read them",
        ) from error


def _open(file: ArrayFile, *, with_index: bool) -> OpenedContainer:
    required = {name: file.required(name) for name in REQUIRED if name != "stream"}
    try:
        scan = _assemble(file, required)
    except ContainerError as error:
        raise ContainerError(
            error.what,
            where=file.path,
            expected=error.expected,
            found=error.found,
            action=error.action or _ENCODE_AGAIN,
        ) from None
    problems = []
    if file.size != file.table.file_size:
        problems.append(f"The file has {file.size} bytes instead of {file.table.file_size}")
    if with_index:
        scan.index = read_index(file, scan.layout, problems)
    header = _header(file, scan, problems)
    return OpenedContainer(scan, header, file.path, file.mapped, tuple(problems))


def _assemble(file: ArrayFile, arrays: dict[str, NDArray[Any]]) -> EncodedScan:
    table = file.table
    _check_types(table, arrays)
    layout = ScanLayout(
        table.scan_shape,
        table.detector_shape,
        np.dtype(table.dtype).newbyteorder("="),
        table.passes,
        table.tile,
        arrays["positions"],
        arrays["block_pos"],
    )
    model = PixelModel(arrays["class_map"], arrays["classes"], arrays["freq"])
    entry = file.entry("stream")
    if entry.dtype != "|u1" or len(entry.shape) != 1:
        raise ContainerError("The array 'stream' has an unknown form")
    _check_chunks(layout, arrays, entry.nbytes)
    stream = file.large(entry, Kind.ENCODED)
    return EncodedScan(
        layout,
        model,
        table.values.value_map(),
        arrays["chunk_off"],
        arrays["chunk_mode"],
        arrays["chunk_crc"],
        _block_views(stream, arrays["block_base"]),
        trusted=False,
    )


def _block_views(stream: NDArray[np.uint8], base: NDArray[np.uint64]) -> list[NDArray[np.uint8]]:
    """Return the blocks as views; what follows a block in the stream is its padding."""
    starts = base.tolist()
    return [stream[start : stop + PADDING] for start, stop in pairwise(starts)]


def _check_types(table: FileTable, arrays: dict[str, NDArray[Any]]) -> None:
    wanted = {
        "positions": ("u4", 1),
        "block_pos": ("u8", 1),
        "class_map": ("u1", 2),
        "classes": ("u1", 2),
        "freq": ("u2", 2),
        "block_base": ("u8", 1),
        "chunk_off": ("u4", 2),
        "chunk_mode": ("u1", 2),
        "chunk_crc": ("u4", 2),
    }
    for name, (dtype, ndim) in wanted.items():
        array = arrays[name]
        if array.dtype != np.dtype(dtype) or array.ndim != ndim:
            raise ContainerError(
                f"The array {name!r} has an unknown form",
                expected=f"{ndim} axes of {np.dtype(dtype)}",
                found=f"{array.ndim} axes of {array.dtype}",
            )
    if arrays["class_map"].shape != table.detector_shape:
        raise ContainerError("The pixel classes do not fit the camera")
    n_classes = len(arrays["classes"])
    if arrays["classes"].shape[1] != 2 or arrays["freq"].shape != (n_classes, 256):
        raise ContainerError("The coding tables have unknown forms")


def _check_chunks(layout: ScanLayout, arrays: dict[str, NDArray[Any]], size: int) -> None:
    """Check that every chunk lies inside its block, every block inside the stream."""
    base = arrays["block_base"].astype(np.int64)
    shape = (layout.n_blocks, layout.n_tiles)
    ok = arrays["chunk_crc"].shape == shape and base.shape == (shape[0] + 1,)
    if ok:
        block_nbytes = np.diff(base)
        check_offsets(layout, arrays["chunk_off"], arrays["chunk_mode"], block_nbytes + PADDING)
        ends = 4 * arrays["chunk_off"][:, -1].astype(np.int64)
        ok = bool((block_nbytes == ends).all())
        ok = ok and int(base[0]) == 0 and int(base[-1]) + PADDING <= size
    if not ok:
        raise ContainerError("The list of coded pieces contradicts itself", action=_ENCODE_AGAIN)


def _header(file: ArrayFile, scan: EncodedScan, problems: list[str]) -> ContainerHeader:
    def optional(name: str, loss: str) -> NDArray[Any] | None:
        array = file.optional(name)
        if array is None and file.table.find(name) is not None:
            problems.append(f"The part {name!r} is damaged and was left out: {loss}")
        return array

    details = Details(writer="")
    stored = optional("details", "source and remarks are unknown")
    if stored is not None:
        try:
            details = Details.model_validate_json(stored.tobytes())
        except ValidationError:
            problems.append("Source and remarks cannot be understood and were left out")
    calibration = optional("calibration", "sizes are shown in pixels")
    mask = optional("mask", "no pixel is masked until you choose a mask")
    if mask is not None and mask.shape != scan.layout.detector_shape:
        problems.append("The mask does not fit the camera and was left out")
        mask = None
    facts = {name: getattr(details, name) for name in Details.model_fields}
    facts["problems"] = (*details.problems, *problems)
    text = "" if calibration is None else calibration.tobytes().decode(errors="replace")
    return ContainerHeader.of(scan, calibration=text, mask=mask, **facts)
