"""Blocks, tiles, and the checks that keep kernels inside their buffers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_4dstem.codec.layout import (
    PADDING,
    RAW,
    ScanLayout,
    check_offsets,
    choose_passes,
    choose_tile,
    cut_blocks,
)
from napari_4dstem.errors import ContainerError


def layout_of(scan: tuple[int, int], passes: int = 1) -> ScanLayout:
    positions, block_pos = cut_blocks(np.ones(scan, bool), passes)
    return ScanLayout(scan, (21, 13), np.dtype(np.uint16), passes, 8, positions, block_pos)


@pytest.mark.parametrize(
    ("camera", "bits", "passes", "tile"),
    [
        ((192, 192), 0.55, 16, 8),
        ((256, 256), 0.42, 16, 8),
        ((192, 192), 0.3, 16, 16),
        ((192, 192), 0.03, 16, 32),
        ((512, 512), 0.55, 4, 16),
        ((1065, 1030), 2.0, 1, 32),
        ((2048, 2048), 2.0, 1, 32),
    ],
)
def test_the_choice_of_passes_and_tile(
    camera: tuple[int, int], bits: float, passes: int, tile: int
) -> None:
    assert choose_passes(camera) == passes
    assert choose_tile(passes, bits) == tile


def test_the_usual_block_is_16_by_32_positions() -> None:
    positions, block_pos = cut_blocks(np.ones((256, 256), bool), 16)
    assert (np.diff(block_pos.astype(int)) == 512).all()
    rows, columns = np.divmod(positions[:512].astype(int), 256)
    assert (rows.max(), columns.max()) == (15, 31)
    np.testing.assert_array_equal(positions[:33], [*range(32), 256])


def test_a_single_row_is_cut_into_long_blocks() -> None:
    _, block_pos = cut_blocks(np.ones((1, 1300), bool), 16)
    assert np.diff(block_pos.astype(int)).tolist() == [433, 433, 434]


@given(
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_every_recorded_position_has_one_place(
    scan: tuple[int, int], passes: int, seed: int, share: float
) -> None:
    recorded = np.random.default_rng(seed).random(scan) < share
    positions, block_pos = cut_blocks(recorded, passes)
    layout = ScanLayout(scan, (3, 5), np.dtype(np.uint8), passes, 8, positions, block_pos)
    np.testing.assert_array_equal(layout.recorded, recorded)
    for row, column in np.argwhere(recorded)[:20]:
        found = layout.find(int(row), int(column))
        assert found is not None
        block, lane = found
        assert layout.block_positions(block)[lane] == row * scan[1] + column
    for row, column in np.argwhere(~recorded)[:5]:
        assert layout.find(int(row), int(column)) is None


@pytest.mark.parametrize("at", [(-1, 0), (0, -1), (5, 0), (0, 7)])
def test_positions_outside_the_scan_are_refused(at: tuple[int, int]) -> None:
    with pytest.raises(IndexError, match="5 x 7"):
        layout_of((5, 7)).find(*at)


@pytest.mark.parametrize(
    ("positions", "block_pos"),
    [
        ([0, 1, 1], [0, 3]),  # twice
        ([0, 1, 35], [0, 3]),  # outside
        ([0, 1, 2], [0, 2]),  # one in no block
        ([0, 1, 2], [1, 3]),
        ([0, 1, 2], [0, 2, 2, 3]),  # an empty block
        ([0, 1, 2], [0, 2, 1, 3]),
        (list(range(33)), [0, 33]),  # more than 32 R
        ([0, 1, 2], [0, 2**64 - 1, 3]),
    ],
)
def test_contradicting_positions_are_refused(positions: list[int], block_pos: list[int]) -> None:
    with pytest.raises(ContainerError, match="positions"):
        ScanLayout(
            (5, 7),
            (3, 4),
            np.dtype(np.uint8),
            1,
            8,
            np.array(positions, np.uint32),
            np.array(block_pos, np.uint64),
        )


def test_raw_lengths() -> None:
    layout = layout_of((5, 7), passes=2)
    assert layout.tile_grid == (3, 2)
    pixels = [64, 40, 64, 40, 40, 25]
    assert layout.raw_lengths.tolist() == [[-(-35 * n * 2 // 4) for n in pixels]]


def good_offsets(layout: ScanLayout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = layout.raw_lengths.copy()
    modes = np.full(lengths.shape, RAW, np.uint8)
    modes[0, 0], lengths[0, 0] = 0, 40
    offsets = np.zeros((layout.n_blocks, layout.n_tiles + 1), np.uint32)
    offsets[:, 1:] = np.cumsum(lengths, axis=1)
    return offsets, modes, 4 * offsets[:, -1].astype(np.int64) + PADDING


def test_sound_offsets_pass() -> None:
    layout = layout_of((5, 17))
    check_offsets(layout, *good_offsets(layout))


@pytest.mark.parametrize(
    "harm",
    [
        lambda offsets, modes, sizes: offsets.__setitem__((1, 0), 1),
        lambda offsets, modes, sizes: offsets.__setitem__((1, 2), offsets[1, 1] - 1),
        lambda offsets, modes, sizes: offsets.__setitem__((0, 1), 2**32 - 1),
        lambda offsets, modes, sizes: offsets.__setitem__((2, -1), offsets[2, -1] + 1),
        lambda offsets, modes, sizes: modes.__setitem__((0, 0), 4),
        lambda offsets, modes, sizes: modes.__setitem__((0, 0), RAW),
        lambda offsets, modes, sizes: sizes.__setitem__(0, sizes[0] - 1),
    ],
)
def test_offsets_that_lead_outside_are_refused(harm) -> None:
    layout = layout_of((5, 17))
    offsets, modes, sizes = good_offsets(layout)
    harm(offsets, modes, sizes)
    with pytest.raises(ContainerError, match="coded pieces"):
        check_offsets(layout, offsets, modes, sizes)
