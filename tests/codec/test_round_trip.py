"""What is encoded comes back bit for bit, and every sum equals the dense one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.layout import RAW
from tests.codec.cases import Case, assert_decodes, counts

SHAPE = (13, 37, 45, 61)
SMALL = (5, 9, 17, 23)


def assert_round_trip(case: Case, *, seed: int | None = None) -> CpuDecoder:
    decoder = CpuDecoder(case.encode(seed=seed))
    assert_decodes(decoder, case)
    return decoder


def with_overloads(shape: tuple[int, int, int, int], dose: float, dtype: str) -> Case:
    data, top = counts(shape, dose, dtype), np.iinfo(dtype).max
    data[..., 3, 5] = data[..., -1, -1] = top  # masked by the camera: constant
    data[2, 3, 10, 10] = top
    data[3:5, 4, 12, 20] = top - 1
    return Case(data, nodata=int(top))


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
@pytest.mark.parametrize("dose", [30, 2_000, 200_000])
def test_counts_with_overloads(dose: float, dtype: str) -> None:
    case = with_overloads(SHAPE, dose, dtype)
    decoder = assert_round_trip(case)
    assert decoder.scan.nbytes < 0.3 * decoder.scan.dense_nbytes
    assert decoder.scan.model.constant.sum() == 2
    assert not (decoder.scan.chunk_mode == RAW).any()


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_a_constant_pixel_that_deviates_makes_its_chunk_raw(dtype: str) -> None:
    case = with_overloads(SHAPE, 2_000, dtype)
    case.data[12, 36, 44, 60] = 0
    decoder = assert_round_trip(case)
    raw = np.argwhere(decoder.scan.chunk_mode == RAW)
    layout = decoder.scan.layout
    assert [tuple(at) for at in raw] == [(layout.n_blocks - 1, layout.n_tiles - 1)]


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4"])
@pytest.mark.parametrize("nodata", [False, True])
def test_signed_values(dtype: str, nodata: bool) -> None:
    info = np.iinfo(dtype)
    data = (counts(SMALL, 900, "u4").astype(np.int64) - 3).clip(-100, 120).astype(dtype)
    data[1, 2, 3, 4], data[1, 2, 3, 5], data[3, 3, 3, 3] = info.min, info.max, -1
    sample = data.reshape(-1, *SMALL[2:])[20:25]
    case = Case(data, nodata=info.max if nodata else None, sample=sample)
    assert assert_round_trip(case).scan.values.offset == -3


def test_no_data_that_is_not_the_largest_value() -> None:
    data = counts(SMALL, 900, "u2")
    assert (data == 2).any()
    case = Case(data, nodata=2)
    assert_round_trip(case)
    case = Case(data, nodata=0)
    assert_round_trip(case)


@pytest.mark.parametrize("scale", [1.0, 0.25, 0.37])
def test_counts_stored_as_floats(scale: float) -> None:
    data = (counts(SMALL, 900, "u4") * np.float64(np.float32(scale))).astype(np.float32)
    decoder = assert_round_trip(Case(data))
    assert decoder.scan.values.kind == "f32scaled"
    assert decoder.scan.values.scale == np.float32(scale)
    assert decoder.scan.nbytes < 0.3 * data.nbytes


def test_floats_that_have_no_code_make_raw_chunks() -> None:
    data = counts((5, 9, 40, 23), 900, "u4").astype(np.float32)
    data[1, 1, 1, 1], data[2, 2, 10, 2], data[0, 3, 30, 12] = np.nan, -0.0, -np.inf
    data[0, 0, 0, 20], data[4, 8, 39, 22] = 1e30, 2.0**24
    decoder = assert_round_trip(Case(data, sample=data[3].copy()))
    assert decoder.scan.values.kind == "f32scaled"
    assert (decoder.scan.chunk_mode == RAW).sum() == 5


def test_floats_that_do_not_compress() -> None:
    data = np.random.default_rng(1).normal(size=SMALL).astype(np.float32)
    decoder = assert_round_trip(Case(data))
    assert decoder.scan.values.kind == "f32raw"
    assert (decoder.scan.chunk_mode == RAW).all()


def test_values_near_the_top_of_32_bits() -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(2**32 - 200, 2**32, SMALL).astype(np.uint32)
    assert_round_trip(Case(data, nodata=2**32 - 1))
    data = rng.integers(2**30 - 50, 2**30 + 50, SMALL).astype(np.uint32)
    decoder = assert_round_trip(Case(data))
    total = decoder.sums(0, np.ones(SMALL[2:], bool), np.arange(decoder.scan.layout.n_tiles)).total
    assert total.min() > 2**38


@pytest.mark.parametrize("n", [1, 2, 9, 31, 33])
def test_few_positions(n: int) -> None:
    case = Case(np.random.default_rng(n).poisson(5, (1, n, 47, 29)).astype(np.uint16))
    scan = assert_round_trip(case).scan
    assert scan.nbytes <= 1.02 * scan.dense_nbytes + (64 << 10)


@pytest.mark.parametrize("shape", [(1, 1300, 13, 11), (1300, 1, 11, 13), (3, 5, 1, 1)])
def test_thin_scans_and_cameras(shape: tuple[int, int, int, int]) -> None:
    case = Case(np.random.default_rng(2).poisson(5, shape).astype(np.uint16))
    assert_round_trip(case)


def test_an_interrupted_scan_with_holes() -> None:
    data = counts((23, 71, 19, 12), 500, "u2")
    recorded = np.random.default_rng(5).random((23, 71)) < 0.6
    recorded[16:, :] = False
    case = Case(data, recorded=recorded)
    decoder = assert_round_trip(case)
    layout = decoder.scan.layout
    np.testing.assert_array_equal(layout.recorded, recorded)
    np.testing.assert_array_equal(decoder.scan.valid, recorded)
    assert layout.n_positions == recorded.sum()


def test_zeros_take_nearly_nothing() -> None:
    decoder = assert_round_trip(Case(np.zeros((40, 50, 30, 20), np.uint32)))
    assert not decoder.scan.chunk_off.any()
    assert decoder.scan.nbytes < 0.005 * decoder.scan.dense_nbytes


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i2"])
def test_noise_is_hardly_larger_than_itself(dtype: str) -> None:
    info = np.iinfo(dtype)
    data = np.random.default_rng(7).integers(info.min, info.max, (21, 19, 40, 33), endpoint=True)
    scan = assert_round_trip(Case(data.astype(dtype))).scan
    assert scan.nbytes <= 1.02 * scan.dense_nbytes + (64 << 10)


def test_a_dark_sample_and_then_a_bright_half() -> None:
    rng = np.random.default_rng(8)
    data = rng.poisson(0.01, (9, 70, 19, 40)).astype(np.uint16)
    data[5:] = rng.integers(0, 65536, (4, 70, 19, 40))
    scan = assert_round_trip(Case(data, sample=data[:2].reshape(-1, 19, 40))).scan
    assert scan.nbytes <= 1.02 * scan.dense_nbytes + (64 << 10)


def test_masks_do_not_change_what_is_coded() -> None:
    data = counts(SMALL, 900, "u2")
    masked = np.random.default_rng(4).random(SMALL[2:]) < 0.2
    with_mask, without = Case(data, masked=masked).encode(), Case(data).encode()
    for a, b in zip(with_mask.blocks, without.blocks, strict=True):
        np.testing.assert_array_equal(a, b)


def test_order_and_threads_do_not_change_what_is_coded() -> None:
    case = Case(counts((40, 35, 26, 19), 900, "u2"))
    one, other = case.encode(threads=1), case.encode(threads=3, seed=9)
    assert one.layout.n_blocks > 2
    np.testing.assert_array_equal(one.chunk_off, other.chunk_off)
    np.testing.assert_array_equal(one.chunk_crc, other.chunk_crc)


def test_read_only_memory_encodes_alike() -> None:
    case = Case(counts(SMALL, 900, "u2"))
    case.data.flags.writeable = False
    case.flat.flags.writeable = False
    assert_round_trip(case)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Scans of any shape and dtype: dim, bright, with outliers, holes, and a misleading sample."""
    dtype = np.dtype(draw(st.sampled_from(["u1", "u2", "u4", "i1", "i2", "i4", "f4"])))
    sizes = [draw(st.integers(1, most)) for most in (9, 40, 21, 21)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mean = draw(st.sampled_from([0.0, 0.01, 0.3, 3.0, 40.0, 1e4]))
    values = rng.poisson(mean * rng.random(sizes[2:]) ** 2, sizes).astype(np.float64)
    if dtype.kind == "f":
        data = (values * draw(st.sampled_from([1.0, 0.5, 0.1]))).astype(dtype)
        strange = np.array([np.nan, -0.0, np.inf, -1.5, 3e38, 1e-44], dtype)
    else:
        info = np.iinfo(dtype)
        shift = draw(st.integers(-5, 5)) if dtype.kind == "i" else 0
        data = np.clip(values + shift, info.min, info.max).astype(dtype)
        strange = np.array([info.max, info.min, info.max - 1, 1], dtype)
    odd = rng.random(sizes) < draw(st.sampled_from([0.0, 0.0005, 0.02]))
    if draw(st.booleans()):  # only one kind of them, so that nothing else gives it away
        strange = rng.choice(strange, 1)
    data[odd] = rng.choice(strange, int(odd.sum()))
    recorded = rng.random(sizes[:2]) < draw(st.sampled_from([0.3, 1.0]))
    recorded[rng.integers(sizes[0]), rng.integers(sizes[1])] = True
    nodata = None if dtype.kind == "f" or draw(st.booleans()) else int(np.iinfo(dtype).max)
    sample = data[recorded][: draw(st.integers(1, 40))]
    masked = rng.random(sizes[2:]) < 0.2
    return Case(data, nodata=nodata, masked=masked, recorded=recorded, sample=sample)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_anything_comes_back(case: Case) -> None:
    assert_round_trip(case, seed=1)
