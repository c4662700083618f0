"""Outlines of virtual detectors as short straight lines in camera pixels; no napari."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.detectors import Pair, Polygon, Rectangle, Shape
from napari_4dstem.plugin.session.detector_views import DetectorView, center_of, radii

Lines = NDArray[np.float64]

_RING_LINES = 144
_MARK_PIXELS = 6.0
# The active detector's rings are drawn twice, this far apart: a thicker line.
_THICKEN_PIXELS = 1.2
_QUIET_OPACITY = 0.75


def detector_lines(
    detectors: Sequence[DetectorView],
    pixel_size: Pair,
    *,
    active: str | None = None,
    dash_presets: bool = False,
) -> tuple[Lines, NDArray[np.float64]]:
    """Return the lines that draw detectors, and their colours.

    Parameters
    ----------
    detectors
        All of them are drawn, the active one last.
    pixel_size
        Height and width of one camera pixel in pixels of the screen: marks have a fixed size
        there.
    active
        Name of the detector that is drawn thicker.
    dash_presets
        Draw detectors that are still presets dashed, because their disk is uncertain.

    Returns
    -------
    lines, colours
        float64 (n, 2, 2): start and extent of each line, (row, col) in camera pixels; and
        float64 (n, 4): RGBA from 0 to 1.
    """
    size = max(1e-9, (pixel_size[0] + pixel_size[1]) / 2)
    lines, colours = [np.zeros((0, 2, 2))], [np.zeros((0, 4))]
    marked: set[Pair] = set()
    for detector in sorted(detectors, key=lambda d: d.name == active):
        is_active = detector.name == active
        widen = (0.0, _THICKEN_PIXELS / size) if is_active else (0.0,)
        parts = [_outline(detector.shape, extra) for extra in widen]
        if dash_presets and detector.preset:
            parts = [_dashed(part) for part in parts]
        center = center_of(detector.shape)
        if center is not None and (is_active or center not in marked):
            marked.add(center)
            parts.append(_cross(center, _MARK_PIXELS / size))
        drawn = np.concatenate(parts)
        colour = (*_rgb(detector.colour), 1.0 if is_active else _QUIET_OPACITY)
        lines.append(drawn)
        colours.append(np.tile(np.array(colour), (len(drawn), 1)))
    return np.concatenate(lines), np.concatenate(colours)


def _outline(shape: Shape, extra: float) -> Lines:
    both, center = radii(shape), center_of(shape)
    if both is not None and center is not None:
        rings = [_ring(center, radius + extra) for radius in both if radius > 0]
        return np.concatenate(rings) if rings else np.zeros((0, 2, 2))
    if isinstance(shape, Rectangle):
        top, bottom = shape.r0 - 0.5, shape.r1 - 0.5
        left, right = shape.c0 - 0.5, shape.c1 - 0.5
        return _closed(np.array([(top, left), (top, right), (bottom, right), (bottom, left)]))
    if isinstance(shape, Polygon):
        return _closed(np.asarray(shape.vertices, np.float64))
    return np.zeros((0, 2, 2))


def _ring(center: Pair, radius: float) -> Lines:
    angle = np.linspace(0.0, 2 * np.pi, _RING_LINES, endpoint=False)
    directions = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    return _closed(np.asarray(center, np.float64) + radius * directions)


def _closed(corners: NDArray[np.float64]) -> Lines:
    return np.stack([corners, np.roll(corners, -1, axis=0) - corners], axis=1)


def _dashed(lines: Lines) -> Lines:
    """Leave out every other four lines of a ring; a straight outline stays."""
    if len(lines) < _RING_LINES:
        return lines
    return lines[np.arange(len(lines)) % 8 < 4]


def _cross(center: Pair, arm: float) -> Lines:
    row, column = center
    return np.array([((row - arm, column), (2 * arm, 0.0)), ((row, column - arm), (0.0, 2 * arm))])


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
