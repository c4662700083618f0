"""The search for the bright-field disk in one field, and the judgement of what was found.

A nanobeam pattern holds many disks, which may overlap; a beam stop may hide a part; counts may be
few. So several first guesses are measured, the one with most evidence wins, and everything that
could make it wrong is asked for before it is called certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.detectors import Circle
from napari_4dstem.disk_edges import (
    CircleFit,
    Edges,
    Field,
    circle_by_vote,
    connected,
    fit_circle,
    outline,
    smooth,
    trace,
)

# First guesses: the outline round the brightest peak of a pattern blurred by so many pixels, at
# so many parts of the peak's height.
_BLURS = (1.0, 2.0, 4.0)
_HEIGHTS = (0.3, 0.5, 0.7)

# Lengths of arc to average over, in pixels: the first that gives a certain disk is enough.
_ARCS = (1.5, 4.0, 8.0)
_QUICK_ARC = 4.0


@dataclass(frozen=True)
class Disk:
    """The bright-field disk of a pattern.

    Attributes
    ----------
    center
        (row, col) in pixels; pixel i is centred at i.
    radius
        To the half-height of the edge, in pixels.
    residual
        Root mean square distance of the edge from the circle, in pixels; NaN if none was found.
    certain
        Whether the circle can be used unseen; False: draw it dashed until a person accepts it.
    reason
        Why it is not certain, in words; empty if it is.
    """

    center: tuple[float, float]
    radius: float
    residual: float
    certain: bool
    reason: str


@dataclass(frozen=True)
class DiskFit:
    """A disk with the evidence for it: share of the edge seen times its height in counts."""

    disk: Disk
    evidence: float

    @property
    def circle(self) -> Circle:
        """The disk's outline."""
        return Circle(self.disk.center, self.disk.radius)


def search(field: Field) -> Disk | None:
    """Return the disk of a field, None if there is nothing round in it."""
    fits = _ranked(measure(field, start) for start in _shortlist(field))
    return _doubted(field, fits) if fits else None


def _candidates(field: Field) -> list[Circle]:
    """Return circles round the brightest peak, at several blurs and heights."""
    found: list[Circle] = []
    for blur in _BLURS:
        if blur > min(field.shape) / 12 and blur > _BLURS[0]:
            break
        blurred = smooth(field, blur)
        known = np.isfinite(blurred)
        if not known.any():
            break
        inside = np.where(known, blurred, -np.inf)
        peak = np.unravel_index(int(np.argmax(inside)), inside.shape)
        floor = float(np.nanpercentile(blurred, 10))
        seed = np.zeros(field.shape, np.bool_)
        seed[peak] = True
        for height in _HEIGHTS:
            area = inside > floor + height * (inside[peak] - floor)
            if not area[peak]:  # a field as flat as this has no peak
                continue
            circle = circle_by_vote(*outline(connected(area, seed), known), 1.2)
            if circle is not None and not any(_alike(circle, other) for other in found):
                found.append(circle)
    return found


def _shortlist(field: Field) -> list[Circle]:
    """Return the few different circles that a quick look finds most evidence for."""
    fits = _ranked(_quick(field, circle) for circle in _candidates(field))
    found: list[Circle] = []
    for fit in fits:
        worth = fit.evidence > 0.5 * fits[0].evidence
        if worth and not any(_alike(fit.circle, other) for other in found):
            found.append(fit.circle)
    return found[:3]


def _ranked(fits: Iterable[DiskFit | None]) -> list[DiskFit]:
    return sorted((f for f in fits if f is not None), key=lambda f: -f.evidence)


def _alike(a: Circle, b: Circle) -> bool:
    allowed = max(1.0, 0.08 * b.radius)
    return _apart(a, b) < allowed and abs(a.radius - b.radius) < allowed


def _apart(a: Circle, b: Circle) -> float:
    return float(np.hypot(a.center[0] - b.center[0], a.center[1] - b.center[1]))


def measure(field: Field, start: Circle) -> DiskFit | None:
    """Measure the disk about a first guess, averaging along its edge no more than needed.

    Parameters
    ----------
    field
        The pattern.
    start
        A circle within about a quarter of its radius of the edge.

    Returns
    -------
    DiskFit or None
        None if there is no edge near the guess.
    """
    best: DiskFit | None = None
    for arc in _ARCS:
        if best is not None and arc > 0.7 * best.disk.radius:
            break
        fit = _careful(field, start, arc)
        if fit is None:
            continue
        if best is None or fit.disk.certain or fit.disk.residual < best.disk.residual:
            best = fit
        if fit.disk.certain:
            break
    return best


@dataclass(frozen=True)
class _Traced:
    """The edges found about a circle and the circle through them."""

    fit: CircleFit
    edges: Edges
    usable: NDArray[np.bool_]

    @property
    def reach(self) -> float:
        """How far from the edge the next look should take its levels, in pixels."""
        widest = 2.0 + 0.25 * self.fit.circle.radius
        return float(np.clip(0.7 * self.edges.width + 0.5, 1.5, widest))


def _traced(field: Field, circle: Circle, reach: float, arc: float) -> _Traced | None:
    if not 1.5 <= circle.radius <= 0.75 * max(field.shape):
        return None
    levels = float(np.clip(0.15 * circle.radius, 1.5, 5.0))
    edges = trace(field, circle, reach, levels, arc)
    # A much lower step than on most rays: a beam stop, or the edge of something else.
    height = np.nan_to_num(edges.contrast, nan=0.0)
    if np.count_nonzero(height) < 12:
        return None
    usable = height > 0.65 * float(np.percentile(height[height > 0], 75))
    if np.count_nonzero(usable) < 12:
        return None
    fit = fit_circle(edges.rows[usable], edges.cols[usable], circle)
    return None if fit is None else _Traced(fit, edges, usable)


def _first_look(field: Field, start: Circle, arc: float) -> _Traced | None:
    """Look far about a guess; the edges vote on a circle before one is fitted to them."""
    traced = _traced(field, start, max(3.0, 0.25 * start.radius), arc)
    if traced is None:
        return None
    rows, cols = traced.edges.rows[traced.usable], traced.edges.cols[traced.usable]
    voted = circle_by_vote(rows, cols, max(0.6, 0.03 * start.radius))
    fit = fit_circle(rows, cols, voted or start)
    return None if fit is None else replace(traced, fit=fit)


def _quick(field: Field, start: Circle) -> DiskFit | None:
    first = _first_look(field, start, _QUICK_ARC)
    if first is None:
        return None
    second = _traced(field, first.fit.circle, first.reach, _QUICK_ARC)
    return None if second is None else _judged(field, second, drift=0.0)


def _careful(field: Field, start: Circle, arc: float) -> DiskFit | None:
    """Follow the edge from a first guess until it stays where it is."""
    traced = _first_look(field, start, arc)
    for turn in range(7):
        if traced is None:
            return None
        before = traced.fit.circle
        traced = _traced(field, before, traced.reach, arc)
        if traced is not None and turn > 0:
            after = traced.fit.circle
            if max(_apart(before, after), abs(before.radius - after.radius)) < 0.01:
                break
    return None if traced is None else _judged(field, traced, _drift(field, traced, arc))


def _drift(field: Field, traced: _Traced, arc: float) -> float:
    """How much the result depends on where the levels are taken; above 1 is too much.

    A slope or another disk near the edge moves the half-way level, and would do so unseen: the
    edge is still a perfect circle.
    """
    circle = traced.fit.circle
    other = _traced(field, circle, 1.5 * traced.reach + 0.25, arc)
    if other is None:
        return np.inf
    grown = abs(other.fit.circle.radius - circle.radius) / (0.009 * circle.radius)
    return max(grown, _apart(other.fit.circle, circle) / 0.15)


def _judged(field: Field, traced: _Traced, drift: float) -> DiskFit:
    """Say what was found and how far it can be trusted."""
    good = traced.usable.copy()
    good[traced.usable] = traced.fit.good
    circle, residual = traced.fit.circle, traced.fit.residual
    contrast = float(np.median(traced.edges.contrast[good])) if good.any() else 0.0
    reason = _doubt(field.shape, traced, good, contrast)
    if not reason and drift > 1:
        reason = "where its edge lies depends on what is near to it"
    # Interpolating between pixels blurs by about half a pixel, which draws the half-height of a
    # convex edge inwards by half the blur's square over the radius.
    radius = circle.radius + 0.12 / circle.radius
    disk = Disk(circle.center, radius, residual, certain=not reason, reason=reason)
    return DiskFit(disk, float(good.mean()) * contrast)


def _doubt(
    shape: tuple[int, int], traced: _Traced, good: NDArray[np.bool_], contrast: float
) -> str:
    """Return what speaks against a fit, "" if nothing does."""
    (row, col), radius = traced.fit.circle.center, traced.fit.circle.radius
    edges, residual = traced.edges, traced.fit.residual
    inner_most = min(row, col, shape[0] - 1 - row, shape[1] - 1 - col)
    seen = float(good.mean())
    if radius < 2.5:
        return "it is smaller than 2.5 px"
    if radius > inner_most + 0.5:
        return "it is cut by the frame of the camera"
    if residual > 0.5:
        return f"its edge is not round: {residual:.2f} px off the circle"
    if seen < 0.6 or _gap(good) > 0.3:
        return f"only {100 * seen:.0f} % of its edge can be seen"
    if contrast <= 0.25 * edges.level:
        return "it is hardly brighter than its surroundings"
    uneven = float(np.std(edges.contrast[good])) / contrast
    if uneven * edges.width > 0.035 * radius:
        return "the levels along its edge vary too much for its size"
    # A blur by s moves the half-height of a circle's edge by s^2 / 2r, here by about 1 % of the
    # radius, and a slope of the level inside moves it by as much again.
    if edges.width > 0.3 * radius:
        return f"its edge is not sharp: {edges.width:.1f} px wide"
    independent = np.count_nonzero(good) / edges.spread
    error = residual / np.sqrt(max(independent - 3, 0.1))
    if error > 0.05 or error > 0.005 * radius:
        return "the counts are too few to place its edge"
    return ""


def _gap(good: NDArray[np.bool_]) -> float:
    """Largest part of the turn without a good ray."""
    at = np.flatnonzero(good)
    steps = np.diff(np.append(at, at[0] + good.size)) if at.size else np.array([good.size + 1])
    return float(steps.max() - 1) / good.size


def _doubted(field: Field, fits: list[DiskFit]) -> Disk:
    """Return the best fit, uncertain if the pattern has another as good."""
    best, disk = fits[0], fits[0].disk
    if not disk.certain:
        return disk
    for other in fits[1:]:
        rival = other.evidence > 0.7 * best.evidence and other.disk.certain
        if rival and not _alike(other.circle, best.circle):
            return replace(disk, certain=False, reason="two circles fit about equally well")
    rows, cols = np.ogrid[: field.shape[0], : field.shape[1]]
    distance = np.hypot(rows - disk.center[0], cols - disk.center[1])
    within = (distance < 0.8 * disk.radius) & (field.weight > 0)
    if not within.any():
        return replace(disk, certain=False, reason="its inside is hidden")
    beyond = Field(field.values, field.weight * (distance > 1.15 * disk.radius + 1))
    around = smooth(beyond, max(1.0, disk.radius / 3))
    brightest = float(np.max(np.nan_to_num(around, nan=-np.inf)))
    if brightest > 0.75 * float(np.median(field.values[within])):
        return replace(disk, certain=False, reason="another part of the pattern is as bright")
    return disk
