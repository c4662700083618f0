"""Size and speed of the code, against what could be expected and against plain references.

Everything is measured in this run on this machine, in CPU time (all threads together), and
printed as a ratio. The size is judged: exit status 1 if it is more than 10 % above the entropy.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.synthetic import Recipe, simulate
from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.encode import ScanEncoder, plan_coding
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.readiness import warm_up
from napari_4dstem.detectors import Circle, tile_cover
from napari_4dstem.ledger import HostAllocator, Ledger

FULL = Recipe((64, 64), (192, 192), 20_000)
QUICK = Recipe((32, 32), (96, 96), 5_000)
LARGEST_EXCESS = 0.10
CLASSES = 32


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small scan; its size is not judged")
    options = parser.parse_args(arguments)
    recipe = QUICK if options.quick else FULL
    data = simulate(recipe)
    shape = " x ".join(map(str, data.shape))
    print(f"{shape} {data.dtype}, {recipe.counts:g} counts a pattern, simulated")
    warm_up(data.dtype)
    scan, seconds = encode(data)
    excess = print_sizes(data, scan)
    print_speeds(data, scan, seconds)
    if options.quick:
        return 0
    good = excess <= LARGEST_EXCESS
    print(f"size {'within' if good else 'NOT WITHIN'} {LARGEST_EXCESS:.0%} of the entropy")
    return 0 if good else 1


def encode(data: NDArray[Any]) -> tuple[EncodedScan, float]:
    """Encode from a stratified sample; return the scan and the CPU seconds without planning."""
    flat = data.reshape(-1, *data.shape[2:])
    sample = flat[:: max(1, len(flat) // 256)]
    plan = plan_coding(sample, np.ones(data.shape[:2], bool))
    encoder = ScanEncoder(plan, HostAllocator(Ledger(), "benchmark"))
    spent = 0.0
    for block in range(plan.layout.n_blocks):
        patterns = flat[plan.layout.block_positions(block)]
        start = time.process_time()
        encoder.encode_block(block, patterns)
        spent += time.process_time() - start
    return encoder.finish(), spent


def entropy_bytes(data: NDArray[Any]) -> float:
    """Return the order-0 entropy of the counts, given the class of each pixel.

    Pixels that ever count belong to one of 31 classes of the logarithm of their mean, the
    others to one of their own: what a static table per class could reach at best, if tables and
    classes cost nothing.
    """
    flat = data.reshape(-1, data.shape[2] * data.shape[3])
    mean = flat.mean(axis=0)
    lit = mean > 0
    low, high = np.log(mean[lit].min()), np.log(np.quantile(mean[lit], 0.9995))
    level = (np.log(np.where(lit, mean, 1)) - low) / max(high - low, 1e-9)
    classes = np.where(lit, np.clip(level * (CLASSES - 1), 0, CLASSES - 2).astype(int) + 1, 0)
    bits = 0.0
    for k in range(CLASSES):
        histogram = np.bincount(flat[:, classes == k].reshape(-1))
        seen = histogram[histogram > 0]
        bits -= float((seen * np.log2(seen / max(seen.sum(), 1))).sum())
    return bits / 8


def print_sizes(data: NDArray[Any], scan: EncodedScan) -> float:
    """Print where the bytes go; return by how much they exceed the entropy."""
    entropy = entropy_bytes(data)
    stream = 4 * int(scan.chunk_off[:, -1].sum())
    states = 128 * int((np.diff(scan.chunk_off.astype(int), axis=1) > 0).sum())
    rows = {
        f"entropy, {CLASSES} classes": entropy,
        "encoded, in all": scan.nbytes,
        "  symbols and literals": stream - states,
        "  states of the lanes": states,
        "  tables and offsets": scan.nbytes - stream,
        "exact short cuts": scan.index.nbytes if scan.index else 0,
        "plain numbers": data.nbytes,
    }
    print(f"\n{'size':<28}{'MB':>9}{'bit/px':>9}{'of the entropy':>16}")
    for name, size in rows.items():
        print(f"{name:<28}{size / 1e6:>9.2f}{8 * size / data.size:>9.3f}{size / entropy:>16.3f}")
    return scan.nbytes / entropy - 1


@njit(nogil=True, cache=True)
def masked_sum(numbers: NDArray[Any], pixels: NDArray[np.bool_], out: NDArray[np.int64]) -> None:
    """Sum numbers[n, P] under a mask: the plain reference, memory-bound."""
    for i in range(numbers.shape[0]):
        row = numbers[i]
        total = np.int64(0)
        for p in range(row.size):
            total += np.int64(row[p]) if pixels[p] else np.int64(0)
        out[i] = total


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Return the CPU time of the quickest of three runs, all threads together."""
    work()
    shortest = np.inf
    for _ in range(3):
        start = time.process_time()
        work()
        shortest = min(shortest, time.process_time() - start)
    return float(shortest)


def print_speeds(data: NDArray[Any], scan: EncodedScan, encode_seconds: float) -> None:
    """Print what the ways to a product cost, and their ratio to the dense sum."""
    layout = scan.layout
    decoder, blocks = CpuDecoder(scan), range(layout.n_blocks)
    everywhere, tiles = np.ones(layout.detector_shape, bool), np.arange(layout.n_tiles)
    h, w = layout.detector_shape
    disk = Circle(center=(h / 2, w / 2), radius=0.17 * h).mask(layout.detector_shape)
    boundary = tile_cover(disk, layout.tile).boundary
    flat, out = data.reshape(-1, h * w), np.empty(layout.n_positions, np.int64)
    lane = np.array([layout.block_size(0) // 2])
    seconds = {
        "dense sum in memory (Numba)": cpu_seconds(
            lambda: masked_sum(flat, everywhere.reshape(-1), out)
        ),
        "read bitshuffle-LZ4 (h5py)": reading_seconds(data),
        "encode": encode_seconds,
        "decode, sum": cpu_seconds(lambda: [decoder.sums(b, everywhere, tiles) for b in blocks]),
        "decode, sum, edge of BF disk": cpu_seconds(
            lambda: [decoder.sums(b, disk, boundary) for b in blocks]
        ),
        "decode, moments": cpu_seconds(
            lambda: [decoder.moments(b, everywhere, tiles) for b in blocks]
        ),
        "decode, patterns": cpu_seconds(lambda: [decoder.patterns(b) for b in blocks]),
    }
    reference = seconds["dense sum in memory (Numba)"]
    print(f"\n{'CPU time, whole scan':<32}{'ms':>9}{'Mpx/s':>9}{'of the dense sum':>18}")
    for name, spent in seconds.items():
        rate = data.size / spent / 1e6
        print(f"{name:<32}{1e3 * spent:>9.0f}{rate:>9.0f}{spent / reference:>18.2f}")
    cursor = cpu_seconds(lambda: decoder.patterns(0, lane))
    print(f"{'one pattern, middle of a block':<32}{1e3 * cursor:>9.1f}\n")


def reading_seconds(data: NDArray[Any]) -> float:
    """Return the CPU time for reading the patterns from a file as cameras write them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.h5"
        flat = data.reshape(-1, *data.shape[2:])[:1024]
        with h5py.File(path, "w") as file:
            compression = hdf5plugin.Bitshuffle(cname="lz4")
            file.create_dataset("data", data=flat, chunks=(1, *flat.shape[1:]), **compression)

        def read() -> None:
            with h5py.File(path) as file:
                for first in range(0, len(flat), 128):
                    file["data"][first : first + 128]

        return cpu_seconds(read) * (data.shape[0] * data.shape[1] / len(flat))
