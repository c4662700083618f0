"""200 damaged files a format, others each time; the seed stands in the message."""

from __future__ import annotations

import time

import pytest

from tests.fuzz import run_target


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", ["ans4d", "arina", "npy"])
def test_damaged_files_never_crash(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = run_target(target, 200, seed=int(time.time()) % 1_000_000)
    with capsys.disabled():
        print(f"\n{report}")
    assert not report.failures, str(report)
    assert sum(report.tally.values()) == 200
    # Not all may be refused: then nothing would have been tested.
    assert report.tally["read"] > 0
    assert report.tally["hole"] > 0 or target == "npy"
