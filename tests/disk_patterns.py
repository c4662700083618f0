"""Synthetic diffraction patterns whose disk is known, of every kind that a disk finder meets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHAPES = ((96, 104), (192, 180), (128, 150), (64, 72), (256, 200))

KINDS = (
    "plain", "apart", "overlap", "cut", "dark stop", "masked stop", "round stop", "descan",
    "hot", "low", "ellipse", "masked pixels", "mixed",
)  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """A pattern and the truth about it."""

    values: NDArray[np.float64]
    masked: NDArray[np.bool_] | None
    center: tuple[float, float]
    radius: float
    beyond_frame: float
    """How far the disk reaches beyond the outermost pixels' edges, in pixels."""


def soft_disk(
    shape: tuple[int, int],
    center: Sequence[float],
    radius: float,
    blur: float = 0.7,
    ellipse: tuple[float, float] = (0.0, 0.0),
) -> NDArray[np.float64]:
    """A disk of height 1; ``ellipse``: (long axis / short axis - 1, direction)."""
    rows = np.arange(shape[0])[:, None] - center[0]
    cols = np.arange(shape[1])[None, :] - center[1]
    stretch, angle = ellipse
    along = rows * np.cos(angle) + cols * np.sin(angle)
    across = cols * np.cos(angle) - rows * np.sin(angle)
    distance = np.hypot(along / (1 + stretch / 2), across / (1 - stretch / 2))
    return 1 / (1 + np.exp(np.clip((distance - radius) / (0.55 * blur), -50, 50)))


class _Scene:
    """One random specimen and camera; ``kind`` decides what is difficult about it."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.rng = rng = np.random.default_rng([KINDS.index(kind), seed])
        self.shape = SHAPES[rng.integers(len(SHAPES))]
        self.radius = max(3.0, rng.uniform(0.05, 0.27) * min(self.shape))
        self.center = self._center()
        self.blur = rng.uniform(0.4, 1.1)
        stretch = rng.uniform(0, 0.03) if kind in ("ellipse", "mixed") else 0.0
        self.ellipse = (stretch, rng.uniform(0, np.pi))
        self.spots = self._spots()
        self.haze = (rng.choice([0, 0.02, 0.1, 0.2]), rng.uniform(1.2, 4) * self.radius)
        self.floor = rng.choice([0, 0.001, 0.02])
        self.rows = np.arange(self.shape[0])[:, None] - self.center[0]
        self.cols = np.arange(self.shape[1])[None, :] - self.center[1]
        wave = rng.uniform(1, 5) / self.radius
        self.texture = 1 + rng.choice([0, 0.05, 0.15]) * (
            np.cos(wave * self.rows + rng.uniform(0, 6)) * np.cos(wave * self.cols)
        )

    def _center(self) -> NDArray[np.float64]:
        rng, size = self.rng, np.array(self.shape)
        margin = self.radius + 3
        center = (size - 1) / 2 + rng.uniform(-0.15, 0.15, 2) * size
        center = np.clip(center, margin, size - 1 - margin)
        if self.kind == "cut":
            axis, inside = rng.integers(2), self.radius * rng.uniform(0.1, 1.0)
            center[axis] = rng.choice([inside - 0.5, size[axis] - 0.5 - inside])
        return center

    def _spots(self) -> list[tuple[NDArray[np.float64], float]]:
        """Bragg disks on a lattice: (centre, brightness)."""
        rng = self.rng
        kind = (
            self.kind
            if self.kind in ("plain", "apart", "overlap")
            else rng.choice(["plain", "apart", "overlap"])
        )
        if kind == "plain":
            return []
        spacing = self.radius * (rng.uniform(2.15, 4) if kind == "apart" else rng.uniform(0.7, 2))
        turn, skew = rng.uniform(0, np.pi), rng.uniform(1, 2)
        a = spacing * np.array([np.cos(turn), np.sin(turn)])
        b = spacing * rng.uniform(0.9, 1.4) * np.array([np.cos(turn + skew), np.sin(turn + skew)])
        strength = rng.choice([0.05, 0.2, 0.4, 0.6])
        spots = []
        for h, k in np.ndindex(9, 9):
            if (h, k) != (4, 4):
                away = (h - 4) * a + (k - 4) * b
                fall = np.exp(-((np.hypot(*away) / (3 * spacing)) ** 2))
                brightness = strength * rng.uniform(0.3, 1) * fall
                if brightness > 0.001 and np.hypot(*away) < max(self.shape):
                    spots.append((self.center + away, brightness))
        return spots

    def image(self, shift: NDArray[np.float64]) -> NDArray[np.float64]:
        def disk(center: NDArray[np.float64]) -> NDArray[np.float64]:
            return soft_disk(self.shape, center + shift, self.radius, self.blur, self.ellipse)

        total = disk(self.center) * self.texture + self.floor
        for center, brightness in self.spots:
            total += brightness * disk(center)
        height, width = self.haze
        return total + height * np.exp(-(self.rows**2 + self.cols**2) / (2 * width**2))

    def descanned(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean over beams that wander by up to 1.5 px, and their mean shift."""
        shifts = np.zeros((1, 2))
        if self.kind == "descan" or (self.kind == "mixed" and self.rng.random() < 0.5):
            steps = np.linspace(-1, 1, 4) * self.rng.uniform(0.8, 1.5)
            shifts = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
            if self.rng.random() < 0.5:
                shifts = shifts[self.rng.random(len(shifts)) < 0.6]
        return np.mean([self.image(s) for s in shifts], axis=0), shifts.mean(axis=0)

    def stop(self) -> NDArray[np.bool_]:
        """A bar from the border to somewhere near the centre, or a disk inside the disk."""
        rng, r = self.rng, self.radius
        if self.kind == "round stop":
            off = rng.uniform(-0.25, 0.25, 2) * r
            return np.hypot(self.rows - off[0], self.cols - off[1]) < rng.uniform(0.2, 0.7) * r
        turn = rng.uniform(0, 2 * np.pi)
        along = self.rows * np.cos(turn) + self.cols * np.sin(turn)
        across = self.cols * np.cos(turn) - self.rows * np.sin(turn)
        near = np.abs(across - rng.uniform(-0.5, 0.5) * r) < rng.uniform(0.05, 0.4) * r
        return near & (along < rng.uniform(-0.5, 1) * r)


def make_pattern(kind: str, seed: int) -> Pattern:
    """Return one of endlessly many patterns of a kind."""
    scene = _Scene(kind, seed)
    rng = scene.rng
    image, shift = scene.descanned()
    stopped = kind.endswith("stop") or (kind == "mixed" and rng.random() < 0.4)
    masked = None
    if stopped:
        stop = scene.stop()
        image = np.where(stop, image * rng.choice([0, 0.02, 0.1]), image)
        if kind == "masked stop" or (kind == "mixed" and rng.random() < 0.5):
            masked = stop
    dose = 10 ** (rng.uniform(-0.7, 0.5) if kind == "low" else rng.uniform(0.8, 4))
    patterns = rng.choice([1, 1, 1000])
    values = rng.poisson(image * dose * patterns) / patterns
    if kind == "hot" or (kind == "mixed" and rng.random() < 0.5):
        at = rng.integers(0, values.size, 20)
        values.flat[at] = values.max() * 10 ** rng.uniform(0.2, 3, 20)
    if kind == "masked pixels" or rng.random() < 0.3:
        lost = rng.random(scene.shape) < (rng.uniform(0.01, 0.2) if kind[0] == "m" else 0.003)
        masked = lost if masked is None else masked | lost
    if masked is not None:
        values = np.where(masked, rng.choice([0.0, 65535.0]), values)
    center = scene.center + shift
    low, high = scene.radius - center - 0.5, scene.radius + center + 0.5 - np.array(scene.shape)
    beyond = float(max(low.max(), high.max()))
    return Pattern(values, masked, (center[0], center[1]), scene.radius, beyond)
