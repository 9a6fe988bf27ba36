"""Cameras compared by what they saw: the same video twice, exposure, white balance."""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np

from recon4d.capture._findings import Inspection
from recon4d.capture._manifest import CameraEntry, Manifest
from recon4d.capture._watch import BLACK, Looks
from recon4d.geometry import project, unproject

_GRID = 24
"""Points of the bench along each side."""
_MIN_POINTS = 12
_DARK, _BRIGHT = 10.0, 245.0
"""Levels between which a camera tells brightness; beyond, it is cut off."""
_CAST = 1.08
"""A channel's gain over the camera's own brightness from which its white balance differs."""
_TOLD = 1.15
"""Brightness over that of the others from which it is worth a note."""


def bench_points(manifest: Manifest) -> np.ndarray:
    """[P, 3] float64 points of the bench around where the cameras look, metres in the world; none without a plane."""
    if manifest.plane is None or len(manifest.entries) < 2:
        return np.empty((0, 3))
    normal, offset = manifest.plane[:3], manifest.plane[3]
    centres = np.stack([entry.camera.center_w for entry in manifest.entries])
    axes = np.stack([entry.camera.forward_w for entry in manifest.entries])
    with np.errstate(divide="ignore"):
        depths = -(centres @ normal + offset) / (axes @ normal)
    ahead = np.isfinite(depths) & (depths > 0)
    if not ahead.any():
        return np.empty((0, 3))
    focus = np.median(centres[ahead] + depths[ahead, None] * axes[ahead], axis=0)
    half = float(np.median(depths[ahead])) / 2
    across = np.linalg.svd(normal[None])[2][1:]
    steps = np.linspace(-half, half, _GRID)
    a, b = np.meshgrid(steps, steps)
    return focus + a.reshape(-1, 1) * across[0] + b.reshape(-1, 1) * across[1]


def pixels_of(points_w: np.ndarray, entry: CameraEntry) -> np.ndarray:
    """[P, 2] float64 pixels as filmed (centres at 0.5), NaN where the camera does not see the point."""
    camera, lens = entry.camera, entry.distortion
    size = [camera.width - 1, camera.height - 1]
    pixels, depth = project(points_w, camera.K, camera.T_cam_world)
    inside = (depth > 0) & (pixels >= 1).all(-1) & (pixels < size).all(-1)
    if lens is not None and inside.any():
        rays = unproject(pixels[inside], np.ones(int(inside.sum())), camera.K, np.eye(4))[:, None]
        bend = cv2.fisheye.projectPoints if lens.model == "fisheye" else cv2.projectPoints
        pixels[inside] = bend(rays, np.zeros(3), np.zeros(3), camera.K, lens.coefficients)[0].reshape(-1, 2)
        inside &= (pixels >= 1).all(-1) & (pixels < size).all(-1)
    return np.where(inside[:, None], pixels, np.nan)


def compare_looks(looks: Mapping[str, Looks], ratio: float, inspection: Inspection) -> None:
    """Refuses the same pictures under two names; tells how the cameras' colours differ.

    Args:
        looks: Of each camera by name.
        ratio: Brightness over that of the others from which it is warned of.
        inspection: Where findings go to.
    """
    owners: dict[str, str] = {}
    for name, look in looks.items():
        if look.brightness < BLACK:
            continue  # Black pictures are alike, and told of already.
        if look.digest in owners:
            with inspection.part():
                inspection.error(
                    f"shows the same pictures as camera '{owners[look.digest]}', if in another file",
                    "one was copied over the other; give each camera its own",
                    camera=name,
                )
        owners.setdefault(look.digest, name)
    gains = bench_gains({name: look.bench for name, look in looks.items() if look.brightness >= BLACK})
    for name, gain in gains.items():
        _tell_gain(name, gain, ratio, inspection)
    if not gains:
        _compare_levels({name: look.brightness for name, look in looks.items()}, ratio, inspection)


def bench_gains(bench: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """[3] float64 of each camera: its R, G, B on the bench over those of all cameras in the middle.

    At each point that two cameras or more see, a camera's logarithmic level is held against the median of all; its
    gain is the median over points, so that what stands or shines there hardly counts. Cameras that share too few
    points are left out.
    """
    if len(bench) < 2:
        return {}
    levels = np.stack(list(bench.values()))
    usable = (levels > _DARK).all(-1) & (levels < _BRIGHT).all(-1)
    usable &= usable.sum(0) >= 2
    logs = np.where(usable[..., None], np.log(np.where(usable[..., None], levels, 1.0)), np.nan)
    shared = usable.any(0)
    apart = logs[:, shared] - np.nanmedian(logs[:, shared], axis=0)
    return {
        name: np.exp(np.nanmedian(apart[index], axis=0))
        for index, name in enumerate(bench)
        if usable[index].sum() >= _MIN_POINTS
    }


def _tell_gain(name: str, gain: np.ndarray, ratio: float, inspection: Inspection) -> None:
    brightness = float(np.exp(np.log(gain).mean()))
    cast = gain / brightness
    off = max(brightness, 1 / brightness)
    if off > ratio:
        inspection.warn(
            f"sees the bench {brightness:.2f} times as bright as the cameras in the middle do",
            "lock exposure and gain to the same values; one factor a camera is fitted, noise and clipping stay",
            camera=name,
        )
    elif off > _TOLD:
        inspection.note(
            f"sees the bench {brightness:.2f} times as bright as the cameras in the middle do; one factor a camera is"
            " fitted for that",
            camera=name,
        )
    if max(cast.max(), 1 / cast.min()) > _CAST:
        inspection.warn(
            f"its white balance differs: beside its brightness, red is {cast[0]:.2f}, green {cast[1]:.2f} and blue"
            f" {cast[2]:.2f} times that of the cameras in the middle",
            "lock white balance to the same value; colours are not fitted for each camera",
            camera=name,
        )


def _compare_levels(brightness: Mapping[str, float], ratio: float, inspection: Inspection) -> None:
    """Without a bench in common: warns when the cameras' mean levels differ by more than the ratio."""
    lit = {name: value for name, value in brightness.items() if value >= BLACK}
    if len(lit) < 2:
        return
    dark, bright = min(lit, key=lit.__getitem__), max(lit, key=lit.__getitem__)
    if lit[bright] > ratio * lit[dark]:
        inspection.warn(
            f"the cameras' exposures differ: '{dark}' has a mean level of {lit[dark]:.0f} and '{bright}' of"
            f" {lit[bright]:.0f} of 255",
            "lock exposure, gain and white balance to the same values",
        )
