"""One image over the scan with what belongs to it: validity, overloads, steps; no Qt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import UsageError
from napari_4dstem.plugin.real_space_view.colour_tables import TABLE_SIZE
from napari_4dstem.plugin.real_space_view.number_text import grouped, value_text


@dataclass(frozen=True, eq=False)
class ScanImage:
    """An image over the scan.

    Parameters
    ----------
    values
        Shape (scan rows, scan columns), any real dtype. NaN is shown like a missing position.
    valid
        bool, same shape; False where nothing was recorded. None: everything was.
    overloads
        Same shape: number of overloaded pixels a position, or bool; None: not known.
    step
        Distance of neighbouring scan rows and columns in `unit`; None if unknown.
    unit
        Unit of `step`.
    value_unit
        What the values count.

    Raises
    ------
    UsageError
        If the values are not two-dimensional, or another array has another shape.
    """

    values: NDArray[np.generic]
    valid: NDArray[np.bool_] | None = None
    overloads: NDArray[np.generic] | None = None
    step: tuple[float, float] | None = None
    unit: str = "nm"
    value_unit: str = "counts"

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.size == 0:
            raise UsageError("An image needs two axes", found=f"shape {self.values.shape}")
        for other in (self.valid, self.overloads):
            if other is not None and other.shape != self.values.shape:
                raise UsageError(
                    "A mask must have the shape of its image",
                    expected=str(self.values.shape),
                    found=str(other.shape),
                )

    def contains(self, row: int, column: int) -> bool:
        """Whether a scan position lies in the image."""
        rows, columns = self.values.shape
        return bool(0 <= row < rows and 0 <= column < columns)

    def marks(self) -> NDArray[np.bool_] | None:
        """Positions with overloads, bool (rows, columns); None if none are known."""
        return None if self.overloads is None else self.overloads.astype(np.bool_)

    def missing(self) -> NDArray[np.bool_] | None:
        """Positions without a value, bool (rows, columns); None if there are none."""
        missing = None if self.valid is None or self.valid.all() else ~self.valid
        if self.values.dtype.kind == "f":
            unknown = np.isnan(self.values)
            if unknown.any():
                missing = unknown if missing is None else missing | unknown
        return missing

    def pixels(
        self, levels: tuple[float, float], table: NDArray[np.uint32]
    ) -> tuple[NDArray[np.uint8], bool]:
        """Colours of the image, transparent where there is no value; and whether any is missing.

        Parameters
        ----------
        levels
            Values that get the first and the last colour.
        table
            uint32, shape (4096,), as from ``colour_table``.

        Returns
        -------
        uint8, shape (rows, columns, 4), and bool
        """
        missing = self.missing()
        place = np.subtract(self.values, levels[0], dtype=np.float64)
        place *= (TABLE_SIZE - 1) / (levels[1] - levels[0])
        np.clip(place, 0, TABLE_SIZE - 1, out=place)
        if missing is not None:
            place[missing] = 0  # NaN has no integer
        colours = table[place.astype(np.uint16)]
        if missing is not None:
            colours[missing] = 0
        return colours.view(np.uint8).reshape(*self.values.shape, 4), missing is not None

    def readout(self, row: int, column: int) -> str:
        """One line about a scan position: place, value, and what is wrong with it."""
        parts = [f"scan ({row}, {column})"]
        if self.step is not None:
            places = (f"{i * s:.4g}" for i, s in zip((row, column), self.step, strict=True))
            parts.append(f"{', '.join(places)} {self.unit}")
        if self.valid is None or self.valid[row, column]:
            text = value_text(float(self.values[row, column]))
            parts.append(f"{text} {self.value_unit}".rstrip())
        else:
            parts.append("not recorded")
        over = 0 if self.overloads is None else self.overloads[row, column]
        if over:
            parts.append(_overload_text(over))
        return " · ".join(parts)


def _overload_text(number: np.generic | int) -> str:
    """Say how many pixels of a pattern are overloaded, if that is known (a bool is not)."""
    if isinstance(number, (bool, np.bool_)):
        return "overloaded"
    return f"{grouped(int(number))} overloaded pixel{'' if number == 1 else 's'}"
