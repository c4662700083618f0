"""Which pattern the canvas shows, and how counts become brightness.

Nothing here touches the counts. The mean and maximum patterns are a 2D layer of their own above
the scan's; square root and logarithm are done by the colour lookup (gamma, and a colour map whose
steps are logarithmic), so that napari's status bar and every script still read true counts.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.errors import FourDStemError
from napari_4dstem.plugin import notify
from napari_4dstem.plugin.canvas.pattern_layer import mean_limits, pattern_limits, set_axes

if TYPE_CHECKING:
    from napari.layers import Image
    from napari.utils.colormaps import Colormap

    from napari_4dstem.plugin.sessions import Session

# A logarithm needs fine steps near 0: the lookup has 1024 entries over counts ** gamma.
GAMMAS = {"linear": 1.0, "sqrt": 0.5, "log": 0.25}
_LOG_SUFFIX = " (log)"
_LOG_STEPS = 256


def log_colormap(base: Colormap, span: float, gamma: float) -> Colormap:
    """Return a colour map that shows ``log(1 + counts)`` when looked up at ``counts ** gamma``.

    Parameters
    ----------
    base
        The colours, from low to high.
    span
        High minus low contrast limit, in counts.
    gamma
        Exponent that the viewer applies before the lookup.
    """
    from napari.utils.colormaps import Colormap

    looked_up = np.linspace(0.0, 1.0, _LOG_STEPS)
    counts = span * looked_up ** (1.0 / gamma)
    brightness = np.log1p(counts) / np.log1p(span)
    colours = base.map(np.clip(brightness, 0.0, 1.0))
    return Colormap(colours, controls=looked_up, name=base.name + _LOG_SUFFIX)


class BrightnessCurve:
    """Shows one image layer linearly, by square root, or by logarithm.

    Parameters
    ----------
    layer
        The napari image layer.
    """

    def __init__(self, layer: Image) -> None:
        self.layer = layer
        self._base = layer.colormap
        self._scale = "linear"
        self._busy = False
        layer.events.contrast_limits.connect(self._renew)
        layer.events.colormap.connect(self._renew)

    def set_scale(self, scale: str) -> None:
        """Choose ``linear``, ``sqrt`` or ``log``."""
        if scale == self._scale:
            return
        self._scale = scale
        self._busy = True
        try:
            self.layer.gamma = GAMMAS[scale]
            if scale != "log":
                self.layer.colormap = self._base
        finally:
            self._busy = False
        self._renew()

    @notify.guarded
    def _renew(self) -> None:
        """Take over a colour map that the user chose; fit the logarithm to the limits."""
        if self._busy:
            return
        if not self.layer.colormap.name.endswith(_LOG_SUFFIX):
            self._base = self.layer.colormap
        if self._scale != "log":
            return
        low, high = self.layer.contrast_limits
        unit = 1.0 if self.layer.dtype.kind in "iu" else (high - low) / 1000.0
        self._busy = True
        try:
            self.layer.colormap = log_colormap(self._base, (high - low) / unit, self.layer.gamma)
        finally:
            self._busy = False


class PatternDisplay:
    """Follows pattern mode and scale of a session.

    Parameters
    ----------
    session
        Whose viewer shows the patterns.
    """

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)
        self._summary: Image | None = None
        self._curves: dict[int, BrightnessCurve] = {}
        self._automatic: tuple[float, float] | None = None
        self._changing = False
        events = session.events
        events.pattern_mode.connect(self.update)
        events.pattern_scale.connect(self._set_scales)
        events.acquisition.connect(self._start)
        events.progress.connect(self.update)
        events.state.connect(self.update)
        events.disk.connect(self._refine_limits)
        if session.viewer is not None:
            session.viewer.layers.events.removed.connect(self._on_removed)

    # -- mean and maximum ------------------------------------------------------------------

    def clear(self) -> None:
        """Take the mean or maximum pattern away, because its axes are about to change."""
        session, layer = self._session(), self._summary
        self._summary = None
        self._curves.pop(id(layer), None)
        if session is None or session.viewer is None:
            return
        if layer is not None and layer in session.viewer.layers:
            self._changing = True
            try:
                session.viewer.layers.remove(layer)
            finally:
                self._changing = False
        if session.scan_layer.layer is not None:
            session.scan_layer.layer.visible = True

    def _start(self, _acquisition: Any) -> None:
        session = self._session()
        if session is None or session.scan_layer.layer is None:
            return
        self._automatic = tuple(session.scan_layer.layer.contrast_limits)
        self._curve(session.scan_layer.layer).set_scale(session.pattern_scale)
        self.update()

    @notify.guarded
    def update(self) -> None:
        """Show what the mode asks for, from what is known by now."""
        session = self._session()
        layer = None if session is None else session.scan_layer.layer
        if session is None or layer is None or session.acquisition is None:
            return
        if session.pattern_mode == "cursor":
            if self._summary is not None:
                self.clear()
                self._curve(layer).set_scale(session.pattern_scale)
            return
        pattern = self._summary_pattern(session.pattern_mode)
        if pattern is not None:
            self._show_summary(f"{session.acquisition.name}: {session.pattern_mode}", pattern)

    def shown_pattern(self) -> NDArray[Any] | None:
        """Return the pattern on the canvas in true counts, if it is at hand; reads nothing."""
        session = self._session()
        if session is None:
            return None
        if self._summary is not None:
            summary: NDArray[Any] = self._summary.data
            return summary
        stack = session.scan_layer.stack
        return None if stack is None else stack.last_pattern(*session.cursor)

    def _summary_pattern(self, mode: str) -> NDArray[Any] | None:
        session = self._session()
        acquisition = None if session is None else session.acquisition
        if acquisition is None or acquisition.state == "released":
            return None
        found = acquisition.mean_pattern() if mode == "mean" else acquisition.max_pattern()
        if found is None:
            return None
        # what no position recorded (a pixel that is always overloaded) is shown as nothing
        pattern: NDArray[Any] = np.nan_to_num(np.asarray(found), nan=0.0)
        dtype: np.dtype[Any] = acquisition.dtype
        shown: NDArray[Any] = pattern.astype(np.float32 if pattern.dtype.kind == "f" else dtype)
        return shown

    def _show_summary(self, name: str, pattern: NDArray[Any]) -> None:
        session = self._session()
        if session is None or session.viewer is None or session.acquisition is None:
            return
        layer = session.scan_layer.layer
        if layer is None:
            return
        if self._summary is not None and self._summary.name == name:
            self._summary.data = pattern
            set_axes(self._summary, session.scan_layer.camera_axes())
            return
        scales = self._curve(layer)
        limits = pattern_limits(pattern, session.acquisition.mask, None)
        self.clear()
        active = session.viewer.layers.selection.active
        index = session.viewer.layers.index(layer) + 1
        self._summary = session.viewer.add_image(
            pattern,
            name=name,
            contrast_limits=limits,
            colormap=scales._base,
            rgb=False,
            **session.scan_layer.camera_axes(),
        )
        session.viewer.layers.move(len(session.viewer.layers) - 1, index)
        session.viewer.layers.selection.active = active or layer
        layer.visible = False
        self._curve(self._summary).set_scale(session.pattern_scale)

    def _on_removed(self, event: Any) -> None:
        session = self._session()
        if session is not None and event.value is self._summary and not self._changing:
            self._summary = None
            session.gui.post(lambda: setattr(session, "pattern_mode", "cursor"))
            session.gui.post(self.clear)

    # -- brightness ------------------------------------------------------------------------

    def _curve(self, layer: Image) -> BrightnessCurve:
        curve = self._curves.get(id(layer))
        if curve is None or curve.layer is not layer:
            curve = self._curves[id(layer)] = BrightnessCurve(layer)
        return curve

    def _set_scales(self, scale: str) -> None:
        session = self._session()
        if session is None:
            return
        for layer in (session.scan_layer.layer, self._summary):
            if layer is not None:
                self._curve(layer).set_scale(scale)

    @notify.guarded
    def _refine_limits(self) -> None:
        """Set the limits from the mean pattern, unless the user has set them."""
        session = self._session()
        layer = None if session is None else session.scan_layer.layer
        if session is None or layer is None or session.acquisition is None:
            return
        untouched = self._automatic is not None and tuple(layer.contrast_limits) == self._automatic
        try:
            mean = session.acquisition.mean_pattern()
        except FourDStemError:
            return
        if mean is None or not untouched:
            return
        low, high = mean_limits(mean, session.acquisition)
        layer.contrast_limits_range = (low, max(high, layer.contrast_limits_range[1]))
        layer.contrast_limits = (low, high)
        self._automatic = tuple(layer.contrast_limits)
