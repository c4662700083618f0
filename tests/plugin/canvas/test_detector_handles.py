from __future__ import annotations

import numpy as np
import pytest

from napari_4dstem.detectors import Annulus, Circle, Rectangle
from napari_4dstem.plugin.canvas.detector_handles import drag, find_handle
from napari_4dstem.plugin.canvas.detector_lines import detector_lines
from napari_4dstem.plugin.session.detector_views import DetectorView, round_shape

CENTER = (51.0, 43.0)
BF = DetectorView("BF", "#4dd0e1", Circle(CENTER, 17.5))
ADF = DetectorView("ADF", "#ffa94d", Annulus(CENTER, 24.0, 44.0))
ONE = (1.0, 1.0)


@pytest.mark.parametrize(
    ("offset", "name", "part"),
    [
        (17.5, "BF", "radius"),
        (20.5, "BF", "radius"),
        (23.6, "ADF", "inner"),
        (44.0, "ADF", "outer"),
        (38.5, "ADF", "outer"),
        (0.0, "BF", "centre"),
        (5.0, "BF", "centre"),
    ],
)
def test_ring_and_centre_under_the_pointer(offset, name, part):
    handle = find_handle([ADF, BF], (CENTER[0] - offset, CENTER[1]), ONE)
    assert (handle.name, handle.part) == (name, part)


@pytest.mark.parametrize("offset", [8.0, 11.0, 31.0, 51.0])
def test_elsewhere_there_is_no_handle(offset):
    assert find_handle([ADF, BF], (CENTER[0], CENTER[1] + offset), ONE) is None


def test_reach_is_measured_on_the_screen():
    at = (CENTER[0], CENTER[1] + 19.5)
    assert find_handle([BF], at, (2.9, 2.9)) is not None
    assert find_handle([BF], at, (3.1, 3.1)) is None


def test_hidden_detectors_have_no_handles():
    hidden = DetectorView("BF", "#4dd0e1", BF.shape, visible=False)
    assert find_handle([hidden], (51.0, 43 + 17.5), ONE) is None


def test_the_active_one_of_two_detectors_with_one_centre_is_moved():
    assert find_handle([BF, ADF], CENTER, ONE, active="ADF").name == "ADF"
    assert find_handle([BF, ADF], CENTER, ONE, active=None).name == "BF"


def test_dragging_a_ring_changes_only_that_ring_and_does_not_jump():
    handle = find_handle([ADF], (CENTER[0], CENTER[1] + 25.0), ONE)
    assert drag(handle, (CENTER[0], CENTER[1] + 25.0)) == ADF.shape
    assert drag(handle, (CENTER[0], CENTER[1] + 28.0)) == Annulus(CENTER, 27.0, 44.0)
    assert drag(handle, (CENTER[0] + 90.0, CENTER[1])) == Annulus(CENTER, 44.0, 44.0)


def test_dragging_the_centre_moves_the_detector():
    handle = find_handle([BF], (51.5, 43.0), ONE)
    assert drag(handle, (49.5, 46.0)) == Circle((49.0, 46.0), 17.5)


def test_a_rectangle_moves_by_its_centre():
    box = DetectorView("D1", "#ffffff", Rectangle(4, 9, 6, 9))
    handle = find_handle([box], (6.0, 7.0), (10.0, 10.0))
    assert drag(handle, (8.0, 4.0)) == Rectangle(6, 11, 3, 6)


def test_lines_lie_on_the_rings():
    lines, colours = detector_lines([ADF], (4.0, 4.0))
    distance = np.hypot(*(lines[:-2, 0] - CENTER).T)
    assert len(lines) == len(colours)
    np.testing.assert_allclose(np.unique(distance.round(9)), [24.0, 44.0])
    # each line begins where the one before it ends
    ends = lines[:, 0] + lines[:, 1]
    np.testing.assert_allclose(ends[:143], lines[1:144, 0])


def test_presets_of_an_uncertain_disk_are_dashed():
    preset = DetectorView("BF", "#4dd0e1", BF.shape, preset=True)
    solid, _ = detector_lines([preset], ONE)
    dashed, _ = detector_lines([preset], ONE, dash_presets=True)
    typed, _ = detector_lines([BF], ONE, dash_presets=True)
    assert len(dashed) < len(solid) == len(typed)


def test_typed_radii_make_a_circle_or_a_ring():
    assert round_shape(CENTER, 0.0, 5.0) == Circle(CENTER, 5.0)
    assert round_shape(CENTER, 7.0, 5.0) == Annulus(CENTER, 5.0, 7.0)
