"""Giving memory back, and saying truthfully what came back.

An acquisition frees its own bytes; what is left to do around it is to let the interpreter and the
C library hand the freed pages on, and to measure.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from napari_4dstem.ledger import Kind, Ledger
from napari_4dstem.residency.device_reading import process_reading
from napari_4dstem.residency.sizes import format_bytes

# Differences below this are the noise of a living process.
_NOISE = 16 << 20


class Unloadable(Protocol):
    """What can be unloaded: an acquisition."""

    @property
    def name(self) -> str:
        """Short name."""

    @property
    def place(self) -> str:
        """Where the encoded scan lies: "RAM", "disk", "GPU", "source", "none"."""

    @property
    def resident_bytes(self) -> int:
        """Memory held now."""

    def release(self) -> Any:
        """Wait for running reads, then free everything held."""


@dataclass(frozen=True)
class GivenBack:
    """What an unloading or an emptied cache gave back, in bytes.

    Attributes
    ----------
    what
        What was done: "Unloaded scan_003".
    claimed
        By our own books.
    still_counted
        What the system still counts for this process of it, 0 if that is within noise.
    """

    what: str
    claimed: int
    still_counted: int = 0

    def __str__(self) -> str:
        text = f"{self.what}: {format_bytes(self.claimed)} back"
        if self.still_counted:
            text += f" (the system still counts {format_bytes(self.still_counted)} of it)"
        return text


def unload(ledger: Ledger, acquisition: Unloadable) -> GivenBack:
    """Release an acquisition and measure what came back; blocks until its reads have ended."""
    in_ram = acquisition.place == "RAM"
    held, others, before = _held(ledger, acquisition)
    acquisition.release()
    hand_on()
    left, others_now, after = _held(ledger, acquisition)
    claimed = max(0, held - left)
    # Another scan that is being encoded meanwhile grows; that is not held against this one.
    missing = claimed - (before - after) - max(0, others_now - others) if in_ram else 0
    noise = max(_NOISE, claimed // 20)
    return GivenBack(f"Unloaded {acquisition.name}", claimed, missing if missing > noise else 0)


def _held(ledger: Ledger, acquisition: Unloadable) -> tuple[int, int, int]:
    """Return bytes of this acquisition, of all others, and what the system counts for us."""
    held = acquisition.resident_bytes
    return held, ledger.total(device="cpu") - held, process_reading().process


def empty_caches(ledger: Ledger, acquisitions: Iterable[Any]) -> GivenBack:
    """Drop decoded blocks and other caches of `acquisitions`, and torch's unused GPU memory.

    The encoded scans stay. An acquisition takes part by a method ``empty_cache()``.
    """
    before = ledger.total(kind=Kind.CACHE) + _torch_cache()
    for acquisition in acquisitions:
        empty = getattr(acquisition, "empty_cache", None)
        if empty is not None:
            empty()
    hand_on()
    after = ledger.total(kind=Kind.CACHE) + _torch_cache()
    return GivenBack("Emptied the cache", max(0, before - after))


def hand_on() -> None:
    """Collect garbage, and hand freed memory on to the system and to other GPU programs."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        if trim is not None:
            trim(0)


def _torch_cache() -> int:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    devices = range(torch.cuda.device_count())
    return sum(torch.cuda.memory_reserved(i) - torch.cuda.memory_allocated(i) for i in devices)
