"""Source values to bits and codes, and back: the value maps of the format."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encode_kernels import MAX_CODE, ValueCoding
from napari_4dstem.codec.layout import ValueMap
from napari_4dstem.errors import UsageError

UNCODABLE = 0xFFFFFFFF
"""Stands for a float that has no code; its chunk is written raw."""
_RARE = 0.0005
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
    if dtype.kind == "u" and dtype.itemsize <= 4:
        return ValueMap("uint", nodata=nodata)
    if dtype.kind == "i" and dtype.itemsize <= 4:
        # Not the minimum: a rare outlier below the offset is an escape, and costs nothing.
        low = np.quantile(sample, _RARE, method="lower") if sample.size else 0
        return ValueMap("int", offset=int(low), nodata=nodata)
    if dtype == np.float32:
        for scale in _candidate_scales(sample):
            codable = float_codes(sample, scale) != UNCODABLE
            if codable.mean() > 0.5:
                return ValueMap("f32scaled", scale=scale)
        return ValueMap("f32raw")
    raise UsageError(
        "These values cannot be kept exactly",
        expected="8, 16 or 32 bit integers, or float32",
        found=str(dtype),
    )


def _candidate_scales(sample: NDArray[np.float32]) -> list[float]:
    positive = sample[np.isfinite(sample) & (sample > 0)]
    return [1.0] + ([float(positive.min())] if positive.size else [])


def float_codes(values: NDArray[np.float32], scale: float) -> NDArray[np.uint32]:
    """Return u32 codes with float32(code * scale) == value bit for bit, else `UNCODABLE`."""
    with np.errstate(invalid="ignore", over="ignore"):
        codes = np.rint(values.astype(np.float64) / scale)
        in_range = (codes >= 0) & (codes <= _MAX_FLOAT_CODE)
        codes = np.where(in_range, codes, 0)
        same = (codes * scale).astype(np.float32).view(np.uint32) == values.view(np.uint32)
    return np.where(in_range & same, codes, UNCODABLE).astype(np.uint32)


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


def sample_codes(sample: NDArray[Any], values: ValueMap) -> NDArray[np.int32]:
    """Return i32 codes of sampled patterns for the statistics; -1 where there is no code."""
    out = np.empty(sample.shape, np.int32)
    for i, pattern in enumerate(sample):  # one at a time: no second copy of the sample
        if values.kind == "f32scaled":
            code = float_codes(pattern, values.scale).astype(np.int64)
            bad = code == UNCODABLE
        else:
            code = pattern.astype(np.int64) - values.offset
            bad = code < 0
            if values.nodata is not None:
                bad |= pattern == values.nodata
        out[i] = np.where(bad, -1, np.minimum(code, MAX_CODE))
    return out


def constant_pixels(sample: NDArray[Any]) -> NDArray[np.bool_]:
    """Return bool[H, W]: pixels at the integer dtype's maximum in every sampled pattern."""
    if sample.dtype.kind == "f" or not len(sample):
        return np.zeros(sample.shape[1:], bool)
    top: NDArray[np.bool_] = (sample == np.iinfo(sample.dtype).max).all(axis=0)
    return top
