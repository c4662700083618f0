"""Writes small acquisitions in the layouts that Dectris writers use, for tests and fuzzing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from numpy.typing import NDArray


def counts(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.uint16
) -> NDArray[Any]:
    """Poisson counts with a bright disk, (..., H, W)."""
    height, width = shape[-2:]
    rows, columns = np.mgrid[:height, :width]
    bright = (rows - height / 2) ** 2 + (columns - width / 3) ** 2 < (height / 4) ** 2
    return rng.poisson(np.where(bright, 9.0, 0.3), shape).astype(dtype)


def compression(name: str, dtype: np.dtype[Any], block: int = 0) -> dict[str, Any]:
    """Keywords of `create_dataset` for one of the filters in use."""
    if name == "bitshuffle":
        return dict(hdf5plugin.Bitshuffle(nelems=block, cname="lz4"))
    if name == "bitshuffle-zstd":
        return dict(hdf5plugin.Bitshuffle(nelems=block, cname="zstd"))
    if name == "bitshuffle-none":
        return dict(hdf5plugin.Bitshuffle(nelems=block, cname="none"))
    if name == "lz4":
        return dict(hdf5plugin.LZ4(nbytes=block * dtype.itemsize))
    if name == "gzip":
        return {"compression": "gzip", "shuffle": True, "fletcher32": True}
    assert name == "none"
    return {}


@dataclass(frozen=True)
class Writer:
    """How to write an acquisition.

    Parameters
    ----------
    per_file
        Frames per data file; 0: in the master itself.
    filters, block
        See `compression`; elements per compressed block.
    libver
        "earliest" (old object headers, no checksums) or "latest".
    chunk
        Frames per chunk; None: not chunked.
    ordered
        ntrigger; None: as many as there are frames.
    """

    per_file: int = 0
    filters: str = "bitshuffle"
    block: int = 0
    libver: str = "earliest"
    chunk: int | None = 1
    ordered: int | None = None
    image_numbers: bool = True
    energy_ev: float | None = 200e3

    def write(
        self,
        folder: Path,
        frames: NDArray[Any],
        name: str = "scan",
        mask: NDArray[Any] | None = None,
    ) -> Path:
        """Write frames (n, H, W), or (n, channels, H, W); return the master's path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}_master.h5"
        with h5py.File(path, "w", libver=self.libver) as file:
            data = file.create_group("entry/data")
            data.attrs["NX_class"] = np.bytes_(b"NXdata")
            self._header(file, frames, mask)
            if self.per_file == 0:
                self.dataset(data, frames, 0)
                return path
            for i, first in enumerate(range(0, len(frames), self.per_file)):
                other = f"{name}_data_{i + 1:06d}.h5"
                data[f"data_{i + 1:06d}"] = h5py.ExternalLink(other, "/entry/data/data")
                part = frames[first : first + self.per_file]
                with h5py.File(folder / other, "w", libver=self.libver) as inner:
                    self.dataset(inner.create_group("entry/data"), part, first)
        return path

    def dataset(self, group: h5py.Group, frames: NDArray[Any], first: int) -> h5py.Dataset:
        """Write one dataset of frames as ``data``."""
        extra: dict[str, Any] = {}
        if self.chunk is not None:
            extra = compression(self.filters, frames.dtype, self.block)
            ones = (1,) * (frames.ndim - 3)
            extra |= {
                "chunks": (min(self.chunk, len(frames)), *ones, *frames.shape[-2:]),
                "maxshape": (None, *frames.shape[1:]),
            }
            if frames.dtype.kind == "u":
                extra["fillvalue"] = np.iinfo(frames.dtype).max
        dataset = group.create_dataset("data", data=frames, **extra)
        if self.image_numbers:
            dataset.attrs["image_nr_low"] = np.uint64(first + 1)
            dataset.attrs["image_nr_high"] = np.uint64(first + len(frames))
        return dataset

    def _header(self, file: h5py.File, frames: NDArray[Any], mask: NDArray[Any] | None) -> None:
        detector = file.create_group("entry/instrument/detector")
        specific = detector.create_group("detectorSpecific")
        file["entry/definition"] = np.bytes_(b"NXmx")
        specific["ntrigger"] = np.uint64(len(frames) if self.ordered is None else self.ordered)
        specific["nimages"] = np.uint64(1)
        specific["y_pixels_in_detector"] = np.uint64(frames.shape[-2])
        specific["x_pixels_in_detector"] = np.uint64(frames.shape[-1])
        if self.energy_ev is not None:
            specific["photon_energy"] = self.energy_ev
        if mask is not None:
            settings = compression("bitshuffle", mask.dtype)
            specific.create_dataset("pixel_mask", data=mask, chunks=mask.shape, **settings)
        detector["bit_depth_image"] = np.uint16(frames.dtype.itemsize * 8)
        detector["sensor_material"] = "Si"  # a string of variable length, as h5py writes it
        detector["description"] = np.bytes_(b"Dectris ARINA")
        detector["saturation_value"] = np.int64(4000)
        for axis, size in (("x", 1e-4), ("y", 2e-4)):
            detector[f"{axis}_pixel_size"] = size
            detector[f"{axis}_pixel_size"].attrs["units"] = np.bytes_(b"m")


def write_sidecar(master: Path, *, arrays: bool = True, **values: Any) -> Path:
    """Write the microscope's notes beside a master, for example ``NumPixelsX=12``."""
    path = master.with_name(master.name.replace("_master", ""))
    with h5py.File(path, "w") as file:
        group = file.create_group("STEM Metadata")
        for key, value in values.items():
            spaced = {
                "PixelSize": "Pixel Size",
                "HighTension": "High Tension",
                "CameraLength": "Camera Length",
            }.get(key, key)
            group.attrs[spaced] = np.array([value]) if arrays else value
    return path


def write_virtual(
    folder: Path,
    frames: NDArray[Any],
    per_file: int,
    channels: Sequence[str] | None = None,
    name: str = "scan",
) -> Path:
    """Write the newer layout: one virtual dataset [images, channels, h, w] over data files."""
    path = Writer().write(folder, frames[:1], name)
    with h5py.File(path, "a") as file:
        del file["entry/data/data"]
        specific = file["entry/instrument/detector/detectorSpecific"]
        specific["ntrigger"][...] = len(frames)
        layout = h5py.VirtualLayout(frames.shape, frames.dtype)
        for i, first in enumerate(range(0, len(frames), per_file)):
            part = frames[first : first + per_file]
            other = f"{name}_data_{i + 1:06d}.h5"
            with h5py.File(folder / other, "w") as inner:
                Writer().dataset(inner.create_group("entry/data"), part, first)
            layout[first : first + len(part)] = h5py.VirtualSource(
                other, "/entry/data/data", shape=part.shape
            )
        file["entry/data"].create_virtual_dataset("data", layout, fillvalue=0)
        if channels is not None:
            file["entry/data/channel"] = [c.encode() for c in channels]
    return path
