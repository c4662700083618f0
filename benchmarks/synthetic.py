"""Synthetic 4D-STEM counts with what makes real ones hard to compress.

Convergent-beam patterns of a phase object (two grains of a lattice, an amorphous film, a vacuum
corner), slow descan, a diffuse tail that depends on thickness, Poisson noise, hot and dead
pixels. NumPy and Numba only, so that it runs on a bare machine with a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

_BATCH = 128


@dataclass(frozen=True)
class Recipe:
    """What to simulate.

    Parameters
    ----------
    scan_shape, detector_shape
        (rows, columns).
    counts
        Mean electrons a pattern.
    radius
        Of the bright-field disk, in the smaller side of the camera.
    descan
        Movement of the disk over the scan, in pixels.
    tail
        Share of the electrons that the thickest part scatters diffusely.
    hot, dead
        Number of such pixels.
    """

    scan_shape: tuple[int, int]
    detector_shape: tuple[int, int]
    counts: float
    radius: float = 0.17
    descan: float = 1.5
    tail: float = 0.06
    hot: int = 6
    dead: int = 12
    seed: int = 1


def simulate(recipe: Recipe, dtype: type[np.unsignedinteger] = np.uint16) -> NDArray:
    """Return counts [scan rows, scan columns, camera rows, camera columns]."""
    rng = np.random.default_rng(recipe.seed)
    rows, columns = recipe.scan_shape
    h, w = recipe.detector_shape
    phase, thickness = _object(max(rows, columns) + max(h, w) + 4, rng)
    window = np.lib.stride_tricks.sliding_window_view(np.exp(1j * phase), (h, w))
    probe, tail = _probe(recipe)
    out = np.empty((rows * columns, h * w), dtype)
    for first in range(0, len(out), _BATCH):
        row, column = np.divmod(np.arange(first, min(first + _BATCH, len(out))), columns)
        wave = window[row, column] * probe * _descan(recipe, row, column)
        intensity = np.abs(np.fft.fft2(wave)) ** 2
        intensity /= intensity.sum(axis=(1, 2), keepdims=True)
        scattered = recipe.tail * thickness[row + h // 2, column + w // 2]
        scattered *= 1 + 0.5 * np.abs(np.sin(column * 0.45) * np.sin(row * 0.45))
        mixed = intensity + scattered[:, None, None] * (tail - intensity)
        centred = np.fft.fftshift(mixed, axes=(1, 2)).reshape(len(row), -1).astype(np.float32)
        _fill_poisson(centred, recipe.counts, rng, out[first : first + len(row)])
    _spoil_pixels(out, recipe, rng)
    return out.reshape(rows, columns, h, w)


def _object(n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Return phase and relative thickness, f32[n, n]."""
    y, x = np.mgrid[0:n, 0:n].astype(np.float32)

    def lattice(angle: float, spacing: float) -> NDArray:
        waves = [angle + q * np.pi / 3 for q in range(3)]
        across = [x * np.cos(a) + y * np.sin(a) for a in waves]
        return sum(np.cos(2 * np.pi / spacing * along) for along in across) / 3

    second = 1 / (1 + np.exp(-(x - 0.55 * n + 20 * np.sin(y / 37)) / 3))
    k2 = np.fft.fftfreq(n)[:, None] ** 2 + np.fft.rfftfreq(n) ** 2
    noise = np.fft.rfft2(rng.standard_normal((n, n))) * np.exp(-60 * k2)
    film = np.fft.irfft2(noise, s=(n, n))
    film /= film.std()
    thickness = 1 / (1 + np.exp(-(x + y - 0.35 * n) / 4))
    grains = (1 - second) * lattice(0.1, 14.0) + second * lattice(0.45, 14.56)
    phase = thickness * (0.77 * grains + 0.18 * film)
    return phase.astype(np.float32), thickness.astype(np.float32)


def _probe(recipe: Recipe) -> tuple[NDArray, NDArray]:
    """Return the probe, c64[H, W], and the diffuse tail, f32[H, W] (zero frequency first)."""
    h, w = recipe.detector_shape
    k = np.hypot(np.fft.fftfreq(h)[:, None] * h, np.fft.fftfreq(w) * w)
    radius = recipe.radius * min(h, w)
    aperture = 1 / (1 + np.exp(np.clip((k - radius) / 0.5, -60, 60)))
    defocus = np.exp(2.5j * (k / radius) ** 2)
    probe = np.fft.fftshift(np.fft.ifft2(aperture * defocus))
    tail = 1 / (1 + (k / (0.25 * min(h, w))) ** 2) ** 1.5
    return probe.astype(np.complex64), (tail / tail.sum()).astype(np.float32)


def _descan(recipe: Recipe, row: NDArray, column: NDArray) -> NDArray:
    """Return the phase ramps that move the patterns, c64[n, H, W]."""
    rows, columns = recipe.scan_shape
    shift = (
        recipe.descan * np.sin(2 * row / rows),
        recipe.descan * (2 * column / columns - 1) + 0.3 * np.sin(row / 9),
    )
    ramps = [
        np.exp(2j * np.pi * by[:, None] * (np.arange(n) - n // 2) / n)
        for by, n in zip(shift, recipe.detector_shape, strict=True)
    ]
    return (ramps[0][:, :, None] * ramps[1][:, None, :]).astype(np.complex64)


def _spoil_pixels(out: NDArray, recipe: Recipe, rng: np.random.Generator) -> None:
    n, pixels = out.shape
    chosen = rng.choice(pixels, recipe.hot + recipe.dead, replace=False)
    for q, pixel in enumerate(chosen[: recipe.hot]):
        limit = np.iinfo(out.dtype).max // 2
        extra = np.minimum(rng.poisson(3 * 4.0**q, n), limit).astype(out.dtype)
        out[:, pixel] = np.minimum(out[:, pixel], limit) + extra
    out[:, chosen[recipe.hot :]] = 0


@njit(nogil=True, cache=True)
def _fill_poisson(mean: NDArray, scale: float, rng: np.random.Generator, out: NDArray) -> None:
    for i in range(mean.shape[0]):
        for p in range(mean.shape[1]):
            rate = mean[i, p] * scale
            if rate >= 12.0:
                out[i, p] = rng.poisson(rate)
                continue
            u = rng.random()  # inversion: quick for small numbers
            term = math.exp(-rate)
            below = term
            count = 0
            while u > below and count < 200:
                count += 1
                term *= rate / count
                below += term
            out[i, p] = count
