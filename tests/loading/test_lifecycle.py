"""The states of a scan: what changes them, who hears of it, and that no reader is left without."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import napari_4dstem as n4
from napari_4dstem.errors import (
    CancelledError,
    FourDStemError,
    ReleasedError,
    SourceChangedError,
    SourceError,
)
from napari_4dstem.ledger import ledger
from napari_4dstem.loading.events import Progress
from tests.acquisitions import SHAPE, counts, half_encoded, save, wait_for
from tests.sources.arina_files import Writer
from tests.sources.test_damage import chunks_of, patch

DATA = counts()
EVERYTHING = n4.Rectangle(0, 9, 0, 11)


class Heard:
    """Everything that an acquisition told."""

    def __init__(self, acquisition: n4.Acquisition) -> None:
        self.states: list[str] = []
        self.progress: list[Progress] = []
        self.failed: list[Exception] = []
        acquisition.events.state.connect(self.states.append)
        acquisition.events.progress.connect(self.progress.append)
        acquisition.events.failed.connect(self.failed.append)


def test_states_and_events_of_a_whole_life(tmp_path: Path) -> None:
    with n4.open(save(tmp_path, DATA)) as acquisition:
        heard = Heard(acquisition)
        assert (acquisition.state, acquisition.place) == ("source", "source")
        assert acquisition.resident_bytes == acquisition.encoded_bytes == 0
        assert acquisition.encode(wait=True) is acquisition
        assert (acquisition.state, acquisition.place) == ("encoded", "RAM")
        assert heard.states == ["partial", "encoded"]
        done = [p.done for p in heard.progress]
        assert done == sorted(done)
        assert {p.total for p in heard.progress} == {1400}
        assert [p.running for p in heard.progress[:-1]] == [True] * (len(done) - 1)
        assert heard.progress[-1] == acquisition.progress == Progress(1400, 1400, "", False)
        held = acquisition.resident_bytes
        assert 0 < held < acquisition.logical_bytes == DATA.nbytes
        assert 0 < acquisition.encoded_bytes < DATA.nbytes / 2
        # All but the statistics and the list of positions, which are a few KiB, is booked.
        assert ledger.total(owner=acquisition.owner) > acquisition.encoded_bytes - 16_000
        acquisition.encode(wait=True)
        assert heard.states == ["partial", "encoded"]  # nothing left to do

        assert acquisition.release() == held
        assert (acquisition.state, acquisition.place) == ("released", "none")
        assert acquisition.resident_bytes == acquisition.encoded_bytes == 0
        assert acquisition.mean_pattern() is None
        assert acquisition.release() == 0
        for read in (
            lambda: acquisition[0, 0],
            lambda: acquisition.pattern_at(0, 0),
            lambda: acquisition.image(EVERYTHING),
            lambda: acquisition.preview([EVERYTHING]),
            lambda: acquisition.valid,
            acquisition.find_disk,
            acquisition.encode,
        ):
            with pytest.raises(ReleasedError, match="unloaded"):
                read()

        assert acquisition.can_reload
        assert acquisition.reload() is acquisition
        wait_for(lambda: acquisition.state == "encoded")
        assert np.array_equal(acquisition[:, :], DATA)
        assert heard.states == ["partial", "encoded", "released", "source", "partial", "encoded"]
        assert not heard.failed
    assert heard.states[-1] == "released"
    assert acquisition.resident_bytes == 0


def test_an_encoded_file_is_released_and_reloaded(tmp_path: Path) -> None:
    with n4.open(save(tmp_path, DATA)) as source:
        source.save(tmp_path / "scan.ans4d")
        assert source.state == "encoded"
    with n4.open(tmp_path / "scan.ans4d") as acquisition:
        assert (acquisition.state, acquisition.place) == ("encoded", "disk")
        assert "opened at once" in acquisition.reload_cost
        acquisition.release()
        assert acquisition.state == "released"
        acquisition.reload()
        assert acquisition.state == "encoded"
        assert np.array_equal(acquisition[:, :], DATA)
        acquisition.release()
        (tmp_path / "scan.ans4d").unlink()
        assert not acquisition.can_reload
        with pytest.raises(FourDStemError):
            acquisition.reload()
        assert acquisition.state == "released"


def test_reloading_another_scan_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, DATA)
    with n4.open(path) as acquisition:
        acquisition.release()
        save(tmp_path, counts((20, 35, 9, 11)))
        with pytest.raises(SourceChangedError, match="another scan now"):
            acquisition.reload()
        assert acquisition.state == "released"


def test_cancel_gives_everything_back_and_leaves_the_source(tmp_path: Path) -> None:
    with half_encoded(save(tmp_path, DATA), 10) as (reader, life, source):
        states: list[str] = []
        life.events.state.connect(states.append)
        assert ledger.total(owner=life.owner) > 0
        source.go.set()
        life.cancel()
        assert states == ["source"]
        assert ledger.total(owner=life.owner) == 0
        assert not life.progress.running
        assert life.progress.stage == "cancelled"
        assert np.array_equal(reader[12, 60], DATA[12, 60])
        assert np.array_equal(reader.image(EVERYTHING), DATA.sum(axis=(2, 3)))
        life.cancel()  # there is nothing to cancel any more
        assert states == ["source"]
        thread = life.encode(np.zeros(SHAPE[2:], bool))
        assert thread is not None
        thread.join()
        assert life.backing.state == "encoded"


def test_reads_go_on_across_switch_over_cancel_and_release(tmp_path: Path) -> None:
    """A read keeps the source that it began with until it ends, whatever becomes of the scan."""
    path = save(tmp_path, DATA)
    for end in ("finish", "cancel", "release"):
        with half_encoded(path, 10) as (_, life, source), life.lease() as backing:
            assert backing.state == "partial"
            source.go.set()
            ending = threading.Thread(target=life.release if end == "release" else life.cancel)
            if end == "finish":
                wait_for(lambda life=life: life.backing.state == "encoded")
            else:
                ending.start()
                expected = "released" if end == "release" else "source"
                wait_for(lambda life=life, now=expected: life.backing.state == now)
            time.sleep(0.05)
            blocks = backing.blocks_for(raw_values=False)
            for block in range(blocks.layout.n_blocks):
                here = DATA.reshape(-1, 9, 11)[blocks.layout.block_positions(block)]
                assert np.array_equal(blocks.patterns(block), here)
            assert np.array_equal(source.read(19, range(3, 5)), DATA[19, 3:5])
        if end != "finish":
            ending.join(10)
            assert not ending.is_alive()
        if end != "cancel":
            wait_for(lambda source=source: is_closed(source))


def is_closed(source: Any) -> bool:
    try:
        source.read(19, range(3, 5))
    except ReleasedError:
        return True
    return False


def test_closing_while_other_threads_read(tmp_path: Path) -> None:
    for encode in (False, True):
        acquisition = n4.open(save(tmp_path, DATA))
        if encode:
            acquisition.encode(wait=True)
        outcomes: list[Any] = []
        reading = threading.Barrier(4)

        def read(acquisition: n4.Acquisition, outcomes: list[Any], start: Any, seed: int) -> None:
            rng = np.random.default_rng(seed)
            start.wait()
            for _ in range(100_000):
                row, column = (int(rng.integers(n)) for n in SHAPE[:2])
                try:
                    pattern = acquisition.pattern_at(row, column)
                except ReleasedError as error:
                    outcomes.append(error)
                    return
                except Exception as error:  # noqa: BLE001 - reported by the assertion
                    outcomes.append(error)
                    return
                if not np.array_equal(pattern, DATA[row, column]):
                    outcomes.append("wrong counts")
                    return

        threads = [
            threading.Thread(target=read, args=(acquisition, outcomes, reading, seed))
            for seed in range(3)
        ]
        for thread in threads:
            thread.start()
        reading.wait()
        time.sleep(0.1)
        acquisition.close()
        for thread in threads:
            thread.join(20)
        assert [type(outcome) for outcome in outcomes] == [ReleasedError] * 3
        assert acquisition.resident_bytes == 0


@pytest.mark.parametrize("change", ["rewritten", "deleted"])
def test_a_source_that_changes_while_it_is_encoded(tmp_path: Path, change: str) -> None:
    path = save(tmp_path, DATA)
    with half_encoded(path, 10) as (reader, life, source):
        failed: list[Exception] = []
        life.events.failed.connect(failed.append)
        if change == "rewritten":
            os.utime(path, ns=(1, 1))
        else:
            path.unlink()
        source.go.set()
        wait_for(lambda: failed)
        assert isinstance(failed[0], SourceChangedError)
        assert str(path) in str(failed[0])
        assert life.backing.state == "source"
        assert life.progress.stage == "failed"
        assert str(failed[0]) in life.problems
        assert reader.mean_pattern() is not None  # of the coarse scan
        wait_for(lambda: not life_thread_runs())
        # What failed is told, but holds nothing.
        assert ledger.total(owner=life.owner) == 0


def life_thread_runs() -> bool:
    return any(t.name in ("n4-load", "n4-read_0") for t in threading.enumerate())


def test_floats_that_do_not_fit_leave_nothing_half_loaded(tmp_path: Path) -> None:
    data = counts().astype(np.float64)
    with n4.load(save(tmp_path, data)) as exact:
        assert exact.dtype == np.float32
        assert np.array_equal(exact[:, :], data)
    data[18, 68, 8, 10] = 0.1  # not of the coarse scan
    with n4.open(save(tmp_path, data)) as acquisition:
        heard = Heard(acquisition)
        with pytest.raises(SourceError, match="not exact as float32"):
            acquisition.encode(wait=True)
        assert acquisition.state == "source"
        assert heard.states == ["partial", "source"]
        assert acquisition.resident_bytes == 0
        assert len(heard.failed) == 1
        for _ in range(2):  # said once, however often it is tried
            with pytest.raises(SourceError):
                acquisition.encode(wait=True)
            assert len(acquisition.problems) == 1
    with pytest.raises(SourceError, match="not exact as float32"):
        n4.load(tmp_path / "scan.npy")


def test_a_cancelled_save_says_so(tmp_path: Path) -> None:
    with n4.open(save(tmp_path, DATA)) as acquisition:
        acquisition.events.state.connect(lambda _: acquisition.cancel(wait=False))
        with pytest.raises(FourDStemError, match="cancelled"):
            acquisition.save(tmp_path / "scan.ans4d")
        assert not (tmp_path / "scan.ans4d").exists()
        assert acquisition.state == "source"
        wait_for(lambda: acquisition.resident_bytes == 0)


def test_damage_is_known_while_the_scan_is_half_encoded(tmp_path: Path) -> None:
    """Frames (2, 5) and (17, 30) are broken; only the first is read before the encoder waits."""
    frames = np.arange(1400 * 30 * 22, dtype=np.uint32).reshape(1400, 30, 22).astype(np.int16)
    frames = -np.abs(frames) - 1  # a zero in place of a lost pattern would be the largest value
    master = Writer(block=64).write(tmp_path, frames)
    chunks = chunks_of(master)
    for frame in (2 * 70 + 5, 17 * 70 + 30):
        patch(master, chunks[frame].byte_offset + 12, b"\x7f\xff\xff\xff")
    from napari_4dstem.sources import OpenOptions

    options = OpenOptions(scan_shape=(20, 70))
    data = frames.reshape(20, 70, 30, 22)
    with half_encoded(master, 10, options) as (reader, life, source):
        everything = n4.Rectangle(0, 30, 0, 22)
        valid = reader.valid
        assert not valid[2, 5]
        (preview,) = reader.preview([everything])
        assert not preview.known[2, 5]
        valid = np.ones((20, 70), bool)
        valid[2, 5] = valid[17, 30] = False
        expected = np.where(valid, data.sum(axis=(2, 3), dtype=np.int64), 0)
        for state in ("partial", "encoded"):
            wait_for(lambda state=state: life.backing.state == state)
            assert np.array_equal(reader.image(everything), expected)
            assert np.array_equal(reader.valid, valid)
            assert np.array_equal(reader.pattern(reduce="max"), data[valid].max(axis=0))
            assert np.array_equal(reader.pattern(reduce="sum"), data[valid].sum(0, dtype=int))
            rows, columns = reader.center_of_mass()
            assert np.array_equal(np.isnan(rows) | np.isnan(columns), ~valid)
            assert not reader.pattern_at(17, 30).any()
            source.go.set()
        assert life.problems == ("2 damaged pattern(s) could not be read and are shown as missing",)


def test_nothing_can_be_encoded_twice_at_a_time(tmp_path: Path) -> None:
    with half_encoded(save(tmp_path, DATA), 10) as (_, life, source):
        thread = life.encode(np.zeros(SHAPE[2:], bool))
        assert thread is life.encode(np.zeros(SHAPE[2:], bool))
        source.go.set()
        assert thread is not None
        thread.join()
        assert life.backing.state == "encoded"
        assert life.encode(np.zeros(SHAPE[2:], bool)) is None
        assert CancelledError.__name__ not in "".join(life.problems)
