"""The torch decoder gives the same bits and sums as the processor's, and as dense NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.layout import RAW
from napari_4dstem.codec.oracle import TorchOracle
from napari_4dstem.errors import DeviceError, MissingDependencyError, ReleasedError
from napari_4dstem.ledger import Kind, Ledger
from tests.codec.cases import Case, assert_decodes, counts
from tests.test_architecture import run_without

pytest.importorskip("torch")
SHAPE = (5, 17, 21, 26)


def overloaded(dtype: str, dose: float) -> Case:
    data = counts(SHAPE, dose, dtype)
    top = np.iinfo(dtype).max
    data[:, :, 5, 5] = data[2, 2, 2, 2] = data[3, 3, 20, 25] = top
    data[1, 1, 9, 11] = top - 1
    data[:, :, 16:, :8] = 0
    if dtype[0] == "i":
        data[4, 4, 4, 4] = -7
    return Case(data, nodata=int(top))


def decoded(case: Case) -> TorchOracle:
    oracle = TorchOracle(case.encode(), ledger=Ledger())
    assert_decodes(oracle, case)
    return oracle


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i1", "i2", "i4"])
@pytest.mark.parametrize("dose", [20, 100_000])
def test_whole_numbers(dtype: str, dose: float) -> None:
    decoded(overloaded(dtype, dose))


@pytest.mark.parametrize("scale", [1.0, 0.37])
def test_floats(scale: float) -> None:
    data = (counts(SHAPE, 900, "u4") * np.float64(np.float32(scale))).astype(np.float32)
    data[1, 1, 1, 1], data[2, 2, 20, 2] = np.nan, -0.0
    oracle = decoded(Case(data, sample=data[3].copy()))
    assert (oracle.scan.chunk_mode == RAW).sum() == 2
    decoded(Case(np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)))


def test_raw_and_empty_chunks_thin_scans_and_large_values() -> None:
    rng = np.random.default_rng(0)
    decoded(Case(rng.integers(0, 65536, (2, 3, 21, 26)).astype(np.uint16)))
    decoded(Case(np.zeros((2, 3, 21, 26), np.uint8)))
    decoded(Case(rng.poisson(5, (1, 70, 13, 11)).astype(np.uint16)))
    decoded(Case(rng.integers(2**32 - 9, 2**32, (2, 40, 9, 10)).astype(np.uint32)))


def test_tiles_in_several_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("napari_4dstem.codec.oracle._GROUP_VALUES", 5 * 32 * 64)
    case = Case(counts((3, 11, 40, 35), 5_000, "u2"))
    assert TorchOracle(case.encode(), ledger=Ledger())._groups(np.arange(25)).__next__().size == 5
    decoded(case)


def test_damage_becomes_a_hole() -> None:
    case = overloaded("u2", 5_000)
    scan = case.encode()
    for trusted in (False, True):
        damaged = dataclasses.replace(scan, blocks=[b.copy() for b in scan.blocks], trusted=trusted)
        damaged.blocks[0][4 * int(scan.chunk_off[0, 4]) + 60] ^= 4
        oracle = TorchOracle(damaged, ledger=Ledger())
        assert not oracle.patterns(0).any()
        pixels = np.ones(SHAPE[2:], bool)
        assert not oracle.sums(0, pixels, np.arange(1)).total.any()
        assert np.argwhere(damaged.damaged).tolist() == [[0, 4]]
        assert not CpuDecoder(damaged).patterns(0).any()


def test_any_bytes_end_as_values_or_damage() -> None:
    case = overloaded("u2", 50_000)
    scan = case.encode()
    rng = np.random.default_rng(3)
    for _ in range(10):
        block = scan.blocks[0].copy()
        block[:-128] = rng.integers(0, 256, block.size - 128)
        damaged = dataclasses.replace(scan, blocks=[block])
        TorchOracle(damaged, ledger=Ledger()).patterns(0, np.array([3]))
        TorchOracle(damaged, ledger=Ledger()).patterns(0)
        assert damaged.damaged.any()


def test_bytes_on_the_device_are_booked_until_it_is_closed() -> None:
    ledger = Ledger()
    oracle = TorchOracle(overloaded("u2", 5_000).encode(), owner="scan", ledger=ledger)
    (tensors,) = oracle._held
    nbytes = sum(t.numel() * t.element_size() for t in (tensors.u8, tensors.table))
    assert ledger.total(owner="scan", kind=Kind.ENCODED, device="cpu") == nbytes
    oracle.close()
    oracle.close()
    assert ledger.total() == 0
    with pytest.raises(ReleasedError):
        oracle.patterns(0)


def test_a_device_that_is_not_there() -> None:
    case = overloaded("u2", 20)
    for name in ("cuda:99", "nonsense"):
        with pytest.raises(DeviceError, match=name):
            TorchOracle(case.encode(), name, ledger=Ledger())


def test_without_torch_the_error_says_what_to_install() -> None:
    code = (
        "from napari_4dstem.codec.oracle import _find_device\n"
        "from napari_4dstem.errors import MissingDependencyError\n"
        "try:\n    _find_device('cpu')\n"
        "except MissingDependencyError as error:\n    print(error)\n"
    )
    result = run_without(("torch",), code)
    assert "pip install torch" in result.stdout, result.stderr
    assert issubclass(MissingDependencyError, ImportError)


def test_no_data_values_can_count_as_numbers_without_another_copy() -> None:
    case = overloaded("u2", 5_000)
    ledger = Ledger()
    oracle = TorchOracle(case.encode(), ledger=ledger)
    held = ledger.total()
    raw = oracle.counting_nodata()
    assert ledger.total() == held
    pixels = np.ones(case.data.shape[2:], bool)
    layout = oracle.scan.layout
    tiles = np.arange(layout.n_tiles)
    assert oracle.sums(0, pixels, tiles).nodata.any()
    found = raw.sums(0, pixels, tiles)
    assert not found.nodata.any()
    here = case.flat[layout.block_positions(0)].astype(np.int64)
    assert np.array_equal(found.total, here.sum(axis=(1, 2)))
    oracle.close()
    with pytest.raises(ReleasedError):
        raw.patterns(0)
