"""The exact short cuts that are made while a scan is encoded."""

from __future__ import annotations

import numpy as np
import pytest

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.moments import moments_fit
from napari_4dstem.errors import UsageError
from tests.codec.cases import Case, assert_same_sums, counts

SHAPE = (40, 35, 26, 19)


def overloaded(dtype: str) -> Case:
    data = counts(SHAPE, 700, dtype)
    if dtype[0] == "i":
        data -= 3
    data[3, 4, 5, 6] = data[:, :, 7, 7] = np.iinfo(dtype).max
    masked = np.random.default_rng(0).random(SHAPE[2:]) < 0.1
    return Case(data, nodata=int(np.iinfo(dtype).max), masked=masked)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "u4"])
@pytest.mark.parametrize("seed", [None, 2])
def test_sums_of_tiles_and_patterns(dtype: str, seed: int | None) -> None:
    case = overloaded(dtype)
    scan = case.encode(seed=seed)
    numbers, gone = case.numbers()
    index = scan.index
    assert index is not None
    assert index.tile_sum is not None
    np.testing.assert_array_equal(index.sum_pattern, numbers.sum(axis=0))
    np.testing.assert_array_equal(index.nodata_count, gone.sum(axis=0))
    lowest = np.iinfo(np.int64).min
    np.testing.assert_array_equal(index.max_pattern, np.where(gone, lowest, numbers).max(axis=0))
    assert index.max_pattern[7, 7] == lowest
    used = (numbers * ~case.masked)[scan.layout.positions]
    for tile, row in enumerate(index.tile_sum):
        rect = scan.layout.tile_at(tile)
        expected = used[:, rect.r0 : rect.r1, rect.c0 : rect.c1].sum(axis=(1, 2))
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_rows_of_tile_sums_widen_without_loss_whatever_the_order_of_blocks(
    seed: int | None,
) -> None:
    data = counts((50, 60, 9, 11), 30, "u2")
    data[40:, 50:] = 60_000
    case = Case(data, sample=data[:2].reshape(-1, 9, 11))
    scan = case.encode(seed=seed)
    assert scan.layout.n_blocks > 4
    assert scan.index is not None
    assert scan.index.tile_sum is not None
    widths = [row.dtype.itemsize for row in scan.index.tile_sum]
    assert max(widths) == 4
    total = sum(row.astype(np.int64) for row in scan.index.tile_sum)
    np.testing.assert_array_equal(total, case.flat[scan.layout.positions].sum(axis=(1, 2)))


def test_sums_beyond_32_bits() -> None:
    data = np.full((3, 7, 19, 23), 2**32 - 2, np.uint32)
    scan = Case(data).encode()
    assert scan.index is not None
    assert scan.index.tile_sum is not None
    assert int(scan.index.tile_sum[0][0]) == 64 * (2**32 - 2)
    assert scan.index.tile_sum[0].dtype == np.uint64
    assert (scan.index.sum_pattern == 21 * (2**32 - 2)).all()


def test_floats_have_patterns_but_no_tile_sums() -> None:
    data = np.random.default_rng(0).normal(size=(5, 9, 17, 23)).astype(np.float32)
    data[1, 2, 3, 4] = np.nan
    case = Case(data)
    index = case.encode().index
    numbers, gone = case.numbers()
    assert index is not None
    assert index.tile_sum is None
    assert_same_sums(index.sum_pattern, numbers.sum(axis=0), np.abs(numbers).sum(axis=0))
    np.testing.assert_array_equal(index.max_pattern, np.where(gone, -np.inf, numbers).max(axis=0))
    np.testing.assert_array_equal(index.nodata_count, gone.sum(axis=0))


def test_moments_that_could_exceed_64_bits_are_refused() -> None:
    """2^32 x 2 M pixels x 4097 columns is more than 2^63: the true maximum has to decide."""
    data = np.zeros((1, 1, 512, 4097), np.uint32)
    dark = CpuDecoder(Case(data).encode())
    assert moments_fit(dark.scan)
    data[...] = 2**32 - 1
    bright = CpuDecoder(Case(data).encode())
    pixels = np.ones(data.shape[2:], bool)
    with pytest.raises(UsageError, match="too large"):
        bright.moments(0, pixels, np.arange(1))
