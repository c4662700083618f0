"""`EncodedScan`: the coded bytes, block by block, and the arrays that find a chunk in them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.index import Index
from napari_4dstem.codec.layout import ScanLayout, check_offsets
from napari_4dstem.codec.model import PixelModel
from napari_4dstem.codec.value_map import ValueMap


@dataclass(eq=False)
class EncodedScan:
    """A losslessly coded 4D scan.

    Parameters
    ----------
    layout, model, values
        Geometry, statistics and value map.
    chunk_off
        u32[n_blocks, n_tiles + 1], start of each chunk in its block, in 4-byte units.
    chunk_mode
        u8[n_blocks, n_tiles]: literal width 1, 2, 4 bytes (0, 1, 2) or `RAW`.
    chunk_crc
        u32[n_blocks, n_tiles], CRC-32 of each chunk's bytes.
    blocks
        One u8 array per block, each followed in memory by `PADDING` readable bytes that belong to
        the array: ``len(blocks[b]) == 4 * chunk_off[b, -1] + PADDING``.
    index
        Exact short cuts, or None.
    trusted
        Whether the bytes were made or checked in this process; if not, each chunk's CRC is
        checked on first touch.
    """

    layout: ScanLayout
    model: PixelModel
    values: ValueMap
    chunk_off: NDArray[np.uint32]
    chunk_mode: NDArray[np.uint8]
    chunk_crc: NDArray[np.uint32]
    blocks: list[NDArray[np.uint8]]
    index: Index | None = None
    trusted: bool = True
    _checked: NDArray[np.bool_] = field(init=False, repr=False)
    damaged: NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape = (self.layout.n_blocks, self.layout.n_tiles)
        self._checked = np.full(shape, self.trusted)
        self.damaged = np.zeros(shape, bool)
        """Bool[n_blocks, n_tiles]: chunks found damaged so far."""

    @property
    def nbytes(self) -> int:
        """Bytes of the coded form, tables and offsets included, without the index."""
        small = (
            self.chunk_off,
            self.chunk_mode,
            self.chunk_crc,
            self.layout.positions,
            self.layout.block_pos,
        )
        return (
            sum(4 * int(n) for n in self.chunk_off[:, -1])
            + sum(a.nbytes for a in small)
            + self.model.nbytes
        )

    @property
    def dense_nbytes(self) -> int:
        """Bytes of the recorded patterns as plain numbers."""
        return self.layout.n_positions * self.layout.n_pixels * self.layout.dtype.itemsize

    def chunk(self, block: int, tile: int) -> NDArray[np.uint8]:
        """Return the bytes of one chunk."""
        start, stop = (4 * int(n) for n in self.chunk_off[block, tile : tile + 2])
        return self.blocks[block][start:stop]

    def check_chunks(self, block: int, tiles: NDArray[np.intp]) -> bool:
        """Check the CRC of those of `tiles` not checked before.

        Chunks that fail are marked in `damaged`: their block's positions count as missing.

        Returns
        -------
        bool
            Whether the block, as far as known, is intact.
        """
        for tile in tiles[~self._checked[block, tiles]]:
            intact = zlib.crc32(self.chunk(block, tile).data) == int(self.chunk_crc[block, tile])
            self.damaged[block, tile] |= not intact
            self._checked[block, tile] = True
        return not bool(self.damaged[block].any())

    def check_offsets(self) -> None:
        """Check that every chunk lies inside its block (see the function of this name)."""
        sizes = np.array([block.size for block in self.blocks], np.int64)
        check_offsets(self.layout, self.chunk_off, self.chunk_mode, sizes)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Bool, scan shape: positions recorded and, as far as known, undamaged."""
        valid = np.zeros(self.layout.scan_shape[0] * self.layout.scan_shape[1], bool)
        sizes = [self.layout.block_size(block) for block in range(self.layout.n_blocks)]
        valid[self.layout.positions] = np.repeat(~self.damaged.any(axis=1), sizes)
        return valid.reshape(self.layout.scan_shape)
