"""Ceilings by hand-worked figures, and the refusal that names numbers and choices."""

from __future__ import annotations

import pytest

from napari_4dstem.errors import MemoryRefused
from napari_4dstem.ledger import HostAllocator, Kind, Ledger
from napari_4dstem.residency.budget import (
    gpu_ceiling,
    host_ceiling,
    require,
    usable,
    usable_now,
)
from napari_4dstem.residency.device_reading import GpuReading, HostReading, host_reading
from napari_4dstem.residency.sizes import GIB, parse_size

HOST = HostReading(total=16 * GIB, available=10 * GIB, process_anon=GIB)
GPU = GpuReading("cuda:0", "some card", total=24 * GIB, free=18 * GIB, process=GIB)
BIG_GPU = GpuReading("cuda:0", "big card", total=80 * GIB, free=60 * GIB, process=GIB)


def test_host_ceiling() -> None:
    assert host_ceiling(HOST, 2 * GIB) == 10 * GIB  # 2 + 80 % of 10
    assert host_ceiling(HOST, 2 * GIB, parse_size("3G")) == 3 * GIB
    assert host_ceiling(HOST, 2 * GIB, parse_size("25%")) == 4 * GIB
    assert host_ceiling(HOST, 2 * GIB, parse_size("0")) == 16 * GIB
    assert host_ceiling(HOST, 2 * GIB, parse_size("1T")) == 16 * GIB


def test_gpu_ceiling_keeps_a_reserve() -> None:
    five_percent = 24 * GIB // 20
    assert gpu_ceiling(GPU, 3 * GIB) == 3 * GIB + 18 * GIB - five_percent
    assert gpu_ceiling(BIG_GPU, 0) == 56 * GIB
    full = GpuReading("cuda:0", "card", total=8 * GIB, free=GIB // 2, process=None)
    assert gpu_ceiling(full, 3 * GIB) == 3 * GIB


def test_usable() -> None:
    assert usable(10, 4, 100) == 6
    assert usable(10, 4, 5) == 5
    assert usable(3, 4, 5) == 0


def test_usable_now_on_this_machine() -> None:
    ledger = Ledger()
    now = usable_now("cpu", ledger)
    assert now is not None
    assert now == pytest.approx(0.8 * host_reading().available, rel=0.1)
    assert usable_now("cpu", ledger, parse_size("10M")) == 10 << 20
    held = HostAllocator(ledger, "budget test").empty(Kind.ENCODED, 4 << 20, "u1")
    assert usable_now("cpu", ledger, parse_size("10M")) == 6 << 20
    assert usable_now("mps", ledger, parse_size("10M")) == 6 << 20
    assert usable_now("cuda:99", ledger) is None
    del held


def test_require() -> None:
    need = {"decoded": 5 * GIB, "workspace": 1 << 20}
    require("Reading", need, 6 * GIB)
    require("Reading", need, 5 * GIB + (1 << 20))
    require("Reading", need, None)
    with pytest.raises(MemoryRefused) as caught:
        require("Reading 64 x 64 patterns", need, 4 * GIB, choices=["crop", "unload scan_003"])
    assert str(caught.value) == (
        "Reading 64 x 64 patterns does not fit in RAM. "
        "Expected: at most 4.00 GiB, which may be used now. "
        "Found: 5.00 GiB needed (decoded 5.00 GiB, workspace 1.00 MiB). "
        "Crop, or unload scan_003."
    )
    with pytest.raises(MemoryRefused, match=r"in cuda:1.*smaller part"):
        require("Loading", need, 0, device="cuda:1")
