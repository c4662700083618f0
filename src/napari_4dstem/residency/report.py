"""The memory report: per device what we hold, what others hold and what is free, to the byte.

In every bar the parts and the free memory add up to the total exactly, and the figures as shown
add up as well: a meter that does not add up is not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from napari_4dstem.ledger import Entry, Kind, Ledger
from napari_4dstem.residency import device_reading as reading
from napari_4dstem.residency.budget import HOST_DEVICES, gpu_ceiling, host_ceiling
from napari_4dstem.residency.figures import add_up
from napari_4dstem.residency.sizes import format_bytes

PROCESS, OTHERS, FREE = "process", "others", "free"


class Held(Protocol):
    """What the report must know of an acquisition."""

    @property
    def name(self) -> str:
        """Short name, unique enough for a person."""

    @property
    def place(self) -> str:
        """Where the encoded scan lies: "RAM", "disk", "GPU", "source", "none"."""

    @property
    def state(self) -> str:
        """One of "source", "partial", "encoded", "released"."""

    @property
    def encoded_bytes(self) -> int:
        """Size of the encoded scan so far."""

    @property
    def logical_bytes(self) -> int:
        """Full size: all counts as plain numbers."""

    @property
    def resident_bytes(self) -> int:
        """Memory held now: encoded scan, index, caches."""


@dataclass(frozen=True)
class Part:
    """One part of a bar: `nbytes` bytes under a name for people.

    `key` is stable: a kind of the ledger, "process" (other things in this process), "others"
    (other programs) or "free". `ours` tells what unloading and emptying the cache can give back.
    """

    key: str
    label: str
    nbytes: int
    ours: bool


@dataclass(frozen=True)
class Bar:
    """Memory of one device; all figures are bytes.

    Attributes
    ----------
    device
        "cpu" (RAM) or a GPU as the ledger names it.
    title
        Name for people.
    total, free
        Of the device. ``sum(part.nbytes for part in parts) + free == total``.
    parts
        Who holds the rest.
    ceiling
        What we may hold altogether, None if unknown.
    mapped
        File pages mapped by this process: the system takes them back when it needs them, so they
        count as free.
    note
        Whatever qualifies the figures, else "".
    """

    device: str
    title: str
    total: int
    free: int
    parts: tuple[Part, ...]
    ceiling: int | None = None
    mapped: int = 0
    note: str = ""

    @property
    def ours(self) -> int:
        """Bytes that the ledger knows of on this device."""
        return sum(part.nbytes for part in self.parts if part.ours)

    def shown(self) -> dict[str, str]:
        """Return all figures as they are shown, by key; also "ours" and "total".

        They add up as shown; see `napari_4dstem.residency.figures`.
        """
        total = format_bytes(self.total)
        groups = {"ours": self.ours}
        groups |= {part.key: part.nbytes for part in self.parts if not part.ours}
        shown = add_up({**groups, FREE: self.free}, total)
        ours = {part.key: part.nbytes for part in self.parts if part.ours}
        return shown | add_up(ours, shown["ours"]) | {"total": total}

    def text(self) -> str:
        """Return one line: who holds how much of how much."""
        return ", ".join(f"{words} {figure}" for words, figure in self.phrases())

    def phrases(self) -> list[tuple[str, str]]:
        """Return the line in pieces: ("ours", "0.31 GiB"), ..., ("free", "17.40 of 23.50 GiB")."""
        shown = self.shown()
        unit = " " + shown["total"].split()[1]
        if all(shown[key].endswith(unit) for key in ("ours", PROCESS, OTHERS) if key in shown):
            # One unit throughout: it need not be repeated.
            shown |= {k: shown[k].removesuffix(unit) for k in (PROCESS, OTHERS) if k in shown}
        words = {"ours": "ours", PROCESS: "this process otherwise", OTHERS: "other programs"}
        phrases = [(text, shown[key]) for key, text in words.items() if key in shown]
        return [*phrases, ("free", f"{shown[FREE].removesuffix(unit)} of {shown['total']}")]


@dataclass(frozen=True)
class AcquisitionRow:
    """One acquisition: sizes in bytes, place and state as of `Held`."""

    name: str
    place: str
    state: str
    encoded_bytes: int
    full_bytes: int
    resident_bytes: int
    last_used: float | None = None


@dataclass(frozen=True)
class MemoryReport:
    """What this machine's memory is used for, and what each acquisition holds."""

    bars: tuple[Bar, ...]
    rows: tuple[AcquisitionRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, fit for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = []
        for bar in self.bars:
            shown = bar.shown()
            lines.append(f"{bar.title}: {bar.text()}")
            held = [f"{p.label} {shown[p.key]}" for p in bar.parts if p.ours and p.nbytes]
            if held:
                lines.append(f"  ours: {', '.join(held)}")
            if bar.ceiling is not None:
                lines.append(f"  we may hold up to {format_bytes(bar.ceiling)}")
            if bar.mapped:
                lines.append(
                    f"  mapped files {format_bytes(bar.mapped)}, reclaimable, part of free"
                )
            if bar.note:
                lines.append(f"  {bar.note}")
        return "\n".join(lines + [""] * bool(self.rows) + _table(self.rows))


def memory_report(ledger: Ledger, acquisitions: Iterable[Held]) -> MemoryReport:
    """Read the machine and report; callable from any thread, about 1 ms.

    Parameters
    ----------
    ledger
        Whose bytes are ours.
    acquisitions
        One row each.
    """
    entries = ledger.entries()
    bars = [host_bar(reading.host_reading(), entries)]
    bars += [gpu_bar(gpu, entries) for gpu in reading.gpu_readings()]
    return MemoryReport(tuple(bars), tuple(row_of(a) for a in acquisitions))


def row_of(acquisition: Held) -> AcquisitionRow:
    """Take down what an acquisition says of itself."""
    return AcquisitionRow(
        name=acquisition.name,
        place=acquisition.place,
        state=acquisition.state,
        encoded_bytes=int(acquisition.encoded_bytes),
        full_bytes=int(acquisition.logical_bytes),
        resident_bytes=int(acquisition.resident_bytes),
        last_used=getattr(acquisition, "last_used", None),
    )


def host_bar(host: reading.HostReading, entries: Sequence[Entry]) -> Bar:
    """Account for the RAM."""
    ours = _by_kind(entries, HOST_DEVICES)
    held = sum(ours.values())
    process = max(0, host.process - held)
    others = max(0, host.total - host.available - host.process)
    notes = [host.note] if host.note else []
    if host.limited:
        notes.append("limited for this process by the system")
    parts = [*_ours(ours), Part(PROCESS, "this process otherwise", process, ours=False)]
    parts.append(Part(OTHERS, "other programs", others, ours=False))
    ceiling = host_ceiling(host, held)
    return _settled("cpu", "RAM", host.total, parts, ceiling, host.process_file, notes)


def gpu_bar(gpu: reading.GpuReading, entries: Sequence[Entry]) -> Bar:
    """Account for the memory of one GPU."""
    ours = _by_kind(entries, {gpu.device})
    ceiling = gpu_ceiling(gpu, sum(ours.values()))
    ours[Kind.CACHE] += gpu.torch_cache
    held = sum(ours.values())
    here = gpu.torch_reserved if gpu.process is None else gpu.process
    process = max(0, here - held)
    others = max(0, gpu.total - gpu.free - max(here, held))
    parts = [*_ours(ours), Part(PROCESS, "this process otherwise", process, ours=False)]
    label, notes = "other programs", []
    if gpu.process is None and (held or process):
        label = "other programs and driver"
        notes = ["the driver does not tell programs apart"]
    parts.append(Part(OTHERS, label, others, ours=False))
    title = f"GPU {gpu.device.partition(':')[2]} {gpu.name}"
    return _settled(gpu.device, title, gpu.total, parts, ceiling, 0, notes)


def _by_kind(entries: Sequence[Entry], devices: Iterable[str]) -> dict[Kind, int]:
    held = dict.fromkeys(Kind, 0)
    for entry in entries:
        if entry.device in devices:
            held[entry.kind] += entry.nbytes
    return held


def _ours(held: dict[Kind, int]) -> list[Part]:
    return [Part(kind.value, kind.value, nbytes, ours=True) for kind, nbytes in held.items()]


def _settled(
    device: str,
    title: str,
    total: int,
    parts: list[Part],
    ceiling: int,
    mapped: int,
    notes: list[str],
) -> Bar:
    """Make the bar; where more is booked than the device has, say so instead of not adding up.

    That happens: memory is booked before it is first written, and the system may have swapped.
    """
    excess = max(0, sum(part.nbytes for part in parts) - total)
    if excess:
        notes = [*notes, f"{format_bytes(excess)} more is booked than there is (not yet used)"]
    kept = []
    for part in parts:
        cut = min(excess, part.nbytes)
        kept.append(Part(part.key, part.label, part.nbytes - cut, part.ours))
        excess -= cut
    free = total - sum(part.nbytes for part in kept)
    return Bar(device, title, total, free, tuple(kept), ceiling, mapped, "; ".join(notes))


def _table(rows: Sequence[AcquisitionRow]) -> list[str]:
    if not rows:
        return []
    cells = [("scan", "encoded", "full size", "held now", "place", "state")]
    cells += [
        (
            row.name,
            format_bytes(row.encoded_bytes),
            format_bytes(row.full_bytes),
            format_bytes(row.resident_bytes),
            row.place,
            row.state,
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(6)]
    return [
        "  ".join(
            text.rjust(width) if i in (1, 2, 3) else text.ljust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
