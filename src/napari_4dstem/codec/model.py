"""Statistics of a scan: pixel classes, frequency tables, and the step schedule derived from them.

Every detector pixel belongs to a class of pixels of similar brightness; each class has one static
rANS table. Dark pixels are coded 2, 4 or 8 to a symbol (g), bright ones leave their low bits
(shift) outside the entropy coder. A wrong model costs size, never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.errors import ContainerError

ESCAPE = 255
"""The symbol that says: the value follows as a literal."""
CONSTANT = 255
"""`class_map` entry of a pixel that is not coded."""
TABLE_BITS = 12
TABLE_SIZE = 1 << TABLE_BITS
OCTET = 8
"""Adjacent pixels of a tile row that share one g."""


@dataclass(frozen=True, eq=False)
class PixelModel:
    """The stored statistics.

    Parameters
    ----------
    class_map
        u8[H, W], class of each pixel; 255 = constant, not coded.
    classes
        u8[K, 2], (g, shift) of each class.
    freq
        u16[K, 256], symbol frequencies; each row sums to 4096.

    Raises
    ------
    ContainerError
        If the arrays contradict each other.
    """

    class_map: NDArray[np.uint8]
    classes: NDArray[np.uint8]
    freq: NDArray[np.uint16]

    def __post_init__(self) -> None:
        k = len(self.classes)
        g, shift = self.classes[:, 0], self.classes[:, 1]
        coded = self.class_map[self.class_map != CONSTANT]
        rules = {
            "at most 64 classes": k <= 64 and self.freq.shape == (k, 256),
            "every pixel's class listed": not coded.size or int(coded.max()) < k,
            "1, 2, 4 or 8 pixels a symbol": bool(np.isin(g, (1, 2, 4, 8)).all()),
            "bit planes only where one pixel makes a symbol": not shift[g > 1].any(),
            "frequencies that sum to 4096": bool(
                (self.freq.sum(axis=1, dtype=np.int64) == TABLE_SIZE).all()
            ),
            "an escape in every class": bool(
                ((self.freq[:, ESCAPE] >= 1) & (self.freq[:, ESCAPE] < TABLE_SIZE)).all()
            ),
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise ContainerError(
                "The coding tables contradict themselves",
                expected="; ".join(broken),
                action="The file is damaged: encode the scan again from its source",
            )

    @property
    def nbytes(self) -> int:
        """Bytes of the stored tables."""
        return self.class_map.nbytes + self.classes.nbytes + self.freq.nbytes

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Bool[H, W]: pixels that are not coded."""
        constant: NDArray[np.bool_] = self.class_map == CONSTANT
        return constant


class Schedule(NamedTuple):
    """The steps of every tile, in coding order; nothing of it is stored.

    A named tuple, since Numba kernels take it whole. A step codes `size` adjacent pixels from flat
    index `pixel` on, of which the bits of `fields` say which are coded at all.

    Attributes
    ----------
    tile_start
        i64[n_tiles + 1], first step of each tile.
    tile_planes
        i64[n_tiles], bit planes of one pass of each tile.
    pixel, local
        i64[S], first pixel: flat index in the detector, and row-major index inside its tile.
    cls, size, shift, fields
        u8[S].
    table
        u32[K, 4096], decoding: symbol | (freq - 1) << 8 | (slot - cum) << 20.
    freq, cum
        u32[K, 256], encoding.
    inverse
        f64[K, 256], 1 / frequency.
    usable
        u8[K, 256], each symbol that has a frequency, `ESCAPE` in place of the others.
    filler
        u8[K], most frequent symbol, coded in lanes without a position.
    """

    tile_start: NDArray[np.int64]
    tile_planes: NDArray[np.int64]
    pixel: NDArray[np.int64]
    local: NDArray[np.int64]
    cls: NDArray[np.uint8]
    size: NDArray[np.uint8]
    shift: NDArray[np.uint8]
    fields: NDArray[np.uint8]
    table: NDArray[np.uint32]
    freq: NDArray[np.uint32]
    cum: NDArray[np.uint32]
    inverse: NDArray[np.float64]
    usable: NDArray[np.uint8]
    filler: NDArray[np.uint8]


def make_schedule(model: PixelModel, layout: ScanLayout) -> Schedule:
    """Derive the coding order of the steps.

    Raises
    ------
    ContainerError
        If the classes of neighbouring pixels do not fit together or do not fit the dtype.
    """
    _check_model(model, layout)
    rows, starts, cls, fields = _groups(model)
    size = model.classes[cls, 0]
    pixel = rows * layout.detector_shape[1] + starts
    tile_row, tile_column = rows // layout.tile, starts // layout.tile
    tile = tile_row * layout.tile_grid[1] + tile_column
    order = np.lexsort((pixel, cls, tile))
    widths = np.minimum(layout.tile, layout.detector_shape[1] - tile_column * layout.tile)
    local = (rows % layout.tile) * widths + starts % layout.tile
    shift = model.classes[cls, 1]
    counts = np.bincount(tile, minlength=layout.n_tiles)
    planes = np.bincount(tile, weights=shift, minlength=layout.n_tiles)
    cum = np.zeros((len(model.classes), 256), np.uint32)
    cum[:, 1:] = np.cumsum(model.freq, axis=1, dtype=np.uint32)[:, :-1]
    return Schedule(
        tile_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        tile_planes=planes.astype(np.int64),
        pixel=pixel[order].astype(np.int64),
        local=local[order].astype(np.int64),
        cls=cls[order],
        size=size[order],
        shift=shift[order],
        fields=fields[order],
        table=_decode_table(model.freq, cum),
        freq=model.freq.astype(np.uint32),
        cum=cum,
        inverse=1.0 / np.maximum(model.freq, 1),
        usable=np.where(model.freq > 0, np.arange(256), ESCAPE).astype(np.uint8),
        filler=model.freq[:, :ESCAPE].argmax(axis=1).astype(np.uint8),
    )


def _check_model(model: PixelModel, layout: ScanLayout) -> None:
    if model.class_map.shape != tuple(layout.detector_shape):
        raise ContainerError(
            "The pixel classes do not fit the camera",
            expected=f"{layout.detector_shape[0]} x {layout.detector_shape[1]} pixels",
            found=f"{model.class_map.shape}",
        )
    limit = 8 * layout.dtype.itemsize - 8
    if len(model.classes) and int(model.classes[:, 1].max()) > limit:
        raise ContainerError(
            "A pixel class keeps more low bits apart than its values have",
            expected=f"at most {limit} bits for {layout.dtype}",
            found=f"{int(model.classes[:, 1].max())} bits",
        )


def _octets(class_map: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the class map as [rows, octets, 8]; pixels beyond the edge count as constant."""
    h, w = class_map.shape
    padded = np.full((h, -(-w // OCTET) * OCTET), CONSTANT, np.uint8)
    padded[:, :w] = class_map
    return padded.reshape(h, -1, OCTET)


def _groups(
    model: PixelModel,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return row, first column, class and coded fields of every group of pixels."""
    octets = _octets(model.class_map)
    coded = octets != CONSTANT
    size_of = np.zeros(256, np.uint8)
    size_of[: len(model.classes)] = model.classes[:, 0]
    sizes = size_of[octets]
    octet_size = sizes.max(axis=2)
    consistent = bool((~coded | (sizes == octet_size[:, :, None])).all())
    parts = []
    for g in (1, 2, 4, 8):
        row, octet = np.nonzero(octet_size == g)
        cls = octets[row, octet].reshape(len(row), OCTET // g, g)
        live = cls != CONSTANT
        group_class = np.where(live, cls, 0).max(axis=2)
        consistent &= bool((~live | (cls == group_class[:, :, None])).all())
        fields = (live << np.arange(g)).sum(axis=2).astype(np.uint8)
        starts = octet[:, None] * OCTET + np.arange(0, OCTET, g)
        keep = fields > 0
        rows = np.broadcast_to(row[:, None], keep.shape)
        parts.append((rows[keep], starts[keep], group_class[keep], fields[keep]))
    if not consistent:
        raise ContainerError(
            "Neighbouring pixels that are coded together have different classes",
            action="The file is damaged: encode the scan again from its source",
        )
    rows, starts, cls, fields = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows.astype(np.int64), starts.astype(np.int64), cls.astype(np.uint8), fields


def _decode_table(freq: NDArray[np.uint16], cum: NDArray[np.uint32]) -> NDArray[np.uint32]:
    table = np.zeros((len(freq), TABLE_SIZE), np.uint32)
    slots = np.arange(TABLE_SIZE, dtype=np.uint32)
    for k in range(len(freq)):
        symbol = np.repeat(np.arange(256, dtype=np.uint32), freq[k])
        table[k] = (
            symbol
            | (freq[k][symbol].astype(np.uint32) - np.uint32(1)) << np.uint32(8)
            | (slots - cum[k][symbol]) << np.uint32(20)
        )
    return table
