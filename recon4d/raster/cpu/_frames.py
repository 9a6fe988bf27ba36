"""Kernels that draw many frames of one camera: splats that move with bodies, in front of or behind a shared ground.

A frame is one world seen by the camera. Its own splats are projected, ordered and listed by tile (``prepare``,
``fill``); ``draw`` merges each tile's list with that of the ground, which all frames share, in order of depth. ``settle``
draws the ground alone and keeps what any frame can still need of it. Frames are independent and each is computed in one
order, so the result does not depend on how many there are, nor on threads.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import prange

from recon4d.jit import kernel
from recon4d.raster.cpu import _bins, _lanes, _tiles
from recon4d.raster.cpu._bins import order_by_depth
from recon4d.raster.cpu._lanes import (
    composite_body,
    project_lanes,
    shade_0,
    shade_1,
    shade_2,
    shade_3,
)
from recon4d.raster.cpu._tiles import (
    AHEAD,
    BATCH,
    DEPTH,
    LANES,
    RECORD,
    ROWS,
    SUMS,
    TILE,
    T,
    composite_rgbd,
    live_blocks,
    open_tile,
    prefetch,
    tile_memory,
    touched_blocks,
)

BODY = 12
"""Column of a record, after those that blending reads: the splat's body."""
_PARTS = [_tiles, _bins, _lanes]
_FLAGS = {"contract", "nsz", "arcp", "afn"}

f4 = np.float32
u4 = np.uint32
i4 = np.int32
carray: Any = numba.carray  # type: ignore[reportPrivateImportUsage]


@kernel(parallel=True, fastmath=_FLAGS, uses=_PARTS)
def prepare(table, starts, views, lenses, records, bins, order, scratch, counts):
    """Projects the splats of the bodies into each frame, and orders them by depth.

    Args:
        table: [13 + 3 K, P] float32, rows as :mod:`recon4d.raster.cpu._lanes` names them.
        starts: [B + 1] int64, where each body's columns begin and end; multiples of 16.
        views: [F, B, 16] float32: the first three rows of camera from body, and minus the camera's centre in the body.
        lenses: [F, 13] float32, as named there too.
        records: [F, V, RECORD], written for the drawn splats, in order of body and index.
        bins: (keys [F, V] uint32, rects [F, V, 4] int16, tile counts [F, V] int32), written.
        order: [F, V] int32, written: drawn splats, nearest first.
        scratch: (sort [F, 3, V] uint32, bases [F, V + 1] int64).
        counts: ([F, 2] int64, first body): written, drawn splats and (splat, tile) pairs; and the index of the first
            body, which the records tell.
    """
    keys, rects, tiles = bins
    sort, bases = scratch
    found, first = counts
    stride = np.intp(table.strides[0])
    coefficients = (table.shape[0] - _lanes.SHADE) // 3
    for f in prange(views.shape[0]):
        state = carray(tile_memory(), (LANES, LANES), f4)
        whole = state.view(np.int32)
        out, lens = state.ctypes.data, lenses[f].ctypes.data
        n, pairs = 0, np.int64(0)
        for body in range(starts.shape[0] - 1):
            view = views[f, body].ctypes.data
            for i in range(starts[body], starts[body + 1], LANES):
                at = table.ctypes.data + np.intp(4 * i)
                drawn = project_lanes(at, stride, view, lens, out)
                if drawn == u4(0):
                    continue
                if coefficients == 1:
                    shade_0(at, stride, view, out)
                elif coefficients == 4:
                    shade_1(at, stride, view, out)
                elif coefficients == 9:
                    shade_2(at, stride, view, out)
                else:
                    shade_3(at, stride, view, out)
                for lane in range(LANES):
                    if (drawn >> u4(lane)) & u4(1) == u4(0):
                        continue
                    for column in range(BODY):
                        records[f, n, column] = state[column, lane]
                    records[f, n, BODY] = f4(first + body)
                    x0, y0 = whole[_lanes.RECT, lane], whole[_lanes.RECT + 1, lane]
                    x1, y1 = whole[_lanes.RECT + 2, lane], whole[_lanes.RECT + 3, lane]
                    rects[f, n, 0], rects[f, n, 1], rects[f, n, 2], rects[f, n, 3] = x0, y0, x1, y1
                    tiles[f, n] = (x1 - x0 + 1) * (y1 - y0 + 1)
                    pairs += tiles[f, n]
                    keys[f, n] = u4(whole[DEPTH, lane])
                    n += 1
        found[f, 0], found[f, 1] = n, pairs
        order_by_depth(keys[f, :n], tiles[f, :n], order[f], sort[f], bases[f])


@kernel(parallel=True, fastmath=False)
def fill(order, counts, rects, columns, first, offsets, entries):
    """Writes each frame's tile lists, nearest first.

    Args:
        order, counts, rects: as :func:`prepare` left them.
        columns: tiles in a row of tiles.
        first: [F] int64, where each frame's entries begin.
        offsets: [F, tiles + 1] int64, written: where each tile's entries begin and end.
        entries: int32, written: indices into the frame's records.
    """
    tiles = offsets.shape[1] - 1
    for f in prange(order.shape[0]):
        place = np.zeros(tiles + 1, np.int64)
        visible = counts[f, 0]
        for g in range(visible):
            for y in range(rects[f, g, 1], rects[f, g, 3] + 1):
                for tile in range(y * columns + rects[f, g, 0], y * columns + rects[f, g, 2] + 1):
                    place[tile + 1] += 1
        place[0] = first[f]
        for tile in range(tiles):
            place[tile + 1] += place[tile]
        offsets[f] = place
        for j in range(visible):
            g = order[f, j]
            for y in range(rects[f, g, 1], rects[f, g, 3] + 1):
                for tile in range(y * columns + rects[f, g, 0], y * columns + rects[f, g, 2] + 1):
                    entries[place[tile]] = g
                    place[tile] += 1


@kernel(parallel=True, fastmath=_FLAGS, uses=_PARTS)
def settle(offsets, entries, records, size, rules, hits, stops, states):
    """Draws the ground alone.

    Args:
        offsets, entries, records: the ground's lists [tiles + 1] and [E], and its records [N, RECORD].
        size: (width, height).
        rules: (log2 of the least alpha, greatest alpha, least transmittance, least alpha that has depth).
        hits: [E] uint16, written where a list was looked at: the blocks of its tile in which each entry is drawn.
        stops: [tiles] int64, written: the end of that part. Nothing behind it shows in any frame: what a frame adds
            in front only ends pixels earlier.
        states: [tiles, 16, ROWS, 16], written: the blocks of each tile, blended but not resolved.
    """
    width, height = size
    columns = (width + TILE - 1) // TILE
    cut, top, end, _ = rules
    record0 = records.ctypes.data
    for tile in prange(stops.shape[0]):
        x0, y0 = (tile % columns) * TILE, (tile // columns) * TILE
        state = carray(tile_memory(), (LANES, ROWS, LANES), f4)
        address = state.ctypes.data
        open_tile(address, f4(width - x0), f4(height - y0))
        k, stop = offsets[tile], offsets[tile + 1]
        live = live_blocks(address)
        while k < stop and live != u4(0):
            batch_stop = min(k + BATCH, stop)
            for j in range(k, batch_stop):
                ahead = entries[min(j + AHEAD, stop - 1)]
                prefetch(record0 + np.intp(ahead) * np.intp(4 * RECORD))
                record = record0 + np.intp(entries[j]) * np.intp(4 * RECORD)
                hits[j] = touched_blocks(record, f4(x0), f4(y0), cut)
            while k < batch_stop:
                record = record0 + np.intp(entries[k]) * np.intp(4 * RECORD)
                hits[k] = composite_rgbd(address, record, f4(x0), f4(y0), u4(hits[k]) & live, cut, top, end)
                k += 1
            live = live_blocks(address)
        stops[tile] = k
        states[tile] = state


@numba.njit(fastmath=_FLAGS, error_model="numpy", nogil=True)
def _resolve(state, weights, present, place, rules, look, images):
    """Writes one tile into the images."""
    w, camera, x0, y0, width, height = place
    rgb, alpha, depth, labels = images
    background, exposure = look
    for b in range(LANES):
        for i in range(LANES):
            x, y = x0 + (b % 4) * 4 + i % 4, y0 + (b // 4) * 4 + i // 4
            if not (x < width and y < height):
                continue
            through = abs(state[b, T, i])
            opaque = f4(1) - through
            if rgb.shape[0] > 0:
                for c in range(3):
                    value = (state[b, SUMS + c, i] + through * background[c]) * exposure
                    if rgb.itemsize == 1:
                        rgb[w, camera, y, x, c] = np.uint8(min(max(value, f4(0)), f4(1)) * f4(255) + f4(0.5))
                    else:
                        rgb[w, camera, y, x, c] = value
            if alpha.shape[0] > 0:
                alpha[w, camera, y, x] = opaque
            if depth.shape[0] > 0:
                depth[w, camera, y, x] = state[b, SUMS + 3, i] / opaque if opaque >= rules[3] else f4(0)
            if labels.shape[0] > 0:
                label, most = i4(-1), f4(-1)
                if opaque >= f4(0.5):
                    for j in range(present.shape[0]):
                        body = present[j]
                        share = weights[body, b, i]
                        if share > most or (share == most and body < label):
                            label, most = body, share
                labels[w, camera, y, x] = label


@kernel(parallel=True, fastmath=_FLAGS, uses=_PARTS)
def draw(bodies, ground, rules, look, targets, images, base):
    """Draws frames, and resolves them into images.

    Args:
        bodies: (offsets [F, tiles + 1], entries, records [F, V, RECORD], number of bodies): the frames' own lists.
        ground: (starts [tiles], stops [tiles], entries, hits, records, states): the lists that all frames share. Where
            ``hits`` is empty they are not known; where ``entries`` is, records lie in the lists' order; where ``states``
            is, tiles without own splats are drawn like others.
        rules: as in :func:`settle`.
        look: (background [3], exposures [F]).
        targets: (worlds [F], camera): where in the images each frame goes.
        images: (rgb [W, C, H, W, 3] float32 or uint8, alpha, depth, labels [W, C, H, W]), written; those that are not
            wanted are empty.
        base: the same of the ground alone [1, 1, ...], of which tiles without own splats are copied; or all empty.
    """
    offsets, entries, records, body_count = bodies
    starts, stops, shared, hits, ground_records, states = ground
    cut, top, end, _ = rules
    worlds, camera = targets
    rgb, alpha, depth, labels = images
    height, width = max(rgb.shape[2], alpha.shape[2], depth.shape[2], labels.shape[2]), 0
    width = max(rgb.shape[3], alpha.shape[3], depth.shape[3], labels.shape[3])
    columns, lines = (width + TILE - 1) // TILE, (height + TILE - 1) // TILE
    record1 = ground_records.ctypes.data
    known, indexed, kept = hits.shape[0] > 0, shared.shape[0] > 0, states.shape[0] > 0
    based = base[0].shape[0] + base[1].shape[0] + base[2].shape[0] + base[3].shape[0] > 0
    size = np.intp(4 * RECORD)
    for task in prange(worlds.shape[0] * lines):
        f, line = task // lines, task % lines
        w, y0 = worlds[f], line * TILE
        record0 = records[f].ctypes.data
        state = carray(tile_memory(), (LANES, ROWS, LANES), f4)
        address = state.ctypes.data
        memory = np.empty((body_count + 1) * LANES * LANES, f4)
        # Vectors are stored whole, and must not straddle cache lines.
        lead = (64 - memory.ctypes.data % 64) % 64 // 4
        weights = memory[lead : lead + body_count * LANES * LANES].reshape((body_count, LANES, LANES))
        weights0 = weights.ctypes.data
        present, seen = np.empty(body_count, np.int32), np.zeros(body_count, np.bool_)
        addresses, blocks = np.empty(BATCH, np.intp), np.empty(BATCH, np.uint32)
        owners = np.empty(BATCH, np.int32)
        if based:
            y1 = min(y0 + TILE, height)
            if rgb.shape[0] > 0:
                rgb[w, camera, y0:y1] = base[0][0, 0, y0:y1]
            if alpha.shape[0] > 0:
                alpha[w, camera, y0:y1] = base[1][0, 0, y0:y1]
            if depth.shape[0] > 0:
                depth[w, camera, y0:y1] = base[2][0, 0, y0:y1]
            if labels.shape[0] > 0:
                labels[w, camera, y0:y1] = base[3][0, 0, y0:y1]
        for column in range(columns):
            tile, x0 = line * columns + column, column * TILE
            k, stop = offsets[f, tile], offsets[f, tile + 1]
            g, ground_stop = starts[tile], stops[tile]
            found = 0
            if kept and k == stop:
                if based:
                    continue
                state[:] = states[tile]
                g = ground_stop
                present[0], found = 0, 1
                weights[0] = f4(1)
            else:
                open_tile(address, f4(width - x0), f4(height - y0))
            live = live_blocks(address)
            while (k < stop or g < ground_stop) and live != u4(0):
                n = 0
                own_z, ground_z = f4(np.inf), f4(np.inf)
                own = theirs = np.intp(0)
                if k < stop:
                    own = record0 + np.intp(entries[k]) * size
                    own_z = records[f, entries[k], DEPTH]
                if g < ground_stop:
                    at = shared[g] if indexed else g
                    theirs = record1 + np.intp(at) * size
                    ground_z = ground_records[at, DEPTH]
                # Merging and culling a batch first lets its cache misses overlap.
                while n < BATCH and (k < stop or g < ground_stop):
                    # Equal depths go by index, and the ground comes first.
                    if ground_z <= own_z:
                        addresses[n], owners[n] = theirs, 0
                        blocks[n] = hits[g] if known else touched_blocks(theirs, f4(x0), f4(y0), cut)
                        g += 1
                        ground_z = f4(np.inf)
                        if g < ground_stop:
                            at = shared[g] if indexed else g
                            theirs = record1 + np.intp(at) * size
                            ground_z = ground_records[at, DEPTH]
                            ahead = min(g + AHEAD, ground_stop - 1)
                            prefetch(record1 + np.intp(shared[ahead] if indexed else ahead) * size)
                    else:
                        addresses[n], owners[n] = own, i4(records[f, entries[k], BODY])
                        blocks[n] = touched_blocks(own, f4(x0), f4(y0), cut)
                        k += 1
                        own_z = f4(np.inf)
                        if k < stop:
                            own = record0 + np.intp(entries[k]) * size
                            own_z = records[f, entries[k], DEPTH]
                            prefetch(record0 + np.intp(entries[min(k + AHEAD, stop - 1)]) * size)
                    n += 1
                for j in range(n):
                    bits = blocks[j] & live
                    if bits == u4(0):
                        continue
                    body = owners[j]
                    if not seen[body]:
                        seen[body] = True
                        present[found] = body
                        found += 1
                        weights[body] = f4(0)
                    place = weights0 + np.intp(body) * np.intp(4 * LANES * LANES)
                    composite_body(address, addresses[j], f4(x0), f4(y0), bits, place, cut, top, end)
                live = live_blocks(address)
            place_of = (w, camera, x0, y0, width, height)
            _resolve(state, weights, present[:found], place_of, rules, (look[0], look[1][f]), images)
            for j in range(found):
                seen[present[j]] = False
