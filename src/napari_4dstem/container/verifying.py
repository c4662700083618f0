"""Checking a whole ``.ans4d`` file: every byte of it, and that every pattern decodes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.protocol import BlockDecoder
from napari_4dstem.container.arrays import ArrayFile, is_intact
from napari_4dstem.container.reading import open_container
from napari_4dstem.container.table import USER_BLOCK, inside
from napari_4dstem.errors import CancelledError

MakeDecoder = Callable[[EncodedScan], BlockDecoder]


@dataclass(frozen=True)
class DamagedChunk:
    """One damaged piece of the coded stream.

    Parameters
    ----------
    block, tile
        Which one.
    reason
        What is wrong with it.
    """

    block: int
    tile: int
    reason: str


@dataclass(frozen=True, eq=False)
class VerifyReport:
    """What `verify` found.

    Parameters
    ----------
    path
        The file.
    n_chunks
        Pieces of the coded stream that were checked.
    problems
        Damage outside the stream, one line each.
    damaged
        Damaged pieces of the stream.
    missing
        Bool, scan shape: positions that cannot be trusted because of `damaged`.
    """

    path: Path
    n_chunks: int
    problems: tuple[str, ...]
    damaged: tuple[DamagedChunk, ...]
    missing: NDArray[np.bool_]

    @property
    def intact(self) -> bool:
        """Whether nothing at all is wrong."""
        return not self.problems and not self.damaged

    def __str__(self) -> str:
        if self.intact:
            return f"{self.path}: intact ({self.n_chunks} coded pieces)"
        lines = [f"{self.path}: damaged", *(f"  {problem}" for problem in self.problems)]
        if self.damaged:
            lines.append(
                f"  {len(self.damaged)} of {self.n_chunks} coded pieces are damaged; "
                f"{int(self.missing.sum())} scan positions are missing: {_where(self.missing)}"
            )
        return "\n".join(lines)


def _where(missing: NDArray[np.bool_]) -> str:
    rows, columns = np.nonzero(missing)
    return f"rows {rows.min()} to {rows.max()}, columns {columns.min()} to {columns.max()}"


def verify(
    path: str | Path,
    *,
    decoder: MakeDecoder | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> VerifyReport:
    """Check every checksum of a file and decode every pattern.

    Parameters
    ----------
    path
        An ``.ans4d`` file.
    decoder
        Makes the decoder; by default the one for the processor.
    progress
        Called with (blocks done, blocks in all).
    cancelled
        Asked before each block.

    Returns
    -------
    VerifyReport
        Damage that leaves the file readable.

    Raises
    ------
    ContainerError
        If the file cannot be opened at all.
    """
    opened = open_container(path)
    problems = [*opened.problems, *_other_damage(opened.path)]
    scan = opened.scan
    tiles = np.arange(scan.layout.n_tiles)
    damaged = []
    make = decoder or _cpu_decoder
    reader = make(scan)
    for block in range(scan.layout.n_blocks):
        if cancelled is not None and cancelled():
            raise CancelledError("Checking the file was cancelled")
        scan.check_chunks(block, tiles)
        by_checksum = scan.damaged[block].copy()
        if not by_checksum.any():
            reader.patterns(block)
        for tile in np.flatnonzero(scan.damaged[block]):
            reason = "wrong checksum" if by_checksum[tile] else "does not decode"
            damaged.append(DamagedChunk(block, int(tile), reason))
        if progress is not None:
            progress(block + 1, scan.layout.n_blocks)
    missing = scan.layout.recorded & ~scan.valid
    n_chunks = scan.layout.n_blocks * scan.layout.n_tiles
    return VerifyReport(opened.path, n_chunks, tuple(problems), tuple(damaged), missing)


def decoded_blocks(
    scan: EncodedScan, decoder: BlockDecoder
) -> Iterator[tuple[NDArray[np.uint32], NDArray[Any]]]:
    """Yield every intact block as (flat scan indices [n], patterns [n, H, W]).

    Blocks found damaged are left out: compare ``scan.valid`` afterwards.
    """
    for block in range(scan.layout.n_blocks):
        patterns = decoder.patterns(block)
        if not scan.damaged[block].any():
            yield scan.layout.block_positions(block), patterns


def _cpu_decoder(scan: EncodedScan) -> BlockDecoder:
    from napari_4dstem.codec.decode_cpu import CpuDecoder

    return CpuDecoder(scan)


def _other_damage(path: Path) -> list[str]:
    """Check the bytes that opening does not look at."""
    problems = []
    with ArrayFile(path) as file:
        if any(file.bytes_between(file.table_size, USER_BLOCK)):
            problems.append("The unused part of the head is not empty")
        crc = 0
        for begin, end in file.table.gaps():
            crc = zlib.crc32(file.bytes_between(begin, end), crc)
        if crc != file.table.gaps_crc:
            problems.append("HDF5's own structure is damaged: other programs may not read the file")
        base = file.required("block_base")
        stream = file.entry("stream")
        used = stream.offset + int(base[-1])
        if any(file.bytes_between(used, stream.end)):
            problems.append("The padding after the coded patterns is not empty")
        known = ("stream", "details", "calibration", "mask")
        for entry in file.table.arrays:
            if entry.name in known or entry.name.startswith("index/") or entry.crc is None:
                continue  # looked at on opening, or covered by the checksums of its pieces
            if not inside(entry, file.size) or not is_intact(entry, file.read(entry)):
                problems.append(f"The array {entry.name!r} is damaged")
    return problems
