"""Bring an encoded scan that is mapped from a file into RAM.

A mapped scan is there at once; one in RAM does not depend on the file, or on a slow disk, any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.index import Index
from napari_4dstem.errors import CancelledError
from napari_4dstem.ledger import Allocator, Kind


def copy_to_ram(
    scan: EncodedScan,
    allocator: Allocator,
    *,
    advance: Callable[[int], None],
    cancelled: Callable[[], bool],
) -> EncodedScan:
    """Return a copy of `scan` in RAM, every chunk checked.

    Damaged chunks are marked in the copy: the positions of their blocks count as missing.

    Parameters
    ----------
    advance
        Called with the scan positions copied so far.
    cancelled
        Asked between blocks.

    Raises
    ------
    CancelledError
        If `cancelled` said so; nothing is kept.
    """
    layout = scan.layout
    tiles = np.arange(layout.n_tiles)
    copy = replace(scan, blocks=list(scan.blocks), index=None, trusted=False)
    for block in range(layout.n_blocks):
        if cancelled():
            raise CancelledError("Loading was cancelled")
        copy.blocks[block] = _copied(scan.blocks[block], Kind.ENCODED, allocator)
        copy.check_chunks(block, tiles)
        advance(int(layout.block_pos[block + 1]))
    copy.index = None if scan.index is None else _copy_index(scan.index, allocator)
    return copy


def _copied(array: NDArray[Any], kind: Kind, allocator: Allocator) -> NDArray[Any]:
    copy = allocator.empty(kind, array.shape, array.dtype)
    copy[...] = array
    return copy


def _copy_index(index: Index, allocator: Allocator) -> Index:
    def copied(array: NDArray[Any]) -> NDArray[Any]:
        return _copied(array, Kind.INDEX, allocator)

    return Index(
        tile_sum=None if index.tile_sum is None else [copied(row) for row in index.tile_sum],
        sum_pattern=copied(index.sum_pattern),
        max_pattern=copied(index.max_pattern),
        nodata_count=copied(index.nodata_count),
        masked=copied(index.masked),
    )
