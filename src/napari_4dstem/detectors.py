"""Virtual detectors and scan regions: frozen values that become exact pixel masks.

The public face of the shapes: the plain ones of `napari_4dstem.shapes`, polygons and free masks,
the text forms of the command line, and the tiles that a mask touches (the coded data are read
tile by tile). The same shapes describe detectors on the camera and regions on the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_4dstem.errors import UsageError
from napari_4dstem.shapes import (
    Annulus,
    Box,
    Circle,
    Pair,
    Point,
    Rectangle,
    Shape,
    exact_text,
    nearest_pixel,
    pair,
    position_text,
)

__all__ = [
    "FORMS",
    "Annulus",
    "Box",
    "Circle",
    "Mask",
    "Pair",
    "Point",
    "Polygon",
    "Rectangle",
    "Shape",
    "TileCover",
    "nearest_pixel",
    "parse",
    "tile_cover",
]

FORMS = (
    "point:ROW,COL",
    "circle:ROW,COL,RADIUS",
    "annulus:ROW,COL,INNER,OUTER",
    "rect:R0,R1,C0,C1",
    "polygon:ROW,COL,ROW,COL,ROW,COL,...",
    "mask:FILE.npy",
)
"""The text forms that `parse` reads, in pixels; pixel i is centred at i."""


@dataclass(frozen=True)
class Polygon(Shape):
    """The pixels whose centres lie inside a closed polygon of (row, col) vertices.

    Inside is even-odd: a line that crosses itself encloses a hole. Pixel centres exactly on an
    edge belong to the polygon on its top and left sides and not on its bottom and right sides, so
    polygons that share an edge share no pixel, and the polygon of a rectangle's corners is the
    half-open rectangle. The rule is evaluated in whole-number arithmetic: no rounding decides.
    """

    vertices: tuple[Pair, ...]

    def __post_init__(self) -> None:
        vertices = tuple(pair(v, "vertex") for v in self.vertices)
        if len(vertices) < 3:
            raise UsageError("A polygon needs three vertices or more", found=f"{len(vertices)}")
        object.__setattr__(self, "vertices", vertices)

    def _window(self) -> tuple[float, float, float, float]:
        rows, cols = zip(*self.vertices, strict=True)
        return min(rows), max(rows), min(cols), max(cols)

    def _inside(self, rows: NDArray[np.float64], cols: NDArray[np.float64]) -> NDArray[np.bool_]:
        first_row, first_col, width = int(rows[0, 0]), int(cols[0, 0]), cols.shape[1]
        # crossings[i, k]: edges that row i meets just right of its first k pixel centres.
        crossings = np.zeros((rows.shape[0], width + 1), np.int64)
        for row, col in self._crossings(first_row, first_row + rows.shape[0]):
            crossings[row - first_row, min(max(col - first_col, 0), width)] += 1
        to_the_right = np.cumsum(crossings[:, :0:-1], axis=1)[:, ::-1]
        return np.asarray(to_the_right % 2 == 1)

    def _crossings(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield (row, first whole column not left of the edge) for each row that an edge meets."""
        ratios = [(r.as_integer_ratio(), c.as_integer_ratio()) for r, c in self.vertices]
        # Denominators of floats are powers of two: the largest is a common one.
        scale = max(max(r[1], c[1]) for r, c in ratios)
        points = [(r[0] * scale // r[1], c[0] * scale // c[1]) for r, c in ratios]
        for (row_a, col_a), (row_b, col_b) in zip(points, points[1:] + points[:1], strict=True):
            low, high = min(row_a, row_b), max(row_a, row_b)
            rise = row_b - row_a
            for row in range(max(start, -(-low // scale)), min(stop, -(-high // scale))):
                across = col_a * rise + (row * scale - row_a) * (col_b - col_a)
                yield row, -(-across // (scale * rise))

    def _describe(self, unit: str, step: float) -> str:
        return f"polygon of {len(self.vertices)} vertices about {position_text(self.center)}"

    def _form(self) -> str:
        return f"polygon:{exact_text(*(x for vertex in self.vertices for x in vertex))}"

    @property
    def center(self) -> Pair:
        """(row, col) of the middle of the bounding box."""
        low_row, high_row, low_col, high_col = self._window()
        return (low_row + high_row) / 2, (low_col + high_col) / 2

    def with_center(self, center: Pair) -> Polygon:
        """Return the polygon moved so that its bounding box is centred at another (row, col)."""
        row, col = self.center
        d_row, d_col = center[0] - row, center[1] - col
        return Polygon(tuple((r + d_row, c + d_col) for r, c in self.vertices))

    def with_vertex(self, index: int, position: Pair) -> Polygon:
        """Return the polygon with one vertex dragged to another (row, col)."""
        vertices = list(self.vertices)
        vertices[index] = position
        return Polygon(tuple(vertices))


@dataclass(frozen=True, eq=False)
class Mask(Shape):
    """Any set of pixels, given as an array; only fits the plane of the same shape.

    Parameters
    ----------
    array
        2D, bool or whole numbers 0 and 1; True = the pixel belongs to the detector. Copied.
    file
        Where the array came from, for `to_text`.
    """

    array: NDArray[np.bool_]
    file: str = field(default="")

    def __post_init__(self) -> None:
        array = np.array(self.array)
        if array.ndim != 2 or array.size == 0 or not _is_boolean(array):
            raise UsageError(
                "A mask must be a two-dimensional array of True and False (or 1 and 0)",
                where=self.file or None,
                found=f"shape {array.shape}, dtype {array.dtype}",
            )
        array = array.astype(np.bool_)
        array.flags.writeable = False
        object.__setattr__(self, "array", array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, np.packbits(self.array).tobytes()))

    def _window(self) -> tuple[float, float, float, float]:
        return 0, self.array.shape[0] - 1, 0, self.array.shape[1] - 1

    def _inside(self, rows: NDArray[np.float64], cols: NDArray[np.float64]) -> NDArray[np.bool_]:
        return self.array

    def mask(self, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """Return a copy of the mask; see `Shape.mask`."""
        if tuple(shape) != self.array.shape:
            raise UsageError(
                "The mask does not fit",
                where=self.file or None,
                expected=f"shape {tuple(shape)}",
                found=f"shape {self.array.shape}",
            )
        return self.array.copy()

    def _describe(self, unit: str, step: float) -> str:
        name = f" {Path(self.file).name}" if self.file else ""
        return f"mask{name} of {int(self.array.sum())} pixels"

    def _form(self) -> str:
        if not self.file:
            raise UsageError(
                "A mask that comes from no file has no text form",
                action="Save the array with numpy.save and give its name: Mask(array, file)",
            )
        return f"mask:{self.file}"

    @classmethod
    def load(cls, file: str | Path) -> Mask:
        """Read a mask from a ``.npy`` file."""
        try:
            array = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(
                "The mask cannot be read",
                where=file,
                expected="an array saved by numpy.save",
                found=str(error),
            ) from error
        if not isinstance(array, np.ndarray):  # an .npz archive of several arrays
            array.close()
            raise UsageError("The mask cannot be read", where=file, expected="one .npy array")
        return cls(array, str(file))


def _is_boolean(array: NDArray[np.generic]) -> bool:
    if array.dtype.kind == "b":
        return True
    return array.dtype.kind in "iu" and bool(((array == 0) | (array == 1)).all())


_BUILDERS: dict[str, tuple[int, Callable[..., Shape]]] = {
    "point": (2, lambda r, c: Point((r, c))),
    "circle": (3, lambda r, c, radius: Circle((r, c), radius)),
    "annulus": (4, lambda r, c, inner, outer: Annulus((r, c), inner, outer)),
    "rect": (4, Rectangle),
}


def parse(text: str) -> Shape:
    """Read a shape from its text form (see `FORMS`), as the command line takes it.

    Parameters
    ----------
    text
        For example ``"annulus:51,43,24,44"``: lengths and positions in pixels.

    Returns
    -------
    Shape

    Raises
    ------
    UsageError
        The text is none of the forms (they are shown), or the shape cannot be.
    """
    kind, _, rest = text.strip().partition(":")
    kind = kind.strip().lower()
    if kind == "mask" and rest.strip():
        return Mask.load(rest.strip())
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        raise _not_a_shape(text) from None
    if kind == "polygon" and len(numbers) >= 6 and len(numbers) % 2 == 0:
        return Polygon(tuple(zip(numbers[::2], numbers[1::2], strict=True)))
    count, build = _BUILDERS.get(kind, (0, Point))
    if len(numbers) != count:
        raise _not_a_shape(text)
    return build(*numbers)


def _not_a_shape(text: str) -> UsageError:
    return UsageError(
        "This is no detector or region", expected="one of " + ", ".join(FORMS), found=repr(text)
    )


@dataclass(frozen=True, eq=False)
class TileCover:
    """The tiles that a mask touches, as row-major tile numbers in rising order.

    Attributes
    ----------
    inside
        Tiles of which every pixel is selected: a stored tile sum answers for them.
    boundary
        Tiles of which some pixels are selected: they must be looked into.
    """

    inside: NDArray[np.intp]
    boundary: NDArray[np.intp]


def tile_cover(mask: ArrayLike, tile: int) -> TileCover:
    """Sort the tiles of a plane by how much of each a mask selects.

    Parameters
    ----------
    mask
        bool, (rows, columns).
    tile
        Edge of a tile in pixels; tiles at the lower and right border may be smaller.

    Returns
    -------
    TileCover
    """
    selected = np.asarray(mask, np.bool_)
    if tile < 1:
        raise UsageError("A tile holds one pixel or more", found=f"{tile}")
    rows, cols = (np.arange(0, n, tile) for n in selected.shape)
    counts = np.add.reduceat(selected, rows, axis=0, dtype=np.int64)
    counts = np.add.reduceat(counts, cols, axis=1)
    heights, widths = (
        np.minimum(tile, n - starts) for n, starts in zip(selected.shape, (rows, cols), strict=True)
    )
    full = counts == heights[:, None] * widths[None, :]
    return TileCover(np.flatnonzero(full), np.flatnonzero((counts > 0) & ~full))
