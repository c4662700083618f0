"""The lazy 4D array that napari shows: patterns are made when they are asked for.

The array always gives the file's own counts. How they are shown (square root, logarithm, mean
pattern) is the business of `pattern_display`, so that napari's status bar, scripts and other
plugins never meet a transformed value.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import FourDStemError, ReleasedError, UsageError

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition

# More patterns than this are not made for one request: napari asks for the whole scan when axes
# are rolled, and would wait for it on the GUI thread.
MOST_PATTERNS = 256

_Axis = int | slice


class PatternStack:
    """A 4D array over an acquisition that reads one pattern when one is asked for.

    Parameters
    ----------
    acquisition
        Where the patterns come from. Once it is released the array gives zeros.

    Attributes
    ----------
    shape, dtype, ndim, size, chunks
        As of a NumPy array; one chunk is one pattern.
    placeholders
        Give zeros instead of waiting for a decoder that is still being compiled (the first
        seconds after opening an encoded file); the session draws anew when it is ready.
    on_problem
        Called, on any thread, with a sentence about a pattern that cannot be shown.
    """

    ndim = 4

    def __init__(self, acquisition: Acquisition) -> None:
        self.acquisition = acquisition
        rows, columns, height, width = acquisition.shape
        self.shape = (rows, columns, height, width)
        self.dtype = np.dtype(acquisition.dtype)
        self.size = rows * columns * height * width
        self.chunks = (1, 1, height, width)
        self.placeholders = False
        self.on_problem: Callable[[str], None] | None = None
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._last: tuple[tuple[int, int], NDArray[Any]] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"PatternStack({self.acquisition.name!r}, {shape}, {self.dtype})"

    def __deepcopy__(self, memo: dict[int, object]) -> PatternStack:
        """Return itself: a duplicated layer shows the same acquisition."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """Refuse to become one array of all patterns."""
        raise UsageError(
            f"The scan {self.acquisition.name} is not turned into one array of "
            f"{self.size * self.dtype.itemsize / 2**30:.3g} GiB",
            action="Take one pattern with layer.data[row, column], or use acquisition.image(...), "
            "acquisition.pattern(...) or acquisition.save(...) of layer.data.acquisition",
        )

    def last_pattern(self, row: int, column: int) -> NDArray[Any] | None:
        """Return the pattern of (row, column) if it is the one read last; reads nothing."""
        last = self._last
        return last[1] if last is not None and last[0] == (row, column) else None

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Return patterns, or a part of them, as a NumPy array.

        Parameters
        ----------
        key
            Whole numbers, slices and an ellipsis. Of a request for more than 256 patterns, zeros
            are returned and a warning is shown.
        """
        row, column, *camera = self._full_key(key)
        rows, columns = _indices(row, self.shape[0]), _indices(column, self.shape[1])
        if isinstance(row, int) and isinstance(column, int):
            return self._pattern(rows[0], columns[0])[tuple(camera)]
        shape = (len(rows), len(columns), *self.shape[2:])
        out = self._patterns(rows, columns, tuple(camera), shape)
        squeezed = tuple(0 if isinstance(axis, int) else slice(None) for axis in (row, column))
        return out[squeezed]

    def _patterns(
        self, rows: range, columns: range, camera: tuple[_Axis, ...], shape: tuple[int, ...]
    ) -> NDArray[Any]:
        # a one-element broadcast gives the shape without the bytes
        plane = np.broadcast_to(np.zeros((), self.dtype), shape[2:])[camera]
        out = np.zeros((*shape[:2], *plane.shape), self.dtype)
        if len(rows) * len(columns) > MOST_PATTERNS:
            self._tell(
                f"This view would need {len(rows) * len(columns):,} patterns at once, so it stays "
                "empty. Put the two camera axes back on the screen (2D view, axes not rolled)."
            )
            return out
        for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
            out[i, j] = self._pattern(row, column)[camera]
        return out

    def _pattern(self, row: int, column: int) -> NDArray[Any]:
        if self.placeholders and not self.acquisition.ready:
            self.acquisition.prepare()
            return self._nothing()
        try:
            pattern = self.acquisition.pattern_at(row, column)
        except ReleasedError:
            return self._nothing()
        except (FourDStemError, IndexError) as error:
            self._tell(f"Scan position ({row}, {column}) is shown empty. {error}")
            return self._nothing()
        self._last = ((row, column), pattern)
        return pattern

    def _nothing(self) -> NDArray[Any]:
        self._last = None
        return np.zeros(self.shape[2:], self.dtype)

    def _tell(self, text: str) -> None:
        with self._lock:
            if text in self._told or len(self._told) > 100:
                return
            self._told.add(text)
        if self.on_problem is not None:
            self.on_problem(text)

    def _full_key(self, key: Any) -> list[_Axis]:
        parts = list(key) if isinstance(key, tuple) else [key]
        dots = [i for i, part in enumerate(parts) if part is Ellipsis]
        if len(dots) > 1:
            raise IndexError("an index can only have one ellipsis")
        for at in dots:
            parts[at : at + 1] = [slice(None)] * (self.ndim - len(parts) + 1)
        parts += [slice(None)] * (self.ndim - len(parts))
        if len(parts) != self.ndim:
            raise IndexError(f"too many indices: the array has 4 axes, {len(parts)} were given")
        return [_axis(part, n) for part, n in zip(parts, self.shape, strict=True)]


def _axis(part: Any, length: int) -> _Axis:
    """Return a checked index of one axis."""
    if isinstance(part, slice):
        return part
    try:
        index = part.__index__()
    except AttributeError:
        raise IndexError(
            f"patterns are taken by whole numbers and slices, not by {type(part).__name__}"
        ) from None
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of bounds for an axis of length {length}")
    return int(index % length)


def _indices(axis: _Axis, length: int) -> range:
    return range(axis, axis + 1) if isinstance(axis, int) else range(*axis.indices(length))
