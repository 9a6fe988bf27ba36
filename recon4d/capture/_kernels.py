"""The CPU kernel of the temporal statistics."""

from __future__ import annotations

import numpy as np
from numba import prange

from recon4d.jit import kernel


@kernel(parallel=True, fastmath=False)
def median_and_variance(strip: np.ndarray, median: np.ndarray, variance: np.ndarray) -> None:
    """Per pixel over time: median of each channel, and the largest channel's variance.

    strip [F, R, W, 3] uint8; median [R, W, 3] uint8, of an even count the mean of the middle two rounded down;
    variance [R, W] float64, population variance. Sums are integers, so the result depends on no order.
    """
    count, rows, width, _ = strip.shape
    low_rank, high_rank = (count - 1) // 2, count // 2
    for row in prange(rows):
        histogram = np.empty(256, np.int32)
        for column in range(width):
            largest = 0.0
            for channel in range(3):
                histogram[:] = 0
                total = 0
                squares = 0
                for frame in range(count):
                    value = np.int64(strip[frame, row, column, channel])
                    histogram[value] += 1
                    total += value
                    squares += value * value
                seen = 0
                level = -1
                while seen <= low_rank:
                    level += 1
                    seen += histogram[level]
                low = level
                while seen <= high_rank:
                    level += 1
                    seen += histogram[level]
                median[row, column, channel] = np.uint8((low + level) // 2)
                spread = (count * squares - total * total) / (count * count)
                if spread > largest:
                    largest = spread
            variance[row, column] = largest
