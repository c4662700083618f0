"""Small scans in real files, what dense NumPy says about them, and scans held half encoded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import napari_4dstem as n4
from napari_4dstem.container import ContainerHeader, write
from napari_4dstem.imaging.blocks import GrowingBlocks
from napari_4dstem.loading.backing import Backing
from napari_4dstem.loading.lifecycle import Lifecycle, source_backing
from napari_4dstem.scan_reader import ScanReader
from napari_4dstem.sources import OpenOptions, Source, open_source

# Six blocks of 10 x 23 or 24 positions: enough to be encoded in part.
SHAPE = (20, 70, 9, 11)
DTYPES = ("u1", "u2", "i2", "u4", "f4")


def counts(shape: tuple[int, ...] = SHAPE, dtype: str = "u2", seed: int = 0) -> NDArray[Any]:
    """Return counts with a bright patch; signed ones are negative in part, floats have a NaN."""
    rng = np.random.default_rng(seed)
    mean = np.full(shape[2:], 0.5)
    mean[shape[2] // 4 : shape[2] // 2, 2:6] = 30
    drawn = rng.poisson(mean, shape).astype(np.int64)
    if np.dtype(dtype).kind == "i":
        drawn -= 40
    data = drawn.astype(dtype)
    if np.dtype(dtype).kind == "f":
        data[3, 5, 1, 2], data[4, 4, 2, 3] = np.nan, np.inf
        data[6, 1] *= np.float32(0.3)
    return data


def save(folder: Path, data: NDArray[Any], name: str = "scan") -> Path:
    """Save an array for `napari_4dstem.open`; return its path."""
    path = folder / f"{name}.npy"
    np.save(path, data)
    return path


@dataclass
class Truth:
    """Products by dense NumPy.

    Parameters
    ----------
    data
        [rows, columns, H, W].
    masked
        Bool[H, W]; None: raw values.
    nodata
        Value that means "no data", or None.
    valid
        Bool, scan shape: positions that were recorded and are intact.
    """

    data: NDArray[Any]
    masked: NDArray[np.bool_] | None = None
    nodata: int | None = None
    valid: NDArray[np.bool_] = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.valid is None:
            self.valid = np.ones(self.data.shape[:2], bool)
        number = np.float64 if self.data.dtype.kind == "f" else np.int64
        wide = self.data.astype(number)
        self.gone = ~np.isfinite(wide)
        if self.nodata is not None and self.masked is not None:
            self.gone = self.data == self.nodata
        self.out = np.zeros(wide.shape[2:], bool) if self.masked is None else self.masked
        self.values = np.where(self.gone | self.out | ~self.valid[..., None, None], 0, wide)

    def image(self, inside: NDArray[np.bool_]) -> NDArray[Any]:
        return self.values[..., inside].sum(axis=-1)

    def center(self, inside: NDArray[np.bool_]) -> NDArray[np.float64]:
        rows, columns = np.nonzero(inside)
        under = self.values[..., inside]
        moments = np.stack([under @ rows, under @ columns])
        with np.errstate(invalid="ignore", divide="ignore"):
            found = moments / under.sum(axis=-1)
        found[~np.isfinite(found)] = np.nan
        return found

    def overloads(self, inside: NDArray[np.bool_]) -> NDArray[np.int64]:
        if self.nodata is None and self.data.dtype.kind != "f":
            return np.zeros(self.data.shape[:2], np.int64)
        marked = self.data == self.nodata if self.nodata is not None else ~np.isfinite(self.data)
        return np.where(self.valid, (marked & ~self.out & inside).sum(axis=(2, 3)), 0)

    def pattern(self, region: NDArray[np.bool_], how: str) -> NDArray[Any]:
        chosen = region & self.valid
        values, gone = self.values[chosen], self.gone[chosen]
        if how == "sum":
            return values.sum(axis=0)
        if how == "mean":
            number = np.where(self.out, 0, (~gone).sum(axis=0))
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.where(number > 0, values.sum(axis=0) / number, np.nan)
        lowest = -np.inf if values.dtype.kind == "f" else np.iinfo(np.int64).min
        top = np.where(gone, lowest, values).max(axis=0, initial=lowest)
        return np.where(self.out | (top == lowest), 0, top)


def assert_close(found: NDArray[Any], expected: NDArray[Any], scale: float) -> None:
    """Integers exactly, floats to 1e-12 of `scale`, NaN where NaN is."""
    if expected.dtype.kind == "f":
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        assert np.nanmax(np.abs(found - expected), initial=0) <= 1e-12 * scale
    else:
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


class HeldSource:
    """A real source whose bulk reads by the encoder wait, from one scan row on, until `go`."""

    def __init__(self, source: Source, row: int) -> None:
        self._source, self._row = source, row
        self.go = threading.Event()
        self.patterns_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, row: int, columns: range, out: NDArray[Any] | None = None) -> NDArray[Any]:
        if row >= self._row and threading.current_thread().name.startswith("n4-read"):
            assert self.go.wait(30)
        self.patterns_read += len(columns)
        return self._source.read(row, columns, out)


@contextmanager
def half_encoded(
    path: Path, row: int, options: OpenOptions | None = None, nodata: int | None = None
) -> Iterator[tuple[ScanReader, Lifecycle, HeldSource]]:
    """Open a file and encode it up to scan row `row`, which must begin a row of blocks."""
    held: list[HeldSource] = []

    def opener(_: Any) -> Backing:
        held.append(HeldSource(open_source(path, options or OpenOptions()), row))
        return source_backing(held[-1], nodata)

    life = Lifecycle(path.stem, opener, nodata)
    reader = ScanReader(path.stem, life)
    try:
        life.encode(np.zeros(reader.detector_shape, bool))
        wait_for(lambda: _rows_done(life, row))
        yield reader, life, held[0]
    finally:
        held[-1].go.set()
        life.release()


def _rows_done(life: Lifecycle, row: int) -> bool:
    blocks = life.backing.blocks
    if not isinstance(blocks, GrowingBlocks):
        return False
    columns = blocks.layout.scan_shape[1]
    last = [blocks.layout.block_positions(b).max() for b in range(blocks.layout.n_blocks)]
    before = np.array(last) < row * columns
    assert before.any() and not before.all()
    return bool((blocks.done == before).all())


@contextmanager
def reader_at(
    stage: str, path: Path, *, nodata: int | None = None, options: OpenOptions | None = None
) -> Iterator[ScanReader]:
    """Yield a reader in the state ``source``, ``partial``, ``encoded`` or ``saved``."""
    if stage == "partial":
        with half_encoded(path, 10, options, nodata) as (reader, _, _):
            yield reader
        return
    life = Lifecycle(
        path.stem,
        lambda _: source_backing(open_source(path, options or OpenOptions()), nodata),
        nodata,
    )
    try:
        reader = ScanReader(path.stem, life)
        if stage != "source":
            thread = life.encode(np.zeros(reader.detector_shape, bool))
            assert thread is not None
            thread.join()
            assert life.backing.state == "encoded"
        if stage == "saved":
            scan = life.backing.scan
            assert scan is not None
            write(path.with_suffix(".ans4d"), scan, ContainerHeader.of(scan))
            with n4.open(path.with_suffix(".ans4d")) as acquisition:
                yield acquisition
        else:
            yield reader
    finally:
        life.release()


def wait_for(condition: Any, seconds: float = 60) -> None:
    """Wait until `condition()` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
