"""Every Arina-type file with a known answer: shape, dtype, sum, checksum, single pixels."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from napari_4dstem.sources import OpenOptions, Source, inspect, open_source, sniff

EIGER = "dectris_testfiles/eiger2_simread7_2datafiles_4images"
FILES = [
    ("arina_real/test_00_master.h5", OpenOptions()),
    ("sim_sto/sim_sto_master.h5", OpenOptions()),
    ("sim_variants/var_8x12_roi64x96_u8_master.h5", OpenOptions()),
    ("sim_variants/var_master_only_master.h5", OpenOptions()),
    ("sim_variants/var_truncated_master.h5", OpenOptions(partial=True)),
    *(
        (f"{EIGER}_{kind}_data_00000{i}.h5", OpenOptions(scan_shape=(1, 2)))
        for kind in ("bslz4", "bslz4_uint8", "lz4")
        for i in (1, 2)
    ),
]


def expected_of(shared_data: Path, name: str) -> dict[str, Any]:
    manifest = json.loads((shared_data / "manifest.json").read_text())
    (entry,) = [e for e in manifest["files"] if e["file"] == name]
    expected: dict[str, Any] = entry["expected"]
    return expected


def read_recorded(source: Source) -> NDArray[Any]:
    """Return all recorded patterns by bulk reads of whole stretches, (n, H, W)."""
    parts = []
    for row in range(source.scan_shape[0]):
        columns = np.flatnonzero(source.recorded[row])
        if len(columns):
            parts.append(source.read(row, range(columns[0], columns[-1] + 1)))
    return np.concatenate(parts)


@pytest.mark.parametrize(("name", "options"), FILES, ids=[f for f, _ in FILES])
def test_counts_equal_the_manifest(shared_data: Path, name: str, options: OpenOptions) -> None:
    expected = expected_of(shared_data, name)
    path = shared_data / name
    assert sniff(path)
    source = open_source(path, options)
    try:
        data = read_recorded(source)
        if expected.get("scan_shape"):
            assert source.scan_shape == tuple(expected["scan_shape"])
        stored = expected.get("stored_shape", expected["shape"])
        assert source.detector_shape == tuple(stored[-2:])
        assert source.dtype == np.dtype(expected["dtype"])
        assert len(data) == int(np.prod(stored[:-2]))
        assert int(data.sum(dtype=np.int64)) == expected["int64_sum"]
        digest = hashlib.sha256(data.tobytes()).hexdigest()
        assert digest == expected["sha256_of_C_order_little_endian_bytes"]
        for place, value in expected.get("pixels", []):
            frame, pixel = place[:-2], tuple(place[-2:])
            position = frame if len(frame) == 2 else divmod(frame[0], source.scan_shape[1])
            assert source.pattern(*position)[pixel] == value
    finally:
        source.close()


def test_pattern_equals_bulk_read_everywhere(shared_data: Path) -> None:
    source = open_source(shared_data / "sim_variants/var_8x12_roi64x96_u8_master.h5")
    try:
        for row in range(8):
            line = source.read(row, range(12))
            for column in range(12):
                assert np.array_equal(source.pattern(row, column), line[column])
            assert np.array_equal(source.read(row, range(3, 9)), line[3:9])
    finally:
        source.close()


def test_reading_into_an_array(shared_data: Path) -> None:
    with_out = np.full((5, 96, 96), 7, np.uint16)
    source = open_source(shared_data / "sim_sto/sim_sto_master.h5")
    try:
        assert source.read(12, range(14, 19), with_out) is with_out  # crosses two files
        assert np.array_equal(with_out, source.read(12, range(14, 19)))
        with pytest.raises(ValueError, match="does not fit"):
            source.read(12, range(14, 19), np.empty((5, 96, 96), np.uint32))
        with pytest.raises(ValueError, match="does not fit"):
            source.read(12, range(14, 18), with_out)
    finally:
        source.close()


def test_oracle_of_the_simulated_scan(shared_data: Path) -> None:
    """The file's own mask and its no-data value give the oracle's sums exactly."""
    expected = np.load(shared_data / "sim_sto/sim_sto_expected.npz")
    source = open_source(shared_data / "sim_sto/sim_sto_master.h5")
    try:
        info = source.info
        assert info.nodata == 65535
        assert info.mask is not None
        assert sorted(map(tuple, np.argwhere(info.mask))) == [(10, 20), (51, 60), (70, 5), (70, 6)]
        data = read_recorded(source).astype(np.int64)
    finally:
        source.close()
    data[:, info.mask] = 0
    data[data == info.nodata] = 0
    assert np.array_equal(data.sum((1, 2)).reshape(32, 32), expected["total"])
    assert np.array_equal(data.sum(0), expected["dp_sum"])


def test_calibration_of_the_simulated_scan(shared_data: Path) -> None:
    info = inspect(shared_data / "sim_sto/sim_sto_master.h5")
    calibration = info.calibration
    assert calibration.beam_energy is not None
    assert calibration.beam_energy.text == "300 keV"
    assert calibration.wavelength_nm == pytest.approx(1.9687e-3, rel=1e-4)
    assert calibration.scan_step is not None
    assert calibration.scan_step[0].text == "~0.02441 nm"
    # Camera length x pixel size is 38 % off here: a suggestion, nothing more.
    assert calibration.camera_step is None
    assert calibration.suggested_camera_step is not None
    assert calibration.suggested_camera_step[0].value == pytest.approx(1.739, abs=1e-3)
    assert info.metadata["saturation value"] == "8160"


def test_a_thousand_links_of_which_two_exist(shared_data: Path) -> None:
    path = shared_data / "dectris_testfiles/large_001/test_master.h5"
    info = inspect(path)
    assert not info.ready
    assert info.reason.startswith("998 data files cannot be read: test_data_000003.h5")
    assert "50 x 100" in info.action
    assert (info.frames_found, info.frames_expected) == (10, 5000)
    assert len(info.missing_files) == 998
    assert info.detector_shape == (13, 11)
    source = open_source(path, OpenOptions(scan_shape=(50, 100), partial=True))
    try:
        assert source.recorded.sum() == 10
        assert source.recorded[0, :10].all()
        expected = expected_of(shared_data, "dectris_testfiles/large_001/test_master.h5")
        sums = source.read(0, range(5)).sum((1, 2), dtype=np.int64).tolist()
        assert sums == expected["data_000001"]["first_frame_sums"]
    finally:
        source.close()


def test_an_interrupted_scan(shared_data: Path) -> None:
    path = shared_data / "sim_variants/var_truncated_master.h5"
    info = inspect(path)
    assert not info.ready
    assert info.partial_possible
    assert info.reason == "50 of 64 scan positions were recorded."
    assert "partial scan" in info.action
    assert (info.scan_shape, info.scan_shape_origin) == ((8, 8), "sidecar")
    source = open_source(path, OpenOptions(partial=True))
    try:
        assert source.recorded.ravel()[:50].all()
        assert not source.recorded.ravel()[50:].any()
        with pytest.raises(IndexError, match="not recorded"):
            source.pattern(7, 0)
        with pytest.raises(IndexError, match="not recorded"):
            source.read(6, range(8))
    finally:
        source.close()


@pytest.mark.parametrize(
    "name",
    [
        "hdf5_4d/libertem_hdf5_sample.h5", "hdf5_4d/py4DSTEM_size2x3x4x5.h5",
        "hdf5_4d/prismatic_Si100_4D.emd", "bitshuffle/regression_0.1.3.h5",
        "bitshuffle/regression_0.4.0.h5", "sim_sto/sim_sto.h5", "arina_real/test_00.h5",
        "merlin_mib/001_4x2_6bit.mib", "blockfile/test1.blo",
    ],
)  # fmt: skip
def test_foreign_files_are_not_ours(shared_data: Path, name: str) -> None:
    assert not sniff(shared_data / name)
