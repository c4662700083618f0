"""How source values and the whole numbers that are compressed belong together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ValueKind = Literal["uint", "int", "f32scaled", "f32raw"]


@dataclass(frozen=True)
class ValueMap:
    """How a source value becomes the non-negative integer code that is compressed.

    Parameters
    ----------
    kind
        ``uint``: code = value. ``int``: code = value - offset. ``f32scaled``:
        float32(code * scale) equals the value bit for bit. ``f32raw``: nothing is coded.
    offset, scale
        Of ``int`` and ``f32scaled``.
    nodata
        The source value that means "no data at this pixel and position" (an overload), or None.
    """

    kind: ValueKind
    offset: int = 0
    scale: float = 1.0
    nodata: int | None = None

    @property
    def is_float(self) -> bool:
        """Whether the source values are floating-point numbers."""
        return self.kind in ("f32scaled", "f32raw")
