"""The torch side of the oracle: a scan's tensors, and a group of chunks that decode together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.kernel_types import ValueCoding
from napari_4dstem.codec.layout import RAW
from napari_4dstem.codec.model import ESCAPE, TABLE_BITS, Schedule, make_schedule

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class ScanTensors:
    """What lies on the device, and the schedule on the host.

    Parameters
    ----------
    u8, i16
        The same memory: all blocks one after the other, each with its padding.
    base
        i64[n_blocks], first byte of each block (on the host).
    table
        i64[K * 4096], the decoding tables.
    schedule
        The steps of all tiles (on the host: each group takes its own).
    """

    u8: torch.Tensor
    i16: torch.Tensor
    base: NDArray[np.int64]
    table: torch.Tensor
    schedule: Schedule

    @staticmethod
    def nbytes_of(scan: EncodedScan) -> int:
        """Return the bytes that `of` takes on the device."""
        table = 8 * len(scan.model.classes) << TABLE_BITS
        return sum(_even(block.size) for block in scan.blocks) + table

    @classmethod
    def of(cls, scan: EncodedScan, device: torch.device) -> ScanTensors:
        """Copy a scan to a device."""
        import torch

        schedule = make_schedule(scan.model, scan.layout)
        sizes = [_even(block.size) for block in scan.blocks]
        base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        u8 = torch.zeros(int(base[-1]), dtype=torch.uint8, device=device)
        for start, block in zip(base, scan.blocks, strict=False):
            u8[int(start) : int(start) + block.size] = torch.from_numpy(np.array(block))
        table = torch.from_numpy(schedule.table.astype(np.int64).reshape(-1)).to(device)
        return cls(u8, u8.view(torch.int16), base, table, schedule)


def _take(source: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return ``source[at]``; on processors twice as quick, and known to Metal unlike `take`."""
    return source.index_select(0, at.reshape(-1)).view(at.shape)


def _even(size: int) -> int:
    return size + size % 2


@dataclass(frozen=True, eq=False)
class Field:
    """All pixels that lie at one place of symbols of one size, in a group of chunks.

    Parameters
    ----------
    chunk, step
        i64[k], where the symbol is.
    row
        i64[k], local pixel.
    down, limit
        A field is ``symbol >> down & limit``.
    shift, plane
        i64[k], bit planes of the pixel, and planes of the pass before them.
    most_shift
        The largest shift.
    """

    chunk: torch.Tensor
    step: torch.Tensor
    row: torch.Tensor
    down: int
    limit: int
    shift: torch.Tensor
    plane: torch.Tensor
    most_shift: int


class ChunkGroup:
    """Chunks of one block that are decoded together, pass by pass.

    Parameters
    ----------
    block, tiles
        Which chunks.

    Attributes
    ----------
    pixel
        i64[chunks, T * T], flat index of each pixel; -1 beyond the tile's edge.
    raw
        Bool[chunks].
    """

    def __init__(
        self,
        scan: EncodedScan,
        tensors: ScanTensors,
        value: ValueCoding,
        block: int,
        tiles: NDArray[np.int64],
    ) -> None:
        import torch

        self._tensors, self._value = tensors, value
        self._device = tensors.u8.device
        self._n = scan.layout.block_size(block)
        self._pass = 0
        offsets = 4 * scan.chunk_off[block].astype(np.int64)
        first, last = offsets[tiles], offsets[tiles + 1]
        modes = scan.chunk_mode[block, tiles]
        planes = 4 * -(-self._n // 32) * tensors.schedule.tile_planes[tiles]
        self.pixel = _pixels(scan, tiles)
        self.raw = modes == RAW
        self._coded = ~self.raw & (last > first)
        self._short = self._coded & (last - first < 128 + planes)
        self._short |= self.raw & (last - first != 4 * scan.layout.raw_lengths[block, tiles])
        base = int(tensors.base[block])
        at = (base + first) * ~self._short
        self._first = self._put(at)
        self._last_word = self._put((base + last) // 2)
        self._word = self._put((at + 128 + planes) // 2)
        self._plane = self._put((at + 128) // 2)
        self._pass_planes = self._put(2 * tensors.schedule.tile_planes[tiles])
        self._literal = self._put(base + last)
        self._width = self._put(1 << np.minimum(modes, 2).astype(np.int64))
        self._live = self._put(self._coded & ~self._short)
        self._overrun = torch.zeros(len(tiles), dtype=torch.bool, device=self._device)
        self._lane = torch.arange(32, device=self._device)
        self._take_steps(np.where(self._coded & ~self._short, tiles, -1))
        self._fill = self._put(self._uncoded_bits(scan))
        self._state = self._read(self._first[:, None] + 4 * self._lane, 4)

    def _put(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _take_steps(self, tiles: NDArray[np.int64]) -> None:
        """Prepare the steps of some tiles, -1 where a chunk has none: [chunks, steps]."""
        schedule = self._tensors.schedule
        counts = np.where(tiles >= 0, np.diff(schedule.tile_start)[tiles], 0)
        chunk = np.repeat(np.arange(len(tiles)), counts)
        step = np.arange(len(chunk)) - np.repeat(np.cumsum(counts) - counts, counts)
        flat = np.repeat(schedule.tile_start[:-1][tiles], counts) + step
        shape = (len(tiles), int(counts.max(initial=0)))
        size, cls = np.zeros((2, *shape), np.int64)
        size[chunk, step], cls[chunk, step] = schedule.size[flat], schedule.cls[flat]
        shifts = np.zeros(shape, np.int64)
        shifts[chunk, step] = schedule.shift[flat]
        before = (np.cumsum(shifts, axis=1) - shifts)[chunk, step]
        self._size, self._table_start = self._put(size), self._put(cls << TABLE_BITS)
        self._step_live = self._put(size > 0)
        # By step, for the few literals: local pixel and which fields are pixels at all.
        local, fields = np.zeros((2, *shape), np.int64)
        local[chunk, step], fields[chunk, step] = schedule.local[flat], schedule.fields[flat]
        self._local, self._fields = self._put(local), self._put(fields)
        self._all_fields = []
        for g in (1, 2, 4, 8):
            for i in range(g):
                here = (schedule.size[flat] == g) & (schedule.fields[flat] >> i & 1 == 1)
                if here.any():
                    shift = schedule.shift[flat][here].astype(np.int64)
                    self._all_fields.append(
                        Field(
                            self._put(chunk[here]),
                            self._put(step[here]),
                            self._put(schedule.local[flat][here] + i),
                            8 // g * i,
                            (1 << 8 // g) - 1,
                            self._put(shift),
                            self._put(before[here]),
                            int(shift.max()),
                        )
                    )

    def _uncoded_bits(self, scan: EncodedScan) -> NDArray[np.int64]:
        """Return what pixels hold that no step sets, i64[chunks, T * T]."""
        constant = np.append(scan.model.constant.reshape(-1), False)[self.pixel]
        zero = self._value.offset & self._all_bits
        return np.where(constant, self._value.constant, zero).astype(np.int64)

    @property
    def _all_bits(self) -> int:
        return (1 << (8 * self._value.itemsize)) - 1

    def _read(self, at: torch.Tensor, width: Any) -> torch.Tensor:
        """Read little-endian numbers of 1 to 4 bytes; `width` is one or a tensor of the shape."""
        import torch

        out = torch.zeros_like(at)
        for k in range(4):
            byte = self._tensors.u8[(at + k).clamp(0, len(self._tensors.u8) - 1)].to(torch.int64)
            out = out | torch.where(
                torch.as_tensor(width > k, device=self._device), byte << 8 * k, 0
            )
        return out

    def next_pass(self) -> torch.Tensor:
        """Decode the next pass: the source's bits, i64[chunks, T * T, 32]."""
        import torch

        bits = self._fill[:, :, None].repeat(1, 1, 32)
        if self._size.shape[1]:
            steps = range(self._size.shape[1])
            symbols = torch.stack([self._next_symbols(s) for s in steps], dim=1)
            for field in self._all_fields:
                self._unpack(symbols, field, bits)
            self._put_literals(symbols, bits)
            self._plane = self._plane + self._pass_planes
        if self.raw.any():
            self._read_raw(bits)
        self._pass += 1
        return bits

    def _next_symbols(self, s: int) -> torch.Tensor:
        """Advance all lanes by step `s`; return the symbols [chunks, 32]."""
        import torch

        x, live = self._state, self._step_live[:, s, None]
        entry = _take(self._tensors.table, self._table_start[:, s, None] + (x & 0xFFF))
        x = (((entry >> 8) & 0xFFF) + 1) * (x >> TABLE_BITS) + (entry >> 20)
        need = (x < 1 << 16) & live
        used = need.to(torch.int64).cumsum(1)
        at = (self._word[:, None] + used - 1).clamp(0, len(self._tensors.i16) - 1)
        word = _take(self._tensors.i16, at).to(torch.int64) & 0xFFFF
        self._state = torch.where(live, torch.where(need, (x << 16) | word, x), self._state)
        self._word = self._word + used[:, -1]
        self._overrun = self._overrun | (self._word > self._last_word)
        self._word = torch.minimum(self._word, self._last_word)
        return entry & 0xFF

    def _unpack(self, symbols: torch.Tensor, field: Field, bits: torch.Tensor) -> None:
        import torch

        code = (symbols[field.chunk, field.step] >> field.down) & field.limit
        if field.most_shift:
            code = code << field.shift[:, None]
            start = self._plane[field.chunk] + 2 * field.plane
            for k in range(field.most_shift):
                at = (start + 2 * k)[:, None] + (self._lane >> 4)
                bit = (_take(self._tensors.i16, at).to(torch.int64) >> (self._lane & 15)) & 1
                code = code | torch.where((field.shift > k)[:, None], bit << k, 0)
        bits[field.chunk, field.row] = (code + self._value.offset) & self._all_bits

    def _put_literals(self, symbols: torch.Tensor, bits: torch.Tensor) -> None:
        """Put the literals of a pass in place: rare, so one by one in a list."""
        import torch

        escaped = (symbols == ESCAPE) & self._step_live[:, :, None]
        count = (escaped * self._size[:, :, None]).reshape(len(symbols), -1)
        last = count.cumsum(1)
        chunk, step, lane = escaped.nonzero(as_tuple=True)
        size = self._size[chunk, step]
        first = last[chunk, step * 32 + lane] - size
        for i in range(int(size.max()) if len(size) else 0):
            at = self._literal[chunk] - (first + i + 1) * self._width[chunk]
            value = self._read(torch.maximum(at, self._first[chunk]), self._width[chunk])
            here = ((self._fields[chunk, step] >> i) & 1 == 1) & (i < size)
            row = self._local[chunk, step] + i
            bits[chunk[here], row[here], lane[here]] = value[here]
        self._literal = self._literal - last[:, -1] * self._width

    def _read_raw(self, bits: torch.Tensor) -> None:
        import torch

        chosen = self._put(np.flatnonzero(self.raw & ~self._short))
        itemsize = self._value.itemsize
        local = torch.arange(self.pixel.shape[1], device=self._device)
        lane = self._pass * 32 + self._lane
        index = local[:, None] * self._n + lane.clamp(max=self._n - 1)
        bits[chosen] = self._read(self._first[chosen, None, None] + index * itemsize, itemsize)

    def unsound(self, *, complete: bool) -> NDArray[np.bool_]:
        """Bool[chunks]: something speaks against what was decoded so far."""
        gap = self._literal - 2 * self._word
        bad = self._overrun | (gap < 0)
        if complete:
            bad = bad | (gap >= 4) | (self._state != 1 << 16).any(1)
        return np.asarray((bad & self._live).cpu().numpy() | self._short)


def _pixels(scan: EncodedScan, tiles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the flat index of each pixel of some tiles, i64[tiles, T * T], -1 at the end."""
    layout = scan.layout
    flat = np.arange(layout.n_pixels).reshape(layout.detector_shape)
    out = np.full((len(tiles), layout.tile**2), -1, np.int64)
    for k, tile in enumerate(tiles):
        rect = layout.tile_at(int(tile))
        out[k, : rect.n_pixels] = flat[rect.r0 : rect.r1, rect.c0 : rect.c1].reshape(-1)
    return out
