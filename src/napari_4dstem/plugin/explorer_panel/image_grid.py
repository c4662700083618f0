"""The virtual-detector images of the explorer, side by side."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from qtpy.QtCore import QRectF
from qtpy.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from napari_4dstem.plugin.notify import guarded
from napari_4dstem.plugin.real_space_view.real_space import RealSpaceView
from napari_4dstem.plugin.session.detector_views import DetectorView, mean_step, range_text

if TYPE_CHECKING:
    from napari_4dstem.plugin.session.session_images import ImageResult
    from napari_4dstem.plugin.sessions import Session


_NARROWEST = 430


class ImageGrid(QWidget):
    """One view for each detector that is shown; crosshair and zoom move together.

    Parameters
    ----------
    session
        Observed; its cursor follows the crosshair.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = weakref.ref(session)
        self.views: dict[str, RealSpaceView] = {}
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(4)
        self._empty = QLabel("Images appear here as soon as the bright-field disk is found")
        self._empty.setWordWrap(True)
        self._layout.addWidget(self._empty, 0, 0)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        # many images are drawn smaller; they must not widen the window
        self.setMinimumWidth(_NARROWEST)
        events = session.events
        events.detectors.connect(self.refresh)
        events.acquisition.connect(self._start)
        events.images.connect(self.show_image)
        events.cursor.connect(self._show_cursor)
        self.refresh()
        for name in session.images:
            self.show_image(name)

    @guarded
    def _start(self) -> None:
        for name in list(self.views):
            self._drop(name)
        self.refresh()
        session = self._session()
        for name in session.images if session is not None else ():
            self.show_image(name)

    @guarded
    def refresh(self) -> None:
        """Have one view for each shown detector, with its title."""
        session = self._session()
        if session is None:
            return
        shown = {d.name: d for d in session.detectors if d.visible}
        changed = list(shown) != list(self.views)
        for name in [n for n in self.views if n not in shown]:
            self._drop(name)
        for name in [n for n in shown if n not in self.views]:
            self.views[name] = self._new_view(session)
        if changed:
            self.views = {name: self.views[name] for name in shown}
            self._arrange()
        for detector in shown.values():
            self._title(session, detector)
        if changed:
            self.show_images()

    def show_images(self) -> None:
        """Show all images that the session has."""
        session = self._session()
        for name in session.images if session is not None else ():
            self.show_image(name)

    def _new_view(self, session: Session) -> RealSpaceView:
        view = RealSpaceView()
        view.set_cursor(*session.cursor)
        view.cursor_moved.connect(self._cursor_moved)
        view.view_changed.connect(self._view_changed)
        return view

    def _drop(self, name: str) -> None:
        view = self.views.pop(name)
        self._layout.removeWidget(view)
        view.setParent(None)
        view.deleteLater()

    def _arrange(self) -> None:
        for view in self.views.values():
            self._layout.removeWidget(view)
        count = len(self.views)
        columns = count if count <= 3 else (count + 1) // 2
        for index, view in enumerate(self.views.values()):
            self._layout.addWidget(view, index // columns, index % columns)
        self._empty.setVisible(count == 0)

    def _title(self, session: Session, detector: DetectorView) -> None:
        if session.acquisition is None:
            return
        unit, step = session.acquisition.calibration.camera_units()
        text = range_text(detector.shape, unit, mean_step(step))
        self.views[detector.name].set_title(detector.name, text, detector.colour)

    @guarded
    def show_image(self, name: str) -> None:
        """Show the session's newest image of a detector."""
        session = self._session()
        view = self.views.get(name)
        image: ImageResult | None = None if session is None else session.images.get(name)
        if session is None or session.acquisition is None or view is None or image is None:
            return
        unit, step = session.acquisition.calibration.scan_units()
        view.set_image(
            image.values,
            valid=None if image.valid.all() else image.valid,
            overloaded=image.overloads,
            step=None if unit == "px" else step,
            unit=unit,
        )
        view.set_badge(image.label)

    @guarded
    def _show_cursor(self, row: int, column: int) -> None:
        for view in self.views.values():
            view.set_cursor(row, column)

    @guarded
    def _cursor_moved(self, row: int, column: int) -> None:
        session = self._session()
        if session is not None:
            session.move_cursor(row, column)

    @guarded
    def _view_changed(self, part: QRectF) -> None:
        for view in self.views.values():
            if view is not self.sender():
                view.canvas.show_rect(part)
