"""The report adds up: to the byte in its numbers, and in what a person reads."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from napari_4dstem.ledger import Entry, HostAllocator, Kind, Ledger
from napari_4dstem.residency.device_reading import GpuReading, HostReading
from napari_4dstem.residency.figures import add_up
from napari_4dstem.residency.report import Bar, gpu_bar, host_bar, memory_report
from napari_4dstem.residency.sizes import GIB, parse_size, unit_of

MIB = 1 << 20


@dataclass
class Scan:
    """What the report must know of an acquisition."""

    name: str
    place: str = "RAM"
    state: str = "encoded"
    encoded_bytes: int = 0
    logical_bytes: int = 0
    resident_bytes: int = 0


def part(bar: Bar, key: str) -> int:
    return next(p.nbytes for p in bar.parts if p.key == key)


def entries(**held: int) -> list[Entry]:
    return [Entry("scan", Kind(kind), "cpu", n) for kind, n in held.items()]


def test_host_bar_by_hand() -> None:
    host = HostReading(
        total=1000, available=400, process_anon=250, process_shared=50, process_file=70
    )
    bar = host_bar(
        host, [*entries(encoded=100, index=20, cache=5), Entry("s", Kind.CACHE, "mps", 2)]
    )
    assert [(p.key, p.nbytes, p.ours) for p in bar.parts] == [
        ("encoded", 100, True),
        ("index", 20, True),
        ("cache", 7, True),
        ("workspace", 0, True),
        ("process", 173, False),
        ("others", 300, False),
    ]
    assert (bar.free, bar.total, bar.ours, bar.mapped) == (400, 1000, 127, 70)
    assert bar.ceiling == 127 + 320


def test_host_bar_of_memory_that_is_booked_but_not_written_yet() -> None:
    host = HostReading(total=1000, available=600, process_anon=50)
    bar = host_bar(host, entries(encoded=300))
    assert (part(bar, "encoded"), part(bar, "process"), part(bar, "others")) == (300, 0, 350)
    assert bar.free == 350  # what is booked will be used: it is not free for others
    over = host_bar(host, entries(encoded=1200))
    assert sum(p.nbytes for p in over.parts) + over.free == 1000
    assert over.free == 0
    assert "550 B more is booked" in over.note


def test_gpu_bar_by_hand() -> None:
    gpu = GpuReading("cuda:1", "card", 1000, 300, process=500, torch_cache=40, torch_reserved=350)
    held = [Entry("s", Kind.ENCODED, "cuda:1", 200), Entry("s", Kind.ENCODED, "cuda:0", 999)]
    bar = gpu_bar(gpu, held)
    assert (part(bar, "encoded"), part(bar, "cache")) == (200, 40)
    assert (part(bar, "process"), part(bar, "others"), bar.free) == (260, 200, 300)
    assert bar.title == "GPU 1 card"
    silent = gpu_bar(GpuReading("cuda:1", "card", 1000, 300, None, 40, 350), held)
    assert (part(silent, "process"), part(silent, "others")) == (110, 350)
    assert "does not tell programs apart" in silent.note


def random_bar(rng: np.random.Generator) -> Bar:
    total = int(2 ** rng.uniform(28, 42))
    available = int(rng.uniform(0, 1) * total)
    held = {k.value: int(rng.choice([0.0, 2 ** rng.uniform(0, 38)])) for k in Kind}
    process = int(rng.uniform(0, 0.4) * total)
    return host_bar(HostReading(total, available, process), entries(**held))


def half_step(shown: str) -> float:
    number, unit = shown.split()
    return 0.5 * unit_of(parse_size(f"1{unit}").nbytes)[1] / 10 ** len(number.partition(".")[2])


@pytest.mark.parametrize("seed", range(20))
def test_adds_up_exactly_and_as_shown(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        bar = random_bar(rng)
        assert sum(p.nbytes for p in bar.parts) + bar.free == bar.total
        assert min(*(p.nbytes for p in bar.parts), bar.free) >= 0
        shown = bar.shown()
        read = {key: parse_size(text).nbytes for key, text in shown.items()}
        groups = read["ours"] + read["process"] + read["others"] + read["free"]
        assert abs(groups - read["total"]) <= half_step(shown["total"]) + 10
        ours = sum(read[kind.value] for kind in Kind)
        assert abs(ours - read["ours"]) <= half_step(shown["ours"]) + 10
        # and no figure is bent by more than its last digits
        for p in bar.parts:
            step = 2 * half_step(shown["total" if shown[p.key].endswith("GiB") else p.key])
            assert abs(read[p.key] - p.nbytes) <= 3 * step + 1


def test_small_parts_keep_their_digits() -> None:
    shown = add_up({"ours": 3 * MIB, "rest": 24 * GIB - 3 * MIB}, "24.00 GiB")
    assert shown == {"ours": "3.00 MiB", "rest": "24.00 GiB"}
    assert add_up({"a": 0, "b": 512}, "512 B") == {"a": "0 B", "b": "512 B"}
    assert add_up({"a": 0}, "0 B") == {"a": "0 B"}


def test_text_is_readable() -> None:
    host = HostReading(
        total=int(23.5 * GIB),
        available=int(17.4 * GIB),
        process_anon=int(0.93 * GIB),
        process_file=200 * MIB,
    )
    bar = host_bar(host, entries(encoded=int(0.28 * GIB), index=30 * MIB))
    assert bar.text() == (
        "ours 0.31 GiB, this process otherwise 0.62, other programs 5.17, free 17.40 of 23.50 GiB"
    )
    small = host_bar(host, entries(encoded=3 * MIB))
    assert small.text() == (
        "ours 3.00 MiB, this process otherwise 0.93 GiB, other programs 5.17 GiB, "
        "free 17.40 of 23.50 GiB"
    )


def test_report_of_this_machine() -> None:
    ledger = Ledger()
    held = HostAllocator(ledger, "report test").empty(Kind.ENCODED, 4 * MIB, "u1")
    scans = [
        Scan("scan_003", "RAM", "encoded", 4 * MIB, 18 * GIB, 4 * MIB),
        Scan("other", "source", "source", 0, 9 * GIB, 0),
    ]
    report = memory_report(ledger, scans)
    bar = report.bars[0]
    assert bar.device == "cpu"
    assert part(bar, "encoded") == held.nbytes
    assert sum(p.nbytes for p in bar.parts) + bar.free == bar.total
    text = str(report)
    assert text.startswith("RAM: ours 4.00 MiB, this process otherwise")
    lines = text.splitlines()
    assert lines[-2].split()[:3] == ["scan_003", "4.00", "MiB"]
    assert lines[-1].index("9.00 GiB") == lines[-2].index("18.00 GiB") + 1  # right-aligned
    assert json.loads(json.dumps(report.as_dict()))["rows"][0]["full_bytes"] == 18 * GIB
    del held
    assert memory_report(ledger, []).bars[0].ours == 0
