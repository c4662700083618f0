"""Dectris Arina: ``NAME_master.h5`` with its data files, and data files on their own.

The parts: :mod:`arina_links` finds the counts, :mod:`arina_frames` counts them,
:mod:`arina_header` and :mod:`sidecar` say what they mean, :mod:`frame_dataset` reads them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import DamagedDataError, FourDStemError, NotReadyError, SourceError
from napari_4dstem.sources.arina_frames import BadFile, FrameInventory, Segment, take_inventory
from napari_4dstem.sources.arina_header import (
    SPECIFIC,
    ArinaHeader,
    read_calibration,
    read_header,
    read_mask,
)
from napari_4dstem.sources.arina_links import DATA_GROUP, DATA_NAME, DataPlaces, find_places
from napari_4dstem.sources.base import FileIdentity, OpenOptions, SourceInfo
from napari_4dstem.sources.frame_dataset import FrameDataset, FrameLayout
from napari_4dstem.sources.frame_source import FrameSource
from napari_4dstem.sources.hdf5 import (
    external_link,
    has_signature,
    is_dataset,
    member,
    reading,
)
from napari_4dstem.sources.own_notes import read_notes
from napari_4dstem.sources.scan_shape import ScanPlan, ShapeClues, plan_scan
from napari_4dstem.sources.sidecar import Sidecar, read_sidecar

_SUFFIXES = (".h5", ".hdf5", ".nxs")
_OURS_BY_NAME = re.compile(r".+_(master|data_\d+)\.h5$", re.IGNORECASE)
_LINK = re.compile(r"data_\d+$")
_OPEN_FILES = 16
_NAMED_FILES = 3


def sniff(path: Path) -> bool:
    """Tell whether a file is a Dectris master or data file. Never raises."""
    if path.suffix.lower() not in _SUFFIXES:
        return False
    named = _OURS_BY_NAME.match(path.name) is not None
    try:
        if not path.is_file():
            return False
        if not has_signature(path):
            return named and path.stat().st_size == 0
        with reading(path) as file:
            return _looks_like_dectris(file, named)
    except (OSError, FourDStemError):
        # Cut short, damaged or being written: by its name it is ours, and opening says what is
        # wrong with it.
        return named


def _looks_like_dectris(file: h5py.File, named: bool) -> bool:
    if member(file, SPECIFIC) is not None:
        return True
    group = member(file, DATA_GROUP)
    if not isinstance(group, h5py.Group):
        return False
    own = member(file, DATA_NAME)
    if is_dataset(own):
        return own.ndim in (3, 4) and (named or "image_nr_low" in own.attrs)
    return any(
        _LINK.match(key) and (external_link(group, key) or is_dataset(member(group, key)))
        for key in group
    )


@dataclass(frozen=True)
class _Findings:
    """Everything that the headers say, before it is judged."""

    header: ArinaHeader
    sidecar: Sidecar
    places: DataPlaces
    inventory: FrameInventory
    info: dict[str, Any]


def _look(path: Path, options: OpenOptions) -> _Findings:
    with reading(path) as file:
        header = read_header(file)
        places = find_places(file, path, options.dataset, options.channel, header.frames_expected)
        fallback = None
        if header.frame_shape is not None and header.dtype is not None:
            fallback = FrameLayout((0,), header.frame_shape, header.dtype)
        inventory = take_inventory(places.stretches, header.frames_expected, path, fallback)
        sidecar = read_sidecar(path)
        shape = inventory.layout.detector_shape
        name = places.channels[places.channel or 0] if places.channels else None
        mask, mask_problems = read_mask(file, path, shape, name)
        calibration = read_calibration(file, sidecar)
        notes = read_notes(file)
    dtype = inventory.layout.dtype
    nodata = int(np.iinfo(dtype).max) if dtype.kind == "u" else None
    info = {
        "format": "Dectris Arina" if notes is None else "HDF5, written by napari-4dstem",
        "detector_shape": shape,
        "dtype": dtype,
        "nodata": nodata if notes is None else notes.nodata,
        "mask": mask,
        "calibration": calibration if notes is None else notes.calibration,
        "metadata": header.metadata | sidecar.facts | ({} if notes is None else notes.metadata),
        "channels": places.channels,
    }
    problems = (*header.problems, *sidecar.problems, *inventory.problems, *mask_problems)
    return _Findings(header, sidecar, places, inventory, info | {"problems": problems})


def inspect(path: Path, options: OpenOptions) -> SourceInfo:
    """Read the headers; see `napari_4dstem.sources.inspect`."""
    return _judge(_look(path, options), path, options)[0]


def _judge(findings: _Findings, path: Path, options: OpenOptions) -> tuple[SourceInfo, ScanPlan]:
    inventory, header = findings.inventory, findings.header
    clues = ShapeClues(
        frames_found=inventory.span,
        frames_expected=header.frames_expected,
        given=options.scan_shape,
        sidecar=findings.sidecar.scan_shape,
        attribute=header.scan_attribute,
        dataset=findings.places.scan,
        frame_offset=options.frame_offset,
        flyback=options.flyback,
    )
    plan = plan_scan(clues, inventory.exists(), partial=options.partial)
    reason, action = _verdict(plan, inventory, options)
    problems = [*findings.info["problems"], *plan.problems, *_remarks(findings, path, options)]
    info = SourceInfo(
        path=path,
        ready=not reason,
        reason=reason,
        action=action,
        scan_shape=plan.choice.shape,
        scan_shape_origin=plan.choice.origin,
        scan_shape_guessed=plan.choice.guessed,
        scan_shape_candidates=plan.choice.candidates,
        frames_found=inventory.found,
        frames_expected=clues.frames_expected,
        stored_bytes=inventory.stored_bytes,
        files=tuple(dict.fromkeys(s.stretch.path for s in inventory.segments)),
        missing_files=tuple(dict.fromkeys(b.path for b in inventory.bad)),
        partial_possible=plan.recorded is not None and bool(plan.recorded.any()),
        **(findings.info | {"problems": tuple(problems)}),
    )
    return info, plan


def _is_data_file(path: Path) -> bool:
    return re.search(r"_data_\d+$", path.stem) is not None


def _verdict(plan: ScanPlan, inventory: FrameInventory, options: OpenOptions) -> tuple[str, str]:
    """Return why the acquisition is not ready and what to do, both empty if it is."""
    if not inventory.bad or options.partial:
        return plan.reason, plan.action
    reason = _bad_files(inventory.bad)
    action = "Copy the missing files beside the master; if the recording is going on, wait"
    if inventory.segments:
        action += "; or open the frames that exist as a partial scan"
    action += "."
    if plan.choice.shape is None:
        reason, action = f"{reason} {plan.reason}", f"{action} {plan.action}"
    return reason, action


def _bad_files(bad: tuple[BadFile, ...]) -> str:
    listed = "; ".join(f"{b.path.name}: {b.why}" for b in bad[:_NAMED_FILES])
    more = f"; and {len(bad) - _NAMED_FILES} more" if len(bad) > _NAMED_FILES else ""
    count = "1 data file" if len(bad) == 1 else f"{len(bad)} data files"
    return f"{count} cannot be read: {listed}{more}."


def _remarks(findings: _Findings, path: Path, options: OpenOptions) -> list[str]:
    remarks = list(findings.info["calibration"].conflicts)
    places = findings.places
    if places.channels and options.channel is None:
        listed = ", ".join(f"{i}: {name}" for i, name in enumerate(places.channels))
        remarks.append(
            f"The file holds {len(places.channels)} channels ({listed}); the first is used."
        )
    if findings.inventory.bad and options.partial:
        remarks.append(_bad_files(findings.inventory.bad))
    master = path.with_name(re.sub(r"_data_\d+$", "_master", path.stem) + path.suffix)
    if _is_data_file(path) and master.exists():
        remarks.append(f"This is one data file of a set; {master.name} beside it opens all of it.")
    return remarks


def open_source(path: Path, options: OpenOptions) -> ArinaSource:
    """Open the acquisition; see `napari_4dstem.sources.open_source`."""
    findings = _look(path, options)
    info, plan = _judge(findings, path, options)
    if not info.ready:
        raise NotReadyError(info.reason.rstrip("."), where=path, action=info.action)
    return ArinaSource(info, plan, findings.inventory)


class ArinaSource(FrameSource):
    """An open Arina acquisition; a :class:`~napari_4dstem.sources.base.Source`.

    Data files are opened when a frame of theirs is first read; a few stay open.
    """

    def __init__(self, info: SourceInfo, plan: ScanPlan, inventory: FrameInventory) -> None:
        super().__init__(info, plan)
        self._segments = inventory.segments
        self._starts = np.array([s.start for s in inventory.segments], np.int64)
        self._layout = inventory.layout
        self._open: OrderedDict[int, FrameDataset] = OrderedDict()
        paths = dict.fromkeys((info.path, *info.files))
        self._identities = [FileIdentity.of(p) for p in paths]
        self._identity_of = {i.path: i for i in self._identities}
        try:
            # What would stop every read shall stop the opening.
            self._dataset(0).load_filters()
        except BaseException:
            self._close_files()
            raise

    def _read_frames(self, first: int, out: NDArray[Any]) -> None:
        done = 0
        while done < len(out):
            frame = first + done
            number = int(np.searchsorted(self._starts, frame, side="right")) - 1
            segment = self._segments[number]
            local = frame - segment.start
            count = min(len(out) - done, segment.count - local)
            data = self._dataset(number)
            data.read(segment.stretch.first + local, out[done : done + count])
            done += count

    def _dataset(self, number: int) -> FrameDataset:
        """Return an open data file; the one not used for longest is closed for it."""
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number]
        segment = self._segments[number]
        self._identity_of[segment.stretch.path].check()
        data = self._open_like_the_others(segment)
        self._open[number] = data
        while len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return data

    def _open_like_the_others(self, segment: Segment) -> FrameDataset:
        """Open a data file; not all of them were looked into when the acquisition was opened."""
        stretch, expected = segment.stretch, self._layout
        try:
            data = FrameDataset(stretch.path, stretch.name, stretch.channel)
        except SourceError as error:
            raise DamagedDataError(
                f"A data file cannot be read: {error.what}",
                where=stretch.path,
                found=error.found,
                action=error.action or "Copy this file again",
            ) from error
        layout, count = data.layout, stretch.first + segment.count
        if data.count < count or not layout.alike(expected):
            data.close()
            raise DamagedDataError(
                "A data file is not like the others",
                where=stretch.path,
                expected=f"{count} frames of {expected.words}",
                found=f"{data.count} frames of {layout.words}",
                action="Copy this file again",
            )
        return data

    def check_unchanged(self) -> None:
        """Raise `SourceChangedError` if a file was rewritten since it was opened."""
        for identity in self._identities:
            identity.check()

    def _close_files(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
