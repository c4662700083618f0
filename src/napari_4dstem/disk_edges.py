"""Where the edge of a bright disk runs: the measuring part of `napari_4dstem.disk`.

Rays leave an assumed centre; on each the edge is where the counts fall half-way from the level
just inside to the level just outside. A circle is then fitted to the edges in a way that the
rays that meet something else (a second disk, a beam stop, the frame) do not pull at it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.detectors import Circle

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Field:
    """A pattern to measure in.

    Attributes
    ----------
    values
        float64, (rows, columns); 0 where nothing is known.
    weight
        float64, (rows, columns); 1 where the value is known, else 0.
    """

    values: Floats
    weight: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.values.shape[0], self.values.shape[1]


@dataclass(frozen=True)
class Edges:
    """The edge met by each ray about a circle.

    Attributes
    ----------
    rows, cols
        float64, (rays,): position of the edge in pixels.
    contrast
        float64, (rays,): level inside minus level outside; NaN where the ray measured nothing.
    width
        Typical width of the edge (level step divided by steepest slope), in pixels.
    level
        Typical level just inside the edge.
    spread
        Number of neighbouring rays that share their counts: rays / spread are independent.
    """

    rows: Floats
    cols: Floats
    contrast: Floats
    width: float
    level: float
    spread: float


@dataclass(frozen=True)
class CircleFit:
    """A robust circle through edges.

    Attributes
    ----------
    circle
        The circle.
    good
        bool, (edges,): the edges that agree with it.
    residual
        Root mean square distance of the good edges from the circle, in pixels.
    """

    circle: Circle
    good: Bools
    residual: float


def gaussian(values: Floats, sigma: float) -> Floats:
    """Blur (rows, columns) with a Gaussian of ``sigma`` pixels; zeros lie beyond the border."""
    reach = min(int(3 * sigma + 1), max(values.shape) - 1)
    taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    taps /= taps.sum()
    for _ in range(2):
        padded = np.pad(values, ((reach, reach), (0, 0)))
        size = values.shape[0]
        blurred = taps[reach] * values
        for k in range(1, reach + 1):
            pair = padded[reach - k : reach - k + size] + padded[reach + k : reach + k + size]
            blurred += taps[reach + k] * pair
        values = np.ascontiguousarray(blurred.T)
    return values


def smooth(field: Field, sigma: float) -> Floats:
    """Return the field blurred over its known pixels only; NaN far from any of them."""
    weight = gaussian(field.weight, sigma)
    known = weight > 0.15
    blurred = gaussian(field.values * field.weight, sigma)
    return np.where(known, blurred / np.where(known, weight, 1.0), np.nan)


def sample(field: Field, rows: Floats, cols: Floats) -> Floats:
    """Return bilinear values at positions inside the field, NaN elsewhere.

    A missing pixel is replaced by its neighbours as long as half of the weight is known.
    """
    height, width = field.shape
    inside = (rows >= 0) & (rows <= height - 1) & (cols >= 0) & (cols <= width - 1)
    row0 = np.clip(np.floor(rows), 0, max(height - 2, 0)).astype(np.intp)
    col0 = np.clip(np.floor(cols), 0, max(width - 2, 0)).astype(np.intp)
    d_row, d_col = rows - row0, cols - col0
    total, known = np.zeros_like(rows), np.zeros_like(rows)
    for i, row_share in ((0, 1 - d_row), (1, d_row)):
        for j, col_share in ((0, 1 - d_col), (1, d_col)):
            at = np.minimum(row0 + i, height - 1), np.minimum(col0 + j, width - 1)
            share = row_share * col_share * field.weight[at]
            total += share * field.values[at]
            known += share
    usable = inside & (known >= 0.5)
    return np.where(usable, total / np.where(usable, known, 1.0), np.nan)


def _around(values: Floats, width: int) -> Floats:
    """Mean over ``width`` (odd) neighbouring rays, unknown samples left out."""
    if width <= 1:
        return values
    known = np.isfinite(values)
    half = width // 2

    def rolling(x: Floats) -> Floats:
        total = np.cumsum(np.concatenate([x[-half:], x, x[:half]]), axis=0)
        total[width:] -= total[:-width].copy()
        return np.asarray(total[width - 1 :])

    count = rolling(known.astype(np.float64))
    total = rolling(np.where(known, values, 0.0))
    # Half of the rays must know the sample: else the mean would stand beside the ray.
    enough = count >= 0.5 * width
    return np.where(enough, total / np.maximum(count, 1.0), np.nan)


def trace(field: Field, circle: Circle, reach: float, levels: float, arc: float) -> Edges:
    """Measure the edge along rays about a circle.

    Parameters
    ----------
    field
        The pattern.
    circle
        Where the edge is expected.
    reach
        How far from there it is looked for, in pixels.
    levels
        Length over which the levels beyond that are averaged, in pixels.
    arc
        Length of arc over which neighbouring rays are averaged, in pixels.

    Returns
    -------
    Edges
    """
    # Averaged rays need not stand closer than a third of the averaged arc.
    around = 2 * np.pi * circle.radius
    count = int(np.clip(round(around / max(1.0, arc / 3)), 48, 240))
    per_ray = around / count
    width = 2 * int(arc / per_ray / 2) + 1
    angles = np.arange(count) * (2 * np.pi / count)
    start = max(0.0, circle.radius - reach - levels)
    step = float(np.clip(reach / 12, 0.25, 1.0))
    radii = np.arange(start, circle.radius + reach + levels + step, step)
    sin, cos = np.sin(angles)[:, None], np.cos(angles)[:, None]
    profiles = sample(field, circle.center[0] + radii * sin, circle.center[1] + radii * cos)
    profiles = _around(profiles, min(width, count // 4 * 2 - 1))
    edge, contrast, slope, inner = _edge_along(profiles, radii, circle.radius, reach)
    found = np.isfinite(contrast) & (contrast > 0)
    steep = found & (slope > 0)
    typical = float(np.median(contrast[steep] / slope[steep])) if steep.any() else np.inf
    level = float(np.median(inner[found])) if found.any() else np.nan
    return Edges(
        circle.center[0] + edge * sin[:, 0],
        circle.center[1] + edge * cos[:, 0],
        np.where(found, contrast, np.nan),
        typical,
        level,
        max(width, 1.5 / per_ray),
    )


def _edge_along(
    profiles: Floats, radii: Floats, radius: float, reach: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return (edge radius, contrast, slope at the edge, level inside) of each profile."""
    step = radii[1] - radii[0]
    inner_part, outer_part = radii <= radius - reach, radii >= radius + reach
    if not inner_part.any():
        inner_part = radii <= radii[0] + 2 * step
    middle = ~inner_part & ~outer_part
    inner = profiles[:, inner_part].mean(axis=1)
    outer = profiles[:, outer_part].mean(axis=1)
    contrast = inner - outer
    # A profile above the half-way level up to the edge and below it from there on has the
    # largest running sum at the edge; noise far from the edge cannot move it there.
    above = profiles[:, middle] - 0.5 * (inner + outer)[:, None]
    contrast = np.where(np.isfinite(above).all(axis=1), contrast, np.nan)
    above = np.nan_to_num(above)
    last = np.argmax(np.cumsum(above, axis=1), axis=1)
    crossed = (last < above.shape[1] - 1) & (above[:, 0] > 0)
    ray = np.arange(above.shape[0])
    after = np.minimum(last + 1, above.shape[1] - 1)
    drop = above[ray, last] - above[ray, after]
    crossed &= drop > 0
    share = np.clip(above[ray, last] / np.where(crossed, drop, 1.0), 0.0, 1.0)
    edge = radii[middle][last] + share * step
    near, far = np.maximum(last - 2, 0), np.minimum(last + 3, above.shape[1] - 1)
    slope = (above[ray, near] - above[ray, far]) / np.maximum((far - near) * step, step)
    return edge, np.where(crossed, contrast, np.nan), slope, inner


def circle_by_vote(rows: Floats, cols: Floats, tolerance: float) -> Circle | None:
    """Return the circle through three of the points that most points lie near to.

    Parameters
    ----------
    rows, cols
        float64, (points,).
    tolerance
        Largest distance of a supporting point from the circle, in pixels.
    """
    if rows.size < 8:
        return None
    # A fixed seed: the same pattern must always give the same disk.
    picks = np.random.default_rng(0).integers(0, rows.size, (200, 3))
    (ra, rb, rc), (ca, cb, cc) = rows[picks].T, cols[picks].T
    # Perpendicular bisectors: two linear equations for the centre of each triple.
    a11, a12, a21, a22 = rb - ra, cb - ca, rc - ra, cc - ca
    b1 = 0.5 * (rb**2 - ra**2 + cb**2 - ca**2)
    b2 = 0.5 * (rc**2 - ra**2 + cc**2 - ca**2)
    det = a11 * a22 - a12 * a21
    usable = np.abs(det) > 1e-6
    det = np.where(usable, det, 1.0)
    row, col = (b1 * a22 - b2 * a12) / det, (a11 * b2 - a21 * b1) / det
    radius = np.hypot(ra - row, ca - col)
    off = np.abs(np.hypot(rows - row[:, None], cols - col[:, None]) - radius[:, None])
    # Points near a small part of a huge circle prove little: what counts is the share of the
    # circle that is supported.
    votes = (off < tolerance).sum(axis=1) * (
        usable & (radius < 2 * np.ptp(rows) + 2 * np.ptp(cols))
    )
    best = int(np.argmax(votes))
    if votes[best] < 6:
        return None
    return Circle((float(row[best]), float(col[best])), float(radius[best]))


def fit_circle(rows: Floats, cols: Floats, start: Circle) -> CircleFit | None:
    """Fit a circle to points by least squares on distances, far points left out step by step."""
    (row, col), radius = start.center, start.radius
    off = np.hypot(rows - row, cols - col) - radius
    for _ in range(12):
        distance = np.hypot(rows - row, cols - col)
        off = distance - radius
        scale = max(1.4826 * float(np.median(np.abs(off))), 0.1)
        weight = np.clip(1 - (off / (4 * scale)) ** 2, 0, None) ** 2
        away = np.maximum(distance, 1e-9)
        design = np.stack([(rows - row) / away, (cols - col) / away, np.ones_like(off)], axis=1)
        normal = design.T @ (design * weight[:, None])
        if np.linalg.det(normal) < 1e-6 * np.trace(normal) ** 3:  # a short arc fixes no circle
            return None
        step = np.linalg.solve(normal, design.T @ (weight * off))
        row, col, radius = row + step[0], col + step[1], radius + step[2]
        if np.abs(step).max() < 1e-4:
            break
    off = np.hypot(rows - row, cols - col) - radius
    scale = max(1.4826 * float(np.median(np.abs(off))), 0.1)
    good = np.abs(off) <= max(3 * scale, 0.5)
    residual = float(np.sqrt(np.mean(off[good] ** 2)))
    return CircleFit(Circle((float(row), float(col)), float(radius)), good, residual)


def connected(area: Bools, seed: Bools) -> Bools:
    """Return the part of an area that is joined to the seed through rows and columns."""
    found = area & seed
    while True:
        before = np.count_nonzero(found)
        for _ in range(2):
            # A run is a stretch of area in one row: it is joined as a whole.
            starts = area.copy()
            starts[:, 1:] &= ~area[:, :-1]
            runs = np.cumsum(starts).reshape(area.shape)
            touched = np.zeros(int(runs[-1, -1]) + 1, np.bool_)
            touched[runs[found]] = True
            found = area & touched[runs]
            area, found = area.T, found.T
        if np.count_nonzero(found) == before:
            return found


def outline(area: Bools, known: Bools) -> tuple[Floats, Floats]:
    """Return (rows, cols) of the pixels along the outer border of an area.

    Holes in the area have no part in it, nor has its border with the frame or unknown pixels.
    """
    rows, cols = np.flatnonzero(area.any(axis=1)), np.flatnonzero(area.any(axis=0))
    box = slice(rows[0], rows[-1] + 1), slice(cols[0], cols[-1] + 1)
    part = area[box]
    surrounded = np.pad(~part, 1, constant_values=True)
    corner = np.zeros_like(surrounded)
    corner[0, 0] = True
    outside = connected(surrounded, corner)
    # The padding beyond the frame of the camera is no known outside.
    reached = np.zeros((area.shape[0] + 2, area.shape[1] + 2), np.bool_)
    window = slice(box[0].start, box[0].stop + 2), slice(box[1].start, box[1].stop + 2)
    reached[window] = outside
    reached &= np.pad(known, 1)
    near = reached[window]
    touches = near[:-2, 1:-1] | near[2:, 1:-1] | near[1:-1, :-2] | near[1:-1, 2:]
    at_rows, at_cols = np.nonzero(part & touches)
    return (at_rows + rows[0]).astype(np.float64), (at_cols + cols[0]).astype(np.float64)
