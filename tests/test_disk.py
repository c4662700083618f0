"""The bright-field disk: found to a fraction of a pixel, or called uncertain."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from napari_4dstem.detectors import Annulus, Circle
from napari_4dstem.disk import (
    FACTORS,
    OCTAVE_FACTORS,
    Disk,
    find_disk,
    hot_pixels,
    preset_table,
    presets,
    share_on_camera,
)
from napari_4dstem.errors import UsageError
from tests.disk_patterns import KINDS, Pattern, make_pattern, soft_disk

# How many of a kind must be certain: a finder that doubts everything is of no use. The kinds
# hold many patterns that nobody could measure to 2 %: disks of 3 px, a hidden edge, few counts.
CERTAIN = {"cut": 0.0, "low": 0.2, "round stop": 0.35, "descan": 0.5, "mixed": 0.5}
SEEDS = 40


def is_right(disk: Disk, pattern: Pattern) -> bool:
    """The tolerances: centre 0.3 px, radius 2 %."""
    off = np.hypot(*np.subtract(disk.center, pattern.center))
    return bool(off <= 0.3 and abs(disk.radius / pattern.radius - 1) <= 0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_disk_is_right_or_uncertain(kind: str):
    certain = 0
    for seed in range(SEEDS):
        pattern = make_pattern(kind, seed)
        disk = find_disk(pattern.values, pattern.masked)
        assert disk.certain == (disk.reason == "")
        assert not disk.certain or is_right(disk, pattern), (seed, disk, pattern)
        certain += disk.certain
    assert certain >= CERTAIN.get(kind, 0.65) * SEEDS


def test_disk_cut_by_the_frame_is_never_certain():
    said = 0
    for seed in range(SEEDS):
        pattern = make_pattern("cut", seed)
        if pattern.beyond_frame > 1:
            disk = find_disk(pattern.values, pattern.masked)
            assert not disk.certain
            said += "frame" in disk.reason
    assert said > SEEDS / 2


@pytest.mark.parametrize("dose", [20, 2000])
def test_ordinary_disks_are_certain(dose: float):
    # Nothing difficult: a disk of good size with weaker Bragg disks clear of it.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        radius = rng.uniform(10, 20)
        center = np.array([92, 87]) + rng.uniform(-8, 8, 2)
        image = soft_disk((192, 180), center, radius)
        for turn in np.arange(6) * np.pi / 3 + rng.uniform(0, 1):
            away = 2.5 * radius * np.array([np.cos(turn), np.sin(turn)])
            image += 0.3 * soft_disk((192, 180), center + away, radius)
        pattern = Pattern(rng.poisson(dose * image), None, tuple(center), radius, -9)
        disk = find_disk(pattern.values)
        assert disk.certain, disk
        assert is_right(disk, pattern)
        assert disk.residual < 0.5


def read_sim_sto(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All frames with no-data as 0, and the masked pixels, by h5py alone."""
    pytest.importorskip("hdf5plugin")
    with h5py.File(folder / "sim_sto" / "sim_sto_master.h5") as master:
        detector = master["entry/instrument/detector/detectorSpecific"]
        masked = (detector["pixel_mask"][()] & 0xFFFF) != 0
    parts = []
    for path in sorted((folder / "sim_sto").glob("sim_sto_data_*.h5")):
        with h5py.File(path) as file:
            parts.append(file["entry/data/data"][()])
    frames = np.concatenate(parts)
    return np.where(masked | (frames == 65535), 0, frames), masked


def test_disk_and_dark_field_of_the_simulated_scan(shared_data: Path):
    frames, masked = read_sim_sto(shared_data)
    disk = find_disk(frames.mean(axis=0), masked)
    assert disk.certain, disk
    assert disk.center == pytest.approx((51, 43), abs=0.2)
    assert disk.radius == pytest.approx(17.45, abs=0.3)
    ring = presets(disk, frames.shape)["ADF"]
    image = frames[:, ring.mask((96, 96))].sum(axis=1).reshape(32, 32)
    assert np.unravel_index(image.argmax(), image.shape) == (8, 24)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3)).sum(axis=(2, 3))
    row, col = np.unravel_index(windows.argmax(), windows.shape)
    assert (row + 1, col + 1) == (8, 24)


def test_one_pattern_of_the_simulated_scan_is_right_or_uncertain(shared_data: Path):
    frames, masked = read_sim_sto(shared_data)
    for number in range(0, 1024, 64):
        disk = find_disk(frames[number], masked)
        truth = Pattern(frames[number], masked, (51, 43), 17.45, -20)
        assert not disk.certain or is_right(disk, truth)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32, ">u2"])
def test_number_type_does_not_matter(dtype):
    values = np.round(800 * soft_disk((70, 82), (33.3, 41.8), 12.4)).astype(dtype)
    disk = find_disk(values)
    assert disk.certain
    assert disk.center == pytest.approx((33.3, 41.8), abs=0.05)
    assert disk.radius == pytest.approx(12.4, abs=0.05)


@pytest.mark.parametrize("radius", [8.2, 41.7, 300.3])
def test_large_cameras(radius: float):
    center = (1027.3, 950.4)
    image = np.random.default_rng(1).poisson(300 * soft_disk((2048, 1920), center, radius) + 0.02)
    disk = find_disk(image)
    assert disk.certain
    assert disk.center == pytest.approx(center, abs=0.1)
    assert disk.radius == pytest.approx(radius, rel=0.005)


def one_bright_pixel() -> np.ndarray:
    values = np.zeros((96, 90))
    values[40, 30] = 1e4
    return values


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((96, 90)),
        np.full((96, 90), 7),
        np.full((96, 90), np.nan),
        np.eye(13, 11),
        np.ones((1, 1)),
        np.arange(6.0).reshape(2, 3),
        one_bright_pixel(),
        np.random.default_rng(0).poisson(0.01, (96, 90)),
        np.random.default_rng(0).poisson(5, (96, 90)),
        np.random.default_rng(0).normal(size=(64, 66)),
        np.random.default_rng(0).poisson(5, (600, 31)),
        np.arange(96.0)[:, None] * np.ones(90),
    ],
)
def test_patterns_without_a_disk_are_uncertain_with_a_reason(values):
    disk = find_disk(values)
    assert not disk.certain
    assert disk.reason
    assert disk.radius > 0
    assert np.isfinite(disk.center).all()


def test_a_blob_without_an_edge_is_uncertain():
    rows, cols = np.ogrid[:128, :140]
    for width in (4, 9, 20):
        blob = np.exp(-((rows - 61.2) ** 2 + (cols - 70.8) ** 2) / (2 * width**2))
        assert not find_disk(1000 * blob).certain


def test_everything_masked_is_uncertain():
    values = 100 * soft_disk((70, 82), (33, 41), 12)
    masked = np.ones((70, 82), bool)
    assert find_disk(values, masked).reason == "every pixel is masked"
    masked[33, 41] = False
    assert not find_disk(values, masked).certain


def test_two_equal_disks_are_uncertain():
    image = soft_disk((128, 140), (60, 40), 14) + 0.95 * soft_disk((128, 140), (60, 90), 14)
    assert not find_disk(1000 * image).certain


def test_the_same_pattern_gives_the_same_disk():
    pattern = make_pattern("hot", 1)
    first = find_disk(pattern.values, pattern.masked)
    assert first.residual > 0
    assert find_disk(pattern.values, pattern.masked) == first


@pytest.mark.parametrize(
    "bad", [np.zeros(5), np.zeros((2, 3, 4)), np.zeros((0, 4)), np.array([["a"]])]
)
def test_what_is_no_pattern_is_refused(bad):
    with pytest.raises(UsageError, match="two-dimensional"):
        find_disk(bad)


def test_mask_of_another_shape_is_refused():
    with pytest.raises(UsageError, match="mask"):
        find_disk(np.zeros((5, 6)), np.zeros((6, 5), bool))


@pytest.mark.parametrize("patterns", [1, 1000])
def test_hot_pixels_are_found_and_nothing_else(patterns: int):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        image = 50 * soft_disk((96, 104), (50, 47), 15) + 2
        for turn in range(6):
            away = 34 * np.array([np.cos(turn), np.sin(turn)])
            image += 15 * soft_disk((96, 104), (50 + away[0], 47 + away[1]), 5)
        values = rng.poisson(image * patterns) / patterns
        hot = np.zeros((96, 104), bool)
        hot[5::12, 7::21] = True  # some of them within the disks
        hot[40, 20:22] = True  # a pair
        values[hot] = 1000
        masked = np.zeros((96, 104), bool)
        masked[60, 60] = True
        values[60, 60] = 65535
        assert np.array_equal(hot_pixels(values, masked), hot)


def test_few_counts_and_sharp_spots_are_no_hot_pixels():
    assert not hot_pixels(np.random.default_rng(0).poisson(0.02, (192, 180))).any()
    assert not hot_pixels(np.random.default_rng(0).poisson(3, (192, 180))).any()
    rows, cols = np.ogrid[:64, :72]
    for center in ((30.0, 40.0), (30.5, 40.2)):
        spot = np.exp(-((rows - center[0]) ** 2 + (cols - center[1]) ** 2) / (2 * 0.6**2))
        assert not hot_pixels(1e4 * spot + 1).any()
    assert not hot_pixels(np.ones((2, 2))).any()


def disk_at(center: tuple[float, float], radius: float) -> Disk:
    return Disk(center, radius, 0.1, certain=True, reason="")


def test_presets_follow_the_disk():
    center = (95.0, 98.0)
    found = presets(disk_at(center, 20), (3, 5, 192, 200))
    assert found == {
        "BF": Circle(center, 20),
        "ABF": Annulus(center, 10, 20),
        "LAADF": Annulus(center, 22, 30),
        "ADF": Annulus(center, 30, 60),
        "HAADF": Annulus(center, 60, 95.5),
    }
    assert list(presets(disk_at(center, 20), (192, 200), OCTAVE_FACTORS)) == list(FACTORS)
    assert presets(disk_at(center, 20), (192, 200), OCTAVE_FACTORS)["ADF"].outer == 80


def test_largest_circle_lies_wholly_on_the_camera():
    for center in ((40.2, 51.9), (52.3, 60.0), (47.5, 55.5)):
        ring = presets(disk_at(center, 6), (96, 112))["HAADF"]
        assert share_on_camera(ring, (96, 112)) == 1
        assert share_on_camera(ring.with_outer(ring.outer + 1), (96, 112)) < 1


def test_presets_that_do_not_fit_say_where_the_camera_ends():
    table = {p.name: p for p in preset_table(disk_at((51, 43), 17.4), (96, 96))}
    assert table["ADF"].reason == ""
    assert table["HAADF"].shape is None
    assert table["HAADF"].reason == "HAADF begins at 52.2 px, and the camera ends at 43.5 px"
    small = {p.name: p for p in preset_table(disk_at((51, 43), 5), (96, 96))}
    assert small["LAADF"].reason == "LAADF is only 2.0 px wide, for the disk is small"
    assert small["ABF"].shape is None
    assert small["HAADF"].shape == Annulus((51, 43), 15, 43.5)
    assert set(presets(disk_at((51, 43), 5), (96, 96))) == {"BF", "ADF", "HAADF"}


def test_presets_of_a_disk_outside_the_camera_are_all_disabled():
    table = preset_table(disk_at((-30, 43), 17.4), (96, 96))
    assert [p.name for p in table] == list(FACTORS)
    assert all(p.shape is None and "camera ends at 0.0 px" in p.reason for p in table)


def test_share_on_camera_counts_pixels():
    assert share_on_camera(Circle((50, 40), 10), (96, 104)) == 1
    assert share_on_camera(Circle((-0.5, 40), 10), (96, 104)) == pytest.approx(0.5, abs=0.01)
    assert share_on_camera(Circle((-90, 40), 10), (96, 104)) == 0
    assert share_on_camera(Annulus((0, 0), 20, 30), (1, 2, 96, 104)) == pytest.approx(
        0.26, abs=0.02
    )
    assert share_on_camera(Circle((50, 40), 1e6), (96, 104)) == pytest.approx(
        96 * 104 / (np.pi * 1e12)
    )
    assert share_on_camera(Annulus((50, 40), 10.01, 10.02), (96, 104)) == 0
