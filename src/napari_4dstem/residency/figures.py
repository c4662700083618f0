"""Figures that add up as shown: parts of a whole are rounded together, not one by one."""

from __future__ import annotations

from collections.abc import Mapping

from napari_4dstem.residency.sizes import format_bytes, parse_size, unit_of

# Below this many steps a figure would lose its second digit.
_FEW_STEPS = 10


def add_up(parts: Mapping[str, int], whole: str) -> dict[str, str]:
    """Show the parts of a whole so that what a person reads adds up to what the person reads.

    Large parts are shown in the unit of the whole and rounded by the largest remainder; small ones
    are shown in their own unit.

    Parameters
    ----------
    parts
        Bytes by name; together about the whole.
    whole
        The whole as shown ("23.54 GiB"), the parts' sum rounded either way.

    Returns
    -------
    dict
        Text by name. As shown they add up to `whole` within half of its last digit.

    Examples
    --------
    >>> third = 2**30 // 3
    >>> list(add_up({"a": third, "b": third, "c": third + 1}, "1.00 GiB").values())
    ['0.33 GiB', '0.33 GiB', '0.34 GiB']
    """
    number, unit = whole.split()
    digits = len(number.partition(".")[2])
    step = unit_of(parse_size(f"1 {unit}").nbytes)[1] / 10**digits
    small = {k: format_bytes(v) for k, v in parts.items() if v < _FEW_STEPS * step}
    large = {k: v / step for k, v in parts.items() if k not in small}
    rest = parse_size(whole).nbytes - sum(parse_size(text).nbytes for text in small.values())
    steps = _share_out(large, round(rest / step))
    shown = {k: f"{n / 10**digits:.{digits}f} {unit}" for k, n in steps.items()}
    return {key: small.get(key) or shown[key] for key in parts}


def _share_out(values: Mapping[str, float], total: int) -> dict[str, int]:
    """Round `values` to whole numbers that add up to `total`."""
    steps = {k: int(v) for k, v in values.items()}
    left = total - sum(steps.values())
    for key in sorted(values, key=lambda k: values[k] - steps[k], reverse=True)[: max(left, 0)]:
        steps[key] += 1
        left -= 1
    if left and steps:  # the small parts' own rounding
        steps[max(values, key=lambda k: values[k])] += left
    return steps
