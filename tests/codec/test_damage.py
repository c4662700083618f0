"""Damaged bytes: never a crash, never a wrong count outside a reported hole."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.layout import PADDING, RAW
from napari_4dstem.codec.model import make_schedule
from napari_4dstem.errors import ContainerError
from tests.codec.cases import Case, assert_decodes, counts

SHAPE = (13, 37, 21, 26)


@pytest.fixture(scope="module")
def case() -> Case:
    """A scan whose chunks have all parts: planes, literals of two widths, raw ones, empty ones."""
    data = counts(SHAPE, 60_000, "u2")
    data[:, :, 16:, :] = 0
    data[..., 18, 25] = 65535
    data[3, 3, 2, 2] = data[4, 3, 9, 22] = 65535
    sample = data[::3].reshape(-1, *SHAPE[2:]).copy()
    data[12, 36, 18, 25] = 7
    return Case(data, nodata=65535, sample=sample)


@pytest.fixture(scope="module")
def scan(case: Case) -> EncodedScan:
    scan = case.encode()
    assert {0, 1, RAW} <= set(scan.chunk_mode.flat)
    assert (np.diff(scan.chunk_off.astype(int), axis=1) == 0).any()
    assert scan.model.classes[:, 1].max() > 0
    assert scan.layout.n_blocks == 1
    return scan


def copy(scan: EncodedScan, *, trusted: bool) -> EncodedScan:
    return dataclasses.replace(scan, blocks=[b.copy() for b in scan.blocks], trusted=trusted)


def parts(scan: EncodedScan, tile: int) -> Iterator[tuple[str, int]]:
    """Yield the name and a byte of every part of a chunk of block 0."""
    start, stop = (4 * int(n) for n in scan.chunk_off[0, tile : tile + 2])
    if start == stop:
        return
    if scan.chunk_mode[0, tile] == RAW:
        yield from (("raw", start), ("raw end", stop - 1))
        return
    passes = -(-scan.layout.block_size(0) // 32)
    planes = 4 * passes * int(make_schedule(scan.model, scan.layout).tile_planes[tile])
    yield from (("first state", start), ("last state", start + 127))
    if planes:
        yield from (("planes", start + 128), ("planes end", start + 127 + planes))
    yield from (("words", start + 128 + planes), ("middle", (start + planes + stop) // 2))
    yield "last literal or word", stop - 1


def assert_a_hole(damaged: EncodedScan) -> None:
    """Every product of the block is empty, and its positions are missing."""
    decoder = CpuDecoder(damaged)
    assert not decoder.patterns(0).any()
    assert not damaged.valid.any()
    assert not decoder.patterns(0, np.array([3, 40])).any()
    pixels = np.ones(SHAPE[2:], bool)
    some = np.arange(1)
    assert not decoder.sums(0, pixels, some).total.any()
    assert not decoder.moments(0, pixels, some).rows.any()
    reduced = decoder.reduce(0, np.ones(damaged.layout.block_size(0), bool))
    assert not reduced.sum.any()
    assert (reduced.maximum == np.iinfo(np.int64).min).all()


def test_a_flipped_bit_in_any_part_of_any_chunk_is_found(scan: EncodedScan) -> None:
    names = set()
    for tile in range(scan.layout.n_tiles):
        for name, at in parts(scan, tile):
            names.add(name)
            damaged = copy(scan, trusted=False)
            damaged.blocks[0][at] ^= 0x10
            assert_a_hole(damaged)
            assert np.argwhere(damaged.damaged).tolist() == [[0, tile]]
    assert len(names) == 9


def test_sums_that_do_not_touch_the_damage_see_it_once_it_is_known(
    scan: EncodedScan, case: Case
) -> None:
    damaged = copy(scan, trusted=False)
    damaged.blocks[0][4 * int(scan.chunk_off[0, 5])] ^= 1
    decoder = CpuDecoder(damaged)
    pixels = np.ones(SHAPE[2:], bool)
    assert decoder.sums(0, pixels, np.array([0])).total.any()
    assert damaged.valid.all()
    assert not decoder.sums(0, pixels, np.array([0, 5])).total.any()
    assert not damaged.valid.any()
    assert not decoder.sums(0, pixels, np.array([0])).total.any()


def test_without_checksums_damaged_states_and_words_are_found(scan: EncodedScan) -> None:
    found = tried = 0
    for tile in range(scan.layout.n_tiles):
        for name, at in parts(scan, tile):
            damaged = copy(scan, trusted=True)
            damaged.blocks[0][at] ^= 0x10
            decoder = CpuDecoder(damaged)
            patterns = decoder.patterns(0)
            assert patterns.shape == (scan.layout.block_size(0), *SHAPE[2:])
            if name in ("first state", "last state", "words"):
                tried += 1
                found += bool(damaged.damaged[0, tile]) and not patterns.any()
    assert tried > 10
    assert found == tried


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([1e-4, 0.01, 1.0]))
def test_no_bytes_crash_the_decoder(scan: EncodedScan, case: Case, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    damaged = copy(scan, trusted=True)
    hit = rng.random(damaged.blocks[0].size - PADDING) < share
    damaged.blocks[0][:-PADDING][hit] = rng.integers(0, 256, int(hit.sum()))
    decoder = CpuDecoder(damaged)
    pixels = rng.random(SHAPE[2:]) < 0.5
    decoder.patterns(0, np.array([7]))
    decoder.sums(0, pixels, np.arange(scan.layout.n_tiles))
    decoder.moments(0, pixels, np.arange(scan.layout.n_tiles))
    decoder.reduce(0, rng.random(scan.layout.block_size(0)) < 0.1)
    decoder.patterns(0)


@pytest.mark.parametrize("trusted", [False, True])
def test_a_chunk_too_short_for_its_tile(scan: EncodedScan, trusted: bool) -> None:
    damaged = copy(scan, trusted=trusted)
    damaged.chunk_off = scan.chunk_off.copy()
    tile = int(np.flatnonzero(scan.chunk_mode[0] != RAW)[1])
    damaged.chunk_off[0, tile] = damaged.chunk_off[0, tile + 1] - 20
    assert_a_hole(damaged)


def test_offsets_out_of_the_block_are_refused_before_decoding(scan: EncodedScan) -> None:
    damaged = copy(scan, trusted=False)
    damaged.chunk_off = scan.chunk_off.copy()
    damaged.chunk_off[0, -1] += 1
    with pytest.raises(ContainerError, match="coded pieces"):
        CpuDecoder(damaged)


def test_the_rest_of_a_damaged_scan_is_intact() -> None:
    case = Case(counts((40, 35, 21, 26), 5_000, "u2"))
    scan = case.encode()
    damaged = copy(scan, trusted=False)
    assert scan.layout.n_blocks > 2
    damaged.blocks[1][200] ^= 4
    decoder = CpuDecoder(damaged)
    for block in range(scan.layout.n_blocks):
        expected = case.flat[scan.layout.block_positions(block)]
        np.testing.assert_array_equal(decoder.patterns(block), expected * (block != 1))
    missing = np.flatnonzero(~damaged.valid)
    np.testing.assert_array_equal(missing, np.sort(scan.layout.block_positions(1)))


def test_the_undamaged_scan_decodes(scan: EncodedScan, case: Case) -> None:
    assert_decodes(CpuDecoder(copy(scan, trusted=False)), case)


@pytest.mark.parametrize(
    "lanes", [[-1], [0, 481], [5, 4], [[1, 2]]], ids=["negative", "beyond", "descending", "2D"]
)
def test_lanes_outside_the_block_are_refused(scan: EncodedScan, lanes: list[int]) -> None:
    assert scan.layout.block_size(0) == 481
    with pytest.raises(IndexError, match="lanes"):
        CpuDecoder(scan).patterns(0, np.array(lanes))


@pytest.mark.parametrize("tile", [-1, 12])
def test_tiles_outside_the_camera_are_refused(scan: EncodedScan, tile: int) -> None:
    assert scan.layout.n_tiles == 12
    with pytest.raises(IndexError, match="tile"):
        CpuDecoder(scan).sums(0, np.ones(SHAPE[2:], bool), np.array([0, tile]))


def test_arrays_of_another_shape_are_refused(scan: EncodedScan) -> None:
    decoder = CpuDecoder(scan)
    with pytest.raises(ValueError, match="shape"):
        decoder.sums(0, np.ones((26, 21), bool), np.arange(1))
    with pytest.raises(ValueError, match="shape"):
        decoder.reduce(0, np.ones(480, bool))
