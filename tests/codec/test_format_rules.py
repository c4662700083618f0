"""Rules of the format that a round trip alone would not notice."""

from __future__ import annotations

import numpy as np
import pytest

from napari_4dstem.codec import product_kernels
from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.layout import RAW
from tests.codec.cases import Case, counts


def chunk_bytes(case: Case, tile: int = 0) -> tuple[bytes, int]:
    scan = case.encode()
    return scan.chunk(0, tile).tobytes(), int(scan.chunk_mode[0, tile])


@pytest.mark.parametrize(
    ("outlier", "mode"), [(255, 0), (256, 1), (65_535, 1), (65_536, 2), (2**32 - 1, 2)]
)
def test_literals_are_as_narrow_as_the_largest_of_the_chunk(outlier: int, mode: int) -> None:
    data = np.zeros((4, 40, 11, 9), np.uint32)
    data[1, 2, 3, 4], data[3, 3, 3, 3] = outlier, 200
    case = Case(data, sample=np.zeros((1, 11, 9), np.uint32))
    found, found_mode = chunk_bytes(case)
    assert found_mode == mode
    # Eight dark pixels share a symbol: each escape has eight literals, and they lie backwards.
    width = 1 << mode
    literals = np.frombuffer(found, f"<u{width}")[::-1]
    assert literals[:16].tolist() == [0] * 4 + [outlier] + [0] * 6 + [200] + [0] * 4


def test_a_chunk_without_literals_has_mode_0() -> None:
    scan = Case(counts((4, 40, 11, 9), 300, "u4")).encode()
    lengths = np.diff(scan.chunk_off.astype(int), axis=1)
    assert (scan.chunk_mode[lengths > 0] == 0).any()
    assert (scan.chunk_mode[lengths == 0] == 0).all()


def test_plane_bits_of_escaped_and_missing_lanes_are_0() -> None:
    data = np.full((1, 33, 8, 8), 1023, np.uint16)
    sample = np.random.default_rng(0).integers(900, 1100, (50, 8, 8)).astype(np.uint16)
    data[0, 5] = 65535
    case = Case(data, sample=sample)
    plan = case.plan()
    shift = int(plan.model.classes[:, 1].max())
    assert 1 <= shift <= 6
    assert (plan.model.classes[:, 1] == shift).all()
    found, _ = chunk_bytes(case)
    planes = np.frombuffer(found, "<u4", count=2 * 64 * shift, offset=128).reshape(2, -1)
    usable = plan.model.freq[0, 1023 >> shift] > 0
    assert usable
    assert (planes[0] == 0xFFFFFFFF ^ 1 << 5).all()
    assert (planes[1] == 1).all()


def test_lanes_without_a_position_code_the_most_frequent_symbol() -> None:
    case = Case(counts((1, 33, 13, 11), 40_000, "u2"))
    scan = case.encode()
    decoder = CpuDecoder(scan)
    steps = decoder._coding.steps
    block = decoder._block(0)._replace(n=64)  # as if the last pass were full
    for tile in np.flatnonzero(scan.chunk_mode[0] != RAW):
        rect = scan.layout.tile_at(int(tile))
        bad = np.zeros(scan.layout.n_tiles, bool)
        out = np.empty((rect.n_pixels, 64), np.uint32)
        product_kernels.decode_tile(block, decoder._coding, int(tile), bad, out)
        assert not bad.any()
        for s in range(steps.tile_start[tile], steps.tile_start[tile + 1]):
            g, filler = int(steps.size[s]), int(steps.filler[steps.cls[s]])
            for i in range(g):
                if steps.fields[s] >> i & 1:
                    field = filler >> (8 // g * i) & ((1 << 8 // g) - 1)
                    expected = field << int(steps.shift[s])
                    assert (out[steps.local[s] + i, 33:] == expected).all()


def test_an_empty_chunk_holds_constants_and_code_0() -> None:
    data = np.full((2, 40, 8, 17), -5, np.int16)
    data[..., 3, 3] = 32767
    scan = Case(data, nodata=32767).encode()
    assert scan.values.offset == -5
    assert not scan.chunk_off.any()
    decoder = CpuDecoder(scan)
    np.testing.assert_array_equal(decoder.patterns(0), data.reshape(-1, 8, 17))
    sums = decoder.sums(0, np.ones((8, 17), bool), np.arange(scan.layout.n_tiles))
    assert (sums.total == -5 * (8 * 17 - 1)).all()
    assert (sums.nodata == 1).all()
