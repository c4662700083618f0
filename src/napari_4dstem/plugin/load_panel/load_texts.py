"""What the load panel says about a file, and whether a scan shape fits it: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.calibration import Calibration, Quantity
from napari_4dstem.plugin.real_space_view.number_text import grouped
from napari_4dstem.residency.sizes import format_bytes

if TYPE_CHECKING:
    from napari_4dstem.container import ContainerHeader
    from napari_4dstem.sources import SourceInfo

_NAMED_FILES = 3  # more than these are counted, not named


@dataclass(frozen=True)
class ScanFit:
    """Whether a scan shape fits the frames of a file.

    Attributes
    ----------
    verdict
        ``"fits"``, ``"spare"`` (frames are left over), ``"short"`` (there are too few) or
        ``"empty"`` (no shape chosen).
    text
        The same for the user, with the numbers.
    """

    verdict: str
    text: str


def scan_fit(shape: tuple[int, int], frames: int, *, offset: int = 0, flyback: int = 0) -> ScanFit:
    """Compare a scan shape with the number of frames.

    Parameters
    ----------
    shape
        Scan rows and columns.
    frames
        Frames that the file has.
    offset
        Frames to skip at the start; negative: so many positions at the start were never recorded.
    flyback
        Extra frames at the end of each scan row. After the last row they may be absent.
    """
    rows, columns = shape
    if rows < 1 or columns < 1:
        return ScanFit("empty", "Choose the number of scan rows and columns")
    positions = rows * columns
    text = f"{rows} x {columns} = {grouped(positions)} positions{_extras(offset, flyback)}"
    text += f" of {grouped(frames)} frames"
    starts = offset + np.arange(rows, dtype=np.int64) * (columns + flyback)
    recorded = np.minimum(starts + columns, frames) - np.maximum(starts, 0)
    empty = positions - int(np.maximum(recorded, 0).sum())
    spare = frames - offset - rows * (columns + flyback)
    if empty:
        verb = "position has" if empty == 1 else "positions have"
        return ScanFit("short", f"{text}: {grouped(empty)} {verb} no frame")
    if spare > 0:
        return ScanFit("spare", f"{text}: the last {grouped(spare)} are not used")
    return ScanFit("fits", text)


def _extras(offset: int, flyback: int) -> str:
    parts = []
    if offset:
        parts.append(f"{grouped(offset)} skipped" if offset > 0 else f"{-offset} not recorded")
    if flyback:
        parts.append(f"{flyback} flyback a row")
    return f" ({', '.join(parts)})" if parts else ""


def facts(info: SourceInfo) -> list[tuple[str, str, str]]:
    """Lines about a file: label, text, and a tooltip (may be empty)."""
    lines = [
        ("Format", info.format, ""),
        ("Frames", _frames(info), "Patterns found in the file, of those its header promises"),
        ("Camera", "{} x {} pixels".format(*info.detector_shape), "Camera rows x columns"),
        ("Numbers", _numbers(info.dtype), "How the file stores a count"),
        ("Stored", _stored(info), "Size of the file or files on disk"),
        ("Full size", format_bytes(full_size(info)), "Size of all patterns as plain numbers"),
        ("Beam energy", *_beam_energy(info.calibration)),
        ("Scan step", *_step(info.calibration.scan_step)),
        ("Camera step", *_camera_step(info.calibration)),
        ("Masked pixels", _masked(info.mask), "Camera pixels that the file marks as unusable"),
    ]
    return [line for line in lines if line[1]]


def encoded_facts(header: ContainerHeader, stored_bytes: int) -> list[tuple[str, str, str]]:
    """Lines about an encoded file, as :func:`facts` gives them for a source."""
    calibration = _calibration(header.calibration)
    numbers = prod(header.scan_shape) * prod(header.detector_shape) * header.dtype.itemsize
    lines = [
        ("Format", "Encoded scan (.ans4d)", header.writer),
        ("Scan", "{} x {} positions".format(*header.scan_shape), "Scan rows x columns"),
        ("Camera", "{} x {} pixels".format(*header.detector_shape), "Camera rows x columns"),
        ("Numbers", _numbers(header.dtype), "How the source stored a count"),
        ("Stored", format_bytes(stored_bytes), "Size of the file on disk"),
        ("Full size", format_bytes(numbers), "Size of all patterns as plain numbers"),
        ("Beam energy", *_beam_energy(calibration)),
        ("Scan step", *_step(calibration.scan_step)),
        ("Camera step", *_camera_step(calibration)),
        ("Masked pixels", _masked(header.mask), "Camera pixels that are marked as unusable"),
    ]
    if header.source is not None:
        lines.append(("Encoded from", header.source.name, ""))
    return lines


def _calibration(text: str) -> Calibration:
    try:
        return Calibration.from_json(text) if text else Calibration()
    except ValueError:  # written by something else: unknown, not fatal
        return Calibration()


def full_size(info: SourceInfo) -> int:
    """Bytes of all patterns as plain numbers."""
    positions = prod(info.scan_shape) if info.scan_shape is not None else info.frames_found
    return positions * prod(info.detector_shape) * info.dtype.itemsize


def _frames(info: SourceInfo) -> str:
    if info.frames_expected is None or info.frames_expected == info.frames_found:
        return grouped(info.frames_found)
    return f"{grouped(info.frames_found)} of {grouped(info.frames_expected)} expected"


def _numbers(dtype: np.dtype[Any]) -> str:
    bits = dtype.itemsize * 8
    kinds = {"u": "whole numbers", "i": "signed whole numbers", "f": "decimal numbers"}
    kind = kinds.get(dtype.kind, "numbers")
    return f"{bits}-bit {kind} ({dtype.name})"


def _stored(info: SourceInfo) -> str:
    count = len(info.files)
    return format_bytes(info.stored_bytes) + (f" in {count} files" if count > 1 else "")


def _beam_energy(calibration: Calibration) -> tuple[str, str]:
    energy = calibration.beam_energy
    if energy is not None:
        return energy.text, f"From: {energy.origin}"
    if calibration.conflicts:
        return "contradictory", "; ".join(calibration.conflicts)
    return "unknown", "The file does not say"


def _step(step: tuple[Quantity, Quantity] | None) -> tuple[str, str]:
    if step is None:
        return "unknown", "Shown in pixels until it is known"
    row, column = step
    text = row.text if row.text == column.text else f"{row.text} (rows), {column.text} (columns)"
    return text, f"From: {row.origin}"


def _camera_step(calibration: Calibration) -> tuple[str, str]:
    if calibration.camera_step is None and calibration.suggested_camera_step is not None:
        suggested, _ = _step(calibration.suggested_camera_step)
        return "unknown", f"Pixel size and camera length suggest {suggested}; not used"
    return _step(calibration.camera_step)


def _masked(mask: NDArray[np.bool_] | None) -> str:
    if mask is None:
        return "the file has no mask"
    count = int(mask.sum())
    if not count:
        return "none"
    return f"{grouped(count)} of {grouped(mask.size)} ({100 * count / mask.size:.2g} %)"


def missing_text(info: SourceInfo) -> str:
    """Name the files that are missing; empty if none is."""
    names = [path.name for path in info.missing_files]
    if not names:
        return ""
    more = len(names) - _NAMED_FILES
    listed = ", ".join(names[:_NAMED_FILES]) + (f" and {more} more" if more > 0 else "")
    return f"Missing: {listed}"
