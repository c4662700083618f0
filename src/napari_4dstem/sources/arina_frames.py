"""Which frames of an Arina acquisition there are: opens the headers of the data files.

A file that is missing, empty, cut short or of another kind is named, and the frames of the others
keep their true numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import FourDStemError, NotReadyError, SourceError
from napari_4dstem.sources.arina_links import Stretch
from napari_4dstem.sources.frame_dataset import FrameDataset, FrameLayout
from napari_4dstem.sources.hdf5 import hdf5_errors, integer

# Above this number of files only the first and the last are opened to count frames, if the result
# agrees with what the master or the last file says; the others are checked when they are read.
_OPEN_ALL_BELOW = 64
# No recording is that long; a number above it comes from a damaged header.
_MOST_FRAMES = 1 << 27


@dataclass(frozen=True)
class Segment:
    """A stretch that exists, with its place among all frames.

    Attributes
    ----------
    start, count
        Frames ``start:start + count`` of the acquisition.
    written
        bool [count], None: all of them.
    """

    stretch: Stretch
    start: int
    count: int
    written: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class BadFile:
    """A data file that cannot be used, and why."""

    path: Path
    why: str
    missing: bool


@dataclass(frozen=True)
class FrameInventory:
    """All frames of an acquisition.

    Attributes
    ----------
    span
        Highest frame number in the files, plus one.
    stored_bytes
        Size of the files that hold frames.
    """

    layout: FrameLayout
    segments: tuple[Segment, ...]
    bad: tuple[BadFile, ...]
    span: int
    stored_bytes: int
    problems: tuple[str, ...]

    @property
    def found(self) -> int:
        """Number of frames that can be read."""
        return sum(s.count if s.written is None else int(s.written.sum()) for s in self.segments)

    def exists(self) -> NDArray[np.bool_]:
        """Return bool [span]: which frames can be read."""
        result = np.zeros(self.span, bool)
        for s in self.segments:
            result[s.start : s.start + s.count] = True if s.written is None else s.written
        return result


@dataclass(frozen=True)
class _Look:
    """What the headers of one stretch say."""

    layout: FrameLayout
    count: int
    low: int | None
    written: NDArray[np.bool_] | None


def take_inventory(
    stretches: tuple[Stretch, ...],
    expected: int | None,
    master: Path,
    fallback: FrameLayout | None,
) -> FrameInventory:
    """Look into the data files.

    Parameters
    ----------
    stretches
        As the master names them, in order.
    expected
        Frames that were ordered, None if not known.
    fallback
        Layout by the master's header, used if not one file can be read.

    Raises
    ------
    NotReadyError
        If not one file can be read, and the header does not say what the frames are like.
    """
    sizes = _sizes(stretches)
    present = [i for i, s in enumerate(stretches) if sizes.get(s.path, 0) > 0]
    bad = {i: _absent(s.path, sizes) for i, s in enumerate(stretches) if i not in set(present)}
    looks = _look_at(stretches, present, expected, bad)
    layout = looks[min(looks)].layout if looks else fallback
    if layout is None:
        raise _nothing(stretches, bad, master)
    for i in [i for i, look in looks.items() if not look.layout.alike(layout)]:
        found = looks.pop(i).layout
        why = f"it holds frames of {found.words} instead of {layout.words}"
        bad[i] = BadFile(stretches[i].path, why, missing=False)
    segments, problems = _place(stretches, looks, expected)
    problems += _unnamed(stretches)
    used = {s.stretch.path for s in segments}
    return FrameInventory(
        layout=layout,
        segments=segments,
        bad=tuple(bad[i] for i in sorted(bad)),
        span=max((s.start + s.count for s in segments), default=0),
        stored_bytes=sum(sizes[p] for p in used),
        problems=problems,
    )


def _sizes(stretches: tuple[Stretch, ...]) -> dict[Path, int]:
    """Return the size of every file that exists; asks each folder once for its names."""
    wanted: dict[Path, set[str]] = {}
    for s in stretches:
        wanted.setdefault(s.path.parent, set()).add(s.path.name)
    sizes: dict[Path, int] = {}
    for folder, names in wanted.items():
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name in names and entry.is_file():
                        sizes[folder / entry.name] = entry.stat().st_size
        except OSError:
            continue
    return sizes


def _absent(path: Path, sizes: dict[Path, int]) -> BadFile:
    if path in sizes:
        return BadFile(path, "it is empty (0 bytes)", missing=False)
    return BadFile(path, "it is missing", missing=True)


def _look_at(
    stretches: tuple[Stretch, ...],
    present: list[int],
    expected: int | None,
    bad: dict[int, BadFile],
) -> dict[int, _Look]:
    looks: dict[int, _Look] = {}

    def look(i: int) -> None:
        if i in looks:
            return
        try:
            looks[i] = _look(stretches[i])
        except FourDStemError as error:
            bad[i] = BadFile(stretches[i].path, _why(error), missing=False)

    if len(present) > _OPEN_ALL_BELOW and not bad:
        for i in (present[0], present[-1]):
            look(i)
        if len(looks) == 2:
            first, last = looks[present[0]], looks[present[-1]]
            before = (len(present) - 1) * first.count
            if expected == before + last.count or (first.low, last.low) == (1, before + 1):
                middle = replace(first, low=None)
                return dict.fromkeys(present, middle) | {present[-1]: replace(last, low=None)}
    for i in present:
        look(i)
    return looks


def _why(error: FourDStemError) -> str:
    text = error.what if error.found is None else f"{error.what}: {error.found}"
    return text[:1].lower() + text[1:]


def _look(stretch: Stretch) -> _Look:
    data = FrameDataset(stretch.path, stretch.name, stretch.channel)
    try:
        with hdf5_errors(stretch.path):
            low = integer(data.attribute("image_nr_low"))
        count = data.count - stretch.first if stretch.count is None else stretch.count
        if count < 0 or stretch.first + count > data.count:
            raise SourceError(
                "It holds fewer frames than the master says", where=stretch.path,
                expected=f"{stretch.first + count}", found=f"{data.count}",
            )  # fmt: skip
        written = data.written()[stretch.first : stretch.first + count]
        return _Look(data.layout, count, low, None if written.all() else written)
    finally:
        data.close()


def _place(
    stretches: tuple[Stretch, ...], looks: dict[int, _Look], expected: int | None
) -> tuple[tuple[Segment, ...], tuple[str, ...]]:
    """Give every readable stretch its frame numbers."""
    if all(stretches[i].start is not None for i in looks):
        starts: dict[int, int | None] = {i: stretches[i].start for i in looks}
        problems: tuple[str, ...] = ()
    else:
        numbered = _starts_by_image_number(stretches, looks, expected)
        starts, problems = (numbered, ()) if numbered else _starts_by_count(stretches, looks)
    segments = []
    for i in sorted(looks):
        start, look = starts.get(i), looks[i]
        if start is not None and start + look.count <= _MOST_FRAMES and look.count:
            segments.append(Segment(stretches[i], start, look.count, look.written))
    return tuple(segments), problems


def _starts_by_image_number(
    stretches: tuple[Stretch, ...], looks: dict[int, _Look], expected: int | None
) -> dict[int, int | None] | None:
    """Use the attribute ``image_nr_low`` (counted from 1), if it is there and makes sense."""
    if any(look.low is None for look in looks.values()):
        return None
    starts: dict[int, int | None] = {}
    end, before = 0, _number_before(stretches)
    for i in sorted(looks):
        look = looks[i]
        start = (look.low or 0) - 1
        neighbours = stretches[i].number == before + 1
        if start < end or (neighbours and start != end):
            return None
        if start + look.count > max(expected or 0, _plausible_span(stretches, looks)):
            return None
        starts[i], end, before = start, start + look.count, stretches[i].number
    return starts


def _number_before(stretches: tuple[Stretch, ...]) -> int:
    """Return the number before that of the first data file: files are counted from 0 or 1."""
    return min(stretches[0].number - 1, 0)


def _unnamed(stretches: tuple[Stretch, ...]) -> tuple[str, ...]:
    if stretches[0].start is not None:
        return ()
    numbers = {s.number for s in stretches}
    wanted = range(_number_before(stretches) + 1, max(numbers) + 1)
    if len(wanted) == len(numbers):
        return ()
    gaps = [f"data_{n:06d}" for n in wanted[: len(numbers) + 4] if n not in numbers]
    return (
        f"The master does not name the data files {', '.join(gaps[:3])}{' ...' * (len(gaps) > 3)}.",
    )


def _plausible_span(stretches: tuple[Stretch, ...], looks: dict[int, _Look]) -> int:
    return (stretches[-1].number + 1) * max(look.count for look in looks.values())


def _starts_by_count(
    stretches: tuple[Stretch, ...], looks: dict[int, _Look]
) -> tuple[dict[int, int | None], tuple[str, ...]]:
    """Count on from file to file; a gap is as long as the number of files in it says."""
    order = sorted(looks)
    full = {looks[i].count for i in order if i != len(stretches) - 1}
    per_file = full.pop() if len(full) == 1 else None
    starts: dict[int, int | None] = {}
    end, before, lost = 0, _number_before(stretches), 0
    for i in order:
        gap = stretches[i].number - before - 1
        if (gap and per_file is None) or lost:
            lost += 1
            continue
        end += gap * (per_file or 0)
        starts[i] = end
        end, before = end + looks[i].count, stretches[i].number
    if lost:
        text = f"{lost} data files behind a missing one are left out: their first frame numbers "
        return starts, (f"{text}are not known.",)
    return starts, ()


def _nothing(
    stretches: tuple[Stretch, ...], bad: dict[int, BadFile], master: Path
) -> NotReadyError:
    first = bad[min(bad)]
    others = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
    return NotReadyError(
        "Not one data file of this acquisition can be read: "
        f"{first.path.name}: {first.why}{others}",
        where=master,
        expected=f"{len(stretches)} data file{'s' * (len(stretches) > 1)} beside it",
        action="Copy the data files into the folder of the master; if the recording is still "
        "going on, wait",
    )
