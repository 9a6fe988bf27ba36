"""Depth order and tile lists: one radix sort of all visible splats, then a counting sort into tiles in that order.

Kernels and everything they use stay in this file: the on-disk cache is stamped with this file only.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from recon4d.jit import kernel

CULLED = np.uint32(0xFFFFFFFF)
"""Key of a splat that is not drawn."""
CHUNKS = 8
"""Parts of the depth order that are counted and scattered independently; the lists do not depend on it."""
_DIGIT = 13
"""Most bits a radix pass takes: 8192 counters stay in the first-level cache."""

i4 = np.int32
u4 = np.uint32


@kernel(fastmath=False)
def order_by_depth(keys, tile_counts, order, scratch, bases):
    """Sorts visible splats by key, ties by index, and numbers the slots.

    Args:
        keys: [N] uint32, bits of the positive float32 camera-z, or ``CULLED``.
        tile_counts: [N] int32, tiles that each visible splat may touch.
        order: [N] int32, written: visible splats, nearest first.
        scratch: [3, N] uint32.
        bases: [N + 1] int64, written: first slot of each splat; the last is the number of slots.

    Returns:
        The number of visible splats.
    """
    visible = 0
    slots = np.int64(0)
    least, most = CULLED, u4(0)
    key, other_key = scratch[0], scratch[1]
    index, other_index = order, scratch[2].view(np.int32)
    for i in range(keys.shape[0]):
        bases[i] = slots
        k = keys[i]
        if k != CULLED:
            key[visible] = k
            index[visible] = i
            visible += 1
            slots += tile_counts[i]
            least, most = min(least, k), max(most, k)
    bases[keys.shape[0]] = slots
    if visible == 0:
        return visible
    bits = 1
    while bits < 32 and (most - least) >> u4(bits) != u4(0):
        bits += 1
    passes = (bits + _DIGIT - 1) // _DIGIT
    digit = (bits + passes - 1) // passes
    mask = u4((1 << digit) - 1)
    starts = np.empty((1 << digit) + 1, np.int32)
    for turn in range(passes):
        shift = u4(turn * digit)
        starts[:] = 0
        for i in range(visible):
            starts[i4(((key[i] - least) >> shift) & mask) + 1] += 1
        for d in range(1 << digit):
            starts[d + 1] += starts[d]
        for i in range(visible):
            d = i4(((key[i] - least) >> shift) & mask)
            place = starts[d]
            starts[d] = place + 1
            other_key[place] = key[i]
            other_index[place] = index[i]
        key, other_key = other_key, key
        index, other_index = other_index, index
    if passes % 2 == 1:
        for i in range(visible):
            order[i] = index[i]
    return visible


@kernel(parallel=True, fastmath=False)
def fill_tiles(order, visible, rects, columns, counts, offsets, entries):
    """Writes each tile's splats in depth order.

    Args:
        order: [N] int32, of which the first ``visible`` are the splats to list.
        rects: [N, 4] int16, x0, y0, x1, y1 of the touched tiles, ends included.
        columns: tiles in a row of tiles.
        counts: [CHUNKS, tiles] int32, scratch.
        offsets: [tiles + 1] int64, written.
        entries: [E] int32, written.
    """
    tiles = offsets.shape[0] - 1
    size = (visible + CHUNKS - 1) // CHUNKS
    for chunk in prange(CHUNKS):
        count = counts[chunk]
        count[:] = 0
        for j in range(chunk * size, min((chunk + 1) * size, visible)):
            g = order[j]
            x0, y0, x1, y1 = i4(rects[g, 0]), i4(rects[g, 1]), i4(rects[g, 2]), i4(rects[g, 3])
            for y in range(y0, y1 + 1):
                for tile in range(y * columns + x0, y * columns + x1 + 1):
                    count[tile] += 1
    total = np.int64(0)
    for tile in range(tiles):
        offsets[tile] = total
        for chunk in range(CHUNKS):
            here = counts[chunk, tile]
            counts[chunk, tile] = total
            total += here
    offsets[tiles] = total
    for chunk in prange(CHUNKS):
        place = counts[chunk]
        for j in range(chunk * size, min((chunk + 1) * size, visible)):
            g = order[j]
            x0, y0, x1, y1 = i4(rects[g, 0]), i4(rects[g, 1]), i4(rects[g, 2]), i4(rects[g, 3])
            for y in range(y0, y1 + 1):
                for tile in range(y * columns + x0, y * columns + x1 + 1):
                    entries[place[tile]] = g
                    place[tile] += 1
