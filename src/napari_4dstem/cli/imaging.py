"""The command ``image``: virtual-detector images into files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from napari_4dstem.cli.options import (
    Channel,
    Dataset,
    Flyback,
    FrameOffset,
    Json,
    MaskChoice,
    Overwrite,
    Partial,
    ScanFile,
    ScanShape,
    check_target,
    open_options,
    open_scan,
)
from napari_4dstem.cli.reporting import (
    guarded,
    print_json,
    progress_bar,
    shape_text,
    tell,
    tell_all,
)
from napari_4dstem.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from napari_4dstem.calibration import Calibration
    from napari_4dstem.detectors import Shape

Detectors = Annotated[
    list[str],
    typer.Option(
        "-d",
        "--detector",
        metavar="SHAPE",
        help="Virtual detector in camera pixels: circle:ROW,COL,RADIUS, "
        "annulus:ROW,COL,INNER,OUTER, rect:R0,R1,C0,C1, point:ROW,COL, polygon:ROW,COL,ROW,COL,... "
        "or mask:FILE.npy. Can be given several times.",
        show_default=False,
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE.npy|FILE.tif",
        help="The file to write: .npy (exact, int64) or .tif (exact, float32 or float64, with the "
        "scan step).",
    ),
]
_TIFF = (".tif", ".tiff")


@guarded
def image(
    file: ScanFile,
    detector: Detectors,
    output: Output,
    mask: MaskChoice = "file",
    scan_shape: ScanShape = None,
    frame_offset: FrameOffset = 0,
    flyback: Flyback = 0,
    partial: Partial = False,
    channel: Channel = None,
    dataset: Dataset = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compute virtual-detector images: the exact sum of counts at every scan position.

    One detector gives an image of scan rows x columns; several give a stack, in their order,
    computed in one pass. Masked pixels and overloads add nothing. Positions without data are 0 in
    .npy and NaN in .tif.
    """
    check_target(output, (".npy", *_TIFF), overwrite=overwrite)
    from napari_4dstem.detectors import parse

    shapes = [parse(text) for text in detector]
    options = open_options(scan_shape, frame_offset, flyback, partial, channel, dataset)
    with open_scan(file, options, mask) as acquisition:
        _check_not_empty(shapes, acquisition.detector_shape)
        tell_all(acquisition.problems)
        with progress_bar("Summing", "blocks") as advance:
            images = acquisition.images(shapes, progress=advance)
        valid, calibration = acquisition.valid, acquisition.calibration
    _write(output, images, valid, calibration, detector)
    missing = int((~valid).sum())
    if missing:
        tell(f"{missing} of {valid.size} scan positions have no data.")
    if as_json:
        print_json(_facts(output, detector, images, missing, calibration))
    else:
        count = f"{len(images)} images" if len(images) > 1 else "image"
        tell(f"Wrote {output}: {count} of {shape_text(images[0].shape)} positions")


def _check_not_empty(shapes: list[Shape], camera: tuple[int, int]) -> None:
    for shape in shapes:
        reason = shape.empty_reason(camera)
        if reason is not None:
            raise UsageError(
                "A detector is empty",
                where=f"--detector {shape.to_text()}",
                found=f"it {reason}",
                action="Positions are camera pixels, row first; see napari-4dstem info FILE",
            )


def _facts(
    output: Path,
    detectors: list[str],
    images: list[NDArray[Any]],
    missing: int,
    calibration: Calibration,
) -> dict[str, Any]:
    unit, step = calibration.scan_units()
    return {
        "output": str(output),
        "scan_shape": images[0].shape,
        "missing_positions": missing,
        "scan_step": step,
        "scan_unit": unit,
        "images": [
            {
                "detector": text,
                "sum": image.sum().item(),
                "min": image.min().item(),
                "max": image.max().item(),
            }
            for text, image in zip(detectors, images, strict=True)
        ],
    }


def _write(
    output: Path,
    images: list[NDArray[Any]],
    valid: NDArray[np.bool_],
    calibration: Calibration,
    names: list[str],
) -> None:
    import numpy as np

    from napari_4dstem.container.files import replacing, write_all

    stack = images[0] if len(images) == 1 else np.stack(images)
    content = io.BytesIO()
    if output.suffix.lower() in _TIFF:
        _save_tiff(content, stack, valid, calibration, names)
    else:
        np.save(content, stack)
    data = content.getbuffer()
    with replacing(output, data.nbytes) as file:
        write_all(file, 0, data)


def _save_tiff(
    target: io.BytesIO,
    stack: NDArray[Any],
    valid: NDArray[np.bool_],
    calibration: Calibration,
    names: list[str],
) -> None:
    import tifffile

    unit, (row_step, column_step) = calibration.scan_units()
    axes = "YX" if stack.ndim == 2 else "ZYX"
    values = exact_float(stack, valid)
    resolution = (1 / column_step, 1 / row_step)
    if values.dtype == "f4":
        metadata = {"axes": axes, "unit": "pixel" if unit == "px" else unit, "Labels": names}
        tifffile.imwrite(target, values, imagej=True, resolution=resolution, metadata=metadata)
    else:
        # ImageJ's own form has no float64; its readers take the plain one.
        facts = {"axes": axes, "unit": unit, "step": [row_step, column_step], "Labels": names}
        tifffile.imwrite(target, values, resolution=resolution, metadata=facts)


def exact_float(stack: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[Any]:
    """Return an image as the smallest float that holds every value exactly; NaN where no data.

    Raises
    ------
    UsageError
        If no float does.
    """
    import numpy as np

    for dtype in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            values = stack.astype(dtype)
        if stack.dtype.kind == "f":
            exact = np.array_equal(values, stack, equal_nan=True)
        else:
            # Compared as numbers, a whole number would itself be rounded.
            exact = bool((np.abs(stack) <= 1 << (np.finfo(dtype).nmant + 1)).all())
        if exact:
            return np.where(valid, values, dtype(np.nan))
    raise UsageError(
        "The sums are too large for a TIFF",
        expected="sums up to 2^53",
        found=f"{int(np.abs(stack).max())}",
        action="Write a .npy file instead",
    )
