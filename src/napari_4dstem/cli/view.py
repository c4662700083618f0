"""The command ``view``: napari with the explorer; the only command that needs a screen."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from napari_4dstem.cli.options import (
    Channel,
    Dataset,
    Flyback,
    FrameOffset,
    MaskChoice,
    Partial,
    ScanShape,
    open_options,
    read_mask,
)
from napari_4dstem.cli.reporting import guarded
from napari_4dstem.errors import DeviceError, MissingDependencyError, SourceError

ScanFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="NAME_master.h5, .npy or .ans4d files.", show_default=False
    ),
]


@guarded
def view(
    files: ScanFiles,
    mask: MaskChoice = "file",
    scan_shape: ScanShape = None,
    frame_offset: FrameOffset = 0,
    flyback: Flyback = 0,
    partial: Partial = False,
    channel: Channel = None,
    dataset: Dataset = None,
) -> None:
    """Open scans in napari, with the explorer and the memory panel.

    Several files come into one window; the last one is shown first.
    """
    options = open_options(scan_shape, frame_offset, flyback, partial, channel, dataset)
    for file in files:
        if not file.exists():
            raise SourceError("There is no such file", where=file, action="Check the path")
    chosen = read_mask(mask)
    napari = _napari()
    import napari_4dstem

    viewer = napari.Viewer()
    try:
        for file in files:
            napari_4dstem.plugin.explore(viewer, file, mask=chosen, **vars(options))
    except BaseException:
        viewer.close()
        raise
    napari.run()


def _napari() -> ModuleType:
    """Import napari, and make sure that it can open a window: Qt would end the process."""
    try:
        napari = importlib.import_module("napari")
        importlib.import_module("qtpy.QtWidgets")
    except ImportError as error:
        raise MissingDependencyError(
            "The viewer needs napari and a Qt binding",
            found=str(error).split("\n")[0],
            action='Install them: pip install "napari[pyqt6]"',
        ) from error
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens):
        raise DeviceError(
            "There is no screen to open a window on",
            expected="one of the environment variables DISPLAY and WAYLAND_DISPLAY",
            action="Start it from a desktop, or use the other commands, which need no screen",
        )
    return napari
