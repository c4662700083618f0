"""``.ans4d`` files: an encoded scan on disk.

An HDF5 file that any HDF5 program reads and that we open without HDF5, by a checksummed table in
its user block. It is written completely or not at all.
"""

from napari_4dstem.container.header import (
    ContainerHeader,
    Orientation,
    PlaneOrientation,
    SourceIdentity,
)
from napari_4dstem.container.reading import OpenedContainer, open_container
from napari_4dstem.container.verifying import DamagedChunk, VerifyReport, decoded_blocks, verify
from napari_4dstem.container.writing import write

__all__ = [
    "ContainerHeader",
    "DamagedChunk",
    "OpenedContainer",
    "Orientation",
    "PlaneOrientation",
    "SourceIdentity",
    "VerifyReport",
    "decoded_blocks",
    "open_container",
    "verify",
    "write",
]
