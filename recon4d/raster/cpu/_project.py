"""Splats to image-plane records, and gradients of records back to splats and camera pose.

Kernels and everything they use stay in this file: the on-disk cache is stamped with this file only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange

from recon4d.jit import kernel

CHUNKS = 64
"""Fixed parts of the splats: the pose gradient is summed within each and then over them, in order, which makes it
independent of threads."""
TILE = 16
MX, MY, A, B, C, LOG2_OPACITY, RED, GREEN, BLUE, DEPTH, KX, KY = range(12)
"""Columns of a record; :mod:`recon4d.raster.cpu._tiles` reads them."""

# No nnan or ninf: splats that are not finite are found by comparison.
_FLAGS = {"contract", "nsz", "arcp", "afn", "reassoc"}
_CULLED = np.uint32(0xFFFFFFFF)

f4 = np.float32
_LN2 = f4(math.log(2.0))
_LOG2E = f4(1.0 / math.log(2.0))
_C0 = f4(0.28209479177387814)
_C1 = f4(0.4886025119029199)
_C20, _C22, _C24 = f4(1.0925484305920792), f4(0.31539156525252005), f4(0.5462742152960396)
_C30, _C31, _C32 = f4(0.5900435899266435), f4(2.890611442640554), f4(0.4570457994644658)
_C33, _C35 = f4(0.3731763325901154), f4(1.445305721320277)
_ONE, _TWO, _HALF = f4(1.0), f4(2.0), f4(0.5)


def _inner(function: Callable) -> Any:
    return njit(function, fastmath=_FLAGS, error_model="numpy", nogil=True)


@_inner
def _rotation(w, x, y, z):
    return (
        (_ONE - _TWO * (y * y + z * z), _TWO * (x * y - w * z), _TWO * (x * z + w * y)),
        (_TWO * (x * y + w * z), _ONE - _TWO * (x * x + z * z), _TWO * (y * z - w * x)),
        (_TWO * (x * z - w * y), _TWO * (y * z + w * x), _ONE - _TWO * (x * x + y * y)),
    )


@_inner
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@_inner
def _row(matrix, i):
    return (matrix[i, 0], matrix[i, 1], matrix[i, 2])


@_inner
def _mix(a, x, b, y):
    """a x + b y for scalars a, b and vectors x, y."""
    return (a * x[0] + b * y[0], a * x[1] + b * y[1], a * x[2] + b * y[2])


@_inner
def _basis(d, out):
    """Spherical harmonics of the unit direction d, as many as ``out`` holds."""
    x, y, z = d
    out[0] = _C0
    if out.shape[0] > 1:
        out[1], out[2], out[3] = -_C1 * y, _C1 * z, -_C1 * x
    if out.shape[0] > 4:
        xx, yy, zz = x * x, y * y, z * z
        out[4], out[5], out[6] = _C20 * x * y, -_C20 * y * z, _C22 * (_TWO * zz - xx - yy)
        out[7], out[8] = -_C20 * x * z, _C24 * (xx - yy)
        if out.shape[0] > 9:
            three, four = f4(3.0), f4(4.0)
            out[9], out[10] = -_C30 * y * (three * xx - yy), _C31 * x * y * z
            out[11], out[12] = -_C32 * y * (four * zz - xx - yy), _C33 * z * (_TWO * zz - three * (xx + yy))
            out[13], out[14] = -_C32 * x * (four * zz - xx - yy), _C35 * z * (xx - yy)
            out[15] = -_C30 * x * (xx - three * yy)


@_inner
def _basis_gradient(d, p):
    """Gradient in d of the sum of p[k] times harmonic k, for d taken as three free numbers."""
    x, y, z = d
    gx, gy, gz = -_C1 * p[3], -_C1 * p[1], _C1 * p[2]
    if p.shape[0] > 4:
        gx += _C20 * (y * p[4] - z * p[7]) + _TWO * x * (_C24 * p[8] - _C22 * p[6])
        gy += _C20 * (x * p[4] - z * p[5]) - _TWO * y * (_C24 * p[8] + _C22 * p[6])
        gz += -_C20 * (y * p[5] + x * p[7]) + f4(4.0) * _C22 * z * p[6]
    if p.shape[0] > 9:
        xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
        three, four, six, eight = f4(3.0), f4(4.0), f4(6.0), f4(8.0)
        gx += -_C30 * (six * xy * p[9] + three * (xx - yy) * p[15]) + _C31 * yz * p[10] - six * _C33 * xz * p[12]
        gx += _C32 * (_TWO * xy * p[11] - (four * zz - three * xx - yy) * p[13]) + _TWO * _C35 * xz * p[14]
        gy += -_C30 * (three * (xx - yy) * p[9] - six * xy * p[15]) + _C31 * xz * p[10] - six * _C33 * yz * p[12]
        gy += _C32 * (_TWO * xy * p[13] - (four * zz - xx - three * yy) * p[11]) - _TWO * _C35 * yz * p[14]
        gz += _C31 * xy * p[10] - eight * _C32 * z * (y * p[11] + x * p[13])
        gz += _C33 * (six * zz - three * (xx + yy)) * p[12] + _C35 * (xx - yy) * p[14]
    return (gx, gy, gz)


@_inner
def _direction(mean, view):
    """Vector from the camera centre, -R' t, to a mean: its unit direction and one over its length."""
    t = (view[0, 3], view[1, 3], view[2, 3])
    d0 = mean[0] + view[0, 0] * t[0] + view[1, 0] * t[1] + view[2, 0] * t[2]
    d1 = mean[1] + view[0, 1] * t[0] + view[1, 1] * t[1] + view[2, 1] * t[2]
    d2 = mean[2] + view[0, 2] * t[0] + view[1, 2] * t[1] + view[2, 2] * t[2]
    scale = _ONE / math.sqrt(d0 * d0 + d1 * d1 + d2 * d2)
    return (d0 * scale, d1 * scale, d2 * scale), scale


@_inner
def _plane(pc, view, camera):
    """Rows of J R: how image x and y move with a world displacement; with the clamped ratios and the scales in them."""
    fx, fy, limit_x, limit_y = camera[0], camera[1], camera[4], camera[5]
    over = _ONE / pc[2]
    u = min(limit_x, max(-limit_x, pc[0] * over))
    v = min(limit_y, max(-limit_y, pc[1] * over))
    p, q = fx * over, fy * over
    axis = _row(view, 2)
    return _mix(p, _row(view, 0), -p * u, axis), _mix(q, _row(view, 1), -q * v, axis), u, v, p, q


@_inner
def _spread(t0, t1, rotation, s):
    """The 2x3 square root of the image covariance, its entries and determinant (both before dilation).

    The determinant is the squared cross product of the rows: it keeps its accuracy for needles, where the
    difference of products would cancel.
    """
    n0 = (
        t0[0] * rotation[0][0] + t0[1] * rotation[1][0] + t0[2] * rotation[2][0],
        t0[0] * rotation[0][1] + t0[1] * rotation[1][1] + t0[2] * rotation[2][1],
        t0[0] * rotation[0][2] + t0[1] * rotation[1][2] + t0[2] * rotation[2][2],
    )
    n1 = (
        t1[0] * rotation[0][0] + t1[1] * rotation[1][0] + t1[2] * rotation[2][0],
        t1[0] * rotation[0][1] + t1[1] * rotation[1][1] + t1[2] * rotation[2][1],
        t1[0] * rotation[0][2] + t1[1] * rotation[1][2] + t1[2] * rotation[2][2],
    )
    m0 = (n0[0] * s[0], n0[1] * s[1], n0[2] * s[2])
    m1 = (n1[0] * s[0], n1[1] * s[1], n1[2] * s[2])
    cx, cy, cz = m0[1] * m1[2] - m0[2] * m1[1], m0[2] * m1[0] - m0[0] * m1[2], m0[0] * m1[1] - m0[1] * m1[0]
    return n0, n1, _dot(m0, m0), _dot(m0, m1), _dot(m1, m1), cx * cx + cy * cy + cz * cz


@_inner
def _magnitude(a):
    return abs(a[0]) + abs(a[1]) + abs(a[2])


@kernel(parallel=True, fastmath=_FLAGS)
def project(splats, view, camera, limits, antialiased, size, records, bins):
    """Projects every splat into one camera.

    Args:
        splats: (means [N, 3], quats [N, 4], scales [N, 3], opacities [N], sh [N, K, 3]), float32, contiguous.
        view: [4, 4] float32, world to camera.
        camera: (fx, fy, cx, cy, limit of |x/z|, limit of |y/z|).
        limits: (near, dilation, least alpha, least squared quaternion norm, greatest variance, greatest value).
        antialiased: whether opacity pays for the dilation.
        size: (width, height).
        records: [N, RECORD], written for visible splats.
        bins: (keys [N] uint32, rects [N, 4] int16, tile_counts [N] int32), written; rects and counts only where
            the key is not that of a culled splat.
    """
    means, quats, scales, opacities, sh = splats
    keys, rects, tile_counts = bins
    near, dilation, alpha_min, quat_min, variance_max, value_max = limits
    count = means.shape[0]
    width, height = size
    for chunk in prange(CHUNKS):
        basis = np.empty(sh.shape[1], np.float32)
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            keys[i] = _CULLED
            mean, s, opacity = _row(means, i), _row(scales, i), opacities[i]
            qw, qx, qy, qz = quats[i, 0], quats[i, 1], quats[i, 2], quats[i, 3]
            pc = (
                _dot(_row(view, 0), mean) + view[0, 3],
                _dot(_row(view, 1), mean) + view[1, 3],
                _dot(_row(view, 2), mean) + view[2, 3],
            )
            norm2 = qw * qw + qx * qx + qy * qy + qz * qz
            # Every test is written so that a NaN fails it.
            if not (pc[2] > near and opacity >= alpha_min and opacity <= value_max and _magnitude(mean) <= value_max):
                continue
            if not (norm2 >= quat_min and norm2 <= value_max and _magnitude(s) <= value_max):
                continue
            scale = _ONE / math.sqrt(norm2)
            t0, t1, _, _, p, q = _plane(pc, view, camera)
            rotation = _rotation(qw * scale, qx * scale, qy * scale, qz * scale)
            _, _, ca, cb, cc, before = _spread(t0, t1, rotation, s)
            if not (ca <= variance_max and cc <= variance_max):
                continue
            det = before + dilation * (ca + cc + dilation)
            ca, cc = ca + dilation, cc + dilation
            if antialiased:
                opacity *= math.sqrt(before / det)
                if not opacity >= alpha_min:
                    continue
            mx, my = p * pc[0] + camera[2], q * pc[1] + camera[3]
            reach = math.sqrt(max(_TWO * math.log(opacity / alpha_min), f4(0.0)))
            ex, ey = reach * math.sqrt(ca), reach * math.sqrt(cc)
            if not (mx + ex > f4(0.0) and mx - ex < f4(width) and my + ey > f4(0.0) and my - ey < f4(height)):
                continue
            if sh.shape[1] > 1:
                direction, _ = _direction(mean, view)
                _basis(direction, basis)
            else:
                basis[0] = _C0
            red, green, blue = _HALF, _HALF, _HALF
            for k in range(sh.shape[1]):
                red += basis[k] * sh[i, k, 0]
                green += basis[k] * sh[i, k, 1]
                blue += basis[k] * sh[i, k, 2]
            if not _magnitude((red, green, blue)) <= value_max:
                continue
            # A pixel belongs to the splat if its centre does; centres lie half a pixel in.
            x0 = max(0, math.ceil(mx - ex - _HALF)) // TILE
            y0 = max(0, math.ceil(my - ey - _HALF)) // TILE
            x1 = min(width - 1, math.floor(mx + ex - _HALF)) // TILE
            y1 = min(height - 1, math.floor(my + ey - _HALF)) // TILE
            if x1 < x0 or y1 < y0:
                continue
            scale = -_HALF * _LOG2E / det
            record = records[i]
            record[MX], record[MY] = mx, my
            record[A], record[B], record[C] = cc * scale, -_TWO * cb * scale, ca * scale
            record[LOG2_OPACITY] = math.log2(opacity)
            record[RED], record[GREEN], record[BLUE] = max(red, f4(0.0)), max(green, f4(0.0)), max(blue, f4(0.0))
            record[DEPTH] = pc[2]
            record[KX], record[KY] = cb / cc, cb / ca
            rects[i, 0], rects[i, 1], rects[i, 2], rects[i, 3] = x0, y0, x1, y1
            tile_counts[i] = (x1 - x0 + 1) * (y1 - y0 + 1)
            keys[i] = f4(pc[2]).view(np.uint32)


@kernel(parallel=True, fastmath=_FLAGS)
def project_gradient(splats, view, camera, limits, flags, records, slots, gradients):
    """Sums every splat's slots and carries them back to its attributes and to the camera's pose.

    Args:
        splats, view, camera, limits, records: as in :func:`project`.
        flags: (antialiased, add to the gradients instead of setting them, pose gradient wanted).
        slots: (keys [N], bases [N + 1], sums [slots, SLOT]).
        gradients: (means, quats, scales, opacities, sh, pose [CHUNKS, 3, 4] float64), written; pose partial sums only
            where wanted.
    """
    means, quats, scales, opacities, sh = splats
    keys, bases, sums = slots
    g_means, g_quats, g_scales, g_opacities, g_sh, g_pose = gradients
    antialiased, add, pose = flags
    dilation = limits[1]
    count = means.shape[0]
    for chunk in prange(CHUNKS):
        rows = (_row(view, 0), _row(view, 1), _row(view, 2))
        basis = np.empty(sh.shape[1], np.float32)
        along = np.empty(sh.shape[1], np.float32)
        basis[0] = _C0
        if pose:
            g_pose[chunk] = 0.0
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            if not add:
                g_means[i], g_quats[i], g_scales[i], g_opacities[i], g_sh[i] = f4(0), f4(0), f4(0), f4(0), f4(0)
            if keys[i] == _CULLED:
                continue
            v, vx, vy, vxx, vxy, vyy = f4(0), f4(0), f4(0), f4(0), f4(0), f4(0)
            red, green, blue, g_z = f4(0), f4(0), f4(0), f4(0)
            for k in range(bases[i], bases[i + 1]):
                slot = sums[k]
                v += slot[0]
                vx += slot[1]
                vy += slot[2]
                vxx += slot[3]
                vxy += slot[4]
                vyy += slot[5]
                red += slot[6]
                green += slot[7]
                blue += slot[8]
                g_z += slot[9]
            record = records[i]
            mean, s = _row(means, i), _row(scales, i)

            # Colour: a channel that was raised to zero passes nothing on.
            red = red if record[RED] > f4(0.0) else f4(0.0)
            green = green if record[GREEN] > f4(0.0) else f4(0.0)
            blue = blue if record[BLUE] > f4(0.0) else f4(0.0)
            g_mean = (f4(0.0), f4(0.0), f4(0.0))
            if sh.shape[1] > 1:
                direction, over = _direction(mean, view)
                _basis(direction, basis)
                for k in range(sh.shape[1]):
                    along[k] = red * sh[i, k, 0] + green * sh[i, k, 1] + blue * sh[i, k, 2]
                g = _basis_gradient(direction, along)
                g_mean = _mix(over, g, -over * _dot(g, direction), direction)
            for k in range(sh.shape[1]):
                g_sh[i, k, 0] += basis[k] * red
                g_sh[i, k, 1] += basis[k] * green
                g_sh[i, k, 2] += basis[k] * blue

            # Conic to image covariance: -conic G conic. (g00, g01, g11) is a symmetric matrix.
            a, b, c = -_TWO * _LN2 * record[A], -_LN2 * record[B], -_TWO * _LN2 * record[C]
            p0, p1 = a * vxx + b * vxy, a * vxy + b * vyy
            q0, q1 = b * vxx + c * vxy, b * vxy + c * vyy
            g00, g01, g11 = _HALF * (p0 * a + p1 * b), _HALF * (p0 * b + p1 * c), _HALF * (q0 * b + q1 * c)

            pc = (_dot(rows[0], mean) + view[0, 3], _dot(rows[1], mean) + view[1, 3], _dot(rows[2], mean) + view[2, 3])
            qw, qx, qy, qz = quats[i, 0], quats[i, 1], quats[i, 2], quats[i, 3]
            scale = _ONE / math.sqrt(qw * qw + qx * qx + qy * qy + qz * qz)
            qw, qx, qy, qz = qw * scale, qx * scale, qy * scale, qz * scale
            t0, t1, u, w, p, q = _plane(pc, view, camera)
            rotation = _rotation(qw, qx, qy, qz)
            n0, n1, ca, cb, cc, before = _spread(t0, t1, rotation, s)
            g_opacities[i] += v / opacities[i]
            if antialiased:
                # v is also the gradient in log(compensation), half the difference of the log determinants.
                after = before + dilation * (ca + cc + dilation)
                h0, h1 = _HALF * v / before, _HALF * v / after
                g00 += h0 * cc - h1 * (cc + dilation)
                g11 += h0 * ca - h1 * (ca + dilation)
                g01 -= (h0 - h1) * cb

            # Square root of the covariance, n scaled by s: to scales, rotation and the rows of J R.
            w0 = (
                _TWO * (g00 * n0[0] + g01 * n1[0]),
                _TWO * (g00 * n0[1] + g01 * n1[1]),
                _TWO * (g00 * n0[2] + g01 * n1[2]),
            )
            w1 = (
                _TWO * (g01 * n0[0] + g11 * n1[0]),
                _TWO * (g01 * n0[1] + g11 * n1[1]),
                _TWO * (g01 * n0[2] + g11 * n1[2]),
            )
            g_scales[i, 0] += s[0] * (w0[0] * n0[0] + w1[0] * n1[0])
            g_scales[i, 1] += s[1] * (w0[1] * n0[1] + w1[1] * n1[1])
            g_scales[i, 2] += s[2] * (w0[2] * n0[2] + w1[2] * n1[2])
            w0 = (w0[0] * s[0] * s[0], w0[1] * s[1] * s[1], w0[2] * s[2] * s[2])
            w1 = (w1[0] * s[0] * s[0], w1[1] * s[1] * s[1], w1[2] * s[2] * s[2])
            e0 = (_dot(rotation[0], w0), _dot(rotation[1], w0), _dot(rotation[2], w0))
            e1 = (_dot(rotation[0], w1), _dot(rotation[1], w1), _dot(rotation[2], w1))
            r0, r1, r2 = _mix(t0[0], w0, t1[0], w1), _mix(t0[1], w0, t1[1], w1), _mix(t0[2], w0, t1[2], w1)

            gw = _TWO * (qx * (r2[1] - r1[2]) + qy * (r0[2] - r2[0]) + qz * (r1[0] - r0[1]))
            gx = _TWO * (
                qy * (r0[1] + r1[0]) + qz * (r0[2] + r2[0]) + qw * (r2[1] - r1[2]) - _TWO * qx * (r1[1] + r2[2])
            )
            gy = _TWO * (
                qx * (r0[1] + r1[0]) + qz * (r1[2] + r2[1]) + qw * (r0[2] - r2[0]) - _TWO * qy * (r0[0] + r2[2])
            )
            gz = _TWO * (
                qx * (r0[2] + r2[0]) + qy * (r1[2] + r2[1]) + qw * (r1[0] - r0[1]) - _TWO * qz * (r0[0] + r1[1])
            )
            radial = gw * qw + gx * qx + gy * qy + gz * qz
            g_quats[i, 0] += (gw - radial * qw) * scale
            g_quats[i, 1] += (gx - radial * qx) * scale
            g_quats[i, 2] += (gy - radial * qy) * scale
            g_quats[i, 3] += (gz - radial * qz) * scale

            # Camera coordinates: through the projected centre, the ratios (unless clamped) and one over z.
            g_mx, g_my = a * vx + b * vy, b * vx + c * vy
            e0_axis, e1_axis = _dot(e0, rows[2]), _dot(e1, rows[2])
            over = _ONE / pc[2]
            g_over = camera[0] * (_dot(e0, rows[0]) - u * e0_axis + g_mx * pc[0])
            g_over += camera[1] * (_dot(e1, rows[1]) - w * e1_axis + g_my * pc[1])
            g_x, g_y = g_mx * p, g_my * q
            if abs(pc[0] * over) <= camera[4]:
                g_x -= p * e0_axis * over
                g_over -= p * e0_axis * pc[0]
            if abs(pc[1] * over) <= camera[5]:
                g_y -= q * e1_axis * over
                g_over -= q * e1_axis * pc[1]
            g_pc = (g_x, g_y, g_z - over * over * g_over)
            for k in range(3):
                g_means[i, k] += g_mean[k] + rows[0][k] * g_pc[0] + rows[1][k] * g_pc[1] + rows[2][k] * g_pc[2]
            if pose:
                out = g_pose[chunk]
                for k in range(3):
                    out[0, k] += g_pc[0] * mean[k] + view[0, 3] * g_mean[k] + p * e0[k]
                    out[1, k] += g_pc[1] * mean[k] + view[1, 3] * g_mean[k] + q * e1[k]
                    out[2, k] += g_pc[2] * mean[k] + view[2, 3] * g_mean[k] - p * u * e0[k] - q * w * e1[k]
                    out[k, 3] += g_pc[k] + _dot(rows[k], g_mean)
