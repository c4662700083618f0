"""Images of slow scans: a rough one first, and only rough ones while the detector moves."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import napari_4dstem as n4
from napari_4dstem.acquisition import Acquisition
from napari_4dstem.plugin.session import session_images
from napari_4dstem.plugin.session.detector_views import DetectorView
from napari_4dstem.plugin.session.image_worker import ImageWorker
from napari_4dstem.plugin.session.session_images import ImageBoard, ImageResult
from tests.plugin.scans import disk_scan, save


class Screen:
    """Collects what a board delivers; `hold` stops it after the first rough image."""

    def __init__(self) -> None:
        self.results: list[ImageResult] = []
        self.errors: list[Exception] = []
        self.hold = threading.Event()
        self.hold.set()

    def take(self, acquisition: Acquisition, result: ImageResult) -> None:
        self.results.append(result)
        if result.label == "coarse estimate":
            assert self.hold.wait(10)

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 20
        while len(self.results) < count and not self.errors and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not self.errors
        assert len(self.results) >= count


def test_rough_images_while_it_moves_and_an_exact_one_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_images, "ROUGH_FIRST_S", 0.0)  # every scan counts as slow
    scan = disk_scan()
    worker, screen = ImageWorker(), Screen()
    with n4.load(save(scan, tmp_path)) as acq:
        board = ImageBoard(worker, screen.take, screen.errors.append)

        def ask(radius: float) -> None:
            shape = n4.Circle((12, 14), radius)
            board.request(acq, [DetectorView("BF", "#ffffff", shape)])

        ask(3)
        screen.wait_for(1)
        screen.hold.clear()
        ask(4)
        screen.wait_for(2)
        ask(5)  # asked for while the rough image of radius 4 is shown: 4 is never made exactly
        screen.hold.set()
        screen.wait_for(4)
        worker.stop()
        assert [(r.label, r.shape.radius) for r in screen.results] == [
            ("exact", 3),
            ("coarse estimate", 4),
            ("coarse estimate", 5),
            ("exact", 5),
        ]
        inside = n4.Circle((12, 14), 5).mask(acq.detector_shape)
        truth = scan[:, :, inside].sum(axis=2, dtype=np.int64)
        assert np.array_equal(screen.results[-1].values, truth)
        assert screen.results[-1].generation == screen.results[-2].generation
