"""Take damaged positions out of a finished encoded scan.

A pattern that turned out unreadable while its block was coded is held as zeros until the end; here
its block is coded again without it, so that the scan lists only what was really recorded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encode import CodingPlan, ScanEncoder
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.codec.protocol import BlockDecoder
from napari_4dstem.ledger import Allocator


def drop_positions(
    scan: EncodedScan, decoder: BlockDecoder, lost: NDArray[np.int64], allocator: Allocator
) -> EncodedScan:
    """Return `scan` without the scan positions `lost` (flat indices).

    All blocks are coded anew: damage is rare, and a second code path would be rarer still.
    """
    layout = scan.layout
    keep = ~np.isin(layout.positions, lost)
    sizes = [
        int(keep[layout.slot_of[layout.block_positions(b)]].sum()) for b in range(layout.n_blocks)
    ]
    sources = [b for b, size in enumerate(sizes) if size]
    new = ScanLayout(
        layout.scan_shape,
        layout.detector_shape,
        layout.dtype,
        layout.passes,
        layout.tile,
        layout.positions[keep],
        np.concatenate([[0], np.cumsum([sizes[b] for b in sources])]).astype(np.uint64),
    )
    index = scan.index
    masked = np.zeros(layout.detector_shape, bool) if index is None else index.masked.copy()
    rows = None if index is None else index.tile_sum
    expected = None if rows is None else np.array([int(row.max(initial=0)) for row in rows])
    encoder = ScanEncoder(CodingPlan(new, scan.model, scan.values, masked, expected), allocator)
    for target, block in enumerate(sources):
        kept = keep[layout.slot_of[layout.block_positions(block)]]
        encoder.encode_block(target, decoder.patterns(block, np.flatnonzero(kept)))
    return encoder.finish()
