"""Pictures of a bundle's splats, for building and checking it: one camera at a time, no batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import mujoco
import numpy as np

from recon4d.files import write_atomic
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, RenderOutput, Splats, StaticPool
from simbridge.bundle._transform import joined, moved
from simbridge.types import WORLD, BodySplats, BundleCamera


def T_world_body(model: mujoco.MjModel, data: mujoco.MjData, body: str) -> np.ndarray:
    """[4, 4] body to world."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = data.body(body).xmat.reshape(3, 3), data.body(body).xpos
    return T


def at_home(model: mujoco.MjModel) -> mujoco.MjData:
    """The state of the keyframe ``home``, or the initial one."""
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_kinematics(model, data)
    return data


def posed(parts: Sequence[BodySplats], model: mujoco.MjModel, data: mujoco.MjData) -> StaticPool:
    """All splats in the world."""
    return joined(
        [
            part.splats if part.body == WORLD else moved(part.splats, T_world_body(model, data, part.body))
            for part in parts
        ]
    )


def camera_in_world(camera: BundleCamera, model: mujoco.MjModel, data: mujoco.MjData) -> Camera:
    """The camera where its body is now."""
    T = camera.T_body_cam if camera.body == WORLD else T_world_body(model, data, camera.body) @ camera.T_body_cam
    return Camera(
        name=camera.name,
        width=camera.width,
        height=camera.height,
        K=camera.K,
        T_cam_world=np.linalg.inv(T),
        exposure=camera.exposure,
    )


def draw(
    pool: StaticPool, camera: Camera, background: tuple[float, float, float], antialiased: bool = False
) -> RenderOutput:
    """rgb, alpha and depth of a picture."""
    return rasterize(Splats(**vars(pool)), Cameras.of(camera), background=background, antialiased=antialiased)


def smaller(camera: Camera, longest_px: int) -> Camera:
    """The camera at a size at which it is quickly drawn."""
    factor = min(1.0, longest_px / max(camera.width, camera.height))
    return camera.resized(max(round(camera.width * factor), 1), max(round(camera.height * factor), 1))


def write_picture(path: Path, images: Sequence[np.ndarray]) -> None:
    """Writes images [H, W, 3] in [0, 1] beside each other as PNG."""
    row = np.concatenate([np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8) for image in images], axis=1)
    done, data = cv2.imencode(".png", np.ascontiguousarray(row[..., ::-1]))
    if not done:
        raise ValueError(f"an image of shape {row.shape} has no PNG form")
    write_atomic(path, data.tobytes())
