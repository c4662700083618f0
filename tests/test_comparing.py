"""Comparing two scans: nothing that differs goes unnoticed, and the first place is named."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import napari_4dstem as n4
from napari_4dstem.comparing import Comparison
from napari_4dstem.errors import CancelledError
from tests.acquisitions import counts, save
from tests.sources.arina_files import Writer

SHAPE = (20, 70, 9, 11)  # six blocks


def compare(path: Path, other: Path, **options: object) -> Comparison:
    """Compare an encoded scan with a source."""
    with n4.load(path) as mine, n4.open(other, **options) as theirs:
        there, back = mine.compare(theirs), theirs.compare(mine)
    assert there.equal == back.equal
    assert bool(there.mismatch) == bool(back.mismatch)
    if not there.mismatch:
        assert np.array_equal(there.differing, back.differing)
        assert np.array_equal(there.missing_here, back.missing_there)
    return there


def test_equal_scans_are_equal(tmp_path: Path) -> None:
    for dtype in ("u1", "i2", "u4", "f4"):
        path = save(tmp_path, counts(SHAPE, dtype), dtype)
        result = compare(path, path)
        assert result.equal
        assert result.first is None
        assert result.n_compared == 1400


def test_the_first_difference_in_scan_order_is_named(tmp_path: Path) -> None:
    data = counts(SHAPE)
    changed = data.copy()
    # Blocks are not in scan order: (3, 60) lies in a later block than (9, 1).
    changed[9, 1, 0, 0] += 1
    changed[3, 60, 4, 2] += 5
    changed[3, 60, 7, 1] += 5
    changed[19, 69, 8, 10] += 1
    result = compare(save(tmp_path, data, "a"), save(tmp_path, changed, "b"))
    assert not result.equal
    assert np.argwhere(result.differing).tolist() == [[3, 60], [9, 1], [19, 69]]
    first = result.first
    assert first is not None
    assert (first.row, first.column, tuple(first.pixel)) == (3, 60, (4, 2))
    assert (str(first.found), str(first.expected)) == (
        str(data[3, 60, 4, 2]),
        str(changed[3, 60, 4, 2]),
    )
    text = str(result)
    assert "(3, 60)" in text
    assert "(4, 2)" in text
    assert "3 " in text


def test_bits_count_not_values(tmp_path: Path) -> None:
    data = counts(SHAPE, "f4")
    data[0, 0, 0, 0] = 0.0
    changed = data.copy()
    changed[0, 0, 0, 0] = -0.0
    assert np.array_equal(data, changed, equal_nan=True)
    result = compare(save(tmp_path, data, "a"), save(tmp_path, changed, "b"))
    assert np.argwhere(result.differing).tolist() == [[0, 0]]


def test_patterns_that_only_one_has(tmp_path: Path) -> None:
    data = counts((4, 5, 9, 11))
    whole = save(tmp_path, data, "whole")
    part = save(tmp_path, data.reshape(20, 9, 11)[:17], "part")
    result = compare(whole, part, scan_shape=(4, 5), partial=True)
    assert not result.equal
    assert not result.differing.any()
    assert result.n_compared == 17
    assert np.flatnonzero(result.missing_there).tolist() == [17, 18, 19]
    assert not result.missing_here.any()


def test_damage_in_the_source_is_no_difference_if_it_was_there_before(tmp_path: Path) -> None:
    frames = counts((1, 12, 9, 11))[0]
    path = Writer().write(tmp_path, frames)
    with n4.load(path, scan_shape=(3, 4)) as intact:
        intact.save(tmp_path / "intact.ans4d")
    with h5py.File(path) as file:
        place = file["entry/data/data"].id.get_chunk_info(5).byte_offset
    with path.open("r+b") as raw:
        raw.seek(place + 8)
        raw.write(b"\xff" * 8)
    with (
        n4.load(path, scan_shape=(3, 4)) as damaged,
        n4.open(path, scan_shape=(3, 4)) as source,
        n4.open(tmp_path / "intact.ans4d") as intact,
    ):
        result = damaged.compare(source)
        assert result.equal
        assert result.n_compared == 11
        result = intact.compare(source)
        assert not result.equal
        assert np.flatnonzero(result.missing_there).tolist() == [5]


@pytest.mark.parametrize(
    ("shape", "dtype"), [((5, 4, 9, 11), "u2"), ((4, 5, 11, 9), "u2"), ((4, 5, 9, 11), "i2")]
)
def test_other_shapes_and_types_cannot_be_compared(
    shape: tuple[int, ...], dtype: str, tmp_path: Path
) -> None:
    mine = save(tmp_path, counts((4, 5, 9, 11)), "a")
    result = compare(mine, save(tmp_path, counts(shape, dtype), "b"))
    assert not result.equal
    assert result.mismatch
    assert result.n_compared == 0


def test_progress_and_cancel(tmp_path: Path) -> None:
    path = save(tmp_path, counts(SHAPE))
    told: list[int] = []
    with n4.load(path) as mine, n4.open(path) as theirs:
        mine.compare(theirs, progress=lambda done, total: told.append(done))
        assert told == sorted(told)
        assert told[-1] == 1400
        with pytest.raises(CancelledError):
            mine.compare(theirs, cancelled=lambda: True)
