"""Where each scan position and camera pixel lies in the code (``docs/format.md``).

`ScanLayout` is the geometry: blocks of scan positions, tiles of camera pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import ContainerError

LANES = 32
"""Scan positions that are coded side by side."""
PADDING = 128
"""Bytes that follow the end of every buffer, so that kernels may read ahead."""
RAW = 3
"""Chunk mode: the chunk holds plain values."""


@dataclass(frozen=True)
class Tile:
    """Half-open rectangle of detector pixels: rows ``r0:r1``, columns ``c0:c1``."""

    r0: int
    r1: int
    c0: int
    c1: int

    @property
    def n_pixels(self) -> int:
        """Pixels in the tile."""
        return (self.r1 - self.r0) * (self.c1 - self.c0)


@dataclass(frozen=True)
class ScanLayout:
    """Which scan positions form a block and which detector pixels a tile.

    Parameters
    ----------
    scan_shape, detector_shape
        (rows, columns).
    dtype
        Of the source values, native byte order.
    passes
        R: a block holds at most 32 R positions.
    tile
        T: a tile holds T x T pixels (fewer at the far edges).
    positions
        u32[N_recorded], flat scan indices in coding order.
    block_pos
        u64[n_blocks + 1], first entry of each block in `positions`.
    """

    scan_shape: tuple[int, int]
    detector_shape: tuple[int, int]
    dtype: np.dtype[Any]
    passes: int
    tile: int
    positions: NDArray[np.uint32]
    block_pos: NDArray[np.uint64]

    def __post_init__(self) -> None:
        n_scan = self.scan_shape[0] * self.scan_shape[1]
        starts = self.block_pos.astype(np.int64)
        ok = (
            min(*self.scan_shape, *self.detector_shape) >= 1
            and self.passes in (1, 2, 4, 8, 16)
            and self.tile in (8, 16, 32)
            and len(starts) >= 1
            and starts[0] == 0
            and starts[-1] == len(self.positions)
            and bool(np.all(np.diff(starts) > 0))
            and bool(np.all(np.diff(starts) <= LANES * self.passes))
        )
        if ok and len(self.positions):
            ok = int(self.positions.max()) < n_scan and len(np.unique(self.positions)) == len(
                self.positions
            )
        if not ok:
            raise ContainerError(
                "The list of scan positions contradicts itself",
                expected=f"distinct positions below {n_scan} in blocks of at most "
                f"{LANES * self.passes}",
                action="The file is damaged: encode the scan again from its source",
            )

    @property
    def n_blocks(self) -> int:
        """Number of blocks of scan positions."""
        return len(self.block_pos) - 1

    @property
    def n_positions(self) -> int:
        """Recorded scan positions."""
        return len(self.positions)

    @property
    def n_pixels(self) -> int:
        """Detector pixels."""
        return self.detector_shape[0] * self.detector_shape[1]

    @property
    def tile_grid(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        h, w = self.detector_shape
        return -(-h // self.tile), -(-w // self.tile)

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        rows, columns = self.tile_grid
        return rows * columns

    def tile_at(self, index: int) -> Tile:
        """Return the pixels of tile `index` (row-major)."""
        row, column = divmod(index, self.tile_grid[1])
        h, w = self.detector_shape
        r0, c0 = row * self.tile, column * self.tile
        return Tile(r0, min(r0 + self.tile, h), c0, min(c0 + self.tile, w))

    def block_positions(self, block: int) -> NDArray[np.uint32]:
        """Return the flat scan indices of `block` in lane order."""
        return self.positions[int(self.block_pos[block]) : int(self.block_pos[block + 1])]

    def block_size(self, block: int) -> int:
        """Return the number of positions in `block`."""
        return int(self.block_pos[block + 1]) - int(self.block_pos[block])

    @cached_property
    def slot_of(self) -> NDArray[np.int64]:
        """Return, per flat scan index, its place in `positions`; -1 where nothing was recorded."""
        slots = np.full(self.scan_shape[0] * self.scan_shape[1], -1, np.int64)
        slots[self.positions] = np.arange(self.n_positions)
        return slots

    def find(self, row: int, column: int) -> tuple[int, int] | None:
        """Return (block, lane) of a scan position, or None if it was never recorded.

        Raises
        ------
        IndexError
            Outside the scan.
        """
        rows, columns = self.scan_shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise IndexError(f"({row}, {column}) lies outside the {rows} x {columns} scan")
        slot = int(self.slot_of[row * self.scan_shape[1] + column])
        if slot < 0:
            return None
        block = int(np.searchsorted(self.block_pos, slot, side="right")) - 1
        return block, slot - int(self.block_pos[block])

    @cached_property
    def raw_lengths(self) -> NDArray[np.int64]:
        """i64[n_blocks, n_tiles], length of each chunk in 4-byte units if it holds plain values."""
        rows, columns = (
            np.minimum(self.tile, size - np.arange(0, size, self.tile))
            for size in self.detector_shape
        )
        pixels = np.outer(rows, columns).reshape(-1)
        sizes = np.diff(self.block_pos.astype(np.int64))
        lengths: NDArray[np.int64] = -(-sizes[:, None] * pixels * self.dtype.itemsize // 4)
        return lengths

    @property
    def recorded(self) -> NDArray[np.bool_]:
        """Bool, scan shape: positions that were recorded."""
        mask = np.zeros(self.scan_shape[0] * self.scan_shape[1], bool)
        mask[self.positions] = True
        return mask.reshape(self.scan_shape)


def choose_passes(detector_shape: tuple[int, int]) -> int:
    """Return R, the largest of 1..16 for which a block has at most 2^25 values."""
    pixels = detector_shape[0] * detector_shape[1]
    return max((r for r in (1, 2, 4, 8, 16) if LANES * r * pixels <= 1 << 25), default=1)


def choose_tile(passes: int, bits_per_pixel: float) -> int:
    """Return T so that a chunk holds enough payload to hide its 132 bytes of overhead."""
    wanted = 1024
    if bits_per_pixel < 0.15:
        wanted *= 16
    elif bits_per_pixel < 0.4:
        wanted *= 4
    return next((t for t in (8, 16, 32) if t * t * passes >= wanted), 32)


def cut_blocks(
    recorded: NDArray[np.bool_], passes: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Cut a scan into balanced rectangles of at most 32 R positions.

    Parameters
    ----------
    recorded
        Bool, scan shape: positions that exist.
    passes
        R.

    Returns
    -------
    positions, block_pos
        As in `ScanLayout`; blocks without a recorded position are left out.
    """
    rows, columns = recorded.shape
    height = min(rows, 16)
    width = min(columns, LANES * passes // height)
    height = min(rows, LANES * passes // width)
    row_edges = _equal_parts(rows, height)
    column_edges = _equal_parts(columns, width)
    flat = np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)
    parts = []
    for r0, r1 in pairwise(row_edges):
        for c0, c1 in pairwise(column_edges):
            inside = flat[r0:r1, c0:c1][recorded[r0:r1, c0:c1]]
            if inside.size:
                parts.append(inside)
    sizes = [p.size for p in parts]
    block_pos = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)
    positions = np.concatenate(parts) if parts else np.zeros(0, np.uint32)
    return positions, block_pos


def _equal_parts(length: int, at_most: int) -> NDArray[np.int64]:
    parts = -(-length // at_most)
    return np.arange(parts + 1, dtype=np.int64) * length // parts


def check_offsets(
    layout: ScanLayout,
    chunk_off: NDArray[np.uint32],
    chunk_mode: NDArray[np.uint8],
    block_nbytes: NDArray[np.int64],
) -> None:
    """Check that every chunk lies inside its block: kernels check nothing of the kind.

    Parameters
    ----------
    layout
        The geometry.
    chunk_off, chunk_mode
        As in `EncodedScan`.
    block_nbytes
        i64[n_blocks], bytes there are of each block, its padding included.

    Raises
    ------
    ContainerError
        If a chunk has a negative length, an unknown mode, or reaches out of its block, or a raw
        chunk is not as long as its values.
    """
    blocks, tiles = layout.n_blocks, layout.n_tiles
    ok = (
        chunk_off.shape == (blocks, tiles + 1)
        and chunk_mode.shape == (blocks, tiles)
        and block_nbytes.shape == (blocks,)
    )
    if ok and blocks:
        offsets = chunk_off.astype(np.int64)
        lengths = np.diff(offsets, axis=1)
        raw = chunk_mode == RAW
        ok = bool(
            (offsets[:, 0] == 0).all()
            and (lengths >= 0).all()
            and (chunk_mode <= RAW).all()
            and (lengths == layout.raw_lengths)[raw].all()
            and (4 * offsets[:, -1] + PADDING <= block_nbytes).all()
        )
    if not ok:
        raise ContainerError(
            "The list of coded pieces contradicts itself",
            action="The file is damaged: encode the scan again from its source",
        )
