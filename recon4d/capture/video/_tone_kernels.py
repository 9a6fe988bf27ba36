"""The CPU kernel that makes sRGB of high dynamic range and wide gamuts."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from recon4d.jit import kernel


@kernel(parallel=True, fastmath=False)
def to_srgb(
    yuv: np.ndarray,
    to_rgb: np.ndarray,
    offset: np.ndarray,
    light: np.ndarray,
    hlg: np.ndarray,
    gain: np.ndarray,
    to_bt709: np.ndarray,
    code: np.ndarray,
) -> np.ndarray:
    """uint8 [H, W, 3] sRGB of uint16 [H, W, 3] Y'CbCr.

    R'G'B' in 0..1 is ``to_rgb @ (yuv - offset)``. ``light``, ``gain``, ``to_bt709`` and ``code`` are those of
    ``Curves``; ``hlg`` holds its system gamma less 1, its scale, what white is of 10000 cd/m2, and its luma.
    """
    height, width, _ = yuv.shape
    codes, steps = len(light) - 1, len(gain) - 1
    gamma, scale, white = hlg[0], hlg[1], hlg[2]
    result = np.empty((height, width, 3), np.uint8)
    for row in prange(height):
        linear = np.empty(3, np.float32)
        for column in range(width):
            for i in range(3):
                value = np.float32(0)
                for j in range(3):
                    value += to_rgb[i, j] * (np.float32(yuv[row, column, j]) - offset[j])
                linear[i] = light[int(min(max(value, np.float32(0)), np.float32(1)) * codes + np.float32(0.5))]
            factor = scale
            if gamma != 0:
                luminance = hlg[3] * linear[0] + hlg[4] * linear[1] + hlg[5] * linear[2]
                factor *= luminance**gamma
            largest = max(linear[0], linear[1], linear[2]) * factor
            place = min(math.sqrt(math.sqrt(largest * white)), 1.0) * steps
            low = min(int(place), steps - 1)
            factor *= gain[low] + (gain[low + 1] - gain[low]) * (place - low)
            for i in range(3):
                value = np.float32(0)
                for j in range(3):
                    value += to_bt709[i, j] * linear[j]
                value *= factor
                root = math.sqrt(min(max(value, np.float32(0)), np.float32(1)))
                result[row, column, i] = code[int(root * steps + 0.5)]
    return result
