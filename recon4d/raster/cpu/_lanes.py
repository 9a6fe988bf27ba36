"""Sixteen splats at once onto the image plane: vector code for the kernels of :mod:`recon4d.raster.cpu._frames`.

A rigid body's splats are drawn where they are in its own frame by a camera whose view matrix has the body's pose in it:
means, covariances and the directions that harmonics are seen from all come out as if the splats had been moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils

from recon4d.geometry import SH_C0, SH_C1, SH_C2, SH_C3
from recon4d.raster.cpu._tiles import (
    _I32,
    _INT,
    _VEC,
    LANES,
    RED,
    ROW,
    SUMS,
    T,
    _bits,
    _block_address,
    _constant,
    _EachBit,
    _load_row,
    _meet,
    _pointer,
    _Splat,
    _splat,
    _store_row,
    _Vec,
)

MEAN, AXES, OPACITY, SHADE = 0, 3, 12, 13
"""Rows of a table of splats: centre; rotation times scales, by rows; log2 of the opacity; harmonics, by coefficient."""
AWAY = 12
"""Place in a view, after the 3x4 matrix, of minus the camera's centre in the splats' frame."""
FX, FY, CX, CY, LIMIT_X, LIMIT_Y, WIDTH, HEIGHT, NEAR, DILATION, VARIANCE, CUT, ANTIALIASED = range(13)
"""Places in a lens."""
BODY, FIRST, LAST = 12, 13, 14
"""Columns of a record behind those that blending reads: the splat's body; and, as whole numbers, the first and the last
block of 4x4 pixels that it touches, x + 2^16 y."""
BLOCK_BITS = 2

_LN2 = math.log(2.0)


def _intrinsic(function: Callable) -> Any:
    return numba.extending.intrinsic(function)


def _call(value: _Vec, name: str) -> _Vec:
    function = cgutils.get_or_insert_function(
        value.builder.module, ir.FunctionType(_VEC, [_VEC]), f"llvm.{name}.v16f32"
    )
    return _Vec(value.builder, value.builder.call(function, [value.value]))


def _scalars(builder: Any, address: Any, count: int) -> list[_Vec]:
    """Numbers in memory, each in all lanes."""
    kind = ir.FloatType()
    return [_splat(builder, builder.load(_pointer(builder, address, 4 * i, kind), align=4)) for i in range(count)]


def _dot(a: list[_Vec], b: list[_Vec]) -> _Vec:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _column(builder: Any, table: Any, row: int) -> _Vec:
    return _Vec(builder, builder.load(_pointer(builder, table, row * ROW, _VEC), align=4))


def _log2(value: _Vec) -> _Vec:
    """log2 of positive normal numbers, to about 1e-7; rubbish in other lanes."""
    builder = value.builder
    bits = builder.bitcast(value.value, _INT)
    # The mantissa is taken from [sqrt(1/2), sqrt(2)), where the series below converges best.
    moved = builder.sub(bits, ir.Constant(_INT, [0x3F3504F3] * LANES))
    whole = builder.ashr(moved, ir.Constant(_INT, [23] * LANES))
    mantissa = _Vec(
        builder, builder.bitcast(builder.sub(bits, builder.shl(whole, ir.Constant(_INT, [23] * LANES))), _VEC)
    )
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = (((square * (1 / 9) + 1 / 7) * square + 1 / 5) * square + 1 / 3) * square + 1.0
    return s * series * (2 / _LN2) + _Vec(builder, builder.sitofp(whole, _VEC))


def _touched(centre: _Vec, reach: _Vec, size: _Vec) -> tuple[_Vec, _Vec]:
    """First and last pixel along an axis whose centre is within reach; last < first for none."""
    first = _call(centre - reach - 0.5, "ceil").maximum(0.0).minimum(size)
    last = _call(centre + reach - 0.5, "floor").minimum(size - 1.0).maximum(-1.0)
    return first, last


@_intrinsic
def project_lanes(typing, table, view, lens, out):
    """Projects 16 splats of a table, which lie row behind row at an address.

    Writes the columns of their records but for colours, and the blocks that they touch, as rows at ``out``; returns
    one bit a splat: whether it is drawn. What already shows before projection is not asked: tables hold such splats
    as transparent.
    """

    def generate(context, builder, signature, args):
        table, view, lens, out = args
        v, k = _scalars(builder, view, 12), _scalars(builder, lens, ANTIALIASED + 1)
        rows = [v[0:3], v[4:7], v[8:11]]
        mean = [_column(builder, table, MEAN + i) for i in range(3)]
        x, y, z = (_dot(rows[i], mean) + v[4 * i + 3] for i in range(3))
        one = _Vec(builder, _constant([1.0] * LANES))
        zero = _Vec(builder, _constant([0.0] * LANES))
        over = one / z
        u = (x * over).minimum(k[LIMIT_X]).maximum(zero - k[LIMIT_X])
        w = (y * over).minimum(k[LIMIT_Y]).maximum(zero - k[LIMIT_Y])
        p, q = k[FX] * over, k[FY] * over
        t0 = [p * (rows[0][i] - u * rows[2][i]) for i in range(3)]
        t1 = [q * (rows[1][i] - w * rows[2][i]) for i in range(3)]
        axes = [[_column(builder, table, AXES + 3 * i + j) for i in range(3)] for j in range(3)]
        m0, m1 = [_dot(t0, axis) for axis in axes], [_dot(t1, axis) for axis in axes]
        cross = [m0[i - 2] * m1[i - 1] - m0[i - 1] * m1[i - 2] for i in range(3)]
        before, ca, cb, cc = _dot(cross, cross), _dot(m0, m0), _dot(m0, m1), _dot(m1, m1)
        drawn = builder.and_(z.compare(">", k[NEAR]), ca.compare("<=", k[VARIANCE]))
        drawn = builder.and_(drawn, cc.compare("<=", k[VARIANCE]))
        det = before + k[DILATION] * (ca + cc + k[DILATION])
        ca, cc = ca + k[DILATION], cc + k[DILATION]
        pays = _log2((before / det).maximum(1e-12)) * 0.5
        opacity = _column(builder, table, OPACITY)
        opacity = opacity + pays.where(k[ANTIALIASED].compare(">", 0.0), 0.0)
        drawn = builder.and_(drawn, opacity.compare(">=", k[CUT]))
        reach = _call(((opacity - k[CUT]) * (2 * _LN2)).maximum(0.0), "sqrt")
        mx, my = p * x + k[CX], q * y + k[CY]
        x0, x1 = _touched(mx, reach * _call(ca, "sqrt"), k[WIDTH])
        y0, y1 = _touched(my, reach * _call(cc, "sqrt"), k[HEIGHT])
        drawn = builder.and_(drawn, builder.and_(x1.compare(">=", x0), y1.compare(">=", y0)))
        scale = one * (-0.5 / _LN2) / det
        record = [mx, my, cc * scale, cb * scale * -2.0, ca * scale, opacity, zero, zero, zero, z, cb / cc, cb / ca]
        for row, value in enumerate(record):
            _store_row(builder, out, row, value)
        for column, x, y in ((FIRST, x0, y0), (LAST, x1, y1)):
            blocks = [
                builder.ashr(builder.fptosi(value.value, _INT), ir.Constant(_INT, [BLOCK_BITS] * LANES))
                for value in (x, y)
            ]
            both = builder.or_(blocks[0], builder.shl(blocks[1], ir.Constant(_INT, [16] * LANES)))
            _store_row(builder, out, column, _Vec(builder, builder.bitcast(both, _VEC)))
        return _bits(builder, drawn)

    return types.uint32(*[types.intp] * 4), generate


def _harmonics(d: list[_Vec], degree: int) -> list[_Vec]:
    """Real spherical harmonics of unit directions but for the constant one."""
    x, y, z = d
    basis = [y * -SH_C1, z * SH_C1, x * -SH_C1] if degree > 0 else []
    if degree > 1:
        xx, yy, zz = x * x, y * y, z * z
        c = SH_C2
        basis += [x * y * c[0], y * z * c[1], (zz * 2.0 - xx - yy) * c[2], x * z * c[3], (xx - yy) * c[4]]
        if degree > 2:
            c = SH_C3
            far = zz * 4.0 - xx - yy
            basis += [
                y * (xx * 3.0 - yy) * c[0],
                x * y * z * c[1],
                y * far * c[2],
                z * (zz * 2.0 - xx * 3.0 - yy * 3.0) * c[3],
                x * far * c[4],
                z * (xx - yy) * c[5],
                x * (xx - yy * 3.0) * c[6],
            ]
    return basis


def _shade(degree: int) -> Any:
    """Makes the intrinsic that writes the colours of 16 splats as rows at ``out``."""

    @_intrinsic
    def shade(typing, table, view, out):
        def generate(context, builder, signature, args):
            table, view, out = args
            basis = [_Vec(builder, _constant([SH_C0] * LANES))]
            if degree > 0:
                away = _scalars(builder, view, AWAY + 3)[AWAY:]
                d = [_column(builder, table, MEAN + i) + away[i] for i in range(3)]
                length = _call(_dot(d, d), "sqrt")
                basis += _harmonics([value / length for value in d], degree)
            for channel in range(3):
                total = _Vec(builder, _constant([0.5] * LANES))
                for k, value in enumerate(basis):
                    total = total + value * _column(builder, table, SHADE + 3 * k + channel)
                _store_row(builder, out, RED + channel, total.maximum(0.0))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 3), generate

    return shade


shade_0, shade_1, shade_2, shade_3 = (_shade(degree) for degree in range(4))


@_intrinsic
def turn_records(typing, out, body):
    """Turns the 16 rows at ``out``, a row a column, into 16 records, one behind another, and tells them their body."""

    def generate(context, builder, signature, args):
        out, body = args
        rows = [_load_row(builder, out, row).value for row in range(LANES)]
        rows[BODY] = _splat(builder, body).value
        half = LANES // 2
        while half:
            # Of each pair of rows so far apart, the blocks off the diagonal change places.
            low = [lane if lane & half == 0 else LANES + lane - half for lane in range(LANES)]
            high = [lane + half if lane & half == 0 else LANES + lane for lane in range(LANES)]
            for i in (i for i in range(LANES) if i & half == 0):
                a, b = rows[i], rows[i + half]
                rows[i] = builder.shuffle_vector(a, b, ir.Constant(_INT, low))
                rows[i + half] = builder.shuffle_vector(a, b, ir.Constant(_INT, high))
            half //= 2
        for row, value in enumerate(rows):
            _store_row(builder, out, row, _Vec(builder, value))
        return context.get_dummy_value()

    return types.void(types.intp, types.float32), generate


@_intrinsic
def copy_record(typing, source, target):
    """Copies one record; both addresses are multiples of its size."""

    def generate(context, builder, signature, args):
        _store_row(builder, args[1], 0, _load_row(builder, args[0], 0))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@_intrinsic
def composite_body(typing, state, record, x0, y0, blocks, weights, cut, top, end):
    """Blends one splat, rgb and depth, into some blocks of a tile, and adds its weight to its body's, a vector a block.
    Returns the blocks where it is drawn."""

    def generate(context, builder, signature, args):
        state, record, x0, y0, blocks, weights = args[:6]
        cut, top, end = (_splat(builder, value) for value in args[6:])
        splat = _Splat(builder, record, x0, y0)
        loop = _EachBit(builder, blocks, [ir.Constant(_I32, 0)])
        block = _block_address(builder, state, loop.index)
        own = builder.add(weights, builder.mul(builder.zext(loop.index, weights.type), ir.Constant(weights.type, ROW)))
        _, _, alpha, before, drawn = _meet(builder, splat, block, cut)
        weight = (alpha.minimum(top) * before).where(drawn, 0.0)
        after = before - weight
        goes_on = after.compare(">", end)
        weight = weight.where(goes_on, 0.0)
        _store_row(builder, block, T, after.where(goes_on, before.ended()))
        for channel in range(4):
            row = SUMS + channel
            _store_row(builder, block, row, _load_row(builder, block, row) + weight * splat.column[RED + channel])
        _store_row(builder, own, 0, _load_row(builder, own, 0) + weight)
        hit = builder.icmp_unsigned("!=", _bits(builder, drawn), ir.Constant(_I32, 0))
        bit = builder.shl(builder.zext(hit, _I32), loop.index)
        loop.next([builder.or_(loop.carried[0], bit)])
        return loop.carried[0]

    arguments = [*[types.intp] * 2, *[types.float32] * 2, types.uint32, types.intp, *[types.float32] * 3]
    return types.uint32(*arguments), generate
