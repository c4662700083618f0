"""Fuzzing of everything that reads files: damaged input in child processes.

Run it as::

    python -m tests.fuzz --target arina --n 2000 --seed 5      # what `make fuzz N=2000` calls
    python -m tests.fuzz --target ans4d --case 17 --seed 5     # one case again, in the foreground
    python -m tests.fuzz --n 2000                              # all targets

How it works
------------
A *target* is a module ``tests/fuzz/NAME_target.py``. The driver (:mod:`tests.fuzz.run`) starts a
few child processes; each runs many cases, one after the other. A case is:

1. a fresh copy of the seed files in an empty folder,
2. ``mutate(rng, folder)`` damages the copy; ``rng`` is ``default_rng([seed, case])``: a case
   can be repeated on its own,
3. ``check(folder)`` reads the damaged files.

A child that dies by a signal, runs longer than the time limit, or meets an unexpected exception is
a failure; the driver records the case, starts another child and goes on. A failing case is run once
more alone in a fresh child, because damage to the heap may show only in a later case.

What a target module holds
--------------------------
``make_seed_files(folder: Path) -> None``
    Write the undamaged files into the empty `folder`. Called once per child.
``mutate(rng: numpy.random.Generator, folder: Path) -> str``
    Damage the files in `folder`; return one line that describes the damage.
``check(folder: Path) -> str``
    Read the damaged files **through our library** and compare what comes back with an independent
    answer. Return a short label of what happened (``"read"``, ``"hole"``, ...), for the tally.
    Raise :class:`WrongResult` when something came back that must not. Any of our own errors
    (``FourDStemError``) may simply be let out: it is tallied as ``"refused"``. Every other
    exception is a failure.
``warm_up(folder: Path) -> None`` (optional)
    Called once per child with the undamaged files, before the clock runs: imports, compilation.
``TIME_LIMIT_S: float`` (optional, default 20)
    Longest time for one case.
``MEMORY_LIMIT: int`` (optional, default 3 GiB)
    Bytes the child may add to the address space that it uses after ``warm_up`` (``RLIMIT_AS``).

:func:`flip_bits`, :func:`overwrite`, :func:`cut` and :func:`damage_file` are ready-made kinds of
damage.
"""

from tests.fuzz.damage import cut, damage_file, flip_bits, overwrite
from tests.fuzz.run import Report, WrongResult, run_target

__all__ = ["Report", "WrongResult", "cut", "damage_file", "flip_bits", "overwrite", "run_target"]
