"""Plain files written from a scan: the same bits, in every state of the scan, or nothing at all."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

import napari_4dstem as n4
from napari_4dstem.calibration import Calibration, Quantity
from napari_4dstem.errors import CancelledError, SaveError, UsageError
from tests.acquisitions import DTYPES, counts, save
from tests.sources.arina_files import Writer
from tests.sources.arina_files import counts as frame_counts

SHAPE = (8, 34, 9, 11)
EVERYTHING = n4.Rectangle(0, 7, 0, 11)


def bits(array: NDArray[Any]) -> NDArray[Any]:
    """Return the bit patterns: NaN equals NaN only if it is the same one."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def assert_same(found: NDArray[Any], expected: NDArray[Any]) -> None:
    assert found.dtype == expected.dtype
    assert np.array_equal(bits(found), bits(expected))


def read_h5(path: Path) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    with h5py.File(path) as file:
        return file["entry/data/data"][()], file["entry/data/valid"][()]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("encoded", [False, True], ids=["source", "encoded"])
def test_every_type_of_number_comes_back_bit_for_bit(
    dtype: str, encoded: bool, tmp_path: Path
) -> None:
    data = counts(SHAPE, dtype)
    if dtype == "f4":
        data.view("u4")[1, 2, 3, 4] = 0x7FC01234  # a NaN that carries something
    with n4.open(save(tmp_path, data)) as acquisition:
        if encoded:
            acquisition.encode(wait=True)
        for name in ("back.npy", "back.h5", "back.HDF5"):
            assert acquisition.decode(tmp_path / name).all()
    assert_same(np.load(tmp_path / "back.npy"), data)
    assert not (tmp_path / "back_valid.npy").exists()
    for name in ("back.h5", "back.HDF5"):
        found, valid = read_h5(tmp_path / name)
        assert_same(found, data)
        assert valid.all()
        with n4.open(tmp_path / name) as again:
            assert again.info is not None
            assert again.info.ready
            assert_same(again[:, :], data)


@pytest.mark.parametrize("scan", [(1, 6), (6, 1), (2, 3), (1, 1)], ids=str)
def test_scans_of_one_row_or_column_keep_their_shape(scan: tuple[int, int], tmp_path: Path) -> None:
    data = counts((*scan, 9, 11))
    with n4.open(save(tmp_path, data)) as acquisition:
        acquisition.decode(tmp_path / "back.h5")
    with n4.open(tmp_path / "back.h5") as again:
        assert again.shape == data.shape
        assert not again.problems
        assert_same(again[:, :], data)


@pytest.mark.parametrize("dtype", ["u2", "f4"])
@pytest.mark.parametrize("encoded", [False, True], ids=["source", "encoded"])
def test_positions_without_data_are_told(dtype: str, encoded: bool, tmp_path: Path) -> None:
    """Five positions before the first frame, and the last row cut short."""
    frames = counts((10, 10, 9, 11), dtype).reshape(100, 9, 11)
    scan = np.zeros((6, 20, 9, 11), dtype)
    scan.reshape(-1, 9, 11)[5:105] = frames
    expected = np.zeros((6, 20), bool)
    expected.reshape(-1)[5:105] = True
    options = {"scan_shape": (6, 20), "frame_offset": -5, "partial": True}
    with n4.open(save(tmp_path, frames), **options) as acquisition:
        if encoded:
            acquisition.encode(wait=True)
        for name in ("back.h5", "back.npy"):
            assert np.array_equal(acquisition.decode(tmp_path / name), expected)
    found, valid = read_h5(tmp_path / "back.h5")
    array, beside = np.load(tmp_path / "back.npy"), np.load(tmp_path / "back_valid.npy")
    for numbers, which in ((found, valid), (array, beside)):
        assert np.array_equal(which, expected)
        assert_same(numbers[expected], scan[expected])
        left = numbers[~expected]
        assert np.isnan(left).all() if dtype == "f4" else not left.any()
    with h5py.File(tmp_path / "back.h5") as file:
        # Not even stored: a reader that looks at the chunks sees that they do not exist.
        assert file["entry/data/data"].id.get_num_chunks() == 100
    with n4.open(tmp_path / "back.h5", partial=True) as again:
        assert np.array_equal(again.valid, expected)
        assert_same(again[:, :][expected], scan[expected])


def test_a_damaged_pattern_is_a_missing_one(tmp_path: Path) -> None:
    frames = frame_counts(np.random.default_rng(3), (12, 16, 20))
    path = Writer().write(tmp_path, frames)
    with h5py.File(path) as file:
        chunk = file["entry/data/data"].id.get_chunk_info(7)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset + 8)
        raw.write(b"\xff" * 8)
    with n4.open(path, scan_shape=(3, 4)) as acquisition:
        valid = acquisition.decode(tmp_path / "back.h5")
    assert np.flatnonzero(~valid).tolist() == [7]
    found, stored = read_h5(tmp_path / "back.h5")
    assert np.array_equal(stored, valid)
    assert_same(found.reshape(12, 16, 20)[valid.reshape(-1)], np.delete(frames, 7, axis=0))


def test_what_was_known_of_the_scan_is_known_again(tmp_path: Path) -> None:
    data = counts((4, 5, 7, 11), "u1")
    data[1, 2, 3, 4] = 255  # in a NumPy file that is a count, in a detector's file it would not be
    calibration = Calibration(
        scan_step=(Quantity(0.25, "nm", "typed"), Quantity(0.5, "nm", "typed")),
        camera_step=(Quantity(1.5, "mrad", "measured"), Quantity(2.0, "mrad", "measured")),
    )
    mask = np.zeros((7, 11), bool)
    mask[2, 5] = True
    with n4.open(save(tmp_path, data), mask=mask) as acquisition:
        acquisition.calibration = calibration
        acquisition.decode(tmp_path / "back.h5")
        total = acquisition.image(EVERYTHING)
    with n4.open(tmp_path / "back.h5") as again:
        assert again.calibration == calibration
        assert again.mask is not None
        assert np.array_equal(again.mask, mask)
        assert np.array_equal(again.image(EVERYTHING), total)
        assert again.overloads().sum() == 0
    with h5py.File(tmp_path / "back.h5") as file:  # and so that other programs can read it
        group = file["entry/data"]
        assert group.attrs["scan_step"].tolist() == [0.25, 0.5]
        assert group.attrs["camera_unit"] == "mrad"
        assert file["entry/instrument/detector/pixel_mask"][2, 5] == 1


@pytest.mark.parametrize("name", ["back.h5", "back.npy"])
def test_cancel_leaves_the_old_file_and_no_other(name: str, tmp_path: Path) -> None:
    data = counts((20, 70, 9, 11))
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / name
    target.write_bytes(b"old")
    told: list[tuple[int, int]] = []
    with n4.open(save(tmp_path, data)) as acquisition:
        with pytest.raises(CancelledError):
            acquisition.decode(
                target,
                progress=lambda done, total: told.append((done, total)),
                cancelled=lambda: len(told) > 2,
            )
        assert [p.name for p in target.parent.iterdir()] == [name]
        assert target.read_bytes() == b"old"
        assert told[0] == (0, 1400)
        assert 0 < told[-1][0] < 1400
        acquisition.decode(target, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (1400, 1400)
    assert [p.name for p in target.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["back", "back.tif", "back.ans4d", "back.npz"])
def test_other_kinds_of_files_are_refused(name: str, tmp_path: Path) -> None:
    with (
        n4.open(save(tmp_path, counts((2, 3, 9, 11)))) as acquisition,
        pytest.raises(UsageError, match=r"\.h5 or \.hdf5 or \.npy"),
    ):
        acquisition.decode(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["scan.npy"]


def test_a_scan_is_not_written_over_itself(tmp_path: Path) -> None:
    path = save(tmp_path, counts((2, 3, 9, 11)))
    (tmp_path / "link.npy").symlink_to(path)
    master = Writer(per_file=4).write(tmp_path / "arina", counts((1, 6, 9, 11), seed=1)[0])
    before = path.read_bytes()
    with n4.open(path) as acquisition, n4.open(master, scan_shape=(2, 3)) as arina:
        for scan, target in (
            (acquisition, path),
            (acquisition, tmp_path / "link.npy"),
            (arina, master),
            (arina, master.with_name("scan_data_000002.h5")),
        ):
            with pytest.raises(SaveError, match="holds the scan itself"):
                scan.decode(target)
        arina.decode(path)  # any other file may be replaced
    assert path.read_bytes() != before


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Whole blocks are held, never the whole scan."""
    data = np.random.default_rng(0).integers(0, 50, (32, 128, 32, 36), np.uint16)
    path = save(tmp_path, data)
    with n4.open(path) as acquisition:
        acquisition.decode(tmp_path / "warm.h5")
        for name in ("back.h5", "back.npy"):
            tracemalloc.start()
            try:
                acquisition.decode(tmp_path / name)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            # 512 positions a block: an eighth of the scan.
            assert peak < data.nbytes / 3
    assert_same(np.load(tmp_path / "back.npy"), data)
