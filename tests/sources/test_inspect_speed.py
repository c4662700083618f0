"""What a dropped file costs before anything is read: modules loaded and files touched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from napari_4dstem.errors import DamagedDataError
from napari_4dstem.sources import inspect, open_source
from napari_4dstem.sources.base import OpenOptions
from tests.sources.arina_files import Writer, counts


def test_sniff_loads_no_compression_and_no_heavy_module(tmp_path: Path) -> None:
    master = Writer(per_file=8).write(tmp_path, counts(np.random.default_rng(1), (15, 9, 7)))
    code = (
        "import json, sys\n"
        "from napari_4dstem.sources import sniff\n"
        f"assert sniff({str(master)!r})\n"
        "print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"hdf5plugin", "torch", "numba", "qtpy", "PyQt6", "napari", "scipy"}


@pytest.mark.parametrize("agrees", ["header", "last file"])
def test_many_data_files_are_not_all_opened(tmp_path: Path, agrees: str) -> None:
    """Where the first and the last file fit together, the others are left alone."""
    count = 300
    frames = counts(np.random.default_rng(2), (3, 6, 5))
    ordered = 3 * count if agrees == "header" else 5 * count
    master = Writer(per_file=3, ordered=ordered).write(tmp_path, frames)
    first = tmp_path / "scan_data_000001.h5"
    with h5py.File(master, "a") as file:
        for i in range(2, count + 1):
            name = f"data_{i:06d}"
            shutil.copyfile(first, tmp_path / f"scan_{name}.h5")
            file["entry/data"][name] = h5py.ExternalLink(f"scan_{name}.h5", "/entry/data/data")
    if agrees == "last file":
        with h5py.File(tmp_path / f"scan_data_{count:06d}.h5", "a") as file:
            file["entry/data/data"].attrs["image_nr_low"] = np.uint64(3 * (count - 1) + 1)
    (tmp_path / "scan_data_000150.h5").write_bytes(b"not opened by inspect")
    options = OpenOptions(scan_shape=(count, 3))
    info = inspect(master, options)
    assert info.ready
    assert info.frames_found == 3 * count
    source = open_source(master, options)
    try:
        assert np.array_equal(source.read(298, range(3)), frames)
        # The file that nobody looked into is found out when it is read.
        with pytest.raises(DamagedDataError, match=r"scan_data_000150\.h5"):
            source.read(149, range(3))
    finally:
        source.close()
