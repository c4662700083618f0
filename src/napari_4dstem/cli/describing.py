"""The commands that only tell: ``info`` and ``memory``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from napari_4dstem.cli.options import (
    Channel,
    Dataset,
    Flyback,
    FrameOffset,
    Json,
    Partial,
    ScanFile,
    ScanShape,
    open_options,
)
from napari_4dstem.cli.reporting import guarded, print_json, print_rows, shape_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from napari_4dstem.calibration import Calibration, Quantity
    from napari_4dstem.container import OpenedContainer
    from napari_4dstem.sources import SourceInfo

_FEW = 8


@guarded
def info(
    file: ScanFile,
    scan_shape: ScanShape = None,
    frame_offset: FrameOffset = 0,
    flyback: Flyback = 0,
    partial: Partial = False,
    channel: Channel = None,
    dataset: Dataset = None,
    as_json: Json = False,
) -> None:
    """Say what is in a file: scan and camera, calibration, mask, what is missing.

    Only headers are read. If the file cannot be opened as it stands, this says why and what to do.
    """
    options = open_options(scan_shape, frame_offset, flyback, partial, channel, dataset)
    if file.suffix.lower() == ".ans4d":
        from napari_4dstem.container import open_container

        opened = open_container(file)
        shown = _encoded_facts(opened) if as_json else _encoded_rows(opened)
    else:
        from napari_4dstem.sources import inspect

        source = inspect(file, options)
        shown = _source_facts(source) if as_json else _source_rows(source)
    if isinstance(shown, dict):
        print_json(shown)
    else:
        print_rows(shown)


def _source_facts(source: SourceInfo) -> dict[str, Any]:
    facts = source.model_dump(exclude={"calibration", "mask", "dtype"})
    facts |= {
        "path": str(source.path),
        "dtype": source.dtype.name,
        "files": [str(p) for p in source.files],
        "missing_files": [str(p) for p in source.missing_files],
        "full_bytes": _full_bytes(source),
        "masked_pixels": None if source.mask is None else int(source.mask.sum()),
        "calibration": json.loads(source.calibration.to_json()),
    }
    return facts


def _full_bytes(source: SourceInfo) -> int:
    height, width = source.detector_shape
    return source.frames_found * height * width * source.dtype.itemsize


def _source_rows(source: SourceInfo) -> list[tuple[str, str]]:
    from napari_4dstem.residency.sizes import format_bytes

    rows = [("file", str(source.path)), ("format", source.format)]
    if source.ready:
        rows.append(("ready", "yes"))
    else:
        rows += [("ready", f"no: {source.reason}"), ("to do", source.action)]
    if source.scan_shape is None:
        near = ", ".join(shape_text(s) for s in source.scan_shape_candidates[:_FEW])
        rows.append(("scan", f"unknown; for example {near}" if near else "unknown"))
    else:
        rows.append(("scan", f"{shape_text(source.scan_shape)} ({source.scan_shape_origin})"))
    frames = str(source.frames_found)
    if source.frames_expected not in (None, source.frames_found):
        frames += f" of {source.frames_expected}"
    sizes = f"{format_bytes(source.stored_bytes)}, as plain numbers "
    rows += [
        ("patterns", f"{frames}, each {shape_text(source.detector_shape)} {source.dtype.name}"),
        ("size", sizes + format_bytes(_full_bytes(source))),
    ]
    if source.nodata is not None:
        rows.append(("overload", f"{source.nodata} means no count"))
    rows += _common_rows(source.mask, source.calibration, source.metadata, source.problems)
    if source.channels:
        rows.append(("channels", ", ".join(source.channels)))
    return rows


def _common_rows(
    mask: NDArray[np.bool_] | None,
    calibration: Calibration,
    metadata: dict[str, str],
    problems: tuple[str, ...],
) -> list[tuple[str, str]]:
    rows = [("mask", "none" if mask is None else f"{int(mask.sum())} pixels")]
    rows += _calibration_rows(calibration)
    rows += list(metadata.items())
    rows += [("note", problem) for problem in problems]
    return rows


def _calibration_rows(calibration: Calibration) -> list[tuple[str, str]]:
    def one(value: Quantity | None) -> str:
        return "unknown" if value is None else f"{value.text} ({value.origin})"

    def two(pair: tuple[Quantity, Quantity] | None) -> str:
        if pair is None:
            return "unknown"
        row, column = pair
        same = row == column
        return one(row) if same else f"rows {one(row)}, columns {one(column)}"

    energy = one(calibration.beam_energy)
    if calibration.wavelength_nm is not None:
        energy += f", wavelength {1e3 * calibration.wavelength_nm:.4g} pm"
    pixel = two(calibration.camera_step)
    if calibration.camera_step is None and calibration.suggested_camera_step is not None:
        suggestion = two(calibration.suggested_camera_step)
        pixel += f"; camera length and pixel size suggest {suggestion}, often far off"
    return [
        ("beam", energy),
        ("scan step", two(calibration.scan_step)),
        ("camera pixel", pixel),
        ("semi-angle", one(calibration.convergence_angle)),
    ]


def _encoded_facts(opened: OpenedContainer) -> dict[str, Any]:
    scan, header = opened.scan, opened.header
    layout = scan.layout
    positions = layout.scan_shape[0] * layout.scan_shape[1]
    return {
        "path": str(opened.path),
        "format": "ans4d",
        "ready": True,
        "scan_shape": layout.scan_shape,
        "detector_shape": layout.detector_shape,
        "dtype": layout.dtype.name,
        "positions": positions,
        "missing_positions": positions - layout.n_positions,
        "stored_bytes": opened.path.stat().st_size,
        "encoded_bytes": scan.nbytes,
        "full_bytes": scan.dense_nbytes,
        "nodata": header.nodata,
        "masked_pixels": None if header.mask is None else int(header.mask.sum()),
        "source": None if header.source is None else header.source.model_dump(),
        "writer": header.writer,
        "has_index": scan.index is not None,
        "calibration": json.loads(header.calibration or "{}"),
        "metadata": header.metadata,
        "problems": header.problems,
    }


def _encoded_rows(opened: OpenedContainer) -> list[tuple[str, str]]:
    from napari_4dstem.calibration import Calibration
    from napari_4dstem.residency.sizes import format_bytes

    facts, header = _encoded_facts(opened), opened.header
    recorded, positions = opened.scan.layout.n_positions, facts["positions"]
    patterns = f"{recorded}" if recorded == positions else f"{recorded} of {positions}"
    size = format_bytes(facts["stored_bytes"])
    counts, full = format_bytes(facts["encoded_bytes"]), format_bytes(facts["full_bytes"])
    rows = [
        ("file", facts["path"]),
        ("format", "ans4d, encoded without loss"),
        ("ready", "yes"),
        ("scan", shape_text(facts["scan_shape"])),
        ("patterns", f"{patterns}, each {shape_text(facts['detector_shape'])} {facts['dtype']}"),
        ("size", f"{size} (counts {counts}), as plain numbers {full}"),
    ]
    if header.source is not None:
        rows.append(("source", f"{header.source.name}, {format_bytes(header.source.size)}"))
    rows.append(("written by", header.writer or "unknown"))
    if header.nodata is not None:
        rows.append(("overload", f"{header.nodata} means no count"))
    calibration = Calibration.from_json(header.calibration or "{}")
    return rows + _common_rows(header.mask, calibration, header.metadata, header.problems)


@guarded
def memory(as_json: Json = False) -> None:
    """Say how much memory this machine has, who holds it, and what a scan may take.

    Inside napari, the 4D-STEM memory panel shows the same for the scans that are open there.
    """
    from napari_4dstem.opening import memory as report

    found = report()
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(str(found))
