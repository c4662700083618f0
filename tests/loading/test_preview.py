"""What a preview says is exact is exact, and it never touches the source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import napari_4dstem as n4
from napari_4dstem.sources import OpenOptions
from tests.acquisitions import SHAPE, Truth, counts, half_encoded, save, wait_for

DETECTOR = n4.Circle((3.2, 4), 3.1)
INSIDE = DETECTOR.mask(SHAPE[2:])


def test_nothing_is_known_before_the_coarse_scan(tmp_path: Path) -> None:
    with n4.open(save(tmp_path, counts())) as acquisition:
        (preview,) = acquisition.preview([DETECTOR])
        assert not preview.known.any()
        assert not preview.exact.any()
        assert not preview.values.any()


@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_exact_where_encoded_coarse_elsewhere(tmp_path: Path, dtype: str) -> None:
    data = counts(dtype=dtype)
    exact_image = Truth(data).image(INSIDE)
    with half_encoded(save(tmp_path, data), 10) as (reader, life, source):
        read = source.patterns_read
        coarse = life.coarse
        assert coarse is not None
        on_grid = np.zeros(SHAPE[:2], bool)
        on_grid.reshape(-1)[coarse.positions] = True
        assert 0 < on_grid.sum() < on_grid.size
        first, second = reader.preview([DETECTOR, n4.Rectangle(0, 9, 0, 11)])
        assert np.array_equal(first.exact, on_grid | (np.arange(20) < 10)[:, None])
        assert first.n_exact == 700 + on_grid[10:].sum()
        assert first.known.all()
        assert np.allclose(first.values[first.exact], exact_image[first.exact], rtol=1e-12)
        shown = exact_image.reshape(-1)[coarse.positions][coarse.nearest]
        assert np.allclose(first.values[10:], shown[10:], rtol=1e-12)
        assert np.array_equal(first.exact, second.exact)
        assert source.patterns_read == read  # the source was left alone

        # Added to: what was known is kept, even what is not decoded again.
        (again,) = reader.preview([DETECTOR], previous=[first])
        assert again is first
        source.go.set()
        wait_for(lambda: life.backing.state == "encoded")
        (whole,) = reader.preview([DETECTOR], previous=[first])
        assert whole.exact.all()
        assert np.allclose(whole.values, exact_image, rtol=1e-12)
        (afresh,) = reader.preview([DETECTOR])
        assert np.array_equal(afresh.values, whole.values)


def test_an_empty_preview_is_not_kept_when_the_coarse_scan_arrives(tmp_path: Path) -> None:
    path = save(tmp_path, counts())
    with n4.open(path) as unread:
        (empty,) = unread.preview([DETECTOR])
    with half_encoded(path, 10) as (reader, _, _):
        (preview,) = reader.preview([DETECTOR], previous=[empty])
        assert preview.known.all()


def test_positions_without_a_pattern_are_never_known(tmp_path: Path) -> None:
    data = counts()
    frames = data.reshape(-1, *SHAPE[2:])[:1300]
    options = OpenOptions(scan_shape=SHAPE[:2], partial=True)
    with half_encoded(save(tmp_path, frames), 10, options) as (reader, life, source):
        recorded = np.arange(1400).reshape(SHAPE[:2]) < 1300
        (preview,) = reader.preview([DETECTOR])
        assert np.array_equal(preview.known, recorded)
        assert not preview.values[~recorded].any()
        assert not preview.exact[~recorded].any()
        source.go.set()
        wait_for(lambda: life.backing.state == "encoded")
        (whole,) = reader.preview([DETECTOR], previous=[preview])
        assert np.array_equal(whole.exact, recorded)
        assert np.array_equal(whole.values, np.where(recorded, Truth(data).image(INSIDE), 0))


def test_masks_and_raw_values(tmp_path: Path) -> None:
    data = counts()
    data[3, 5, 3, 4] = data[15, 5, 3, 4] = 65535
    masked = np.zeros(SHAPE[2:], bool)
    masked[2, 3] = True
    with half_encoded(save(tmp_path, data), 10, nodata=65535) as (reader, _, _):
        for mask in (masked, None):
            reader.mask = mask
            (preview,) = reader.preview([DETECTOR])
            exact = Truth(data, mask, 65535).image(INSIDE)
            assert np.array_equal(preview.values[preview.exact], exact[preview.exact])
            assert np.array_equal(reader.image(DETECTOR), exact)
