"""The one 4D layer of a viewer that shows the active acquisition.

Two 4D layers of different scans would break napari's slider steps, so choosing another
acquisition swaps what this layer shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from napari_4dstem.plugin.canvas.pattern_layer import (
    RELEASED,
    axes_of,
    camera_axes,
    is_pattern_layer,
    layer_arguments,
    set_axes,
)
from napari_4dstem.plugin.canvas.pattern_stack import PatternStack

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image, Layer

    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.detectors import Pair


class ScanLayer:
    """Adds, swaps and watches the pattern layer of a viewer.

    Parameters
    ----------
    viewer
        Called for the napari viewer, which is held by nobody here.
    appeared, removed
        Called with the acquisition of a pattern layer that somebody else added or removed.
    """

    def __init__(
        self,
        viewer: Callable[[], ViewerModel | None],
        *,
        appeared: Callable[[Image], None],
        removed: Callable[[Acquisition], None],
    ) -> None:
        self._viewer, self._appeared, self._removed = viewer, appeared, removed
        self.layer: Image | None = None
        self._ours = False
        layers = self._layers()
        layers.events.inserted.connect(self._on_inserted)
        layers.events.removed.connect(self._on_removed)

    def _layers(self) -> Any:
        viewer = self._viewer()
        return () if viewer is None else viewer.layers

    @contextmanager
    def our_change(self) -> Iterator[None]:
        """Within this, adding and removing layers is our own doing."""
        before, self._ours = self._ours, True
        try:
            yield
        finally:
            self._ours = before

    @property
    def stack(self) -> PatternStack | None:
        """The lazy array that the layer shows."""
        return None if self.layer is None else self.layer.data

    def show(self, acquisition: Acquisition, origin: Pair | None) -> None:
        """Show an acquisition in the layer, which is added if there is none."""
        viewer = self._viewer()
        if viewer is None:
            return
        if self.layer is None or self.layer not in viewer.layers:
            with self.our_change():
                self.layer = viewer.add_image(
                    PatternStack(acquisition), **layer_arguments(acquisition)
                )
        elif self.layer.data.acquisition is not acquisition:
            arguments = layer_arguments(acquisition)
            self.layer.data = PatternStack(acquisition)
            self.layer.contrast_limits_range = arguments["contrast_limits"]
            for name in ("contrast_limits", "metadata", "name"):
                setattr(self.layer, name, arguments[name])
        self.place(acquisition, origin)

    def adopt(self, layer: Image) -> None:
        """Take over a layer that a reader made; an older one of ours leaves the viewer."""
        old, self.layer = self.layer, layer
        if old is not None and old is not layer and old in self._layers():
            with self.our_change():
                self._layers().remove(old)

    def place(self, acquisition: Acquisition, origin: Pair | None) -> None:
        """Set units, steps and origin of the layer from the calibration."""
        if self.layer is None:
            return
        viewer, before = self._viewer(), self.camera_axes()
        set_axes(self.layer, axes_of(acquisition, origin))
        if viewer is not None:
            _keep_view(viewer.scene.camera, before, self.camera_axes())

    def camera_axes(self) -> dict[str, tuple[Any, ...]]:
        """Return units, scale, translate and labels for a 2D layer over the camera."""
        if self.layer is None:
            return {}
        names = ("units", "scale", "translate", "axis_labels")
        return camera_axes({name: tuple(getattr(self.layer, name)) for name in names})

    def remove(self) -> None:
        """Take the layer out of the viewer."""
        layer, self.layer = self.layer, None
        if layer is not None and layer in self._layers():
            with self.our_change():
                self._layers().remove(layer)

    def shows(self, acquisition: Acquisition) -> bool:
        """Whether any layer of the viewer shows an acquisition."""
        layers = (layer for layer in self._layers() if is_pattern_layer(layer))
        return any(layer.data.acquisition is acquisition for layer in layers)

    def look(self) -> None:
        """Take notice of a pattern layer that was there before the session."""
        for layer in self._layers():
            if is_pattern_layer(layer):
                self._appeared(layer)
                return

    def refresh(self) -> None:
        """Draw the pattern of the cursor anew."""
        if self.layer is not None:
            self.layer.refresh()

    def mark_released(self, released: bool) -> None:
        """Write into the layer's name whether its data are gone, and draw it anew."""
        if self.layer is None:
            return
        name = self.layer.name.removesuffix(RELEASED)
        self.layer.name = name + RELEASED if released else name
        self.layer.refresh()

    def _on_inserted(self, event: Any) -> None:
        layer = event.value
        if not self._ours and layer is not self.layer and is_pattern_layer(layer):
            self._appeared(layer)

    def _on_removed(self, event: Any) -> None:
        layer: Layer = event.value
        if layer is self.layer:
            self.layer = None
        if self._ours or not is_pattern_layer(layer):
            return
        if not self.shows(layer.data.acquisition):
            self._removed(layer.data.acquisition)


def _keep_view(camera: Any, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Keep the same camera pixels in view although they have other world coordinates now."""
    if all(tuple(old[name]) == tuple(new[name]) for name in ("scale", "translate")):
        return
    center = list(camera.center)
    for axis, (a, b) in enumerate(zip(_axes(old), _axes(new), strict=True)):
        pixel = (center[axis - 2] - a[1]) / a[0]
        center[axis - 2] = pixel * b[0] + b[1]
    camera.center = tuple(center)
    camera.zoom *= old["scale"][1] / new["scale"][1]


def _axes(axes: dict[str, Any]) -> list[tuple[float, float]]:
    return list(zip(axes["scale"], axes["translate"], strict=True))
