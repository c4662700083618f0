from __future__ import annotations

import copy

import numpy as np
import pytest

import napari_4dstem as n4
from napari_4dstem.errors import UsageError
from napari_4dstem.plugin.canvas.pattern_stack import MOST_PATTERNS, PatternStack
from tests.plugin.scans import disk_scan, save

DATA = disk_scan((18, 20, 14, 16))


@pytest.fixture
def acquisition(tmp_path):
    with n4.open(save(DATA, tmp_path)) as opened:
        yield opened


@pytest.fixture
def asked(acquisition, monkeypatch):
    places = []
    read = acquisition.pattern_at
    monkeypatch.setattr(
        acquisition, "pattern_at", lambda r, c: (places.append((r, c)), read(r, c))[1]
    )
    return places


def test_looks_like_an_array(acquisition):
    stack = PatternStack(acquisition)
    assert (stack.shape, stack.ndim, stack.size) == (DATA.shape, 4, DATA.size)
    assert stack.dtype == DATA.dtype
    assert stack.chunks == (1, 1, 14, 16)
    assert len(stack) == 18


@pytest.mark.parametrize(
    "key",
    [
        (3, 5),
        (-1, -2),
        (np.int64(3), np.int64(5), slice(None), slice(None)),
        (3, 5, slice(2, 7), 4),
        (slice(3, 4), slice(5, 6), slice(None), slice(None)),
        (slice(3, 5), slice(4, 8, 2)),
        (7,),
        (7, ..., 3),
        (..., slice(1, 3)),
        (slice(2, 4), 5, ...),
    ],
)
def test_gives_what_numpy_gives(acquisition, key):
    key = key if len(key) > 1 or key[0] is Ellipsis else key[0]
    if isinstance(key, tuple) and key[0] is Ellipsis:
        key = (slice(0, 4), slice(0, 3), *key)
    np.testing.assert_array_equal(PatternStack(acquisition)[key], DATA[key])


def test_one_step_of_napari_reads_one_pattern(acquisition, asked):
    PatternStack(acquisition)[3, 5, :, :]
    PatternStack(acquisition)[3:4, 6:7, :, :]
    assert asked == [(3, 5), (3, 6)]


def test_rolled_axes_are_answered_with_zeros_and_a_word(acquisition, asked):
    stack = PatternStack(acquisition)
    told = []
    stack.on_problem = told.append
    assert MOST_PATTERNS < 18 * 20
    for _ in range(2):
        plane = stack[:, :, 3, 4]
        assert plane.shape == (18, 20)
        assert not plane.any()
    assert asked == []
    assert len(told) == 1
    assert "rolled" in told[0]


def test_a_whole_scan_row_is_read(acquisition, asked):
    np.testing.assert_array_equal(PatternStack(acquisition)[2, :, :, 5], DATA[2, :, :, 5])
    assert len(asked) == 20


@pytest.mark.parametrize("key", [(18, 0), (0, -21), (0, 0, 0, 0, 0), (..., ...), ([1, 2], 0)])
def test_bad_indices(acquisition, key):
    with pytest.raises(IndexError):
        PatternStack(acquisition)[key]


def test_refuses_to_become_one_array(acquisition):
    with pytest.raises(UsageError, match=r"image\(\.\.\.\)"):
        np.asarray(PatternStack(acquisition))


def test_copies_share_the_acquisition(acquisition):
    stack = PatternStack(acquisition)
    assert copy.deepcopy(stack) is stack


def test_released_gives_zeros_and_reload_brings_them_back(acquisition):
    stack = PatternStack(acquisition)
    np.testing.assert_array_equal(stack[3, 5], DATA[3, 5])
    assert stack.last_pattern(3, 5) is not None
    acquisition.release()
    assert stack[3, 5].shape == (14, 16)
    assert not stack[3, 5].any()
    assert stack.last_pattern(3, 5) is None
    acquisition.reload()
    np.testing.assert_array_equal(stack[3, 5], DATA[3, 5])
