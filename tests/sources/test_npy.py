"""NumPy files: 4D and 3D, C and Fortran order, all types, damaged and dangerous files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from napari_4dstem.errors import (
    NotReadyError,
    ReleasedError,
    SourceChangedError,
    SourceError,
    UsageError,
)
from napari_4dstem.sources import OpenOptions, Source, inspect, open_source, sniff
from tests.sources.arina_files import counts

SHAPE = (3, 5, 22, 26)
DATA = counts(np.random.default_rng(10), SHAPE)


def saved(folder: Path, array: NDArray[Any]) -> Path:
    path = folder / "scan.npy"
    np.save(path, array)
    return path


def read_all(source: Source) -> NDArray[Any]:
    rows, columns = source.scan_shape
    return np.stack([source.read(r, range(columns)) for r in range(rows)])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "stored", ["u1", "<u2", ">u2", "u4", ">u4", "i2", "f4", ">f4", "f8", "f2", "?"]
)
def test_4d(tmp_path: Path, order: Any, stored: str) -> None:
    array = np.asarray(DATA.astype(stored), order=order)
    path = saved(tmp_path, array)
    assert sniff(path)
    info = inspect(path)
    assert info.ready
    assert (info.scan_shape, info.scan_shape_origin) == ((3, 5), "4D dataset")
    assert not info.scan_shape_guessed
    assert info.nodata is None
    assert info.format == "NumPy"
    source = open_source(path)
    try:
        expected = {"?": "u1", "f8": "f4", "f2": "f4"}.get(stored, stored.strip("<>"))
        assert source.dtype == np.dtype(expected)
        got = read_all(source)
        assert got.tobytes() == array.astype(expected).tobytes()
        assert np.array_equal(source.pattern(1, 3), array[1, 3])
        assert source.recorded.all()
    finally:
        source.close()


@pytest.mark.parametrize("order", ["C", "F"])
def test_3d_with_a_scan_shape(tmp_path: Path, order: Any) -> None:
    path = saved(tmp_path, np.asarray(DATA.reshape(15, 22, 26), order=order))
    info = inspect(path)
    assert not info.ready
    assert info.scan_shape_candidates == ((3, 5), (5, 3), (1, 15), (15, 1))
    with pytest.raises(NotReadyError, match="3 x 5"):
        open_source(path)
    source = open_source(path, OpenOptions(scan_shape=(3, 5)))
    try:
        assert np.array_equal(read_all(source), DATA)
    finally:
        source.close()


def test_3d_square_is_guessed_and_marked(tmp_path: Path) -> None:
    info = inspect(saved(tmp_path, DATA.reshape(15, 22, 26)[:9]))
    assert info.ready
    assert (info.scan_shape, info.scan_shape_guessed) == ((3, 3), True)


def test_frame_offset_flyback_and_partial(tmp_path: Path) -> None:
    frames = DATA.reshape(15, 22, 26)
    path = saved(tmp_path, frames)
    source = open_source(path, OpenOptions(scan_shape=(3, 4), frame_offset=1, flyback=1))
    try:
        assert np.array_equal(source.pattern(2, 3), frames[14])
        assert np.array_equal(source.read(1, range(4)), frames[6:10])
    finally:
        source.close()
    assert not inspect(path, OpenOptions(scan_shape=(4, 4))).ready
    source = open_source(path, OpenOptions(scan_shape=(4, 4), partial=True))
    try:
        assert source.recorded.sum() == 15
        with pytest.raises(IndexError, match="not recorded"):
            source.pattern(3, 3)
    finally:
        source.close()


def test_another_shape_for_a_4d_file(tmp_path: Path) -> None:
    source = open_source(saved(tmp_path, DATA), OpenOptions(scan_shape=(5, 3)))
    try:
        assert np.array_equal(read_all(source), DATA.reshape(5, 3, 22, 26))
    finally:
        source.close()


def test_float64_is_refused_where_it_is_not_exact(tmp_path: Path) -> None:
    array = DATA.astype("f8")
    array[1, 2, 0, 0] = np.pi
    array[1, 3, 0, 0] = np.nan
    array[1, 4, 0, 0] = 1e300
    source = open_source(saved(tmp_path, array))
    try:
        assert np.array_equal(source.pattern(1, 1), array[1, 1])
        assert np.isnan(source.pattern(1, 3)[0, 0])
        for column in (2, 4):
            with pytest.raises(SourceError, match="not exact as float32"):
                source.pattern(1, column)
    finally:
        source.close()


def test_a_truncated_file(tmp_path: Path) -> None:
    path = saved(tmp_path, DATA)
    whole = path.read_bytes()
    path.write_bytes(whole[:5000])
    assert sniff(path)
    with pytest.raises(SourceError, match=f"truncated at 5000 of {len(whole)} bytes"):
        inspect(path)


def test_python_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "scan.npy"
    np.save(path, np.array([[[print, 1]]], object), allow_pickle=True)
    with pytest.raises(SourceError, match="Python objects"):
        inspect(path)


@pytest.mark.parametrize(
    "array",
    [np.zeros((4, 4)), np.zeros((2, 2, 2, 2, 2)), np.zeros((0, 3, 4)), np.zeros((2, 3, 4), "c8"),
     np.zeros((2, 3, 4), "u8"), np.zeros((2, 3, 4), "S3"), np.zeros((2, 3, 4), "u1,u2"),
     np.zeros((2, 3, 4), "M8[s]")],
)  # fmt: skip
def test_arrays_that_are_no_scan(tmp_path: Path, array: NDArray[Any]) -> None:
    path = saved(tmp_path, array)
    with pytest.raises(SourceError, match="Expected"):
        inspect(path)


@pytest.mark.parametrize(
    "header",
    [b"", b"\x01\x00", b"\x01\x00\xff\xff{", b"\x09\x00v\x00{}", b"\x01\x00\x06\x00{'a':}",
     b"\x02\x00\xff\xff\xff\xff{", b"\x01\x00\x04\x00((((", b"\x01\x00\x02\x00\x00\x00"],
)  # fmt: skip
def test_headers_that_cannot_be_read(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "scan.npy"
    path.write_bytes(b"\x93NUMPY" + header)
    with pytest.raises(SourceError, match="header"):
        inspect(path)


def test_a_foreign_file_of_that_name(tmp_path: Path) -> None:
    path = tmp_path / "scan.npy"
    path.write_bytes(b"something else")
    assert not sniff(path)
    with pytest.raises(SourceError, match="no format"):
        inspect(path)


def test_a_file_cut_short_while_open(tmp_path: Path) -> None:
    """A mapped page that is gone would end the process: it is not touched."""
    array = np.zeros((4, 4, 128, 128), np.uint16)
    path = saved(tmp_path, array)
    source = open_source(path)
    try:
        assert not source.pattern(0, 0).any()
        time.sleep(0.02)
        with path.open("r+b") as file:
            file.truncate(1000)
        with pytest.raises(SourceChangedError):
            source.pattern(3, 3)
        with pytest.raises(SourceChangedError):
            source.check_unchanged()
    finally:
        source.close()


def test_closing(tmp_path: Path) -> None:
    source = open_source(saved(tmp_path, DATA))
    kept = source.pattern(0, 0)
    source.close()
    source.close()
    with pytest.raises(ReleasedError):
        source.pattern(0, 0)
    with pytest.raises(ReleasedError):
        source.read(0, range(2))
    assert np.array_equal(kept, DATA[0, 0])


def test_impossible_options(tmp_path: Path) -> None:
    path = saved(tmp_path, DATA)
    for options in (OpenOptions(scan_shape=(0, 5)), OpenOptions(scan_shape=(3, 5), flyback=-1)):
        with pytest.raises(UsageError):
            inspect(path, options)
