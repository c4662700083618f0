"""How numbers are written on screen: grouped digits, short forms, one place for all widgets."""

from __future__ import annotations

import math

THIN_SPACE = "\u202f"  # narrow no-break space: groups digits without breaking a line


def grouped(number: int) -> str:
    """Write an integer with its digits in groups of three: ``3914`` becomes ``3 914``."""
    return f"{number:,}".replace(",", THIN_SPACE)


def value_text(value: float) -> str:
    """Write a pixel value: whole numbers in full, others to five digits."""
    number = float(value)
    if not math.isfinite(number):
        return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")
    if number == int(number) and abs(number) < 1e15:
        return grouped(int(number))
    return f"{number:.5g}"


def short_text(value: float) -> str:
    """Write a value in about seven characters: ``1 234``, ``12.3k``, ``4.56M``, ``0.0123``."""
    number = float(value)
    magnitude = abs(number)
    for limit, divisor, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if magnitude >= limit:
            return f"{number / divisor:.3g}{suffix}"
    if magnitude >= 100:
        return grouped(round(number))
    return f"{number:.3g}"
