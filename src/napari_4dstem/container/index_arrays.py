"""The exact short cuts (`Index`) as arrays of a file. All of them can be dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.index import Index
from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.container.arrays import ArrayFile
from napari_4dstem.ledger import Kind

_PATTERNS = ("sum_pattern", "max_pattern", "nodata_count", "masked")


def index_arrays(index: Index | None) -> dict[str, NDArray[Any]]:
    """Return an index as named arrays.

    Rows of tile sums of one width lie together, ascending by tile: ``index/tile_sum_2`` holds the
    16-bit ones. ``index/tile_width`` u8[n_tiles] says which tile is where.
    """
    if index is None:
        return {}
    arrays = {f"index/{name}": getattr(index, name) for name in _PATTERNS}
    arrays["index/masked"] = index.masked.astype(np.uint8)
    if index.tile_sum is not None:
        widths = np.array([row.dtype.itemsize for row in index.tile_sum], np.uint8)
        arrays["index/tile_width"] = widths
        for width in np.unique(widths):
            rows = [index.tile_sum[t] for t in np.flatnonzero(widths == width)]
            arrays[f"index/tile_sum_{width}"] = np.stack(rows)
    return arrays


def read_index(file: ArrayFile, layout: ScanLayout, problems: list[str]) -> Index | None:
    """Return the index of a file, without the parts that are missing or damaged.

    Parameters
    ----------
    problems
        Receives a line for each damaged part.
    """
    number = np.dtype(np.float64 if layout.dtype.kind == "f" else np.int64)
    dtypes = dict.fromkeys(_PATTERNS, number) | {
        "nodata_count": np.dtype(np.int64),
        "masked": np.dtype(np.uint8),
    }
    if not any(entry.name.startswith("index/") for entry in file.table.arrays):
        return None
    parts = {}
    for name, dtype in dtypes.items():
        array = file.optional(f"index/{name}")
        if array is None or array.shape != layout.detector_shape or array.dtype != dtype:
            problems.append(f"The short cut index/{name} is damaged: images take longer without")
            return None
        parts[name] = array
    masked = parts.pop("masked").astype(bool)
    rows = None
    if file.table.find("index/tile_width") is not None:
        rows = _tile_sum(file, layout)
        if rows is None:
            problems.append("The tile sums are damaged: images take longer without")
    return Index(
        tile_sum=rows,
        sum_pattern=parts["sum_pattern"],
        max_pattern=parts["max_pattern"],
        nodata_count=parts["nodata_count"],
        masked=masked,
    )


def _tile_sum(file: ArrayFile, layout: ScanLayout) -> list[NDArray[Any]] | None:
    widths = file.optional("index/tile_width")
    kind = "i" if layout.dtype.kind == "i" else "u"
    if widths is None or widths.shape != (layout.n_tiles,) or widths.dtype != np.uint8:
        return None
    rows: list[NDArray[Any]] = [np.empty(0)] * layout.n_tiles
    for width in np.unique(widths):
        tiles = np.flatnonzero(widths == width)
        table = file.optional(f"index/tile_sum_{width}", kind=Kind.INDEX)
        if (
            table is None
            or table.dtype.kind != kind
            or table.dtype.itemsize != width
            or table.shape != (len(tiles), layout.n_positions)
        ):
            return None
        for tile, row in zip(tiles, table, strict=True):
            rows[tile] = row
    return rows
