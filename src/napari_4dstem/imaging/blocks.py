"""Blocks of patterns, whatever holds them: the coded form, the source files, or a mix of both.

All products are written against `PatternBlocks`, so an image is the same function before, during
and after encoding, and its values are the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.index import Index
from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.codec.moments import refuse_moments
from napari_4dstem.codec.protocol import BlockDecoder, Moments, Reduced, Sums
from napari_4dstem.errors import CancelledError, DamagedDataError
from napari_4dstem.sources import Source

# Widened patterns that a dense reduction holds at once.
_PIECE_BYTES = 8 << 20
# Patterns that are read between two looks at the cancel button.
_RUN_BYTES = 16 << 20


class PatternBlocks(Protocol):
    """A scan cut into blocks. Methods as in `BlockDecoder`; thread-safe."""

    @property
    def layout(self) -> ScanLayout:
        """Which positions form a block, which pixels a tile."""
        ...

    def index_for(self, block: int) -> Index | None:
        """Return the short cuts that hold for `block`, or None."""
        ...

    def missing(self) -> NDArray[np.bool_]:
        """Bool, scan shape: positions without (intact) data, as far as is known now."""
        ...

    def patterns(self, block: int, lanes: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """See `BlockDecoder.patterns`."""
        ...

    def sums(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Sums:
        """See `BlockDecoder.sums`."""
        ...

    def moments(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        """See `BlockDecoder.moments`."""
        ...

    def reduce(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        """See `BlockDecoder.reduce`."""
        ...


class CodedBlocks:
    """Blocks of an encoded scan.

    Parameters
    ----------
    scan
        Encoded scan.
    make_decoder
        Makes its decoder, on first use: a decoder loads the compiler, which opening must not.
    raw_values
        Whether no-data values count as the numbers they are (the decoder must agree); tile sums
        are then used only where there is no such value.
    """

    def __init__(
        self,
        scan: EncodedScan,
        make_decoder: Callable[[], BlockDecoder],
        *,
        raw_values: bool = False,
    ) -> None:
        self.scan = scan
        self.layout = scan.layout
        self._make_decoder = make_decoder
        self._raw_values = raw_values

    @cached_property
    def decoder(self) -> BlockDecoder:
        """The decoder of the scan."""
        return self._make_decoder()

    def patterns(self, block: int, lanes: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """See `BlockDecoder.patterns`."""
        return self.decoder.patterns(block, lanes)

    def sums(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Sums:
        """See `BlockDecoder.sums`."""
        return self.decoder.sums(block, pixels, tiles)

    def moments(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        """See `BlockDecoder.moments`."""
        return self.decoder.moments(block, pixels, tiles)

    def reduce(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        """See `BlockDecoder.reduce`."""
        return self.decoder.reduce(block, lanes)

    def index_for(self, block: int) -> Index | None:
        """Return the index, if it counts no-data as this reader does."""
        index = self.scan.index
        if index is not None and self._raw_values and index.nodata_count.any():
            return None
        return index

    def missing(self) -> NDArray[np.bool_]:
        """Bool, scan shape: positions never recorded or found damaged."""
        return ~self.scan.valid


class DenseBlocks:
    """Blocks read from a source, reduced with NumPy: what is used before a block is encoded.

    Parameters
    ----------
    source
        Open source.
    layout
        How the scan is cut.
    nodata
        Source value that means "no data", or None.
    lost
        Bool, scan shape: patterns found damaged, kept up to date; several readers of one source
        share it.
    """

    def __init__(
        self,
        source: Source,
        layout: ScanLayout,
        nodata: int | None,
        lost: NDArray[np.bool_] | None = None,
    ) -> None:
        self.source, self.layout, self._nodata = source, layout, nodata
        self.lost = np.zeros(layout.scan_shape, bool) if lost is None else lost

    def index_for(self, block: int) -> Index | None:
        """Return None: a source has no short cuts."""
        return None

    def missing(self) -> NDArray[np.bool_]:
        """Bool, scan shape: positions never recorded or found damaged."""
        return ~self.layout.recorded | self.lost

    def patterns(self, block: int, lanes: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return the patterns [n, H, W] of the given lanes, or of all; damaged ones are zero."""
        return self._read(block, lanes)[0]

    def _read(
        self, block: int, lanes: NDArray[np.int64] | None
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the patterns of some lanes, and which of them are damaged."""
        positions = self.layout.block_positions(block)
        chosen = positions if lanes is None else positions[lanes]
        if len(chosen) == 1:
            patterns, lost = _read_first(self.source, int(chosen[0]), self.layout)
        else:
            patterns, lost = read_positions(self.source, chosen, self.layout)
        if lost.any():
            self.lost.reshape(-1)[chosen[lost]] = True
        return patterns, lost

    def _pieces(
        self, block: int, lanes: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[np.bool_]]]:
        """Yield (intact lanes, their patterns, where there is no data), a few MiB at a time."""
        step = max(1, _PIECE_BYTES // (8 * self.layout.n_pixels))
        for start in range(0, len(lanes), step):
            piece = lanes[start : start + step]
            patterns, lost = self._read(block, piece)
            piece, patterns = piece[~lost], patterns[~lost]
            if not len(piece):
                continue
            if patterns.dtype.kind == "f":
                gone = ~np.isfinite(patterns)
            elif self._nodata is None:
                gone = np.zeros(patterns.shape, bool)
            else:
                gone = patterns == self._nodata
            yield piece, patterns, gone

    def sums(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Sums:
        """Return sums under `pixels`."""
        n = self.layout.block_size(block)
        total, nodata = np.zeros(n, _number(self.layout)), np.zeros(n, np.int64)
        for piece, inside, lost in self._under(block, pixels):
            total[piece], nodata[piece] = inside.sum(axis=1), lost
        return Sums(total, nodata)

    def _under(
        self, block: int, pixels: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]]:
        """Yield (lanes, their numbers under `pixels`, how many of these have no data)."""
        number = _number(self.layout)
        for piece, patterns, gone in self._pieces(block, np.arange(self.layout.block_size(block))):
            hidden = gone[:, pixels]
            yield piece, np.where(hidden, 0, patterns[:, pixels]).astype(number), hidden.sum(axis=1)

    def moments(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        """Return first moments under `pixels`.

        Raises
        ------
        UsageError
            If they could exceed 64 bits.
        """
        n = self.layout.block_size(block)
        row, column = np.nonzero(pixels)
        result = np.zeros((3, n), _number(self.layout))
        nodata = np.zeros(n, np.int64)
        for piece, inside, lost in self._under(block, pixels):
            self._check_moments(inside)
            result[0, piece] = inside.sum(axis=1)
            result[1, piece] = inside @ row
            result[2, piece] = inside @ column
            nodata[piece] = lost
        return Moments(result[0], result[1], result[2], nodata)

    def _check_moments(self, values: NDArray[Any]) -> None:
        furthest = max(self.layout.detector_shape)
        most = self.layout.n_pixels * furthest << (8 * self.layout.dtype.itemsize)
        if values.dtype.kind == "f" or most < 1 << 63:
            return
        # In float64, which cannot wrap; its rounding is far below the factor 2 that is kept.
        largest = np.abs(values.astype(np.float64)).sum(axis=1).max(initial=0)
        if largest * furthest >= 2.0**62:
            refuse_moments()

    def reduce(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        """Return sum and maximum per pixel over the positions in `lanes`."""
        number = _number(self.layout)
        lowest = -np.inf if number == np.float64 else np.iinfo(np.int64).min
        shape = self.layout.detector_shape
        total, nodata = np.zeros(shape, number), np.zeros(shape, np.int64)
        largest = np.full(shape, lowest, number)
        for _, patterns, gone in self._pieces(block, np.flatnonzero(lanes)):
            values = np.where(gone, 0, patterns).astype(number)
            total += values.sum(axis=0)
            np.maximum(largest, np.where(gone, lowest, values).max(axis=0), out=largest)
            nodata += gone.sum(axis=0)
        return Reduced(total, largest, nodata)


def _number(layout: ScanLayout) -> type[np.float64] | type[np.int64]:
    return np.float64 if layout.dtype.kind == "f" else np.int64


class GrowingBlocks:
    """Blocks of a scan that is being encoded: coded ones where done, the source elsewhere.

    Parameters
    ----------
    coded, dense
        The same scan, cut the same way.
    done
        Bool[n_blocks], set by the encoder when a block can be decoded.
    """

    def __init__(self, coded: CodedBlocks, dense: DenseBlocks, done: NDArray[np.bool_]) -> None:
        self.coded, self.dense, self.done = coded, dense, done
        self.layout = coded.layout

    def _of(self, block: int) -> PatternBlocks:
        return self.coded if self.done[block] else self.dense

    def index_for(self, block: int) -> Index | None:
        """Return the short cuts of a finished block."""
        return self._of(block).index_for(block)

    def missing(self) -> NDArray[np.bool_]:
        """Bool, scan shape: positions never recorded or found damaged."""
        return self.coded.missing() | self.dense.missing()

    def patterns(self, block: int, lanes: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """See `BlockDecoder.patterns`."""
        return self._of(block).patterns(block, lanes)

    def sums(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Sums:
        """See `BlockDecoder.sums`."""
        return self._of(block).sums(block, pixels, tiles)

    def moments(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        """See `BlockDecoder.moments`."""
        return self._of(block).moments(block, pixels, tiles)

    def reduce(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        """See `BlockDecoder.reduce`."""
        # A pattern found damaged while its block was coded is held as zeros until the end.
        intact = ~self.dense.lost.reshape(-1)[self.layout.block_positions(block)]
        return self._of(block).reduce(block, lanes & intact)


def _read_first(
    source: Source, position: int, layout: ScanLayout
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Read one pattern ahead of all bulk reads, as the cursor needs it; see `read_positions`."""
    try:
        pattern = source.pattern(*divmod(position, layout.scan_shape[1]))
    except DamagedDataError:
        return np.zeros((1, *layout.detector_shape), layout.dtype), np.ones(1, bool)
    return pattern[None], np.zeros(1, bool)


def read_positions(
    source: Source,
    positions: NDArray[np.uint32],
    layout: ScanLayout,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Read the patterns of recorded scan positions (flat indices, ascending rows).

    Parameters
    ----------
    cancelled
        Asked between pieces; True ends the read with `CancelledError`.

    Returns
    -------
    patterns
        [n, H, W], source dtype; zeros where a pattern is damaged.
    lost
        Bool[n]: damaged patterns.
    """
    out = np.zeros((len(positions), *layout.detector_shape), layout.dtype)
    lost = np.zeros(len(positions), bool)
    for start, stop in _runs(positions, layout):
        if cancelled():
            raise CancelledError("Reading was cancelled")
        row, column = divmod(int(positions[start]), layout.scan_shape[1])
        try:
            source.read(row, range(column, column + stop - start), out=out[start:stop])
        except DamagedDataError:
            for k in range(start, stop):
                at = column + k - start
                try:
                    source.read(row, range(at, at + 1), out=out[k : k + 1])
                except DamagedDataError:
                    out[k], lost[k] = 0, True
    return out, lost


def _runs(positions: NDArray[np.uint32], layout: ScanLayout) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of neighbouring positions in one scan row, of bounded size."""
    flat = positions.astype(np.int64)
    row = flat // layout.scan_shape[1]
    breaks = (np.diff(flat, prepend=-2) != 1) | (np.diff(row, prepend=-1) != 0)
    longest = max(1, _RUN_BYTES // (layout.n_pixels * layout.dtype.itemsize))
    edges = [*np.flatnonzero(breaks).tolist(), len(flat)]
    for first, last in pairwise(edges):
        for start in range(first, last, longest):
            yield start, min(start + longest, last)
