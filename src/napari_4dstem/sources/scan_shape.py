"""Which frame belongs to which scan position: the rule for the scan's shape, and the mapping.

Camera files hold a row of frames; how it folds into scan rows is rarely written down. The rule is
a pure function of what the headers say, so that every case of it is tested without files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import UsageError

Shape = tuple[int, int]

# No scan is that large; a number above it comes from a damaged header or a slip of the finger.
_MOST_POSITIONS = 1 << 27


@dataclass(frozen=True)
class ShapeClues:
    """What the headers say about the scan.

    Parameters
    ----------
    frames_found, frames_expected
        Frames in the files; frames that were ordered, None if not known.
    given
        The user's choice.
    sidecar, attribute, dataset
        (rows, columns) by the sidecar file, by an attribute, by the axes of a 4D dataset.
    frame_offset, flyback
        As in `OpenOptions`: a clue has to fit together with them.
    """

    frames_found: int
    frames_expected: int | None = None
    given: Shape | None = None
    sidecar: Shape | None = None
    attribute: Shape | None = None
    dataset: Shape | None = None
    frame_offset: int = 0
    flyback: int = 0


@dataclass(frozen=True)
class ShapeChoice:
    """The shape that the rule gives, or None and a reason."""

    shape: Shape | None
    origin: str = ""
    guessed: bool = False
    candidates: tuple[Shape, ...] = ()
    reason: str = ""
    problems: tuple[str, ...] = field(default=())


def choose_scan_shape(clues: ShapeClues) -> ShapeChoice:
    """Apply the rule: user, sidecar, attribute, 4D dataset, perfect square, otherwise ask.

    A clue from a file counts only if its number of positions fits the number of frames.
    """
    found = clues.frames_found
    total = max(found, clues.frames_expected or 0)
    positions = total - clues.frame_offset
    pairs = factor_pairs(positions)
    candidates = tuple((r, c - clues.flyback) for r, c in pairs if c > clues.flyback)
    if clues.given is not None:
        return ShapeChoice(clues.given, "given", candidates=candidates)
    problems: list[str] = []
    # An interrupted recording fits what was ordered, not what was found.
    counts = {found, total}
    for origin in ("sidecar", "attribute", "dataset"):
        shape: Shape | None = getattr(clues, origin)
        if shape is None:
            continue
        name = {"dataset": "4D dataset"}.get(origin, origin)
        if _fits(shape, counts, clues):
            return ShapeChoice(shape, name, candidates=candidates, problems=tuple(problems))
        problems.append(_misfit(name, shape, total))
        candidates = (shape, *(c for c in candidates if c != shape))
    side = math.isqrt(max(positions, 0))
    # A clue that does not fit says that the frames are no plain rectangle: better ask.
    if side * side == positions > 0 and clues.flyback == 0 and not problems:
        shape, origin = (side, side), "perfect square (guessed)"
        return ShapeChoice(shape, origin, guessed=True, candidates=candidates)
    reason = "; ".join(problems) or f"the file does not say how its {total} frames form a scan"
    return ShapeChoice(None, candidates=candidates, reason=reason, problems=tuple(problems))


def _fits(shape: Shape, counts: set[int], clues: ShapeClues) -> bool:
    rows, columns = shape
    if rows < 1 or columns < 1:
        return False
    line = columns + clues.flyback
    # The flyback after the last row may or may not have been recorded.
    needed = {rows * line, rows * line - clues.flyback}
    return bool({n + clues.frame_offset for n in needed} & counts)


def _misfit(origin: str, shape: Shape, total: int) -> str:
    rows, columns = shape
    text = f"the {origin} says {rows} x {columns} = {rows * columns} positions, but there are "
    text += f"{total} frames"
    extra = total - rows * columns
    if extra > 0 and rows > 0 and extra % rows == 0:
        text += f" ({extra // rows} extra in each row: flyback?)"
    return text


def factor_pairs(count: int) -> tuple[Shape, ...]:
    """Return all (rows, columns) with ``rows * columns == count``, nearest to square first.

    Examples
    --------
    >>> factor_pairs(12)
    ((3, 4), (4, 3), (2, 6), (6, 2), (1, 12), (12, 1))
    """
    pairs: list[Shape] = []
    if count > _MOST_POSITIONS:
        return ()
    for small in range(math.isqrt(max(count, 0)), 0, -1):
        if count % small == 0:
            large = count // small
            pairs += [(small, large), (large, small)] if small != large else [(small, small)]
    return tuple(pairs)


@dataclass(frozen=True)
class ScanMap:
    """Frame numbers of scan positions.

    Position (r, c) shows frame ``offset + r * (columns + flyback) + c``; numbers below 0 or at and
    above the number of frames are positions that were never recorded.
    """

    shape: Shape
    frame_offset: int = 0
    flyback: int = 0

    def __post_init__(self) -> None:
        rows, columns = self.shape
        sensible = rows >= 1 and columns >= 1 and rows * columns <= _MOST_POSITIONS
        if not sensible or self.flyback < 0:
            raise UsageError(
                "This cannot be the shape of a scan",
                expected=f"1 to {_MOST_POSITIONS} positions in rows and columns, flyback 0 or more",
                found=f"{rows} x {columns}, flyback {self.flyback}",
                action="Choose another scan shape",
            )

    def frame(self, row: int, column: int) -> int:
        """Return the frame number at a position (may lie outside the recording)."""
        return self.frame_offset + row * (self.shape[1] + self.flyback) + column

    @property
    def frames_spanned(self) -> int:
        """Number of the last position's frame, plus one."""
        return self.frame(self.shape[0] - 1, self.shape[1] - 1) + 1

    def recorded(self, exists: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return (rows, columns) bool: the position's frame is there.

        Parameters
        ----------
        exists
            bool [frames]: which frames the files hold.
        """
        rows, columns = self.shape
        result = np.zeros(self.shape, bool)
        for row in range(rows):
            first = self.frame(row, 0)
            start, stop = max(first, 0), min(first + columns, len(exists))
            if start < stop:
                result[row, start - first : stop - first] = exists[start:stop]
        return result


@dataclass(frozen=True)
class ScanPlan:
    """How the frames of a file form a scan, and whether it can be opened like that."""

    choice: ShapeChoice
    map: ScanMap | None = None
    recorded: NDArray[np.bool_] | None = None
    reason: str = ""
    action: str = ""
    problems: tuple[str, ...] = ()


def plan_scan(clues: ShapeClues, exists: NDArray[np.bool_], *, partial: bool) -> ScanPlan:
    """Choose the shape, map the frames, and say what does not add up.

    Parameters
    ----------
    exists
        bool [frames]: which frames can be read; numbers past its end do not exist.
    partial
        Whether positions without a frame are acceptable.

    Returns
    -------
    ScanPlan
        Without a reason: ready.
    """
    choice = choose_scan_shape(clues)
    if choice.shape is None:
        action = "Give the scan shape (rows x columns)"
        if choice.candidates:
            near = ", ".join(f"{r} x {c}" for r, c in choice.candidates[:6])
            action += f"; for example {near}"
        return ScanPlan(choice, reason=_sentence(choice.reason), action=action + ".")
    scan = ScanMap(choice.shape, clues.frame_offset, clues.flyback)
    recorded = scan.recorded(exists)
    problems = [*map(_sentence, choice.problems), *_surplus(scan, len(exists))]
    count, positions = int(recorded.sum()), recorded.size
    padded = int((~recorded).ravel()[: max(-clues.frame_offset, 0)].sum())
    if count == 0:
        reason = f"No frame belongs to a scan of {choice.shape[0]} x {choice.shape[1]}."
        action = "Choose another scan shape or frame offset."
        return ScanPlan(choice, scan, recorded, reason, action, tuple(problems))
    if count + padded == positions:
        return ScanPlan(choice, scan, recorded, problems=tuple(problems))
    shortage = f"{count} of {positions} scan positions were recorded."
    if partial:
        return ScanPlan(choice, scan, recorded, problems=(shortage, *problems))
    action = "If it is still being written, wait; else open the frames that exist as a partial scan"
    if choice.origin == "given":
        action += ", or choose another scan shape"
    return ScanPlan(choice, scan, recorded, shortage, action + ".", tuple(problems))


def _surplus(scan: ScanMap, frames: int) -> list[str]:
    extra = frames - scan.frames_spanned - scan.flyback
    if extra <= 0:
        return []
    rows, columns = scan.shape
    text = (
        f"There are {frames} frames, more than a scan of {rows} x {columns} needs: "
        f"the last {extra} are left out. Check scan shape, frame offset and flyback frames."
    )
    return [text]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def check_position(shape: Shape, row: int, columns: range) -> None:
    """Raise IndexError unless all positions lie in a scan of this shape, in steps of 1."""
    inside = 0 <= row < shape[0] and columns.start >= 0 and columns.stop <= shape[1]
    if columns.step != 1 or not inside:
        raise IndexError(f"scan row {row}, {columns} lie outside a scan of {shape[0]} x {shape[1]}")
