"""Numba checks no array bounds: here it does, in a process of its own.

A kernel that reads or writes outside its arrays corrupts memory and may still give the right
answer, so that no other test would notice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

CODE = """
import dataclasses
import numpy as np
from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.layout import PADDING
from tests.codec.cases import Case, assert_decodes, counts

rng = np.random.default_rng(0)
cases = [
    Case(counts(shape, dose, "u2"), sample=counts(shape, dim, "u2")[0])
    for shape in [(5, 9, 17, 23), (1, 33, 13, 11), (3, 40, 33, 40), (1, 1, 1, 1)]
    for dose in (10, 2e5)
    for dim in (10, 1e6)
]
noise = rng.integers(0, 65536, (5, 13, 19, 21)).astype(np.uint16)
cases += [Case(noise), Case(noise, sample=noise[0] * 0), Case(noise * 0), Case(noise | 65535)]
# Every value an escape of two bytes in a chunk that is still smaller than raw.
cases += [Case((rng.random((1, 512, 9, 8)) < 0.4) * np.uint16(300), sample=noise[0, :, :9, :8] * 0)]
for case in cases:
    scan = case.encode(threads=1)
    assert_decodes(CpuDecoder(scan), case)
    for share in (0.001, 0.5):
        blocks = [block.copy() for block in scan.blocks]
        for block in blocks:
            hit = rng.random(block.size - PADDING) < share
            block[:-PADDING][hit] = rng.integers(0, 256, int(hit.sum()))
        decoder = CpuDecoder(dataclasses.replace(scan, blocks=blocks))
        pixels = np.ones(scan.layout.detector_shape, bool)
        for block in range(scan.layout.n_blocks):
            decoder.patterns(block, np.array([0]))
            decoder.sums(block, pixels, np.arange(scan.layout.n_tiles))
            decoder.moments(block, pixels, np.arange(scan.layout.n_tiles))
            decoder.reduce(block, np.ones(scan.layout.block_size(block), bool))
            decoder.patterns(block)
"""

TRAP = """
import numpy as np
from numba import njit

@njit
def beyond(array):
    return array[array.size]

beyond(np.zeros(3))
"""


def run_checked(code: str, cache: Path) -> subprocess.CompletedProcess[str]:
    # Kernels compiled without the check lie in the usual cache: another one is needed.
    env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def test_the_check_is_on(tmp_path: Path) -> None:
    result = run_checked(TRAP, tmp_path)
    assert "IndexError" in result.stderr


@pytest.mark.slow
def test_no_kernel_leaves_its_arrays(tmp_path: Path) -> None:
    result = run_checked(CODE, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
