from __future__ import annotations

import subprocess
import sys
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer

import napari_4dstem as n4
from napari_4dstem.plugin.canvas.pattern_layer import pattern_limits
from napari_4dstem.plugin.canvas.pattern_stack import PatternStack
from napari_4dstem.plugin.reader import NO_LAYER, get_reader, read
from tests.plugin.scans import disk_scan, save


@pytest.fixture
def master(shared_data):
    return str(shared_data / "sim_sto" / "sim_sto_master.h5")


@pytest.fixture
def layer(master):
    found = read(master)
    yield found[0]
    found[0][0].acquisition.close()


def test_claims_what_is_ours(master, tmp_path):
    assert get_reader(master) is read
    assert get_reader([master]) is read
    assert get_reader([]) is None


@pytest.mark.parametrize("name", ["notes.txt", "other.h5", "folder", "absent_master.h5"])
def test_leaves_the_rest_alone(tmp_path, name):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif not name.startswith("absent"):
        path.write_bytes(b"\x89HDF\r\n\x1a\nnothing of ours" * 10)
    assert get_reader(str(path)) is None


def test_one_layer_with_units_and_limits(layer):
    stack, arguments, kind = layer
    assert kind == "image"
    assert isinstance(stack, PatternStack)
    assert arguments["name"] == "sim_sto"
    assert arguments["projection_mode"] == "none"
    assert (arguments["rgb"], arguments["multiscale"]) == (False, False)
    assert arguments["axis_labels"] == ("scan row", "scan column", "camera row", "camera column")
    assert arguments["units"] == ("nm", "nm", "pixel", "pixel")
    assert arguments["scale"][:2] == pytest.approx((0.02440625, 0.02440625))
    assert arguments["translate"] == (0.0, 0.0, 0.0, 0.0)
    low, high = arguments["contrast_limits"]
    assert low == 0
    assert 5 < high < 60, "neither the overload value nor a hot pixel sets the limit"
    assert arguments["metadata"]["acquisition"]() is stack.acquisition


def test_the_layer_shows_the_file(layer, shared_data):
    made = Layer.create(*layer)
    expected = np.load(shared_data / "sim_sto" / "sim_sto_expected.npz")
    total = np.zeros(layer[0].shape[:2], np.int64)
    valid = ~layer[0].acquisition.mask
    for row, column in [(0, 0), (8, 24), (31, 31), (17, 3)]:
        pattern = made.data[row, column]
        good = valid & (pattern != np.iinfo(pattern.dtype).max)
        total[row, column] = pattern[good].sum(dtype=np.int64)
        assert total[row, column] == expected["total"][row, column]


def test_napari_asks_for_one_pattern_a_step(layer, monkeypatch):
    viewer = ViewerModel()
    viewer.add_layer(Layer.create(*layer))
    asked = []
    acquisition = layer[0].acquisition
    found = acquisition.pattern_at
    monkeypatch.setattr(
        acquisition, "pattern_at", lambda r, c: (asked.append((r, c)), found(r, c))[1]
    )
    for place in [(8, 24), (9, 24), (31, 0)]:
        viewer.dims.set_current_step((0, 1), place)
    assert asked == [(8, 24), (9, 24), (31, 0)]


def test_answers_at_once(master):
    read(master)[0][0].acquisition.close()  # imports
    start = time.perf_counter()
    layer = read(master)[0]
    took = time.perf_counter() - start
    layer[0].acquisition.close()
    print(f"read in {took * 1e3:.0f} ms")
    assert layer[0].acquisition.state == "released"


def test_a_file_that_is_not_ready_gives_no_layer_and_says_why(tmp_path, capsys):
    frames = disk_scan((1, 7, 20, 24))[0]  # 7 frames: no scan shape fits but 1 x 7
    path = save(frames, tmp_path)
    assert read(str(path)) == NO_LAYER


def test_a_broken_file_gives_no_layer(master, tmp_path):
    broken = tmp_path / "broken_master.h5"
    broken.write_bytes(Path(master).read_bytes()[:3000])
    reader = get_reader(str(broken))
    assert reader is None or reader(str(broken)) == NO_LAYER


def test_an_encoded_file(tmp_path):
    data = disk_scan((5, 6, 20, 24))
    with n4.load(save(data, tmp_path)) as acquisition:
        acquisition.save(tmp_path / "scan.ans4d")
    reader = get_reader(str(tmp_path / "scan.ans4d"))
    stack, _, _ = reader(str(tmp_path / "scan.ans4d"))[0]
    np.testing.assert_array_equal(stack[2, 3], data[2, 3])
    stack.acquisition.close()


def test_a_layer_keeps_no_acquisition_in_its_metadata(layer):
    assert isinstance(layer[1]["metadata"]["acquisition"], weakref.ref)


def test_imports_nothing_heavy():
    code = (
        "import sys, napari_4dstem.plugin.reader as r; r.get_reader('x_master.h5');"
        "print([m for m in ('torch', 'numba', 'qtpy', 'napari', 'pyqtgraph') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("pattern", "masked", "nodata", "limits"),
    [
        (np.zeros((8, 9), "u2"), None, None, (0.0, 1.0)),
        (np.full((8, 9), 65535, "u2"), None, 65535, (0.0, 1.0)),
        (np.arange(72, dtype="u2").reshape(8, 9), None, None, (0.0, 71.0)),
        (np.full((8, 9), np.nan), None, None, (0.0, 1.0)),
        (np.linspace(-3, 5, 72).reshape(8, 9), None, None, (-3.0, 5.0)),
    ],
)
def test_limits(pattern, masked, nodata, limits):
    assert pattern_limits(pattern, masked, nodata) == pytest.approx(limits, abs=0.1)


def test_limits_leave_masked_pixels_out():
    pattern = np.ones((8, 9), "u2")
    pattern[2, 3] = 1000
    masked = pattern > 500
    assert pattern_limits(pattern, masked, None)[1] == 1.0
