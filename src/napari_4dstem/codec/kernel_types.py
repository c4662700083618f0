"""What the kernels of the encoder and of the decoder share.

Kernels are specialised by Numba on the exact types of their arguments: everything that goes into
one is made here in one form, so that there is one specialisation per width of the stored values.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int: TypeAlias = int | np.integer[Any]
"""A whole number inside a kernel, where Python's and NumPy's are the same thing."""

MAX_CODE = 1 << 30
"""Codes from here on are always escaped, so that 32-bit signed scratch suffices."""


class Geometry(NamedTuple):
    """Tile edge and camera size, in pixels."""

    tile: int
    height: int
    width: int


class ValueCoding(NamedTuple):
    """How source bits become codes: code = (bits ^ sign) - sign - offset.

    Bits equal to `nodata` are always escaped; a chunk with bits equal to `uncodable`, or with a
    constant pixel that is not `constant`, is written raw. -1 stands for "none".
    """

    offset: int
    sign: int
    nodata: int
    uncodable: int
    constant: int
    itemsize: int


class TileRect(NamedTuple):
    """One tile: flat index of its first pixel, its height and width, pixels of a camera row."""

    first: Int
    height: Int
    width: Int
    stride: Int


@njit(nogil=True, cache=True)
def value_of(bits: Int, coding: ValueCoding) -> Int:
    """Return the number that source bits stand for; no data counts as 0."""
    value = (np.int64(bits) ^ coding.sign) - coding.sign
    return np.int64(0) if bits == coding.nodata else value


@njit(nogil=True, cache=True)
def tile_rect(t: Int, geometry: Geometry) -> TileRect:
    """Return the pixels of tile `t` (row-major)."""
    columns = (geometry.width + geometry.tile - 1) // geometry.tile
    r0 = t // columns * geometry.tile
    c0 = t % columns * geometry.tile
    return TileRect(
        r0 * geometry.width + c0,
        min(geometry.tile, geometry.height - r0),
        min(geometry.tile, geometry.width - c0),
        geometry.width,
    )


class _Writable:
    """Passes an array's memory on without its read-only flag, and keeps the array alive."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self.__array_interface__ = {
            **array.__array_interface__,
            "data": (array.__array_interface__["data"][0], False),
        }


def kernel_array(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the numbers of `array` in the one form that kernels are compiled for.

    Contiguous, aligned to at least 2 bytes, native, and not marked read-only: Numba counts each
    of these as another type. Memory is copied only if it has to be; kernels do not write to it.
    """
    if not array.flags.c_contiguous or array.dtype != dtype:
        return np.array(array, dtype, order="C")
    address = array.__array_interface__["data"][0]
    if address % max(2, dtype.itemsize) and array.size:
        return array.copy()
    return array if array.flags.writeable else np.asarray(_Writable(array))
