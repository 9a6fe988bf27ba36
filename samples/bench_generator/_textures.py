"""Procedural textures, uint8 [H, W, 3] sRGB.

Their finest features are a few pixels wide in a 320x240 view of the bench, so that pictures are rich but do not alias.
"""

from __future__ import annotations

import colorsys

import cv2
import numpy as np
from numpy.random import Generator

FREE_HUES_DEG = (62.0, 280.0)
"""Yellow to violet: everything that is not the block. Reds, oranges and pinks belong to the block alone."""


def free_colour(rng: Generator, saturation: tuple[float, float], value: tuple[float, float]) -> np.ndarray:
    """[3] in [0, 1], a random colour whose hue is not the block's."""
    hue = rng.uniform(*FREE_HUES_DEG) / 360.0
    return np.array(colorsys.hsv_to_rgb(hue, rng.uniform(*saturation), rng.uniform(*value)))


def smooth_noise(rng: Generator, shape: tuple[int, int], grain: tuple[float, float]) -> np.ndarray:
    """[H, W] in [0, 1], noise whose features are ``grain`` (rows, columns) pixels wide, ranks spread evenly."""
    rows, columns = (max(2, round(n / g) + 2) for n, g in zip(shape, grain, strict=True))
    coarse = rng.random((rows, columns), np.float32)
    fine = cv2.resize(coarse, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC)
    low, high = np.quantile(fine, [0.02, 0.98])
    return np.clip((fine - low) / (high - low), 0.0, 1.0)


def to_8bit(image: np.ndarray) -> np.ndarray:
    return np.round(np.clip(image, 0.0, 1.0) * 255).astype(np.uint8)


def bench_top(rng: Generator, size_m: tuple[float, float], metres_per_texel: float = 0.002) -> np.ndarray:
    """Pale planks with grain and stains, and painted marks: discs, squares and strips of tape."""
    columns, rows = (round(s / metres_per_texel) for s in size_m)
    shape = (rows, columns)
    wood = np.array([0.80, 0.76, 0.68]) * rng.uniform(0.92, 1.04) + rng.uniform(-0.03, 0.03, 3) * [0.3, 1.0, 1.0]
    grain = 0.6 * smooth_noise(rng, shape, (9, 120)) + 0.4 * smooth_noise(rng, shape, (16, 260))
    stain = smooth_noise(rng, shape, (70, 70))
    plank = np.repeat(rng.uniform(0.88, 1.0, 16), -(-rows // 16))[:rows, None]
    image = wood * (plank * (0.80 + 0.22 * grain) * (0.92 + 0.10 * stain))[..., None]
    for _ in range(round(31 * size_m[0] * size_m[1])):
        image = _mark(image, rng)
    return to_8bit(cv2.GaussianBlur(image.astype(np.float32), (0, 0), 1.2))


def _mark(image: np.ndarray, rng: Generator) -> np.ndarray:
    """Paints one disc, square or strip; the paint lets the grain through."""
    rows, columns = image.shape[:2]
    center = (int(rng.integers(0, columns)), int(rng.integers(0, rows)))
    cover = np.zeros((rows, columns), np.float32)
    kind = rng.integers(0, 3)
    if kind == 0:
        cv2.circle(cover, center, int(rng.integers(9, 24)), 1.0, -1, cv2.LINE_AA)
    else:
        sides = (rng.uniform(18, 40), rng.uniform(18, 40)) if kind == 1 else (rng.uniform(8, 14), rng.uniform(80, 170))
        corners = cv2.boxPoints((center, sides, float(rng.uniform(0, 180))))
        cv2.fillConvexPoly(cover, corners.astype(np.int32), 1.0, cv2.LINE_AA)
    paint = free_colour(rng, (0.15, 0.6), (0.35, 0.8))
    strength = cover[..., None] * rng.uniform(0.5, 0.8)
    return image * (1 - strength) + paint * (0.6 + 0.4 * image) * strength


def surface(rng: Generator, colour: np.ndarray, size: int = 128, contrast: float = 0.35) -> np.ndarray:
    """A square for an object's faces: stripes, checks or blotches of two tones of one colour."""
    shape = (size, size)
    kind = rng.integers(0, 3)
    v, u = np.mgrid[0:size, 0:size] / size
    if kind == 0:
        angle = rng.uniform(0, np.pi)
        pattern = 0.5 + 0.5 * np.sin(2 * np.pi * rng.integers(2, 4) * (u * np.cos(angle) + v * np.sin(angle)))
    elif kind == 1:
        cells = int(rng.integers(2, 4))
        pattern = ((np.floor(u * cells) + np.floor(v * cells)) % 2).astype(np.float64)
    else:
        pattern = smooth_noise(rng, shape, (size / 4, size / 4))
    tone = 1.0 - contrast * (0.75 * pattern + 0.25 * smooth_noise(rng, shape, (size / 8, size / 8)))
    return to_8bit(colour * tone[..., None])


def block_surface(rng: Generator, size: int = 128) -> np.ndarray:
    """The block's faces: saturated red with darker blotches, of one hue."""
    pattern = smooth_noise(rng, (size, size), (size / 4, size / 4))
    return to_8bit(np.array([0.95, 0.10, 0.07]) * (1.0 - 0.30 * pattern)[..., None])


def painted(rng: Generator, colour: np.ndarray, size: int = 256) -> np.ndarray:
    """Floor or wall of a laboratory: one coat of paint with faint, wide clouds.

    Parts of the room are seen by held-out cameras alone; a strong pattern there could be known to nobody.
    """
    clouds = smooth_noise(rng, (size, size), (size / 8, size / 8))
    return to_8bit(colour * (0.94 + 0.06 * clouds)[..., None])
