"""Real mouse and key events on a napari canvas, and waiting for what they cause."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QMouseEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QWidget

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
NO_KEY = Qt.KeyboardModifier.NoModifier


def pump(seconds: float = 0.1) -> None:
    """Process Qt events for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.005)


def wait(condition: Callable[[], object], timeout: float = 20.0, what: str = "") -> None:
    """Process Qt events until a condition holds."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited {timeout:g} s in vain {what}"
        QApplication.processEvents()
        time.sleep(0.005)


def canvas(viewer: Any) -> QWidget:
    """Return the widget that napari draws on."""
    widget: QWidget = viewer.window._qt_viewer.canvas.native
    return widget


def at(viewer: Any, layer: Any, row: float, column: float) -> QPoint:
    """Return where on the canvas a camera pixel is drawn."""
    world = layer.data_to_world((0, 0, row, column))[-2:]
    camera, widget = viewer.scene.camera, canvas(viewer)
    middle = (widget.height() / 2, widget.width() / 2)
    y, x = (
        m + (w - c) * camera.zoom for m, w, c in zip(middle, world, camera.center[-2:], strict=True)
    )
    return QPoint(round(x), round(y))


def drag(widget: QWidget, start: QPoint, stop: QPoint, steps: int = 20) -> None:
    """Press at one point, move to another in steps, release."""
    QTest.mouseMove(widget, start)
    pump(0.05)
    QTest.mousePress(widget, LEFT, NO_KEY, start)
    pump(0.03)
    for k in range(1, steps + 1):
        there = QPointF(start + (stop - start) * k / steps)
        place = QPointF(widget.mapToGlobal(there.toPoint()))
        move = QMouseEvent(QEvent.Type.MouseMove, there, place, NONE, LEFT, NO_KEY)
        QApplication.sendEvent(widget, move)
        pump(0.02)
    QTest.mouseRelease(widget, LEFT, NO_KEY, stop)
    pump(0.05)
