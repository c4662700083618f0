"""The golden files: read by the library and by an independent decoder, compared with the truth."""

import json
import zlib

import numpy as np
import pytest

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.layout import RAW
from napari_4dstem.container import decoded_blocks, open_container, verify
from tests.golden.make_golden import CASES, FOLDER, truth
from tests.reference_decoder import decode


def bits(array):
    """The bytes of an array: NaN and -0.0 have to come back as they were."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("name", CASES)
def test_truth_is_what_the_files_were_made_from(name):
    sums = json.loads((FOLDER / "truth.json").read_text())
    assert zlib.crc32(truth(name)[0].tobytes()) == sums[name]


@pytest.mark.parametrize("name", CASES)
def test_the_library_reads_every_value(name):
    expected, recorded = truth(name)
    opened = open_container(FOLDER / f"{name}.ans4d")
    scan = opened.scan
    assert (*scan.layout.scan_shape, *scan.layout.detector_shape) == expected.shape
    assert scan.layout.dtype == expected.dtype
    np.testing.assert_array_equal(scan.layout.recorded, recorded)
    got = np.zeros_like(expected)
    flat = got.reshape(-1, *expected.shape[2:])
    for positions, patterns in decoded_blocks(scan, CpuDecoder(scan)):
        flat[positions] = patterns
    np.testing.assert_array_equal(bits(got), bits(expected))
    assert opened.header.source.name == f"{name}.npy"
    assert opened.header.problems == ()


@pytest.mark.parametrize("name", CASES)
def test_an_independent_decoder_reads_every_value(name):
    expected, expected_recorded = truth(name)
    got, recorded = decode(FOLDER / f"{name}.ans4d")
    np.testing.assert_array_equal(recorded, expected_recorded)
    np.testing.assert_array_equal(bits(got), bits(expected))


@pytest.mark.parametrize("name", CASES)
def test_verify_finds_them_intact(name):
    report = verify(FOLDER / f"{name}.ans4d")
    assert report.intact, str(report)
    assert not report.missing.any()


@pytest.mark.parametrize("name", [n for n, (_, dtype) in CASES.items() if dtype != "f4"])
def test_the_stored_short_cuts_are_exact(name):
    data, recorded = truth(name)
    opened = open_container(FOLDER / f"{name}.ans4d")
    layout, index = opened.scan.layout, opened.scan.index
    values = data[recorded].astype(np.int64)
    gone = values == opened.header.nodata if opened.header.nodata else np.zeros(values.shape, bool)
    values[gone] = 0
    np.testing.assert_array_equal(index.sum_pattern, values.sum(axis=0))
    np.testing.assert_array_equal(index.nodata_count, gone.sum(axis=0))
    patterns = data.reshape(-1, *layout.detector_shape)[layout.positions].astype(np.int64)
    if opened.header.nodata:
        patterns[patterns == opened.header.nodata] = 0
    patterns[:, index.masked] = 0
    for t, row in enumerate(index.tile_sum):
        tile = layout.tile_at(t)
        part = patterns[:, tile.r0 : tile.r1, tile.c0 : tile.c1]
        np.testing.assert_array_equal(row, part.sum(axis=(1, 2)))


def test_the_set_covers_every_kind_of_chunk():
    """Raw and empty chunks, every literal width, every g, bit planes, several blocks, an edge."""
    modes, sizes, shifts, kinds, blocks, tiles, empty = *(set() for _ in range(6)), 0
    for name in CASES:
        scan = open_container(FOLDER / f"{name}.ans4d").scan
        lengths = np.diff(scan.chunk_off.astype(np.int64), axis=1)
        modes |= set(scan.chunk_mode[lengths > 0].tolist())
        empty += int((lengths == 0).sum())
        sizes |= set(scan.model.classes[:, 0].tolist())
        shifts |= set(scan.model.classes[:, 1].tolist())
        kinds.add(scan.values.kind)
        blocks.add(scan.layout.n_blocks)
        tiles.add(scan.layout.tile)
    assert modes == {0, 1, 2, RAW}
    assert empty > 0
    assert sizes == {1, 2, 4, 8}
    assert max(shifts) >= 3
    assert kinds == {"uint", "int", "f32scaled", "f32raw"}
    assert min(blocks) == 1
    assert max(blocks) > 1
    assert len(tiles) > 1
