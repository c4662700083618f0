"""Check on a machine with a GPU that decoding there is exact and gives its memory back.

One short run that needs only NumPy, Numba and torch beside this repository::

    python benchmarks/gpu_check.py [--device cuda] [--quick]

Prints a table and, last, one line of JSON. Exit status 1 if anything is inexact or memory stays.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # runs without being installed

import torch  # noqa: E402

from benchmarks.synthetic import Recipe, simulate  # noqa: E402
from napari_4dstem.codec.decode_cpu import CpuDecoder  # noqa: E402
from napari_4dstem.codec.encode import ScanEncoder, plan_coding  # noqa: E402
from napari_4dstem.codec.encoded_scan import EncodedScan  # noqa: E402
from napari_4dstem.codec.oracle import TorchOracle  # noqa: E402
from napari_4dstem.codec.protocol import BlockDecoder  # noqa: E402
from napari_4dstem.ledger import HostAllocator, Ledger  # noqa: E402

STAYS_AT_MOST = 64 << 20


def best_device() -> str:
    """Return the fastest kind of device that torch finds here."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def used_bytes(device: str) -> int:
    """Return the bytes in use on a device, by everybody; 0 where it cannot be asked."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
        free, total = torch.cuda.mem_get_info(device)
        return total - free
    return torch.mps.driver_allocated_memory() if device == "mps" else 0


def encode(data: np.ndarray, nodata: int | None = None) -> EncodedScan:
    flat = data.reshape(-1, *data.shape[2:])
    sample = flat[:: max(1, len(flat) // 256)]
    plan = plan_coding(sample, np.ones(data.shape[:2], bool), nodata=nodata)
    encoder = ScanEncoder(plan, HostAllocator(Ledger(), "check"), threads=2)
    for block in range(plan.layout.n_blocks):
        encoder.encode_block(block, flat[plan.layout.block_positions(block)])
    return encoder.finish()


def scans(*, quick: bool) -> dict[str, tuple[np.ndarray, int | None]]:
    """Return a scan of realistic size and small ones of all kinds of values, with no-data."""
    recipe = Recipe((12, 20), (48, 40), 5_000) if quick else Recipe((48, 64), (128, 144), 20_000)
    small = simulate(Recipe((7, 19), (45, 37), 40_000))
    small[1, 2, 3, 4] = small[..., 30, 30] = 65535
    floats = (small * np.float64(np.float32(0.37))).astype(np.float32)
    floats[0, 0, 0, 0] = np.nan
    return {
        "large": (simulate(recipe), None),
        "u16": (small, 65535),
        "u8": (np.minimum(small, 255).astype(np.uint8), 255),
        "u32": (small.astype(np.uint32) * np.uint32(65537), 2**32 - 1),
        "i16": (small.astype(np.int16) - np.int16(3), None),
        "f32": (floats, None),
        "noise": (np.random.default_rng(0).integers(0, 65536, (3, 5, 20, 33)).astype("u2"), None),
        "zeros": (np.zeros((3, 50, 20, 33), np.uint16), None),
    }


def wrong_readings(decoder: BlockDecoder, data: np.ndarray, nodata: int | None) -> list[str]:
    """Compare every kind of reading with dense NumPy; return the names of those that differ."""
    wrong = set()
    layout = decoder.scan.layout
    is_float = data.dtype.kind == "f"
    bits = f"u{data.dtype.itemsize}"
    row, column = np.mgrid[: layout.detector_shape[0], : layout.detector_shape[1]]
    pixels = np.hypot(row - 20, column - 18) < 11
    tiles = np.arange(layout.n_tiles)
    for block in range(layout.n_blocks):
        patterns = data.reshape(-1, *layout.detector_shape)[layout.block_positions(block)]
        wide = patterns.astype(np.float64 if is_float else np.int64)  # integers are finite
        gone = ~np.isfinite(wide) if nodata is None else patterns == nodata
        wide = np.where(gone, 0, wide)
        every = np.ones(len(patterns), bool)
        moments, reduced = decoder.moments(block, pixels, tiles), decoder.reduce(block, every)
        pairs = {
            "pattern": (decoder.patterns(block).view(bits), patterns.view(bits)),
            "sum": (decoder.sums(block, pixels, tiles).total, (wide * pixels).sum((1, 2))),
            "rows": (moments.rows, (wide * pixels * row).sum((1, 2))),
            "columns": (moments.columns, (wide * pixels * column).sum((1, 2))),
            "no data": (moments.nodata, (gone & pixels).sum((1, 2))),
            "sum pattern": (reduced.sum, wide.sum(0)),
        }
        tolerance = 1e-12 * np.abs(wide).sum() * max(layout.detector_shape) if is_float else 0
        for name, (found, expected) in pairs.items():
            if name == "pattern" or not is_float:
                same = np.array_equal(found, expected)
            else:
                same = bool((np.abs(found - expected) <= tolerance).all())
            if not same:
                wrong.add(name)
    return sorted(wrong)


def seconds_of(work: Callable[[], Any], device: str) -> float:
    """Return the shortest of three runs."""
    shortest = np.inf
    for _ in range(3):
        start = time.perf_counter()
        work()
        used_bytes(device)  # waits for the device
        shortest = min(shortest, time.perf_counter() - start)
    return float(shortest)


def speeds(
    data: np.ndarray, scan: EncodedScan, oracle: TorchOracle, device: str
) -> dict[str, float]:
    """Return seconds for a masked sum of the whole scan, done in three ways."""
    pixels = np.ones(scan.layout.detector_shape, bool)
    tiles, blocks = np.arange(scan.layout.n_tiles), range(scan.layout.n_blocks)
    processor = CpuDecoder(scan)
    numbers = torch.from_numpy(data.reshape(-1, pixels.size).view(np.int16)).to(device)
    mask = torch.from_numpy(pixels.reshape(-1)).to(device)

    def dense() -> None:
        for part in numbers.split(256):
            torch.where(mask, part.to(torch.int32) & 0xFFFF, 0).sum(1)

    return {
        "dense": seconds_of(dense, device),
        "oracle": seconds_of(lambda: [oracle.sums(b, pixels, tiles) for b in blocks], device),
        "cpu": seconds_of(lambda: [processor.sums(b, pixels, tiles) for b in blocks], device),
        "pattern": seconds_of(lambda: oracle.patterns(0, np.array([5])), device),
    }


def check_all(device: str, *, quick: bool) -> dict[str, Any]:
    torch.zeros(1, device=device)  # the context of the device is not what we measure
    report: dict[str, Any] = {"device": device, "wrong": {}, "stays": {}}
    for name, (data, nodata) in scans(quick=quick).items():
        scan = encode(data, nodata)
        before = used_bytes(device)
        ledger = Ledger()
        oracle = TorchOracle(scan, device, ledger=ledger)
        held = ledger.total()
        report["wrong"][name] = wrong_readings(oracle, data, nodata)
        if name == "large":
            report["seconds"] = speeds(data, scan, oracle, device)
            report["held"], report["dense"] = held, data.nbytes
        oracle.close()
        report["stays"][name] = max(0, used_bytes(device) - before) + ledger.total()
    report["exact"] = not any(report["wrong"].values())
    report["returned"] = max(report["stays"].values()) <= STAYS_AT_MOST
    return report


def print_table(report: dict[str, Any]) -> None:
    print(f"{report['device']} ({report['name']}), torch {torch.__version__}")
    for name, wrong in report["wrong"].items():
        verdict = f"WRONG: {', '.join(wrong)}" if wrong else "exact"
        print(f"  {name:<8}{verdict:<12} {report['stays'][name] / 2**20:6.1f} MiB stay")
    seconds, pixels = report["seconds"], report["dense"] / 2
    print(f"  whole-scan sum, {pixels / 1e6:.0f} Mpx     Gpx/s   of dense on the device")
    for name in ("dense", "oracle", "cpu"):
        rate = pixels / seconds[name] / 1e9
        print(f"    {name:<24}{rate:8.3f}   {seconds['dense'] / seconds[name]:8.4f}")
    share = report["held"] / report["dense"]
    print(f"  one pattern {1e3 * seconds['pattern']:.1f} ms")
    print(f"  held {report['held'] / 2**20:.1f} MiB, {share:.3f} of the plain numbers")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--quick", action="store_true", help="small scans only")
    options = parser.parse_args(arguments)
    # In plain torch a processor takes minutes for the realistic scan.
    report = check_all(options.device, quick=options.quick or options.device == "cpu")
    on_cuda = options.device.startswith("cuda")
    report["name"] = torch.cuda.get_device_name(options.device) if on_cuda else platform.machine()
    print_table(report)
    print(json.dumps(report))
    return 0 if report["exact"] and report["returned"] else 1


if __name__ == "__main__":
    sys.exit(main())
