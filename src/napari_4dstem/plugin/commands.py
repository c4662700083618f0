"""Menu commands, and the same from the console."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_4dstem.plugin import docks, notify
from napari_4dstem.plugin.sessions import Session, session_for

if TYPE_CHECKING:
    import napari.viewer


def explore(viewer: Any = None, path: str | Path | None = None, **options: Any) -> Session:
    """Explore 4D-STEM scans in a napari viewer.

    Parameters
    ----------
    viewer
        A napari viewer; None takes the current one, or opens one.
    path
        A ``NAME_master.h5``, ``.ans4d`` or ``.npy`` file to open at once.
    options
        As of `napari_4dstem.open`: scan_shape, frame_offset, flyback, partial, mask.

    Returns
    -------
    Session
        What is open and where the cursor is; everything the panels do can be done with it.

    Examples
    --------
    >>> session = explore(viewer, "scan_master.h5")  # doctest: +SKIP
    >>> session.move_cursor(8, 24)  # doctest: +SKIP
    """
    if viewer is None:
        import napari

        viewer = napari.current_viewer() or napari.Viewer()
    session = session_for(viewer)
    if docks.has_window(viewer):
        docks.show_panels(viewer)
    if path is not None:
        session.open(path, **options)
    return session


@notify.guarded
def start_explorer(viewer: napari.viewer.Viewer) -> None:
    """Show the explorer and the memory panel; take over a scan that is already a layer."""
    explore(viewer)


@notify.guarded
def open_scan(viewer: napari.viewer.Viewer) -> None:
    """Show the load panel."""
    docks.show_load(viewer)


@notify.guarded
def show_memory(viewer: napari.viewer.Viewer) -> None:
    """Show the memory panel."""
    docks.show_memory(viewer)


@notify.guarded
def release_all(viewer: napari.viewer.Viewer) -> None:
    """Give back the memory of all scans of this viewer."""
    session = session_for(viewer)
    held = [a for a in session.acquisitions if a.state != "released"]
    if not held:
        notify.tell("No 4D-STEM scan holds memory in this window.")
    session.release_all()
