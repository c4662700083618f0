"""The coarse scan: which positions are read, and which of them stands for each of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from napari_4dstem.errors import CancelledError, NotReadyError
from napari_4dstem.ledger import HostAllocator, Ledger
from napari_4dstem.loading.coarse import choose_step, read_coarse, source_layout
from napari_4dstem.sources import OpenOptions, open_source
from tests.acquisitions import counts, save
from tests.sources.arina_files import Writer
from tests.sources.test_damage import chunks_of, patch


def never() -> bool:
    return False


@pytest.mark.parametrize("shape", [(256, 256), (512, 300), (32, 32), (1, 4096), (7, 9), (1, 1)])
@pytest.mark.parametrize("pattern_bytes", [99, 192 * 192 * 2, 4 << 20])
def test_the_step_gives_enough_and_not_too_much(shape: tuple[int, int], pattern_bytes: int) -> None:
    most = max(16, (96 << 20) // pattern_bytes)

    def count(step: int) -> int:
        return -(-shape[0] // step) * -(-shape[1] // step)

    step = choose_step(shape, pattern_bytes)
    assert count(step) <= most
    if step > 8:
        assert count(step - 1) > most
    if step < 8:
        assert count(step + 1) < 256 or count(step - 1) > most


@pytest.mark.parametrize(("rows", "columns"), [(20, 70), (1, 33), (40, 2), (3, 3)])
def test_every_position_is_shown_as_its_nearest_coarse_row_and_column(
    tmp_path: Path, rows: int, columns: int
) -> None:
    data = counts((rows, columns, 9, 11))
    source = open_source(save(tmp_path, data))
    ledger = Ledger()
    try:
        coarse = read_coarse(source, None, HostAllocator(ledger, "scan"), never)
    finally:
        source.close()
    assert ledger.total() >= coarse.patterns.nbytes > 0
    where = np.stack(np.divmod(coarse.positions, columns))
    assert np.array_equal(coarse.patterns, data[tuple(where)])
    for row in range(rows):
        for column in range(columns):
            chosen = where[:, coarse.nearest[row, column]]
            for axis, place in enumerate((row, column)):
                distance = np.abs(where[axis] - place).min()
                assert abs(chosen[axis] - place) == distance
    inside = np.zeros((9, 11), bool)
    inside[2:5, 3] = True
    image = coarse.image(inside, raw_values=False)
    expected = data[..., inside].sum(-1)[tuple(where)][coarse.nearest]
    assert np.array_equal(image, expected)
    assert image.dtype == np.int64
    summary = coarse.summary()
    assert np.array_equal(summary.sum, coarse.patterns.sum(axis=0))
    assert np.array_equal(summary.maximum, coarse.patterns.max(axis=0))


@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_values_without_data_count_nothing(tmp_path: Path, dtype: str) -> None:
    data = counts((8, 7, 9, 11), dtype)
    nodata = None if dtype == "f4" else 65535
    data[2, 2, 4, 5] = np.nan if nodata is None else nodata
    source = open_source(save(tmp_path, data))
    try:
        coarse = read_coarse(source, nodata, HostAllocator(Ledger(), "scan"), never)
    finally:
        source.close()
    assert coarse.patterns.shape[0] == 56  # a small scan is read whole
    good = np.isfinite(data) & (data != 65535)
    everything = np.ones((9, 11), bool)
    image = coarse.image(everything, raw_values=False)
    assert np.allclose(image, np.where(good, data, 0).sum((2, 3), dtype=float), rtol=1e-12)
    summary = coarse.summary()
    assert summary.nodata.sum() == (~good).sum() > 0
    assert np.isfinite(summary.maximum).all()
    if nodata is not None:
        raw = coarse.image(everything, raw_values=True)
        assert np.array_equal(raw, data.sum((2, 3), dtype=np.int64))


def test_holes_damage_and_cancel(tmp_path: Path) -> None:
    data = counts((6, 8, 30, 22))
    master = Writer(block=64).write(tmp_path, data.reshape(-1, 30, 22)[:40])
    options = OpenOptions(scan_shape=(6, 8), partial=True)
    patch(master, chunks_of(master)[13].byte_offset + 12, b"\x7f\xff\xff\xff")
    source = open_source(master, options)
    allocator = HostAllocator(Ledger(), "scan")
    try:
        coarse = read_coarse(source, 65535, allocator, never)
        assert coarse.positions.tolist() == [n for n in range(40) if n != 13]
        assert np.array_equal(coarse.patterns, data.reshape(-1, 30, 22)[coarse.positions])
        assert np.array_equal(source_layout(source).recorded, source.recorded)
        with pytest.raises(CancelledError):
            read_coarse(source, 65535, allocator, lambda: True)
    finally:
        source.close()


def test_nothing_that_can_be_read(tmp_path: Path) -> None:
    master = Writer(block=64).write(tmp_path, counts((2, 2, 30, 22)).reshape(-1, 30, 22))
    for chunk in chunks_of(master):
        patch(master, chunk.byte_offset + 12, b"\x7f\xff\xff\xff")
    source = open_source(master, OpenOptions(scan_shape=(2, 2)))
    try:
        with pytest.raises(NotReadyError, match="No pattern could be read"):
            read_coarse(source, None, HostAllocator(Ledger(), "scan"), never)
    finally:
        source.close()
