"""Which splats touch which tiles, nearest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recon4d.raster._plan import STEP, Plan
from recon4d.raster.torch._project import TILE, Camera

CPU_STEP = 1
"""List entries of each tile blended at once on the CPU, where launches are cheap; ``STEP`` elsewhere."""


@dataclass(frozen=True)
class Lists:
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
    camera: Camera
    overflow: Tensor
    """0-dim bool: there was no room for some entries."""


def tile_lists(rects: Tensor, drawn: Tensor, camera: Camera, plan: Plan | None) -> Lists:
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
    return Lists(
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


def list_lengths(rects: Tensor, drawn: Tensor, camera: Camera) -> Tensor:
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
