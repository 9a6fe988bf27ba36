"""Compiled form of the image loss: loss and gradient in one pass over strips of rows.

A strip is walked downwards row by row. Each source row is blurred along x and kept in a ring of 11 rows; a ring that
is full gives one row blurred along y as well, hence the similarity there and its derivatives. Those are blurred the
same way through a second ring (the blur is its own adjoint), so that the gradient of a row is complete ten rows after
its source was read. All of it stays in a core's own cache.

Values are held minus one half: variances do not change, and cancel fewer digits. Vectors are explicit, 16 lanes of
float32, because the compiler gives up on loops over eleven rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numba.np.ufunc.parallel import get_thread_id

from recon4d.jit import kernel

_LANES = 16
_MARGIN = 16  # Floats beside a row, at least 5 pixels of 3 channels.
_SHIFT = np.float32(0.5)
_ZERO, _ONE, _HALF, _TWO = np.float32(0), np.float32(1), np.float32(0.5), np.float32(2)
_PER_LEVEL = np.float32(1 / 255)
# The SSIM of ``_terms``, said again because compiled code is cached by this file's contents alone.
_WINDOW, _C1, _C2 = 11, np.float32(0.01**2), np.float32(0.03**2)
_WEIGHTS = [math.exp(-((k - 5) ** 2) / (2 * 1.5**2)) for k in range(_WINDOW)]
_TAPS = [float(np.float32(weight / sum(_WEIGHTS))) for weight in _WEIGHTS]
_FAST = {"contract", "nsz"}


def scratch_size(row: int) -> int:
    """Floats of scratch that a thread needs for rows of that many values."""
    padded = -(-row // _LANES) * _LANES
    return 7 * (padded + 2 * _MARGIN) + _WINDOW * (3 + 4 + 3) * padded + padded


# Explicit vectors. Functions with a leading v work on 16 lanes of float32.


def _operation(code: Callable[..., Any]) -> Any:
    """Numba's ``intrinsic``, whose results take the arguments after the first: nothing a type checker knows."""
    return intrinsic(code)


class _VectorType(types.Type):
    def __init__(self) -> None:
        super().__init__("float32x16")


_vector = _VectorType()
_LLVM = ir.VectorType(ir.FloatType(), _LANES)
_FLAGS = ("contract", "nsz")


@register_model(_VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _LLVM)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Pointer to 16 floats from ``array[index]`` on."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _LLVM.as_pointer())


def _spread(builder: Any, scalar: Any) -> Any:
    """One float on all lanes."""
    undefined = ir.Constant(_LLVM, ir.Undefined)
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, lanes)


@_operation
def _vload(typing: Any, array: Any, index: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *args), align=4)

    return _vector(array, types.intp), code


@_operation
def _vstore(typing: Any, array: Any, index: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, signature.args[0], *args[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, _vector), code


@_operation
def _vall(typing: Any, scalar: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(builder, args[0])

    return _vector(types.float32), code


def _binary(name: str) -> Any:
    """An intrinsic of two vectors that is one LLVM instruction."""

    @_operation
    def operation(typing: Any, a: Any, b: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(*args, flags=_FLAGS)

        return _vector(_vector, _vector), code

    return operation


_vadd, _vsub, _vmul, _vdiv = (_binary(name) for name in ("fadd", "fsub", "fmul", "fdiv"))


@_operation
def _vfma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, fused where the machine can."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(args[0], args[1], flags=_FLAGS), args[2], flags=_FLAGS)

    return _vector(_vector, _vector, _vector), code


@_operation
def _vsign(typing: Any, a: Any) -> Any:
    """-1, 0 or 1; 0 for NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero, one, minus = (ir.Constant(_LLVM, [value] * _LANES) for value in (0.0, 1.0, -1.0))
        negative = builder.select(builder.fcmp_ordered("<", args[0], zero), minus, zero)
        return builder.select(builder.fcmp_ordered(">", args[0], zero), one, negative)

    return _vector(_vector), code


@_operation
def _vsum(typing: Any, a: Any) -> Any:
    """Sum of the lanes, in a fixed order."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, lanes = args[0], _LANES
        while lanes > 1:
            lanes //= 2
            halves = []
            for start in (0, lanes):
                mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(start, start + lanes)))
                halves.append(builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask))
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return types.float32(_vector), code


@_operation
def _vblur(typing: Any, array: Any, index: Any, offsets: Any) -> Any:
    """Weighted sum of the 11 vectors at ``array[index + offset]``, weights being the SSIM window."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values, start, steps = args
        places = [builder.add(start, step) for step in cgutils.unpack_tuple(builder, steps)]
        rows = [builder.load(_address(context, builder, signature.args[0], values, place), align=4) for place in places]
        half = _WINDOW // 2
        taps = [ir.Constant(_LLVM, [tap] * _LANES) for tap in _TAPS]
        total = builder.fmul(taps[half], rows[half], flags=_FLAGS)
        for k in range(half):
            pair = builder.fadd(rows[k], rows[-1 - k], flags=_FLAGS)
            total = builder.fadd(builder.fmul(taps[k], pair, flags=_FLAGS), total, flags=_FLAGS)
        return total

    return _vector(array, types.intp, types.UniTuple(types.intp, _WINDOW)), code


# The pass itself. "a" is the rendering and "b" the target, both minus one half; rows are x-major, channel-minor.

_ALONG_X = (-15, -12, -9, -6, -3, 0, 3, 6, 9, 12, 15)


@kernel(fastmath=_FAST)
def _padded(row):
    """Row length rounded up to whole vectors."""
    return (row + _LANES - 1) // _LANES * _LANES


@kernel(fastmath=_FAST)
def _ring_offsets(first, stride):
    """Where rows first .. first + 10 lie in a ring of rows ``stride`` apart."""
    s = first + _WINDOW  # Rows above the image have negative numbers.
    return (
        s % _WINDOW * stride,
        (s + 1) % _WINDOW * stride,
        (s + 2) % _WINDOW * stride,
        (s + 3) % _WINDOW * stride,
        (s + 4) % _WINDOW * stride,
        (s + 5) % _WINDOW * stride,
        (s + 6) % _WINDOW * stride,
        (s + 7) % _WINDOW * stride,
        (s + 8) % _WINDOW * stride,
        (s + 9) % _WINDOW * stride,
        (s + 10) % _WINDOW * stride,
    )


@kernel(fastmath=_FAST)
def _read(images, weights, y, raw):
    """Row y as a, b and the weight of every value, one behind the other in ``raw``; weight 0 beyond the row."""
    source, levels, values = images
    n, padded = source.shape[1], raw.shape[0] // 3
    a, b, w = raw[:padded], raw[padded : 2 * padded], raw[2 * padded :]
    row = source[y]
    for x in range(n):
        a[x] = row[x] - _SHIFT
    if levels.shape[0] > 0:
        level = levels[y]
        for x in range(n):
            b[x] = np.float32(level[x]) * _PER_LEVEL - _SHIFT
    else:
        value = values[y]
        for x in range(n):
            b[x] = value[x] - _SHIFT
    if weights.shape[0] > 0:
        weight = weights[y]
        for x in range(weight.shape[0]):
            w[3 * x] = weight[x]
            w[3 * x + 1] = weight[x]
            w[3 * x + 2] = weight[x]
    else:
        w[:n] = _ONE
    a[n:] = -_SHIFT
    b[n:] = -_SHIFT
    w[n:] = _ZERO


@kernel(fastmath=_FAST)
def _moments(raw, lines):
    """a, b, a^2 + b^2 and a b of a row into the four lines, margins left alone."""
    padded, line = raw.shape[0] // 3, lines.shape[0] // 4
    for x in range(0, padded, _LANES):
        a, b = _vload(raw, x), _vload(raw, padded + x)
        at = _MARGIN + x
        _vstore(lines, at, a)
        _vstore(lines, at + line, b)
        _vstore(lines, at + 2 * line, _vfma(a, a, _vmul(b, b)))
        _vstore(lines, at + 3 * line, _vmul(a, b))


@kernel(fastmath=_FAST)
def _blur_x(lines, planes, blurred):
    """Blurs each of the lines along x."""
    line, padded = lines.shape[0] // planes, blurred.shape[0] // planes
    for plane in range(planes):
        for x in range(0, padded, _LANES):
            _vstore(blurred, plane * padded + x, _vblur(lines, plane * line + _MARGIN + x, _ALONG_X))


@kernel(fastmath=_FAST)
def _similarity(ring, offsets, weights, lines, cost):
    """Finishes the blur of one row; returns the weighted sum of 1 - SSIM over it.

    Leaves the derivatives of -cost * weight * SSIM by the blurred a, a^2 + b^2 and a b in the three lines.
    """
    padded, line = weights.shape[0], lines.shape[0] // 3
    one, two, half, price = _vall(_ONE), _vall(_TWO), _vall(_HALF), _vall(-cost)
    c1, c2 = _vall(_C1), _vall(_C2)
    total = _vall(_ZERO)
    for x in range(0, padded, _LANES):
        a, b = _vblur(ring, x, offsets), _vblur(ring, padded + x, offsets)
        squares, product = _vblur(ring, 2 * padded + x, offsets), _vblur(ring, 3 * padded + x, offsets)
        w = _vload(weights, x)
        mean_a, mean_b = _vadd(a, half), _vadd(b, half)
        top1 = _vfma(_vmul(two, mean_a), mean_b, c1)
        top2 = _vfma(two, _vsub(product, _vmul(a, b)), c2)
        below1 = _vfma(mean_a, mean_a, _vfma(mean_b, mean_b, c1))
        below2 = _vadd(_vsub(squares, _vfma(a, a, _vmul(b, b))), c2)
        inverse = _vdiv(one, _vmul(below1, below2))
        similarity = _vmul(_vmul(top1, top2), inverse)
        total = _vfma(w, _vsub(one, similarity), total)
        scaled = _vmul(_vmul(w, price), inverse)
        above = _vsub(_vmul(mean_b, top2), _vmul(b, top1))
        beneath = _vsub(_vmul(mean_a, below2), _vmul(a, below1))
        by_mean = _vmul(_vmul(two, scaled), _vsub(above, _vmul(similarity, beneath)))
        at = _MARGIN + x
        _vstore(lines, at, by_mean)
        _vstore(lines, at + line, _vsub(_vall(_ZERO), _vmul(scaled, _vmul(similarity, below1))))
        _vstore(lines, at + 2 * line, _vmul(_vmul(two, scaled), top1))
    return _vsum(total)


@kernel(fastmath=_FAST)
def _pixels(raw, coefficients, gradient):
    """The weighted sum of l1 |d| + l2 d^2 over a row; its derivatives go to ``gradient``, a padded row."""
    padded = raw.shape[0] // 3
    l1, l2, two = _vall(coefficients[0]), _vall(coefficients[1]), _vall(_TWO)
    total = _vall(_ZERO)
    for x in range(0, padded, _LANES):
        w = _vload(raw, 2 * padded + x)
        d = _vsub(_vload(raw, x), _vload(raw, padded + x))
        slope, pull = _vmul(l1, _vsign(d)), _vmul(l2, d)
        total = _vfma(_vmul(w, d), _vadd(slope, pull), total)
        _vstore(gradient, x, _vmul(w, _vfma(two, pull, slope)))
    return _vsum(total)


@kernel(fastmath=_FAST)
def _add_structure(ring, offsets, raw, gradient):
    """Adds the derivative of the SSIM term, its adjoint blur finished here, to a padded row."""
    padded = gradient.shape[0]
    for x in range(0, padded, _LANES):
        a, b = _vload(raw, x), _vload(raw, padded + x)
        by_squares = _vblur(ring, padded + x, offsets)
        total = _vadd(_vblur(ring, x, offsets), _vmul(_vadd(a, a), by_squares))
        total = _vfma(b, _vblur(ring, 2 * padded + x, offsets), total)
        _vstore(gradient, x, _vadd(total, _vload(gradient, x)))


@kernel(fastmath=_FAST)
def _strip(images, weights, coefficients, gradient, span, work):
    """Rows ``span`` of one image: returns their loss and fills their gradient, when it has rows."""
    height, n = images[0].shape
    padded = _padded(n)
    line = padded + 2 * _MARGIN
    lines, back, rest = work[: 4 * line], work[4 * line : 7 * line], work[7 * line :]
    raws, rest = rest[: _WINDOW * 3 * padded], rest[_WINDOW * 3 * padded :]
    ahead, rest = rest[: _WINDOW * 4 * padded], rest[_WINDOW * 4 * padded :]
    behind, spare = rest[: _WINDOW * 3 * padded], rest[_WINDOW * 3 * padded :][:padded]
    cost, wanted = coefficients[2], gradient.shape[0] > 0
    reach = _WINDOW - 1 if cost > _ZERO else 0
    lines[: 2 * line], lines[2 * line : 3 * line], lines[3 * line :] = -_SHIFT, _TWO * _SHIFT * _SHIFT, _SHIFT * _SHIFT
    back[:] = _ZERO
    total = 0.0
    for y in range(span[0] - reach, span[1] + reach):
        slot = (y + _WINDOW) % _WINDOW
        inside = y >= 0 and y < height
        if inside:
            _read(images, weights, y, raws[slot * 3 * padded : (slot + 1) * 3 * padded])
        if reach > 0:
            blurred = ahead[slot * 4 * padded : (slot + 1) * 4 * padded]
            if inside:
                _moments(raws[slot * 3 * padded : (slot + 1) * 3 * padded], lines)
                _blur_x(lines, 4, blurred)
            else:
                blurred[: 2 * padded], blurred[2 * padded : 3 * padded] = -_SHIFT, _TWO * _SHIFT * _SHIFT
                blurred[3 * padded :] = _SHIFT * _SHIFT
            if y < span[0]:
                continue
            middle = y - reach // 2
            slot = (middle + _WINDOW) % _WINDOW
            if middle >= 0 and middle < height:
                own = raws[(slot * 3 + 2) * padded : (slot + 1) * 3 * padded]
                lost = _similarity(ahead, _ring_offsets(y - reach, 4 * padded), own, back, cost)
                if middle >= span[0] and middle < span[1]:
                    total += cost * lost
            else:
                back[:] = _ZERO
            if wanted:
                _blur_x(back, 3, behind[slot * 3 * padded : (slot + 1) * 3 * padded])
        done = y - reach
        if done >= span[0]:
            slot = done % _WINDOW
            raw = raws[slot * 3 * padded : (slot + 1) * 3 * padded]
            total += _pixels(raw, coefficients, spare)
            if wanted:
                if reach > 0:
                    _add_structure(behind, _ring_offsets(y - reach - reach // 2, 3 * padded), raw, spare)
                gradient[done, :] = spare[:n]
    return total


@kernel(parallel=True, fastmath=_FAST)
def strips(batch, weights, coefficients, gradient, partial, scratch):
    """All strips of a batch: their losses to ``partial``, the gradient to ``gradient`` if it has rows.

    Args:
        batch: the rendering [C, H, 3 W] and the target, as uint8 or as float32; the other one is [C, 0, 0].
        weights: [C, H, W], or [C, 0, 0] for 1 everywhere.
        coefficients: of l1, l2 and ssim, float32.
        gradient: [C, H, 3 W], or [C, 0, 0] when it is not wanted.
        partial: [C * strips per image] float64.
        scratch: [threads, size].
    """
    count, height, _ = batch[0].shape
    per_image = partial.shape[0] // count
    for item in prange(partial.shape[0]):
        image, strip = item // per_image, item % per_image
        span = (height * strip // per_image, height * (strip + 1) // per_image)
        one = (batch[0][image], batch[1][image], batch[2][image])
        work = scratch[get_thread_id()]
        partial[item] = _strip(one, weights[image], coefficients, gradient[image], span, work)
