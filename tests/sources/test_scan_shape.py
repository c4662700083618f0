"""The rule for the scan's shape and the mapping of frames, without any files."""

from __future__ import annotations

import numpy as np
import pytest

from napari_4dstem.errors import UsageError
from napari_4dstem.sources.scan_shape import (
    ScanMap,
    ShapeClues,
    choose_scan_shape,
    factor_pairs,
    plan_scan,
)


@pytest.mark.parametrize(
    ("clues", "shape", "origin"),
    [
        (ShapeClues(24, given=(3, 8), sidecar=(4, 6)), (3, 8), "given"),
        (ShapeClues(24, sidecar=(4, 6), attribute=(6, 4)), (4, 6), "sidecar"),
        (ShapeClues(24, attribute=(6, 4), dataset=(4, 6)), (6, 4), "attribute"),
        (ShapeClues(24, dataset=(4, 6)), (4, 6), "4D dataset"),
        (ShapeClues(25), (5, 5), "perfect square (guessed)"),
        (ShapeClues(24), None, ""),
        # interrupted: the sidecar fits what was ordered
        (ShapeClues(50, 64, sidecar=(8, 8)), (8, 8), "sidecar"),
        (ShapeClues(50, 64), (8, 8), "perfect square (guessed)"),
        # an attribute that does not fit is no clue; the next one is
        (ShapeClues(24, attribute=(7, 7), dataset=(4, 6)), (4, 6), "4D dataset"),
        # a sidecar that does not fit: the frames are no plain rectangle, so no square is guessed
        (ShapeClues(81, sidecar=(8, 8)), None, ""),
        # frame offset and flyback have to fit together with the shape
        (ShapeClues(26, sidecar=(4, 6), frame_offset=2), (4, 6), "sidecar"),
        (ShapeClues(22, sidecar=(4, 6), frame_offset=-2), (4, 6), "sidecar"),
        (ShapeClues(28, sidecar=(4, 6), flyback=1), (4, 6), "sidecar"),
        (ShapeClues(27, sidecar=(4, 6), flyback=1), (4, 6), "sidecar"),
        (ShapeClues(27, frame_offset=2), (5, 5), "perfect square (guessed)"),
    ],
)
def test_rule(clues: ShapeClues, shape: tuple[int, int] | None, origin: str) -> None:
    choice = choose_scan_shape(clues)
    assert (choice.shape, choice.origin) == (shape, origin)
    assert choice.guessed == origin.endswith("(guessed)")
    assert bool(choice.reason) == (shape is None)


def test_candidates_are_factor_pairs_nearest_to_square_first() -> None:
    assert choose_scan_shape(ShapeClues(24)).candidates == (
        (4, 6), (6, 4), (3, 8), (8, 3), (2, 12), (12, 2), (1, 24), (24, 1),
    )  # fmt: skip
    assert factor_pairs(25) == ((5, 5), (1, 25), (25, 1))
    assert factor_pairs(0) == factor_pairs(-4) == factor_pairs(1 << 60) == ()


def test_candidates_allow_for_flyback() -> None:
    candidates = choose_scan_shape(ShapeClues(28, flyback=1)).candidates
    assert (4, 6) in candidates
    assert all(rows * (columns + 1) == 28 for rows, columns in candidates)


def test_a_sidecar_that_does_not_fit_is_named_and_offered() -> None:
    choice = choose_scan_shape(ShapeClues(72, sidecar=(8, 8)))
    assert "8 x 8 = 64 positions, but there are 72 frames" in choice.reason
    assert "1 extra in each row: flyback?" in choice.reason
    assert choice.candidates[0] == (8, 8)


@pytest.mark.parametrize(("offset", "flyback"), [(0, 0), (3, 0), (-2, 0), (0, 2), (1, 1), (-3, 1)])
def test_frames_are_mapped_position_by_position(offset: int, flyback: int) -> None:
    rows, columns, total = 3, 5, 23
    scan = ScanMap((rows, columns), offset, flyback)
    exists = np.ones(total, bool)
    exists[7] = False
    recorded = scan.recorded(exists)
    frames = list(range(offset, offset + rows * (columns + flyback)))
    for row in range(rows):
        line = frames[row * (columns + flyback) :][:columns]
        for column in range(columns):
            assert scan.frame(row, column) == line[column]
            there = 0 <= line[column] < total and line[column] != 7
            assert recorded[row, column] == there


@pytest.mark.parametrize(
    ("shape", "flyback"), [((0, 4), 0), ((3, -1), 0), ((3, 4), -1), ((1 << 20, 1 << 20), 0)]
)
def test_shapes_that_no_scan_has_are_refused(shape: tuple[int, int], flyback: int) -> None:
    with pytest.raises(UsageError, match="cannot be the shape of a scan"):
        ScanMap(shape, 0, flyback)


def test_too_few_frames_are_a_reason_unless_partial() -> None:
    clues = ShapeClues(22, given=(4, 6))
    plan = plan_scan(clues, np.ones(22, bool), partial=False)
    assert plan.reason == "22 of 24 scan positions were recorded."
    assert "partial scan" in plan.action
    assert "another scan shape" in plan.action
    partial = plan_scan(clues, np.ones(22, bool), partial=True)
    assert not partial.reason
    assert partial.problems == ("22 of 24 scan positions were recorded.",)
    assert partial.recorded is not None
    assert int(partial.recorded.sum()) == 22


def test_positions_padded_by_a_negative_offset_are_no_shortage() -> None:
    plan = plan_scan(
        ShapeClues(21, given=(4, 6), frame_offset=-3), np.ones(21, bool), partial=False
    )
    assert not plan.reason
    assert plan.recorded is not None
    assert not plan.recorded[0, :3].any()
    assert plan.recorded.sum() == 21


def test_more_frames_than_positions_are_told() -> None:
    plan = plan_scan(ShapeClues(30, given=(4, 6)), np.ones(30, bool), partial=False)
    assert not plan.reason
    assert "30 frames, more than a scan of 4 x 6 needs: the last 6" in plan.problems[0]
    flyback = plan_scan(ShapeClues(28, given=(4, 6), flyback=1), np.ones(28, bool), partial=False)
    assert flyback.problems == ()


def test_a_scan_without_any_frame_is_refused_even_as_partial() -> None:
    clues = ShapeClues(10, given=(2, 5), frame_offset=10)
    assert "No frame belongs" in plan_scan(clues, np.ones(10, bool), partial=True).reason
