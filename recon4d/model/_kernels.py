"""Compiled CPU form of the instant: selection of rows, activation, its chain rule, and row-wise Adam.

Rows are handled in chunks of fixed size, each with its own outputs, so results do not depend on the threads.
The readable twin of everything here is :mod:`recon4d.model._torch`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from recon4d.jit import kernel

CHUNK = 512
"""Rows that one parallel iteration looks at."""

# Columns that do not depend on the degree or on the motion model.
_QUAT, _LOG_SCALE, _OPACITY, _SH = 3, 7, 10, 11
_ZERO, _ONE = np.float32(0), np.float32(1)
_CUT = np.float32(1 / 255)
_NEAR = np.float32(0.01)
_DILATION = np.float32(0.3)
# A Gaussian of opacity 1 falls below 1/255 at sqrt(2 ln 255) = 3.329 deviations; the rest covers rounding.
_REACH = np.float32(3.35)
# Fast, but NaN and infinity keep their meaning.
_FAST = {"contract", "reassoc", "arcp", "nsz", "afn"}


@kernel(fastmath=_FAST)
def _reaches(params, row, x, y, z, view):
    """Whether a Gaussian centred at world x, y, z can touch a pixel of the view (see ``_instant.view_vector``)."""
    z_cam = view[8] * x + view[9] * y + view[10] * z + view[11]
    if not z_cam > _NEAR:
        return False
    tx = (view[0] * x + view[1] * y + view[2] * z + view[3]) / z_cam
    ty = (view[4] * x + view[5] * y + view[6] * z + view[7]) / z_cam
    u = view[12] * tx + view[14]
    v = view[13] * ty + view[15]
    if u >= _ZERO and u <= view[16] and v >= _ZERO and v <= view[17]:
        return True
    largest = max(params[row, _LOG_SCALE], params[row, _LOG_SCALE + 1], params[row, _LOG_SCALE + 2])
    size = math.exp(largest) / z_cam
    # Rows of the projection's Jacobian have norm f / z sqrt(1 + t^2), with t clamped as the rasterizers clamp it.
    tx = min(abs(tx), view[18])
    ty = min(abs(ty), view[19])
    reach_u = _REACH * math.sqrt((size * view[12]) ** 2 * (_ONE + tx * tx) + _DILATION)
    reach_v = _REACH * math.sqrt((size * view[13]) ** 2 * (_ONE + ty * ty) + _DILATION)
    return u >= -reach_u and u <= view[16] + reach_u and v >= -reach_v and v <= view[17] + reach_v


@kernel(parallel=True, fastmath=_FAST)
def select(params, n_static, moved, view, kept, counts):
    """Rows that can be drawn, in order: chunk c leaves ``counts[c]`` of them in ``kept`` from c * CHUNK on.

    An empty ``view`` means no culling by view.
    """
    n = params.shape[0]
    for chunk in prange(counts.shape[0]):
        start = chunk * CHUNK
        found = 0
        for row in range(start, min(start + CHUNK, n)):
            x, y, z = params[row, 0], params[row, 1], params[row, 2]
            visibility = _ONE
            if row >= n_static:
                j = row - n_static
                visibility = moved[j, 3]
                if visibility == _ZERO:
                    continue
                x += moved[j, 0]
                y += moved[j, 1]
                z += moved[j, 2]
            if not visibility >= _CUT * (_ONE + math.exp(-params[row, _OPACITY])):
                continue
            if view.size > 0 and not _reaches(params, row, x, y, z, view):
                continue
            kept[start + found] = row
            found += 1
        counts[chunk] = found


@kernel(parallel=True, fastmath=_FAST)
def activate(params, n_static, moved, kept, counts, gathered, splats):
    """Gathers the kept rows and activates them.

    Args:
        gathered: (rows [n] int64, leaf [n, D], visibility [n]), filled.
        splats: (means, quats, scales, opacities, sh [n, 3 K]), filled.
    """
    rows, leaf, visibility = gathered
    means, quats, scales, opacities, sh = splats
    for chunk in prange(counts.shape[0]):
        i = 0
        for before in range(chunk):
            i += counts[before]
        for k in range(chunk * CHUNK, chunk * CHUNK + counts[chunk]):
            row = kept[k]
            rows[i] = row
            for c in range(params.shape[1]):
                leaf[i, c] = params[row, c]
            alive = _ONE
            for c in range(3):
                means[i, c] = params[row, c]
                scales[i, c] = math.exp(params[row, _LOG_SCALE + c])
            if row >= n_static:
                alive = moved[row - n_static, 3]
                for c in range(3):
                    means[i, c] += moved[row - n_static, c]
            visibility[i] = alive
            for c in range(4):
                quats[i, c] = params[row, _QUAT + c]
            opacities[i] = alive / (_ONE + math.exp(-params[row, _OPACITY]))
            for c in range(sh.shape[1]):
                sh[i, c] = params[row, _SH + c]
            i += 1


@kernel(parallel=True, fastmath=_FAST)
def chain(activated, upstream, n_static, costs, gradient, g_visibility):
    """Gradient of the raw columns from that of the activated values; rows without any stay exactly 0.

    Args:
        activated: (scales [n, 3], opacities [n], visibility [n]) as ``activate`` left them.
        upstream: gradients of (means, quats, scales, opacities, sh [n, 3 K]).
        n_static: how many of the rows are static; they come first.
        costs: [2] price of opacity in static and in dynamic rows.
        gradient: [n, D]; temporal columns are set to 0 here and filled by the motion model.
        g_visibility: [n], filled.
    """
    scales, opacities, visibility = activated
    g_means, g_quats, g_scales, g_opacities, g_sh = upstream
    colours = g_sh.shape[1]
    for i in prange(scales.shape[0]):
        seen = g_opacities[i] != _ZERO
        for c in range(3):
            seen = seen or g_means[i, c] != _ZERO or g_scales[i, c] != _ZERO
        for c in range(4):
            seen = seen or g_quats[i, c] != _ZERO
        for c in range(colours):
            seen = seen or g_sh[i, c] != _ZERO
        for c in range(gradient.shape[1]):
            gradient[i, c] = _ZERO
        g_visibility[i] = _ZERO
        if not seen:
            continue
        for c in range(3):
            gradient[i, c] = g_means[i, c]
            gradient[i, _LOG_SCALE + c] = g_scales[i, c] * scales[i, c]
        for c in range(4):
            gradient[i, _QUAT + c] = g_quats[i, c]
        for c in range(colours):
            gradient[i, _SH + c] = g_sh[i, c]
        alive = visibility[i]
        opacity = opacities[i] / alive
        price = costs[0] if i < n_static else costs[1]
        gradient[i, _OPACITY] = (g_opacities[i] + price) * alive * opacity * (_ONE - opacity)
        g_visibility[i] = g_opacities[i] * opacity


@kernel(parallel=True, fastmath=_FAST)
def adam(params, state, rows, gradient, rates, settings):
    """One Adam step of the given rows, each with its own step count; rows whose gradient is all 0 are left alone.

    Args:
        params: [N, D], changed.
        state: (moments [N, 2, D], steps [N] int32), changed.
        rows: [n] int64, each at most once.
        gradient: [n, D].
        rates: (static [D], dynamic [D]) learning rates.
        settings: (n_static, [5] beta1, 1 - beta1, beta2, 1 - beta2, eps, and the correction [T, 2]).
    """
    moments, steps = state
    n_static, constants, correction = settings
    beta1, fresh1, beta2, fresh2, eps = constants[0], constants[1], constants[2], constants[3], constants[4]
    width = params.shape[1]
    for i in prange(rows.shape[0]):
        touched = False
        for c in range(width):
            touched = touched or gradient[i, c] != _ZERO
        if not touched:
            continue
        row = rows[i]
        steps[row] += 1
        last = min(steps[row], correction.shape[0]) - 1
        scale1, scale2 = correction[last, 0], correction[last, 1]
        rate = rates[0] if row < n_static else rates[1]
        for c in range(width):
            g = gradient[i, c]
            m = beta1 * moments[row, 0, c] + fresh1 * g
            v = beta2 * moments[row, 1, c] + fresh2 * g * g
            moments[row, 0, c] = m
            moments[row, 1, c] = v
            params[row, c] -= rate[c] * (m * scale1) / (math.sqrt(v) * scale2 + eps)
