"""Encode a whole source: read and code it block by block.

One thread reads the next block while the current one is coded, so at most two blocks of plain
patterns are held at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.encode import ScanEncoder, plan_coding
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.errors import CancelledError
from napari_4dstem.imaging.blocks import read_positions
from napari_4dstem.imaging.spread import processor_count
from napari_4dstem.ledger import Allocator
from napari_4dstem.loading.coarse import CoarseScan
from napari_4dstem.loading.drop import drop_positions
from napari_4dstem.sources import Source


class Observer(Protocol):
    """Hears how the encoding of a source goes on; called from the encoding thread."""

    def growing(self, scan: EncodedScan, done: NDArray[np.bool_]) -> None:
        """Take note that coding begins; `scan` and `done` grow from now on."""
        ...

    def damaged(self, positions: NDArray[np.int64]) -> None:
        """Take note of damaged patterns (flat scan indices), before their block is done."""
        ...

    def block_done(self, positions: int) -> None:
        """Take note that one more block was coded; `positions` in all so far."""
        ...


def encode_source(
    source: Source,
    coarse: CoarseScan,
    allocator: Allocator,
    observer: Observer,
    *,
    nodata: int | None,
    masked: NDArray[np.bool_],
    cancelled: Callable[[], bool],
) -> tuple[EncodedScan, NDArray[np.int64]]:
    """Encode all recorded patterns of a source.

    Parameters
    ----------
    coarse
        What `read_coarse` returned: the statistics are taken from it.
    allocator, observer
        Where the code is kept, and who hears how it goes on.
    nodata
        Source value that means "no data", or None.
    masked
        Bool[H, W], pixels that the tile sums leave out.
    cancelled
        Asked between pieces.

    Returns
    -------
    scan
        The encoded scan.
    lost
        i64, flat scan indices whose patterns were damaged; they are not in `scan`.

    Raises
    ------
    CancelledError
        If `cancelled` said so; nothing is kept.
    """
    plan = plan_coding(coarse.patterns, source.recorded, nodata=nodata, masked=masked)
    encoder = ScanEncoder(plan, allocator, threads=processor_count())
    observer.growing(encoder.scan, encoder.done)
    try:
        lost = _encode_blocks(source, encoder, observer, cancelled)
        source.check_unchanged()
        scan = encoder.finish()
    except BaseException:
        encoder.abort()
        raise
    if len(lost):
        scan = drop_positions(scan, CpuDecoder(scan), lost, allocator)
    return scan, lost


def _encode_blocks(
    source: Source, encoder: ScanEncoder, observer: Observer, cancelled: Callable[[], bool]
) -> NDArray[np.int64]:
    layout = encoder.scan.layout
    lost: list[NDArray[np.int64]] = []
    done = 0

    def read(block: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        return read_positions(source, layout.block_positions(block), layout, cancelled)

    with ThreadPoolExecutor(1, thread_name_prefix="n4-read") as reader:
        pending = reader.submit(read, 0) if layout.n_blocks else None
        for block in range(layout.n_blocks):
            assert pending is not None
            patterns, damaged = pending.result()
            if cancelled():
                raise CancelledError("Loading was cancelled")
            pending = reader.submit(read, block + 1) if block + 1 < layout.n_blocks else None
            positions = layout.block_positions(block)
            lost.append(positions[damaged].astype(np.int64))
            if damaged.any():
                observer.damaged(lost[-1])
            encoder.encode_block(block, patterns)
            done += len(positions)
            observer.block_done(done)
    return np.concatenate(lost) if lost else np.zeros(0, np.int64)
