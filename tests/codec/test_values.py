"""How source values become codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from napari_4dstem.codec.encode import ScanEncoder, plan_coding
from napari_4dstem.codec.value_map import ValueMap
from napari_4dstem.codec.values import (
    UNCODABLE,
    choose_value_map,
    constant_pixels,
    float_codes,
    pattern_codes,
    sums_exactly,
)
from napari_4dstem.errors import UsageError
from napari_4dstem.ledger import HostAllocator, Ledger


@pytest.mark.parametrize("dtype", ["u8", "i8", "f8", "f2", "c8", "?"])
def test_values_that_cannot_be_kept_exactly_are_refused(dtype: str) -> None:
    with pytest.raises(UsageError, match="kept exactly"):
        choose_value_map(np.zeros((2, 3, 4), dtype), None)


def test_a_rare_low_value_does_not_move_the_offset() -> None:
    sample = np.random.default_rng(0).integers(-20, 50, (30, 20, 21)).astype(np.int16)
    sample[3, 4, 5] = -32768
    assert choose_value_map(sample, None).offset == -20
    sample[:, 0, :] = -32768
    assert choose_value_map(sample, -32768).offset == -20


@pytest.mark.parametrize(("dtype", "nodata"), [("u1", 65535), ("u2", -1), ("i2", 32768)])
def test_no_data_that_no_value_can_equal_is_none(dtype: str, nodata: int) -> None:
    assert choose_value_map(np.ones((2, 3, 4), dtype), nodata).nodata is None


@pytest.mark.parametrize(
    ("scale", "expected"), [(1.0, 1.0), (0.37, np.float32(0.37)), (2.0**-20, 2.0**-20)]
)
def test_counts_in_floats_are_recognised(scale: float, expected: float) -> None:
    counts = np.random.default_rng(0).poisson(2.0, (20, 9, 11))
    sample = (counts * np.float64(np.float32(scale))).astype(np.float32)
    assert choose_value_map(sample, None) == ValueMap("f32scaled", scale=float(expected))


def test_zeros_among_other_floats_do_not_make_them_counts() -> None:
    sample = np.random.default_rng(0).normal(size=(20, 9, 11)).astype(np.float32)
    sample[::2] = 0
    assert choose_value_map(sample, None).kind == "f32raw"


@given(arrays(np.uint32, 50), st.sampled_from([1.0, 0.5, float(np.float32(0.1)), 1e-30, 1e30]))
def test_a_float_with_a_code_comes_back_bit_for_bit(bits: np.ndarray, scale: float) -> None:
    values = bits.view(np.float32)
    codes = float_codes(values, scale)
    coded = codes != UNCODABLE
    assert (codes[coded] < 1 << 24).all()
    back = (codes[coded] * np.float64(scale)).astype(np.float32)
    np.testing.assert_array_equal(back.view(np.uint32), bits[coded])


def test_floats_without_a_code() -> None:
    values = np.array([0, 1, 2**24 - 1, 2**24, -0.0, -1, 0.5, np.nan, np.inf], np.float32)
    assert (float_codes(values, 1.0) != UNCODABLE).tolist() == [True] * 3 + [False] * 6


@pytest.mark.parametrize(
    ("values", "exactly"),
    [
        (ValueMap("uint"), True),
        (ValueMap("f32scaled", scale=1.0), True),
        (ValueMap("f32scaled", scale=0.25), True),
        (ValueMap("f32scaled", scale=3.0), False),
        (ValueMap("f32scaled", scale=float(np.float32(0.1))), False),
    ],
)
def test_when_codes_can_be_summed_in_place_of_values(values: ValueMap, exactly: bool) -> None:
    assert sums_exactly(values) == exactly


def test_values_without_a_usable_code_count_as_escapes() -> None:
    pattern = np.array([[0, 7, 2**30 - 1, 2**30, 2**32 - 1]], np.uint32)
    codes = pattern_codes(pattern, ValueMap("uint", nodata=7))
    assert codes.tolist() == [[0, -1, 2**30 - 1, -1, -1]]


def test_only_pixels_at_the_maximum_in_every_pattern_are_constant() -> None:
    sample = np.zeros((3, 2, 4), np.int16)
    sample[:, 0, 1] = sample[:2, 1, 1] = 32767
    assert np.argwhere(constant_pixels(sample)).tolist() == [[0, 1]]
    assert not constant_pixels(np.full((3, 2, 4), np.inf, np.float32)).any()


@pytest.mark.parametrize("shape", [(0, 5, 6), (5, 6), (2, 0, 6)])
def test_a_plan_needs_a_pattern(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="at least one pattern"):
        plan_coding(np.zeros(shape, np.uint16), np.ones((2, 3), bool))


@pytest.mark.parametrize(
    "patterns",
    [np.zeros((5, 9, 10), np.uint16), np.zeros((6, 9, 10), np.uint8), np.zeros((6, 10, 9), "u2")],
)
def test_patterns_of_another_block_are_refused(patterns: np.ndarray) -> None:
    plan = plan_coding(np.zeros((2, 9, 10), np.uint16), np.ones((2, 3), bool))
    encoder = ScanEncoder(plan, HostAllocator(Ledger(), "test"))
    with pytest.raises(UsageError, match="do not belong"):
        encoder.encode_block(0, patterns)
    encoder.abort()
