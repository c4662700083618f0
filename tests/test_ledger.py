"""Every byte that is held is booked, and leaves the books when it is freed."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from napari_4dstem.ledger import HostAllocator, Kind, Ledger


def test_claims_count_until_they_are_freed() -> None:
    ledger = Ledger()
    first = ledger.claim("scan", Kind.ENCODED, "cuda", 1000)
    ledger.claim("scan", Kind.INDEX, "cpu", 10)
    ledger.claim("other", Kind.INDEX, "cpu", 1)
    assert ledger.total() == 1011
    assert ledger.total(owner="scan") == 1010
    assert ledger.total(kind=Kind.INDEX, device="cpu") == 11
    assert list(ledger.owners()) == ["scan", "other"]
    first.free()
    first.free()
    assert ledger.total(owner="scan") == 10


@pytest.mark.parametrize("shape", [0, 7, (3, 5), (300, 1000)])
def test_arrays_are_zero_and_booked_as_long_as_a_view_lives(shape: int | tuple[int, ...]) -> None:
    ledger = Ledger()
    array = HostAllocator(ledger, "scan").empty(Kind.CACHE, shape, np.uint32)
    assert array.dtype == np.uint32
    assert array.flags.writeable
    assert array.ctypes.data % 8 == 0
    assert not array.any()
    nbytes = array.nbytes
    assert ledger.total(owner="scan", kind=Kind.CACHE, device="cpu") == nbytes
    part = array[..., :1]
    del array
    gc.collect()
    assert ledger.total() == nbytes
    del part
    gc.collect()
    assert ledger.total() == 0


def test_an_allocation_that_fails_is_not_booked() -> None:
    ledger = Ledger()
    with pytest.raises((MemoryError, OSError, OverflowError, ValueError)):
        HostAllocator(ledger, "scan").empty(Kind.CACHE, 1 << 62, np.uint8)
    assert ledger.total() == 0


def test_many_threads_leave_nothing_behind() -> None:
    ledger = Ledger()

    def work(k: int) -> None:
        for _ in range(200):
            ledger.claim(str(k), Kind.WORKSPACE, "cpu", k).free()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
    assert ledger.entries() == []
