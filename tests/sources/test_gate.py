"""The gate: cursor reads first, one at a time, no deadlock when something fails or closes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from napari_4dstem.errors import ReleasedError
from napari_4dstem.sources import OpenOptions, open_source
from napari_4dstem.sources.arina import ArinaSource
from napari_4dstem.sources.gate import Gate
from tests.sources.arina_files import Writer, counts


def test_a_waiting_cursor_goes_before_waiting_bulk_readers() -> None:
    gate, order = Gate(), []

    def bulk() -> None:
        with gate.bulk():
            order.append("bulk")

    def cursor() -> None:
        with gate.cursor():
            order.append("cursor")

    with gate.bulk():
        threads = [threading.Thread(target=t) for t in (bulk, bulk, cursor, bulk)]
        for thread in threads:
            thread.start()
            time.sleep(0.02)  # all of them are waiting now, the cursor not as the first
    for thread in threads:
        thread.join(5)
    assert order == ["cursor", "bulk", "bulk", "bulk"]


def test_one_at_a_time() -> None:
    gate, inside, most = Gate(), [0], [0]

    def work(urgent: bool) -> None:
        for _ in range(200):
            with gate.cursor() if urgent else gate.bulk():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(t.is_alive() for t in threads)
    assert most[0] == 1


def test_an_error_inside_opens_the_gate() -> None:
    gate = Gate()
    with pytest.raises(KeyError), gate.bulk():
        raise KeyError
    with pytest.raises(KeyError), gate.cursor():
        raise KeyError
    with gate.bulk():
        pass


def test_a_bulk_read_steps_back_for_every_cursor_read(tmp_path: Path) -> None:
    """Between asking for a pattern and reading it at most one piece of a long read begins."""
    frames = counts(np.random.default_rng(1), (12 * 50, 40, 30))
    master = Writer(per_file=250).write(tmp_path, frames)
    source = open_source(master, OpenOptions(scan_shape=(12, 50)))
    assert isinstance(source, ArinaSource)
    log: list[str] = []
    stop = threading.Event()
    read_frames = source._read_frames

    def logging(first: int, out: np.ndarray) -> None:
        log.append("cursor" if threading.current_thread() is threading.main_thread() else "piece")
        assert len(out) <= 16
        read_frames(first, out)

    source._read_frames = logging  # type: ignore[method-assign]

    def bulk() -> None:
        while not stop.is_set():
            for row in range(12):
                source.read(row, range(50))

    thread = threading.Thread(target=bulk)
    thread.start()
    for k in range(60):
        row, column = divmod(k * 7, 50)
        log.append("ask")
        assert np.array_equal(source.pattern(row, column), frames[k * 7])
    stop.set()
    thread.join(20)
    source.close()
    waits = [part.split("cursor")[0].count("piece") for part in " ".join(log).split("ask")[1:]]
    assert len(waits) == 60
    assert max(waits) <= 1


def test_pieces_are_small_in_bytes_too(tmp_path: Path) -> None:
    frames = np.zeros((4, 1100, 1000), np.uint16)  # 2.1 MiB each
    source = open_source(Writer().write(tmp_path, frames))
    assert isinstance(source, ArinaSource)
    sizes = []
    read_frames = source._read_frames

    def logging(first: int, out: np.ndarray) -> None:
        sizes.append(len(out))
        read_frames(first, out)

    source._read_frames = logging  # type: ignore[method-assign]
    source.read(0, range(2))
    source.close()
    assert sizes == [1, 1]


def test_closing_during_a_read_ends_it(tmp_path: Path) -> None:
    frames = counts(np.random.default_rng(2), (36, 400, 300))
    source = open_source(Writer(per_file=20).write(tmp_path, frames))
    started, errors = threading.Event(), []

    def bulk() -> None:
        try:
            while True:
                for row in range(6):
                    source.read(row, range(6))
                    started.set()
        except ReleasedError as error:
            errors.append(error)

    thread = threading.Thread(target=bulk)
    thread.start()
    assert started.wait(20)
    source.close()
    source.close()
    thread.join(5)
    assert not thread.is_alive()
    assert len(errors) == 1
    with pytest.raises(ReleasedError, match="closed"):
        source.pattern(0, 0)
