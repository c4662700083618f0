"""What the machine says about its memory, read without side effects.

A reading never imports torch and never creates a GPU context (that would itself cost hundreds of
megabytes): GPUs are asked through NVML, and torch only where it is loaded and initialised anyway.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_LINUX = bool(sys.platform == "linux")
_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
# Version 1 writes a number near 2**63 for "no limit".
_NO_LIMIT_FROM = 1 << 60


@dataclass(frozen=True)
class HostReading:
    """Host memory at one moment; all figures are bytes.

    Attributes
    ----------
    total, available
        What the machine, or the control group that this process is confined to, has at all, and
        what can be had without swapping (reclaimable file cache counts as available).
    process_anon, process_shared
        Memory of this process that only freeing gives back: private, and shared between processes.
    process_file
        Pages of mapped files: the system takes them back whenever it needs them.
    limited
        True if a control group allows less than the machine has.
    note
        How the process figures were found where they are not exact, else "".
    """

    total: int
    available: int
    process_anon: int
    process_shared: int = 0
    process_file: int = 0
    limited: bool = False
    note: str = ""

    @property
    def process(self) -> int:
        """Bytes that this process holds and the system cannot take back."""
        return self.process_anon + self.process_shared


@dataclass(frozen=True)
class GpuReading:
    """Memory of one GPU at one moment; all figures are bytes.

    Attributes
    ----------
    device
        Name by which our ledger knows it ("cuda:0").
    name
        Name of the card.
    total, free
        Of the whole device, all programs.
    process
        What this process holds there, its context included; None where the driver does not say.
    torch_cache
        What torch keeps for itself: reserved but not in use.
    torch_reserved
        All that torch reserved in this process, used or not.
    """

    device: str
    name: str
    total: int
    free: int
    process: int | None
    torch_cache: int = 0
    torch_reserved: int = 0


def host_reading() -> HostReading:
    """Read host memory: about 0.1 ms on Linux, up to a few ms elsewhere."""
    import psutil

    machine = psutil.virtual_memory()
    total, available = int(machine.total), int(machine.available)
    limit = cgroup_limit() if _LINUX else None
    limited = limit is not None and limit[0] < total
    if limit is not None and limited:
        total, available = limit[0], min(available, limit[1])
    return replace(process_reading(), total=total, available=available, limited=limited)


def process_reading() -> HostReading:
    """Read only what this process holds; `total` and `available` are 0."""
    if _LINUX:
        found = _parse_status((_PROC / "self/status").read_text())
        return HostReading(0, 0, found["RssAnon"], found["RssShmem"], found["RssFile"])
    import psutil

    uss = int(psutil.Process().memory_full_info().uss)
    return HostReading(0, 0, uss, note="this process: private bytes as the system counts them")


def _parse_status(text: str) -> dict[str, int]:
    found = dict.fromkeys(("RssAnon", "RssShmem", "RssFile"), 0)
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key in found:
            found[key] = int(value.split()[0]) * 1024
    return found


def cgroup_limit(proc: Path = _PROC, root: Path = _CGROUP) -> tuple[int, int] | None:
    """Return (limit, available) in bytes of the tightest control group, or None without one.

    Both versions are understood, hybrid set-ups as well. In a container the path that ``/proc``
    names may lie outside what is mounted; the mounted root then is our own group.
    """
    groups: list[tuple[int, int]] = []
    for line in _read(proc / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if ".." in path:  # seen from a namespace outside of whose root the group lies
            path = "/"
        if controllers == "":
            for top in (root, root / "unified"):
                groups += _walk(top, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            groups += _walk(root / "memory", path, *names)
    if not groups:
        return None
    return min(g[0] for g in groups), min(g[1] for g in groups)


def _walk(top: Path, path: str, limit: str, usage: str, reclaimable: str) -> list[tuple[int, int]]:
    """Read the limits of the group at `path` below `top` and of all groups above it."""
    groups = []
    folder = top / path.lstrip("/")
    for candidate in (folder, *folder.parents):
        if not candidate.is_relative_to(top):
            break
        most, used = _number(candidate / limit), _number(candidate / usage)
        if most is None or used is None or most >= _NO_LIMIT_FROM:
            continue
        stat = dict(part.split()[:2] for part in _read(candidate / "memory.stat").splitlines())
        free = most - used + int(stat.get(reclaimable, 0))
        groups.append((most, min(max(free, 0), most)))
    return groups


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None  # "max" is no limit


def gpu_readings() -> tuple[GpuReading, ...]:
    """Read the NVIDIA GPUs this process may use; empty without NVML or without a driver."""
    nvml = _nvml()
    if nvml is None:
        return ()
    try:
        return tuple(_nvml_readings(nvml))
    except nvml.NVMLError:
        return ()


@functools.cache
def _nvml() -> Any:
    """Return NVML, initialised once: that takes tens of milliseconds. None without a driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _nvml_readings(nvml: Any) -> list[GpuReading]:
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    uuids = [_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    torch = _torch_devices()
    readings = []
    for number, index in enumerate(visible_devices(uuids, os.environ, torch)):
        memory = nvml.nvmlDeviceGetMemoryInfo(handles[index])
        reading = GpuReading(
            device=f"cuda:{number}",
            name=_text(nvml.nvmlDeviceGetName(handles[index])),
            total=int(memory.total),
            free=int(memory.free),
            process=_process_bytes(nvml, handles[index]),
        )
        if torch:
            reserved, allocated = torch[number][1:]
            reading = replace(reading, torch_cache=reserved - allocated, torch_reserved=reserved)
        readings.append(reading)
    return readings


def visible_devices(
    uuids: list[str],
    environ: Mapping[str, str],
    torch: list[tuple[str, int, int]] | None = None,
) -> list[int]:
    """Return the driver's indices of the GPUs that CUDA shows this process, in CUDA's order.

    CUDA may order its devices otherwise than the driver, so torch's own list, matched by identity,
    comes first; before torch is initialised ``CUDA_VISIBLE_DEVICES`` is followed.
    """
    if torch:
        by_uuid = {uuid.removeprefix("GPU-"): i for i, uuid in enumerate(uuids)}
        if all(uuid in by_uuid for uuid, _, _ in torch):
            return [by_uuid[uuid] for uuid, _, _ in torch]
        return list(range(min(len(torch), len(uuids))))
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for item in (part.strip() for part in wanted.split(",")):
        found = [i for i, uuid in enumerate(uuids) if item and uuid.startswith(item)]
        if item.isdigit() and int(item) < len(uuids):
            found = [int(item)]
        if len(found) != 1:
            break  # as CUDA does: everything behind the first invalid entry is invisible
        chosen += found
    return chosen


def _torch_devices() -> list[tuple[str, int, int]]:
    """Return (identity, reserved, allocated) per CUDA device, only if torch uses CUDA already."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    devices = []
    for i in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(i)
        uuid = str(getattr(torch.cuda.get_device_properties(i), "uuid", ""))
        reserved = int(stats.get("reserved_bytes.all.current", 0))
        devices.append((uuid, reserved, int(stats.get("allocated_bytes.all.current", 0))))
    return devices


def _process_bytes(nvml: Any, handle: Any) -> int | None:
    """Return what this process holds on a GPU; None where the driver does not say."""
    largest: int | None = None
    for query in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        try:
            processes = getattr(nvml, query)(handle)
        except nvml.NVMLError:
            continue
        for process in processes:
            # A process that computes and draws is in both lists, each time with its total.
            if process.pid == os.getpid() and process.usedGpuMemory is not None:
                largest = max(largest or 0, int(process.usedGpuMemory))
    return largest


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
