"""Checks of stored chunks before a decompression filter sees them.

The filters trust the lengths inside a chunk: a flipped bit there makes them read past its end, and
the process is gone. So each chunk's lengths are compared with its stored size first. The
decompression itself is bounded (LZ4's safe variant, zlib), and errors are reported by HDF5.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import h5py

from napari_4dstem.errors import MissingDependencyError, SourceError

DEFLATE, SHUFFLE, FLETCHER32, LZ4, BITSHUFFLE = 1, 2, 3, 32004, 32008
_NAMES = {
    4: "SZIP", 5: "N-bit", 6: "scale-offset", 32000: "LZF", 32001: "Blosc", 32013: "ZFP",
    32015: "Zstandard", 32026: "Blosc2",
}  # fmt: skip
_NO_COMPRESSION, _BSHUF_LZ4, _BSHUF_ZSTD = 0, 2, 3
_HEADER = struct.Struct(">QI")
_LENGTH = struct.Struct(">I")
# bitshuffle works on groups of this many elements and leaves the rest as it is
_GROUP = 8


class ChunkError(Exception):
    """A chunk's bytes cannot be what its filters wrote. The text says why."""


@dataclass(frozen=True)
class Filter:
    """One step of a dataset's filter pipeline."""

    number: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class Pipeline:
    """What is known about the chunks of one dataset: filters, and their size when decoded.

    Parameters
    ----------
    filters
        In the order of writing.
    itemsize
        Bytes of one element.
    nbytes
        Bytes of one decoded chunk.
    """

    filters: tuple[Filter, ...]
    itemsize: int
    nbytes: int

    @classmethod
    def of(cls, dataset: h5py.Dataset, where: str | Path) -> Pipeline:
        """Return the pipeline of a chunked dataset.

        Raises
        ------
        SourceError
            If it cannot be read here.
        """
        plist = dataset.id.get_create_plist()
        filters = []
        for i in range(plist.get_nfilters()):
            number, _, values, _ = plist.get_filter(i)
            filters.append(Filter(int(number), tuple(int(v) for v in values)))
        nbytes = dataset.dtype.itemsize
        for n in dataset.chunks:
            nbytes *= int(n)
        pipeline = cls(tuple(filters), dataset.dtype.itemsize, nbytes)
        pipeline.check_supported(where)
        return pipeline

    def load(self, where: str | Path) -> None:
        """Make HDF5 know these filters.

        Raises
        ------
        MissingDependencyError
            If hdf5plugin is needed and not installed.
        """
        load_filters([f.number for f in self.filters], where)

    def check_supported(self, where: str | Path) -> None:
        """Raise `SourceError` unless :meth:`check` knows every filter, in this order."""
        numbers = [f.number for f in self.filters]
        for f in self.filters:
            if f.number not in (DEFLATE, SHUFFLE, FLETCHER32, LZ4, BITSHUFFLE):
                raise SourceError(
                    f"The counts are compressed with {_NAMES.get(f.number, 'an unknown method')}",
                    where=where,
                    expected="bitshuffle-LZ4, LZ4, gzip or no compression",
                    found=f"HDF5 filter {f.number}",
                    action="Write the file again with one of these",
                )
        ordered = [n for n in (SHUFFLE, DEFLATE, FLETCHER32) if n in numbers]
        alone = len(numbers) == 1 and numbers[0] in (LZ4, BITSHUFFLE)
        if not alone and numbers != ordered:
            raise SourceError(
                "The counts are compressed in an unusual way",
                where=where,
                expected="bitshuffle-LZ4, LZ4, gzip or no compression",
                found=f"HDF5 filters {numbers}",
                action="Write the file again with one of these",
            )
        if numbers == [BITSHUFFLE]:
            self._check_bitshuffle_values(where)
        if not 0 < self.nbytes < 1 << 31:
            raise SourceError(
                "The file is damaged: its chunks are too large", where=where,
                found=f"{self.nbytes} bytes a chunk", action="Copy the file again",
            )  # fmt: skip

    def _check_bitshuffle_values(self, where: str | Path) -> None:
        values = self.filters[0].values
        known = (_NO_COMPRESSION, _BSHUF_LZ4, _BSHUF_ZSTD)
        size = values[2] if len(values) > 2 else 0
        block = values[3] if len(values) > 3 else 0
        method = values[4] if len(values) > 4 else _NO_COMPRESSION
        if size != self.itemsize or block % _GROUP or method not in known:
            raise SourceError(
                "The file is damaged: the settings of its compression make no sense",
                where=where,
                expected=f"elements of {self.itemsize} bytes, method LZ4",
                found=f"bitshuffle settings {values}",
                action="Copy the file again",
            )

    def check(self, data: bytes, skipped: int) -> None:
        """Check the stored bytes of one chunk.

        Parameters
        ----------
        data
            The chunk as it lies in the file.
        skipped
            Its filter mask: bit i set means that filter i was not applied.

        Raises
        ------
        ChunkError
            If decoding could read or write out of bounds, or would not fill the chunk.
        """
        active = [f for i, f in enumerate(self.filters) if not skipped >> i & 1]
        if skipped >> len(self.filters):
            raise ChunkError("its filter mask names filters that do not exist")
        if not active:
            self._check_plain(len(data))
        elif active[0].number == BITSHUFFLE:
            self._check_bitshuffle(data, active[0].values)
        elif active[0].number == LZ4:
            self._check_lz4(data)
        else:
            self._check_classic(data, {f.number for f in active})

    def _check_plain(self, size: int) -> None:
        if size != self.nbytes:
            raise ChunkError(f"it holds {size} bytes instead of {self.nbytes}")

    def _check_classic(self, data: bytes, numbers: set[int]) -> None:
        if FLETCHER32 in numbers:
            if len(data) < 4:
                raise ChunkError("it is too short for its checksum")
            data = data[:-4]
        if DEFLATE not in numbers:
            return self._check_plain(len(data))
        unpacker = zlib.decompressobj()
        try:
            size = len(unpacker.decompress(data, self.nbytes + 1))
        except zlib.error as error:
            raise ChunkError(str(error)) from error
        self._check_plain(size)
        if not unpacker.eof:
            raise ChunkError("its compressed data have no end")
        return None

    def _check_header(self, data: bytes) -> int:
        if len(data) < _HEADER.size:
            raise ChunkError(f"it is only {len(data)} bytes long")
        decoded, block = _HEADER.unpack_from(data)
        if decoded != self.nbytes:
            raise ChunkError(f"it claims to hold {decoded} bytes instead of {self.nbytes}")
        return int(block)

    def _check_bitshuffle(self, data: bytes, values: tuple[int, ...]) -> None:
        if len(values) < 5 or values[4] == _NO_COMPRESSION:
            return self._check_plain(len(data))
        block = self._check_header(data)
        unit = _GROUP * self.itemsize
        if block == 0 or block % unit or block > 1 << 30:
            raise ChunkError(f"its block size {block} makes no sense")
        whole, rest = divmod(self.nbytes, block)
        place = _walk(data, whole + (rest >= unit))
        # Up to seven elements at the end are stored as they are.
        if place + rest % unit > len(data):
            raise ChunkError("it ends too early")
        return None

    def _check_lz4(self, data: bytes) -> None:
        block = min(self._check_header(data), self.nbytes)
        if block == 0:
            raise ChunkError("its block size is 0")
        _walk(data, -(-self.nbytes // block))


def _walk(data: bytes, blocks: int) -> int:
    """Step over `blocks` compressed blocks; return the place behind the last."""
    place, size = _HEADER.size, len(data)
    for _ in range(blocks):
        if place + 4 > size:
            raise ChunkError("a block begins behind its end")
        (length,) = _LENGTH.unpack_from(data, place)
        place += 4 + length
        if place > size:
            raise ChunkError(f"a block of {length} bytes reaches behind its end")
    return place


def load_filters(numbers: Iterable[int], where: str | Path) -> None:
    """Make HDF5 know the filters `numbers`, unless it knows them already.

    Raises
    ------
    MissingDependencyError
        If hdf5plugin is not installed.
    """
    if all(h5py.h5z.filter_avail(n) for n in numbers):
        return
    try:
        import hdf5plugin
    except ImportError as error:
        raise MissingDependencyError(
            "The counts are compressed with bitshuffle or LZ4, which needs the package hdf5plugin",
            where=where,
            action="Install it: pip install hdf5plugin",
        ) from error
    _ = hdf5plugin
