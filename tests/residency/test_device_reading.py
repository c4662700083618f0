"""Readings against the kernel's own files, real allocations and real folders of limits."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from napari_4dstem.ledger import HostAllocator, Kind, Ledger
from napari_4dstem.residency.device_reading import (
    cgroup_limit,
    gpu_readings,
    host_reading,
    process_reading,
    visible_devices,
)

MIB = 1 << 20
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_host_reading_is_plausible() -> None:
    reading = host_reading()
    assert 0 < reading.available <= reading.total <= psutil.virtual_memory().total
    assert 0 < reading.process < reading.total
    rss = psutil.Process().memory_info().rss
    assert abs(reading.process + reading.process_file - rss) < 64 * MIB or reading.note


@on_linux
def test_what_we_hold_is_private_memory_and_comes_back() -> None:
    allocator = HostAllocator(Ledger(), "reading test")
    before = process_reading()
    held = allocator.empty(Kind.ENCODED, 96 * MIB, "u1")
    held[:] = 3
    during = process_reading()
    assert during.process_anon - before.process_anon == pytest.approx(96 * MIB, abs=8 * MIB)
    assert abs(during.process_shared - before.process_shared) < 8 * MIB
    del held
    gc.collect()
    after = process_reading()
    assert during.process_anon - after.process_anon >= 0.95 * 96 * MIB


@on_linux
def test_mapped_files_are_counted_apart(tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "mapped.bin"
    path.write_bytes(b"\1" * (64 * MIB))
    before = process_reading()
    mapped = np.memmap(path, mode="r")
    assert mapped.sum() == 64 * MIB
    during = process_reading()
    assert during.process_file - before.process_file >= 60 * MIB
    assert during.process - before.process < 16 * MIB


def _write(path: Path, **files: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)


def test_limit_of_control_groups_version_2(tmp_path: Path) -> None:
    _write(tmp_path / "proc/self", cgroup="0::/user/app\n")
    top = tmp_path / "cg"
    _write(top / "user", memory__max="1000\n", memory__current="900\n",
           memory__stat="anon 5\ninactive_file 300\n")  # fmt: skip
    _write(top / "user/app", memory__max="max\n", memory__current="100\n", memory__stat="")
    assert cgroup_limit(tmp_path / "proc", top) == (1000, 400)
    _write(top / "user/app", memory__max="700", memory__current="600")
    assert cgroup_limit(tmp_path / "proc", top) == (700, 100)


def test_limit_of_control_groups_version_1_and_hybrid(tmp_path: Path) -> None:
    _write(tmp_path / "proc/self", cgroup="4:cpu,memory:/away/0815\n1:name=systemd:/\n0::/\n")
    top = tmp_path / "cg"
    _write(top / "memory", memory__limit_in_bytes="5000", memory__usage_in_bytes="6000",
           memory__stat="inactive_file 1\ntotal_inactive_file 1500\n")  # fmt: skip
    assert cgroup_limit(tmp_path / "proc", top) == (5000, 500)
    _write(top / "memory", memory__limit_in_bytes=str(2**63 - 4096))
    assert cgroup_limit(tmp_path / "proc", top) is None
    _write(top / "unified", memory__max="300", memory__current="400", memory__stat="")
    assert cgroup_limit(tmp_path / "proc", top) == (300, 0)


def test_no_control_groups_and_odd_paths(tmp_path: Path) -> None:
    assert cgroup_limit(tmp_path, tmp_path) is None
    _write(tmp_path / "proc/self", cgroup="0::/../../outside\n")
    _write(tmp_path / "outside", memory__max="1", memory__current="1", memory__stat="")
    _write(tmp_path / "a/cg", memory__max="900", memory__current="100", memory__stat="")
    assert cgroup_limit(tmp_path / "proc", tmp_path / "a/cg") == (900, 800)


def test_gpu_order_follows_cuda() -> None:
    uuids = ["GPU-aa-1", "GPU-ab-2", "GPU-cc-3"]
    assert visible_devices(uuids, {}) == [0, 1, 2]
    assert visible_devices(uuids, {"CUDA_VISIBLE_DEVICES": "2,0"}) == [2, 0]
    assert visible_devices(uuids, {"CUDA_VISIBLE_DEVICES": ""}) == []
    assert visible_devices(uuids, {"CUDA_VISIBLE_DEVICES": "-1"}) == []
    assert visible_devices(uuids, {"CUDA_VISIBLE_DEVICES": "1,7,0"}) == [1]
    assert visible_devices(uuids, {"CUDA_VISIBLE_DEVICES": "GPU-cc,GPU-ab-2"}) == [2, 1]
    assert visible_devices(uuids, {"CUDA_VISIBLE_DEVICES": "GPU-a"}) == []  # ambiguous
    assert visible_devices(uuids, {}, [("cc-3", 0, 0), ("aa-1", 0, 0)]) == [2, 0]
    assert visible_devices(uuids, {}, [("", 0, 0)]) == [0]


def test_gpu_readings_add_up() -> None:
    for reading in gpu_readings():  # none on a machine without an NVIDIA driver
        assert 0 <= reading.free <= reading.total
        assert reading.process is None or reading.process <= reading.total - reading.free


def test_reading_imports_neither_torch_nor_qt() -> None:
    code = (
        "import sys\n"
        "from napari_4dstem.residency import budget, device_reading, report\n"
        "device_reading.host_reading(); device_reading.gpu_readings()\n"
        "print(sorted({'torch', 'napari', 'qtpy', 'numba'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.strip() == "[]"
