"""Nothing is compiled twice, and what is said to be ready is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from napari_4dstem.codec import encode_kernels, product_kernels, reduce_kernels
from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.readiness import is_ready, warm_up
from napari_4dstem.container import ContainerHeader, open_container, write
from tests.codec.cases import Case, assert_decodes, counts

SHAPE = (13, 37, 21, 26)
DTYPES = ["u1", "u2", "u4", "i1", "i2", "i4", "f4"]


def compiled() -> dict[str, int]:
    """Return how often each kernel has been compiled."""
    modules = (encode_kernels, product_kernels, reduce_kernels)
    kernels = {k: v for m in modules for k, v in vars(m).items() if hasattr(v, "overloads")}
    return {name: len(kernel.overloads) for name, kernel in kernels.items()}


@pytest.mark.parametrize("dtype", DTYPES)
def test_warming_up_makes_ready_for_everything(dtype: str) -> None:
    warm_up(np.dtype(dtype))
    assert is_ready(np.dtype(dtype))
    before = compiled()
    data = counts(SHAPE, 3_000, "u1").astype(dtype)
    data[1, 2, 3, 4] = 127
    for case in (Case(data), Case(data, nodata=None if dtype == "f4" else 127)):
        assert_decodes(CpuDecoder(case.encode()), case)
    assert compiled() == before


def test_nothing_is_ready_in_a_fresh_process_without_compiling() -> None:
    from tests.test_architecture import run_without

    code = (
        "import numpy as np\n"
        "from napari_4dstem.codec.readiness import is_ready\n"
        "from napari_4dstem.codec.product_kernels import sum_tiles\n"
        "assert not any(is_ready(np.dtype(d)) for d in ('u1', 'u2', 'u4', 'f4'))\n"
        "assert not sum_tiles.overloads\n"
    )
    result = run_without((), code)
    assert result.returncode == 0, result.stderr


def read_only(block: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.frombuffer(block.tobytes(), np.uint8)


def at_an_odd_address(block: NDArray[np.uint8]) -> NDArray[np.uint8]:
    room = np.zeros(block.size + 1, np.uint8)
    odd = room[1:] if room.ctypes.data % 2 == 0 else room[:-1]
    odd[:] = block
    return odd


@pytest.mark.parametrize("form", [read_only, at_an_odd_address])
def test_blocks_in_any_memory_use_the_same_kernels(form: Any) -> None:
    case = Case(counts(SHAPE, 3_000, "u2"))
    scan = case.encode()
    assert_decodes(CpuDecoder(scan), case)
    before = compiled()
    assert_decodes(CpuDecoder(with_blocks(scan, form)), case)
    assert compiled() == before


def with_blocks(scan: EncodedScan, form: Any) -> EncodedScan:
    return dataclasses.replace(scan, blocks=[form(block) for block in scan.blocks])


def test_a_mapped_file_uses_the_same_kernels(tmp_path: Path) -> None:
    case = Case(counts(SHAPE, 3_000, "u2"))
    scan = case.encode()
    assert_decodes(CpuDecoder(scan), case)
    before = compiled()
    write(tmp_path / "scan.ans4d", scan, ContainerHeader.of(scan))
    opened = open_container(tmp_path / "scan.ans4d")
    assert opened.mapped
    assert_decodes(CpuDecoder(opened.scan), case)
    assert compiled() == before


def test_lanes_tiles_and_pixels_in_any_form() -> None:
    scan = Case(counts(SHAPE, 3_000, "u2")).encode()
    decoder = CpuDecoder(scan)
    pixels = np.random.default_rng(0).random(SHAPE[2:]) < 0.5
    expected = decoder.sums(0, pixels, np.arange(3)).total
    before = compiled()
    wide = np.repeat(pixels, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(
        decoder.sums(0, wide, np.arange(3, dtype=np.int16)).total, expected
    )
    fixed = np.asfortranarray(pixels)
    fixed.flags.writeable = False
    np.testing.assert_array_equal(decoder.sums(0, fixed, np.arange(5)[:3]).total, expected)
    decoder.patterns(0, np.arange(0, 40, 3)[::2])
    assert compiled() == before
