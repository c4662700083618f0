"""Which part of a virtual detector is under the pointer, and what dragging it does.

Pure functions of shapes and positions in camera pixels: the canvas asks them, tests too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from napari_4dstem.detectors import Annulus, Circle, Pair, Rectangle, Shape
from napari_4dstem.plugin.session.detector_views import DetectorView, center_of

Part = Literal["radius", "inner", "outer", "centre"]

GRAB_PIXELS = 6.0
"""How near, in pixels of the screen, the pointer must be to a ring or a centre mark."""


@dataclass(frozen=True)
class Handle:
    """The part of one detector that is dragged.

    Parameters
    ----------
    name
        Of the detector.
    part
        A ring, or the centre mark.
    shape
        The detector when it was grabbed.
    start
        Where it was grabbed, (row, col) in camera pixels.
    """

    name: str
    part: Part
    shape: Shape
    start: Pair


def find_handle(
    detectors: Sequence[DetectorView],
    position: Pair,
    pixel_size: Pair,
    active: str | None = None,
    reach: float = GRAB_PIXELS,
) -> Handle | None:
    """Return the handle under the pointer.

    Parameters
    ----------
    detectors
        Hidden ones have no handles.
    position
        Of the pointer, (row, col) in camera pixels.
    pixel_size
        Height and width of one camera pixel in pixels of the screen.
    active
        Its centre mark is preferred: detectors often share their centre.
    reach
        How near is near enough, in pixels of the screen.

    Returns
    -------
    Handle or None
        Of the smallest detector whose ring or centre is in reach; a ring before a centre.
    """
    visible = sorted((d for d in detectors if d.visible), key=lambda d: _extent(d.shape))
    scale = (abs(pixel_size[0]) + abs(pixel_size[1])) / 2
    for detector in visible:
        rings = _rings(detector.shape)
        center = center_of(detector.shape)
        if center is None or not rings:
            continue
        distance = math.dist(position, center)
        part, radius = min(rings, key=lambda ring: abs(ring[1] - distance))
        if abs(radius - distance) * scale <= reach and distance * scale > reach / 2:
            return Handle(detector.name, part, detector.shape, position)
    for detector in sorted(visible, key=lambda d: d.name != active):
        center = center_of(detector.shape)
        if center is None:
            continue
        away = math.hypot(
            (position[0] - center[0]) * pixel_size[0], (position[1] - center[1]) * pixel_size[1]
        )
        if away <= reach:
            return Handle(detector.name, "centre", detector.shape, position)
    return None


def drag(handle: Handle, position: Pair) -> Shape:
    """Return the grabbed detector after the pointer moved to `position` (camera pixels).

    The grabbed point stays under the pointer: a press beside a ring does not make it jump.
    """
    shape, start = handle.shape, handle.start
    center = center_of(shape)
    if center is None:
        return shape
    if handle.part == "centre":
        moved = (center[0] + position[0] - start[0], center[1] + position[1] - start[1])
        return shape.with_center(moved) if hasattr(shape, "with_center") else shape
    grown = math.dist(position, center) - math.dist(start, center)
    if isinstance(shape, Circle):
        return shape.with_radius(shape.radius + grown)
    if isinstance(shape, Annulus) and handle.part == "inner":
        return shape.with_inner(shape.inner + grown)
    if isinstance(shape, Annulus):
        return shape.with_outer(shape.outer + grown)
    return shape


def _rings(shape: Shape) -> list[tuple[Part, float]]:
    if isinstance(shape, Circle):
        return [("radius", shape.radius)]
    if isinstance(shape, Annulus):
        return [("outer", shape.outer), ("inner", shape.inner)]
    return []


def _extent(shape: Shape) -> float:
    rings = _rings(shape)
    if rings:
        return max(radius for _, radius in rings)
    if isinstance(shape, Rectangle):
        return max(shape.r1 - shape.r0, shape.c1 - shape.c0) / 2
    return math.inf
