"""The torch side of the oracle: a scan's tensors, and a group of chunks that decode together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.kernel_types import ValueCoding
from napari_4dstem.codec.layout import RAW, EncodedScan
from napari_4dstem.codec.model import ESCAPE, TABLE_BITS, Schedule, make_schedule

if TYPE_CHECKING:
    import torch

_STEP_PARTS = ("cls", "size", "shift", "fields", "local")


@dataclass(frozen=True, eq=False)
class ScanTensors:
    """What lies on the device.

    Parameters
    ----------
    u8, i16
        The same memory: all blocks one after the other, each with its padding.
    base
        i64[n_blocks], first byte of each block (on the host).
    table
        i64[K * 4096], the decoding tables.
    steps
        By name, [n_tiles, S]: the schedule, padded to the longest tile.
    n_steps
        i64[n_tiles].
    planes
        i64[n_tiles], bit planes of a pass (on the host).
    sizes, shifts
        u8[n_tiles, S], once more on the host, where loops need them.
    """

    u8: torch.Tensor
    i16: torch.Tensor
    base: NDArray[np.int64]
    table: torch.Tensor
    steps: dict[str, torch.Tensor]
    n_steps: torch.Tensor
    planes: NDArray[np.int64]
    sizes: NDArray[np.uint8]
    shifts: NDArray[np.uint8]

    @staticmethod
    def nbytes_of(scan: EncodedScan) -> int:
        """Return the bytes that `of` takes on the device."""
        schedule = make_schedule(scan.model, scan.layout)
        padded = scan.layout.n_tiles * _longest(schedule)
        sizes = {name: getattr(schedule, name).itemsize for name in _STEP_PARTS}
        return int(
            sum(_even(block.size) for block in scan.blocks)
            + 8 * schedule.table.size
            + padded * sum(sizes.values())
            + 8 * scan.layout.n_tiles
        )

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
        return cls(
            u8=u8,
            i16=u8.view(torch.int16),
            base=base,
            table=torch.from_numpy(schedule.table.astype(np.int64).reshape(-1)).to(device),
            steps={
                name: torch.from_numpy(_padded(getattr(schedule, name), schedule)).to(device)
                for name in _STEP_PARTS
            },
            n_steps=torch.from_numpy(np.diff(schedule.tile_start)).to(device),
            planes=schedule.tile_planes,
            sizes=_padded(schedule.size, schedule),
            shifts=_padded(schedule.shift, schedule),
        )


def _even(size: int) -> int:
    return size + size % 2


def _longest(schedule: Schedule) -> int:
    return int(np.diff(schedule.tile_start).max(initial=0))


def _padded(steps: NDArray[Any], schedule: Schedule) -> NDArray[Any]:
    counts = np.diff(schedule.tile_start)
    out = np.zeros((len(counts), _longest(schedule)), steps.dtype)
    out[np.arange(out.shape[1]) < counts[:, None]] = steps
    return out


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
        planes = 4 * -(-self._n // 32) * tensors.planes[tiles]
        self.pixel = _pixels(scan, tiles)
        self.raw = modes == RAW
        self._coded = ~self.raw & (last > first)
        self._short = self._coded & (last - first < 128 + planes)
        self._short |= self.raw & (last - first != 4 * scan.layout.raw_lengths[block, tiles])
        base = int(tensors.base[block])
        at = (base + first) * ~self._short
        self._first, self._tiles = self._put(at), self._put(tiles)
        self._last_word = self._put((base + last) // 2)
        self._word = self._put((at + 128 + planes) // 2)
        self._plane = self._put((at + 128) // 2)
        self._literal = self._put(base + last)
        self._width = self._put(1 << np.minimum(modes, 2).astype(np.int64))
        self._live = self._put(self._coded & ~self._short)
        self._overrun = torch.zeros(len(tiles), dtype=torch.bool, device=self._device)
        self._lane = torch.arange(32, device=self._device)
        self._chunk = torch.arange(len(tiles), device=self._device)
        live = tiles[self._coded & ~self._short]
        sizes = tensors.sizes[live].max(axis=0, initial=0).tolist()
        shifts = tensors.shifts[live].max(axis=0, initial=0).tolist()
        # The largest g and shift of each step, up to the last step of any tile.
        self._most = [pair for pair in zip(sizes, shifts, strict=True) if pair[0]]
        self._fill = self._put(self._uncoded_bits(scan))
        self._state = self._read(self._first[:, None] + 4 * self._lane, 4)

    def _put(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _uncoded_bits(self, scan: EncodedScan) -> NDArray[np.int64]:
        """Return what pixels hold that no step sets, i64[chunks, T * T + 1]."""
        constant = np.append(scan.model.constant.reshape(-1), False)[self.pixel]
        zero = self._value.offset & self._all_bits
        bits = np.where(constant, self._value.constant, zero)
        return np.pad(bits, ((0, 0), (0, 1))).astype(np.int64)

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
        bits = self._fill[:, :, None].repeat(1, 1, 32)
        for s, (size, shift) in enumerate(self._most):
            self._step(s, size, shift, bits)
        if self.raw.any():
            self._read_raw(bits)
        self._pass += 1
        return bits[:, :-1]

    def _step(self, s: int, most_size: int, most_shift: int, bits: torch.Tensor) -> None:
        import torch

        all_steps = self._tensors.steps
        steps = {k: all_steps[k][self._tiles, s].to(torch.int64) for k in _STEP_PARTS}
        live = self._live & (s < self._tensors.n_steps[self._tiles])
        symbol = self._next_symbols(steps["cls"], live)
        size, shift = steps["size"].clamp(min=1), steps["shift"]
        low = torch.zeros_like(symbol)
        for k in range(most_shift):
            word = self._tensors.i16[(self._plane + 2 * k)[:, None] + (self._lane >> 4)]
            bit = (word.to(torch.int64) >> (self._lane & 15)) & 1
            low = low | torch.where((shift > k)[:, None], bit << k, 0)
        self._plane = self._plane + torch.where(live, 2 * shift, 0)
        escaped = (symbol == ESCAPE) & live[:, None]
        rank = escaped.to(torch.int64).cumsum(1) - 1
        width = (8 // size)[:, None]
        for i in range(most_size):
            code = (symbol >> (width * i)) & ((1 << width) - 1)
            code = (code << shift[:, None]) | low
            value = (code + self._value.offset) & self._all_bits
            if bool(escaped.any()):
                at = self._literal[:, None] - (rank * size[:, None] + i + 1) * self._width[:, None]
                literal = self._read(torch.maximum(at, self._first[:, None]), self._width[:, None])
                value = torch.where(escaped, literal, value)
            set_here = live & (i < size) & ((steps["fields"] >> i) & 1 == 1)
            row = torch.where(set_here, steps["local"] + i, bits.shape[1] - 1)
            bits[self._chunk, row] = value
        self._literal = self._literal - escaped.sum(1) * size * self._width

    def _next_symbols(self, cls: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """Advance the lanes of the chunks that are `live` by one symbol; return the symbols."""
        import torch

        x = self._state
        entry = self._tensors.table[(cls << TABLE_BITS)[:, None] + (x & 0xFFF)]
        x = (((entry >> 8) & 0xFFF) + 1) * (x >> TABLE_BITS) + (entry >> 20)
        need = (x < 1 << 16) & live[:, None]
        used = need.to(torch.int64).cumsum(1)
        at = (self._word[:, None] + used - 1).clamp(0, len(self._tensors.i16) - 1)
        word = self._tensors.i16[at].to(torch.int64) & 0xFFFF
        x = torch.where(need, (x << 16) | word, x)
        self._state = torch.where(live[:, None], x, self._state)
        self._word = self._word + used[:, -1]
        self._overrun = self._overrun | (self._word > self._last_word)
        self._word = torch.minimum(self._word, self._last_word)
        return entry & 0xFF

    def _read_raw(self, bits: torch.Tensor) -> None:
        import torch

        chosen = self._put(np.flatnonzero(self.raw & ~self._short))
        itemsize = self._value.itemsize
        local = torch.arange(self.pixel.shape[1], device=self._device)
        lane = self._pass * 32 + self._lane
        index = local[:, None] * self._n + lane.clamp(max=self._n - 1)
        bits[chosen, :-1] = self._read(self._first[chosen, None, None] + index * itemsize, itemsize)

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
