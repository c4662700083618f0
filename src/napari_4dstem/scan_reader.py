"""Everything that reads from an acquisition: patterns, images, the mask that applies to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.disk import Disk, find_disk
from napari_4dstem.errors import UsageError
from napari_4dstem.imaging.center_of_mass import center_of_mass
from napari_4dstem.imaging.estimate import estimate_image
from napari_4dstem.imaging.patterns import gather_patterns, one_pattern
from napari_4dstem.imaging.region_pattern import PatternSummary, Reduction, summarise
from napari_4dstem.imaging.spread import Run
from napari_4dstem.imaging.virtual_image import Aperture, overload_counts, virtual_images
from napari_4dstem.ledger import HostAllocator, ledger
from napari_4dstem.loading.coarse import read_coarse
from napari_4dstem.loading.lifecycle import Lifecycle
from napari_4dstem.loading.preview import Preview, preview_image
from napari_4dstem.residency.budget import require, usable_now
from napari_4dstem.scan_index import scan_positions
from napari_4dstem.shapes import Shape

if TYPE_CHECKING:
    import torch

Cancelled = Callable[[], bool]
Advance = Callable[[int, int], None]


class ScanReader:
    """Reads whatever backs an acquisition at the moment; the base of `Acquisition`.

    Parameters
    ----------
    name
        For messages.
    life
        Where the patterns come from.
    """

    def __init__(self, name: str, life: Lifecycle) -> None:
        self.name = name
        self._life = life
        self._layout = life.backing.blocks_for(raw_values=False).layout
        self._mask: NDArray[np.bool_] | None = np.zeros(self.detector_shape, bool)
        self.mask_version = 0
        self.last_used = time.time()

    # ---- what it is

    @property
    def scan_shape(self) -> tuple[int, int]:
        """(rows, columns) of scan positions."""
        return self._layout.scan_shape

    @property
    def detector_shape(self) -> tuple[int, int]:
        """(rows, columns) of camera pixels."""
        return self._layout.detector_shape

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(scan rows, scan columns, camera rows, camera columns)."""
        return (*self.scan_shape, *self.detector_shape)

    @property
    def device(self) -> str:
        """Where `read` puts tensors."""
        return "cpu"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the counts."""
        return self._layout.dtype

    # ---- validity

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """Bool [H, W], True = masked; None: raw values (overloads count too). Can be set.

        Setting it changes products only: the encoded bytes stay as they are.
        """
        return self._mask

    @mask.setter
    def mask(self, value: NDArray[np.bool_] | None) -> None:
        if value is not None:
            value = np.array(value, dtype=bool)
            if value.shape != self.detector_shape:
                raise UsageError(
                    "The mask does not fit the camera",
                    expected=f"{self.detector_shape[0]} x {self.detector_shape[1]} pixels",
                    found=" x ".join(map(str, value.shape)),
                )
            value.flags.writeable = False
        self._mask = value
        self.mask_version += 1
        self._life.events.mask.emit(self.mask_version)

    @property
    def _masked(self) -> NDArray[np.bool_]:
        return np.zeros(self.detector_shape, bool) if self._mask is None else self._mask

    @property
    def _raw_values(self) -> bool:
        return self._mask is None

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Bool, scan shape: positions recorded and, as far as known, undamaged."""
        with self._life.lease() as backing:
            return ~backing.blocks_for(raw_values=self._raw_values).missing()

    def overloads(self, detector: Shape | None = None) -> NDArray[np.int64]:
        """Return, per scan position, how many unmasked pixels of a detector are overloaded."""
        with self._life.lease() as backing:
            blocks = backing.blocks_for(raw_values=False)
            return overload_counts(blocks, self._aperture(detector), Run())

    # ---- patterns

    def pattern_at(self, row: int, column: int) -> NDArray[Any]:
        """Return one pattern [H, W], the file's own values; zeros where none was recorded.

        Raises
        ------
        IndexError
            Outside the scan.
        """
        rows, columns = self.scan_shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise IndexError(f"scan position ({row}, {column}) lies outside {rows} x {columns}")
        self.last_used = time.time()
        with self._life.lease() as backing:
            return one_pattern(backing.blocks_for(raw_values=False), row, column)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        positions, shape, rest = scan_positions(key, self.scan_shape)
        patterns = self._patterns(positions)
        result: NDArray[Any] = patterns.reshape(*shape, *self.detector_shape)[
            (slice(None),) * len(shape) + rest
        ]
        return result

    def _patterns(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        needed = len(positions) * self._layout.n_pixels * self.dtype.itemsize
        require(
            f"Reading {len(positions)} patterns of {self.name}",
            {"patterns": needed},
            usable_now("cpu", ledger),
        )
        self.last_used = time.time()
        with self._life.lease() as backing:
            return gather_patterns(backing.blocks_for(raw_values=False), positions, Run())

    def read(
        self, scan: tuple[int, int, int, int], detector: tuple[int, int, int, int] | None = None
    ) -> torch.Tensor:
        """Read a box of patterns as a torch tensor on `device`.

        Parameters
        ----------
        scan, detector
            (first row, end row, first column, end column), half-open; None: the whole camera.

        Raises
        ------
        UsageError
            If the box reaches beyond the scan or the camera.
        MemoryRefused
            Before anything is allocated, if it would not fit.
        MissingDependencyError
            If torch is not installed.
        """
        from napari_4dstem.torch_import import require_torch

        shape = self.detector_shape
        rows, columns = _box("scan", scan, self.scan_shape)
        camera = _box("camera", detector or (0, shape[0], 0, shape[1]), shape)
        torch_module = require_torch()
        box = np.ascontiguousarray(self[rows, columns, *camera])
        return cast("torch.Tensor", torch_module.from_numpy(box).to(self.device))

    # ---- products

    def _aperture(self, detector: Shape | None) -> Aperture:
        shape = self.detector_shape
        inside = np.ones(shape, bool) if detector is None else detector.mask(shape)
        return Aperture(inside, self._masked)

    def image(
        self,
        detector: Shape,
        *,
        progress: Advance | None = None,
        cancelled: Cancelled | None = None,
    ) -> NDArray[Any]:
        """Return the exact virtual-detector image.

        Returns
        -------
        NDArray
            i64 (float64 for float sources), scan shape. Masked and overloaded pixels contribute
            nothing; positions without data are 0 and not `valid`.

        Raises
        ------
        CancelledError
            If `cancelled` returned True.
        """
        return self.images([detector], progress=progress, cancelled=cancelled)[0]

    def images(
        self,
        detectors: Sequence[Shape],
        *,
        progress: Advance | None = None,
        cancelled: Cancelled | None = None,
    ) -> list[NDArray[Any]]:
        """Return the images of several detectors, computed in one pass; see `image`."""
        apertures = [self._aperture(d) for d in detectors]
        self.last_used = time.time()
        with self._life.lease() as backing:
            blocks = backing.blocks_for(raw_values=self._raw_values)
            return virtual_images(blocks, apertures, Run(0, progress, cancelled))

    def estimate(self, detector: Shape) -> NDArray[np.float64] | None:
        """Return a rough image from the tile sums alone; None where there are none.

        Takes milliseconds whatever the detector; for a screen, while `image` is at work.
        """
        with self._life.lease() as backing:
            blocks = backing.blocks_for(raw_values=self._raw_values)
            return estimate_image(blocks, self._aperture(detector))

    def preview(
        self,
        detectors: Sequence[Shape],
        *,
        previous: Sequence[Preview | None] = (),
        cancelled: Cancelled | None = None,
    ) -> list[Preview]:
        """Return what is known of the images now, without touching the source.

        Parameters
        ----------
        previous
            Earlier previews of the same detectors (same mask), to add to.
        """
        earlier = [*previous, *[None] * len(detectors)][: len(detectors)]
        with self._life.lease() as backing:
            blocks = backing.blocks_for(raw_values=self._raw_values)
            return [
                preview_image(
                    blocks,
                    self._life.coarse,
                    self._aperture(detector),
                    Run(1, None, cancelled),
                    raw_values=self._raw_values,
                    previous=before,
                )
                for detector, before in zip(detectors, earlier, strict=True)
            ]

    def center_of_mass(
        self,
        detector: Shape | None = None,
        *,
        progress: Advance | None = None,
        cancelled: Cancelled | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (row, column) of the centre of mass in camera pixels; NaN for empty patterns."""
        with self._life.lease() as backing:
            blocks = backing.blocks_for(raw_values=self._raw_values)
            return center_of_mass(blocks, self._aperture(detector), Run(0, progress, cancelled))

    def pattern(self, region: Shape | None = None, reduce: Reduction = "sum") -> NDArray[Any]:
        """Return the sum, mean or maximum pattern of a region of the scan (None: all of it).

        Returns
        -------
        NDArray
            [H, W]: i64 (float64 for float sources); the mean is float64, NaN where no position has
            data. Masked pixels are 0 (NaN in the mean).
        """
        if reduce not in ("sum", "mean", "max"):
            raise UsageError("Unknown reduction", expected="sum, mean or max", found=str(reduce))
        if region is None:
            return self._summary().reduced(reduce, self._masked)
        inside = region.mask(self.scan_shape)
        with self._life.lease() as backing:
            blocks = backing.blocks_for(raw_values=self._raw_values)
            return summarise(blocks, inside, Run()).reduced(reduce, self._masked)

    def _summary(self) -> PatternSummary:
        """Return sum and maximum pattern of the whole scan, exactly."""
        with self._life.lease() as backing:
            blocks = backing.blocks_for(raw_values=self._raw_values)
            known = self._life.summary
            complete = (
                backing.state == "encoded" and blocks.index_for(0) is not None and known is not None
            )
            if (
                complete
                and known is not None
                and not (blocks.missing() & blocks.layout.recorded).any()
            ):
                return known
            return summarise(blocks, np.ones(self.scan_shape, bool), Run())

    def mean_pattern(self) -> NDArray[np.float64] | None:
        """Return the mean pattern over the positions known so far; None if there is none yet.

        Never slow. Pixels without data and masked ones are NaN.
        """
        summary = self._known_summary()
        return None if summary is None else summary.mean(self._masked)

    def max_pattern(self) -> NDArray[Any] | None:
        """Return the maximum pattern over the positions known so far; None if none yet."""
        summary = self._known_summary()
        return None if summary is None else summary.reduced("max", self._masked)

    def _known_summary(self) -> PatternSummary | None:
        summary, scan = self._life.summary, self._life.backing.scan
        nodata = self._life.nodata if scan is None else scan.values.nodata
        if summary is None or not self._raw_values or nodata is None:
            return summary
        return summary.with_raw_values(nodata)

    def find_disk(self) -> Disk:
        """Fit the bright-field disk on the mean pattern (of a coarse scan before encoding)."""
        mean = self.mean_pattern()
        if mean is None:
            with self._life.lease() as backing:
                if backing.source is None:
                    mean = self._summary().mean(self._masked)
                else:
                    workspace = HostAllocator(ledger, self._life.owner)
                    nodata = self._life.nodata
                    coarse = read_coarse(backing.source, nodata, workspace, lambda: False)
                    mean = coarse.summary().mean(self._masked)
        return find_disk(mean, self._masked | ~np.isfinite(mean))


def _box(plane: str, box: tuple[int, int, int, int], shape: tuple[int, int]) -> tuple[slice, slice]:
    """Return (row slice, column slice) of a half-open box that lies inside a plane."""
    r0, r1, c0, c1 = box
    if not (0 <= r0 <= r1 <= shape[0] and 0 <= c0 <= c1 <= shape[1]):
        raise UsageError(
            f"The box does not lie on the {plane}",
            expected=f"(first row, end row, first column, end column) within {shape}",
            found=str(box),
        )
    return slice(r0, r1), slice(c0, c1)
