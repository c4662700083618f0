"""Are the kernels compiled? Nobody may wait for a compiler in the thread of the screen.

Numba compiles a kernel when it first meets arguments of some types, which takes seconds, or
fractions of one if an earlier process left the result on disk. What has been compiled is asked
from the kernels themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from napari_4dstem.codec import product_kernels as kernels
from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.decode_kernels import BlockBytes, Coding
from napari_4dstem.codec.encode import ScanEncoder, plan_coding
from napari_4dstem.codec.kernel_types import Geometry, ValueCoding
from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.codec.model import PixelModel, make_schedule
from napari_4dstem.codec.values import bits_dtype
from napari_4dstem.ledger import HostAllocator, Ledger


def is_ready(dtype: np.dtype[Any]) -> bool:
    """Whether everything `CpuDecoder` does for `dtype` runs without compiling anything first."""
    return all(types in kernel.overloads for kernel, types in _signatures(np.dtype(dtype)))


def warm_up(dtype: np.dtype[Any]) -> None:
    """Compile encoder and decoder for `dtype` by coding and decoding a tiny scan.

    Takes some ten seconds the first time on a machine. Call it in a thread that nobody waits for.
    """
    # Square roots: as floats most have no code, so that raw chunks are met as well.
    patterns = np.sqrt(np.arange(2 * 8 * 9)).reshape(2, 8, 9).astype(dtype)
    plan = plan_coding(patterns, np.ones((1, 2), bool))
    encoder = ScanEncoder(plan, HostAllocator(Ledger(), "warm-up"))
    try:
        encoder.encode_block(0, patterns)
    finally:
        encoder.abort()
    decoder = CpuDecoder(encoder.scan)
    tiles = np.arange(plan.layout.n_tiles)
    pixels = np.ones((8, 9), bool)
    decoder.patterns(0)
    decoder.sums(0, pixels, tiles)
    decoder.moments(0, pixels, tiles)
    decoder.reduce(0, np.ones(2, bool))


@functools.cache
def _signatures(dtype: np.dtype[Any]) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the kernels that decode `dtype`, each with Numba's types of its arguments."""
    type_of: Callable[[Any], Any] = numba.typeof
    return [(kernel, tuple(map(type_of, arguments))) for kernel, arguments in _calls(dtype)]


def _calls(dtype: np.dtype[Any]) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the kernels that decode `dtype`, each with arguments of the types it is given."""
    bits = bits_dtype(dtype)
    numbers, flags = np.zeros(1, np.int64), np.zeros(1, bool)
    layout = ScanLayout(
        (1, 1), (1, 1), bits, 1, 8, np.zeros(1, np.uint32), np.array([0, 1], np.uint64)
    )
    freq = np.zeros((1, 256), np.uint16)
    freq[0, 0], freq[0, -1] = 4095, 1
    model = PixelModel(np.zeros((1, 1), np.uint8), np.array([[1, 0]], np.uint8), freq)
    block = BlockBytes(
        np.zeros(4, np.uint8),
        np.zeros(2, np.uint16),
        np.zeros(2, np.uint32),
        np.zeros(1, np.uint8),
        1,
    )
    coding = Coding(
        Geometry(8, 1, 1),
        ValueCoding(0, 0, -1, -1, 0, bits.itemsize),
        model.class_map.reshape(-1),
        make_schedule(model, layout),
    )
    last = (
        (kernels.decode_tile, (block, coding, 0, flags, np.zeros((1, 1), np.uint32)))
        if dtype.kind == "f"
        else (
            kernels.reduce_positions,
            (block, coding, 0, 1, flags, flags, numbers, numbers, numbers),
        )
    )
    return [
        (kernels.decode_patterns, (block, coding, numbers, 0, 1, flags, np.zeros((1, 1), bits))),
        (kernels.sum_tiles, (block, coding, numbers, flags, flags, numbers, numbers)),
        (
            kernels.moment_tiles,
            (block, coding, numbers, flags, flags, np.zeros((1, 1), np.int64), numbers),
        ),
        last,
    ]
