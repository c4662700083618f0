"""Do two forms of a scan hold the same patterns, bit for bit? And if not, where do they differ.

Both are read block by block, so that scans of any size are compared in little memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import CancelledError
from napari_4dstem.imaging.blocks import PatternBlocks
from napari_4dstem.imaging.patterns import gather_patterns
from napari_4dstem.imaging.spread import Run

# Patterns that are looked at together where only the other scan has some.
_PIECE = 64


@dataclass(frozen=True)
class Difference:
    """One pixel that differs.

    Attributes
    ----------
    row, column
        Scan position.
    pixel
        (row, col) on the camera.
    found, expected
        The value here, and that of the other scan, as text.
    """

    row: int
    column: int
    pixel: tuple[int, int]
    found: str
    expected: str

    def __str__(self) -> str:
        return (
            f"scan position ({self.row}, {self.column}), camera pixel {self.pixel}: "
            f"{self.found} instead of {self.expected}"
        )


@dataclass
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    differing
        Bool, scan shape: patterns that both have, and that differ in any bit.
    missing_here, missing_there
        Bool, scan shape: patterns that only the other scan has, or only this one. (One that is
        damaged counts as missing.)
    n_compared
        Patterns that both have.
    first
        First difference in scan order.
    mismatch
        Why the two cannot be compared at all, else "".
    """

    differing: NDArray[np.bool_]
    missing_here: NDArray[np.bool_]
    missing_there: NDArray[np.bool_]
    n_compared: int = 0
    first: Difference | None = None
    mismatch: str = ""

    @property
    def equal(self) -> bool:
        """Whether each has all patterns of the other, and they are equal."""
        odd = self.differing.any() or self.missing_here.any() or self.missing_there.any()
        return not (self.mismatch or odd)

    def __str__(self) -> str:
        if self.mismatch:
            return self.mismatch
        parts = [f"{self.n_compared} patterns compared bit for bit"]
        for which, text in (
            (self.differing, "differ"),
            (self.missing_here, "are missing here"),
            (self.missing_there, "are missing there"),
        ):
            if which.any():
                row, column = np.unravel_index(int(np.argmax(which)), which.shape)
                first = f"scan position ({row}, {column})"
                if which is self.differing and self.first is not None:
                    first = str(self.first)
                parts.append(f"{int(which.sum())} {text}, the first at {first}")
        return "; ".join(parts)


def compare(
    mine: PatternBlocks,
    other: PatternBlocks,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Comparison:
    """Compare every pattern of a scan with that of another, for instance of its source.

    Patterns that are damaged in both are missing in both, which is no difference.

    Parameters
    ----------
    mine, other
        The scans; they may be cut into different blocks.
    progress
        Called with (positions done, positions in all).
    cancelled
        Asked between blocks.

    Raises
    ------
    CancelledError
        If `cancelled` said so.
    """
    shape = mine.layout.scan_shape
    result = Comparison(np.zeros(shape, bool), np.zeros(shape, bool), np.zeros(shape, bool))
    result.mismatch = _mismatch(mine, other)
    if result.mismatch:
        return result
    total = int((mine.layout.recorded | other.layout.recorded).sum())
    done = 0

    def advance(positions: int) -> None:
        nonlocal done
        done += positions
        if cancelled is not None and cancelled():
            raise CancelledError("Comparing was cancelled")
        if progress is not None:
            progress(done, total)

    advance(0)
    for block in range(mine.layout.n_blocks):
        advance(_compare_block(result, mine, other, block))
    # Damage of the other scan shows only when a pattern is read.
    only = np.flatnonzero(other.layout.recorded & mine.missing())
    for start in range(0, len(only), _PIECE):
        positions = only[start : start + _PIECE]
        gather_patterns(other, positions, Run())
        advance(int((~mine.layout.recorded.reshape(-1)[positions]).sum()))
    result.missing_here = mine.missing() & ~other.missing()
    result.missing_there = other.missing() & ~mine.missing()
    return result


def _mismatch(mine: PatternBlocks, other: PatternBlocks) -> str:
    here, there = (_words(blocks) for blocks in (mine, other))
    return "" if here == there else f"these are two different scans: {here} here, {there} there"


def _words(blocks: PatternBlocks) -> str:
    layout = blocks.layout
    (rows, columns), (height, width) = layout.scan_shape, layout.detector_shape
    return f"{rows} x {columns} positions of {height} x {width} pixels, {layout.dtype}"


def _compare_block(
    result: Comparison, mine: PatternBlocks, other: PatternBlocks, block: int
) -> int:
    positions = mine.layout.block_positions(block).astype(np.int64)
    found = mine.patterns(block)
    expected = gather_patterns(other, positions, Run())
    both = ~(mine.missing() | other.missing()).reshape(-1)[positions]
    bits = np.dtype(f"u{found.dtype.itemsize}")
    wrong = found.view(bits) != expected.view(bits)
    wrong[~both] = False
    bad = np.flatnonzero(wrong.any(axis=(1, 2)))
    result.n_compared += int(both.sum())
    if len(bad):
        result.differing.reshape(-1)[positions[bad]] = True
        lane = int(bad[np.argmin(positions[bad])])
        _note_first(result, int(positions[lane]), wrong[lane], found[lane], expected[lane])
    return len(positions)


def _note_first(
    result: Comparison,
    position: int,
    wrong: NDArray[np.bool_],
    found: NDArray[Any],
    expected: NDArray[Any],
) -> None:
    """Keep the first difference of a pattern, if it comes before the one known."""
    row, column = divmod(position, result.differing.shape[1])
    known = result.first
    if known is not None and (known.row, known.column) < (row, column):
        return
    i, j = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    at = (int(i), int(j))
    result.first = Difference(row, column, at, str(found[at]), str(expected[at]))
