"""The commands that only tell: ``info`` and ``memory``."""

from __future__ import annotations

import json
from pathlib import Path
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
        facts, rows = _about_encoded(file)
    else:
        from napari_4dstem.sources import inspect

        source = inspect(file, options)
        facts, rows = _source_facts(source), _source_rows(source)
    if as_json:
        print_json(facts)
    else:
        print_rows(rows)


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
        rows += [("ready", f"no: {source.reason}"), ("do", source.action)]
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
        ("camera", f"{shape_text(source.detector_shape)} {source.dtype.name}"),
        ("frames", frames),
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
    rows = [
        ("beam", energy),
        ("scan step", two(calibration.scan_step)),
        ("camera pixel", two(calibration.camera_step)),
        ("semi-angle", one(calibration.convergence_angle)),
    ]
    if calibration.camera_step is None and calibration.suggested_camera_step is not None:
        suggestion = two(calibration.suggested_camera_step)
        rows.append(("", f"camera length and pixel size suggest {suggestion}; often far off"))
    return rows


def _about_encoded(path: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    from napari_4dstem.calibration import Calibration
    from napari_4dstem.container import open_container
    from napari_4dstem.residency.sizes import format_bytes

    opened = open_container(path)
    scan, header = opened.scan, opened.header
    calibration = Calibration.from_json(header.calibration or "{}")
    positions = scan.layout.scan_shape[0] * scan.layout.scan_shape[1]
    facts = {
        "path": str(path),
        "format": "ans4d",
        "ready": True,
        "scan_shape": scan.layout.scan_shape,
        "detector_shape": scan.layout.detector_shape,
        "dtype": scan.layout.dtype.name,
        "positions": positions,
        "missing_positions": positions - scan.layout.n_positions,
        "stored_bytes": path.stat().st_size,
        "encoded_bytes": scan.nbytes,
        "full_bytes": scan.dense_nbytes,
        "nodata": header.nodata,
        "masked_pixels": None if header.mask is None else int(header.mask.sum()),
        "source": None if header.source is None else header.source.model_dump(),
        "writer": header.writer,
        "has_index": scan.index is not None,
        "calibration": json.loads(calibration.to_json()),
        "metadata": header.metadata,
        "problems": header.problems,
    }
    missing = positions - scan.layout.n_positions
    sizes = f"{format_bytes(path.stat().st_size)} (counts {format_bytes(scan.nbytes)})"
    rows = [
        ("file", str(path)),
        ("format", "ans4d, encoded without loss"),
        ("ready", "yes"),
        ("scan", shape_text(scan.layout.scan_shape)),
        ("camera", f"{shape_text(scan.layout.detector_shape)} {scan.layout.dtype.name}"),
        ("missing", f"{missing} of {positions} positions" if missing else "nothing"),
        ("size", f"{sizes}, as plain numbers {format_bytes(scan.dense_nbytes)}"),
    ]
    if header.source is not None:
        rows.append(("source", f"{header.source.name}, {format_bytes(header.source.size)}"))
    rows.append(("written by", header.writer or "unknown"))
    if header.nodata is not None:
        rows.append(("overload", f"{header.nodata} means no count"))
    rows += _common_rows(header.mask, calibration, header.metadata, header.problems)
    return facts, rows


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
