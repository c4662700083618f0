"""An in-memory stand-in for Acquisition: same interface, dense NumPy, a slow pretended encode."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
from psygnal import Signal, SignalGroup

from napari_4dstem.calibration import Calibration, Quantity
from napari_4dstem.errors import CancelledError, ReleasedError


class Events(SignalGroup):
    state = Signal(str)
    progress = Signal(object)
    mask = Signal(int)
    changed = Signal()


@dataclass(frozen=True)
class Progress:
    done: int
    total: int
    stage: str
    running: bool


@dataclass(frozen=True)
class Preview:
    values: np.ndarray
    exact: np.ndarray
    known: np.ndarray


def calibrated() -> Calibration:
    def q(v, u, o="file (calibrated)"):
        return Quantity(v, u, o)

    return Calibration(
        beam_energy=q(300.0, "keV"),
        scan_step=(q(0.0244, "nm"), q(0.0244, "nm")),
        camera_step=(q(1.264, "mrad", "measured"), q(1.264, "mrad", "measured")),
        convergence_angle=q(22.1, "mrad", "typed"),
    )


class DenseAcquisition:
    def __init__(self, data, name="dense", calibration=None, mask=None, delay=0.0):
        self._data = data
        self.name, self.path, self.info = name, None, None
        self.shape, self.dtype = data.shape, data.dtype
        self.scan_shape, self.detector_shape = data.shape[:2], data.shape[2:]
        self.calibration = calibration or Calibration()
        self.state, self.place, self.device = "source", "source", "cpu"
        self.mask, self.mask_version, self.problems = mask, 0, ()
        self.valid = np.ones(self.scan_shape, bool)
        total = int(np.prod(self.scan_shape))
        self.progress = Progress(0, total, "waiting", False)
        self.events = Events()
        self.asked = []
        self._delay, self._stop, self._thread = delay, threading.Event(), None
        self.can_reload, self.reload_cost = True, "from memory, at once"

    @property
    def logical_bytes(self):
        return int(np.prod(self.shape)) * self.dtype.itemsize

    @property
    def resident_bytes(self):
        return self._data.nbytes if self.state == "encoded" else 0

    encoded_bytes = resident_bytes

    def _counts(self):
        if self.state == "released":
            raise ReleasedError("released")
        data = self._data
        return data if self.mask is None else np.where(self.mask, 0, data)

    def pattern_at(self, row, column):
        self.asked.append((row, column))
        if self.state == "released":
            raise ReleasedError("released")
        return self._data[row, column]

    def __getitem__(self, key):
        return self._data[key]

    def image(self, detector, *, progress=None, cancelled=None):
        if cancelled is not None and cancelled():
            raise CancelledError("cancelled")
        return self._counts()[:, :, detector.mask(self.detector_shape)].sum(-1, dtype=np.int64)

    def preview(self, detectors):
        rows = self.progress.done // self.scan_shape[1]
        exact = np.zeros(self.scan_shape, bool)
        exact[:rows] = True
        step = 4
        out = []
        for detector in detectors:
            full = self.image(detector)
            coarse = np.kron(full[::step, ::step], np.ones((step, step), int))
            coarse = coarse[: full.shape[0], : full.shape[1]]
            out.append(Preview(np.where(exact, full, coarse), exact, np.ones_like(exact)))
        return out

    def overloads(self, detector):
        return np.zeros(self.scan_shape, np.int64)

    def mean_pattern(self):
        if self.progress.done == 0 or self.state == "released":
            return None
        return self._counts().mean((0, 1))

    def max_pattern(self):
        return None if self.mean_pattern() is None else self._counts().max((0, 1))

    def find_disk(self):
        from napari_4dstem.disk import find_disk

        return find_disk(self.mean_pattern(), self.mask)

    def _set_state(self, state, place):
        self.state, self.place = state, place
        self.events.state.emit(state)

    def _set_progress(self, done, stage, running):
        self.progress = Progress(done, self.progress.total, stage, running)
        self.events.progress.emit(self.progress)

    def encode(self, *, wait=False):
        self._stop.clear()
        self._thread = threading.Thread(target=self._encode, name="n4-dense", daemon=True)
        self._thread.start()
        if wait:
            self._thread.join()

    def _encode(self):
        self._set_state("partial", "source")
        for done in range(0, self.progress.total + 1, self.scan_shape[1]):
            if self._stop.wait(self._delay):
                self._set_progress(done, "cancelled", False)
                self._set_state("source", "source")
                return
            self._set_progress(done, "encoding", True)
        self._set_progress(self.progress.total, "done", False)
        self._set_state("encoded", "RAM")

    def cancel(self):
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2)

    def release(self):
        self.cancel()
        self._set_state("released", "none")

    def reload(self):
        self._set_state("encoded", "RAM")

    def close(self):
        self.cancel()
        self.state = "released"


def disk_scan(shape=(10, 12, 48, 56), seed=0, dtype=np.uint16):
    """A bright disk with a lattice of darker spots in real space and a dark-field halo."""
    rng = np.random.default_rng(seed)
    rows, columns, height, width = shape
    y, x = np.mgrid[:height, :width]
    r = np.hypot(y - 0.53 * height, x - 0.45 * width)
    radius = 0.18 * min(height, width)
    disk, halo = (r <= radius) * 6.0, (r > radius) * 0.15 * np.exp(-r / (3 * radius))
    i, j = np.mgrid[:rows, :columns]
    atoms = np.exp(-((i % 8 - 4) ** 2 + (j % 8 - 3) ** 2) / 4.0)
    rate = (1 - 0.5 * atoms)[..., None, None] * disk + (1 + 4 * atoms)[..., None, None] * halo
    return rng.poisson(rate).astype(dtype)


def wait(condition, timeout=5.0):
    """Process Qt events until a condition holds."""
    from qtpy.QtWidgets import QApplication

    end = time.monotonic() + timeout
    while not condition():
        QApplication.processEvents()
        if time.monotonic() > end:
            raise AssertionError("the condition did not come true in time")
        time.sleep(0.005)
