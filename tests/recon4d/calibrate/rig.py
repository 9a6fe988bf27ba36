"""A rig of known cameras that film a board which is carried through what they see: every pixel's ray is followed
through its lens to the board."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from scipy.spatial.transform import Rotation

from recon4d.calibrate import Board
from recon4d.capture import Distortion, RigCamera
from recon4d.geometry import look_at
from recon4d.types import Camera

FINE = 2
"""Samples of a pixel, each way."""
TEXELS = 60
"""Of the board's picture in a square."""
GROUND = 110
"""Grey level of everything else."""

Motion = Callable[[float], np.ndarray]
"""Seconds to T_world_board [4, 4]."""


def camera(
    name: str,
    place: tuple[float, float, float],
    focal_px: float,
    coefficients: tuple[float, ...],
    *,
    model: str = "opencv",
    size: tuple[int, int] = (640, 480),
    centre: tuple[float, float] = (6.0, -5.0),
    target: tuple[float, float, float] = (0.0, 0.0, 0.3),
) -> RigCamera:
    """One that looks at the volume, its principal point off the picture's middle by ``centre`` pixels."""
    K = np.array([[focal_px, 0, size[0] / 2 + centre[0]], [0, focal_px, size[1] / 2 + centre[1]], [0, 0, 1.0]])
    return RigCamera(
        camera=Camera(
            name=name,
            width=size[0],
            height=size[1],
            K=K,
            T_cam_world=look_at(np.array(place), np.array(target)),
        ),
        distortion=Distortion(model="fisheye" if model == "fisheye" else "opencv", coefficients=np.array(coefficients)),
    )


def carried(seed: int = 0, *, reach_m: float = 0.16, period_s: float = 5.0, tilt: float = 0.6) -> Motion:
    """A board that wanders and tilts, its print towards -y, where the cameras are, and half up."""
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, 6)
    upright = np.array([[1.0, 0, 0], [0, 0, 1.0], [0, -1.0, 0]])  # Columns: x, y (down the rows), z of the board.

    def at(time_s: float) -> np.ndarray:
        w = 2 * np.pi * time_s / period_s
        swing = np.sin(w * np.array([1.0, 1.31, 0.77, 1.13, 0.9, 0.61]) + phase)
        T = np.eye(4)
        turn = Rotation.from_rotvec(tilt * swing[3:] * [1.0, 1.0, 0.8])
        T[:3, :3] = (Rotation.from_rotvec([-0.4, 0, 0]) * turn).as_matrix() @ upright
        T[:3, 3] = [0, 0, 0.3] + reach_m * swing[:3] * [1.2, 1.0, 0.8]
        return T

    return at


@dataclass
class Film:
    """How it is filmed."""

    fps: float = 12.0
    seconds: float = 4.0
    blur_px: float = 0.6
    noise: float = 2.0
    delays_s: dict[str, float] = field(default_factory=dict)
    """By camera, how much later its pictures are taken than its clock says."""
    crf: int = 16


class Lens:
    """Rays of a camera's samples, through its lens."""

    def __init__(self, one: RigCamera) -> None:
        size = one.camera
        u = (np.arange(size.width * FINE) + 0.5) / FINE - 0.5  # OpenCV's first pixel has its centre at 0.
        v = (np.arange(size.height * FINE) + 0.5) / FINE - 0.5
        grid = np.stack(np.meshgrid(u, v), -1).reshape(-1, 1, 2)
        K = size.K - np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])
        assert one.distortion is not None
        enough = (cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, 200, 1e-11)
        if one.distortion.model == "fisheye":
            rays = cv2.fisheye.undistortPoints(grid, K, one.distortion.coefficients, criteria=enough)
        else:
            rays = cv2.undistortPoints(grid, K, one.distortion.coefficients, None, None, None, enough)
        self.rays = rays.reshape(size.height * FINE, size.width * FINE, 2)
        self.one = one

    def see(self, texture: np.ndarray, size_m: tuple[float, float], T_world_board: np.ndarray) -> np.ndarray:
        """float32 [H, W], the grey levels of a board with that picture."""
        T = self.one.camera.T_cam_world @ T_world_board
        H = np.linalg.inv(T[:3, [0, 1, 3]])  # From the plane z = 1 to the board's.
        x, y, w = (H[i, 0] * self.rays[..., 0] + H[i, 1] * self.rays[..., 1] + H[i, 2] for i in range(3))
        behind = w * np.sign(T[2, 3]) <= 0
        scale = texture.shape[1] / size_m[0]
        u = np.where(behind, -1e4, x / w * scale - 0.5).astype(np.float32)
        v = np.where(behind, -1e4, y / w * scale - 0.5).astype(np.float32)
        fine = cv2.remap(texture, u, v, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=GROUND)
        return cv2.resize(fine, None, fx=1 / FINE, fy=1 / FINE, interpolation=cv2.INTER_AREA)


def texture_of(board: Board, margin: float = 0.5) -> tuple[np.ndarray, tuple[float, float], np.ndarray]:
    """The board with a margin of so many squares: its picture, its size, and T_board_texture."""
    edge = round(margin * TEXELS)
    picture = board.picture(TEXELS, edge).astype(np.float32) * (210 / 255) + 20
    texel_m = board.square_m / TEXELS
    T = np.eye(4)
    T[:2, 3] = -edge * texel_m
    return picture, (picture.shape[1] * texel_m, picture.shape[0] * texel_m), T


def film(
    folder: Path, cameras: list[RigCamera], board: Board, motion: Motion, how: Film | None = None
) -> dict[str, Path]:
    """One video a camera."""
    how = how or Film()
    folder.mkdir(parents=True, exist_ok=True)
    texture, size_m, T_board_texture = texture_of(board)
    noise = np.random.default_rng(7)
    videos = {}
    for one in cameras:
        lens, path = Lens(one), folder / f"{one.name}.mp4"
        late = how.delays_s.get(one.name, 0.0)
        pictures = []
        for index in range(round(how.fps * how.seconds)):
            grey = lens.see(texture, size_m, motion(index / how.fps + late) @ T_board_texture)
            grey = cv2.GaussianBlur(grey, (0, 0), how.blur_px) if how.blur_px else grey
            grey = grey + how.noise * noise.standard_normal(grey.shape)
            pictures.append(np.repeat(np.clip(np.round(grey), 0, 255).astype(np.uint8)[..., None], 3, axis=-1))
        encode(path, pictures, how)
        videos[one.name] = path
    return videos


def encode(path: Path, pictures: list[np.ndarray], how: Film) -> None:
    rate = Fraction(how.fps).limit_denominator(1000)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": str(how.crf), "preset": "veryfast"})
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


def trio() -> list[RigCamera]:
    """Three cameras of different lenses, about a metre from the volume."""
    return [
        camera("left", (-0.5, -0.85, 0.6), 520.0, (-0.22, 0.08, 0.001, -0.0008, 0.0)),
        camera("mid", (0.05, -0.95, 0.75), 610.0, (-0.1, 0.05, -0.0012, 0.0006, 0.0), centre=(-9.0, 4.0)),
        camera("right", (0.55, -0.8, 0.5), 470.0, (0.06, -0.09, 0.0, 0.001, 0.0)),
    ]
