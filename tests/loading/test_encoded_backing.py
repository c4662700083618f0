"""Which device decodes: asked for by name, wired through a scan's whole life, freed at its end.

The decoder in torch runs on any device: here on the CPU, where every test can be made.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import napari_4dstem as n4
from napari_4dstem.container import ContainerHeader, write
from napari_4dstem.errors import DeviceError, MissingDependencyError, UsageError
from napari_4dstem.ledger import ledger
from napari_4dstem.loading.encoded_backing import backing_maker, on_device, on_host, resolve_device
from napari_4dstem.loading.lifecycle import Lifecycle, source_backing
from napari_4dstem.scan_reader import ScanReader
from napari_4dstem.sources import OpenOptions, open_source
from tests.acquisitions import Truth, counts, save
from tests.test_architecture import run_without

SHAPE = (3, 21, 9, 11)
DATA = counts(SHAPE)
DATA[1, 2, 3, 4] = 65535
ON_CPU = partial(on_device, device="cpu")


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Lifecycle]:
    """A scan whose encoded form is decoded by torch."""
    path = save(tmp_path, DATA)
    life = Lifecycle(
        "scan", lambda _: source_backing(open_source(path, OpenOptions()), 65535), 65535, ON_CPU
    )
    yield life
    life.release()


def encode(life: Lifecycle) -> None:
    thread = life.encode(np.zeros(SHAPE[2:], bool))
    assert thread is not None
    thread.join()


def stream_bytes(life: Lifecycle) -> int:
    scan = life.backing.scan
    assert scan is not None
    return sum(block.size for block in scan.blocks)


def test_a_scan_that_torch_decodes(life: Lifecycle) -> None:
    reader = ScanReader("scan", life)
    encode(life)
    assert (life.backing.state, life.backing.place) == ("encoded", "GPU")
    assert np.array_equal(reader[:, :], DATA)
    circle = n4.Circle((3.2, 4), 3.1)
    inside = circle.mask(SHAPE[2:])
    masked = np.zeros(SHAPE[2:], bool)
    masked[2, 3] = True
    for mask in (np.zeros(SHAPE[2:], bool), masked, None):
        reader.mask = mask
        truth = Truth(DATA, mask, 65535)
        assert np.array_equal(reader.image(circle), truth.image(inside))
        for found, expected in zip(
            reader.center_of_mass(circle), truth.center(inside), strict=True
        ):
            assert np.array_equal(found, expected, equal_nan=True)
        region = n4.Rectangle(0, 2, 1, 15)
        chosen = region.mask(SHAPE[:2])
        assert np.array_equal(reader.pattern(region, "max"), truth.pattern(chosen, "max"))
    assert reader.overloads().sum() == 1


def test_the_copy_is_booked_and_freed_on_release(life: Lifecycle) -> None:
    encode(life)
    on_the_device = weakref.ref(life.backing.on_device)
    held = ledger.total(owner=life.owner)
    assert held > 2 * stream_bytes(life)  # in RAM and on the device
    assert life.release() == held
    assert ledger.total(owner=life.owner) == 0
    assert on_the_device() is None
    life.reload()
    encode(life)
    assert life.backing.place == "GPU"


def test_an_encoded_file_goes_to_the_device_when_it_is_opened(
    life: Lifecycle, tmp_path: Path
) -> None:
    encode(life)
    scan = life.backing.scan
    assert scan is not None
    path = tmp_path / "scan.ans4d"
    write(path, scan, ContainerHeader.of(scan))
    from napari_4dstem.container import open_container

    opened = open_container(path)
    backing = ON_CPU(opened.scan, "disk", "reopened")
    assert backing.place == "GPU"
    assert ledger.total(owner="reopened") > 0
    assert np.array_equal(backing.blocks_for(raw_values=False).patterns(0), DATA.reshape(-1, 9, 11))
    backing.close()
    assert ledger.total(owner="reopened") == 0


def test_names_of_devices() -> None:
    assert resolve_device("auto") == resolve_device("cpu") == "cpu"
    assert backing_maker("cpu") is on_host
    for name in ("gpu", "cuda:x", "cuda:-1", "mps:0", "cpu:oracle", ""):
        with pytest.raises(UsageError, match="Unknown device"):
            resolve_device(name)
    with pytest.raises(DeviceError, match=r"cuda:97.*device='cpu'"):
        resolve_device("cuda:97")


def test_the_device_of_an_acquisition(tmp_path: Path) -> None:
    path = save(tmp_path, DATA)
    with n4.load(path) as acquisition:
        assert acquisition.device == "cpu"
        assert acquisition.place == "RAM"
        assert acquisition.read((0, 1, 0, 2)).device.type == "cpu"
    with pytest.raises(UsageError, match="Unknown device"):
        n4.open(path, device="gpu")


def test_without_torch_only_the_other_devices_are_missing(tmp_path: Path) -> None:
    path = save(tmp_path, DATA)
    code = f"""
import napari_4dstem as n4
from napari_4dstem.errors import MissingDependencyError
with n4.load({str(path)!r}, device="auto") as acquisition:
    print(acquisition.device, acquisition.image(n4.Circle((3.2, 4), 3.1)).shape)
    try:
        acquisition.read((0, 1, 0, 1))
    except MissingDependencyError as error:
        print(error)
try:
    n4.open({str(path)!r}, device="cuda")
except MissingDependencyError as error:
    print(error)
"""
    result = run_without(("torch",), code)
    assert result.returncode == 0, result.stderr
    assert "cpu (3, 21)" in result.stdout
    assert result.stdout.count("pip install torch") == 2
    assert issubclass(MissingDependencyError, ImportError)
