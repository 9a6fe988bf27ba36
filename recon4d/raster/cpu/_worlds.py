"""Many worlds of the same splats on the CPU: the ground is drawn once for all, bodies world by world.

For each camera, frames (one a world) go through the kernels in chunks that fit the memory and, where there is enough
of it, the processor's caches. A camera that stands still shares one ground, the background's splats, among all worlds;
for one that moves with something the background is a body like the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
import torch

from recon4d.errors import BackendError
from recon4d.geometry import quat_to_matrix
from recon4d.raster import _contract as contract
from recon4d.raster._contract import WorldRequest
from recon4d.raster._records import WorldImages, WorldSplats
from recon4d.raster.cpu import _frames, _lanes
from recon4d.raster.cpu._rules import RULES
from recon4d.raster.cpu._workspace import Lease

_OUTPUTS = ("rgb", "alpha", "depth", "segmentation")
_FRAMES = 16
"""Frames a thread in a chunk at most. Fewer stay in nearer caches, more make threads wait less often for each other."""
_RULES = (*RULES, np.float32(contract.MIN_LABEL_ALPHA))
_ENTRY = 6
"""Bytes of a list's entry."""
_TRANSPARENT = -1e4
"""log2 of the opacity of what is not drawn."""


@dataclass(frozen=True)
class _Ground:
    """Tile lists that all frames share; see :func:`recon4d.raster.cpu._frames.draw`."""

    starts: np.ndarray
    ends: np.ndarray
    entries: np.ndarray
    masks: np.ndarray
    records: np.ndarray
    states: np.ndarray
    bases: dict[tuple, tuple[np.ndarray, ...]] = field(default_factory=dict)
    """Resolved images of the ground alone, the last of them, by how they look."""

    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.starts, self.ends, self.entries, self.masks, self.records, self.states)


@dataclass(frozen=True)
class _Lists:
    """Tile lists of some frames."""

    starts: np.ndarray
    ends: np.ndarray
    entries: np.ndarray
    masks: np.ndarray
    records: np.ndarray

    def arrays(self, bodies: int) -> tuple:
        return (self.starts, self.ends, self.entries, self.masks, self.records, bodies)


def render_worlds(request: WorldRequest) -> None:
    """Draws on the CPU; see :func:`recon4d.raster.render_worlds`.

    Raises:
        BackendError: one frame alone lists more (splat, tile) pairs than the memory allows.
    """
    for c in range(request.viewmats.shape[1]):
        _Camera(request, c).draw()


class _Camera:
    """One camera of a request, in all its worlds."""

    def __init__(self, request: WorldRequest, c: int) -> None:
        self.request, self.c = request, c
        self.table, self.starts = _table(request.splats)
        image = next(t for t in (getattr(request.images, name) for name in _OUTPUTS) if t is not None)
        self.size = (int(image.shape[3]), int(image.shape[2]))
        self.tiles = -(-self.size[0] // _frames.TILE) * -(-self.size[1] // _frames.TILE)
        self.look = request.background.numpy()

    def draw(self) -> None:
        request, c = self.request, self.c
        if not request.worlds:
            return
        fixed = request.is_fixed(c)
        ground = self._ground() if fixed else self._no_ground()
        exposures = request.exposures[list(request.worlds), c].numpy().astype(np.float32)
        base = self._base(ground, exposures) if len(ground.states) else _arrays(None, _OUTPUTS)
        images = _arrays(request.images, _OUTPUTS)
        chunk = self._chunk(1 if fixed else 0)
        for begin in range(0, len(request.worlds), chunk):
            worlds = np.array(request.worlds[begin : begin + chunk], np.int64)
            views, lenses = self._views(worlds, 1 if fixed else 0)
            lease = Lease()
            array = lease.workspace.array
            for part, lists in self._lists(array, views, lenses, 1 if fixed else 0):
                _frames.draw(
                    lists.arrays(request.splats.bodies),
                    ground.arrays(),
                    _RULES,
                    (self.look, exposures[begin:][part]),
                    (worlds[part], c),
                    images,
                    base,
                )

    def _room(self, first: int) -> int:
        """The most splats that a frame can draw."""
        return max(int(self.starts[-1] - self.starts[first]) * _lanes.LANES, 1)

    def _chunk(self, first: int) -> int:
        frame = self._room(first) * (4 * _frames.RECORD + 36) + 8 * self.tiles
        fits = self.request.memory_bytes // 2 // frame
        return max(1, min(fits, _FRAMES * numba.get_num_threads()))

    def _views(self, worlds: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
        """The camera's views of the bodies from ``first`` on [F, B', 16] and its lenses [F, 13]."""
        request = self.request
        cameras = [request.camera(int(w), self.c) for w in worlds]
        poses = request.poses[torch.from_numpy(worlds), first:].numpy()
        T = np.stack([view.numpy() for view, _ in cameras])[:, None] @ poses
        views = np.zeros((*T.shape[:2], 16), np.float32)
        views[:, :, :12] = T[:, :, :3].reshape(*T.shape[:2], 12)
        views[:, :, _lanes.AWAY : _lanes.AWAY + 3] = (T[:, :, :3, :3] * T[:, :, :3, 3:]).sum(2)
        return views, np.stack([self._lens(K.numpy()) for _, K in cameras])

    def _lens(self, K: np.ndarray) -> np.ndarray:
        width, height = self.size
        fx, fy, cx, cy = K[0, 0], K[1, 1], K[0, 2], K[1, 2]
        limits = [contract.FOV_MARGIN * max(cx, width - cx) / fx, contract.FOV_MARGIN * max(cy, height - cy) / fy]
        rules = [contract.NEAR_M, contract.DILATION_PX2, contract.MAX_VARIANCE_PX2, float(RULES[0])]
        return np.array([fx, fy, cx, cy, *limits, width, height, *rules, self.request.antialiased], np.float32)

    def _lists(self, array: Any, views: np.ndarray, lenses: np.ndarray, first: int, last: int | None = None) -> Any:
        """Tile lists of bodies ``first`` to ``last`` in frames, as many frames at once as there is memory for."""
        frames, room = len(views), self._room(first)
        starts = self.starts[first : None if last is None else last + 1]
        records = array("records", (frames, room, _frames.RECORD), np.float32)
        keys, tally = array("keys", (frames, room), np.uint32), array("tally", (frames, self.tiles), np.int32)
        rects, order = array("rects", (frames, room, 2), np.int32), array("order", (frames, room), np.int32)
        sort = array("scratch", (frames, 3, room), np.uint32), array("bases", (frames, room + 1), np.int64)
        found, columns = np.zeros((frames, 1), np.int64), -(-self.size[0] // _frames.TILE)
        _frames.prepare(
            *(self.table, starts, views, lenses, columns, records, (keys, rects, tally), order),
            (np.ones(room, np.int32), *sort),
            *(first, found),
        )
        lengths = tally.astype(np.int64)
        pairs = lengths.sum(1)
        most = max(self.request.memory_bytes // 2 // _ENTRY, 1)
        begin = 0
        while begin < frames:
            fits = int(np.searchsorted(np.cumsum(pairs[begin:]), most, side="right"))
            if fits == 0:
                raise BackendError(
                    f"the splats of one frame touch {pairs[begin]} tiles together, memory_mib allows {most};"
                    " raise it, or prune or shrink splats that are large in the image"
                )
            part = slice(begin, begin + fits)
            ends = np.cumsum(lengths[part]).reshape(fits, self.tiles)
            begins = ends - lengths[part]
            total = int(ends[-1, -1])
            entries, masks = array("entries", (max(total, 1),), np.int32), array("masks", (max(total, 1),), np.uint16)
            _frames.fill(order[part], found[part], rects[part], columns, begins, ends, entries, masks)
            yield part, _Lists(begins, ends, entries, masks, records[part])
            begin += fits

    def _no_ground(self) -> _Ground:
        nothing = np.zeros(self.tiles, np.int64)
        return _Ground(nothing, nothing, *_NOTHING)

    def _ground(self) -> _Ground:
        """The background's lists; with a cache those of the cache."""
        request = self.request
        view, K = request.camera(request.worlds[0], self.c)
        key = ("cpu", view.numpy().tobytes(), K.numpy().tobytes(), self.size, request.antialiased)
        kept = request.cache.find(request.splats, key) if request.cache is not None else None
        if kept is not None:
            return kept
        worlds = np.array(request.worlds[:1], np.int64)
        views, lenses = self._views(worlds, 0)
        lease = Lease()
        ((_, lists),) = self._lists(lease.workspace.array, views[:, :1], lenses, 0, 1)
        if request.cache is None:
            # Copied, because the frames' lists are made in the same memory.
            used = slice(0, max(int(lists.entries.max(initial=0)) + 1, 1))
            lists = (
                lists.starts[0],
                lists.ends[0],
                lists.entries.copy(),
                lists.masks.copy(),
                lists.records[0, used].copy(),
            )
            return _Ground(*lists, _NOTHING[3])
        ground = self._settled(lists)
        request.cache.keep(key, ground)
        return ground

    def _settled(self, lists: _Lists) -> _Ground:
        """What any frame can still need of the background: entries that show when nothing is in front."""
        starts, ends, records = lists.starts[0], lists.ends[0], lists.records[0]
        hits = np.zeros(len(lists.entries), np.uint16)
        states = np.empty((self.tiles, _frames.LANES, _frames.ROWS, _frames.LANES), np.float32)
        _frames.settle(starts, ends, lists.entries, lists.masks, records, self.size, _RULES, hits, states)
        shown = hits.nonzero()[0]
        begins, stops = np.searchsorted(shown, starts), np.searchsorted(shown, ends)
        return _Ground(begins, stops, _NOTHING[0], hits[shown], records[lists.entries[shown]], states)

    def _base(self, ground: _Ground, exposures: np.ndarray) -> tuple[np.ndarray, ...]:
        """Images of the background alone; empty where worlds are exposed differently."""
        images = self.request.images
        if images.rgb is not None and (exposures != exposures[0]).any():
            return _arrays(None, _OUTPUTS)
        key = (self.look.tobytes(), float(exposures[0]), images.outputs, images.rgb is not None and images.rgb.dtype)
        if key in ground.bases:
            return ground.bases[key]
        alone = {name: torch.empty_like(getattr(images, name)[:1, :1]) for name in images.outputs}
        base = _arrays(WorldImages(**alone), _OUTPUTS)
        nothing = np.zeros((1, self.tiles), np.int64)
        lists = (nothing, nothing, *_NOTHING[:2], np.zeros((1, 1, _frames.RECORD), np.float32), 1)
        targets = (np.zeros(1, np.int64), 0)
        _frames.draw(lists, ground.arrays(), _RULES, (self.look, exposures[:1]), targets, base, _arrays(None, _OUTPUTS))
        ground.bases.clear()
        ground.bases[key] = base
        return base


_NOTHING = (
    np.empty(0, np.int32),
    np.empty(0, np.uint16),
    np.empty((0, _frames.RECORD), np.float32),
    np.empty((0, _frames.LANES, _frames.ROWS, _frames.LANES), np.float32),
)
"""Entries, masks, records and states of nothing."""


def _arrays(images: WorldImages | None, names: tuple[str, ...]) -> tuple[np.ndarray, ...]:
    """The images as arrays, empty ones for those that are None."""
    dtypes = {"rgb": np.float32, "segmentation": np.int64}
    found = []
    for name in names:
        tensor = getattr(images, name) if images is not None else None
        shape = (0, 0, 0, 0, 3) if name == "rgb" else (0, 0, 0, 0)
        found.append(np.empty(shape, dtypes.get(name, np.float32)) if tensor is None else tensor.numpy())
    return tuple(found)


def _table(splats: WorldSplats) -> tuple[np.ndarray, np.ndarray]:
    """What :func:`recon4d.raster.cpu._frames.prepare` reads: the table, and where each body begins in it."""
    if "cpu" not in splats.derived:
        splats.derived["cpu"] = _make_table(splats)
    return splats.derived["cpu"]


def _make_table(world: WorldSplats) -> tuple[np.ndarray, np.ndarray]:
    splats, lanes = world.splats, _lanes.LANES
    counts = np.diff(np.array(world.starts))
    starts = np.concatenate([[0], np.cumsum(-(-counts // lanes) * lanes)]).astype(np.int64)
    place = np.concatenate([np.arange(n) + start for n, start in zip(counts, starts, strict=False)] or [[]])
    usable = splats.quats.square().sum(1) >= contract.MIN_QUAT_NORM**2
    usable &= splats.opacities >= contract.ALPHA_MIN
    for values in (splats.means, splats.quats, splats.scales, splats.opacities[:, None], splats.sh.flatten(1)):
        usable &= values.abs().sum(1) <= contract.MAX_VALUE
    axes = quat_to_matrix(splats.quats) * splats.scales[:, None, :]
    logs = torch.where(usable, splats.opacities, 1.0).log2()
    logs[~usable] = _TRANSPARENT
    rows = torch.cat([splats.means, axes.flatten(1), logs[:, None], splats.sh.flatten(1)], 1)
    rows[~usable] = 0.0
    rows[~usable, _lanes.OPACITY] = _TRANSPARENT
    # Sixteen splats lie together: else each of the rows would be a stream of its own from memory.
    table = np.zeros((rows.shape[1], int(starts[-1]) + lanes), np.float32)
    table[_lanes.OPACITY] = _TRANSPARENT
    table[:, place.astype(np.int64)] = rows.T.numpy()
    blocks = np.ascontiguousarray(table.reshape(len(table), -1, lanes).transpose(1, 0, 2))
    return blocks, starts // lanes
