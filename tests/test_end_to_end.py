"""From a detector's file to the encoded scan and back, judged by answers from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

import napari_4dstem as n4
from napari_4dstem.cli import main
from napari_4dstem.errors import SaveError
from tests.end_to_end_cases import CASES, Case, check_patterns
from tests.plugin.scans import disk_scan, save
from tests.test_architecture import HEAVY, run_without

SIM_STO = CASES[0]


def recorded(acquisition: n4.Acquisition) -> NDArray[Any]:
    """Return all recorded patterns in the order of the scan."""
    return acquisition[:, :][acquisition.valid]


def dense(
    patterns: NDArray[Any], detector: n4.detectors.Shape, masked: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Sum with NumPy: no mask means raw values, else masked and overloaded pixels are left out."""
    inside = detector.mask(patterns.shape[-2:])
    values = patterns.astype(np.int64)
    if masked is not None:
        inside = inside & ~masked
        values[patterns == np.iinfo(patterns.dtype).max] = 0
    return values[..., inside].sum(axis=-1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_counts_are_those_of_the_manifest_at_every_stage(
    case: Case, shared_data: Path, tmp_path: Path
) -> None:
    answer = case.answer(shared_data)
    with n4.open(shared_data / case.file, **case.options) as acquisition:
        assert acquisition.scan_shape == case.scan_shape
        assert acquisition.state == "source"
        valid = acquisition.valid
        check_patterns(recorded(acquisition), case, answer)
        if answer.get("scan_shape"):
            assert acquisition.scan_shape == tuple(answer["scan_shape"])

        acquisition.encode(wait=True)
        assert acquisition.state == "encoded"
        assert np.array_equal(acquisition.valid, valid)
        check_patterns(recorded(acquisition), case, answer)

        acquisition.save(tmp_path / "scan.ans4d")
    with n4.open(tmp_path / "scan.ans4d") as reopened:
        assert np.array_equal(reopened.valid, valid)
        check_patterns(recorded(reopened), case, answer)
        # Positions that were never recorded stay so: no zeros are invented in sums.
        if not valid.all():
            total = reopened.image(n4.Rectangle(0, answer["shape"][-2], 0, answer["shape"][-1]))
            assert not total[~valid].any()


@pytest.fixture(scope="module")
def oracle(shared_data: Path) -> dict[str, NDArray[np.int64]]:
    """Sums of the simulated scan, made by an independent program."""
    with np.load(shared_data / "sim_sto" / "sim_sto_expected.npz") as stored:
        return dict(stored)


def check_products(acquisition: n4.Acquisition, oracle: dict[str, NDArray[np.int64]]) -> None:
    # The oracle's dark field is inner <= d < outer, which no annulus of ours is.
    rows, columns = np.mgrid[:96, :96]
    squared = (rows - 51) ** 2 + (columns - 43) ** 2
    adf = n4.Mask((squared >= 24**2) & (squared < 44**2))
    bf, everything = n4.Circle((51, 43), 17.5), n4.Rectangle(0, 96, 0, 96)
    images = acquisition.images([bf, adf, everything])
    assert all(image.dtype == np.int64 for image in images)
    for image, name in zip(images, ("bf", "adf", "total"), strict=True):
        assert np.array_equal(image, oracle[name])
        assert np.unravel_index(image.argmax(), (32, 32)) != (0, 0)
    assert np.unravel_index(images[1].argmax(), (32, 32)) == (8, 24)
    row, column = acquisition.center_of_mass()
    # The moments divided once: the very same floating-point numbers.
    assert np.array_equal(row, oracle["com_row_num"] / oracle["total"])
    assert np.array_equal(column, oracle["com_col_num"] / oracle["total"])
    assert np.array_equal(acquisition.pattern(), oracle["dp_sum"])
    assert acquisition.overloads().sum() == 3


def test_products_of_the_simulated_scan_are_exact(
    shared_data: Path, tmp_path: Path, oracle: dict[str, NDArray[np.int64]]
) -> None:
    with n4.open(shared_data / SIM_STO.file) as acquisition:
        check_products(acquisition, oracle)
        acquisition.encode(wait=True)
        check_products(acquisition, oracle)
        acquisition.save(tmp_path / "scan.ans4d")
    with n4.open(tmp_path / "scan.ans4d") as reopened:
        check_products(reopened, oracle)
    parts = sorted((shared_data / "sim_sto").glob("sim_sto_data_*.h5"))
    assert len(parts) == 3
    assert (tmp_path / "scan.ans4d").stat().st_size < sum(p.stat().st_size for p in parts)


def command(*words: str | Path) -> int:
    """Run a command of ``napari-4dstem`` in this process; return its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_encode_verify_and_decode_on_the_command_line(
    case: Case, shared_data: Path, tmp_path: Path
) -> None:
    source, encoded, back = shared_data / case.file, tmp_path / "x.ans4d", tmp_path / "back.h5"
    assert command("encode", source, "-o", encoded, *case.flags) == 0
    assert command("verify", encoded, "--against", source, *case.flags) == 0
    assert command("decode", encoded, "-o", back) == 0
    partial = ["--partial"] * ("--partial" in case.flags)
    assert command("verify", encoded, "--against", back, *partial) == 0


def test_the_image_command_gives_the_oracles_bright_field(
    shared_data: Path, tmp_path: Path, oracle: dict[str, NDArray[np.int64]]
) -> None:
    target = tmp_path / "bf.npy"
    words = ("--detector", "circle:51,43,17.5", "-o", target)
    assert command("image", shared_data / SIM_STO.file, *words) == 0
    image = np.load(target)
    assert image.dtype == np.int64
    assert np.array_equal(image, oracle["bf"])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_decoding_gives_the_source_back(case: Case, shared_data: Path, tmp_path: Path) -> None:
    with n4.load(shared_data / case.file, **case.options) as encoded:
        encoded.decode(tmp_path / "back.h5")
        valid, calibration, mask = encoded.valid, encoded.calibration, encoded.mask
    answer = case.answer(shared_data)
    # By h5py alone first: other programs have nothing else.
    with h5py.File(tmp_path / "back.h5") as file:
        data = file["entry/data/data"]
        assert data.shape[:2] == case.scan_shape
        assert np.array_equal(file["entry/data/valid"][()], valid)
        check_patterns(data[()][valid], case, answer)
        assert not data[()][~valid].any()
    with n4.open(tmp_path / "back.h5", partial=not valid.all()) as again:
        assert again.scan_shape == case.scan_shape
        assert np.array_equal(again.valid, valid)
        check_patterns(recorded(again), case, answer)
        assert again.calibration == calibration
        assert np.array_equal(again.mask, mask)


def test_masks_change_sums_but_never_the_encoded_bytes(shared_data: Path, tmp_path: Path) -> None:
    case = next(c for c in CASES if "8x12" in c.file)
    detectors = [
        n4.Circle((32, 43), 15),
        n4.Annulus((30, 44), 15.5, 40),
        n4.Rectangle(0, 64, 0, 96),
    ]
    with n4.load(shared_data / case.file) as acquisition:
        patterns = acquisition[:, :]
        first = acquisition.mask
        assert first is not None
        second = first.copy()  # and whole tiles, parts of tiles, one pixel
        second[8:24, 16:40] = True
        second[31, 43] = True
        # Nothing masked is not the same as raw values: the dead pixels hold the overload's value.
        nothing = np.zeros_like(first)
        assert (patterns == 255).any()
        acquisition.save(tmp_path / "before.ans4d")
        nbytes = acquisition.encoded_bytes
        for masked in (first, second, None, first, nothing, None, second):
            acquisition.mask = masked
            images = acquisition.images(detectors)
            for image, detector in zip(images, detectors, strict=True):
                assert np.array_equal(image, dense(patterns, detector, masked))
            raw = patterns.astype(np.int64)
            if masked is not None:
                raw[patterns == 255] = 0
                raw[:, :, masked] = 0
            assert np.array_equal(acquisition.pattern(), raw.sum(axis=(0, 1)))
        acquisition.mask = first
        acquisition.save(tmp_path / "after.ans4d")
        assert acquisition.encoded_bytes == nbytes
    before, after = (tmp_path / name for name in ("before.ans4d", "after.ans4d"))
    assert before.read_bytes() == after.read_bytes()


@pytest.mark.parametrize("name", ["scan.ans4d", "scan.h5", "scan.npy"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    name: str, shared_data: Path, tmp_path: Path
) -> None:
    """The limit of file sizes stands for a full disk; it can only be set in another process."""
    (tmp_path / name).write_bytes(b"what was there before")
    code = f"""
import resource, signal
import napari_4dstem as n4
from napari_4dstem.errors import SaveError
with n4.load({str(shared_data / SIM_STO.file)!r}) as acquisition:
    acquisition.image(n4.Circle((51, 43), 17.5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    save = acquisition.save if {name!r}.endswith("ans4d") else acquisition.decode
    try:
        save({str(tmp_path / name)!r})
    except SaveError as error:
        print("refused:", error)
    print("alive:", int(acquisition.image(n4.Circle((51, 43), 17.5)).sum()))
"""
    result = run_without((), code)
    assert result.returncode == 0, result.stderr
    assert "refused: The file could not be saved" in result.stdout
    assert f"alive: {4587992}" in result.stdout
    assert result.stderr == ""
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"what was there before"


def test_saving_into_a_folder_that_is_not_there(shared_data: Path, tmp_path: Path) -> None:
    case = CASES[2]
    with n4.load(shared_data / case.file) as acquisition:
        for name in ("x.ans4d", "x.h5", "x.npy"):
            write = acquisition.save if name.endswith("ans4d") else acquisition.decode
            with pytest.raises(SaveError, match="Create the folder first"):
                write(tmp_path / "nowhere" / name)
    assert not list(tmp_path.iterdir())


def test_library_and_command_line_work_without_napari_qt_torch_and_hdf5plugin(
    tmp_path: Path,
) -> None:
    path = save(disk_scan((4, 5, 16, 24)), tmp_path)
    code = f"""
import sys
from napari_4dstem.cli import main
import napari_4dstem as n4
import numpy as np
path, folder = {str(path)!r}, {str(tmp_path)!r}
circle = "circle:8,10,5"
for arguments in (
    ["info", path],
    ["encode", path, "-o", folder + "/x.ans4d"],
    ["image", folder + "/x.ans4d", "--detector", circle, "-o", folder + "/bf.npy"],
    ["verify", folder + "/x.ans4d", "--against", path],
    ["decode", folder + "/x.ans4d", "-o", folder + "/back.npy"],
    ["decode", folder + "/x.ans4d", "-o", folder + "/back.h5"],
):
    try:
        main(arguments)
    except SystemExit as end:
        # Only compressed HDF5 needs a package that is not there.
        assert (end.code or 0) == arguments[-1].endswith(".h5"), (arguments, end.code)
with n4.open(folder + "/x.ans4d") as acquisition:
    assert np.array_equal(acquisition[:, :], np.load(path))
assert np.array_equal(np.load(folder + "/back.npy"), np.load(path))
"""
    result = run_without(HEAVY, code)
    assert result.returncode == 0, result.stderr
    assert "hdf5plugin is not installed" in result.stderr
    assert not (tmp_path / "back.h5").exists()
    stored = np.load(path).astype(np.int64)
    inside = n4.Circle((8, 10), 5).mask((16, 24))
    assert np.array_equal(np.load(tmp_path / "bf.npy"), stored[..., inside].sum(axis=-1))
