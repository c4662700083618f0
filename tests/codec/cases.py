"""Scans to try the codec with, and what dense NumPy says about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.encode import CodingPlan, ScanEncoder, plan_coding
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.protocol import BlockDecoder
from napari_4dstem.ledger import HostAllocator, Ledger


@dataclass
class Case:
    """A scan and how it is encoded; `data` is [rows, columns, H, W]."""

    data: NDArray[Any]
    nodata: int | None = None
    masked: NDArray[np.bool_] | None = None
    recorded: NDArray[np.bool_] = None  # type: ignore[assignment]
    sample: NDArray[Any] | None = None
    flat: NDArray[Any] = field(init=False)

    def __post_init__(self) -> None:
        if self.recorded is None:
            self.recorded = np.ones(self.data.shape[:2], bool)
        self.flat = self.data.reshape(-1, *self.data.shape[2:])
        if self.sample is None:
            recorded = self.flat[self.recorded.reshape(-1)]
            self.sample = recorded[:: max(1, len(recorded) // 256)]

    def plan(self) -> CodingPlan:
        return plan_coding(self.sample, self.recorded, nodata=self.nodata, masked=self.masked)

    def encode(self, *, threads: int = 2, seed: int | None = None) -> EncodedScan:
        """Encode all blocks, in a random order if there is a seed."""
        plan = self.plan()
        encoder = ScanEncoder(plan, HostAllocator(Ledger(), "test"), threads=threads)
        order = np.arange(plan.layout.n_blocks)
        if seed is not None:
            np.random.default_rng(seed).shuffle(order)
        for block in order:
            encoder.encode_block(int(block), self.flat[plan.layout.block_positions(int(block))])
        assert encoder.done.all()
        return encoder.finish()

    def numbers(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the patterns as 64-bit numbers without no-data, and where there is none."""
        wide = self.flat.astype(np.float64 if self.data.dtype.kind == "f" else np.int64)
        gone = ~np.isfinite(wide) if wide.dtype.kind == "f" else np.zeros(wide.shape, bool)
        if self.nodata is not None:
            gone = self.flat == self.nodata
        return np.where(gone, 0, wide), gone


def assert_same_sums(found: NDArray[Any], expected: NDArray[Any], scale: NDArray[Any]) -> None:
    """Integers exactly; floats to 1e-12 of `scale`, the sum of the absolute values."""
    if expected.dtype.kind == "f":
        assert found.dtype == np.float64
        assert (np.abs(found - expected) <= 1e-12 * scale + 1e-300).all()
    else:
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected)


def assert_decodes(decoder: BlockDecoder, case: Case, *, seed: int = 0) -> None:
    """Compare every kind of reading, in every block, with dense NumPy."""
    rng = np.random.default_rng(seed)
    layout = decoder.scan.layout
    numbers, gone = case.numbers()
    h, w = layout.detector_shape
    for block in range(layout.n_blocks):
        here = layout.block_positions(block)
        _assert_patterns(decoder, block, case.flat[here], rng)
        pixels = rng.random((h, w)) < rng.choice([0.05, 0.5, 1.0])
        tiles = np.flatnonzero(rng.random(layout.n_tiles) < 0.7)
        seen = pixels & _covered(decoder, tiles)
        _assert_weighted(decoder, block, numbers[here], gone[here], (pixels, tiles, seen))
        lanes = rng.random(len(here)) < rng.choice([0.02, 0.5, 1.0])
        _assert_reduced(decoder, block, numbers[here][lanes], gone[here][lanes], lanes)
    assert not decoder.scan.damaged.any()


def _covered(decoder: BlockDecoder, tiles: NDArray[np.intp]) -> NDArray[np.bool_]:
    covered = np.zeros(decoder.scan.layout.detector_shape, bool)
    for tile in tiles:
        rect = decoder.scan.layout.tile_at(int(tile))
        covered[rect.r0 : rect.r1, rect.c0 : rect.c1] = True
    return covered


def _assert_patterns(
    decoder: BlockDecoder, block: int, expected: NDArray[Any], rng: np.random.Generator
) -> None:
    bits = f"u{expected.dtype.itemsize}"
    found = decoder.patterns(block)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.view(bits), expected.view(bits))
    lanes = np.sort(rng.choice(len(expected), min(3, len(expected)), replace=False))
    found = decoder.patterns(block, lanes)
    np.testing.assert_array_equal(found.view(bits), expected[lanes].view(bits))


def _assert_weighted(
    decoder: BlockDecoder,
    block: int,
    values: NDArray[Any],
    gone: NDArray[np.bool_],
    what: tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.bool_]],
) -> None:
    pixels, tiles, seen = what
    row, column = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    weights = {"total": seen * 1, "rows": seen * row, "columns": seen * column}
    expected = {name: (values * by).sum(axis=(1, 2)) for name, by in weights.items()}
    scale = {name: (np.abs(values) * by).sum(axis=(1, 2)) for name, by in weights.items()}
    sums = decoder.sums(block, pixels, tiles)
    assert_same_sums(sums.total, expected["total"], scale["total"])
    moments = decoder.moments(block, pixels, tiles)
    for name in weights:
        assert_same_sums(getattr(moments, name), expected[name], scale[name])
    for found in (sums.nodata, moments.nodata):
        np.testing.assert_array_equal(found, (gone & seen).sum(axis=(1, 2)))


def _assert_reduced(
    decoder: BlockDecoder,
    block: int,
    values: NDArray[Any],
    gone: NDArray[np.bool_],
    lanes: NDArray[np.bool_],
) -> None:
    found = decoder.reduce(block, lanes)
    lowest = -np.inf if values.dtype.kind == "f" else np.iinfo(np.int64).min
    assert_same_sums(found.sum, values.sum(axis=0), np.abs(values).sum(axis=0))
    largest = np.where(gone, lowest, values).max(axis=0, initial=lowest)
    np.testing.assert_array_equal(found.maximum, largest)
    np.testing.assert_array_equal(found.nodata, gone.sum(axis=0))


def expected_counts(h: int, w: int, dose: float) -> NDArray[np.float64]:
    """Return mean counts of a disk with a diffuse tail, off centre; f64[H, W]."""
    y, x = np.mgrid[:h, :w]
    d = np.hypot(y - 0.45 * h, x - 0.55 * w)
    side = min(h, w)
    mean = 1 / (1 + np.exp((d - 0.2 * side) / 0.7)) + 0.02 / (1 + (d / (0.2 * h)) ** 4)
    return mean / mean.sum() * dose


def counts(shape: tuple[int, int, int, int], dose: float, dtype: str, seed: int = 0) -> NDArray:
    """Return Poisson counts, at most the dtype's maximum - 1."""
    drawn = np.random.default_rng(seed).poisson(expected_counts(*shape[2:], dose), shape)
    return np.minimum(drawn, np.iinfo(dtype).max - 1).astype(dtype)
