"""Memory sizes as people write and read them: one grammar and one way to show them everywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from napari_4dstem.errors import UsageError

GIB: Final = 1 << 30

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FACTORS: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{f"{p}{end}": 1024**i for i, p in enumerate("kmgt", 1) for end in ("", "ib")},
    **{f"{p}b": 1000**i for i, p in enumerate("kmgt", 1)},
}
# The bounded digit counts keep a hostile preference from costing time; 20 digits exceed 2**63.
_PATTERN = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})\s*([A-Za-z]{0,3}|%)")
_LARGEST = 1 << 63


@dataclass(frozen=True)
class Size:
    """A parsed size: how much memory may be used.

    Attributes
    ----------
    kind
        "bytes", "percent" (of the device or of RAM), "auto" (decided from what is free now) or
        "none" (no limit of ours).
    amount
        Bytes, or per cent; 0 for "auto" and "none".
    """

    kind: Literal["bytes", "percent", "auto", "none"]
    amount: float = 0

    @property
    def nbytes(self) -> int:
        """The size in bytes where it was given in bytes, else 0."""
        return int(self.amount) if self.kind == "bytes" else 0

    def resolve(self, *, total: int, auto: int) -> int:
        """Return the size in bytes on a device of `total` bytes where "auto" means `auto` bytes."""
        if self.kind == "bytes":
            return self.nbytes
        if self.kind == "percent":
            return int(Decimal(str(self.amount)) * total / 100)
        return auto if self.kind == "auto" else total

    def __str__(self) -> str:
        if self.kind == "bytes":
            return format_bytes(self.nbytes)
        return f"{self.amount:g} %" if self.kind == "percent" else self.kind


AUTO: Final = Size("auto")
NO_LIMIT: Final = Size("none")


def parse_size(text: str | int) -> Size:
    """Read a size as people write it.

    Parameters
    ----------
    text
        ``"4G"``, ``"4GiB"`` (both binary), ``"4GB"`` (decimal), ``"1.5 TiB"``, ``"50%"``,
        ``"auto"``, ``"0"`` (no limit), or a whole number of bytes. Case does not matter.

    Returns
    -------
    Size

    Raises
    ------
    UsageError
        For anything else: negative, infinite, empty, over 100 %.

    Examples
    --------
    >>> parse_size("4GiB")
    Size(kind='bytes', amount=4294967296)
    >>> parse_size("50%")
    Size(kind='percent', amount=50.0)
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise _refuse(text)
    found = str(text).strip()
    if found.lower() == "auto":
        return AUTO
    match = _PATTERN.fullmatch(found)
    if match is None:
        raise _refuse(text)
    number, unit = Decimal(match[1]), match[2].lower()
    if unit == "%":
        if number > 100:
            raise _refuse(text)
        return Size("percent", float(number)) if number else NO_LIMIT
    if unit not in _FACTORS:
        raise _refuse(text)
    nbytes = number * _FACTORS[unit]
    # "0.5" can only be a forgotten unit; "0.5 KiB" is fine.
    if nbytes >= _LARGEST or (_FACTORS[unit] == 1 and nbytes != int(nbytes)):
        raise _refuse(text)
    if number and int(nbytes) == 0:
        raise _refuse(text)
    return Size("bytes", int(nbytes)) if number else NO_LIMIT


def _refuse(text: object) -> UsageError:
    shown = repr(text)
    return UsageError(
        "This is no memory size",
        expected="a number with K, M, G, T, KiB..TiB (binary) or KB..TB (decimal), "
        "a percentage up to 100%, 'auto', or 0 for no limit",
        found=shown if len(shown) <= 60 else shown[:57] + "...",
        action="Write for example 4GiB, 50% or auto",
    )


def format_bytes(nbytes: int) -> str:
    """Show a number of bytes: "512 B", "34.5 KiB", "1.23 GiB" (binary units).

    Examples
    --------
    >>> format_bytes(512), format_bytes(35328), format_bytes(1320702443)
    ('512 B', '34.5 KiB', '1.23 GiB')
    """
    sign, size = ("-", -nbytes) if nbytes < 0 else ("", nbytes)
    power = 0
    # 1023.996 MiB would read "1024.00 MiB": what rounds up to the next unit is shown in it.
    while power < len(_BINARY) - 1 and round(size / 1024**power, min(power, 2)) >= 1024:
        power += 1
    return f"{sign}{size / 1024**power:.{min(power, 2)}f} {_BINARY[power]}"


def unit_of(nbytes: int) -> tuple[str, int]:
    """Return the binary unit in which `nbytes` is shown, and its bytes: ("GiB", 2**30)."""
    unit = format_bytes(nbytes).split()[1]
    return unit, 1 << 10 * _BINARY.index(unit)
