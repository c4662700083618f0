"""Build a `PixelModel` from a sample of patterns.

Pixels are sorted into logarithmic classes of mean intensity (measured: 16 to 32 classes are within
0.5 % of 64); the tables are the class histograms, rounded to 12 bits at the least cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_4dstem.codec.model import CONSTANT, ESCAPE, OCTET, TABLE_SIZE, PixelModel
from napari_4dstem.codec.reduce_kernels import add_moments, count_symbols
from napari_4dstem.codec.value_map import ValueMap
from napari_4dstem.codec.values import constant_pixels, pattern_codes

# Pixels per symbol by the brightest mean count of an octet, and the classes each size may have.
_SIZES = ((8, 0.004, 4), (4, 0.15, 8), (2, 1.5, 8), (1, np.inf, 24))
# An escape costs g literals: an octet whose values overflow their fields oftener takes a smaller g.
_MAX_OVERFLOW = 0.002


class Sample:
    """Patterns that statistics are taken from.

    Their codes are made one pattern at a time: a sample may have a gigabyte.

    Parameters
    ----------
    patterns
        [n, H, W], source dtype, n >= 1.
    values
        How they become codes.
    """

    def __init__(self, patterns: NDArray[Any], values: ValueMap) -> None:
        self.patterns, self.values = patterns, values
        self.constant = constant_pixels(patterns)
        self.itemsize = patterns.dtype.itemsize

    def codes(self) -> Iterator[NDArray[np.int32]]:
        """Yield the codes i32[H, W] of each pattern, negative where it will be an escape."""
        for pattern in self.patterns:
            yield pattern_codes(pattern, self.values)


def build_model(sample: Sample) -> tuple[PixelModel, float]:
    """Return the model of a sample, and the bits per coded pixel that it promises."""
    h, w = sample.constant.shape
    mean, variance, overflow = _moments(sample)
    octet_size = _choose_sizes(mean, overflow, sample.constant)
    class_map = np.full((h, octet_size.shape[1] * OCTET), CONSTANT, np.uint8)
    classes: list[tuple[int, int]] = []
    for g, _, most in _SIZES:
        _add_classes(g, most, octet_size, mean, variance, sample, class_map, classes)
    class_map = np.ascontiguousarray(class_map[:, :w])
    if not classes:  # every pixel is constant: one class that nothing uses
        classes.append((1, 0))
    counts = _count_symbols(sample, class_map, classes)
    freq = np.stack([round_frequencies(row) for row in counts])
    model = PixelModel(class_map, np.array(classes, np.uint8), freq)
    return model, _promised_bits(model, counts, sample)


def _pad(image: NDArray[Any], fill: float) -> NDArray[Any]:
    h, w = image.shape
    padded = np.full((h, -(-w // OCTET) * OCTET), fill, image.dtype)
    padded[:, :w] = image
    return padded


def _moments(
    sample: Sample,
) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[int, NDArray[np.float64]]]:
    """Return mean and variance of each pixel, and how often it overflows a field of each g."""
    shape, n = sample.constant.shape, len(sample.patterns)
    total, squares = np.zeros((2, sample.constant.size))
    overflow = np.zeros((3, sample.constant.size), np.int64)
    for codes in sample.codes():
        add_moments(codes.reshape(-1), total, squares, overflow)
    mean = (total / n).reshape(shape)
    variance = np.maximum((squares / n).reshape(shape) - mean * mean, mean)
    shares = (overflow / n).reshape(3, *shape)
    return mean, variance, dict(zip((2, 4, 8), shares, strict=True))


def _choose_sizes(
    mean: NDArray[np.float64],
    overflow: dict[int, NDArray[np.float64]],
    constant: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return g of every octet; 0 where all of its pixels are constant."""
    h = len(mean)
    live = ~_pad(constant, True).reshape(h, -1, OCTET)
    brightest = np.where(live, _pad(mean, 0).reshape(h, -1, OCTET), 0).max(axis=2)
    size = np.zeros(brightest.shape, np.int64)
    for g, limit, _ in _SIZES:
        fits = live.any(axis=2) & (size == 0) & (brightest < limit)
        if g > 1:
            often = np.where(live, _pad(overflow[g], 0).reshape(h, -1, OCTET), 0).mean(axis=2)
            fits &= often <= _MAX_OVERFLOW
        size[fits] = g
    return size


def _add_classes(
    g: int,
    most: int,
    octet_size: NDArray[np.int64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
    sample: Sample,
    class_map: NDArray[np.uint8],
    classes: list[tuple[int, int]],
) -> None:
    """Sort the groups of size g into at most `most` logarithmic classes of their mean."""
    row, octet = np.nonzero(octet_size == g)
    if not len(row):
        return
    h = len(mean)
    shape = (len(row), OCTET // g, g)

    def grouped(image: NDArray[Any], fill: float) -> NDArray[Any]:
        return _pad(image, fill).reshape(h, -1, OCTET)[row, octet].reshape(shape)

    live = ~grouped(sample.constant, True)
    n_live = live.sum(axis=2)
    coded = n_live > 0
    group_mean = (grouped(mean, 0) * live).sum(axis=2)[coded] / n_live[coded]
    group_variance = (grouped(variance, 0) * live).sum(axis=2)[coded] / n_live[coded]
    level = np.log(np.maximum(group_mean, 1e-6))
    low, span = level.min(), max(float(np.ptp(level)), 1e-9)
    wanted = np.minimum((level - low) / span * most, most - 1).astype(np.int64)
    _, rank = np.unique(wanted, return_inverse=True)
    group_class = np.full(coded.shape, CONSTANT, np.int64)
    group_class[coded] = rank + len(classes)
    pixel_class = np.where(live, group_class[:, :, None], CONSTANT)
    class_map.reshape(h, -1, OCTET)[row, octet] = pixel_class.reshape(len(row), OCTET)
    for k in range(int(rank.max()) + 1):
        inside = rank == k
        top = float(group_mean[inside].max())
        # The median: one pixel with a rare outlier must not set the shift of its whole class.
        sigma = float(np.sqrt(np.median(group_variance[inside])))
        classes.append((g, _choose_shift(top, sigma, sample.itemsize) if g == 1 else 0))


def _choose_shift(mean: float, sigma: float, itemsize: int) -> int:
    """Return how many low bits bypass the coder: those that are noise anyway (sigma / 2.5)."""
    shift = 0
    limit = 8 * itemsize - 8
    while shift < limit and (
        (1 << (shift + 1)) <= sigma / 2.5 or (mean + 6 * sigma) / (1 << shift) > 250
    ):
        shift += 1
    return shift


def _count_symbols(
    sample: Sample, class_map: NDArray[np.uint8], classes: list[tuple[int, int]]
) -> NDArray[np.int64]:
    """Return the histogram of the symbols of each class, i64[K, 256]."""
    counts = np.zeros((len(classes), 256), np.int64)
    by_class = np.zeros((2, 256), np.uint8)
    by_class[:, : len(classes)] = np.array(classes, np.uint8).T
    for codes in sample.codes():
        count_symbols(codes, class_map, by_class[0], by_class[1], counts)
    return counts


def round_frequencies(counts: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Round a histogram to frequencies that sum to 4096, at the least cost in bits.

    Symbols rarer than a quarter of a slot become escapes; the escape always keeps a slot, and so
    does at least one other symbol.

    Parameters
    ----------
    counts
        i64[256].
    """
    p = counts.astype(np.float64)
    p[ESCAPE] += 1e-3
    if p[:ESCAPE].sum() == 0:
        p[0] += 1e-3
    p /= p.sum()
    rare = p * TABLE_SIZE < 0.25
    rare[ESCAPE] = False
    if rare[:ESCAPE].all() or p[:ESCAPE][~rare[:ESCAPE]].sum() == 0:
        rare[int(p[:ESCAPE].argmax())] = False
    p[ESCAPE] += p[rare].sum()
    p[rare] = 0
    freq = np.where(p > 0, np.maximum(1, np.floor(p * TABLE_SIZE)), 0).astype(np.int64)
    while (missing := TABLE_SIZE - int(freq.sum())) != 0:
        if missing > 0:
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.where(freq > 0, p * np.log2((freq + 1) / freq), -1.0)
            best = int(gain.argmax())
            freq[best] += max(1, min(missing, int(missing * p[best])))
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                loss = np.where(freq > 1, p * np.log2(freq / (freq - 1)), np.inf)
            freq[int(loss.argmin())] -= 1
    return freq.astype(np.uint16)


def _promised_bits(model: PixelModel, counts: NDArray[np.int64], sample: Sample) -> float:
    """Return the mean code length per coded pixel of the sample."""
    pixels = int((model.class_map != CONSTANT).sum()) * len(sample.patterns)
    if pixels == 0:
        return 0.0
    freq = np.maximum(model.freq.astype(np.float64), 1)
    symbol_bits = np.where(model.freq > 0, 12 - np.log2(freq), 12 - np.log2(freq[:, ESCAPE:]))
    escapes = np.where(model.freq == 0, counts, 0).sum(axis=1) + counts[:, ESCAPE]
    g, shift = model.classes[:, 0], model.classes[:, 1]
    literals = float((escapes * g).sum()) * 8 * min(sample.itemsize, 2)
    planes = float((counts.sum(axis=1) * shift).sum())
    return (float((counts * symbol_bits).sum()) + literals + planes) / pixels
