"""Where the counts of a Dectris master lie: data files, the master itself, a virtual dataset.

Nothing is opened here but the master. File names inside a master are looked up beside the master
and never elsewhere: such a set is moved as a whole, and a file must not make us open others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import h5py

from napari_4dstem.errors import SourceError, UsageError
from napari_4dstem.sources.chunk_guard import read_array
from napari_4dstem.sources.hdf5 import external_link, is_dataset, member

DATA_GROUP = "/entry/data"
DATA_NAME = "/entry/data/data"
# More than any detector has thresholds.
_MOST_CHANNELS = 64
_LINK = re.compile(r"data_(\d+)$")


@dataclass(frozen=True)
class Stretch:
    """Frames that lie together in one dataset.

    Parameters
    ----------
    path, name
        File, and dataset inside it.
    number
        Place in the sequence of data files, from the link's name; 0 inside the master.
    start
        Number of the first frame in the acquisition, None where that follows from the others.
    first, count
        Frames ``first:first + count`` of the dataset; count None: all of it.
    channel
        Index on the dataset's second axis, None if it has no channel axis.
    """

    path: Path
    name: str
    number: int = 0
    start: int | None = None
    first: int = 0
    count: int | None = None
    channel: int | None = None


@dataclass(frozen=True)
class DataPlaces:
    """All stretches of an acquisition, as the master names them.

    Attributes
    ----------
    channels
        Names of the channels, empty if there is only one.
    scan
        (rows, columns) of a 4D dataset whose first axes are those of the scan.
    channel_axis
        Whether 4D datasets hold a channel on their second axis.
    """

    stretches: tuple[Stretch, ...]
    channels: tuple[str, ...] = ()
    channel: int | None = None
    scan: tuple[int, int] | None = None
    linked: bool = False


def find_places(
    file: h5py.File, path: Path, dataset: str | None, channel: int | None, expected: int | None
) -> DataPlaces:
    """Find the counts.

    Parameters
    ----------
    file, path
        The open master, or a data file.
    dataset, channel
        The user's choices.
    expected
        Frames that were ordered; tells a channel axis from a scan axis.

    Raises
    ------
    SourceError
        There are none, or they are spread in a way that is not supported.
    """
    node = member(file, dataset or DATA_NAME)
    if is_dataset(node):
        return _inside(file, path, node, channel, expected)
    if dataset is not None:
        raise UsageError(
            "There is no such dataset", where=path, found=dataset,
            action=f"Leave it out to use {DATA_NAME}",
        )  # fmt: skip
    group = member(file, DATA_GROUP)
    stretches = _linked(group, path) if isinstance(group, h5py.Group) else ()
    if not stretches:
        raise SourceError(
            "This file holds no detector frames", where=path,
            expected=f"links or datasets data_000001, data_000002, ... or data in {DATA_GROUP}",
            action="Choose the file NAME_master.h5 of the acquisition",
        )  # fmt: skip
    return DataPlaces(stretches, channel=channel, linked=True)


def _linked(group: h5py.Group, path: Path) -> tuple[Stretch, ...]:
    """Return the stretches data_000001, ... in the order of their numbers."""
    found: list[Stretch] = []
    for key in group:
        match = _LINK.match(key)
        if match is None:
            continue
        link = external_link(group, key)
        if link is not None:
            target = beside(path, link.filename)
            found.append(Stretch(target, link.path, int(match[1])))
        elif is_dataset(member(group, key)):
            found.append(Stretch(path, f"{DATA_GROUP}/{key}", int(match[1])))
    return tuple(sorted(found, key=lambda s: s.number))


def beside(master: Path, name: str) -> Path:
    """Return where a file named inside a master is looked for: in the master's own folder.

    A relative path below that folder is kept; of any other path only the last part counts.
    """
    parts = PureWindowsPath(name) if "\\" in name else PurePosixPath(name)
    if not parts.name or parts.name in (".", "..") or "\0" in name:
        return master.parent / "unnamed"
    inside = not parts.is_absolute() and not parts.anchor and ".." not in parts.parts
    if inside and len(parts.parts) > 1:
        below = master.parent.joinpath(*parts.parts)
        if below.exists():
            return below
    return master.parent / parts.name


def _inside(
    file: h5py.File, path: Path, node: h5py.Dataset, channel: int | None, expected: int | None
) -> DataPlaces:
    shape = tuple(int(n) for n in node.shape or ())
    channels: tuple[str, ...] = ()
    scan: tuple[int, int] | None = None
    chosen: int | None = None
    if len(shape) == 4:
        names = _channel_names(file, path, shape[1])
        if _is_channel_axis(file, shape, names, expected):
            channels = names or tuple(
                f"channel {i + 1}" for i in range(min(shape[1], _MOST_CHANNELS))
            )
            chosen = _choose_channel(channels, shape[1], channel, path)
        else:
            scan = (shape[0], shape[1])
    if node.is_virtual:
        stretches = _virtual(node, path, shape, chosen, scan)
    else:
        stretches = (Stretch(path, node.name, start=0, channel=chosen),)
    return DataPlaces(stretches, channels if len(channels) > 1 else (), chosen, scan)


def _channel_names(file: h5py.File, path: Path, count: int) -> tuple[str, ...]:
    node = member(file, f"{DATA_GROUP}/channel")
    if not is_dataset(node) or node.dtype.kind not in "SO" or count > _MOST_CHANNELS:
        return ()
    names = read_array(node, path, (count,))
    if names is None or not all(isinstance(n, bytes) for n in names):
        return ()
    return tuple(n.decode("utf-8", errors="replace").rstrip("\0") for n in names)


def _is_channel_axis(
    file: h5py.File, shape: tuple[int, ...], names: tuple[str, ...], expected: int | None
) -> bool:
    """Tell [images, channels, h, w] from [scan rows, scan columns, h, w]."""
    if names or shape[1] == 1:
        return True
    if shape[1] > _MOST_CHANNELS:
        return False
    if expected == shape[0]:
        return True
    ids = member(file, f"{DATA_GROUP}/image_id")
    return is_dataset(ids) and ids.shape in ((shape[0],), shape[:2])


def _choose_channel(channels: tuple[str, ...], count: int, channel: int | None, path: Path) -> int:
    chosen = 0 if channel is None else channel
    if not 0 <= chosen < min(count, len(channels)):
        listed = ", ".join(f"{i} ({name})" for i, name in enumerate(channels))
        raise UsageError(
            "There is no such channel", where=path, expected=listed, found=str(channel),
            action="Choose one of these",
        )  # fmt: skip
    return chosen


def _virtual(
    node: h5py.Dataset,
    path: Path,
    shape: tuple[int, ...],
    channel: int | None,
    scan: tuple[int, int] | None,
) -> tuple[Stretch, ...]:
    """Take a virtual dataset apart.

    HDF5 would give the fill value for a source that is missing, without a word; and it would
    decompress chunks that nobody has checked.
    """
    if scan is not None:
        raise _unsupported(path, "a virtual dataset with scan axes")
    stretches = []
    for i, source in enumerate(node.virtual_sources()):
        target = path if source.file_name == "." else beside(path, source.file_name)
        if "%" in source.file_name or "%" in source.dset_name:
            raise _unsupported(path, "a virtual dataset of numbered files")
        start, stop = _block(source.vspace, shape, path)
        if channel is not None and not start[1] <= channel < stop[1]:
            continue
        count = stop[0] - start[0]
        first, own = _source_block(source.src_space, start, stop, channel, path)
        if (start[-2:], stop[-2:]) != ((0, 0), shape[-2:]):
            raise _unsupported(path, "a virtual dataset that rearranges frames")
        stretches.append(Stretch(target, source.dset_name, i, start[0], first, count, own))
    return tuple(sorted(stretches, key=lambda s: s.start or 0))


def _source_block(
    space: Any, start: tuple[int, ...], stop: tuple[int, ...], channel: int | None, path: Path
) -> tuple[int, int | None]:
    """Return the first frame in the source, and the channel's index there (None: no such axis)."""
    channels = stop[1] - start[1] if channel is not None else 1
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        # The source's own shape is not written down then; a single channel needs no index.
        return 0, channel - start[1] if channel is not None and channels > 1 else None
    first, last = _block(space, None, path)
    if last[0] - first[0] != stop[0] - start[0] or any(first[-2:]):
        raise _unsupported(path, "a virtual dataset that rearranges frames")
    if channel is None or len(first) == 3:
        return first[0], None
    return first[0], first[1] + channel - start[1]


def _block(
    space: Any, shape: tuple[int, ...] | None, path: Path
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return start and stop of a selection that is one rectangular block."""
    extent = tuple(int(n) for n in space.get_simple_extent_dims())
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        return (0,) * len(extent), extent
    low, high = space.get_select_bounds()
    start = tuple(int(n) for n in low)
    stop = tuple(int(n) + 1 for n in high)
    points = 1
    for a, b in zip(start, stop, strict=True):
        points *= b - a
    if points != space.get_select_npoints() or len(start) not in (3, 4):
        raise _unsupported(path, "a virtual dataset with gaps inside")
    if shape is not None and any(b > n for b, n in zip(stop, shape, strict=True)):
        raise _unsupported(path, "a virtual dataset that reaches outside itself")
    return start, stop


def _unsupported(path: Path, found: str) -> SourceError:
    return SourceError(
        "The counts are spread over files in a way that is not supported",
        where=path,
        expected="whole frames in their order",
        found=found,
        action="Open the data files themselves, or copy the counts into one dataset",
    )
