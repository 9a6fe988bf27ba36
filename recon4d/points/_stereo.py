"""Depth maps of what stands still: dense matching over all views, smoothed along scan lines, checked across views.

Cost is the truncated colour difference along each pixel's ray in steps of about a pixel, averaged over the better
half of the other views (the rest may be occluded; Kang et al. 2001). Semi-global matching (Hirschmueller 2008) makes
depth smooth except at edges. A depth that another view's map confirms is trusted; one that lies in front of
what another view sees is not.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numba import prange

from recon4d.jit import kernel
from recon4d.points._rays import pixels_of, ray_directions
from recon4d.points._workspace import Workspace
from recon4d.types import Camera

_FEW = np.float32(0.05)  # Added over the number of views that see a point: agreement of many is no chance.
_ALONE = np.float32(0.15)  # Where no other view sees a point: nothing could ever correct it.
_HIDDEN, _RULED_OUT = np.float32(-1), np.float32(-2)
_TRUNCATE = np.float32(0.25)
_BENCH_BONUS = np.float32(0.005)  # What other depths must win by against the bench plane, which is known to be there.
_SMALL_STEP = np.float32(0.008)
_LARGE_STEP = np.float32(0.06)
_NEARNESS = np.float32(0.05)  # Cost of the nearest depth over the farthest: what nothing can match is background.
_SURROUNDINGS_PX = 4.0
_NOISE = 0.01  # Contrast below which surroundings count as flat.
_RELATIVE = 0.06  # Colour difference that a relative brightness of one is worth.
_FARTHEST = 98.0  # Percentile of the distances from the focus of what is sure: where the background begins.
_BEHIND_CAMERAS = 1.3  # Least radius of the background, over the farthest camera's distance.
_SPECKLE_PX = 120  # Smaller islands of depth are chance matches.
_STEPS = 16_000  # Of inverse depth, up to the nearest, while islands are looked for.
_PASSES = ((80, 192), (160, 384), (160, 384))  # Width in pixels and number of depths.
_AGREE = 0.02  # Relative depth difference within which another view confirms.
_DENY = 0.03  # Relative depth by which a point must lie in front of another view's surface to be seen through.
_f4 = np.float32


@dataclass(frozen=True)
class _Surface:
    """One view's depths [h, w], and how many other views confirm and deny each."""

    depth: np.ndarray
    confirmed: np.ndarray
    denied: np.ndarray


@dataclass(frozen=True)
class Matching:
    """What dense matching finds out about C views."""

    depths: list[np.ndarray]
    """Per view [h, w] float32 camera-z in metres, at most 160 pixels wide."""
    sure: list[np.ndarray]
    """Per view [h, w] bool, whether the depth is sure."""
    exposures: np.ndarray
    """[C] float64 of mean 1 (in the logarithm), how bright each view shows what others see, too."""


def match_views(cameras: Sequence[Camera], images: Sequence[np.ndarray], workspace: Workspace) -> Matching:
    """Depth maps of calibrated images.

    Args:
        cameras: the views.
        images: [H, W, 3] float32 in [0, 1], one a camera.
        workspace: gives the range of depths and the bench plane.

    """
    gains = np.ones(len(cameras), np.float32)
    surfaces: list[_Surface] = []
    small: list[Camera] = []
    pictures: list[np.ndarray] = []
    for width, count in _PASSES:
        small, pictures = _shrink(cameras, images, width)
        known = [_sure(surface, camera) for surface, camera in zip(surfaces, small, strict=bool(surfaces))]
        pictures = [picture * gain for picture, gain in zip(pictures, gains, strict=True)]
        described = [_describe(picture) for picture in pictures]
        depths = [_match(small, described, known, index, workspace, count) for index in range(len(small))]
        surfaces = [_check(small, depths, index) for index in range(len(small))]
        gains = gains * _equal_gains(small, pictures, surfaces)
    sure = [_is_sure(surface, workspace) for surface in surfaces]
    depths = _with_background(small, [surface.depth for surface in surfaces], sure, workspace)
    return Matching(depths=depths, sure=sure, exposures=1 / gains.astype(np.float64))


def _is_sure(surface: _Surface, workspace: Workspace) -> np.ndarray:
    """[h, w] bool: more views confirm the depth than deny it, and it is no small island."""
    sure = surface.confirmed > surface.denied
    steps = np.where(sure, _STEPS * workspace.near_m / surface.depth, 0).astype(np.int16)
    cv2.filterSpeckles(steps, 0, _SPECKLE_PX, _STEPS * _AGREE)
    return sure & (steps > 0)


def _with_background(
    cameras: list[Camera], depths: list[np.ndarray], sure: list[np.ndarray], workspace: Workspace
) -> list[np.ndarray]:
    """What nobody is sure of is put on the bench plane, or where a ray does not meet it, on a sphere around the
    workspace, behind all cameras and all that is sure."""
    rays = [ray_directions(c, *np.mgrid[: c.height, : c.width][::-1]).astype(np.float64) for c in cameras]
    offsets = [camera.center_w - workspace.focus_w for camera in cameras]
    distances = [
        np.linalg.norm(o + d[s][:, None] * r[s], axis=1) for o, d, r, s in zip(offsets, depths, rays, sure, strict=True)
    ]
    radius = _BEHIND_CAMERAS * max(float(np.linalg.norm(offset)) for offset in offsets)
    if len(known := np.concatenate(distances)):
        radius = max(radius, float(np.percentile(known, _FARTHEST)))
    filled = []
    for offset, depth, ray, known_here in zip(offsets, depths, rays, sure, strict=True):
        a, b = (ray**2).sum(-1), ray @ offset
        background = (np.sqrt(b * b - a * (offset @ offset - radius**2)) - b) / a
        if workspace.plane is not None:
            height = workspace.height_above_plane(offset + workspace.focus_w)
            bench = -height / np.where(np.abs(slope := ray @ workspace.plane[:3]) > 1e-9, slope, 1e-9)
            background = np.where((bench > 0) & (bench < background), bench, background)
        filled.append(np.where(known_here, depth, background).astype(np.float32))
    return filled


def _shrink(
    cameras: Sequence[Camera], images: Sequence[np.ndarray], width_px: int
) -> tuple[list[Camera], list[np.ndarray]]:
    small, pictures = [], []
    for camera, image in zip(cameras, images, strict=True):
        width = min(width_px, camera.width)
        small.append(camera.resized(width, max(1, round(camera.height * width / camera.width))))
        size = (small[-1].width, small[-1].height)
        pictures.append(cv2.GaussianBlur(cv2.resize(image, size, interpolation=cv2.INTER_AREA), (0, 0), 0.7))
    return small, pictures


def _describe(picture: np.ndarray) -> np.ndarray:
    """[h, w, 4]: the colour, and the brightness against its surroundings in units of their contrast.

    The last one matches faint patterns, such as the lines of a wall, as well as strong ones.
    """
    grey = picture.mean(-1)
    mean = cv2.GaussianBlur(grey, (0, 0), _SURROUNDINGS_PX)
    contrast = np.sqrt(np.maximum(cv2.GaussianBlur((grey - mean) ** 2, (0, 0), _SURROUNDINGS_PX), 0))
    relative = ((grey - mean) / (contrast + _NOISE)).clip(-2, 2) * _RELATIVE
    return np.concatenate([picture, relative[..., None]], -1).astype(np.float32)


def _sure(surface: _Surface, camera: Camera) -> np.ndarray:
    """[h, w] float32: depths that more views confirm than deny, 0 elsewhere, at another resolution."""
    depth = np.where(surface.confirmed > surface.denied, surface.depth, 0).astype(np.float32)
    return cv2.resize(depth, (camera.width, camera.height), interpolation=cv2.INTER_NEAREST)


def _equal_gains(cameras: list[Camera], pictures: list[np.ndarray], surfaces: list[_Surface]) -> np.ndarray:
    """[C] factors of mean 1 (in the logarithm) that make the views equally bright where they see the same surface.

    Pairs of views give the median ratio of their brightness; the factors fit all pairs in the least-squares sense.
    """
    count = len(cameras)
    A, b = [np.ones(count)], [0.0]
    for i, j in itertools.permutations(range(count), 2):
        v, u = np.nonzero(surfaces[i].confirmed > surfaces[i].denied)
        points = cameras[i].center_w + surfaces[i].depth[v, u, None] * ray_directions(cameras[i], u, v)
        column, row, _ = pixels_of(cameras[j], points.astype(np.float32))
        seen, behind = _against(cameras[j], surfaces[j].depth, points)
        same = seen & (np.abs(behind) < _AGREE)
        if same.sum() >= 50:
            mine, theirs = (
                np.log(p.mean(-1) + 0.02) for p in (pictures[i][v, u][same], pictures[j][row, column][same])
            )
            equation = np.zeros(count)
            equation[i], equation[j] = 1, -1
            A.append(equation)
            b.append(float(np.median(theirs - mine)))
    return np.exp(np.linalg.lstsq(np.array(A), np.array(b), rcond=None)[0]).astype(np.float32)


def _match(
    cameras: list[Camera],
    pictures: list[np.ndarray],
    known: list[np.ndarray],
    index: int,
    workspace: Workspace,
    count: int,
) -> np.ndarray:
    inverse = np.linspace(1 / workspace.far_m, 1 / workspace.near_m, count).astype(np.float32)
    camera, picture = cameras[index], pictures[index]
    others = [i for i in range(len(cameras)) if i != index]
    turn, shift, bounds = _warps(camera, [cameras[i] for i in others])
    size = (len(others), max(p.shape[0] for p in pictures), max(p.shape[1] for p in pictures))
    packed, sure = np.zeros((*size, 4), np.float32), np.zeros(size, np.float32)
    for slot, other in enumerate(others):
        height, width = pictures[other].shape[:2]
        packed[slot, :height, :width] = pictures[other]
        if known:
            sure[slot, :height, :width] = known[other]
    v, u = np.mgrid[: camera.height, : camera.width]
    rays = np.stack(
        [(u + 0.5 - camera.K[0, 2]) / camera.K[0, 0], (v + 0.5 - camera.K[1, 2]) / camera.K[1, 1], np.ones(u.shape)], -1
    ).astype(np.float32)
    cost = np.empty((camera.height, camera.width, count), np.float32)
    if others:
        match_costs(picture, packed, sure, rays, (turn, shift, bounds), inverse, cost)
    else:
        cost.fill(_ALONE)
    if workspace.plane is not None:
        _favour_plane(cost, camera, rays, inverse, workspace.plane)
    total = np.zeros_like(cost)
    smooth_along(cost, picture, total)
    smooth_along(cost.transpose(1, 0, 2), picture.transpose(1, 0, 2), total.transpose(1, 0, 2))
    return (1 / _peak(total, inverse)).astype(np.float32)


def _warps(camera: Camera, others: list[Camera]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per other view: K R and K t of (ray + shift * inverse depth), and the image size."""
    turn = np.empty((len(others), 3, 3), np.float32)
    shift = np.empty((len(others), 3), np.float32)
    bounds = np.empty((len(others), 2), np.float32)
    for slot, other in enumerate(others):
        T = other.T_cam_world @ camera.T_world_cam
        turn[slot], shift[slot] = other.K @ T[:3, :3], other.K @ T[:3, 3]
        bounds[slot] = other.width, other.height
    return turn, shift, bounds


def _favour_plane(cost: np.ndarray, camera: Camera, rays: np.ndarray, inverse: np.ndarray, plane: np.ndarray) -> None:
    height = camera.center_w @ plane[:3] + plane[3]
    slope = rays @ (camera.T_cam_world[:3, :3] @ plane[:3]).astype(np.float32)
    at = (-slope / np.float32(height) - inverse[0]) / (inverse[1] - inverse[0])  # [h, w] in steps.
    step = np.rint(at).astype(int)
    v, u = np.nonzero((step >= 1) & (step < len(inverse) - 1))
    for offset in (-1, 0, 1):
        cost[v, u, step[v, u] + offset] -= _BENCH_BONUS


def _peak(total: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """[h, w] inverse depth of least cost, between samples by a parabola."""
    best = total.argmin(-1)
    inner = best.clip(1, total.shape[-1] - 2)
    low, mid, high = (np.take_along_axis(total, (inner + k)[..., None], -1)[..., 0] for k in (-1, 0, 1))
    bend = low - 2 * mid + high
    offset = np.where((bend > 1e-9) & (inner == best), 0.5 * (low - high) / np.maximum(bend, 1e-9), 0).clip(-0.5, 0.5)
    return inverse[best] + offset * (inverse[1] - inverse[0])


def _check(cameras: list[Camera], depths: list[np.ndarray], index: int) -> _Surface:
    depth = depths[index]
    v, u = np.mgrid[: cameras[index].height, : cameras[index].width]
    points = cameras[index].center_w + depth[..., None] * ray_directions(cameras[index], u, v)
    confirmed, denied = np.zeros(depth.shape, np.int16), np.zeros(depth.shape, np.int16)
    for other, theirs in enumerate(depths):
        if other != index:
            seen, nearer = _against(cameras[other], theirs, points)
            confirmed += seen & (np.abs(nearer) < _AGREE)
            denied += seen & (nearer < -_DENY)
    return _Surface(depth, confirmed, denied)


def _against(camera: Camera, depth: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether a view sees points [...], and how far they lie behind its surface, as a share of its depth."""
    column, row, seen = pixels_of(camera, points.astype(np.float32))
    z = points @ camera.T_cam_world[2, :3] + camera.T_cam_world[2, 3]
    return seen, z / depth[row, column] - 1


@kernel(parallel=True)
def match_costs(picture, others, sure, rays, warps, inverse, cost):
    """Fills cost [h, w, D]: difference of a picture [h, w, 4] to the others [m, h', w', 4] along its rays.

    Where the others are sure of their depth (sure [m, h', w'], 0 where not), a point behind it counts as occluded, and
    a point in front of it is ruled out.
    """
    turn, shift, bounds = warps
    height, width, count = cost.shape
    views = others.shape[0]
    for v in prange(height):
        best = np.empty(views, np.float32)
        start = np.empty((views, 3), np.float32)
        for u in range(width):
            for j in range(views):
                for k in range(3):
                    start[j, k] = turn[j, k, 0] * rays[v, u, 0] + turn[j, k, 1] * rays[v, u, 1] + turn[j, k, 2]
            for d in range(count):
                seen = 0
                total = _NEARNESS * _f4(d) / _f4(count)
                for j in range(views):
                    difference = compare(picture[v, u], others[j], sure[j], start[j], shift[j], bounds[j], inverse[d])
                    if difference == _RULED_OUT:
                        total += _f4(1)
                    elif difference >= 0:
                        slot = seen
                        while slot > 0 and best[slot - 1] > difference:
                            best[slot] = best[slot - 1]
                            slot -= 1
                        best[slot] = difference
                        seen += 1
                half = (seen + 1) // 2
                for j in range(half):
                    total += best[j] / _f4(half)
                cost[v, u, d] = total + (_FEW / _f4(seen) if seen > 0 else _ALONE)


@kernel()
def compare(color, other, sure, start, shift, bounds, inverse):
    """Difference of a colour [4] to another view's at one depth; _HIDDEN or _RULED_OUT where that view says so."""
    z = start[2] + shift[2] * inverse
    if z <= _f4(1e-6):
        return _HIDDEN
    px = (start[0] + shift[0] * inverse) / z
    py = (start[1] + shift[1] * inverse) / z
    if not (px >= 0 and py >= 0 and px < bounds[0] and py < bounds[1]):
        return _HIDDEN
    column, row = int(px), int(py)
    surface = sure[row, column] * inverse  # z is scaled by the inverse depth, too.
    if surface > 0 and z < surface * _f4(1 - _DENY):
        return _RULED_OUT
    if surface > 0 and z > surface * _f4(1 + _AGREE):
        return _HIDDEN
    theirs = other[row, column]
    difference = (abs(theirs[0] - color[0]) + abs(theirs[1] - color[1]) + abs(theirs[2] - color[2])) * _f4(1 / 3)
    return min(difference + abs(theirs[3] - color[3]), _TRUNCATE)


@kernel(parallel=True)
def smooth_along(cost, picture, total):
    """Adds to total [n, m, D] the path costs of both directions along the second axis."""
    lines, length, count = cost.shape
    for line in prange(lines):
        before = np.empty(count, np.float32)
        now = np.empty(count, np.float32)
        for direction in range(2):
            previous = 0
            for i in range(length):
                at = i if direction == 0 else length - 1 - i
                if i == 0:
                    for d in range(count):
                        now[d] = cost[line, at, d]
                else:
                    edge = _f4(0)
                    for k in range(3):
                        edge += abs(picture[line, at, k] - picture[line, previous, k])
                    jump = max(_LARGE_STEP / (_f4(1) + _f4(8) * edge), _SMALL_STEP)
                    least = before[0]
                    for d in range(1, count):
                        least = min(least, before[d])
                    for d in range(count):
                        best = min(before[d], least + jump)
                        if d > 0:
                            best = min(best, before[d - 1] + _SMALL_STEP)
                        if d < count - 1:
                            best = min(best, before[d + 1] + _SMALL_STEP)
                        now[d] = cost[line, at, d] + best - least
                for d in range(count):
                    total[line, at, d] += now[d]
                    before[d] = now[d]
                previous = at
