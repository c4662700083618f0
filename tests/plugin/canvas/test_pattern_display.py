from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Image
from napari.utils.colormaps import ensure_colormap

from napari_4dstem.plugin.canvas.pattern_display import GAMMAS, BrightnessCurve, log_colormap


def shown(layer, counts):
    """Colour that napari's lookup gives to counts: limits, gamma, colour map."""
    low, high = layer.contrast_limits
    place = np.clip((np.asarray(counts, float) - low) / (high - low), 0, 1) ** layer.gamma
    return layer.colormap.map(place)


@pytest.fixture
def layer():
    return Image(np.zeros((4, 5), np.uint16), contrast_limits=(0, 60000), colormap="gray")


def test_sqrt_and_log_are_what_they_say(layer):
    counts = np.array([0, 1, 2, 5, 30, 400, 9000, 60000])
    curve = BrightnessCurve(layer)
    curve.set_scale("sqrt")
    np.testing.assert_allclose(shown(layer, counts)[:, 0], np.sqrt(counts / 60000), atol=2e-3)
    curve.set_scale("log")
    expected = np.log1p(counts) / np.log1p(60000)
    np.testing.assert_allclose(shown(layer, counts)[:, 0], expected, atol=5e-3)
    curve.set_scale("linear")
    np.testing.assert_allclose(shown(layer, counts)[:, 0], counts / 60000, atol=2e-3)
    assert layer.colormap.name == "gray"


def test_the_logarithm_follows_new_limits_and_new_colours(layer):
    curve = BrightnessCurve(layer)
    curve.set_scale("log")
    layer.contrast_limits = (0, 99)
    assert shown(layer, [9])[0, 0] == pytest.approx(0.5, abs=5e-3)
    layer.colormap = "inferno"
    middle = ensure_colormap("inferno").map(np.array([0.5]))
    np.testing.assert_allclose(shown(layer, [9]), middle, atol=0.02)
    curve.set_scale("linear")
    assert layer.colormap.name == "inferno"
    assert layer.gamma == 1


def test_a_gamma_set_by_hand_keeps_the_logarithm(layer):
    curve = BrightnessCurve(layer)
    layer.contrast_limits = (0, 99)
    curve.set_scale("log")
    colours = log_colormap(ensure_colormap("gray"), 99.0, GAMMAS["log"])
    np.testing.assert_allclose(layer.colormap.map(np.array([0.3])), colours.map(np.array([0.3])))
