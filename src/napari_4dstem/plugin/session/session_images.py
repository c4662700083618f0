"""Virtual-detector images computed off the GUI thread, newest request first.

What is asked for is noted in one table of (detector, newest shape); the job on the worker takes
what the table holds when it *begins*, so an image that nobody waits for any more is never begun.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.detectors import Shape
from napari_4dstem.errors import CancelledError
from napari_4dstem.plugin.session.detector_views import DetectorView
from napari_4dstem.plugin.session.image_worker import Cancelled, ImageWorker

if TYPE_CHECKING:
    from napari_4dstem.acquisition import Acquisition
    from napari_4dstem.loading.preview import Preview

_KEY = "images"
# When an exact image takes longer than a person notices, a rough one is shown first.
ROUGH_FIRST_S = 0.05


@dataclass(frozen=True)
class ImageResult:
    """One virtual-detector image.

    Parameters
    ----------
    name
        Of the detector.
    shape
        The detector it was computed with.
    values
        int64 or float64, scan shape.
    valid
        bool, scan shape: where `values` mean something.
    label
        ``"exact"``; ``"coarse 124 of 1024"``: positions that are exact, and all; or
        ``"coarse estimate"``: from the sums of whole tiles.
    generation
        Grows with every request; a result never replaces one of a later request.
    overloads
        int64, scan shape: overloaded pixels of the detector, if they were counted.
    """

    name: str
    shape: Shape
    values: NDArray[Any]
    valid: NDArray[np.bool_]
    label: str
    generation: int
    overloads: NDArray[np.int64] | None = None

    @property
    def exact(self) -> bool:
        """Whether every recorded position has its exact value."""
        return self.label == "exact"


@dataclass(frozen=True)
class _Wish:
    acquisition: Acquisition
    shape: Shape
    generation: int


class ImageBoard:
    """Computes the images that are asked for and hands them over.

    Parameters
    ----------
    worker
        Where they are computed.
    deliver
        Called on the worker's thread with the acquisition and each result.
    failed
        Called on the worker's thread with an error.
    """

    def __init__(
        self,
        worker: ImageWorker,
        deliver: Callable[[Acquisition, ImageResult], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._worker, self._deliver, self._failed = worker, deliver, failed
        self._lock = threading.Lock()
        self._wishes: dict[str, _Wish] = {}
        self._generations = itertools.count(1)
        self._previews: dict[str, tuple[Any, Preview | None]] = {}
        self._exact_took = 0.0

    def request(self, acquisition: Acquisition, detectors: Iterable[DetectorView]) -> None:
        """Ask for the images of detectors; newer requests replace older ones of the same name."""
        with self._lock:
            for detector in detectors:
                self._wishes[detector.name] = _Wish(
                    acquisition, detector.shape, next(self._generations)
                )
            if not self._wishes:
                return
        self._worker.submit(_KEY, self._run, failed=self._failed)

    def forget(self) -> None:
        """Drop all requests that have not begun."""
        with self._lock:
            self._wishes.clear()
            self._previews = {}
        self._exact_took = 0.0

    def _run(self, cancelled: Cancelled) -> None:
        with self._lock:
            wishes, self._wishes = self._wishes, {}
        done: set[str] = set()
        try:
            exact = {n: w for n, w in wishes.items() if w.acquisition.state == "encoded"}
            if exact:
                self._previews = {}
            for name, wish in exact.items():
                self._exact(name, wish, cancelled)
                done.add(name)
            coarse = {n: w for n, w in wishes.items() if n not in exact}
            self._preview(coarse, cancelled)
            done.update(coarse)
        except CancelledError:
            self._put_back({n: w for n, w in wishes.items() if n not in done})
            raise
        self._count_overloads(exact, cancelled)

    def _exact(self, name: str, wish: _Wish, cancelled: Cancelled) -> None:
        """Make an exact image; if the last one took long, a rough one is shown before.

        While the detector goes on moving, rough ones do: the exact one is made when it rests.
        """
        _wait_until_ready(wish.acquisition, cancelled)
        slow = self._exact_took > ROUGH_FIRST_S and self._rough(name, wish)

        def give_up() -> bool:
            return cancelled() or (slow and self._has_newer(name))

        begun = time.monotonic()
        try:
            image = _exact_image(name, wish, give_up)
        except CancelledError:
            if cancelled():
                raise
            return
        self._exact_took = time.monotonic() - begun
        self._deliver(wish.acquisition, image)

    def _rough(self, name: str, wish: _Wish) -> bool:
        """Deliver a rough image, if there are tile sums to make one from."""
        values = wish.acquisition.estimate(wish.shape)
        if values is None:
            return False
        valid = np.asarray(wish.acquisition.valid)
        rough = ImageResult(name, wish.shape, values, valid, "coarse estimate", wish.generation)
        self._deliver(wish.acquisition, rough)
        return True

    def _has_newer(self, name: str) -> bool:
        with self._lock:
            return name in self._wishes

    def _put_back(self, wishes: dict[str, _Wish]) -> None:
        """Ask again for what a newer request of another detector interrupted."""
        with self._lock:
            for name, wish in wishes.items():
                self._wishes.setdefault(name, wish)

    def _preview(self, wishes: dict[str, _Wish], cancelled: Cancelled) -> None:
        """Make images of what is known; earlier ones of the same detector are only added to."""
        if not wishes:
            return
        acquisition = next(iter(wishes.values())).acquisition
        if acquisition.state == "released":
            return

        def key(wish: _Wish) -> tuple[Any, ...]:
            return id(acquisition), acquisition.mask_version, wish.shape

        kept = {name: self._previews.get(name, (None, None)) for name in wishes}
        previews = acquisition.preview(
            [wish.shape for wish in wishes.values()],
            previous=[kept[n][1] if kept[n][0] == key(w) else None for n, w in wishes.items()],
            cancelled=cancelled,
        )
        for (name, wish), preview in zip(wishes.items(), previews, strict=True):
            self._previews[name] = (key(wish), preview)
            label = f"coarse {preview.n_exact} of {preview.exact.size}"
            result = ImageResult(
                name, wish.shape, preview.values, preview.known, label, wish.generation
            )
            self._deliver(acquisition, result)

    def _count_overloads(self, wishes: dict[str, _Wish], cancelled: Cancelled) -> None:
        """Add the numbers of overloaded pixels, when nobody waits for another image."""
        for name, wish in wishes.items():
            with self._lock:
                if self._wishes:
                    return
            info = wish.acquisition.info
            if cancelled() or info is None or info.nodata is None:
                return
            overloads = wish.acquisition.overloads(wish.shape)
            if overloads.any():
                image = _exact_image(name, wish, cancelled, overloads)
                self._deliver(wish.acquisition, image)


def _wait_until_ready(acquisition: Acquisition, cancelled: Cancelled) -> None:
    """Let the decoder be compiled in a thread that a closing program does not wait for."""
    thread = acquisition.prepare()
    while thread is not None and thread.is_alive():
        if cancelled():
            raise CancelledError("The image was cancelled")
        thread.join(0.05)


def _exact_image(
    name: str, wish: _Wish, cancelled: Cancelled, overloads: NDArray[np.int64] | None = None
) -> ImageResult:
    values = wish.acquisition.image(wish.shape, cancelled=cancelled)
    valid = np.asarray(wish.acquisition.valid)
    return ImageResult(name, wish.shape, values, valid, "exact", wish.generation, overloads)
