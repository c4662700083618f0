"""What may be used now, and the refusal before anything is allocated.

Reading patterns into an array and loading an acquisition both ask here first: a clear answer with
numbers and choices is better than a machine that starts to swap or kills the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from napari_4dstem.errors import MemoryRefused
from napari_4dstem.ledger import Ledger
from napari_4dstem.residency.device_reading import (
    GpuReading,
    HostReading,
    gpu_readings,
    host_reading,
)
from napari_4dstem.residency.sizes import AUTO, GIB, Size, format_bytes

# Memory of these devices is the machine's RAM (Apple's GPU shares it).
HOST_DEVICES: Final = frozenset({"cpu", "mps"})


def host_ceiling(reading: HostReading, ours: int, limit: Size = AUTO) -> int:
    """Return how many bytes of RAM we may hold altogether.

    Parameters
    ----------
    reading
        The machine now.
    ours
        Bytes that we hold already.
    limit
        The user's limit; "auto" is what we hold plus 80 % of what is available.
    """
    ceiling = limit.resolve(total=reading.total, auto=ours + reading.available * 4 // 5)
    return min(ceiling, reading.total)


def gpu_ceiling(reading: GpuReading, ours: int, limit: Size = AUTO) -> int:
    """Return how many bytes of a GPU we may hold altogether; arguments as of `host_ceiling`.

    "auto" is what we hold plus what is free, less a reserve for the screen and for others: the
    larger of 1 GiB and 5 % of the device.
    """
    reserve = max(GIB, reading.total // 20)
    ceiling = limit.resolve(total=reading.total, auto=ours + max(0, reading.free - reserve))
    return min(ceiling, reading.total)


def usable(ceiling: int, ours: int, free: int) -> int:
    """Return how many bytes may be allocated now: what the ceiling leaves, if it is there."""
    return max(0, min(ceiling - ours, free))


def usable_now(device: str, ledger: Ledger, limit: Size = AUTO) -> int | None:
    """Read the machine and return how many bytes may be allocated on `device` now.

    None if nothing can be said about this device (a GPU whose driver cannot be asked).
    """
    if device in HOST_DEVICES:
        host = host_reading()
        ours = sum(ledger.total(device=name) for name in HOST_DEVICES)
        return usable(host_ceiling(host, ours, limit), ours, host.available)
    ours = ledger.total(device=device)
    for gpu in gpu_readings():
        if gpu.device == device:
            # What torch reserved and does not use is there for us as well.
            free = gpu.free + gpu.torch_cache
            return usable(gpu_ceiling(gpu, ours, limit), ours, free)
    return None


def require(
    what: str,
    need: Mapping[str, int],
    available: int | None,
    *,
    device: str = "cpu",
    choices: Iterable[str] = (),
) -> None:
    """Refuse an operation that needs more than is available; return quietly otherwise.

    Parameters
    ----------
    what
        The operation as the subject of a sentence: "Reading 64 x 64 patterns".
    need
        Bytes by name, for example ``{"decoded": 4 << 30, "workspace": 1 << 20}``.
    available
        Bytes that may be used, as of `usable_now`; None never refuses.
    device
        Device concerned.
    choices
        What the user can do, each as an imperative: "crop to 215 of 256 rows".

    Raises
    ------
    MemoryRefused
        With the numbers and the choices; nothing was allocated.
    """
    total = sum(need.values())
    if available is None or total <= available:
        return
    place = "RAM" if device in HOST_DEVICES else device
    named = ", ".join(f"{name} {format_bytes(n)}" for name, n in need.items())
    options = list(choices) or ["choose a smaller part", "unload another scan"]
    options[0] = options[0][:1].upper() + options[0][1:]
    raise MemoryRefused(
        f"{what} does not fit in {place}",
        expected=f"at most {format_bytes(available)}, which may be used now",
        found=f"{format_bytes(total)} needed ({named})",
        action=", or ".join(options),
    )
