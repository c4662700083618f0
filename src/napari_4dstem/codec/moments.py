"""Do exact first moments fit into 64 bits? If they might not, they are refused, never wrapped."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.errors import UsageError


def moments_fit(scan: EncodedScan) -> bool:
    """Whether first moments of any pattern of an integer scan stay below 2^63."""
    if scan.values.is_float:
        return True
    layout = scan.layout
    furthest = max(layout.detector_shape)
    if 2 ** (8 * layout.dtype.itemsize) * layout.n_pixels * furthest < 1 << 63:
        return True
    if scan.index is None or layout.dtype.kind == "i":
        return False
    brightest = int(np.maximum(scan.index.max_pattern, 0).sum(dtype=np.uint64))
    return brightest * furthest < 1 << 63


def refuse_moments() -> NoReturn:
    """Raise the error of a scan whose moments do not fit (`moments_fit`)."""
    raise UsageError(
        "The values are too large for exact first moments",
        expected="moments below 2^63",
        action="Choose a smaller part of the camera, or bin it",
    )
