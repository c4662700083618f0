"""Every block is worked on exactly once, however many threads there are."""

from __future__ import annotations

import threading

import pytest

from napari_4dstem.errors import CancelledError
from napari_4dstem.imaging.spread import Run, processor_count, spread


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 7, 40])
def test_every_block_once(threads: int, blocks: int) -> None:
    done: list[int] = []
    steps: list[tuple[int, int]] = []
    spread(done.append, range(blocks), Run(threads, lambda *step: steps.append(step)))
    assert sorted(done) == list(range(blocks))
    assert steps == sorted(steps)
    assert not blocks or steps[-1] == (blocks, blocks)


def test_as_many_at_a_time_as_there_are_threads() -> None:
    barrier = threading.Barrier(3, timeout=10)
    spread(lambda _: barrier.wait() and None, range(6), Run(3))
    assert processor_count() >= 1


def test_cancelled_between_blocks() -> None:
    done: list[int] = []
    with pytest.raises(CancelledError):
        spread(done.append, range(100), Run(2, cancelled=lambda: len(done) > 4))
    assert 4 < len(done) < 12


def test_the_first_error_is_raised_and_the_rest_left_alone() -> None:
    done: list[int] = []

    def work(block: int) -> None:
        if block == 3:
            raise KeyError(block)
        done.append(block)

    with pytest.raises(KeyError):
        spread(work, range(100), Run(1))
    assert len(done) < 10
