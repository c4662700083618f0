"""Source values to bits and codes, and back: the value maps of the format."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.kernel_types import MAX_CODE, ValueCoding
from napari_4dstem.codec.value_map import ValueMap
from napari_4dstem.errors import UsageError

UNCODABLE = 0xFFFFFFFF
"""Stands for a float that has no code; its chunk is written raw."""
_RARE = 0.0005
_ENOUGH_PATTERNS = 64
_WORTHWHILE = 0.25
_MAX_FLOAT_CODE = (1 << 24) - 1


def bits_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned dtype of the same width."""
    return np.dtype(f"u{dtype.itemsize}")


def choose_value_map(sample: NDArray[Any], nodata: int | None) -> ValueMap:
    """Choose the value map of a scan from sampled patterns.

    Parameters
    ----------
    sample
        [n, H, W], u8/u16/u32, i8/i16/i32 or float32.
    nodata
        Source value that means "no data", or None.

    Raises
    ------
    UsageError
        For any other dtype.
    """
    dtype = sample.dtype
    if nodata is not None and dtype.kind in "iu":
        info = np.iinfo(dtype)
        nodata = nodata if info.min <= nodata <= info.max else None  # cannot occur
    if dtype.kind == "u" and dtype.itemsize <= 4:
        return ValueMap("uint", nodata=nodata)
    if dtype.kind == "i" and dtype.itemsize <= 4:
        return ValueMap("int", offset=_lowest_usual(sample, nodata), nodata=nodata)
    if dtype == np.float32:
        # A pixel with a single value that has no code makes raw chunks: those pixels count.
        scales = _candidate_scales(sample)
        fits = [_codable_pixels(sample, scale) for scale in scales]
        best = int(np.argmax(fits))
        if fits[best] >= _WORTHWHILE:
            return ValueMap("f32scaled", scale=scales[best])
        return ValueMap("f32raw")
    raise UsageError(
        "These values cannot be kept exactly",
        expected="8, 16 or 32 bit integers, or float32",
        found=str(dtype),
    )


def _lowest_usual(sample: NDArray[Any], nodata: int | None) -> int:
    """Return a low quantile. Not the minimum: a rare value below the offset costs nothing."""
    few = sample[:: max(1, len(sample) // _ENOUGH_PATTERNS)].reshape(-1)
    if nodata is not None:
        few = few[few != nodata]
    return int(np.quantile(few, _RARE, method="lower")) if few.size else 0


def _candidate_scales(sample: NDArray[np.float32]) -> list[float]:
    lowest = min((float(p.min(where=p > 0, initial=np.inf)) for p in sample), default=np.inf)
    return [1.0, lowest] if lowest < np.inf else [1.0]


def _codable_pixels(sample: NDArray[np.float32], scale: float) -> float:
    """Return the share of pixels whose every sampled value has a code."""
    codable = np.ones(sample.shape[1:], bool)
    for pattern in sample:
        codable &= float_codes(pattern, scale) != UNCODABLE
    return float(codable.mean())


def sums_exactly(values: ValueMap) -> bool:
    """Whether the sum of the values is the scale times the sum of the codes, bit for bit.

    With a scale that is no power of two each float32 value is a rounded product.
    """
    return not values.is_float or math.frexp(values.scale)[0] == 0.5


def float_codes(values: NDArray[np.float32], scale: float) -> NDArray[np.uint32]:
    """Return u32 codes with float32(code * scale) == value bit for bit, else `UNCODABLE`."""
    with np.errstate(invalid="ignore", over="ignore"):
        codes = np.rint(values.astype(np.float64) / scale)
        in_range = (codes >= 0) & (codes <= _MAX_FLOAT_CODE)
        codes = np.where(in_range, codes, 0) + 0.0  # so that -0.0 becomes 0.0, and no code
        same = (codes * scale).astype(np.float32).view(np.uint32) == values.view(np.uint32)
    return np.where(in_range & same, codes, UNCODABLE).astype(np.uint32)


def float_values(bits: NDArray[Any], raw: NDArray[np.bool_], scale: float) -> NDArray[np.float32]:
    """Return the float32 values of decoded 32-bit numbers: bits where `raw`, else codes."""
    from_bits = bits.astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore"):  # what is no code may be anything
        from_codes = (bits * np.float64(scale)).astype(np.float32)
    return np.where(raw, from_bits, from_codes)


def value_coding(values: ValueMap, dtype: np.dtype[Any]) -> ValueCoding:
    """Return a value map as the kernels take it."""
    width = 8 * dtype.itemsize
    whole = (1 << width) - 1
    nodata = -1 if values.nodata is None else values.nodata & whole
    signed = values.kind == "int"
    return ValueCoding(
        offset=values.offset,
        sign=1 << (width - 1) if signed else 0,
        nodata=-1 if values.is_float else nodata,
        uncodable=UNCODABLE if values.is_float else -1,
        constant=whole >> 1 if signed else whole,
        itemsize=dtype.itemsize,
    )


def pattern_codes(pattern: NDArray[Any], values: ValueMap) -> NDArray[np.int32]:
    """Return the i32 codes of one pattern for the statistics; -1 where it will be an escape."""
    if values.is_float:
        code = float_codes(pattern, values.scale).astype(np.int64)
    else:
        code = pattern.astype(np.int64) - values.offset
        if values.nodata is not None:
            code[pattern == values.nodata] = -1
    return np.where((code < 0) | (code >= MAX_CODE), -1, code).astype(np.int32)


def constant_pixels(sample: NDArray[Any]) -> NDArray[np.bool_]:
    """Return bool[H, W]: pixels at the integer dtype's maximum in every sampled pattern."""
    if sample.dtype.kind == "f" or not len(sample):
        return np.zeros(sample.shape[1:], bool)
    top: NDArray[np.bool_] = (sample == np.iinfo(sample.dtype).max).all(axis=0)
    return top
