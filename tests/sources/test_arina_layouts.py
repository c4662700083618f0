"""Every way in which counts lie in a Dectris set, written here and read back equal."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from napari_4dstem.errors import SourceError, UsageError
from napari_4dstem.sources import OpenOptions, inspect, open_source, sniff
from napari_4dstem.sources.arina_links import beside
from tests.sources.arina_files import Writer, compression, counts, write_sidecar, write_virtual

SCAN = (3, 5)
OPTIONS = OpenOptions(scan_shape=SCAN)


@pytest.fixture
def frames() -> NDArray[Any]:
    return counts(np.random.default_rng(3), (15, 22, 26))


def read_all(path: Path, options: OpenOptions = OPTIONS) -> NDArray[Any]:
    source = open_source(path, options)
    try:
        rows = [source.read(r, range(source.scan_shape[1])) for r in range(source.scan_shape[0])]
        return np.stack(rows)
    finally:
        source.close()


@pytest.mark.parametrize(
    "writer",
    [
        Writer(per_file=4),
        Writer(per_file=4, libver="latest"),
        Writer(per_file=1),
        Writer(),
        Writer(filters="lz4"),
        Writer(filters="lz4", block=50),
        Writer(filters="bitshuffle-zstd", block=64),
        Writer(filters="bitshuffle-none"),
        Writer(filters="gzip"),
        Writer(filters="none"),
        Writer(chunk=None),
        Writer(chunk=4, block=64),
        Writer(per_file=6, chunk=4, block=64),
    ],
    ids=lambda w: f"{w.per_file}-{w.filters}-{w.block}-{w.chunk}-{w.libver}",
)
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_layouts(tmp_path: Path, frames: NDArray[Any], writer: Writer, dtype: str) -> None:
    frames = frames.astype(dtype)
    frames[2, 3, 4] = np.iinfo(dtype).max
    master = writer.write(tmp_path, frames)
    assert sniff(master)
    got = read_all(master)
    assert got.dtype == frames.dtype
    assert np.array_equal(got, frames.reshape(*SCAN, 22, 26))


@pytest.mark.parametrize(
    ("stored", "given"),
    [(">u2", "u2"), (">u4", "u4"), ("<i2", "i2"), (">i4", "i4"), (">f4", "f4"), ("f2", "f4"),
     (">f8", "f4"), ("i1", "i1")],
)  # fmt: skip
def test_other_types_are_converted_exactly(
    tmp_path: Path, frames: NDArray[Any], stored: str, given: str
) -> None:
    values = frames.astype(stored)
    values[0, 0, :3] = [1, 0, 100]
    if np.dtype(stored).kind == "f":
        values[0, 0, 3:6] = [0.25, -0.0, np.inf]
    got = read_all(Writer(per_file=6, filters="gzip").write(tmp_path, values))
    assert got.dtype == np.dtype(given)
    assert got.dtype.isnative
    assert got.tobytes() == values.astype(given).tobytes()


@pytest.mark.parametrize("dtype", ["u8", "i8", "c8"])
def test_types_that_do_not_fit_are_refused(
    tmp_path: Path, frames: NDArray[Any], dtype: str
) -> None:
    master = Writer(filters="gzip").write(tmp_path, frames.astype(dtype))
    with pytest.raises(SourceError, match="cannot be kept exactly"):
        inspect(master)


def test_float64_that_is_not_exact_is_refused_at_the_pattern(
    tmp_path: Path, frames: NDArray[Any]
) -> None:
    values = frames.astype("f8")
    values[7, 1, 1] = 0.1
    source = open_source(Writer(filters="gzip").write(tmp_path, values), OPTIONS)
    try:
        assert np.array_equal(source.pattern(1, 1), values[6])
        with pytest.raises(SourceError, match=r"not exact as float32.*frame 7"):
            source.pattern(1, 2)
    finally:
        source.close()


def test_data_files_are_taken_in_the_order_of_their_numbers(
    tmp_path: Path, frames: NDArray[Any]
) -> None:
    """Names without padding: data_10 comes after data_9, whatever HDF5's order is."""
    master = Writer(per_file=1, image_numbers=False).write(tmp_path, frames)
    with h5py.File(master, "a") as file:
        group = file["entry/data"]
        for i in range(1, 16):
            del group[f"data_{i:06d}"]
            (tmp_path / f"scan_data_{i:06d}.h5").rename(tmp_path / f"scan_data_{i}.h5")
            group[f"data_{i}"] = h5py.ExternalLink(f"scan_data_{i}.h5", "/entry/data/data")
    assert np.array_equal(read_all(master), frames.reshape(*SCAN, 22, 26))


def test_a_set_that_was_moved(tmp_path: Path, frames: NDArray[Any]) -> None:
    """The links hold an absolute path of the detector's computer; the files lie beside it."""
    master = Writer(per_file=8).write(tmp_path / "old", frames)
    with h5py.File(master, "a") as file:
        for i, root in ((1, "/mnt/dcu/run 7/"), (2, "D:\\data\\")):
            name = f"data_{i:06d}"
            del file["entry/data"][name]
            file["entry/data"][name] = h5py.ExternalLink(
                f"{root}scan_{name}.h5", "/entry/data/data"
            )
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert np.array_equal(read_all(tmp_path / "new" / master.name), frames.reshape(*SCAN, 22, 26))


def test_links_cannot_leave_the_folder(tmp_path: Path, frames: NDArray[Any]) -> None:
    """A master that names a file elsewhere gets nothing of it."""
    secret = Writer().write(tmp_path / "elsewhere", frames)
    master = Writer(per_file=15).write(tmp_path / "set", frames)
    (tmp_path / "set" / "scan_data_000001.h5").unlink()
    for name in ("../elsewhere/scan_master.h5", str(secret), "sub/../../elsewhere/scan_master.h5"):
        with h5py.File(master, "a") as file:
            del file["entry/data/data_000001"]
            file["entry/data/data_000001"] = h5py.ExternalLink(name, "/entry/data/data")
        # Beside it lies a file of that name: itself, which has no such dataset.
        info = inspect(master)
        assert not info.ready
        assert all(p.parent == tmp_path / "set" for p in (*info.files, *info.missing_files))


def test_where_a_name_is_looked_for(tmp_path: Path) -> None:
    master = tmp_path / "scan_master.h5"
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.h5").touch()
    assert beside(master, "a.h5") == tmp_path / "a.h5"
    assert beside(master, "raw/a.h5") == tmp_path / "raw" / "a.h5"
    assert beside(master, "raw/b.h5") == tmp_path / "b.h5"
    for name in ("/etc/a.h5", "../a.h5", "raw/../../a.h5", "C:\\data\\a.h5", "\\\\server\\x\\a.h5"):
        assert beside(master, name) == tmp_path / "a.h5"
    for name in ("..", ".", "", "/", "a\0.h5"):
        assert beside(master, name).parent == tmp_path


def test_one_virtual_dataset_with_channels(tmp_path: Path, frames: NDArray[Any]) -> None:
    """[images, channels, h, w]: the channels are listed and chosen, never taken for columns."""
    both = np.stack([frames, frames * 3], axis=1)
    master = write_virtual(tmp_path, both, 6, ["threshold_1", "threshold_2"])
    write_sidecar(master, NumPixelsX=5, NumPixelsY=3)
    info = inspect(master)
    assert info.ready
    assert info.channels == ("threshold_1", "threshold_2")
    assert any("2 channels" in p and "the first is used" in p for p in info.problems)
    assert (info.scan_shape, info.frames_found) == (SCAN, 15)
    assert np.array_equal(read_all(master, OpenOptions()), frames.reshape(*SCAN, 22, 26))
    second = OpenOptions(channel=1)
    assert not any("channels" in p for p in inspect(master, second).problems)
    assert np.array_equal(read_all(master, second), 3 * frames.reshape(*SCAN, 22, 26))
    with pytest.raises(UsageError, match="no such channel"):
        inspect(master, OpenOptions(channel=2))


def test_a_virtual_dataset_with_a_missing_file(tmp_path: Path, frames: NDArray[Any]) -> None:
    """HDF5 gives the fill value without a word; here the file is named."""
    master = write_virtual(tmp_path, frames[:, None], 6)
    (tmp_path / "scan_data_000002.h5").unlink()
    info = inspect(master, OPTIONS)
    assert not info.ready
    assert info.reason == "1 data file cannot be read: scan_data_000002.h5: it is missing."
    source = open_source(master, OpenOptions(scan_shape=SCAN, partial=True))
    try:
        assert source.recorded.ravel().tolist() == [True] * 6 + [False] * 6 + [True] * 3
        assert np.array_equal(source.pattern(2, 4), frames[14])
    finally:
        source.close()


def test_a_virtual_dataset_without_channels(tmp_path: Path, frames: NDArray[Any]) -> None:
    master = write_virtual(tmp_path, frames, 6)
    assert np.array_equal(read_all(master), frames.reshape(*SCAN, 22, 26))


def test_a_virtual_dataset_that_reorders_is_refused(tmp_path: Path, frames: NDArray[Any]) -> None:
    master = Writer().write(tmp_path, frames)
    Writer().write(tmp_path, frames, name="other")
    with h5py.File(master, "a") as file:
        del file["entry/data/data"]
        layout = h5py.VirtualLayout((8, 22, 26), frames.dtype)
        origin = h5py.VirtualSource("other_master.h5", "/entry/data/data", shape=(15, 22, 26))
        layout[...] = origin[::2]
        file["entry/data"].create_virtual_dataset("data", layout)
    with pytest.raises(SourceError, match="in a way that is not supported"):
        inspect(master)


def test_channels_inside_the_master(tmp_path: Path, frames: NDArray[Any]) -> None:
    both = np.stack([frames, frames * 2, frames + 1], axis=1)
    master = Writer(block=64).write(tmp_path, both)
    info = inspect(master, OPTIONS)
    assert info.channels == ("channel 1", "channel 2", "channel 3")
    chosen = OpenOptions(scan_shape=SCAN, channel=2)
    assert np.array_equal(read_all(master, chosen), (frames + 1).reshape(*SCAN, 22, 26))


def test_a_4d_dataset_with_scan_axes(tmp_path: Path, frames: NDArray[Any]) -> None:
    master = Writer(ordered=15).write(tmp_path, frames.reshape(*SCAN, 22, 26))
    info = inspect(master)
    assert (info.scan_shape, info.scan_shape_origin) == (SCAN, "4D dataset")
    assert info.channels == ()
    assert np.array_equal(read_all(master, OpenOptions()), frames.reshape(*SCAN, 22, 26))


def test_another_dataset_of_the_file(tmp_path: Path, frames: NDArray[Any]) -> None:
    master = Writer().write(tmp_path, frames)
    with h5py.File(master, "a") as file:
        file["entry/corrected"] = frames[::-1]
    options = OpenOptions(scan_shape=SCAN, dataset="/entry/corrected")
    assert np.array_equal(read_all(master, options), frames[::-1].reshape(*SCAN, 22, 26))
    with pytest.raises(UsageError, match="no such dataset"):
        inspect(master, OpenOptions(dataset="/entry/nothing"))


def test_a_data_file_opened_on_its_own(tmp_path: Path, frames: NDArray[Any]) -> None:
    Writer(per_file=6).write(tmp_path, frames)
    path = tmp_path / "scan_data_000002.h5"
    info = inspect(path)
    assert not info.ready
    assert info.scan_shape_candidates == ((2, 3), (3, 2), (1, 6), (6, 1))
    assert any("scan_master.h5" in p for p in info.problems)
    got = read_all(path, OpenOptions(scan_shape=(2, 3)))
    assert np.array_equal(got, frames[6:12].reshape(2, 3, 22, 26))


@pytest.mark.parametrize("offset", [-4, 0, 3])
@pytest.mark.parametrize("flyback", [0, 2])
def test_frame_offset_and_flyback(tmp_path: Path, offset: int, flyback: int) -> None:
    frames = counts(np.random.default_rng(5), (40, 9, 7))
    master = Writer(per_file=7).write(tmp_path, frames)
    rows, columns = 3, 6
    options = OpenOptions((rows, columns), frame_offset=offset, flyback=flyback)
    source = open_source(master, options)
    try:
        for row in range(rows):
            for column in range(columns):
                frame = offset + row * (columns + flyback) + column
                assert source.recorded[row, column] == (frame >= 0)
                if frame >= 0:
                    assert np.array_equal(source.pattern(row, column), frames[frame])
    finally:
        source.close()


@pytest.mark.parametrize("chunks", [(1, 7, 26), (2, 8, 5), (15, 3, 4), (4, 22, 26)])
def test_chunks_that_are_no_frames(
    tmp_path: Path, frames: NDArray[Any], chunks: tuple[int, int, int]
) -> None:
    path = Writer().write(tmp_path, frames)
    with h5py.File(path, "a") as file:
        del file["entry/data/data"]
        settings = compression("bitshuffle", frames.dtype, 16)
        file.create_dataset("entry/data/data", data=frames, chunks=chunks, **settings)
    assert np.array_equal(read_all(path), frames.reshape(*SCAN, 22, 26))


def test_a_user_block_in_front_of_the_file(tmp_path: Path, frames: NDArray[Any]) -> None:
    """The addresses of chunks count from behind the user block."""
    path = tmp_path / "scan_master.h5"
    with h5py.File(path, "w", userblock_size=1024) as file:
        Writer(block=64).dataset(file.create_group("entry/data"), frames, 0)
    assert sniff(path)
    assert np.array_equal(read_all(path), frames.reshape(*SCAN, 22, 26))


def test_a_file_that_is_open_elsewhere_in_this_process(
    tmp_path: Path, frames: NDArray[Any]
) -> None:
    master = Writer(per_file=6).write(tmp_path, frames)
    for locking in (True, False):
        with h5py.File(master, "r", locking=locking):
            assert np.array_equal(read_all(master), frames.reshape(*SCAN, 22, 26))


def test_many_data_files_stay_few_open_files(tmp_path: Path) -> None:
    frames = counts(np.random.default_rng(6), (120, 5, 4))
    master = Writer(per_file=1).write(tmp_path, frames)
    source = open_source(master, OpenOptions(scan_shape=(10, 12)))
    try:
        for row in range(10):
            assert np.array_equal(source.read(row, range(12)), frames[row * 12 : row * 12 + 12])
        assert len(h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)) <= 20
    finally:
        source.close()
