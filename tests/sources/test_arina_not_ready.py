"""What cannot be opened as it stands says why and what to do; what exists can be opened."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from napari_4dstem.errors import NotReadyError, SourceChangedError, SourceError
from napari_4dstem.sources import OpenOptions, inspect, open_source, sniff
from tests.sources.arina_files import Writer, counts, write_sidecar

FRAMES = counts(np.random.default_rng(8), (24, 13, 11))
PARTIAL = OpenOptions(scan_shape=(4, 6), partial=True)


@pytest.fixture
def master(tmp_path: Path) -> Path:
    """A scan of 4 x 6 in four data files of 7, 7, 7 and 3 frames, with a sidecar."""
    path = Writer(per_file=7).write(tmp_path, FRAMES)
    write_sidecar(path, NumPixelsX=6, NumPixelsY=4)
    return path


def data_file(master: Path, number: int) -> Path:
    return master.with_name(f"scan_data_{number:06d}.h5")


def recorded_frames(path: Path, options: OpenOptions = PARTIAL) -> list[int]:
    """Open, check that every recorded pattern is the right one, return their frame numbers."""
    source = open_source(path, options)
    try:
        found = []
        for row, column in np.argwhere(source.recorded).tolist():
            frame = row * source.scan_shape[1] + column
            assert np.array_equal(source.pattern(row, column), FRAMES[frame])
            found.append(frame)
        return found
    finally:
        source.close()


@pytest.mark.parametrize("numbers", [(1,), (2,), (4,), (1, 2), (2, 4), (1, 2, 3)])
@pytest.mark.parametrize("image_numbers", [True, False])
def test_missing_data_files(tmp_path: Path, numbers: tuple[int, ...], image_numbers: bool) -> None:
    path = Writer(per_file=7, image_numbers=image_numbers).write(tmp_path, FRAMES)
    write_sidecar(path, NumPixelsX=6, NumPixelsY=4)
    for number in numbers:
        data_file(path, number).unlink()
    info = inspect(path)
    assert not info.ready
    assert f"scan_data_{numbers[0]:06d}.h5: it is missing" in info.reason
    assert info.missing_files == tuple(data_file(path, n) for n in numbers)
    assert info.scan_shape == (4, 6)
    with pytest.raises(NotReadyError, match="is missing"):
        open_source(path)
    there = [f for f in range(24) if f // 7 + 1 not in numbers]
    if not image_numbers and numbers == (1, 2, 3):
        # Only the last, shorter file is left: nothing says where its frames belong.
        info = inspect(path, PARTIAL)
        assert any("not known" in p for p in info.problems)
        assert not info.ready
        assert not info.partial_possible
    else:
        assert "partial scan" in info.action
        assert info.partial_possible
        assert recorded_frames(path) == there


def test_all_data_files_missing(master: Path) -> None:
    for number in range(1, 5):
        data_file(master, number).unlink()
    info = inspect(master)
    assert not info.ready
    assert "4 data files cannot be read" in info.reason
    assert (info.detector_shape, info.dtype) == ((13, 11), np.dtype("u2"))
    assert not info.partial_possible
    assert "partial" not in info.action
    with pytest.raises(NotReadyError):
        open_source(master, PARTIAL)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_an_empty_data_file(master: Path, number: int) -> None:
    data_file(master, number).write_bytes(b"")
    info = inspect(master)
    assert not info.ready
    assert f"scan_data_{number:06d}.h5: it is empty (0 bytes)" in info.reason
    assert recorded_frames(master) == [f for f in range(24) if f // 7 + 1 != number]


def test_a_truncated_data_file(master: Path) -> None:
    path = data_file(master, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    info = inspect(master)
    assert not info.ready
    assert f"truncated at {len(whole) // 2} of {len(whole)} bytes" in info.reason
    assert "was the copy complete?" in info.reason
    assert recorded_frames(master) == [*range(7), *range(14, 24)]


def test_a_data_file_that_is_something_else(master: Path) -> None:
    data_file(master, 3).write_bytes(b"<html>404 not found</html>" * 20)
    assert "this is no HDF5 file" in inspect(master).reason
    with h5py.File(data_file(master, 3), "w") as file:
        file["other"] = 1
    assert "the file holds no counts" in inspect(master).reason
    assert recorded_frames(master) == [*range(14), *range(21, 24)]


@pytest.mark.parametrize(
    "frames", [np.zeros((7, 11, 13), np.uint16), np.zeros((7, 13, 11), np.uint8)]
)
def test_a_data_file_of_another_acquisition(master: Path, frames: Any) -> None:
    Writer().write(master.parent, frames, name="other")
    data_file(master, 2).unlink()
    (master.parent / "other_master.h5").rename(data_file(master, 2))
    info = inspect(master)
    assert not info.ready
    assert f"instead of 13 x 11 {FRAMES.dtype}" in info.reason
    assert 7 not in recorded_frames(master)


def test_more_frames_than_positions(master: Path) -> None:
    info = inspect(master, OpenOptions(scan_shape=(4, 5)))
    assert info.ready
    assert any("24 frames, more than a scan of 4 x 5 needs" in p for p in info.problems)


def test_extra_frames_against_the_sidecar(master: Path) -> None:
    write_sidecar(master, NumPixelsX=5, NumPixelsY=4)
    info = inspect(master)
    assert not info.ready
    assert "4 x 5 = 20 positions, but there are 24 frames" in info.reason
    assert "flyback?" in info.reason
    assert inspect(master, OpenOptions(flyback=1)).scan_shape == (4, 5)
    assert inspect(master, OpenOptions(frame_offset=4)).scan_shape == (4, 5)


def test_frames_that_were_never_written(tmp_path: Path) -> None:
    """The dataset was made larger before the frames came: HDF5 would give its fill value."""
    path = Writer().write(tmp_path, FRAMES[:20])
    with h5py.File(path, "a") as file:
        file["entry/data/data"].resize(24, axis=0)
        file["entry/instrument/detector/detectorSpecific/ntrigger"][...] = 24
    info = inspect(path, OpenOptions(scan_shape=(4, 6)))
    assert not info.ready
    assert info.frames_found == 20
    assert info.reason == "20 of 24 scan positions were recorded."
    assert recorded_frames(path) == list(range(20))


def test_frames_never_written_without_chunks(tmp_path: Path) -> None:
    path = tmp_path / "scan_master.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("entry/data/data", (24, 13, 11), "u2")
    info = inspect(path, OpenOptions(scan_shape=(4, 6)))
    assert not info.ready
    assert info.frames_found == 0


def test_a_master_that_is_cut_short(master: Path) -> None:
    whole = master.read_bytes()
    master.write_bytes(whole[:-100])
    assert sniff(master)
    with pytest.raises(SourceError, match=f"truncated at {len(whole) - 100} of {len(whole)} bytes"):
        inspect(master)


def test_an_empty_master(master: Path) -> None:
    master.write_bytes(b"")
    assert sniff(master)
    with pytest.raises(NotReadyError, match="empty"):
        inspect(master)


def test_a_master_that_is_being_written(master: Path) -> None:
    code = (
        "import h5py, sys\n"
        f"file = h5py.File({str(master)!r}, 'a')\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(NotReadyError, match=r"still being written.*Wait"):
            inspect(master)
    finally:
        writer.communicate()
    assert inspect(master).ready


def test_a_data_file_whose_writer_crashed(master: Path) -> None:
    """HDF5 marks such a file as still open for writing."""
    path = data_file(master, 2)
    path.unlink()
    code = (
        "import h5py, numpy, os\n"
        f"file = h5py.File({str(path)!r}, 'w', libver='v110')\n"
        "file.create_dataset('entry/data/data', (7, 13, 11), 'u2', chunks=(1, 13, 11))\n"
        "file.swmr_mode = True\n"
        "file.flush()\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    info = inspect(master)
    assert not info.ready
    assert "scan_data_000002.h5: the file is still being written" in info.reason
    assert recorded_frames(master) == [*range(7), *range(14, 24)]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        inspect(tmp_path / "missing_master.h5")
    with pytest.raises(SourceError, match=r"folder.*NAME_master"):
        inspect(tmp_path)
    foreign = tmp_path / "foreign_master.h5"
    with h5py.File(foreign, "w") as file:
        file["entry/data/x"] = np.zeros(3)
    assert not sniff(foreign)
    for name in ("foreign_master.h5", "text.txt"):
        (tmp_path / "text.txt").write_text("no counts here")
        with pytest.raises(SourceError, match=r"no format.*Expected.*master"):
            inspect(tmp_path / name)


def test_a_dectris_file_without_frames(master: Path) -> None:
    with h5py.File(master, "a") as file:
        del file["entry/data"]
    assert sniff(master)
    with pytest.raises(SourceError, match="holds no detector frames"):
        inspect(master)


@pytest.mark.parametrize("number", [0, 2])
def test_a_file_that_changes_while_open(master: Path, number: int) -> None:
    path = data_file(master, number) if number else master
    source = open_source(master)
    try:
        source.check_unchanged()
        time.sleep(0.02)
        path.write_bytes(path.read_bytes())
        with pytest.raises(SourceChangedError, match="changed while it was open"):
            source.check_unchanged()
        path.unlink()
        with pytest.raises(SourceChangedError, match="disappeared"):
            source.check_unchanged()
    finally:
        source.close()


def test_a_changed_file_is_not_read(master: Path) -> None:
    source = open_source(master)
    try:
        time.sleep(0.02)
        path = data_file(master, 3)
        path.write_bytes(path.read_bytes())
        with pytest.raises(SourceChangedError):
            source.read(3, range(6))
        assert np.array_equal(source.pattern(0, 0), FRAMES[0])
    finally:
        source.close()


def test_positions_outside_the_scan(master: Path) -> None:
    source = open_source(master)
    try:
        for row, column in ((4, 0), (-1, 0), (0, 6), (0, -1)):
            with pytest.raises(IndexError, match="outside"):
                source.pattern(row, column)
        for columns in (range(7), range(0, 4, 2), range(3, 0, -1)):
            with pytest.raises(IndexError, match="outside"):
                source.read(0, columns)
    finally:
        source.close()
