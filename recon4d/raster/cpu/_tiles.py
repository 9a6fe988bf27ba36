"""Blending 16x16-pixel tiles with explicit 16-lane vectors: forward, and the gradient of what was blended.

A tile is 16 blocks of 4x4 pixels; a block is one vector. Numba's intrinsics emit the vector code directly, so no
loop has to be recognised by an auto-vectoriser; LLVM splits the vectors where registers are narrower.

The backward pass replays the forward order and carries, per pixel, the gradient-weighted colour still to come
(``S``), so it needs only the final image. Each (splat, tile) pair owns one slot of ``SLOT`` sums, which keeps the
result independent of threads without atomics.

Kernels and everything they use stay in this file: the on-disk cache is stamped with this file only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba.extending
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils

from recon4d.jit import kernel

TILE = 16
SLOT = 12
"""Sums of one (splat, tile) pair: v, v dx, v dy, v dx dx, v dx dy, v dy dy, red, green, blue, depth, 2 unused;
v is alpha * dL/dalpha, dx and dy run from the splat's centre to the pixel's."""
MX, MY, A, B, C, LOG2_OPACITY, RED, GREEN, BLUE, DEPTH, KX, KY = range(12)
"""Columns of a splat's record: centre; alpha = 2^(LOG2_OPACITY + A dx dx + B dx dy + C dy dy); colour; camera-z;
slopes of the lines where the exponent is greatest for fixed dy and dx."""
RECORD = 16
"""Floats in a record: one cache line."""

LANES = 16
BATCH = 32
"""List entries between two looks at which blocks still have live pixels."""
AHEAD = 8
"""List entries whose records the backward pass asks for in advance."""
ROW = 4 * LANES
ROWS = 8
X, Y, T = 0, 1, 2
"""Rows of a block's state: pixel centres within the tile, and transmittance, negative once the pixel has ended.
Then forward: red, green, blue, depth; backward: S, gradients of red, green, blue, depth."""
SUMS = 3

# No nnan or ninf: lanes that are masked out may hold anything.
_FLAGS = ("contract", "nsz", "arcp", "afn")
_F32 = ir.FloatType()
_I32 = ir.IntType(32)
_VEC = ir.VectorType(_F32, LANES)
_INT = ir.VectorType(_I32, LANES)

f4 = np.float32
u4 = np.uint32
carray: Any = numba.carray  # type: ignore[reportPrivateImportUsage]


def _intrinsic(function: Callable) -> Any:
    return numba.extending.intrinsic(function)


class _Vec:
    """One 16-lane value under construction, with operators that emit LLVM code."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    def _lift(self, other: _Vec | float) -> Any:
        return other.value if isinstance(other, _Vec) else _constant([other] * LANES)

    def _new(self, value: Any) -> _Vec:
        return _Vec(self.builder, value)

    def _emit(self, instruction: str, other: _Vec | float) -> _Vec:
        return self._new(getattr(self.builder, instruction)(self.value, self._lift(other), flags=_FLAGS))

    def __add__(self, other: _Vec | float) -> _Vec:
        return self._emit("fadd", other)

    def __sub__(self, other: _Vec | float) -> _Vec:
        return self._emit("fsub", other)

    def __mul__(self, other: _Vec | float) -> _Vec:
        return self._emit("fmul", other)

    def __truediv__(self, other: _Vec) -> _Vec:
        return self._emit("fdiv", other)

    def compare(self, operator: str, other: _Vec | float) -> Any:
        return self.builder.fcmp_ordered(operator, self.value, self._lift(other))

    def where(self, mask: Any, other: _Vec | float) -> _Vec:
        """This where the mask is set, the other elsewhere."""
        return self._new(self.builder.select(mask, self.value, self._lift(other)))

    def minimum(self, other: _Vec | float) -> _Vec:
        return self.where(self.compare("<", other), other)

    def maximum(self, other: _Vec | float) -> _Vec:
        return self.where(self.compare(">", other), other)

    def ended(self) -> _Vec:
        """-|self|: the transmittance of a pixel that takes no more splats."""
        sign = ir.Constant(_INT, [-(2**31)] * LANES)
        bits = self.builder.or_(self.builder.bitcast(self.value, _INT), sign)
        return self._new(self.builder.bitcast(bits, _VEC))

    def exp2(self) -> _Vec:
        """2^self for values that fit a float's exponent, to about 2e-7 relative; rubbish in other lanes."""
        builder = self.builder
        rint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_VEC, [_VEC]), "llvm.rint.v16f32")
        whole = self._new(builder.call(rint, [self.value]))
        part = self - whole
        # Estrin's scheme: the chain of dependent products is what limits a block.
        square = part * part
        low = part * 6.931471825e-1 + 1.0
        middle = part * 5.550341904e-2 + 2.402264923e-1
        high = part * 1.33336498402e-3 + 9.810352697e-3
        power = (high * square + middle) * square + low
        shift = builder.shl(builder.fptosi(whole.value, _INT), ir.Constant(_INT, [23] * LANES))
        return self._new(builder.bitcast(builder.add(builder.bitcast(power.value, _INT), shift), _VEC))


def _constant(values: Sequence[float]) -> ir.Constant:
    return ir.Constant(_VEC, [ir.Constant(_F32, float(f4(value))) for value in values])


def _splat(builder: Any, scalar: Any) -> _Vec:
    undefined = ir.Constant(_VEC, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return _Vec(builder, builder.shuffle_vector(first, undefined, ir.Constant(_INT, [0] * LANES)))


def _pointer(builder: Any, address: Any, offset: int, kind: ir.Type) -> Any:
    return builder.inttoptr(builder.add(address, ir.Constant(address.type, offset)), kind.as_pointer())


def _load_row(builder: Any, block: Any, row: int) -> _Vec:
    return _Vec(builder, builder.load(_pointer(builder, block, row * ROW, _VEC), align=ROW))


def _store_row(builder: Any, block: Any, row: int, value: _Vec) -> None:
    builder.store(value.value, _pointer(builder, block, row * ROW, _VEC), align=ROW)


class _Splat:
    """A splat's record, each column in all lanes, with its centre relative to the tile."""

    def __init__(self, builder: Any, record: Any, x0: Any, y0: Any) -> None:
        self.column = [
            _splat(builder, builder.load(_pointer(builder, record, 4 * i, _F32), align=4)) for i in range(KY + 1)
        ]
        self.mx = self.column[MX] - _splat(builder, x0)
        self.my = self.column[MY] - _splat(builder, y0)

    def exponent(self, dx: _Vec, dy: _Vec) -> _Vec:
        """log2 of alpha before clamping; never above log2 of the opacity, however the conic was rounded."""
        a, b, c, top = (self.column[i] for i in (A, B, C, LOG2_OPACITY))
        return ((a * dx + b * dy) * dx + (c * dy * dy + top)).minimum(top)

    def touched_blocks(self, builder: Any, log2_alpha_min: _Vec) -> Any:
        """i32, one bit a block: where alpha can reach the cut-off. The exponent's maximum over a block's rectangle
        of pixel centres is at the centre, or on one of the two edges that face it."""
        left = _Vec(builder, _constant([4 * (i % 4) + 0.5 for i in range(LANES)])) - self.mx
        top = _Vec(builder, _constant([4 * (i // 4) + 0.5 for i in range(LANES)])) - self.my
        right, bottom = left + 3.0, top + 3.0
        zero = _Vec(builder, _constant([0.0] * LANES))
        x = zero.minimum(right).maximum(left)
        y = zero.minimum(bottom).maximum(top)
        y_on_x_edge = (self.column[KY] * x).minimum(bottom).maximum(top)
        x_on_y_edge = (self.column[KX] * y).minimum(right).maximum(left)
        best = self.exponent(x, y_on_x_edge).maximum(self.exponent(x_on_y_edge, y))
        return _bits(builder, best.compare(">=", log2_alpha_min))


def _bits(builder: Any, mask: Any) -> Any:
    return builder.zext(builder.bitcast(mask, ir.IntType(16)), _I32)


class _EachBit:
    """A loop over the set bits of an i32, with values carried in registers from one turn to the next."""

    def __init__(self, builder: Any, bits: Any, carried: Sequence[Any]) -> None:
        self.builder = builder
        before = builder.block
        self.head, self.body, self.after = (builder.append_basic_block(f"bits.{s}") for s in ("head", "body", "after"))
        builder.branch(self.head)
        builder.position_at_end(self.head)
        self.bits = builder.phi(_I32)
        self.bits.add_incoming(bits, before)
        self.carried = [builder.phi(value.type) for value in carried]
        for phi, value in zip(self.carried, carried, strict=True):
            phi.add_incoming(value, before)
        more = builder.icmp_unsigned("!=", self.bits, ir.Constant(_I32, 0))
        builder.cbranch(more, self.body, self.after)
        builder.position_at_end(self.body)
        self.index = builder.cttz(self.bits, ir.Constant(ir.IntType(1), 1))

    def next(self, carried: Sequence[Any]) -> None:
        """Ends the body; afterwards ``self.carried`` holds the final values."""
        builder = self.builder
        one = ir.Constant(_I32, 1)
        self.bits.add_incoming(builder.and_(self.bits, builder.sub(self.bits, one)), builder.block)
        for phi, value in zip(self.carried, carried, strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(self.head)
        builder.position_at_end(self.after)


def _block_address(builder: Any, state: Any, index: Any) -> Any:
    return builder.add(state, builder.mul(builder.zext(index, state.type), ir.Constant(state.type, ROWS * ROW)))


def _meet(builder: Any, splat: _Splat, block: Any, cut: _Vec) -> tuple[_Vec, _Vec, _Vec, _Vec, Any]:
    """A splat at a block: dx, dy, alpha before clamping, transmittance in front, and the mask of where it is drawn."""
    before = _load_row(builder, block, T)
    dx, dy = _load_row(builder, block, X) - splat.mx, _load_row(builder, block, Y) - splat.my
    exponent = splat.exponent(dx, dy)
    drawn = builder.and_(exponent.compare(">=", cut), before.compare(">", 0.0))
    return dx, dy, exponent.exp2(), before, drawn


def _composite(channels: int) -> Any:
    """Makes the intrinsic that blends one splat into some blocks of a tile and returns those where it is drawn.
    3 channels are rgb, 4 are rgb and depth."""

    @_intrinsic
    def composite(typing, state, record, x0, y0, blocks, cut, top, end):
        def generate(context, builder, signature, args):
            state, record, x0, y0, blocks = args[:5]
            cut, top, end = (_splat(builder, value) for value in args[5:])
            splat = _Splat(builder, record, x0, y0)
            loop = _EachBit(builder, blocks, [ir.Constant(_I32, 0)])
            block = _block_address(builder, state, loop.index)
            _, _, alpha, before, drawn = _meet(builder, splat, block, cut)
            weight = (alpha.minimum(top) * before).where(drawn, 0.0)
            after = before - weight
            goes_on = after.compare(">", end)
            weight = weight.where(goes_on, 0.0)
            _store_row(builder, block, T, after.where(goes_on, before.ended()))
            for channel in range(channels):
                row = SUMS + channel
                _store_row(builder, block, row, _load_row(builder, block, row) + weight * splat.column[RED + channel])
            hit = builder.icmp_unsigned("!=", _bits(builder, drawn), ir.Constant(_I32, 0))
            bit = builder.shl(builder.zext(hit, _I32), loop.index)
            loop.next([builder.or_(loop.carried[0], bit)])
            return loop.carried[0]

        return types.uint32(*[types.intp] * 2, *[types.float32] * 2, types.uint32, *[types.float32] * 3), generate

    return composite


def _differentiate(channels: int) -> Any:
    """Makes the intrinsic that replays one splat on a tile and stores its sums into a slot."""

    @_intrinsic
    def differentiate(typing, state, record, slot, x0, y0, blocks, cut, top, end):
        def generate(context, builder, signature, args):
            state, record, slot, x0, y0, blocks = args[:6]
            cut, top, end = (_splat(builder, value) for value in args[6:])
            splat = _Splat(builder, record, x0, y0)
            loop = _EachBit(builder, blocks, [_constant([0.0] * LANES)] * (6 + channels))
            block = _block_address(builder, state, loop.index)
            dx, dy, unclamped, before, drawn = _meet(builder, splat, block, cut)
            alpha = unclamped.minimum(top).where(drawn, 0.0)
            weight = alpha * before
            after = before - weight
            goes_on = after.compare(">", end)
            weight, alpha = weight.where(goes_on, 0.0), alpha.where(goes_on, 0.0)
            _store_row(builder, block, T, after.where(goes_on, before.ended()))
            gradients = [_load_row(builder, block, SUMS + 1 + channel) for channel in range(channels)]
            along = gradients[0] * splat.column[RED]
            for channel in range(1, channels):
                along = along + gradients[channel] * splat.column[RED + channel]
            own, one = weight * along, _Vec(builder, _constant([1.0] * LANES))
            behind = _load_row(builder, block, SUMS) - own
            _store_row(builder, block, SUMS, behind)
            v = (own - behind * (alpha / (one - alpha))).where(unclamped.compare("<", top), 0.0)
            vx, vy = v * dx, v * dy
            terms = [v, vx, vy, vx * dx, vx * dy, vy * dy, *(weight * gradient for gradient in gradients)]
            sums = [_Vec(builder, carried) for carried in loop.carried]
            loop.next([(total + term).value for total, term in zip(sums, terms, strict=True)])
            no_depth = [_constant([0.0] * LANES)] * (4 - channels)
            _store_sums(builder, slot, [_Vec(builder, value) for value in (*loop.carried, *no_depth)])
            return context.get_dummy_value()

        arguments = [*[types.intp] * 3, *[types.float32] * 2, types.uint32, *[types.float32] * 3]
        return types.void(*arguments), generate

    return differentiate


def _store_sums(builder: Any, slot: Any, vectors: list[_Vec]) -> None:
    """Stores the lane sums of ten vectors. All are folded together: at each level two vectors become one,
    which holds half as many partial sums of each, so lane i ends as the sum of vector i."""
    group = LANES
    while group > 1:
        half = group // 2
        lower = [start + i for start in range(0, 2 * LANES, group) for i in range(half)]
        upper = [i + half for i in lower]
        pairs = [(vectors[i], vectors[min(i + 1, len(vectors) - 1)]) for i in range(0, len(vectors), 2)]
        vectors = [
            _Vec(builder, builder.shuffle_vector(a.value, b.value, ir.Constant(_INT, lower)))
            + _Vec(builder, builder.shuffle_vector(a.value, b.value, ir.Constant(_INT, upper)))
            for a, b in pairs
        ]
        group = half
    for start, count in ((0, 8), (8, 4)):
        index = ir.Constant(ir.VectorType(_I32, count), list(range(start, start + count)))
        part = builder.shuffle_vector(vectors[0].value, vectors[0].value, index)
        builder.store(part, _pointer(builder, slot, 4 * start, ir.VectorType(_F32, count)), align=4)


composite_rgb, composite_rgbd = _composite(3), _composite(4)
differentiate_rgb, differentiate_rgbd = _differentiate(3), _differentiate(4)


@_intrinsic
def touched_blocks(typing, record, x0, y0, cut):
    """One bit a block: whether a splat's alpha can reach the cut-off there."""

    def generate(context, builder, signature, args):
        record, x0, y0, cut = args
        return _Splat(builder, record, x0, y0).touched_blocks(builder, _splat(builder, cut))

    return types.uint32(types.intp, *[types.float32] * 3), generate


@_intrinsic
def prefetch(typing, address):
    """Asks for the cache line at an address, for writing too; never faults."""

    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(function, [pointer, *(ir.Constant(_I32, hint) for hint in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.intp), generate


@_intrinsic
def live_blocks(typing, state):
    """One bit a block of a forward state: whether any of its pixels still takes splats."""

    def generate(context, builder, signature, args):
        live = zero = ir.Constant(_I32, 0)
        for index in range(LANES):
            block = _block_address(builder, args[0], ir.Constant(_I32, index))
            pixels = _bits(builder, _load_row(builder, block, T).compare(">", 0.0))
            any_live = builder.zext(builder.icmp_unsigned("!=", pixels, zero), _I32)
            live = builder.or_(live, builder.shl(any_live, ir.Constant(_I32, index)))
        return live

    return types.uint32(types.intp), generate


@_intrinsic
def tile_memory(typing):
    """Stack memory in which one tile's blocks live, aligned to a cache line."""

    def generate(context, builder, signature, args):
        memory = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(8), LANES * ROWS * ROW))
        memory.align = ROW
        return builder.bitcast(memory, context.get_value_type(types.voidptr))

    return types.voidptr(), generate


@_intrinsic
def open_tile(typing, state, columns, lines):
    """Sets a state to that before the first splat; only so many columns and lines of the tile lie in the image."""

    def generate(context, builder, signature, args):
        columns, lines = _splat(builder, args[1]), _splat(builder, args[2])
        zero, one = (_Vec(builder, _constant([value] * LANES)) for value in (0.0, 1.0))
        for index in range(LANES):
            block = _block_address(builder, args[0], ir.Constant(_I32, index))
            x = _Vec(builder, _constant([4 * (index % 4) + i % 4 + 0.5 for i in range(LANES)]))
            y = _Vec(builder, _constant([4 * (index // 4) + i // 4 + 0.5 for i in range(LANES)]))
            inside = builder.and_(x.compare("<", columns), y.compare("<", lines))
            for row, value in enumerate((x, y, one.where(inside, -1.0), *[zero] * (ROWS - SUMS))):
                _store_row(builder, block, row, value)
        return context.get_dummy_value()

    return types.void(types.intp, types.float32, types.float32), generate


@kernel(parallel=True, fastmath=set(_FLAGS))
def blend(lists, records, rules, background, images, depth, reached):
    """Blends one camera's tile lists front to back.

    Args:
        lists: (offsets [tiles + 1], entries [E], stride): each tile's splats in depth order, and the step, coprime
            to the number of tiles, in which tiles are dealt out, which spreads busy regions over threads.
        records: [N, RECORD] float32.
        rules: (log2 of the least alpha, greatest alpha, least transmittance, least alpha that has depth).
        background: [3].
        images: (rgb [H, W, 3], alpha [H, W]), written.
        depth: [H, W], written; or None.
        reached: (hits [E] uint16, last [tiles]), written: the blocks of its tile in which each entry is drawn, and
            the end of the part of each list that was looked at.
    """
    offsets, entries, stride = lists
    rgb, alpha = images
    hits, last = reached
    height, width = alpha.shape
    columns = (width + TILE - 1) // TILE
    tiles = offsets.shape[0] - 1
    record0 = records.ctypes.data
    cut, top, end, least = rules
    for turn in prange(tiles):
        tile = (turn * stride) % tiles
        x0, y0 = (tile % columns) * TILE, (tile // columns) * TILE
        state = carray(tile_memory(), (LANES, ROWS, LANES), f4)
        address = state.ctypes.data
        open_tile(address, f4(width - x0), f4(height - y0))
        k, stop = offsets[tile], offsets[tile + 1]
        live = live_blocks(address)
        while k < stop and live != u4(0):
            # Culling a batch first lets its cache misses overlap, and keeps the loop over bits from waiting for them.
            batch_stop = min(k + BATCH, stop)
            for j in range(k, batch_stop):
                ahead = entries[min(j + AHEAD, stop - 1)]
                prefetch(record0 + np.intp(ahead) * np.intp(4 * RECORD))
                record = record0 + np.intp(entries[j]) * np.intp(4 * RECORD)
                hits[j] = touched_blocks(record, f4(x0), f4(y0), cut)
            while k < batch_stop:
                record = record0 + np.intp(entries[k]) * np.intp(4 * RECORD)
                blocks = u4(hits[k]) & live
                if depth is None:
                    hits[k] = composite_rgb(address, record, f4(x0), f4(y0), blocks, cut, top, end)
                else:
                    hits[k] = composite_rgbd(address, record, f4(x0), f4(y0), blocks, cut, top, end)
                k += 1
            live = live_blocks(address)
        last[tile] = k
        for b in range(LANES):
            for i in range(LANES):
                x, y = x0 + (b % 4) * 4 + i % 4, y0 + (b // 4) * 4 + i // 4
                if x < width and y < height:
                    through = abs(state[b, T, i])
                    opaque = f4(1) - through
                    alpha[y, x] = opaque
                    for c in range(3):
                        rgb[y, x, c] = state[b, SUMS + c, i] + through * background[c]
                    if depth is not None:
                        depth[y, x] = state[b, SUMS + 3, i] / opaque if opaque >= least else f4(0)


@kernel(parallel=True, fastmath=set(_FLAGS))
def blend_gradient(lists, records, slots, rules, images, depths, reached, sums):
    """Gradient of :func:`blend`: fills every slot.

    Args:
        lists, records, rules, reached: as in :func:`blend`.
        slots: (bases [N + 1], rects [N, 4]): first slot of each splat, and its tiles' x0, y0, x1, y1 (ends included).
        images: (rgb, alpha, gradient in rgb, gradient in alpha); a gradient is empty where the loss has none.
        depths: (depth, gradient in depth), or None where the loss has none.
        sums: [slots, SLOT], written.
    """
    offsets, entries, stride = lists
    bases, rects = slots
    rgb, alpha, g_rgb, g_alpha = images
    hits, last = reached
    height, width = alpha.shape
    columns = (width + TILE - 1) // TILE
    tiles = offsets.shape[0] - 1
    record0, sums0 = records.ctypes.data, sums.ctypes.data
    cut, top, end, least = rules
    for turn in prange(tiles):
        tile = (turn * stride) % tiles
        column, line = tile % columns, tile // columns
        x0, y0 = column * TILE, line * TILE
        state = carray(tile_memory(), (LANES, ROWS, LANES), f4)
        address = state.ctypes.data
        open_tile(address, f4(width - x0), f4(height - y0))
        for b in range(LANES):
            for i in range(LANES):
                x, y = x0 + (b % 4) * 4 + i % 4, y0 + (b // 4) * 4 + i // 4
                if not (x < width and y < height):
                    continue
                behind, g_opaque = f4(0), f4(0)
                if g_rgb.shape[0] > 0:
                    for c in range(3):
                        state[b, SUMS + 1 + c, i] = g_rgb[y, x, c]
                        behind += g_rgb[y, x, c] * rgb[y, x, c]
                if g_alpha.shape[0] > 0:
                    g_opaque += g_alpha[y, x]
                if depths is not None:
                    depth, g_depth = depths
                    if alpha[y, x] >= least:
                        g = g_depth[y, x] / alpha[y, x]
                        state[b, SUMS + 4, i] = g
                        behind += g * depth[y, x] * alpha[y, x]
                        g_opaque -= g * depth[y, x]
                # Alpha is one minus the share of the background, so its gradient acts like a background's colour.
                state[b, SUMS, i] = behind - g_opaque * (f4(1) - alpha[y, x])
        for k in range(offsets[tile], offsets[tile + 1]):
            ahead = entries[min(k + AHEAD, offsets[tile + 1] - 1)]
            prefetch(record0 + np.intp(ahead) * np.intp(4 * RECORD))
            g = entries[k]
            x_tiles = np.int64(rects[g, 2]) - np.int64(rects[g, 0]) + 1
            slot = bases[g] + (line - np.int64(rects[g, 1])) * x_tiles + column - np.int64(rects[g, 0])
            blocks = u4(hits[k]) if k < last[tile] else u4(0)
            record = record0 + np.intp(g) * np.intp(4 * RECORD)
            into = sums0 + np.intp(slot) * np.intp(4 * SLOT)
            if depths is None:
                differentiate_rgb(address, record, into, f4(x0), f4(y0), blocks, cut, top, end)
            else:
                differentiate_rgbd(address, record, into, f4(x0), f4(y0), blocks, cut, top, end)
