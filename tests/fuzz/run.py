"""The fuzz driver: spreads cases over child processes and survives what they do not.

A child is a plain ``python -m tests.fuzz --child ...`` (spawned, never forked). It prints one
line when a case starts and one when it ends; the parent reads these lines, and knows from them
which case a dead or silent child was working on.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import queue
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np

from napari_4dstem.errors import FourDStemError

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 20.0
MEMORY_LIMIT = 3 << 30
_START_LIMIT_S = 180.0  # a child imports and compiles before its first case


class WrongResult(Exception):
    """A damaged file gave a result that it must not give."""


@dataclass(frozen=True)
class Failure:
    """One failing case."""

    case: int
    kind: str  # "signal 11", "hang", "wrong result", "exception", "exit 1"
    damage: str
    detail: str
    alone: str = "not tried"  # what the same case does in a fresh child


@dataclass
class Report:
    """What a run of many cases gave."""

    target: str
    seed: int
    cases: int
    tally: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {label}" for label, n in self.tally.most_common())
        lines = [f"fuzz {self.target}: {self.cases} cases, seed {self.seed}: {counts}"]
        for f in self.failures:
            lines.append(f"  case {f.case}: {f.kind} [alone: {f.alone}]: {f.damage}: {f.detail}")
        lines.append(f"  {len(self.failures)} failures")
        return "\n".join(lines)


def load_target(name: str) -> ModuleType:
    """Import ``tests.fuzz.NAME_target``."""
    return importlib.import_module(f"tests.fuzz.{name}_target")


def targets() -> list[str]:
    """Return the names of all targets there are."""
    return sorted(p.stem.removesuffix("_target") for p in Path(__file__).parent.glob("*_target.py"))


# ---------------------------------------------------------------- in the child


def run_case(target: ModuleType, seeds: Path, folder: Path, seed: int, case: int) -> dict[str, str]:
    """Run one case in this process; return ``{"label", "damage", "detail"}``."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(seeds, folder)
    damage = str(target.mutate(np.random.default_rng([seed, case]), folder))
    print(json.dumps({"case": case, "damage": damage}), flush=True)
    try:
        return {"label": str(target.check(folder)), "damage": damage, "detail": ""}
    except FourDStemError:
        return {"label": "refused", "damage": damage, "detail": ""}
    except WrongResult as error:
        return {"label": "FAIL wrong result", "damage": damage, "detail": str(error)}
    except BaseException as error:  # noqa: BLE001  (whatever it is, it is the finding)
        where = traceback.format_exc(limit=-4).replace("\n", " | ")
        text = f"{type(error).__name__}: {error} || {where}"
        return {"label": "FAIL exception", "damage": damage, "detail": text}


def _limit_memory(nbytes: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + nbytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _child(name: str, seed: int, cases: list[int]) -> None:
    faulthandler.enable()  # a crash then says in which line of Python it happened
    target = load_target(name)
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as scratch:
        seeds, folder = Path(scratch, "seeds"), Path(scratch, "case")
        seeds.mkdir()
        target.make_seed_files(seeds)
        if hasattr(target, "warm_up"):
            target.warm_up(seeds)
        _limit_memory(getattr(target, "MEMORY_LIMIT", MEMORY_LIMIT))
        print(json.dumps({"ready": True}), flush=True)
        for case in cases:
            print(json.dumps({"case": case, **run_case(target, seeds, folder, seed, case)}))
            sys.stdout.flush()


# --------------------------------------------------------------- in the parent


class _Child:
    """One child process and what it said last."""

    def __init__(self, name: str, seed: int, cases: list[int]) -> None:
        self.lines: queue.Queue[str | None] = queue.Queue()
        command = [sys.executable, "-m", "tests.fuzz", "--child", name, "--seed", str(seed)]
        self.process = subprocess.Popen(
            [*command, "--cases", ",".join(map(str, cases))],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self.stderr = ""
        self._readers = [
            threading.Thread(target=self._read, name="n4-fuzz-out", daemon=True),
            threading.Thread(target=self._read_errors, name="n4-fuzz-err", daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.stderr = (self.stderr + line)[-2000:]

    def next(self, timeout: float) -> dict[str, object] | None:
        """Return the next message, None at the end; raises `queue.Empty` on silence."""
        while True:
            line = self.lines.get(timeout=timeout)
            if line is None:
                return None
            if line.startswith("{"):
                message: dict[str, object] = json.loads(line)
                return message

    def how_it_ended(self) -> str:
        code = self.process.wait(timeout=30)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit {code}"


def _run_cases(
    name: str, seed: int, cases: list[int], report: Report, lock: threading.Lock
) -> None:
    """Run `cases` in as many children as it takes; a thread of the parent."""
    limit = getattr(load_target(name), "TIME_LIMIT_S", TIME_LIMIT_S)
    left = list(cases)
    while left:
        child = _Child(name, seed, left)
        damage, timeout, failed = "", _START_LIMIT_S, ""
        try:
            while (message := child.next(timeout)) is not None:
                timeout = limit + 5.0
                if "label" in message:
                    _record(report, lock, message)
                    left.remove(int(str(message["case"])))
                damage = str(message.get("damage", ""))
        except queue.Empty:
            failed = "hang"
            child.process.kill()
        ended = child.how_it_ended()
        if left:
            with lock:
                report.failures.append(Failure(left[0], failed or ended, damage, child.stderr))
            if timeout == _START_LIMIT_S:
                return  # it never got as far as the first case: no use in going on
            left = left[1:]


def _record(report: Report, lock: threading.Lock, message: dict[str, object]) -> None:
    label = str(message["label"])
    with lock:
        report.tally[label] += 1
        if label.startswith("FAIL"):
            kind = label.removeprefix("FAIL ")
            report.failures.append(
                Failure(
                    int(str(message["case"])), kind, str(message["damage"]), str(message["detail"])
                )
            )


def run_target(
    name: str, n: int, seed: int, *, workers: int = 2, first: int = 0, confirm: bool = True
) -> Report:
    """Run cases ``first:first + n`` of a target in child processes.

    Parameters
    ----------
    name
        The target: ``tests/fuzz/NAME_target.py``.
    n, seed, first
        How many cases, and what they are made from.
    workers
        Children at a time.
    confirm
        Run each failing case once more, alone in a fresh child.
    """
    report, lock = Report(name, seed, n), threading.Lock()
    cases = list(range(first, first + n))
    threads = [
        threading.Thread(
            target=_run_cases, args=(name, seed, cases[i::workers], report, lock), name="n4-fuzz"
        )
        for i in range(min(workers, max(n, 1)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if confirm and report.failures and n > 1:
        report.failures = [_confirmed(name, seed, f) for f in report.failures]
    return report


def _confirmed(name: str, seed: int, failure: Failure) -> Failure:
    again = run_target(name, 1, seed, workers=1, first=failure.case, confirm=False)
    alone = again.failures[0].kind if again.failures else "passes"
    return Failure(failure.case, failure.kind, failure.damage, failure.detail, alone)


def _foreground(name: str, seed: int, case: int) -> None:
    target = load_target(name)
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as scratch:
        seeds = Path(scratch, "seeds")
        seeds.mkdir()
        target.make_seed_files(seeds)
        print(run_case(target, seeds, Path(scratch, "case"), seed, case))


def main(arguments: list[str] | None = None) -> int:
    """Command line of the driver; returns 1 when a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=targets(), help="default: all")
    parser.add_argument("--n", type=int, default=200, help="cases per target")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock")
    parser.add_argument("--case", type=int, default=None, help="run this one case here")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--cases", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    seed = int(time.time()) % 1_000_000 if args.seed is None else args.seed
    if args.child:
        _child(args.child, seed, [int(c) for c in args.cases.split(",")])
        return 0
    if args.case is not None:
        _foreground(args.target, seed, args.case)
        return 0
    reports = [
        run_target(name, args.n, seed, workers=args.workers)
        for name in ([args.target] if args.target else targets())
    ]
    print(*reports, sep="\n")
    return int(any(r.failures for r in reports))
