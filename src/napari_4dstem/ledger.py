"""Who holds how many bytes: the ledger, and the allocator that writes into it.

Everything that the library keeps (encoded bytes, indices, caches, staging buffers) is allocated
through an :class:`Allocator`, so that the memory meter, the release report and a test can all read
exact figures instead of guesses.
"""

from __future__ import annotations

import enum
import itertools
import mmap
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Above this size memory comes from its own anonymous mapping, so that freeing it returns the
# pages to the system at once; smaller blocks may stay in the C library's heap.
_OWN_MAPPING_FROM = 1 << 16


class Kind(enum.StrEnum):
    """What a block of bytes is for; the parts of the memory meter's bar."""

    ENCODED = "encoded"
    INDEX = "index"
    CACHE = "cache"
    WORKSPACE = "workspace"


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: `nbytes` bytes of `kind` on `device`, held for `owner`."""

    owner: str
    kind: Kind
    device: str
    nbytes: int


class Allocator(Protocol):
    """Gives out zero-initialised host arrays and writes them into a ledger."""

    def empty(self, kind: Kind, shape: tuple[int, ...] | int, dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array whose bytes are booked until it is garbage collected."""
        ...


class Ledger:
    """Exact bytes by owner, kind and device. Thread-safe.

    Examples
    --------
    >>> ledger = Ledger()
    >>> claim = ledger.claim("scan", Kind.ENCODED, "cpu", 1000)
    >>> ledger.total(owner="scan")
    1000
    >>> claim.free()
    >>> ledger.total()
    0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, Entry] = {}
        self._ids = itertools.count()

    def claim(self, owner: str, kind: Kind, device: str, nbytes: int) -> Claim:
        """Book `nbytes` bytes; they count until the returned claim is freed."""
        with self._lock:
            key = next(self._ids)
            self._entries[key] = Entry(owner, kind, device, int(nbytes))
        return Claim(self, key)

    def _remove(self, key: int) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def entries(self) -> list[Entry]:
        """Return a snapshot of all entries."""
        with self._lock:
            return list(self._entries.values())

    def total(
        self, *, owner: str | None = None, kind: Kind | None = None, device: str | None = None
    ) -> int:
        """Return the bytes booked, optionally only those of one owner, kind or device."""
        return sum(
            e.nbytes
            for e in self.entries()
            if (owner is None or e.owner == owner)
            and (kind is None or e.kind == kind)
            and (device is None or e.device == device)
        )

    def owners(self) -> Iterator[str]:
        """Yield the owners that hold bytes, each once, in order of their first entry."""
        yield from dict.fromkeys(e.owner for e in self.entries())


class Claim:
    """Bytes booked in a ledger; :meth:`free` (idempotent) takes them out again."""

    def __init__(self, ledger: Ledger, key: int) -> None:
        self._ledger, self._key = ledger, key

    def free(self) -> None:
        """Take the bytes out of the ledger."""
        self._ledger._remove(self._key)


class HostAllocator:
    """The :class:`Allocator` of host memory for one owner.

    Parameters
    ----------
    ledger
        Where the bytes are booked.
    owner
        The acquisition that holds them.
    """

    def __init__(self, ledger: Ledger, owner: str) -> None:
        self.ledger, self.owner = ledger, owner

    def empty(self, kind: Kind, shape: tuple[int, ...] | int, dtype: DTypeLike) -> NDArray[Any]:
        """Return a zeroed array; its bytes leave the ledger when the array is collected."""
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        claim = self.ledger.claim(self.owner, kind, "cpu", nbytes)
        try:
            # The array below is the base of every view of it: it lives as long as any of them.
            base = _zeroed_bytes(nbytes)
        except BaseException:
            claim.free()
            raise
        weakref.finalize(base, claim.free).atexit = False
        array: NDArray[Any] = np.frombuffer(base, dtype=dtype, count=nbytes // dtype.itemsize)
        return array.reshape(shape)


class _Buffer(bytearray):
    """A bytearray that can be weakly referenced."""


class _Mapping(mmap.mmap):
    """An anonymous mapping that can be weakly referenced."""


def _zeroed_bytes(nbytes: int) -> _Buffer | _Mapping:
    if nbytes >= _OWN_MAPPING_FROM:
        private = getattr(mmap, "MAP_PRIVATE", None)
        if private is None:  # Windows has only private anonymous mappings
            return _Mapping(-1, nbytes)
        # Shared, the default, would count as shared memory (tmpfs), not as this process's own.
        return _Mapping(-1, nbytes, flags=private | mmap.MAP_ANONYMOUS)
    return _Buffer(nbytes)


ledger = Ledger()
"""The ledger of this process."""
