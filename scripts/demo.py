"""Open the sample acquisition in napari with all panels; with ``--screenshot``, draw it and leave.

``make demo`` and ``make screenshots`` call this.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from os import environ
from pathlib import Path
from typing import Any

WAIT_S = 120.0


def main() -> int:
    options = _options()
    if options.screenshot is None:
        return _open(options.file)
    # The picture must not depend on the window and the settings of the last session.
    with tempfile.TemporaryDirectory() as folder:
        environ["NAPARI_CONFIG"] = str(Path(folder) / "settings.yaml")
        return _draw(options.file, options.screenshot, options.size)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=sample(), help="file to open")
    parser.add_argument("--screenshot", type=Path, help="write a picture of the window and leave")
    parser.add_argument(
        "--size", type=_size, default=(1280, 800), help="of the window, as 1280x800"
    )
    return parser.parse_args()


def _size(text: str) -> tuple[int, int]:
    width, height = text.split("x")
    return int(width), int(height)


def sample() -> Path:
    folder = Path(str(files("napari_4dstem"))) / "data"
    return min(folder.glob("*.ans4d"))


def _open(file: Path) -> int:
    import napari

    from napari_4dstem.plugin import explore

    explore(napari.Viewer(), file)
    napari.run()
    return 0


def _draw(file: Path, target: Path, size: tuple[int, int]) -> int:
    import napari

    from napari_4dstem.plugin import explore

    viewer = napari.Viewer()
    viewer.window.resize(*size)
    session = explore(viewer, file)
    done = wait(lambda: any(i.label == "exact" for i in session.images.values()))
    settle(1.5)
    viewer.screenshot(str(target), canvas_only=False, flash=False)
    viewer.close()
    settle(0.2)
    print(f"Wrote {target}")
    return 0 if done else _complain(session)


def wait(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        settle(0.1)
        if condition():
            return True
    return False


def settle(seconds: float) -> None:
    """Let the window live for a while."""
    from qtpy.QtWidgets import QApplication

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        QApplication.processEvents()
        time.sleep(0.01)


def _complain(session: Any) -> int:
    print(f"No exact image after {WAIT_S:.0f} s: {session.images}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
