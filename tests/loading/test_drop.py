"""An encoded scan without its damaged positions is the scan that never had them."""

from __future__ import annotations

import numpy as np
import pytest

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.ledger import HostAllocator, Ledger
from napari_4dstem.loading.drop import drop_positions
from tests.acquisitions import SHAPE, counts
from tests.codec.cases import Case


@pytest.mark.parametrize("dtype", ["u2", "i2", "f4"])
def test_dropped_positions_are_gone_and_the_others_are_the_same(dtype: str) -> None:
    data = counts(dtype=dtype)
    masked = np.zeros(SHAPE[2:], bool)
    masked[3, 4] = True
    scan = Case(data, masked=masked).encode()
    # Single ones, and a whole block.
    lost = np.concatenate([[0, 75, 1399], scan.layout.block_positions(1).astype(np.int64)])
    ledger = Ledger()
    found = drop_positions(scan, CpuDecoder(scan), lost, HostAllocator(ledger, "scan"))
    layout = found.layout
    kept = np.ones(SHAPE[0] * SHAPE[1], bool)
    kept[lost] = False
    assert layout.n_blocks == scan.layout.n_blocks - 1
    assert np.array_equal(layout.recorded.reshape(-1), kept)
    assert np.array_equal(found.valid, layout.recorded)
    decoder = CpuDecoder(found)
    flat = data.reshape(-1, *SHAPE[2:])
    for block in range(layout.n_blocks):
        here = flat[layout.block_positions(block)]
        assert decoder.patterns(block).tobytes() == here.tobytes()
    index = found.index
    assert index is not None
    finite = np.where(np.isfinite(flat[kept]), flat[kept], 0)
    assert np.allclose(index.sum_pattern, finite.sum(axis=0, dtype=float), rtol=1e-12)
    assert np.array_equal(index.masked, masked)
    if dtype != "f4":
        assert index.tile_sum is not None
        without = np.where(masked, 0, flat[layout.positions]).astype(np.int64)
        assert np.array_equal(sum(r.astype(int) for r in index.tile_sum), without.sum((1, 2)))
    assert ledger.total() >= found.nbytes - found.model.nbytes - 100_000
