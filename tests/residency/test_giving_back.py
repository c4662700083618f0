"""What is said to have come back did come back, by the kernel's count."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from napari_4dstem.ledger import HostAllocator, Kind, Ledger
from napari_4dstem.residency.device_reading import process_reading
from napari_4dstem.residency.giving_back import GivenBack, empty_caches, unload

MIB = 1 << 20


class Scan:
    """A scan that holds real memory; `hidden` keeps it alive against the books."""

    place = "RAM"

    def __init__(self, ledger: Ledger, name: str, encoded: int, cache: int = 0) -> None:
        self.name, self._ledger = name, ledger
        allocator = HostAllocator(ledger, name)
        self.encoded: Any = allocator.empty(Kind.ENCODED, encoded, "u1")
        self.encoded[:] = 7
        self.cache: Any = allocator.empty(Kind.CACHE, cache, "u1") if cache else None

    @property
    def resident_bytes(self) -> int:
        return self._ledger.total(owner=self.name)

    def release(self) -> None:
        self.encoded = self.cache = None

    def empty_cache(self) -> None:
        self.cache = None


def test_unload_gives_back_and_says_so() -> None:
    ledger = Ledger()
    scan = Scan(ledger, "scan_003", 128 * MIB)
    before = process_reading()
    back = unload(ledger, scan)
    assert str(back) == "Unloaded scan_003: 128.00 MiB back"
    if sys.platform == "linux":
        assert before.process_anon - process_reading().process_anon >= 0.95 * 128 * MIB
    assert str(unload(ledger, scan)) == "Unloaded scan_003: 0 B back"


def test_unload_admits_what_did_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    scan = Scan(ledger, "kept", 64 * MIB)
    stays: list[bytearray] = []
    monkeypatch.setattr(
        scan, "release", lambda: (Scan.release(scan), stays.append(bytearray(b"x") * (64 * MIB)))
    )
    text = str(unload(ledger, scan))
    assert text.startswith("Unloaded kept: 64.00 MiB back (the system still counts 6")


def test_unload_is_not_blamed_for_what_another_scan_took_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger()
    scan, others = Scan(ledger, "a", 64 * MIB), []
    monkeypatch.setattr(
        scan, "release", lambda: (Scan.release(scan), others.append(Scan(ledger, "b", 64 * MIB)))
    )
    assert str(unload(ledger, scan)) == "Unloaded a: 64.00 MiB back"


def test_empty_caches_leaves_the_scan() -> None:
    ledger = Ledger()
    scans = [Scan(ledger, "a", 2 * MIB, 3 * MIB), Scan(ledger, "b", 2 * MIB)]
    back = empty_caches(ledger, [*scans, object()])
    assert back == GivenBack("Emptied the cache", 3 * MIB)
    assert ledger.total(kind=Kind.ENCODED) == 4 * MIB
