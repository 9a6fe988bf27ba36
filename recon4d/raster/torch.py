"""The portable backend: plain PyTorch on whatever device the tensors are on.

The k-th splats of all tiles are blended at once, in lock step. A splat's exponent is a quadratic in the pixel's place
within its tile, so one matrix product gives all exponents of a step, and the transposed product gives back the six
moments that its gradient needs. The backward pass is written by hand: it replays the forward order and carries the
gradient-weighted colour still to come, so nothing of the size (splats x pixels) is ever kept.

Only sort, searchsorted, gather, matmul, exp, elementwise operations and index_add are used, in the input's dtype and
int64: accelerators without float64 or custom operators can run it. Given plans, no shape depends on what a device
has computed, so the host never waits. Keep reduced-precision matrix products (TF32 and the like) switched off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from recon4d.geometry import quat_to_matrix, sh_basis
from recon4d.raster import _contract as contract
from recon4d.raster._contract import Ready, Request
from recon4d.raster._plan import STEP, Plan
from recon4d.types import Cameras, RenderOutput, Splats

DEVICES = ("*",)

TILE = 8
"""Pixels along a tile's side. Smaller tiles make the lists of neighbours more alike, so fewer lanes idle."""
CPU_STEP = 1
"""List entries of each tile blended at once on the CPU, where launches are cheap; ``STEP`` elsewhere."""

_ATTRIBUTES = ("means", "quats", "scales", "opacities", "sh")
_NEVER = -80.0
"""Exponent of a list entry that stands for nothing."""


def status() -> Ready:
    """Always ready."""
    return Ready("any torch device")


def render(request: Request) -> RenderOutput:
    """Draws on the splats' device; see :func:`recon4d.raster.rasterize`."""
    # Of no splats there is nothing to wait for.
    plans = request.plans if request.plans and len(request.splats) else (None,) * len(request.cameras)
    images = [_render_one(request, c, plan) for c, plan in enumerate(plans)]
    rgb, alpha, depth, overflow = zip(*images, strict=True)
    return RenderOutput(
        rgb=torch.stack(rgb),
        alpha=torch.stack(alpha),
        depth=torch.stack(depth) if request.depth else None,
        overflow=torch.stack(overflow).any() if request.plans else None,
    )


def survey(request: Request) -> Tensor:
    """See :func:`recon4d.raster.survey`."""
    return torch.stack([_survey_one(request, c) for c in range(len(request.cameras))])


def _survey_one(request: Request, c: int) -> Tensor:
    view, camera = request.cameras.viewmats[c], _Camera.of(request.cameras, c)
    usable = _usable(request.splats, view)
    flat = _project(_harmless(request.splats, usable, view), view, camera, request.antialiased)
    drawn, rects = _tile_rects(flat, camera)
    lengths = _list_lengths(rects, drawn & usable, camera)
    return torch.cat([lengths.sum()[None], torch.sort(lengths, descending=True).values])


def _render_one(request: Request, c: int, plan: Plan | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    view, camera = request.cameras.viewmats[c], _Camera.of(request.cameras, c)
    with torch.no_grad():
        splats, order, drawn, rects = _in_order(request, view.detach(), camera, plan)
        lists = _tile_lists(rects, drawn, camera, plan)
    # Again, with gradients, for the drawn splats alone: no other can put a NaN into a gradient.
    splats = _take(splats, order) if plan is None else _harmless(_take(splats, order), drawn, view.detach())
    flat = _project(splats, view, camera, request.antialiased)
    directions = torch.nn.functional.normalize(splats.means + view[:3, 3] @ view[:3, :3], dim=-1)
    channels = ((sh_basis(directions, splats.sh_degree)[..., None] * splats.sh).sum(1) + 0.5).clamp_min(0)
    if request.depth:
        channels = torch.cat([channels, flat.z[:, None]], 1)
    blended, through = _Blend.apply(lists, flat.centres, flat.conics, flat.opacities, channels)
    rgb = blended[..., :3] + through[..., None] * request.background
    alpha = 1 - through
    if not request.depth:
        return rgb, alpha, alpha, lists.overflow
    opaque = alpha >= contract.MIN_DEPTH_ALPHA
    return rgb, alpha, torch.where(opaque, blended[..., 3] / torch.where(opaque, alpha, 1.0), 0.0), lists.overflow


def _in_order(
    request: Request, view: Tensor, camera: _Camera, plan: Plan | None
) -> tuple[Splats, Tensor, Tensor, Tensor]:
    """Splats, the order [n] in which they are drawn, whether each is drawn [n] and its tiles [n, 4].

    Without a plan, what is not drawn is left out. With one, it stays, behind all others.
    """
    if plan is None:
        usable = _usable(request.splats, view).nonzero().squeeze(1)
        splats = _take(request.splats, usable)
        flat = _project(splats, view, camera, request.antialiased)
        drawn, rects = _tile_rects(flat, camera)
        index = drawn.nonzero().squeeze(1)
        order = index[torch.sort(flat.z[index], stable=True).indices]
        return request.splats, usable[order], drawn[order], rects[order]
    usable = _usable(request.splats, view)
    flat = _project(_harmless(request.splats, usable, view), view, camera, request.antialiased)
    drawn, rects = _tile_rects(flat, camera)
    drawn &= usable
    order = torch.sort(torch.where(drawn, flat.z, torch.inf), stable=True).indices
    return request.splats, order, drawn[order], rects[order]


@dataclass(frozen=True)
class _Camera:
    """Intrinsics as 0-dim tensors on the device, so that nobody has to fetch them."""

    fx: Tensor
    fy: Tensor
    cx: Tensor
    cy: Tensor
    width: int
    height: int

    @classmethod
    def of(cls, cameras: Cameras, c: int) -> _Camera:
        K = cameras.Ks[c].detach()
        return cls(K[0, 0], K[1, 1], K[0, 2], K[1, 2], cameras.width, cameras.height)

    @property
    def limits(self) -> tuple[Tensor, Tensor]:
        x = contract.FOV_MARGIN * torch.maximum(self.cx, self.width - self.cx) / self.fx
        return x, contract.FOV_MARGIN * torch.maximum(self.cy, self.height - self.cy) / self.fy

    @property
    def tiles(self) -> tuple[int, int]:
        """Columns and lines of tiles."""
        return -(-self.width // TILE), -(-self.height // TILE)


class _Flat(NamedTuple):
    """Splats on the image plane."""

    centres: Tensor
    """[N, 2] pixels."""
    variances: Tensor
    """[N, 2] px^2, after dilation."""
    conics: Tensor
    """[N, 3] entries xx, xy, yy of the inverse covariance."""
    opacities: Tensor
    """[N], after compensation."""
    z: Tensor
    """[N] metres."""


def _usable(splats: Splats, view: Tensor) -> Tensor:
    """[N] bool: finite splats in front of the near plane; a NaN fails every comparison."""
    usable = splats.means @ view[2, :3] + view[2, 3] > contract.NEAR_M
    usable &= splats.quats.square().sum(1) >= contract.MIN_QUAT_NORM**2
    for values in (splats.means, splats.quats, splats.scales, splats.opacities[:, None], splats.sh.flatten(1)):
        usable &= values.abs().sum(1) <= contract.MAX_VALUE
    return usable


def _take(splats: Splats, index: Tensor) -> Splats:
    return Splats(**{name: getattr(splats, name).index_select(0, index) for name in _ATTRIBUTES})


def _harmless(splats: Splats, keep: Tensor, view: Tensor) -> Splats:
    """The splats with those that are not kept exchanged for small ones a metre in front of the camera."""
    place = (view[2, :3] - view[:3, 3] @ view[:3, :3]).expand_as(splats.means)
    upright = torch.zeros_like(splats.quats)
    upright[:, 0] = 1.0
    return Splats(
        means=torch.where(keep[:, None], splats.means, place),
        quats=torch.where(keep[:, None], splats.quats, upright),
        scales=torch.where(keep[:, None], splats.scales, 0.01),
        opacities=torch.where(keep, splats.opacities, 0.5),
        sh=torch.where(keep[:, None, None], splats.sh, 0.0),
    )


def _project(splats: Splats, view: Tensor, camera: _Camera, antialiased: bool) -> _Flat:
    R = view[:3, :3]
    x, y, z = (splats.means @ R.T + view[:3, 3]).unbind(-1)
    limit_x, limit_y = camera.limits
    u, v = x / z, y / z
    rows_x = (camera.fx / z)[:, None] * (R[0] - u.clamp(-limit_x, limit_x)[:, None] * R[2])
    rows_y = (camera.fy / z)[:, None] * (R[1] - v.clamp(-limit_y, limit_y)[:, None] * R[2])
    axes = quat_to_matrix(splats.quats) * splats.scales[:, None, :]
    root_x, root_y = (rows_x[:, :, None] * axes).sum(1), (rows_y[:, :, None] * axes).sum(1)
    xx, xy, yy = root_x.square().sum(-1), (root_x * root_y).sum(-1), root_y.square().sum(-1)
    # The squared cross product is the determinant without the cancellation of xx yy - xy xy.
    sharp = torch.linalg.cross(root_x, root_y).square().sum(-1)
    grown = contract.DILATION_PX2
    det = sharp + grown * (xx + yy + grown)
    opacities = splats.opacities
    if antialiased:
        opacities = opacities * (sharp / det).clamp_min(1e-12).sqrt()
    return _Flat(
        centres=torch.stack([camera.fx * u + camera.cx, camera.fy * v + camera.cy], -1),
        variances=torch.stack([xx + grown, yy + grown], -1),
        conics=torch.stack([yy + grown, -xy, xx + grown], -1) / det[:, None],
        opacities=opacities,
        z=z,
    )


def _tile_rects(flat: _Flat, camera: _Camera) -> tuple[Tensor, Tensor]:
    """Which splats are drawn [N], and the tiles that each may touch [N, 4] int64: x0, y0, x1, y1, ends included."""
    reach = (2 * torch.log(flat.opacities / contract.ALPHA_MIN)).clamp_min(0).sqrt()[:, None] * flat.variances.sqrt()
    # Pixel centres lie half a pixel in.
    first = (flat.centres - reach - 0.5).ceil()
    last = (flat.centres + reach - 0.5).floor()
    drawn = (flat.opacities >= contract.ALPHA_MIN) & (flat.variances <= contract.MAX_VARIANCE_PX2).all(1)
    drawn &= ((last >= first) & (last >= 0)).all(1) & (first[:, 0] < camera.width) & (first[:, 1] < camera.height)
    x1, y1 = last[:, 0].clamp_max(camera.width - 1), last[:, 1].clamp_max(camera.height - 1)
    rects = torch.cat([first.clamp_min(0), x1[:, None], y1[:, None]], 1)
    rects = torch.where(drawn[:, None], rects, 0.0).long()
    return drawn, torch.div(rects, TILE, rounding_mode="floor")


def _list_lengths(rects: Tensor, drawn: Tensor, camera: _Camera) -> Tensor:
    """[tiles] int64: how many of the drawn splats' rectangles cover each tile. Corners of opposite sign, summed up
    along both axes, give that without a list of all pairs."""
    columns, lines = camera.tiles
    x0, y0, x1, y1 = rects.unbind(1)
    corners = torch.cat([x + y * (columns + 1) for x in (x0, x1 + 1) for y in (y0, y1 + 1)])
    one = drawn.long()
    grid = torch.zeros((lines + 1) * (columns + 1), dtype=torch.int64, device=rects.device)
    grid.index_add_(0, corners, torch.cat([one, -one, -one, one]))
    grid = grid.reshape(lines + 1, columns + 1).cumsum(0).cumsum(1)
    return grid[:lines, :columns].reshape(-1)


@dataclass(frozen=True)
class _Lists:
    """Tile lists, tiles ordered by falling length, so that the tiles active in a step are a prefix."""

    splat: Tensor
    """[E] the splat of each entry, in depth order within a tile."""
    origin: Tensor
    """[E, 2] centre of the entry's tile, pixels."""
    start: Tensor
    """[tiles] first entry."""
    length: Tensor
    """[tiles] entries."""
    place: Tensor
    """[tiles] where each tile, in raster order, went."""
    active: Sequence[int]
    """Tiles that are active in each step."""
    step: int
    camera: _Camera
    overflow: Tensor
    """0-dim bool: there was no room for some entries."""


def _tile_lists(rects: Tensor, drawn: Tensor, camera: _Camera, plan: Plan | None) -> _Lists:
    """Tile lists of splats [n], nearest first."""
    device, (columns, lines) = rects.device, camera.tiles
    tiles, last = columns * lines, max(len(rects) - 1, 0)
    wide = rects[:, 2] - rects[:, 0] + 1
    count = torch.where(drawn, wide * (rects[:, 3] - rects[:, 1] + 1), 0)
    ends = torch.cumsum(count, 0)
    # Without a plan, the first of two waits for the device: how many entries there are.
    room = plan.entries if plan is not None else int(count.sum())
    index = torch.arange(room, device=device)
    splat = torch.searchsorted(ends, index, right=True).clamp_max(last)
    within = index - (ends - count)[splat]
    y = rects[splat, 1] + torch.div(within, wide[splat], rounding_mode="floor")
    x = rects[splat, 0] + within % wide[splat]
    # Room that is left over counts for a tile behind all others.
    tile, entry = torch.sort(torch.where(index < count.sum(), y * columns + x, tiles), stable=True)
    start = torch.searchsorted(tile, torch.arange(tiles + 1, device=device))
    length, order = torch.sort(start[1:] - start[:-1], descending=True, stable=True)
    if plan is None:
        step = CPU_STEP if device.type == "cpu" else STEP
        # The second: how many tiles still have entries at each step.
        steps = torch.arange(0, int(length[0]), step, device=device)
        active = (tiles - torch.searchsorted(length.flip(0), steps, right=True)).tolist()
        overflow = torch.zeros((), dtype=torch.bool, device=device)
    else:
        step, active = STEP, plan.active
        overflow = (count.sum() > room) | (length > plan.lengths).any()
    origin = torch.stack([tile % columns, torch.div(tile, columns, rounding_mode="floor")], -1) * TILE + TILE / 2
    return _Lists(
        splat=splat[entry],
        origin=origin,
        start=start[:-1][order],
        length=length,
        place=torch.argsort(order),
        active=active,
        step=step,
        camera=camera,
        overflow=overflow,
    )


class _Blend(torch.autograd.Function):
    """Front-to-back blending of all tiles; returns [H, W, channels] and the transmittance [H, W]."""

    @staticmethod
    def forward(
        ctx: Any, lists: _Lists, centres: Tensor, conics: Tensor, opacities: Tensor, channels: Tensor
    ) -> tuple[Tensor, Tensor]:
        state = _State.of(lists, centres, conics, opacities, channels)
        blended = centres.new_zeros(len(lists.start), channels.shape[1], TILE * TILE)
        for k, count in enumerate(lists.active):
            _, colours = state.entries(k, count)
            _, _, weight = state.weigh(count)
            if lists.step == 1:
                blended[:count].addcmul_(weight, colours.transpose(1, 2))
            else:
                blended[:count].baddbmm_(colours.transpose(1, 2), weight)
        ctx.lists = lists
        ctx.save_for_backward(centres, conics, opacities, channels, blended, state.through)
        return _to_image(blended, lists), _to_image(state.through, lists)[..., 0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple:  # type: ignore[reportIncompatibleMethodOverride]
        centres, conics, opacities, channels, blended, through = ctx.saved_tensors
        lists: _Lists = ctx.lists
        state = _State.of(lists, centres, conics, opacities, channels)
        g_blended, g_through = _to_tiles(gradients[0], lists), _to_tiles(gradients[1][..., None], lists)
        # Per pixel: what the loss gains from all that is still to be blended, the background included.
        behind = (g_blended * blended).sum(1, keepdim=True).addcmul_(g_through, through)
        sums = centres.new_zeros(len(lists.splat) + 1, 6 + channels.shape[1])
        for k, count in enumerate(lists.active):
            index, colours = state.entries(k, count)
            unclamped, alpha, weight = state.weigh(count)
            images = g_blended[:count]
            own = _along(colours, images).mul_(weight)
            left = behind[:count] - (own if lists.step == 1 else torch.cumsum(own, 1))
            behind[:count] = left[:, -1:]
            # alpha * dL/dalpha; nothing passes where the clamp is at work.
            v = own.sub_(left.mul_(alpha).div_(1 - alpha)).mul_(unclamped < contract.ALPHA_MAX)
            moments = torch.mm(v.flatten(0, 1), state.basis.T)
            shares = (weight * images).sum(-1) if lists.step == 1 else torch.bmm(weight, images.mT).flatten(0, 1)
            sums.index_copy_(0, index, torch.cat([moments, shares], 1))
        return (None, *_scatter(sums[:-1], state, lists, conics, opacities))


def _along(colours: Tensor, images: Tensor) -> Tensor:
    """Products [n, step, pixels] of entries' channels [n, step, channels] with images [n, channels, pixels]."""
    if colours.shape[1] > 1:
        return torch.bmm(colours, images)
    # With one entry a tile, a batched matrix product is all overhead.
    total = colours[..., :1] * images[:, :1]
    for channel in range(1, images.shape[1]):
        total.addcmul_(colours[..., channel, None], images[:, channel, None])
    return total


@dataclass
class _State:
    """What both passes need at each step."""

    lists: _Lists
    table: Tensor
    """[E + 1, 6 + channels]: coefficients of the exponent for the monomials of ``basis``, and channels; the last
    entry stands for nothing."""
    offset: Tensor
    """[E, 2] splat centre minus tile centre, pixels."""
    basis: Tensor
    """[6, pixels]: 1, x, y, xx, xy, yy of pixel centres about the tile's centre."""
    through: Tensor
    """[tiles, 1, pixels] transmittance so far."""
    open: Tensor
    """[tiles, 1, pixels] the same, but 0 once the pixel has ended."""
    exponent: Tensor
    """[tiles * step, pixels] scratch."""

    @classmethod
    def of(cls, lists: _Lists, centres: Tensor, conics: Tensor, opacities: Tensor, channels: Tensor) -> _State:
        splat = lists.splat
        offset = centres[splat] - lists.origin.to(centres.dtype)
        x, y = offset.unbind(-1)
        a, b, c = conics[splat].unbind(-1)
        a, c = 0.5 * a, 0.5 * c
        top = torch.log(opacities)[splat] - (a * x * x + b * x * y + c * y * y)
        nothing = x.new_zeros(1, 6)
        nothing[:, 0] = _NEVER
        coefficients = torch.stack([top, 2 * a * x + b * y, b * x + 2 * c * y, -a, -b, -c], -1)
        channels = torch.cat([channels[splat], channels.new_zeros(1, channels.shape[1])])
        table = torch.cat([torch.cat([coefficients, nothing]), channels], 1)
        index = torch.arange(TILE * TILE, device=x.device)
        px = (index % TILE).to(x.dtype) + (0.5 - TILE / 2)
        py = torch.div(index, TILE, rounding_mode="floor").to(x.dtype) + (0.5 - TILE / 2)
        basis = torch.stack([torch.ones_like(px), px, py, px * px, px * py, py * py])
        through = x.new_ones(len(lists.start), 1, TILE * TILE)
        exponent = x.new_empty(len(lists.start) * lists.step, TILE * TILE)
        return cls(lists, table, offset, basis, through, through.clone(), exponent)

    def entries(self, k: int, count: int) -> tuple[Tensor, Tensor]:
        """Goes to the k-th entries of the first ``count`` tiles, and evaluates their exponents.

        Returns:
            Their indices [count * step], past a list's end that of the entry for nothing; channels [count, step, :].
        """
        lists = self.lists
        if lists.step == 1:
            index = lists.start[:count] + k
        else:
            turn = k * lists.step + torch.arange(lists.step, device=lists.start.device)
            inside = turn < lists.length[:count, None]
            index = torch.where(inside, lists.start[:count, None] + turn, len(lists.splat)).flatten()
        rows = self.table.index_select(0, index)
        torch.mm(rows[:, :6], self.basis, out=self.exponent[: len(index)])
        return index, rows[:, 6:].reshape(count, lists.step, -1)

    def weigh(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Blends one step: alpha before clamping, alpha as drawn, and weight, each [count, step, pixels]."""
        step, still = self.lists.step, self.open[:count]
        exponent = self.exponent[: count * step].view(count, step, -1)
        # Cut off after the exponential, which is slow far below the cut-off, where it underflows.
        unclamped = torch.threshold_(exponent.exp_(), contract.ALPHA_MIN, 0.0)
        alpha = unclamped.clamp_max(contract.ALPHA_MAX)
        if step == 1:
            weight = alpha * still
            after = still - weight
        else:
            after = still * torch.cumprod(1 - alpha, 1)
            weight = alpha * torch.cat([still, after[:, :-1]], 1)
        # The threshold leaves 0 from the splat on that ends the pixel; that one and those behind are not drawn.
        after = torch.threshold_(after, contract.MIN_TRANSMITTANCE, 0.0)
        goes_on = after.sign()
        weight.mul_(goes_on)
        self.through[:count].sub_(weight if step == 1 else weight.sum(1, keepdim=True))
        self.open[:count] = after[:, -1:]
        return unclamped, alpha.mul_(goes_on), weight


def _scatter(sums: Tensor, state: _State, lists: _Lists, conics: Tensor, opacities: Tensor) -> tuple[Tensor, ...]:
    """Per-entry moments about tile centres to gradients in centres, conics, opacities and channels."""
    x, y = state.offset.unbind(-1)
    m, mx, my, mxx, mxy, myy = sums[:, :6].unbind(-1)
    # Moved to the splat's own centre, which shifts each moment by those below it.
    mxx = mxx - 2 * x * mx + x * x * m
    mxy = mxy - x * my - y * mx + x * y * m
    myy = myy - 2 * y * my + y * y * m
    moved = torch.cat([torch.stack([m, mx - x * m, my - y * m, mxx, mxy, myy], -1), sums[:, 6:]], 1)
    total = moved.new_zeros(len(opacities), moved.shape[1]).index_add_(0, lists.splat, moved)
    m, mx, my = total[:, 0], total[:, 1], total[:, 2]
    a, b, c = conics.unbind(-1)
    g_centres = torch.stack([a * mx + b * my, b * mx + c * my], -1)
    return (
        g_centres,
        torch.stack([-0.5 * total[:, 3], -total[:, 4], -0.5 * total[:, 5]], -1),
        m / opacities,
        total[:, 6:],
    )


def _to_image(tiles: Tensor, lists: _Lists) -> Tensor:
    """[tiles, channels, pixels] in list order to [H, W, channels]."""
    camera = lists.camera
    columns, lines = camera.tiles
    grid = tiles[lists.place].reshape(lines, columns, -1, TILE, TILE)
    image = grid.permute(0, 3, 1, 4, 2).reshape(lines * TILE, columns * TILE, -1)
    return image[: camera.height, : camera.width].contiguous()


def _to_tiles(image: Tensor, lists: _Lists) -> Tensor:
    """[H, W, channels] to [tiles, channels, pixels] in list order."""
    camera = lists.camera
    columns, lines = camera.tiles
    padded = image.new_zeros(lines * TILE, columns * TILE, image.shape[-1])
    padded[: camera.height, : camera.width] = image
    grid = padded.reshape(lines, TILE, columns, TILE, -1).permute(0, 2, 4, 1, 3)
    tiles = torch.empty_like(lists.place)
    tiles[lists.place] = torch.arange(len(tiles), device=tiles.device)
    return grid.reshape(lines * columns, image.shape[-1], TILE * TILE)[tiles]
