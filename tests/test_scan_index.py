"""Indexing an acquisition is indexing a NumPy array, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import napari_4dstem as n4
from napari_4dstem.errors import UsageError
from napari_4dstem.scan_index import scan_positions
from tests.acquisitions import counts, save

GOOD = [
    (),
    (3,),
    (-1, -70),
    (3, 5),
    (np.int64(3), np.uint8(5)),
    (3, 5, 2),
    (3, 5, 2, 4),
    (19, 69, -9, -11),
    (slice(None), 4),
    (slice(2, 9, 3), slice(60, None)),
    (slice(None, None, -7), slice(-3, -9, -2), slice(None, None, -1), 3),
    (slice(5, 5), slice(None)),
    (slice(18, 400), slice(65, 1000)),
    (...,),
    (..., 4),
    (4, ..., 4),
    (..., slice(2, 5), slice(1, 9, 4)),
    (4, 5, ...),
    (4, 5, 6, 7, ...),
    (slice(3, 5), ..., slice(0, 9, 2)),
    (slice(3, 1000), slice(69, 70), -1, -1),
]


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[Any]]:
    data = counts()
    return save(tmp_path_factory.mktemp("index"), data), data


@pytest.mark.parametrize("encoded", [False, True])
def test_as_numpy(scan: tuple[Path, NDArray[Any]], encoded: bool) -> None:
    path, data = scan
    with n4.load(path) if encoded else n4.open(path) as acquisition:
        for key in GOOD:
            found, expected = acquisition[key], data[key]
            assert found.shape == expected.shape, key
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected), key
        assert np.array_equal(acquisition[7], data[7])
        assert np.array_equal(acquisition[...], data)


@pytest.mark.parametrize(
    "key",
    [
        (20,),
        (-21,),
        (0, 70),
        (0, -71),
        (0, 0, 9),
        (0, 0, 0, -12),
        (0, 0, 0, 0, 0),
        (..., 0, ...),
        (slice(None), slice(None), 500, 3),
    ],
)
def test_outside_is_an_error_as_in_numpy(scan: tuple[Path, NDArray[Any]], key: Any) -> None:
    path, data = scan
    with pytest.raises(IndexError):
        data[key]
    with n4.open(path) as acquisition, pytest.raises(IndexError):
        acquisition[key]


@pytest.mark.parametrize(
    "key", [None, (0, None), [1, 2], np.arange(3), True, np.bool_(False), 1.0, "a", (0, [1])]
)
def test_other_indices_are_refused(scan: tuple[Path, NDArray[Any]], key: Any) -> None:
    with n4.open(scan[0]) as acquisition, pytest.raises(UsageError, match="integers and slices"):
        acquisition[key]


def test_a_step_of_zero(scan: tuple[Path, NDArray[Any]]) -> None:
    with n4.open(scan[0]) as acquisition, pytest.raises(ValueError, match="zero"):
        acquisition[::0]


INTEGERS = st.integers(-8, 8)
ENDS = st.none() | INTEGERS
SLICES = st.builds(slice, ENDS, ENDS, st.none() | INTEGERS.filter(bool))
KEYS = st.lists(INTEGERS | SLICES, max_size=4).flatmap(
    lambda parts: st.sampled_from(
        [tuple(parts), *((*parts[:i], ..., *parts[i:]) for i in range(len(parts) + 1))]
    )
)


@given(KEYS)
def test_any_index(key: tuple[Any, ...]) -> None:
    data = np.arange(4 * 5 * 2 * 3).reshape(4, 5, 2, 3)
    try:
        expected = data[key]
    except IndexError:
        with pytest.raises(IndexError):
            indexed(data, key)
        return
    assert np.array_equal(indexed(data, key), expected)


def indexed(data: NDArray[Any], key: tuple[Any, ...]) -> NDArray[Any]:
    positions, shape, rest = scan_positions(key, (4, 5))
    found = data.reshape(20, 2, 3)[positions].reshape(*shape, 2, 3)
    return found[(slice(None),) * len(shape) + rest]
