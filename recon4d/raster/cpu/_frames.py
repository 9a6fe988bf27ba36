"""Kernels that draw many frames of one camera: splats that move with bodies, in front of or behind a shared ground.

A frame is one world seen by the camera. Its own splats are projected, ordered and listed by tile (``prepare``,
``fill``); ``draw`` merges each tile's list with that of the ground, which all frames share, in order of depth.
``settle`` draws the ground alone and keeps what any frame can still need of it. Frames are independent and each is
computed in one order, so the result does not depend on how many there are, nor on threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange

from recon4d.jit import kernel
from recon4d.raster.cpu import _bins, _lanes, _tiles
from recon4d.raster.cpu._bins import order_by_depth
from recon4d.raster.cpu._tiles import (
    AHEAD,
    BATCH,
    DEPTH,
    LANES,
    RECORD,
    ROW,
    ROWS,
    SUMS,
    TILE,
    T,
    composite_rgb,
    composite_rgbd,
    live_blocks,
    open_tile,
    prefetch,
    tile_memory,
)

_SPREAD = np.array([sum(0xF << 4 * i for i in range(4) if rows >> i & 1) for rows in range(16)], np.uint16)
"""Rows of blocks, a bit each, to the blocks of a tile, a bit each."""
_PARTS = [_tiles, _bins, _lanes]
_FLAGS = {"contract", "nsz", "arcp", "afn"}

f4 = np.float32
u4 = np.uint32
i4 = np.int32
carray: Any = numba.carray  # type: ignore[reportPrivateImportUsage]


def _inner(function: Callable) -> Any:
    return numba.njit(function, fastmath=_FLAGS, error_model="numpy", nogil=True, forceinline=True)


def _njit(function: Callable) -> Any:
    """Compiled by itself: parallel kernels are slow to compile, so that little but their loop should be in them."""
    return numba.njit(function, fastmath=_FLAGS, error_model="numpy", nogil=True)


@_inner
def _enter(place, entries, masks, tile, g, mask):
    at = place[tile]
    entries[at] = g
    masks[at] = mask
    place[tile] = at + 1


@_inner
def _size(images):
    rgb, alpha, depth, labels = images
    height = max(rgb.shape[2], alpha.shape[2], depth.shape[2], labels.shape[2])
    return height, max(rgb.shape[3], alpha.shape[3], depth.shape[3], labels.shape[3])


@_njit
def _copy_lines(images, base, w, camera, y0, y1):
    if images[0].shape[0] > 0:
        images[0][w, camera, y0:y1] = base[0][0, 0, y0:y1]
    if images[1].shape[0] > 0:
        images[1][w, camera, y0:y1] = base[1][0, 0, y0:y1]
    if images[2].shape[0] > 0:
        images[2][w, camera, y0:y1] = base[2][0, 0, y0:y1]
    if images[3].shape[0] > 0:
        images[3][w, camera, y0:y1] = base[3][0, 0, y0:y1]


@_njit
def _merge(bodies, ground, f, places, live, addresses, blocks, owners):
    """Gathers the next entries, nearest first, that may show in a live block; returns how many, and the new places."""
    _, _, entries, masks, records, _ = bodies
    _, _, shared, hits, ground_records, _ = ground
    k, stop, g, ground_stop = places
    record0, record1 = records[f].ctypes.data, ground_records.ctypes.data
    size, indexed = np.intp(4 * RECORD), shared.shape[0] > 0
    n = 0
    own = theirs = np.intp(0)
    own_z, ground_z = f4(-1), f4(-1)  # To be looked up.
    while n < BATCH:
        if own_z < f4(0):
            while k < stop and u4(masks[k]) & live == u4(0):
                k += 1
            own_z = f4(np.inf)
            if k < stop:
                own = record0 + np.intp(entries[k]) * size
                own_z = records[f, entries[k], DEPTH]
                prefetch(record0 + np.intp(entries[min(k + AHEAD, stop - 1)]) * size)
        if ground_z < f4(0):
            while g < ground_stop and u4(hits[g]) & live == u4(0):
                g += 1
            ground_z = f4(np.inf)
            if g < ground_stop:
                at = np.intp(shared[g]) if indexed else np.intp(g)
                ahead = min(g + AHEAD, ground_stop - 1)
                theirs = record1 + at * size
                ground_z = ground_records[at, DEPTH]
                prefetch(record1 + (np.intp(shared[ahead]) if indexed else np.intp(ahead)) * size)
        if k >= stop and g >= ground_stop:
            break
        # Equal depths go by index, and the ground comes first.
        if ground_z <= own_z:
            addresses[n], owners[n], blocks[n] = theirs, 0, u4(hits[g]) & live
            g += 1
            ground_z = f4(-1)
        else:
            addresses[n], owners[n] = own, i4(records[f, entries[k], _lanes.BODY])
            blocks[n] = u4(masks[k]) & live
            k += 1
            own_z = f4(-1)
        n += 1
    return n, k, g


@_njit
def _resolve(state, weights, present, shown, place, rules, look, images):
    """Writes the blocks of a tile that are shown, a bit each, into the images."""
    w, camera, x0, y0, width, height = place
    rgb, alpha, depth, labels = images
    background, exposure = look
    for b in range(LANES):
        if (shown >> u4(b)) & u4(1) == u4(0):
            continue
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
                if opaque >= rules[4]:
                    for j in range(present.shape[0]):
                        body = present[j]
                        share = weights[body, b, i]
                        if share > most or (share == most and body < label):
                            label, most = body, share
                labels[w, camera, y, x] = label


@_njit
def _project(table, starts, views, lens, columns, first, records, keys, rects, lengths):
    """One frame of :func:`prepare`; returns how many splats are drawn."""
    size, coefficients = np.intp(table.strides[0]), (table.shape[1] - _lanes.SHADE) // 3
    state = carray(tile_memory(), (LANES, LANES), f4)
    whole = state.view(np.int32)
    out, optics = state.ctypes.data, lens.ctypes.data
    lengths[:] = 0
    n = 0
    for body in range(starts.shape[0] - 1):
        view = views[body].ctypes.data
        for i in range(starts[body], starts[body + 1]):
            at = table.ctypes.data + np.intp(i) * size
            drawn = _lanes.project_lanes(at, view, optics, out)
            if drawn == u4(0):
                continue
            if coefficients == 1:
                _lanes.shade_0(at, view, out)
            elif coefficients == 4:
                _lanes.shade_1(at, view, out)
            elif coefficients == 9:
                _lanes.shade_2(at, view, out)
            else:
                _lanes.shade_3(at, view, out)
            _lanes.turn_records(out, f4(first + body))
            for lane in range(LANES):
                if (drawn >> u4(lane)) & u4(1) == u4(0):
                    continue
                _lanes.copy_record(out + np.intp(ROW * lane), records.ctypes.data + np.intp(ROW) * np.intp(n))
                begin, end = whole[lane, _lanes.FIRST], whole[lane, _lanes.LAST]
                rects[n, 0], rects[n, 1] = begin, end
                keys[n] = u4(whole[lane, DEPTH])
                n += 1
                x0, y0, x1, y1 = (begin & 0xFFFF) >> 2, begin >> 18, (end & 0xFFFF) >> 2, end >> 18
                if x0 == x1 and y0 == y1:
                    lengths[y0 * columns + x0] += 1
                    continue
                for y in range(y0, y1 + 1):
                    for x in range(x0, x1 + 1):
                        lengths[y * columns + x] += 1
    return n


@kernel(parallel=True, fastmath=_FLAGS, uses=_PARTS)
def prepare(table, starts, views, lenses, columns, records, bins, order, scratch, first, counts):
    """Projects the splats of the bodies into each frame, and orders them by depth.

    Args:
        table: [P / 16, 13 + 3 K, 16] float32, rows as :mod:`recon4d.raster.cpu._lanes` names them, of 16 splats each.
        starts: [B + 1] int64, where each body's rows begin and end, in sixteens.
        views: [F, B, 16] float32: the first three rows of camera from body, and minus the camera's centre in the body.
        lenses: [F, 13] float32, as named there too.
        columns: tiles in a row of tiles.
        records: [F, V, RECORD], written for the drawn splats, in order of body and index.
        bins: (keys [F, V] uint32, rects [F, V, 2] int32, tally [F, tiles] int32), written: camera-z, touched blocks,
            and the length of each tile's list.
        order: [F, V] int32, written: drawn splats, nearest first.
        scratch: (ones [V] int32, sort [F, 3, V] uint32, bases [F, V + 1] int64).
        first: index of the first body, which records tell.
        counts: [F, 1] int64, written: drawn splats.
    """
    keys, rects, tally = bins
    ones, sort, bases = scratch
    for f in prange(views.shape[0]):
        place = (records[f], keys[f], rects[f], tally[f])
        n = _project(table, starts, views[f], lenses[f], columns, first, *place)
        counts[f, 0] = n
        order_by_depth(keys[f, :n], ones[:n], order[f], sort[f], bases[f])


@kernel(parallel=True, fastmath=False, uses=_PARTS)
def fill(order, counts, rects, columns, starts, ends, entries, masks):
    """Writes each frame's tile lists, nearest first.

    Args:
        order, counts, rects: as :func:`prepare` left them.
        columns: tiles in a row of tiles.
        starts: [F, tiles] int64, where each list begins.
        ends: [F, tiles] int64, written.
        entries: int32, written: indices into the frame's records.
        masks: uint16, written: the blocks of its tile that each entry may touch, a bit each.
    """
    for f in prange(order.shape[0]):
        place = ends[f]
        place[:] = starts[f]
        for j in range(counts[f, 0]):
            g = order[f, j]
            x0, y0, x1, y1 = (
                rects[f, g, 0] & 0xFFFF,
                rects[f, g, 0] >> 16,
                rects[f, g, 1] & 0xFFFF,
                rects[f, g, 1] >> 16,
            )
            left, top = (0xF << (x0 & 3)) & 0xF, (0xF << (y0 & 3)) & 0xF
            right, bottom = 0xF >> (3 - (x1 & 3)), 0xF >> (3 - (y1 & 3))
            x0, y0, x1, y1 = x0 >> 2, y0 >> 2, x1 >> 2, y1 >> 2
            if x0 == x1 and y0 == y1:
                mask = _SPREAD[top & bottom] & u4(0x1111 * (left & right))
                _enter(place, entries, masks, y0 * columns + x0, g, mask)
                continue
            for y in range(y0, y1 + 1):
                rows = _SPREAD[(top if y == y0 else 0xF) & (bottom if y == y1 else 0xF)]
                for x in range(x0, x1 + 1):
                    across = 0x1111 * ((left if x == x0 else 0xF) & (right if x == x1 else 0xF))
                    _enter(place, entries, masks, y * columns + x, g, rows & u4(across))


@kernel(parallel=True, fastmath=_FLAGS, uses=_PARTS)
def settle(starts, ends, entries, masks, records, size, rules, hits, states):
    """Draws the ground alone.

    Args:
        starts, ends, entries, masks: the ground's lists, as :func:`fill` left those of a frame; ``ends`` is moved to
            the end of the part that was looked at. Nothing behind it shows in any frame: what a frame adds in front
            only ends pixels earlier.
        records: [N, RECORD].
        size: (width, height).
        rules: (log2 of the least alpha, greatest alpha, least transmittance, least alpha that has depth,
            least alpha that has a label).
        hits: [E] uint16, written in that part: the blocks of its tile in which each entry is drawn.
        states: [tiles, 16, ROWS, 16], written: the blocks of each tile, blended but not resolved.
    """
    width, height = size
    columns = (width + TILE - 1) // TILE
    cut, top, end = rules[:3]
    record0 = records.ctypes.data
    for tile in prange(starts.shape[0]):
        x0, y0 = (tile % columns) * TILE, (tile // columns) * TILE
        state = carray(tile_memory(), (LANES, ROWS, LANES), f4)
        address = state.ctypes.data
        open_tile(address, f4(width - x0), f4(height - y0))
        k, stop = starts[tile], ends[tile]
        live = live_blocks(address)
        while k < stop and live != u4(0):
            batch_stop = min(k + BATCH, stop)
            while k < batch_stop:
                ahead = entries[min(k + AHEAD, stop - 1)]
                prefetch(record0 + np.intp(ahead) * np.intp(4 * RECORD))
                record = record0 + np.intp(entries[k]) * np.intp(4 * RECORD)
                hits[k] = composite_rgbd(address, record, f4(x0), f4(y0), u4(masks[k]) & live, cut, top, end)
                k += 1
            live = live_blocks(address)
        ends[tile] = k
        states[tile] = state


@_njit
def _draw_line(f, line, w, bodies, ground, rules, look, camera, images, base):
    """One row of tiles of :func:`draw`."""
    cut, top, end = rules[:3]
    height, width = _size(images)
    columns, y0 = (width + TILE - 1) // TILE, line * TILE
    kept, based = ground[5].shape[0] > 0, _size(base)[0] > 0
    more = images[2].shape[0] > 0 or images[3].shape[0] > 0
    body_count = bodies[5]
    state = carray(tile_memory(), (LANES, ROWS, LANES), f4)
    memory = np.empty((body_count + 1) * LANES * LANES, f4)
    # Vectors are stored whole, and must not straddle cache lines.
    lead = (64 - memory.ctypes.data % 64) % 64 // 4
    weights = memory[lead : lead + body_count * LANES * LANES].reshape((body_count, LANES, LANES))
    present, seen = np.empty(body_count, np.int32), np.zeros(body_count, np.bool_)
    addresses, blocks = np.empty(BATCH, np.intp), np.empty(BATCH, np.uint32)
    owners = np.empty(BATCH, np.int32)
    if based:
        _copy_lines(images, base, w, camera, y0, min(y0 + TILE, height))
    for column in range(columns):
        tile, x0 = line * columns + column, column * TILE
        touched = u4(0xFFFF)
        if kept:
            touched = u4(0)
            for k in range(bodies[0][f, tile], bodies[1][f, tile]):
                touched |= u4(bodies[3][k])
            if based and touched == u4(0):
                continue
        open_tile(state.ctypes.data, f4(width - x0), f4(height - y0))
        found = 0
        if not based and touched != u4(0xFFFF):
            present[0], seen[0], found = 0, True, 1
            weights[0] = f4(1)
            for b in range(LANES):
                if (touched >> u4(b)) & u4(1) == u4(0):
                    state[b] = ground[5][tile, b]
                else:
                    weights[0, b] = f4(0)
        live = live_blocks(state.ctypes.data) & touched
        k, stop = bodies[0][f, tile], bodies[1][f, tile]
        g, ground_stop = ground[0][tile], ground[1][tile]
        while (k < stop or g < ground_stop) and live != u4(0):
            n, k, g = _merge(bodies, ground, f, (k, stop, g, ground_stop), live, addresses, blocks, owners)
            for j in range(n):
                if not more:
                    composite_rgb(state.ctypes.data, addresses[j], f4(x0), f4(y0), blocks[j], cut, top, end)
                    continue
                body = owners[j]
                if not seen[body]:
                    seen[body] = True
                    present[found] = body
                    found += 1
                    weights[body] = f4(0)
                own = weights.ctypes.data + np.intp(body) * np.intp(4 * LANES * LANES)
                _lanes.composite_body(state.ctypes.data, addresses[j], f4(x0), f4(y0), blocks[j], own, cut, top, end)
            live = live_blocks(state.ctypes.data) & touched
        place = (w, camera, x0, y0, width, height)
        shown = touched if based else u4(0xFFFF)
        _resolve(state, weights, present[:found], shown, place, rules, (look[0], look[1][f]), images)
        for j in range(found):
            seen[present[j]] = False


@kernel(parallel=True, fastmath=_FLAGS, uses=_PARTS)
def draw(bodies, ground, rules, look, targets, images, base):
    """Draws frames, and resolves them into images.

    Args:
        bodies: (starts [F, tiles], ends [F, tiles], entries, masks, records [F, V, RECORD], number of bodies): the
            frames' own lists.
        ground: (starts [tiles], ends [tiles], entries, masks, records, states): the lists that all frames share. Where
            ``entries`` is empty, records lie in the lists' order; where ``states`` is, blocks that no splat of a frame
            touches are drawn like others.
        rules: as in :func:`settle`.
        look: (background [3], exposures [F]).
        targets: (worlds [F], camera): where in the images each frame goes.
        images: (rgb [W, C, H, W, 3] float32 or uint8, alpha, depth, labels [W, C, H, W]), written; those that are not
            wanted are empty.
        base: the same of the ground alone [1, 1, ...], of which blocks that no splat touches are copied; or all empty.
    """
    lines = (_size(images)[0] + TILE - 1) // TILE
    worlds, camera = targets
    for task in prange(worlds.shape[0] * lines):
        f = task // lines
        _draw_line(f, task % lines, worlds[f], bodies, ground, rules, look, camera, images, base)
