"""What happens one event-loop turn after napari has read a file of ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_4dstem.plugin import docks, notify
from napari_4dstem.plugin.canvas.pattern_layer import is_pattern_layer
from napari_4dstem.plugin.sessions import session_for

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition


@notify.guarded
def explore_layer(acquisition: Acquisition) -> bool:
    """Take the layer of an acquisition into the session of its viewer, and show the panels.

    Returns
    -------
    bool
        Whether any viewer has such a layer.
    """
    for viewer in _viewers():
        for layer in viewer.layers:
            if is_pattern_layer(layer) and layer.data.acquisition is acquisition:
                session_for(viewer).adopt(layer)
                if docks.has_window(viewer) and open_docks_wanted():
                    docks.show_panels(viewer)
                return True
    return False


@notify.guarded
def explain(path: Path, error: Exception) -> None:
    """Show in the load panel why a file cannot be shown yet and what can be done."""
    import napari

    viewer = napari.current_viewer()
    if viewer is None:
        notify.report(error)
        return
    docks.show_load(viewer, str(path))


def open_docks_wanted() -> bool:
    """Whether the preference says that opening a file shows the panels."""
    try:
        from napari.settings import get_plugin_settings

        settings: Any = get_plugin_settings(docks.PLUGIN)
        return bool(settings.opening.open_docks)
    except (ImportError, AttributeError, KeyError, ValueError):
        return True


def _viewers() -> list[Any]:
    """Return all viewers that may have been given a layer, the current one first."""
    import napari

    from napari_4dstem.plugin.sessions import open_sessions

    found = [napari.current_viewer(), *(session.viewer for session in open_sessions())]
    unique: list[Any] = []
    for viewer in found:
        if viewer is not None and all(viewer is not other for other in unique):
            unique.append(viewer)
    return unique
