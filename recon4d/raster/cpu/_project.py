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
    return njit(function, fastmath=_FLAGS, error_model="numpy", nogil=True, forceinline=True)


@_inner
def _rotation(unit):
    w, x, y, z = unit
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
def _apply(m, x):
    """The matrix m times the column x."""
    return (_dot(m[0], x), _dot(m[1], x), _dot(m[2], x))


@_inner
def _times(x, m):
    """The row x times the matrix m."""
    return (
        x[0] * m[0][0] + x[1] * m[1][0] + x[2] * m[2][0],
        x[0] * m[0][1] + x[1] * m[1][1] + x[2] * m[2][1],
        x[0] * m[0][2] + x[1] * m[1][2] + x[2] * m[2][2],
    )


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
    away = _times((view[0, 3], view[1, 3], view[2, 3]), (_row(view, 0), _row(view, 1), _row(view, 2)))
    d0, d1, d2 = mean[0] + away[0], mean[1] + away[1], mean[2] + away[2]
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
    n0, n1 = _times(t0, rotation), _times(t1, rotation)
    m0 = (n0[0] * s[0], n0[1] * s[1], n0[2] * s[2])
    m1 = (n1[0] * s[0], n1[1] * s[1], n1[2] * s[2])
    cx, cy, cz = m0[1] * m1[2] - m0[2] * m1[1], m0[2] * m1[0] - m0[0] * m1[2], m0[0] * m1[1] - m0[1] * m1[0]
    return n0, n1, _dot(m0, m0), _dot(m0, m1), _dot(m1, m1), cx * cx + cy * cy + cz * cz


@_inner
def _magnitude(a):
    return abs(a[0]) + abs(a[1]) + abs(a[2])


@_inner
def _to_camera(mean, view):
    x, y, z = _apply((_row(view, 0), _row(view, 1), _row(view, 2)), mean)
    return (x + view[0, 3], y + view[1, 3], z + view[2, 3])


@_inner
def _unit_quat(quats, i):
    """The unit quaternion, and one over the length of the given one."""
    w, x, y, z = quats[i, 0], quats[i, 1], quats[i, 2], quats[i, 3]
    scale = _ONE / math.sqrt(w * w + x * x + y * y + z * z)
    return (w * scale, x * scale, y * scale, z * scale), scale


@_inner
def _drawable(pc, mean, s, opacity, norm2, limits):
    """What shows before projection. Every test is written so that a NaN fails it."""
    near, _, alpha_min, quat_min, _, value_max = limits
    if not (pc[2] > near and opacity >= alpha_min and opacity <= value_max and _magnitude(mean) <= value_max):
        return False
    return norm2 >= quat_min and norm2 <= value_max and _magnitude(s) <= value_max


@_inner
def _colour(i, mean, view, sh, basis):
    """Colour before it is raised to zero; fills ``basis``."""
    basis[0] = _C0
    if sh.shape[1] > 1:
        _basis(_direction(mean, view)[0], basis)
    red, green, blue = _HALF, _HALF, _HALF
    for k in range(sh.shape[1]):
        red += basis[k] * sh[i, k, 0]
        green += basis[k] * sh[i, k, 1]
        blue += basis[k] * sh[i, k, 2]
    return (red, green, blue)


@_inner
def _touched_tiles(center, reach, size):
    """First and last tile (ends included) with a pixel centre within reach, along one axis; last < first for none."""
    first = max(0, math.ceil(center - reach - _HALF)) // TILE
    return first, min(size - 1, math.floor(center + reach - _HALF)) // TILE


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
    dilation, alpha_min, variance_max, value_max = limits[1], limits[2], limits[4], limits[5]
    count = means.shape[0]
    for chunk in prange(CHUNKS):
        basis = np.empty(sh.shape[1], np.float32)
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            keys[i] = _CULLED
            mean, s, opacity = _row(means, i), _row(scales, i), opacities[i]
            pc = _to_camera(mean, view)
            norm2 = quats[i, 0] ** 2 + quats[i, 1] ** 2 + quats[i, 2] ** 2 + quats[i, 3] ** 2
            if not _drawable(pc, mean, s, opacity, norm2, limits):
                continue
            t0, t1, _, _, p, q = _plane(pc, view, camera)
            _, _, ca, cb, cc, before = _spread(t0, t1, _rotation(_unit_quat(quats, i)[0]), s)
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
            if not (mx + ex > f4(0) and mx - ex < f4(size[0]) and my + ey > f4(0) and my - ey < f4(size[1])):
                continue
            colour = _colour(i, mean, view, sh, basis)
            x0, x1 = _touched_tiles(mx, ex, size[0])
            y0, y1 = _touched_tiles(my, ey, size[1])
            if x1 < x0 or y1 < y0 or not _magnitude(colour) <= value_max:
                continue
            scale = -_HALF * _LOG2E / det
            record = records[i]
            record[MX], record[MY] = mx, my
            record[A], record[B], record[C] = cc * scale, -_TWO * cb * scale, ca * scale
            record[LOG2_OPACITY] = math.log2(opacity)
            record[RED], record[GREEN] = max(colour[0], f4(0)), max(colour[1], f4(0))
            record[BLUE], record[DEPTH] = max(colour[2], f4(0)), pc[2]
            record[KX], record[KY] = cb / cc, cb / ca
            rects[i, 0], rects[i, 1], rects[i, 2], rects[i, 3] = x0, y0, x1, y1
            tile_counts[i] = (x1 - x0 + 1) * (y1 - y0 + 1)
            keys[i] = f4(pc[2]).view(np.uint32)


@_inner
def _sum_slots(sums, start, stop):
    """A splat's moments (v, vx, vy, vxx, vxy, vyy), gradient in colour, and in camera-z by way of depth."""
    v, vx, vy, vxx, vxy, vyy = f4(0), f4(0), f4(0), f4(0), f4(0), f4(0)
    red, green, blue, z = f4(0), f4(0), f4(0), f4(0)
    for k in range(start, stop):
        slot = sums[k]
        v, vx, vy = v + slot[0], vx + slot[1], vy + slot[2]
        vxx, vxy, vyy = vxx + slot[3], vxy + slot[4], vyy + slot[5]
        red, green, blue, z = red + slot[6], green + slot[7], blue + slot[8], z + slot[9]
    return (v, vx, vy, vxx, vxy, vyy), (red, green, blue), z


@_inner
def _colour_gradient(i, mean, view, sh, g_colour, g_sh, basis, along):
    """Adds the gradient in the harmonics; returns that in the mean, by way of the viewing direction."""
    g_mean = (f4(0), f4(0), f4(0))
    if sh.shape[1] > 1:
        direction, over = _direction(mean, view)
        _basis(direction, basis)
        for k in range(sh.shape[1]):
            along[k] = _dot(g_colour, (sh[i, k, 0], sh[i, k, 1], sh[i, k, 2]))
        g = _basis_gradient(direction, along)
        g_mean = _mix(over, g, -over * _dot(g, direction), direction)
    for k in range(sh.shape[1]):
        g_sh[i, k, 0] += basis[k] * g_colour[0]
        g_sh[i, k, 1] += basis[k] * g_colour[1]
        g_sh[i, k, 2] += basis[k] * g_colour[2]
    return g_mean


@_inner
def _covariance_gradient(conic, moments, covariance, dilation, antialiased):
    """Gradient (xx, xy, yy of a symmetric matrix) in the image covariance: -conic G conic, and by way of opacity."""
    a, b, c = conic
    v, _, _, vxx, vxy, vyy = moments
    p0, p1 = a * vxx + b * vxy, a * vxy + b * vyy
    q0, q1 = b * vxx + c * vxy, b * vxy + c * vyy
    xx, xy, yy = _HALF * (p0 * a + p1 * b), _HALF * (p0 * b + p1 * c), _HALF * (q0 * b + q1 * c)
    if antialiased:
        # v is also the gradient in log(compensation), half the difference of the log determinants.
        ca, cb, cc, before = covariance
        h0, h1 = _HALF * v / before, _HALF * v / (before + dilation * (ca + cc + dilation))
        xx += h0 * cc - h1 * (cc + dilation)
        yy += h0 * ca - h1 * (ca + dilation)
        xy -= (h0 - h1) * cb
    return (xx, xy, yy)


@_inner
def _quat_gradient(unit, scale, r0, r1, r2):
    """From the gradient in a rotation's rows to that in the quaternion before it was normalised."""
    w, x, y, z = unit
    gw = _TWO * (x * (r2[1] - r1[2]) + y * (r0[2] - r2[0]) + z * (r1[0] - r0[1]))
    gx = _TWO * (y * (r0[1] + r1[0]) + z * (r0[2] + r2[0]) + w * (r2[1] - r1[2]) - _TWO * x * (r1[1] + r2[2]))
    gy = _TWO * (x * (r0[1] + r1[0]) + z * (r1[2] + r2[1]) + w * (r0[2] - r2[0]) - _TWO * y * (r0[0] + r2[2]))
    gz = _TWO * (x * (r0[2] + r2[0]) + y * (r1[2] + r2[1]) + w * (r1[0] - r0[1]) - _TWO * z * (r0[0] + r1[1]))
    radial = gw * w + gx * x + gy * y + gz * z
    return ((gw - radial * w) * scale, (gx - radial * x) * scale, (gy - radial * y) * scale, (gz - radial * z) * scale)


@_inner
def _center_gradient(pc, view, camera, plane, e0, e1, g_image):
    """Gradient in camera coordinates: by way of the image centre, the ratios (unless clamped) and one over z."""
    _, _, u, w, p, q = plane
    axis0, axis1 = _dot(e0, _row(view, 2)), _dot(e1, _row(view, 2))
    over = _ONE / pc[2]
    g_over = camera[0] * (_dot(e0, _row(view, 0)) - u * axis0 + g_image[0] * pc[0])
    g_over += camera[1] * (_dot(e1, _row(view, 1)) - w * axis1 + g_image[1] * pc[1])
    gx, gy = g_image[0] * p, g_image[1] * q
    if abs(pc[0] * over) <= camera[4]:
        gx -= p * axis0 * over
        g_over -= p * axis0 * pc[0]
    if abs(pc[1] * over) <= camera[5]:
        gy -= q * axis1 * over
        g_over -= q * axis1 * pc[1]
    return (gx, gy, -over * over * g_over)


@_inner
def _add_pose(out, view, mean, g_pc, g_mean, plane, e0, e1):
    """Adds one splat's gradient in the view matrix, of which the viewing direction is a function as well."""
    _, _, u, w, p, q = plane
    for k in range(3):
        out[0, k] += g_pc[0] * mean[k] + view[0, 3] * g_mean[k] + p * e0[k]
        out[1, k] += g_pc[1] * mean[k] + view[1, 3] * g_mean[k] + q * e1[k]
        out[2, k] += g_pc[2] * mean[k] + view[2, 3] * g_mean[k] - p * u * e0[k] - q * w * e1[k]
        out[k, 3] += g_pc[k] + _dot(_row(view, k), g_mean)


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
    count = means.shape[0]
    for chunk in prange(CHUNKS):
        basis, along = np.empty(sh.shape[1], np.float32), np.empty(sh.shape[1], np.float32)
        basis[0] = _C0
        if pose:
            g_pose[chunk] = 0.0
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            if not add:
                g_means[i], g_quats[i], g_scales[i], g_opacities[i], g_sh[i] = f4(0), f4(0), f4(0), f4(0), f4(0)
            if keys[i] == _CULLED:
                continue
            record, mean, s = records[i], _row(means, i), _row(scales, i)
            moments, colour, g_depth = _sum_slots(sums, bases[i], bases[i + 1])
            # A channel that was raised to zero passes nothing on.
            red = colour[0] if record[RED] > f4(0) else f4(0)
            green = colour[1] if record[GREEN] > f4(0) else f4(0)
            blue = colour[2] if record[BLUE] > f4(0) else f4(0)
            g_mean = _colour_gradient(i, mean, view, sh, (red, green, blue), g_sh, basis, along)
            g_opacities[i] += moments[0] / opacities[i]

            pc = _to_camera(mean, view)
            unit, scale = _unit_quat(quats, i)
            rotation, plane = _rotation(unit), _plane(pc, view, camera)
            t0, t1 = plane[0], plane[1]
            n0, n1, ca, cb, cc, before = _spread(t0, t1, rotation, s)
            a, b, c = -_TWO * _LN2 * record[A], -_LN2 * record[B], -_TWO * _LN2 * record[C]
            xx, xy, yy = _covariance_gradient((a, b, c), moments, (ca, cb, cc, before), limits[1], antialiased)

            # The covariance's square root is J R times the rotation times the scales.
            w0, w1 = _mix(_TWO * xx, n0, _TWO * xy, n1), _mix(_TWO * xy, n0, _TWO * yy, n1)
            g_scales[i, 0] += s[0] * (w0[0] * n0[0] + w1[0] * n1[0])
            g_scales[i, 1] += s[1] * (w0[1] * n0[1] + w1[1] * n1[1])
            g_scales[i, 2] += s[2] * (w0[2] * n0[2] + w1[2] * n1[2])
            ss = (s[0] * s[0], s[1] * s[1], s[2] * s[2])
            w0 = (w0[0] * ss[0], w0[1] * ss[1], w0[2] * ss[2])
            w1 = (w1[0] * ss[0], w1[1] * ss[1], w1[2] * ss[2])
            rows = (_mix(t0[0], w0, t1[0], w1), _mix(t0[1], w0, t1[1], w1), _mix(t0[2], w0, t1[2], w1))
            g_quat = _quat_gradient(unit, scale, rows[0], rows[1], rows[2])
            g_quats[i, 0] += g_quat[0]
            g_quats[i, 1] += g_quat[1]
            g_quats[i, 2] += g_quat[2]
            g_quats[i, 3] += g_quat[3]

            e0, e1 = _apply(rotation, w0), _apply(rotation, w1)
            g_image = (a * moments[1] + b * moments[2], b * moments[1] + c * moments[2])
            g_pc = _center_gradient(pc, view, camera, plane, e0, e1, g_image)
            g_pc = (g_pc[0], g_pc[1], g_pc[2] + g_depth)
            for k in range(3):
                g_means[i, k] += g_mean[k] + view[0, k] * g_pc[0] + view[1, k] * g_pc[1] + view[2, k] * g_pc[2]
            if pose:
                _add_pose(g_pose[chunk], view, mean, g_pc, g_mean, plane, e0, e1)
