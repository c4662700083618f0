"""Patterns to chunks: statistics from a sample, then one block at a time.

`ScanEncoder` owns the encoded scan while it grows. Blocks may come in any order and are readable
as soon as `encode_block` returns.
"""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encode_kernels import Scratch, Target, encode_tiles
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.index import new_index
from napari_4dstem.codec.kernel_types import Geometry, kernel_array
from napari_4dstem.codec.layout import (
    LANES,
    PADDING,
    ScanLayout,
    choose_passes,
    choose_tile,
    cut_blocks,
)
from napari_4dstem.codec.model import PixelModel, make_schedule
from napari_4dstem.codec.reduce_kernels import BlockSums, new_block_sums
from napari_4dstem.codec.statistics import Sample, build_model
from napari_4dstem.codec.value_map import ValueMap
from napari_4dstem.codec.values import (
    bits_dtype,
    choose_value_map,
    float_codes,
    value_coding,
)
from napari_4dstem.errors import UsageError
from napari_4dstem.ledger import Allocator, Kind

SEGMENT = 64 << 20
"""Encoded bytes grow in segments of this size; the last one is cut to length at the end."""


@dataclass(frozen=True, eq=False)
class CodingPlan:
    """Everything that is decided before the first block is coded.

    Parameters
    ----------
    expected_tile_sum
        i64[n_tiles], largest tile sums of the sample, or None for float sources.
    """

    layout: ScanLayout
    model: PixelModel
    values: ValueMap
    masked: NDArray[np.bool_]
    expected_tile_sum: NDArray[np.int64] | None


def plan_coding(
    sample: NDArray[Any],
    recorded: NDArray[np.bool_],
    *,
    nodata: int | None = None,
    masked: NDArray[np.bool_] | None = None,
) -> CodingPlan:
    """Choose value map, classes, tables, block and tile size from sampled patterns.

    Parameters
    ----------
    sample
        [n, H, W] patterns in the source's dtype, n >= 1.
    recorded
        Bool, scan shape: positions that exist.
    nodata
        Source value of an overload, or None.
    masked
        Bool[H, W], pixels to leave out of the tile sums (they are coded like all others).

    Raises
    ------
    UsageError
        Without a pattern, or for values that cannot be kept exactly.
    """
    if sample.ndim != 3 or not sample.size:
        raise UsageError(
            "Statistics need at least one pattern",
            expected="an array [n, rows, columns]",
            found=f"shape {sample.shape}",
        )
    shape = (sample.shape[1], sample.shape[2])
    values = choose_value_map(sample, nodata)
    model, bits = build_model(Sample(sample, values))
    passes = choose_passes(shape)
    positions, block_pos = cut_blocks(recorded, passes)
    layout = ScanLayout(
        scan_shape=(recorded.shape[0], recorded.shape[1]),
        detector_shape=shape,
        dtype=sample.dtype,
        passes=passes,
        tile=choose_tile(passes, bits),
        positions=positions,
        block_pos=block_pos,
    )
    if masked is None:
        masked = np.zeros(shape, bool)
    expected = (
        None if values.is_float else _expected_tile_sums(sample, layout, values.nodata, masked)
    )
    return CodingPlan(layout, model, values, masked, expected)


def _expected_tile_sums(
    sample: NDArray[Any], layout: ScanLayout, nodata: int | None, masked: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the largest tile sums of the sample, with a quarter of head room."""
    row_edges = np.arange(0, layout.detector_shape[0], layout.tile)
    column_edges = np.arange(0, layout.detector_shape[1], layout.tile)
    largest = np.zeros(layout.n_tiles, np.int64)
    for pattern in sample:
        gone = masked if nodata is None else masked | (pattern == nodata)
        value = np.where(gone, 0, pattern).astype(np.int64)
        tiles = np.add.reduceat(np.add.reduceat(value, row_edges, 0), column_edges, 1)
        np.maximum(largest, tiles.ravel(), out=largest)
    return largest + largest // 4


class ScanEncoder:
    """Codes the blocks of one scan.

    Parameters
    ----------
    plan
        From `plan_coding`.
    allocator
        Where the encoded bytes and the index come from.
    threads
        Threads to spread the tiles of a block over.

    Attributes
    ----------
    scan : EncodedScan
        Growing; block b is readable once ``done[b]``.
    done : NDArray[np.bool_]
    """

    def __init__(self, plan: CodingPlan, allocator: Allocator, *, threads: int = 1) -> None:
        layout = plan.layout
        self._plan, self._allocator, self._threads = plan, allocator, max(1, threads)
        self._steps = make_schedule(plan.model, layout)
        self._geometry = Geometry(layout.tile, *layout.detector_shape)
        self._coding = value_coding(plan.values, layout.dtype)
        self._class_map = kernel_array(plan.model.class_map, np.dtype(np.uint8)).reshape(-1)
        self._masked = kernel_array(plan.masked, np.dtype(bool)).reshape(-1)
        self._ranges = self._tile_ranges()
        # One thread is the caller's own: a program that ends waits for pools, not for the daemon
        # thread in which the kernels are compiled.
        self._pool = (
            ThreadPoolExecutor(self._threads, thread_name_prefix="n4-encode")
            if self._threads > 1
            else None
        )
        self._segments = _Segments(allocator, layout)
        self.index = new_index(layout, plan.masked, plan.expected_tile_sum, allocator)
        shape = (layout.n_blocks, layout.n_tiles)
        self.done = np.zeros(layout.n_blocks, bool)
        self.scan = EncodedScan(
            layout=layout,
            model=plan.model,
            values=plan.values,
            chunk_off=allocator.empty(Kind.ENCODED, (shape[0], shape[1] + 1), np.uint32),
            chunk_mode=allocator.empty(Kind.ENCODED, shape, np.uint8),
            chunk_crc=allocator.empty(Kind.ENCODED, shape, np.uint32),
            blocks=[np.zeros(PADDING, np.uint8) for _ in range(layout.n_blocks)],
            index=self.index,
        )

    def encode_block(self, block: int, patterns: NDArray[Any]) -> None:
        """Code the patterns [n, H, W] of one block, in lane order. One block at a time.

        Raises
        ------
        UsageError
            If shape or dtype are not those of the plan.
        """
        layout = self._plan.layout
        n = layout.block_size(block)
        if patterns.shape != (n, *layout.detector_shape) or patterns.dtype != layout.dtype:
            raise UsageError(
                "These patterns do not belong to this block",
                expected=f"{(n, *layout.detector_shape)} of {layout.dtype}",
                found=f"{patterns.shape} of {patterns.dtype}",
            )
        source = kernel_array(patterns, layout.dtype).reshape(n, layout.n_pixels)
        source = source.view(bits_dtype(layout.dtype))
        bits = source if not self._plan.values.is_float else self._float_bits(source)
        shape = (layout.n_tiles, layout.n_pixels)
        is_float = self._plan.values.is_float
        sums = new_block_sums(shape, n, self._masked, wanted=not is_float)
        spread = map if self._pool is None else self._pool.map
        parts = list(spread(lambda r: self._encode_range(bits, source, sums, *r), self._ranges))
        lengths = np.concatenate([p[1] for p in parts])
        modes = np.concatenate([p[2] for p in parts])
        self._store(block, [p[0] for p in parts], lengths, modes)
        if is_float:
            self._enter_float_sums(source.view(np.float32))
        else:
            self._enter_sums(block, sums)
        self.done[block] = True

    def _float_bits(self, source: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return what is coded in place of floats, one pattern at a time to save memory."""
        values = self._plan.values
        bits = np.full(source.shape, self._coding.uncodable, np.uint32)
        if values.kind == "f32scaled":
            for i, pattern in enumerate(source):
                bits[i] = float_codes(pattern.view(np.float32), values.scale)
        return bits

    def _tile_ranges(self) -> list[tuple[int, int]]:
        """Return a few ranges a thread, since tiles differ in how long they take."""
        parts = 1 if self._threads == 1 else 4 * self._threads
        edges = np.linspace(0, self._plan.layout.n_tiles, parts + 1).astype(int)
        return [(int(a), int(b)) for a, b in pairwise(edges) if b > a]

    def _encode_range(
        self, bits: NDArray[Any], source: NDArray[Any], sums: BlockSums, t0: int, t1: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
        layout, steps = self._plan.layout, self._steps
        n = len(bits)
        passes = -(-n // LANES)
        rows = passes * int(np.diff(steps.tile_start)[t0:t1].max())
        scratch = Scratch(
            np.empty((layout.tile**2, LANES), np.uint32),
            np.empty((passes, layout.tile**2, LANES), np.int32),
            np.empty((rows, LANES), np.uint8),
            np.empty(LANES * rows + 1, np.uint16),
        )
        raw = sum(layout.tile_at(t).n_pixels for t in range(t0, t1)) * n * layout.dtype.itemsize
        out = np.empty(raw // 4 + t1 - t0 + 1, np.uint32)
        target = Target(out.view(np.uint8), out.view(np.uint16), out)
        lengths = np.zeros(layout.n_tiles, np.int64)
        modes = np.zeros(layout.n_tiles, np.uint8)
        size = encode_tiles(
            bits,
            source,
            t0,
            t1,
            self._geometry,
            self._coding,
            self._class_map,
            steps,
            scratch,
            target,
            sums,
            lengths,
            modes,
        )
        return target.u8[:size], lengths[t0:t1], modes[t0:t1]

    def _store(
        self,
        block: int,
        parts: list[NDArray[np.uint8]],
        lengths: NDArray[np.int64],
        modes: NDArray[np.uint8],
    ) -> None:
        scan = self.scan
        stored = self._segments.append(block, parts)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        scan.chunk_off[block] = offsets // 4
        scan.chunk_mode[block] = modes
        for t, (start, stop) in enumerate(pairwise(offsets)):
            scan.chunk_crc[block, t] = zlib.crc32(stored[start:stop].data)
        scan.blocks[block] = stored

    def _enter_sums(self, block: int, sums: BlockSums) -> None:
        layout = self._plan.layout
        shape = layout.detector_shape
        self.index.add_block(
            int(layout.block_pos[block]),
            sums.tile_sum,
            sums.total.reshape(shape),
            sums.largest.reshape(shape),
            sums.nodata.reshape(shape),
            self._allocator,
        )

    def _enter_float_sums(self, values: NDArray[np.float32]) -> None:
        shape = self._plan.layout.detector_shape
        total, largest = np.zeros(values.shape[1]), np.full(values.shape[1], -np.inf)
        nodata = np.zeros(values.shape[1], np.int64)
        for pattern in values:  # one at a time: no copies of a block in float64
            good = np.isfinite(pattern)
            np.add(total, pattern, out=total, where=good)
            np.maximum(largest, pattern, out=largest, where=good)
            nodata += ~good
        self.index.add_block(
            0,
            None,
            total.reshape(shape),
            largest.reshape(shape),
            nodata.reshape(shape),
            self._allocator,
        )

    def finish(self) -> EncodedScan:
        """Cut the last segment to length and return the scan; every block must be done."""
        if self._pool is not None:
            self._pool.shutdown()
        for block, stored in self._segments.trim().items():
            self.scan.blocks[block] = stored
        return self.scan

    def abort(self) -> None:
        """Stop the threads; the bytes go when the encoder goes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


class _Segments:
    """The growing byte store: every block lies whole in one array, padding after it.

    Small blocks share segments; a large one gets its own array, so that what is left unused at a
    segment's end stays under 2 %.
    """

    def __init__(self, allocator: Allocator, layout: ScanLayout) -> None:
        worst = layout.n_positions * layout.n_pixels * layout.dtype.itemsize + layout.n_blocks * (
            4 * layout.n_tiles + PADDING + 4
        )
        self._size = min(SEGMENT, worst)
        self._allocator = allocator
        self._current: NDArray[np.uint8] | None = None
        self._used = 0
        self._in_current: dict[int, tuple[int, int]] = {}

    def append(self, block: int, parts: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Copy the parts of a block into the store; return their bytes with the padding."""
        size = sum(p.size for p in parts) + PADDING
        if size * 64 >= SEGMENT:
            stored = self._allocator.empty(Kind.ENCODED, size, np.uint8)
        else:
            if self._current is None or self._used + size > self._current.size:
                self._current = self._allocator.empty(Kind.ENCODED, max(self._size, size), np.uint8)
                self._used = 0
                self._in_current = {}
            stored = self._current[self._used : self._used + size]
            self._in_current[block] = (self._used, self._used + size)
            self._used += size
        at = 0
        for part in parts:
            stored[at : at + part.size] = part
            at += part.size
        return stored

    def trim(self) -> dict[int, NDArray[np.uint8]]:
        """Copy the last segment to its exact size; return its blocks at their new place."""
        if self._current is None or self._used == self._current.size:
            return {}
        exact = self._allocator.empty(Kind.ENCODED, self._used, np.uint8)
        exact[:] = self._current[: self._used]
        moved = {block: exact[start:stop] for block, (start, stop) in self._in_current.items()}
        self._current, self._in_current = None, {}
        return moved
