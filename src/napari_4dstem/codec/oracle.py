"""A decoder in plain torch, for any device: what faster decoders are tested against.

All tiles of a block step together, so that each step of the format is a handful of operations on
[tiles, 32] tensors. Whole numbers are int64 throughout (Metal has neither 16 or 32-bit unsigned
arithmetic nor float64); sums of floats are left to NumPy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.moments import moments_fit, refuse_moments
from napari_4dstem.codec.oracle_chunks import ChunkGroup, ScanTensors
from napari_4dstem.codec.protocol import Moments, Reduced, Sums
from napari_4dstem.codec.values import bits_dtype, float_values, value_coding
from napari_4dstem.errors import DeviceError, MissingDependencyError, ReleasedError
from napari_4dstem.ledger import Kind, Ledger
from napari_4dstem.ledger import ledger as process_ledger

if TYPE_CHECKING:
    import torch

# Values decoded at a time: 128 MiB as int64.
_GROUP_VALUES = 1 << 24
_LOWEST = np.iinfo(np.int64).min


class TorchOracle:
    """Decodes blocks of `scan` on a torch device; see `BlockDecoder` for the methods.

    The coded bytes are copied to the device, after their checksums were checked.

    Parameters
    ----------
    scan
        Completely encoded.
    device
        Name of a torch device: ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    owner, ledger
        The bytes on the device are booked there until `close`.

    Raises
    ------
    MissingDependencyError
        If torch is not installed.
    DeviceError
        If there is no such device.
    """

    def __init__(
        self,
        scan: EncodedScan,
        device: str = "cpu",
        *,
        owner: str = "oracle",
        ledger: Ledger = process_ledger,
    ) -> None:
        self.scan = scan
        self.device = _find_device(device)
        scan.check_offsets()
        layout = scan.layout
        self._all_tiles = np.arange(layout.n_tiles)
        for block in range(layout.n_blocks):
            scan.check_chunks(block, self._all_tiles)
        self._value = value_coding(scan.values, layout.dtype)
        size = ScanTensors.nbytes_of(scan)
        self._claim = ledger.claim(owner, Kind.ENCODED, str(self.device), size)
        try:
            # A list, so that those who share the tensors lose them together.
            self._held = [ScanTensors.of(scan, self.device)]
        except BaseException:
            self._claim.free()
            raise

    def counting_nodata(self) -> Self:
        """Return a decoder for which no-data values are numbers; it shares the device's memory."""
        other = copy.copy(self)
        values = replace(self.scan.values, nodata=None)
        other._value = value_coding(values, self.scan.layout.dtype)
        return other

    def close(self) -> None:
        """Free the device's memory (idempotent)."""
        self._held.clear()
        self._claim.free()
        import torch

        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        elif self.device.type == "mps":
            torch.mps.empty_cache()

    def patterns(self, block: int, lanes: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return the patterns [n, H, W] of the given lanes (ascending), or of all."""
        layout = self.scan.layout
        wanted = np.arange(layout.block_size(block)) if lanes is None else np.asarray(lanes)
        bits = bits_dtype(layout.dtype)
        out = np.zeros((len(wanted), layout.n_pixels), bits)
        if not len(wanted):
            return self._shaped(out)

        def collect(p: int, group: ChunkGroup, values: torch.Tensor) -> None:
            chosen = np.flatnonzero(wanted // 32 == p)
            tile, local = np.nonzero(group.pixel >= 0)
            part = values.cpu().numpy()[tile, local][:, wanted[chosen] % 32]
            if self.scan.values.kind == "f32scaled":
                floats = float_values(part, group.raw[tile, None], self.scan.values.scale)
                part = floats.view(np.uint32)
            out[np.ix_(chosen, group.pixel[tile, local])] = part.T.astype(bits)

        if not self._run(block, self._all_tiles, int(wanted[-1]) // 32 + 1, collect):
            out[...] = 0
        return self._shaped(out)

    def _shaped(self, out: NDArray[Any]) -> NDArray[Any]:
        layout = self.scan.layout
        return out.view(layout.dtype).reshape(len(out), *layout.detector_shape)

    def sums(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Sums:
        """Return sums under `pixels` bool[H, W] over the listed tiles."""
        moments = self._weighted(block, pixels, tiles)
        return Sums(moments.total, moments.nodata)

    def moments(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        """Return first moments under `pixels` bool[H, W] over the listed tiles."""
        if not moments_fit(self.scan):
            refuse_moments()
        return self._weighted(block, pixels, tiles)

    def _weighted(self, block: int, pixels: NDArray[np.bool_], tiles: NDArray[np.int64]) -> Moments:
        n = self.scan.layout.block_size(block)
        number = np.float64 if self.scan.values.is_float else np.int64
        sums = np.zeros((3, n), number)
        nodata = np.zeros(n, np.int64)
        flat = np.append(pixels.reshape(-1), False)
        columns = self.scan.layout.detector_shape[1]

        def collect(p: int, group: ChunkGroup, values: torch.Tensor) -> None:
            lanes = slice(p * 32, min(n, p * 32 + 32))
            tile, local = np.nonzero(flat[group.pixel])
            pixel = group.pixel[tile, local]
            found, gone = self._numbers(group, values, tile, local)
            for k, weight in enumerate((np.ones_like(pixel), pixel // columns, pixel % columns)):
                sums[k, lanes] += self._weigh(found, weight)[: lanes.stop - lanes.start]
            nodata[lanes] += _to_numpy(gone.sum(0))[: lanes.stop - lanes.start]

        if not self._run(block, np.asarray(tiles), -(-n // 32), collect):
            sums[...], nodata[...] = 0, 0
        return Moments(sums[0], sums[1], sums[2], nodata)

    def _weigh(self, found: Any, weight: NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(found, np.ndarray):
            return np.asarray((found * weight[:, None]).sum(axis=0))
        import torch

        return _to_numpy((found * torch.from_numpy(weight).to(self.device)[:, None]).sum(0))

    def _numbers(
        self, group: ChunkGroup, values: torch.Tensor, tile: NDArray[Any], local: NDArray[Any]
    ) -> tuple[Any, Any]:
        """Return some pixels' numbers [k, 32] without no-data, and where there is none.

        int64 tensors, or NumPy arrays for floats.
        """
        import torch

        at = (torch.from_numpy(tile).to(self.device), torch.from_numpy(local).to(self.device))
        bits = values[at]
        if self.scan.values.is_float:
            codes = bits.cpu().numpy()
            found = float_values(codes, group.raw[tile, None], self.scan.values.scale)
            wide = found.astype(np.float64)
            return np.where(np.isfinite(wide), wide, 0), ~np.isfinite(wide)
        gone = bits == self._value.nodata
        numbers = (bits ^ self._value.sign) - self._value.sign
        return torch.where(gone, 0, numbers), gone

    def reduce(self, block: int, lanes: NDArray[np.bool_]) -> Reduced:
        """Return sum and maximum per pixel over the positions in `lanes` bool[n]."""
        layout = self.scan.layout
        is_float = self.scan.values.is_float
        lowest = -np.inf if is_float else _LOWEST
        total: NDArray[Any] = np.zeros(layout.n_pixels, np.float64 if is_float else np.int64)
        largest, nodata = np.full_like(total, lowest), np.zeros(layout.n_pixels, np.int64)
        padded = np.zeros(-(-len(lanes) // 32) * 32, bool)
        padded[: len(lanes)] = lanes

        def collect(p: int, group: ChunkGroup, values: torch.Tensor) -> None:
            inside = padded[p * 32 : p * 32 + 32]
            tile, local = np.nonzero(group.pixel >= 0)
            numbers = self._numbers(group, values, tile, local)
            found, gone = (_to_numpy(array)[:, inside] for array in numbers)
            pixel = group.pixel[tile, local]
            total[pixel] += found.sum(axis=1)
            nodata[pixel] += gone.sum(axis=1)
            top = np.where(gone, lowest, found).max(axis=1, initial=lowest)
            largest[pixel] = np.maximum(largest[pixel], top)

        if not self._run(block, self._all_tiles, len(padded) // 32, collect):
            total[...], largest[...], nodata[...] = 0, lowest, 0
        shape = layout.detector_shape
        return Reduced(total.reshape(shape), largest.reshape(shape), nodata.reshape(shape))

    def _run(
        self,
        block: int,
        tiles: NDArray[np.int64],
        passes: int,
        collect: Callable[[int, ChunkGroup, torch.Tensor], None],
    ) -> bool:
        """Decode some passes of a block, hand each to `collect`; return whether all is sound."""
        tensors = next(iter(self._held), None)
        if tensors is None:
            raise ReleasedError("The scan was released from the device")
        if self.scan.damaged[block].any():
            return False
        complete = passes == -(-self.scan.layout.block_size(block) // 32)
        sound = True
        for part in self._groups(tiles):
            group = ChunkGroup(self.scan, tensors, self._value, block, part)
            for p in range(passes):
                collect(p, group, group.next_pass())
            bad = part[group.unsound(complete=complete)]
            self.scan.damaged[block, bad] = True
            sound &= not len(bad)
        return sound

    def _groups(self, tiles: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        size = max(1, _GROUP_VALUES // (32 * self.scan.layout.tile**2))
        for first in range(0, len(tiles), size):
            yield tiles[first : first + size]


def _to_numpy(array: Any) -> NDArray[Any]:
    return array if isinstance(array, np.ndarray) else np.asarray(array.cpu().numpy())


def _find_device(name: str) -> torch.device:
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "Decoding on a torch device needs the package torch",
            action="Install it (pip install torch), or use the device 'cpu' without it",
        ) from error
    try:
        device = torch.device(name)
        torch.zeros(1, dtype=torch.int64, device=device)
    except (RuntimeError, AssertionError) as error:
        raise DeviceError(
            f"The device {name!r} cannot be used",
            found=str(error).splitlines()[0],
            action="Choose another device, or install the torch build for it",
        ) from error
    return device
