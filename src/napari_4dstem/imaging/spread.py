"""Spread the blocks of a product over threads, with progress and a cancel that works."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice

from napari_4dstem.errors import CancelledError


@dataclass(frozen=True)
class Run:
    """How a product is computed.

    Parameters
    ----------
    threads
        Worker threads; 0: one per processor that this process may use.
    progress
        Called with (blocks done, blocks in all) from the calling thread.
    cancelled
        Asked between blocks; True stops the product with `CancelledError`.
    """

    threads: int = 0
    progress: Callable[[int, int], None] | None = None
    cancelled: Callable[[], bool] | None = None


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(work: Callable[[int], None], blocks: Iterable[int], run: Run) -> None:
    """Call ``work(block)`` for every block, several at a time.

    Raises
    ------
    CancelledError
        If ``run.cancelled`` said so; running blocks are finished first.
    """
    todo = list(blocks)
    threads = min(run.threads or processor_count(), max(1, len(todo)))
    waiting = iter(todo)
    done = 0
    with ThreadPoolExecutor(threads, thread_name_prefix="n4-image") as pool:
        # Only as many as there are threads are submitted, so that a cancel has nothing to undo.
        running = {pool.submit(work, b) for b in islice(waiting, threads)}
        while running:
            if run.cancelled is not None and run.cancelled():
                raise CancelledError("The image was cancelled")
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                future.result()
                done += 1
                following = next(waiting, None)
                if following is not None:
                    running.add(pool.submit(work, following))
            if run.progress is not None:
                run.progress(done, len(todo))
