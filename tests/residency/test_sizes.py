"""Sizes are read strictly and shown so that a person reads the right magnitude."""

from __future__ import annotations

import re

import numpy as np
import pytest

from napari_4dstem.errors import UsageError
from napari_4dstem.residency.sizes import AUTO, NO_LIMIT, Size, format_bytes, parse_size, unit_of


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1", 1),
        ("512 B", 512),
        ("3K", 3 * 1024),
        ("3k", 3 * 1024),
        ("3KiB", 3 * 1024),
        ("3KB", 3000),
        ("3kB", 3000),
        ("2M", 2 * 1024**2),
        ("2MB", 2_000_000),
        ("4G", 4 * 1024**3),
        ("4GiB", 4 * 1024**3),
        (" 4 gib ", 4 * 1024**3),
        ("4GB", 4_000_000_000),
        ("1.5TiB", 3 * 1024**4 // 2),
        ("1TB", 10**12),
        (".5K", 512),
        ("0.1GB", 100_000_000),
        (123456789, 123456789),
    ],
)
def test_parse_bytes(text: str | int, nbytes: int) -> None:
    assert parse_size(text) == Size("bytes", nbytes)


def test_parse_words_and_percentages() -> None:
    assert parse_size("auto") is AUTO
    assert parse_size("AUTO") is AUTO
    assert parse_size("0") is NO_LIMIT
    assert parse_size("0GiB") is NO_LIMIT
    assert parse_size(0) is NO_LIMIT
    assert parse_size("37.5%") == Size("percent", 37.5)
    assert parse_size("100 %") == Size("percent", 100.0)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "-1", "-4G", "+4G", "inf", "nan", "infGiB", "1e9", "4 X", "4GiBs", "G", "%",
        "101%", "-5%", "5%G", "4,5G", "4.G", "1.5", "0.0001K", "1..5G", "0x10", "none", "auto auto",
        "٣G", "9999999999999G", "9" * 10_000, True, False, None, 1.5, -3, b"4G",
    ],
)  # fmt: skip
def test_refuses_everything_else(text: object) -> None:
    with pytest.raises(UsageError, match="no memory size") as caught:
        parse_size(text)  # type: ignore[arg-type]
    assert "4GiB" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_resolve() -> None:
    assert parse_size("3K").resolve(total=100, auto=5) == 3072
    assert parse_size("50%").resolve(total=1001, auto=5) == 500
    assert AUTO.resolve(total=100, auto=5) == 5
    assert NO_LIMIT.resolve(total=100, auto=5) == 100
    assert [str(parse_size(t)) for t in ("4G", "50%", "auto", "0")] == [
        "4.00 GiB",
        "50 %",
        "auto",
        "none",
    ]


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (35328, "34.5 KiB"),
        (1024**2 - 1, "1.00 MiB"),
        (1024**2, "1.00 MiB"),
        (1320702443, "1.23 GiB"),
        (1024**3 - 1, "1.00 GiB"),
        (-1320702443, "-1.23 GiB"),
        (18 * 1024**4, "18.00 TiB"),
    ],
)
def test_format(nbytes: int, text: str) -> None:
    assert format_bytes(nbytes) == text


def test_what_is_shown_reads_back_within_its_last_digit() -> None:
    rng = np.random.default_rng(5)
    for nbytes in (2 ** rng.uniform(0, 45, 500)).astype(int):
        shown = format_bytes(int(nbytes))
        digits = re.fullmatch(r"\d{1,4}(?:\.(\d+))? \w+", shown)
        assert digits is not None
        _, unit = unit_of(int(nbytes))
        half = 0.5 * 10.0 ** -len(digits[1] or "") * unit + 1
        assert abs(parse_size(shown).amount - nbytes) <= half
