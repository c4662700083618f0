"""What an encoded file says about its scan besides the counts: `ContainerHeader`."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.value_map import ValueMap
from napari_4dstem.errors import UsageError


def _as_mask(value: Any) -> NDArray[np.bool_] | None:
    if value is None:
        return None
    mask: NDArray[np.bool_] = np.array(value, dtype=bool)
    mask.flags.writeable = False
    return mask


def _as_dtype(value: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(value)
    return dtype


def writer_version() -> str:
    """Return name and version of this program."""
    try:
        return f"napari-4dstem {metadata.version('napari-4dstem')}"
    except metadata.PackageNotFoundError:
        return "napari-4dstem"


class PlaneOrientation(BaseModel):
    """How one plane (scan or camera) is shown: transposed first, then flipped."""

    model_config = ConfigDict(frozen=True)

    transpose: bool = False
    flip_rows: bool = False
    flip_columns: bool = False


class Orientation(BaseModel):
    """How the scan and the camera are shown; stored data always keep the file's order."""

    model_config = ConfigDict(frozen=True)

    scan: PlaneOrientation = PlaneOrientation()
    camera: PlaneOrientation = PlaneOrientation()


class SourceIdentity(BaseModel):
    """The file that a scan was encoded from.

    Parameters
    ----------
    name
        File name without folder.
    size
        Bytes, of all its files together.
    modified_ns
        Time of the last change, nanoseconds since 1970, or None.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    size: int
    modified_ns: int | None = None


class Details(BaseModel):
    """The part of the header that decoding does not need; stored as JSON in one array."""

    model_config = ConfigDict(frozen=True)

    source: SourceIdentity | None = None
    orientation: Orientation = Orientation()
    overload: str = ""
    writer: str = Field(default_factory=writer_version)
    problems: tuple[str, ...] = ()
    metadata: dict[str, str] = {}


class ContainerHeader(BaseModel):
    """Everything an ``.ans4d`` file says about its scan besides the counts.

    Parameters
    ----------
    scan_shape, detector_shape, dtype, passes, tile, values
        As in the `EncodedScan` that lies in the file.
    calibration
        JSON text of the calibration, "" if unknown.
    mask
        Bool, detector shape, True = masked; or None.
    source
        The file that the scan was encoded from, if known.
    orientation
        How scan and camera are shown.
    overload
        How an overloaded value is recognised, in words.
    writer
        Program and version that wrote the file.
    problems
        What was wrong when the scan was encoded, and what was found wrong on opening.
    metadata
        Further facts, by name.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    scan_shape: tuple[int, int]
    detector_shape: tuple[int, int]
    dtype: Annotated[np.dtype[Any], PlainValidator(_as_dtype)]
    passes: int
    tile: int
    values: ValueMap
    calibration: str = ""
    mask: Annotated[NDArray[np.bool_] | None, PlainValidator(_as_mask)] = None
    source: SourceIdentity | None = None
    orientation: Orientation = Orientation()
    overload: str = ""
    writer: str = Field(default_factory=writer_version)
    problems: tuple[str, ...] = ()
    metadata: dict[str, str] = {}

    @classmethod
    def of(cls, scan: EncodedScan, **facts: Any) -> Self:
        """Return the header of `scan`; `facts` are the fields from `calibration` on."""
        layout = scan.layout
        return cls(
            scan_shape=layout.scan_shape,
            detector_shape=layout.detector_shape,
            dtype=layout.dtype,
            passes=layout.passes,
            tile=layout.tile,
            values=scan.values,
            **facts,
        )

    @property
    def nodata(self) -> int | None:
        """The source value that marks an overload, or None."""
        return self.values.nodata

    def details(self) -> Details:
        """Return the part that is stored as JSON in an array of its own."""
        return Details(**{name: getattr(self, name) for name in Details.model_fields})

    def check_fits(self, scan: EncodedScan) -> None:
        """Raise `UsageError` if this header describes another scan."""
        mine = ContainerHeader.of(scan)
        names = ("scan_shape", "detector_shape", "dtype", "passes", "tile", "values")
        wrong = [name for name in names if getattr(self, name) != getattr(mine, name)]
        if self.mask is not None and self.mask.shape != scan.layout.detector_shape:
            wrong.append("mask")
        if wrong:
            raise UsageError(
                "The header describes another scan",
                expected=", ".join(f"{name} {getattr(mine, name)}" for name in wrong),
                found=", ".join(f"{name} {getattr(self, name)}" for name in wrong),
                action="Make it with ContainerHeader.of(scan, ...)",
            )
