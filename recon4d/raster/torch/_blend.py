"""Front-to-back blending of all tiles in lock step, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recon4d.raster import _contract as contract
from recon4d.raster.torch._lists import Lists
from recon4d.raster.torch._project import TILE

_NEVER = -80.0
"""Exponent of a list entry that stands for nothing."""


class Blend(torch.autograd.Function):
    """Front-to-back blending of all tiles; returns [H, W, channels] and the transmittance [H, W]."""

    @staticmethod
    def forward(
        ctx: Any, lists: Lists, centres: Tensor, conics: Tensor, opacities: Tensor, channels: Tensor
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
        lists: Lists = ctx.lists
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

    lists: Lists
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
    def of(cls, lists: Lists, centres: Tensor, conics: Tensor, opacities: Tensor, channels: Tensor) -> _State:
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


def _scatter(sums: Tensor, state: _State, lists: Lists, conics: Tensor, opacities: Tensor) -> tuple[Tensor, ...]:
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


def _to_image(tiles: Tensor, lists: Lists) -> Tensor:
    """[tiles, channels, pixels] in list order to [H, W, channels]."""
    camera = lists.camera
    columns, lines = camera.tiles
    grid = tiles[lists.place].reshape(lines, columns, -1, TILE, TILE)
    image = grid.permute(0, 3, 1, 4, 2).reshape(lines * TILE, columns * TILE, -1)
    return image[: camera.height, : camera.width].contiguous()


def _to_tiles(image: Tensor, lists: Lists) -> Tensor:
    """[H, W, channels] to [tiles, channels, pixels] in list order."""
    camera = lists.camera
    columns, lines = camera.tiles
    padded = image.new_zeros(lines * TILE, columns * TILE, image.shape[-1])
    padded[: camera.height, : camera.width] = image
    grid = padded.reshape(lines, TILE, columns, TILE, -1).permute(0, 2, 4, 1, 3)
    tiles = torch.empty_like(lists.place)
    tiles[lists.place] = torch.arange(len(tiles), device=tiles.device)
    return grid.reshape(lines * columns, image.shape[-1], TILE * TILE)[tiles]
