"""Draw the pictures of the documentation from a real window: ``make screenshots`` calls this.

Each picture is a state that a user reaches by the same calls and clicks.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from os import environ
from pathlib import Path
from typing import Any

import demo
import numpy as np

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZE = (1280, 800)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        environ["NAPARI_CONFIG"] = str(Path(folder) / "settings.yaml")
        for name, stage in _STAGES.items():
            _draw(name, stage, Path(folder))
    return 0


def _draw(name: str, stage: Callable[[Any, Path], None], folder: Path) -> None:
    import napari

    viewer = napari.Viewer()
    viewer.window.resize(*SIZE)
    stage(viewer, folder)
    demo.settle(1.5)
    target = PICTURES / f"{name}.png"
    viewer.screenshot(str(target), canvas_only=False, flash=False)
    viewer.close()
    demo.settle(0.3)
    print(f"Wrote {target.relative_to(PICTURES.parents[1])}")


def _explored(viewer: Any) -> Any:
    """Open the sample with its images, at the tungsten column."""
    from napari_4dstem.plugin import explore

    session = explore(viewer, demo.sample())
    demo.wait(lambda: {i.label for i in session.images.values()} == {"exact"})
    session.move_cursor(8, 24)
    return session


def _detectors(viewer: Any, folder: Path) -> None:
    """Show three detectors over the mean pattern, its brightness logarithmic."""
    session = _explored(viewer)
    session.add_preset("ABF")
    session.pattern_mode, session.pattern_scale = "mean", "log"
    demo.wait(lambda: len(session.images) == 3)


def _question(viewer: Any, folder: Path) -> None:
    """Choose a file without a scan shape: the load panel asks."""
    from napari_4dstem.opening import open as open_scan
    from napari_4dstem.plugin import docks

    with open_scan(demo.sample()) as acquisition:
        frames = acquisition[:, :, ::2, ::2].reshape(-1, 48, 48)[:900]
    path = folder / "frames.npy"
    np.save(path, frames[:870])
    docks.show_load(viewer, str(path))


def _unloaded(viewer: Any, folder: Path) -> None:
    """Unload the scan: nothing is held, and the window says how to get it back."""
    session = _explored(viewer)
    session.release()
    demo.wait(lambda: session.acquisition.state == "released")


_STAGES = {"detectors": _detectors, "load": _question, "unloaded": _unloaded}

if __name__ == "__main__":
    sys.exit(main())
