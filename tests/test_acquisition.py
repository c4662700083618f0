"""`Acquisition`: what users of the library meet, on real files."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

import napari_4dstem as n4
from napari_4dstem.container import open_container
from napari_4dstem.errors import MemoryRefused, NotReadyError, UsageError
from napari_4dstem.ledger import ledger
from tests.acquisitions import SHAPE, Truth, counts, save, wait_for
from tests.sources.arina_files import Writer
from tests.sources.arina_files import counts as frames_of
from tests.sources.test_damage import chunks_of, patch

EVERYTHING = n4.Rectangle(0, 9, 0, 11)


def check(acquisition: n4.Acquisition, data: NDArray[Any], truth: Truth) -> None:
    """Compare every kind of product with dense NumPy, positions without data included."""
    shape = data.shape[2:]
    assert np.array_equal(acquisition.valid, truth.valid)
    assert np.array_equal(acquisition[:, :][truth.valid], data[truth.valid])
    assert not acquisition[:, :][~truth.valid].any()
    circle = n4.Circle((shape[0] / 2, shape[1] / 3), shape[0] / 4)
    inside = circle.mask(shape)
    assert np.array_equal(acquisition.image(circle), truth.image(inside))
    assert np.array_equal(acquisition.overloads(circle), truth.overloads(inside))
    for found, expected in zip(
        acquisition.center_of_mass(circle), truth.center(inside), strict=True
    ):
        assert np.array_equal(found, expected, equal_nan=True)
    everywhere = np.ones(data.shape[:2], bool)
    for how in ("sum", "mean", "max"):
        found = acquisition.pattern(reduce=how)  # type: ignore[arg-type]
        assert np.array_equal(found, truth.pattern(everywhere, how), equal_nan=True)


# ---- kinds of files


@pytest.mark.parametrize(
    "dtype", ["?", "u1", ">u2", "<u4", "i1", ">i2", "i4", "f2", ">f4", "f8"]
)  # fmt: skip
def test_numpy_files_of_every_kind_come_back_exactly(tmp_path: Path, dtype: str) -> None:
    data = counts((4, 21, 9, 11), seed=5).clip(0, 100).astype(dtype)
    path = save(tmp_path, data)
    with n4.open(path) as acquisition:
        assert acquisition.shape == (4, 21, 9, 11)
        assert acquisition.dtype.isnative
        assert np.array_equal(acquisition[:, :], data)
        acquisition.encode(wait=True)
        assert np.array_equal(acquisition[:, :], data)
        acquisition.save(tmp_path / "scan.ans4d")
        kept = acquisition.dtype
    with n4.open(tmp_path / "scan.ans4d") as reopened:
        assert reopened.dtype == kept
        assert reopened.info is None
        assert np.array_equal(reopened[:, :], data)


@pytest.mark.parametrize("shape", [(1, 50, 9, 11), (50, 1, 9, 11), (1, 1, 9, 11), (3, 5, 1, 1)])
def test_narrow_scans_and_cameras(tmp_path: Path, shape: tuple[int, ...]) -> None:
    data = counts((*shape[:2], 9, 11))[:, :, : shape[2], : shape[3]]
    truth = Truth(data, np.zeros(shape[2:], bool))
    with n4.open(save(tmp_path, data)) as acquisition:
        check(acquisition, data, truth)
        acquisition.encode(wait=True)
        check(acquisition, data, truth)


def test_a_partial_scan_has_holes_and_no_invented_zeros(tmp_path: Path) -> None:
    data = counts()
    path = save(tmp_path, data.reshape(-1, 9, 11)[:1234])
    with pytest.raises(NotReadyError):
        n4.open(path, scan_shape=SHAPE[:2])
    valid = np.arange(1400).reshape(SHAPE[:2]) < 1234
    truth = Truth(data, np.zeros(SHAPE[2:], bool), valid=valid)
    with n4.open(path, scan_shape=SHAPE[:2], partial=True) as acquisition:
        assert acquisition.logical_bytes == 1234 * 99 * 2
        check(acquisition, data, truth)
        acquisition.encode(wait=True)
        check(acquisition, data, truth)
        assert acquisition.progress.total == 1234
        acquisition.save(tmp_path / "scan.ans4d")
    with n4.open(tmp_path / "scan.ans4d") as reopened:
        check(reopened, data, truth)


def test_frame_offset_and_flyback(tmp_path: Path) -> None:
    frames = counts((1, 2 + 4 * 7, 9, 11))[0]
    options = {"scan_shape": (4, 5), "frame_offset": 2, "flyback": 2}
    with n4.load(save(tmp_path, frames), **options) as acquisition:
        assert np.array_equal(acquisition[:, :], frames[2:].reshape(4, 7, 9, 11)[:, :5])


# ---- masks and overloads


@pytest.fixture
def arina(tmp_path: Path) -> tuple[Path, NDArray[Any], NDArray[np.bool_]]:
    """An Arina scan with a mask and overloads: (master, data, mask)."""
    data = frames_of(np.random.default_rng(4), (6, 7, 30, 22))
    data[2, 3, 15, 7] = data[2, 3, 1, 1] = data[5, 6, 14, 8] = 65535
    bits = np.zeros((30, 22), np.uint32)
    bits[1, 1], bits[15, 7], bits[20, 3] = 1, 1 << 31, 8  # bit 31 is no reason to mask
    master = Writer(per_file=16).write(tmp_path, data.reshape(-1, 30, 22), mask=bits)
    return master, data, (bits & 0xFFFF) > 0


def test_the_files_mask_an_array_or_raw_values(
    arina: tuple[Path, NDArray[Any], NDArray[np.bool_]],
) -> None:
    master, data, stored = arina
    other = np.zeros((30, 22), bool)
    other[10:20, 5:9] = True
    for choice, masked in (("file", stored), (other, other), (None, None)):
        with n4.open(master, scan_shape=(6, 7), mask=choice) as acquisition:  # type: ignore[arg-type]
            truth = Truth(data, masked, 65535)
            assert (acquisition.mask is None) == (masked is None)
            check(acquisition, data, truth)
            acquisition.encode(wait=True)
            check(acquisition, data, truth)
            mean, top = acquisition.mean_pattern(), acquisition.max_pattern()
            everywhere = np.ones((6, 7), bool)
            assert np.array_equal(mean, truth.pattern(everywhere, "mean"), equal_nan=True)
            assert np.array_equal(top, truth.pattern(everywhere, "max"))


def test_setting_the_mask(arina: tuple[Path, NDArray[Any], NDArray[np.bool_]]) -> None:
    master, _, stored = arina
    with n4.open(master, scan_shape=(6, 7)) as acquisition:
        versions: list[int] = []
        acquisition.events.mask.connect(versions.append)
        before = acquisition.mask_version
        other = ~stored
        acquisition.mask = other
        acquisition.mask = None
        assert versions == [before + 1, before + 2]
        acquisition.mask = other
        other[...] = False  # the acquisition keeps its own copy
        assert acquisition.mask is not None
        assert np.array_equal(acquisition.mask, ~stored)
        with pytest.raises(ValueError, match="read-only"):
            acquisition.mask[0, 0] = True
        with pytest.raises(UsageError, match="does not fit the camera"):
            acquisition.mask = np.zeros((22, 30), bool)


def test_a_mask_that_does_not_fit_leaves_no_file_open(
    arina: tuple[Path, NDArray[Any], NDArray[np.bool_]],
) -> None:
    with pytest.raises(UsageError, match="does not fit the camera"):
        n4.open(arina[0], scan_shape=(6, 7), mask=np.zeros((3, 3), bool))
    gc.collect()
    assert not h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)


# ---- damage


def test_damaged_frames_are_missing_in_every_product(shared_data: Path, tmp_path: Path) -> None:
    for name in ("_master", "", "_data_000001", "_data_000002"):
        file = f"var_8x12_roi64x96_u8{name}.h5"
        shutil.copyfile(shared_data / "sim_variants" / file, tmp_path / file)
    master = tmp_path / "var_8x12_roi64x96_u8_master.h5"
    with n4.open(master) as intact:
        data, masked = intact[:, :], intact.mask
    second = tmp_path / "var_8x12_roi64x96_u8_data_000002.h5"
    lost = [(4, 3), (7, 11)]  # frames 1 and 45 of the second file, which begins at 50
    chunks = chunks_of(second)
    for row, column in lost:
        patch(second, chunks[row * 12 + column - 50].byte_offset + 12, b"\x7f\xff\xff\xff")
    valid = np.ones((8, 12), bool)
    valid[tuple(np.transpose(lost))] = False
    truth = Truth(data, masked, 255, valid)
    with n4.open(master) as acquisition:
        assert not acquisition.pattern_at(7, 11).any()
        assert not acquisition.valid[7, 11]
        acquisition.image(EVERYTHING)  # finds the other
        check(acquisition, data, truth)
        acquisition.encode(wait=True)
        check(acquisition, data, truth)
        assert any("2 damaged pattern(s)" in problem for problem in acquisition.problems)
        acquisition.encode(wait=True)
        assert sum("damaged" in problem for problem in acquisition.problems) == 1
        acquisition.save(tmp_path / "scan.ans4d")
    with n4.open(tmp_path / "scan.ans4d") as reopened:
        check(reopened, data, truth)
        assert any("2 damaged pattern(s)" in problem for problem in reopened.problems)


def test_a_damaged_chunk_takes_its_block_out_of_every_product(tmp_path: Path) -> None:
    data = counts()
    path = tmp_path / "scan.ans4d"
    with n4.load(save(tmp_path, data)) as acquisition:
        acquisition.save(path)
    scan = open_container(path).scan
    tile = scan.layout.n_tiles - 1  # of the camera's corner
    damaged = scan.chunk(2, tile).tobytes()
    here = scan.layout.block_positions(2)
    del scan
    stored = path.read_bytes()
    assert stored.count(damaged) == 1
    place = stored.index(damaged) + len(damaged) // 2
    path.write_bytes(stored[:place] + bytes([stored[place] ^ 4]) + stored[place + 1 :])
    valid = np.ones(SHAPE[:2], bool)
    valid.reshape(-1)[here] = False
    truth = Truth(data, np.zeros(SHAPE[2:], bool), valid=valid)
    with n4.open(path) as acquisition:
        # Sums from the index need no chunk, and are right.
        assert np.array_equal(acquisition.image(EVERYTHING), data.sum(axis=(2, 3)))
        assert acquisition.valid.all()
        # From when the damage is found, the positions are missing, in sums from the index too.
        assert not acquisition[0, 69].any()
        assert np.array_equal(acquisition.image(EVERYTHING), truth.image(np.ones((9, 11), bool)))
        check(acquisition, data, truth)
        (preview,) = acquisition.preview([EVERYTHING])
        assert np.array_equal(preview.known, valid)
        # In RAM every chunk is checked at once.
        acquisition.encode(wait=True)
        assert acquisition.place == "RAM"
        assert np.array_equal(acquisition.image(EVERYTHING), truth.image(np.ones((9, 11), bool)))
        check(acquisition, data, truth)


# ---- the simulated scan


def test_the_disk_and_the_dark_field_of_the_simulated_scan(shared_data: Path) -> None:
    with n4.open(shared_data / "sim_sto" / "sim_sto_master.h5") as acquisition:
        for _ in ("source", "encoded"):
            disk = acquisition.find_disk()
            assert disk.certain
            assert disk.center == pytest.approx((51, 43), abs=0.2)
            assert disk.radius == pytest.approx(17.45, abs=0.3)
            image = acquisition.image(n4.presets(disk, acquisition.detector_shape)["ADF"])
            assert np.unravel_index(image.argmax(), image.shape) == (8, 24)
            acquisition.encode(wait=True)


def test_mean_and_maximum_of_what_is_known(tmp_path: Path) -> None:
    data = counts()
    with n4.open(save(tmp_path, data)) as acquisition:
        assert acquisition.mean_pattern() is None
        assert acquisition.max_pattern() is None
        acquisition.encode(wait=True)
        mean, top = acquisition.mean_pattern(), acquisition.max_pattern()
        assert mean is not None
        assert np.allclose(mean, data.mean(axis=(0, 1)), rtol=1e-14)
        assert np.array_equal(top, data.max(axis=(0, 1)))
        masked = np.zeros(SHAPE[2:], bool)
        masked[3, 4] = True
        acquisition.mask = masked
        mean, top = acquisition.mean_pattern(), acquisition.max_pattern()
        assert mean is not None
        assert top is not None
        assert np.array_equal(np.isnan(mean), masked)
        assert top[3, 4] == 0


# ---- reading into tensors, memory


def test_reading_a_box(tmp_path: Path) -> None:
    data = counts()
    with n4.open(save(tmp_path, data)) as acquisition:
        for _ in range(2):
            found = acquisition.read((3, 19, 60, 70), (2, 9, 0, 4))
            assert found.device.type == "cpu"
            assert np.array_equal(found.numpy(), data[3:19, 60:70, 2:9, 0:4])
            assert acquisition.read((3, 4, 5, 6)).shape == (1, 1, 9, 11)
            assert acquisition.read((3, 3, 5, 6)).shape == (0, 1, 9, 11)
            for box in ((0, 21, 0, 5), (-1, 2, 0, 5), (5, 3, 0, 5)):
                with pytest.raises(UsageError, match="on the scan"):
                    acquisition.read(box)
            with pytest.raises(UsageError, match="on the camera"):
                acquisition.read((0, 1, 0, 1), (0, 9, 0, 12))
            acquisition.encode(wait=True)


def test_what_does_not_fit_is_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    """A file with a hole in place of 8 TiB of counts: to read it whole cannot be tried."""
    shape = (2048, 2048, 1024, 1024)
    path = tmp_path / "huge.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(
            file, {"descr": "<u2", "fortran_order": False, "shape": shape}
        )
        try:
            file.truncate(file.tell() + 2 * int(np.prod(shape, dtype=object)))
        except OSError as error:
            pytest.skip(f"this file system has no such large files: {error}")
    with n4.open(path) as acquisition:
        before = ledger.total()
        began = time.monotonic()
        with pytest.raises(MemoryRefused, match=r"does not fit in RAM.*TiB needed"):
            acquisition.read((0, 2048, 0, 2048))
        with pytest.raises(MemoryRefused):
            acquisition[...]
        assert time.monotonic() - began < 20
        assert ledger.total() == before
        assert acquisition[2047, 2047].shape == (1024, 1024)


def test_the_memory_report_has_a_row_for_it(tmp_path: Path) -> None:
    with n4.load(save(tmp_path, counts(), "gold")) as acquisition:
        (row,) = [row for row in n4.memory().rows if row.name == "gold"]
        assert row.place == "RAM"
        assert "gold" in str(n4.memory())
        assert repr(acquisition).startswith("<Acquisition gold: 20 x 70 x 9 x 11 uint16, encoded")


def test_progress_of_load(tmp_path: Path) -> None:
    path = save(tmp_path, counts())
    steps: list[tuple[int, int]] = []
    with n4.load(path, progress=lambda *step: steps.append(step)):
        assert steps[-1] == (1400, 1400)
        assert steps == sorted(steps)


def test_an_acquisition_that_is_dropped_stops_encoding(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 60_000, (30, 40, 64, 80)).astype("u2")
    acquisition = n4.open(save(tmp_path, data))
    owner, life = acquisition.owner, acquisition._life
    acquisition.encode()
    wait_for(lambda: life.backing.state == "partial")
    del acquisition
    gc.collect()
    wait_for(lambda: not life.progress.running)
    wait_for(lambda: ledger.total(owner=owner) == 0)
    assert life.backing.state == "source"
    life.release()


# ---- large scans, and the end of the program

SCRIPT = """
import os, sys, time
import napari_4dstem as n4
from napari_4dstem.ledger import ledger

def anonymous():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024

path, what = sys.argv[1:]
acquisition = n4.open(path)
acquisition.encode()
while acquisition.progress.done < 600:
    time.sleep(0.002)
    assert acquisition.state != "encoded"
if what == "cancel":
    assert ledger.total() > 0
    began = time.monotonic()
    acquisition.cancel()
    print(time.monotonic() - began, ledger.total(), acquisition.state)
    print(acquisition.image(n4.Circle((60, 60), 3)).sum())
elif what == "release":
    acquisition.encode(wait=True)
    assert acquisition.encoded_bytes >= 64 << 20
    acquisition.image(n4.Circle((60, 60), 3))
    before = anonymous()
    freed = acquisition.release()
    print((before - anonymous()) / freed, ledger.total())
print("end", time.time(), flush=True)
"""


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """75 MiB of counts that cannot be made smaller."""
    data = np.random.default_rng(0).integers(0, 60_000, (48, 40, 128, 160), dtype=np.uint16)
    return save(tmp_path_factory.mktemp("noise"), data)


def run_script(path: Path, what: str) -> tuple[list[str], float]:
    """Run SCRIPT; return what it printed, and how long the process lived after its last line."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), what],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    ended = time.time()
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    *lines, last = result.stdout.splitlines()
    return lines, ended - float(last.split()[1])


def test_a_script_ends_while_a_scan_is_being_encoded(noise: Path) -> None:
    _, took = run_script(noise, "leave")
    assert took < 2


def test_cancelling_takes_no_time_and_gives_everything_back(noise: Path) -> None:
    (first, image), _ = run_script(noise, "cancel")
    took, held, state = first.split()
    assert float(took) < 0.5
    assert int(held) == 0
    assert state == "source"
    data = np.load(noise, mmap_mode="r")
    inside = n4.Circle((60, 60), 3).mask((128, 160))
    assert int(image) == int(data[:, :, inside].sum(dtype=np.int64))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RssAnon is Linux's")
def test_releasing_gives_the_memory_back_to_the_system(noise: Path) -> None:
    ((line),), _ = run_script(noise, "release")
    share, held = line.split()
    assert float(share) >= 0.95
    assert int(held) == 0


def test_errors_of_reading_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(n4.errors.SourceError, match=r"nothing\.npy"):
        n4.open(tmp_path / "nothing.npy")
    (tmp_path / "text.npy").write_text("no numbers")
    with pytest.raises(n4.errors.SourceError, match=r"text\.npy"):
        n4.open(tmp_path / "text.npy")
    with n4.open(save(tmp_path, counts())) as acquisition:
        for position in ((-1, 0), (20, 0), (0, 70)):
            with pytest.raises(IndexError, match="outside 20 x 70"):
                acquisition.pattern_at(*position)
