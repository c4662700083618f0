"""The plain shapes of virtual detectors and scan regions: points, circles, annuli, rectangles.

One place decides which pixel belongs to which shape, so that the GUI, the command line, the
coded-data kernels and the dense reference all sum the same pixels. Pixel ``i`` is centred at
``i``; every pair is (row, col); a pixel belongs to a shape when its *centre* does. Users of the
shapes import `napari_4dstem.detectors`, which adds polygons, masks and the text forms.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import UsageError

Pair = tuple[float, float]
Box = tuple[int, int, int, int]

# Far beyond any camera or scan, and small enough that squared distances stay far from overflow.
_LIMIT = 1e9


def finite_number(value: float, name: str) -> float:
    """Return a coordinate or length as float, or raise UsageError."""
    number = float(value)
    if not abs(number) <= _LIMIT:  # also catches NaN
        raise UsageError(
            f"The {name} of a shape must be a finite number of pixels", found=f"{value}"
        )
    return number


def _radius(value: float, name: str) -> float:
    number = finite_number(value, name)
    if number < 0:
        raise UsageError(f"The {name} of a shape cannot be negative", found=f"{value:g} px")
    return number


def pair(value: Iterable[float], name: str) -> Pair:
    """Return a (row, col) position of plain floats, or raise UsageError."""
    numbers = tuple(finite_number(v, name) for v in value)
    if len(numbers) != 2:
        raise UsageError(
            f"The {name} of a shape must be (row, col)", found=f"{len(numbers)} values"
        )
    return numbers[0], numbers[1]


def _plane(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2 or min(shape) < 1:
        raise UsageError("A mask needs the (rows, columns) of its plane", found=f"{tuple(shape)}")
    return int(shape[0]), int(shape[1])


def nearest_pixel(position: Pair) -> tuple[int, int]:
    """Return the pixel whose centre is nearest to a (row, col) position.

    Pixel ``i`` owns ``i - 0.5 <= x < i + 0.5``; the result may lie outside the camera.
    """

    def nearest(x: float) -> int:
        # Not floor(x + 0.5): that sum rounds up for the float just below one half.
        low = math.floor(x)
        return low + 1 if x - low >= 0.5 else low

    return nearest(position[0]), nearest(position[1])


def exact_text(*numbers: float) -> str:
    """Return numbers separated by commas, every bit kept."""
    return ",".join(repr(float(n)).removesuffix(".0") for n in numbers)


def length_text(pixels: float, step: float) -> str:
    """Return a length for people, in units of ``step`` per pixel."""
    return f"{pixels * step:.4g}"


def position_text(position: Pair) -> str:
    """Return a (row, col) position for people, in pixels."""
    return f"({position[0]:.4g}, {position[1]:.4g})"


class Shape(ABC):
    """Base of all virtual detectors and scan regions.

    Shapes are immutable: dragging one makes a new one (``with_center``, ``with_radius``, ...).
    """

    @abstractmethod
    def _window(self) -> tuple[float, float, float, float]:
        """Smallest and largest row and column that may belong to the shape, both included."""

    @abstractmethod
    def _inside(self, rows: NDArray[np.float64], cols: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which pixel centres belong to the shape; ``rows`` is (n, 1), ``cols`` is (1, m)."""

    @abstractmethod
    def _describe(self, unit: str, step: float) -> str:
        """See `describe`."""

    @abstractmethod
    def _form(self) -> str:
        """See `to_text`."""

    def describe(self, unit: str = "px", step: float = 1.0) -> str:
        """Return one line for people.

        Parameters
        ----------
        unit, step
            Unit of lengths and its size per pixel, for example ``("mrad", 1.26)``. Positions are
            always given in pixels.
        """
        return self._describe(unit, step)

    def to_text(self) -> str:
        """Return the form that `parse` reads back, for example ``"circle:51,43,17.5"``."""
        return self._form()

    def mask(self, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """Return the pixels of the shape.

        Parameters
        ----------
        shape
            (rows, columns) of the camera or scan plane.

        Returns
        -------
        ndarray of bool, of the given shape
            True where the pixel belongs to the shape.
        """
        height, width = _plane(shape)
        mask = np.zeros((height, width), np.bool_)
        low_row, high_row, low_col, high_col = self._window()
        # One pixel of margin: the window's own rounding must not decide about a pixel.
        r0, r1 = max(0, math.floor(low_row) - 1), min(height, math.ceil(high_row) + 2)
        c0, c1 = max(0, math.floor(low_col) - 1), min(width, math.ceil(high_col) + 2)
        if r0 < r1 and c0 < c1:
            rows = np.arange(r0, r1, dtype=np.float64)[:, None]
            cols = np.arange(c0, c1, dtype=np.float64)[None, :]
            mask[r0:r1, c0:c1] = self._inside(rows, cols)
        return mask

    def bounding_box(self, shape: tuple[int, int]) -> Box | None:
        """Return the smallest half-open (r0, r1, c0, c1) that holds the mask, None if empty."""
        mask = self.mask(shape)
        rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if rows.size == 0:
            return None
        return int(rows[0]), int(rows[-1]) + 1, int(cols[0]), int(cols[-1]) + 1

    def empty_reason(self, shape: tuple[int, int], plane: str = "camera") -> str | None:
        """Return why the shape holds no pixel of the plane, None if it holds one.

        Parameters
        ----------
        shape
            (rows, columns) of the plane.
        plane
            How the plane is called: ``"camera"`` or ``"scan"``.
        """
        if self.mask(shape).any():
            return None
        low_row, high_row, low_col, high_col = self._window()
        meets_rows = high_row >= -0.5 and low_row < shape[0] - 0.5
        meets_cols = high_col >= -0.5 and low_col < shape[1] - 0.5
        if meets_rows and meets_cols:
            return f"holds no pixel of the {shape[0]} x {shape[1]} {plane}"
        return f"lies outside the {shape[0]} x {shape[1]} {plane}"


@dataclass(frozen=True)
class Point(Shape):
    """The pixel whose centre is nearest to a (row, col) position."""

    center: Pair

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", pair(self.center, "centre"))

    def _window(self) -> tuple[float, float, float, float]:
        row, col = nearest_pixel(self.center)
        return row, row, col, col

    def _inside(self, rows: NDArray[np.float64], cols: NDArray[np.float64]) -> NDArray[np.bool_]:
        row, col = nearest_pixel(self.center)
        return np.asarray((rows == row) & (cols == col))

    def _describe(self, unit: str, step: float) -> str:
        row, col = nearest_pixel(self.center)
        return f"pixel ({row}, {col})"

    def _form(self) -> str:
        return f"point:{exact_text(*self.center)}"

    def with_center(self, center: Pair) -> Point:
        """Return the point moved to another (row, col)."""
        return replace(self, center=center)


class _Round(Shape):
    """What circle and annulus share: float64 squared distances from a centre."""

    center: Pair

    @property
    @abstractmethod
    def _reach(self) -> tuple[float, float]:
        """(inner, outer) radius in pixels; inner = 0 means a full circle."""

    def _window(self) -> tuple[float, float, float, float]:
        (row, col), (near_row, near_col) = self.center, nearest_pixel(self.center)
        outer = self._reach[1]
        # The nearest pixel is always looked at: a circle without a pixel centre becomes it.
        return (
            min(row - outer, near_row),
            max(row + outer, near_row),
            min(col - outer, near_col),
            max(col + outer, near_col),
        )

    def _inside(self, rows: NDArray[np.float64], cols: NDArray[np.float64]) -> NDArray[np.bool_]:
        inner, outer = self._reach
        squared = (rows - self.center[0]) ** 2 + (cols - self.center[1]) ** 2
        inside = squared <= outer * outer
        if inner > 0:
            return inside & (squared > inner * inner)
        if not inside.any():
            row, col = nearest_pixel(self.center)
            inside = (rows == row) & (cols == col)
        return inside


@dataclass(frozen=True)
class Circle(_Round):
    """The pixels at a distance ``d <= radius`` (in pixels) from a (row, col) centre.

    A circle that holds no pixel centre becomes its nearest pixel if that lies on the plane.
    """

    center: Pair
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", pair(self.center, "centre"))
        object.__setattr__(self, "radius", _radius(self.radius, "radius"))

    @property
    def _reach(self) -> tuple[float, float]:
        return 0.0, self.radius

    def _describe(self, unit: str, step: float) -> str:
        radius = length_text(self.radius, step)
        return f"circle at {position_text(self.center)}, radius {radius} {unit}"

    def _form(self) -> str:
        return f"circle:{exact_text(*self.center, self.radius)}"

    def with_center(self, center: Pair) -> Circle:
        """Return the circle moved to another (row, col)."""
        return replace(self, center=center)

    def with_radius(self, radius: float) -> Circle:
        """Return the circle with another radius in pixels; a negative one becomes 0."""
        return replace(self, radius=max(0.0, radius))


@dataclass(frozen=True)
class Annulus(_Round):
    """The pixels with ``inner < d <= outer`` (in pixels) about a (row, col) centre.

    ``inner = 0`` is the full circle, its centre included. ``Circle(c, r)`` and
    ``Annulus(c, r, R)`` therefore share no pixel and together are ``Circle(c, R)``, whenever the
    inner circle holds a pixel centre.
    """

    center: Pair
    inner: float
    outer: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", pair(self.center, "centre"))
        object.__setattr__(self, "inner", _radius(self.inner, "inner radius"))
        object.__setattr__(self, "outer", _radius(self.outer, "outer radius"))
        if self.inner > self.outer:
            raise UsageError(
                "The inner radius of an annulus is larger than its outer radius",
                found=f"inner {self.inner:g} px, outer {self.outer:g} px",
            )

    @property
    def _reach(self) -> tuple[float, float]:
        return self.inner, self.outer

    def _describe(self, unit: str, step: float) -> str:
        radii = f"{length_text(self.inner, step)} to {length_text(self.outer, step)} {unit}"
        return f"annulus at {position_text(self.center)}, radii {radii}"

    def _form(self) -> str:
        return f"annulus:{exact_text(*self.center, self.inner, self.outer)}"

    def with_center(self, center: Pair) -> Annulus:
        """Return the annulus moved to another (row, col)."""
        return replace(self, center=center)

    def with_inner(self, inner: float) -> Annulus:
        """Return the annulus with another inner radius; a dragged ring stops at the other one."""
        return replace(self, inner=min(max(0.0, inner), self.outer))

    def with_outer(self, outer: float) -> Annulus:
        """Return the annulus with another outer radius; a dragged ring stops at the other one."""
        return replace(self, outer=max(outer, self.inner))


@dataclass(frozen=True)
class Rectangle(Shape):
    """The pixels with ``r0 <= row < r1`` and ``c0 <= col < c1``.

    Edges are whole numbers, as in a slice; others are rounded to the nearest (dragging).
    """

    r0: int
    r1: int
    c0: int
    c1: int

    def __post_init__(self) -> None:
        for name in ("r0", "r1", "c0", "c1"):
            edge = finite_number(getattr(self, name), "edge")
            object.__setattr__(self, name, nearest_pixel((edge, 0.0))[0])
        if self.r0 > self.r1 or self.c0 > self.c1:
            raise UsageError(
                "A rectangle must end after it begins",
                expected="r0 <= r1 and c0 <= c1, ends not included",
                found=f"rows {self.r0} to {self.r1}, columns {self.c0} to {self.c1}",
            )

    def _window(self) -> tuple[float, float, float, float]:
        return self.r0, self.r1 - 1, self.c0, self.c1 - 1

    def _inside(self, rows: NDArray[np.float64], cols: NDArray[np.float64]) -> NDArray[np.bool_]:
        return (rows >= self.r0) & (rows < self.r1) & (cols >= self.c0) & (cols < self.c1)

    def _describe(self, unit: str, step: float) -> str:
        height = length_text(self.r1 - self.r0, step)
        width = length_text(self.c1 - self.c0, step)
        return f"rectangle at ({self.r0}, {self.c0}), {height} x {width} {unit}"

    def _form(self) -> str:
        return f"rect:{self.r0},{self.r1},{self.c0},{self.c1}"

    @property
    def center(self) -> Pair:
        """(row, col) of the middle, in pixel-centre coordinates."""
        return (self.r0 + self.r1 - 1) / 2, (self.c0 + self.c1 - 1) / 2

    def with_center(self, center: Pair) -> Rectangle:
        """Return a rectangle of the same size about another (row, col), on whole pixels."""
        row, col = nearest_pixel((center[0] - self.center[0], center[1] - self.center[1]))
        return Rectangle(self.r0 + row, self.r1 + row, self.c0 + col, self.c1 + col)

    @classmethod
    def between(cls, corner: Pair, opposite: Pair) -> Rectangle:
        """Return the rectangle that holds the pixels under two dragged corners, both included."""
        (row_a, col_a), (row_b, col_b) = nearest_pixel(corner), nearest_pixel(opposite)
        return cls(
            min(row_a, row_b), max(row_a, row_b) + 1, min(col_a, col_b), max(col_a, col_b) + 1
        )
