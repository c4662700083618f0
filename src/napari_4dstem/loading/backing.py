"""What an acquisition reads from at one moment, and who is reading.

A `Backing` never changes: a new state is a new backing. A read leases the backing that it started
with; one that was replaced is let go when its last lease ends. Backings that read from one source
count their leases together, since none of them may lose it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, Self

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.errors import ReleasedError
from napari_4dstem.imaging.blocks import PatternBlocks
from napari_4dstem.sources import Source

State = Literal["source", "partial", "encoded", "released"]
Place = Literal["source", "RAM", "disk", "GPU", "none"]


class DeviceCopy(Protocol):
    """The encoded bytes on a GPU."""

    def close(self) -> None:
        """Free them (idempotent)."""
        ...


@dataclass(frozen=True, eq=False)
class Backing:
    """Where the patterns come from.

    Parameters
    ----------
    state, place
        For people and for the memory meter.
    blocks
        Patterns with no-data left out of sums; None once released.
    raw_blocks
        The same with every value counted as the number it is.
    source
        Open source, if there is one.
    scan
        Encoded scan, growing in state ``partial``.
    on_device
        Its copy on a GPU, if there is one.
    """

    state: State
    place: Place
    blocks: PatternBlocks | None = None
    raw_blocks: PatternBlocks | None = None
    source: Source | None = None
    scan: EncodedScan | None = None
    on_device: DeviceCopy | None = None
    _leases: list[int] = field(default_factory=lambda: [0], repr=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def blocks_for(self, *, raw_values: bool) -> PatternBlocks:
        """Return the blocks that count no-data as asked.

        Raises
        ------
        ReleasedError
            If the acquisition was released.
        """
        blocks = self.raw_blocks if raw_values else self.blocks
        if blocks is None:
            raise ReleasedError(
                "The data were unloaded", action="Reload the acquisition to use it again"
            )
        return blocks

    @contextmanager
    def leased(self) -> Iterator[None]:
        """Keep what the backing refers to open while the context lasts."""
        with self._changed:
            self._leases[0] += 1
        try:
            yield
        finally:
            with self._changed:
                self._leases[0] -= 1
                self._changed.notify_all()

    def growing(self, scan: EncodedScan, blocks: PatternBlocks, raw_blocks: PatternBlocks) -> Self:
        """Return the backing that reads from this one's source and from a growing scan."""
        return replace(
            self, state="partial", place="RAM", blocks=blocks, raw_blocks=raw_blocks, scan=scan
        )

    def close(self) -> None:
        """Wait for running reads, then close the source and free what lies on a GPU."""
        self.wait_until_unused()
        for part in (self.source, self.on_device):
            if part is not None:
                part.close()

    def wait_until_unused(self, timeout: float | None = None) -> bool:
        """Wait until no read uses this backing any more; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._leases[0] == 0, timeout)
