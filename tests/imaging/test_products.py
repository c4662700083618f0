"""Products equal dense NumPy, whatever the scan is read from at the moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import napari_4dstem as n4
from napari_4dstem.errors import CancelledError, UsageError
from napari_4dstem.scan_reader import ScanReader
from tests.acquisitions import (
    DTYPES,
    SHAPE,
    Truth,
    assert_close,
    counts,
    half_encoded,
    reader_at,
    save,
)

STAGES = ("source", "partial", "encoded", "saved")
DETECTORS = [
    n4.Circle((3.2, 4), 3.1),
    n4.Annulus((4, 5), 2, 4.5),
    n4.Rectangle(0, 9, 0, 11),
    n4.Point((8, 10)),
]
REGIONS = [n4.Circle((9, 30), 8.5), n4.Rectangle(2, 3, 60, 70), n4.Rectangle(0, 20, 0, 70)]


def scan_of(dtype: str) -> tuple[NDArray[Any], int | None]:
    """Return counts with overloads (where the dtype has any), and what an overload is."""
    data = counts(SHAPE, dtype)
    if np.dtype(dtype).kind != "u":
        return data, None
    nodata = int(np.iinfo(dtype).max)
    data[3, 5, 2, 3] = data[3, 5, 8, 10] = data[12, 60, 4, 4] = nodata
    return data, nodata


def masks() -> list[NDArray[np.bool_] | None]:
    """Return no masked pixel, a whole tile and more, single ones, and no mask at all."""
    block, single = np.zeros((2, *SHAPE[2:]), bool)
    block[:8, :9] = True
    single[2, 3] = single[8, 10] = True
    return [np.zeros(SHAPE[2:], bool), block, single, None]


@pytest.fixture(scope="module", params=[(d, s) for d in DTYPES for s in STAGES], ids="-".join)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ScanReader, NDArray[Any], int | None]]:
    dtype, stage = request.param
    data, nodata = scan_of(dtype)
    path = save(tmp_path_factory.mktemp(f"{dtype}-{stage}"), data)
    with reader_at(stage, path, nodata=nodata) as reader:
        yield reader, data, nodata


def test_patterns_are_the_files_own_bits(case: tuple[ScanReader, NDArray[Any], int]) -> None:
    reader, data, _ = case
    assert reader.valid.all()
    everything = reader[:, :]
    assert everything.dtype == data.dtype
    assert everything.tobytes() == data.tobytes()
    for position in ((0, 0), (9, 69), (10, 0), (19, 69), (3, 5)):
        assert reader.pattern_at(*position).tobytes() == data[position].tobytes()


def test_sums_and_centres_under_every_mask(case: tuple[ScanReader, NDArray[Any], int]) -> None:
    reader, data, nodata = case
    scale = float(np.abs(data[np.isfinite(data)].astype(float)).max()) * data[0, 0].size
    for masked in masks():
        reader.mask = masked
        truth = Truth(data, masked, nodata)
        images = reader.images(DETECTORS)
        for image, detector in zip(images, DETECTORS, strict=True):
            inside = detector.mask(SHAPE[2:])
            assert_close(image, truth.image(inside), scale)
            assert np.array_equal(reader.image(detector), image)
            assert np.array_equal(reader.overloads(detector), truth.overloads(inside))
        for detector in (None, DETECTORS[1]):
            inside = np.ones(SHAPE[2:], bool) if detector is None else detector.mask(SHAPE[2:])
            for found, expected in zip(
                reader.center_of_mass(detector), truth.center(inside), strict=True
            ):
                # Sums of floats differ by rounding, more so where they nearly cancel.
                assert np.allclose(found, expected, rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_patterns_of_a_region(case: tuple[ScanReader, NDArray[Any], int], how: Any) -> None:
    reader, data, nodata = case
    scale = float(np.abs(data[np.isfinite(data)].astype(float)).max()) * SHAPE[0] * SHAPE[1]
    for masked in masks():
        reader.mask = masked
        truth = Truth(data, masked, nodata)
        for region in [*REGIONS, None]:
            chosen = np.ones(SHAPE[:2], bool) if region is None else region.mask(SHAPE[:2])
            assert_close(reader.pattern(region, how), truth.pattern(chosen, how), scale)


def test_a_region_without_positions(tmp_path: Path) -> None:
    with n4.open(save(tmp_path, counts())) as acquisition:
        nowhere = n4.Mask(np.zeros(SHAPE[:2], bool))
        assert not acquisition.pattern(nowhere).any()
        assert not acquisition.pattern(nowhere, "max").any()
        assert np.isnan(acquisition.pattern(nowhere, "mean")).all()
        with pytest.raises(UsageError, match="sum, mean or max"):
            acquisition.pattern(reduce="median")  # type: ignore[arg-type]


@pytest.mark.parametrize("stage", STAGES)
def test_empty_patterns_have_no_centre_and_spoil_no_other(stage: str, tmp_path: Path) -> None:
    data = counts()
    data[2, 3] = data[15, 40] = 0
    with reader_at(stage, save(tmp_path, data)) as reader:
        centers = reader.center_of_mass()
        expected = Truth(data).center(np.ones(SHAPE[2:], bool))
        for found, dense in zip(centers, expected, strict=True):
            assert np.argwhere(np.isnan(found)).tolist() == [[2, 3], [15, 40]]
            assert np.array_equal(found, dense, equal_nan=True)
        # A detector that holds no pixel: no image, no centre, no error.
        nothing = n4.Mask(np.zeros(SHAPE[2:], bool))
        assert not reader.image(nothing).any()
        assert np.isnan(reader.center_of_mass(nothing)[0]).all()


def test_no_detectors_no_images(tmp_path: Path) -> None:
    with n4.open(save(tmp_path, counts())) as acquisition:
        assert acquisition.images([]) == []


@pytest.mark.parametrize("stage", ["source", "encoded"])
def test_progress_and_cancel(stage: str, tmp_path: Path) -> None:
    data = counts()
    with reader_at(stage, save(tmp_path, data)) as reader:
        steps: list[tuple[int, int]] = []
        image = reader.image(DETECTORS[0], progress=lambda *step: steps.append(step))
        assert steps[-1] == (6, 6)
        assert steps == sorted(steps)
        asked: list[int] = []

        def cancelled() -> bool:
            asked.append(1)
            return len(asked) > 1

        with pytest.raises(CancelledError):
            reader.image(DETECTORS[0], cancelled=cancelled)
        with pytest.raises(CancelledError):
            reader.center_of_mass(cancelled=lambda: True)
        assert np.array_equal(reader.image(DETECTORS[0]), image)


def test_moments_that_exceed_64_bits_are_refused_not_wrapped(tmp_path: Path) -> None:
    data = np.full((1, 2, 1, 1 << 16), 0xFFFF_FFFF, np.uint32)
    data[0, 1] = 3
    path = save(tmp_path, data)
    for stage in ("source", "encoded"):
        with reader_at(stage, path) as reader:
            total = reader.image(n4.Rectangle(0, 1, 0, 1 << 16))
            assert total.tolist() == [[0xFFFF_FFFF << 16, 3 << 16]]
            with pytest.raises(UsageError, match="too large for exact first moments"):
                reader.center_of_mass()


def test_the_cursor_reads_one_pattern_ahead_of_bulk_reads(tmp_path: Path) -> None:
    data = counts()
    with half_encoded(save(tmp_path, data), 10) as (reader, _, source):
        before = source.patterns_read
        assert np.array_equal(reader.pattern_at(15, 3), data[15, 3])
        assert np.array_equal(reader[15, 4], data[15, 4])
        assert np.array_equal(reader[2, 4], data[2, 4])  # encoded by now
        assert source.patterns_read == before
        assert np.array_equal(reader[15, 4:6], data[15, 4:6])
        assert source.patterns_read == before + 2
