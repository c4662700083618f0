"""Open a file as an acquisition's backing: a detector file, or an encoded one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.calibration import Calibration
from napari_4dstem.container import ContainerHeader, open_container
from napari_4dstem.ledger import HostAllocator
from napari_4dstem.loading.backing import Backing
from napari_4dstem.loading.encoded_backing import backing_maker, resolve_device
from napari_4dstem.loading.lifecycle import Lifecycle, source_backing
from napari_4dstem.sources import OpenOptions, SourceInfo, open_source

ENCODED_SUFFIX = ".ans4d"


@dataclass(frozen=True, eq=False)
class Opened:
    """An opened file.

    Attributes
    ----------
    life
        Its state.
    info
        What the source's headers say; None for an encoded file.
    header
        What an encoded file says; None for a source.
    device
        What decodes it: ``cpu``, ``cuda:N`` or ``mps``.
    """

    life: Lifecycle
    info: SourceInfo | None
    header: ContainerHeader | None
    device: str = "cpu"

    @property
    def calibration(self) -> Calibration:
        """What is known of the axes."""
        if self.info is not None:
            return self.info.calibration
        assert self.header is not None
        return Calibration.from_json(self.header.calibration or "{}")

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """The file's own mask."""
        about: Any = self.info or self.header
        mask: NDArray[np.bool_] | None = about.mask
        return mask

    @property
    def problems(self) -> tuple[str, ...]:
        """What is odd about the file."""
        about: Any = self.info or self.header
        return tuple(about.problems)


def is_encoded(path: Path) -> bool:
    """Whether a path names an encoded file."""
    return path.suffix.lower() == ENCODED_SUFFIX


def scan_name(path: Path) -> str:
    """Return the name of a scan for people: the file's, without suffix and ``_master``."""
    return path.stem.removesuffix("_master")


def open_file(path: Path, options: OpenOptions, device: str = "auto") -> Opened:
    """Open a detector file or an encoded file; nothing but headers is read.

    (An encoded file is read whole if a GPU is to decode it.)

    Raises
    ------
    SourceError, NotReadyError, ContainerError
        With the file, what was expected and found, and what to do.
    MissingDependencyError, DeviceError
        If the device cannot be used.
    """
    device = resolve_device(device)
    make_encoded = backing_maker(device)
    if is_encoded(path):
        headers: list[ContainerHeader] = []

        def open_encoded(allocator: HostAllocator) -> Backing:
            opened = open_container(path, allocator=allocator)
            headers.append(opened.header)
            return make_encoded(opened.scan, "disk" if opened.mapped else "RAM", allocator.owner)

        life = Lifecycle(scan_name(path), open_encoded, None)
        return Opened(life, None, headers[0], device)
    infos: list[SourceInfo] = []

    def open_detector_file(allocator: HostAllocator) -> Backing:
        source = open_source(path, options)
        infos.append(source.info)
        return source_backing(source, source.info.nodata)

    life = Lifecycle(scan_name(path), open_detector_file, None, make_encoded)
    life.nodata = infos[0].nodata
    return Opened(life, infos[0], None, device)
