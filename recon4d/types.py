"""Records that cross rooms. Conventions (frames, units, orders) are in :mod:`recon4d.geometry`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from recon4d.errors import CalibrationError, SceneError


@dataclass(frozen=True, kw_only=True)
class Camera:
    """One undistorted pinhole camera.

    Raises:
        CalibrationError: size, K or pose are not those of a camera.
    """

    name: str
    width: int
    height: int
    K: np.ndarray
    """[3, 3] float64, pixels. Pixel i covers [i, i+1): the centre of the first pixel is 0.5."""
    T_cam_world: np.ndarray
    """[4, 4] float64, world to camera, OpenCV axes (x right, y down, z forward), metres."""
    exposure: float = 1.0
    """Factor on the scene's colours in this camera's pictures."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "K", np.asarray(self.K, np.float64))
        object.__setattr__(self, "T_cam_world", np.asarray(self.T_cam_world, np.float64))
        if self.width < 1 or self.height < 1:
            raise CalibrationError(f"image size {self.width}x{self.height} is not positive", camera=self.name)
        if self.K.shape != (3, 3) or not np.isfinite(self.K).all() or self.K[0, 0] <= 0 or self.K[1, 1] <= 0:
            raise CalibrationError(
                f"K must be 3x3, finite, with positive focal lengths; it is {self.K.tolist()}", camera=self.name
            )
        T = self.T_cam_world
        if T.shape != (4, 4) or not (np.abs(T) < 1e100).all():
            raise CalibrationError(f"the pose must be 4x4 numbers of metres; it is {T.tolist()}", camera=self.name)
        error = float(np.abs(T[:3, :3] @ T[:3, :3].T - np.eye(3)).max())
        if error > 1e-3 or np.linalg.det(T[:3, :3]) < 0:
            raise CalibrationError(
                f"the pose's 3x3 part is no rotation (off by {error:.3g}, determinant {np.linalg.det(T[:3, :3]):.3g});"
                " check the declared convention and the units",
                camera=self.name,
            )
        if not (np.isfinite(self.exposure) and self.exposure > 0):
            raise CalibrationError(f"the exposure must be positive; it is {self.exposure}", camera=self.name)

    @property
    def T_world_cam(self) -> np.ndarray:
        """[4, 4] float64, camera to world."""
        return np.linalg.inv(self.T_cam_world)

    @property
    def center_w(self) -> np.ndarray:
        """[3] float64, the optical centre in the world, metres."""
        return self.T_world_cam[:3, 3]

    @property
    def forward_w(self) -> np.ndarray:
        """[3] float64, unit viewing direction in the world."""
        return self.T_cam_world[2, :3].copy()

    def crop(self, x0: int, y0: int, x1: int, y1: int) -> Camera:
        """The same camera, seeing only columns x0..x1 and rows y0..y1 (ends not included)."""
        K = self.K - np.array([[0, 0, x0], [0, 0, y0], [0, 0, 0]])
        return replace(self, width=x1 - x0, height=y1 - y0, K=K)

    def resized(self, width: int, height: int) -> Camera:
        """The same field of view at another resolution."""
        K = np.diag([width / self.width, height / self.height, 1.0]) @ self.K
        return replace(self, width=width, height=height, K=K)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "width": self.width,
            "height": self.height,
            "K": self.K.tolist(),
            "T_cam_world": self.T_cam_world.tolist(),
            "exposure": self.exposure,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Camera:
        return cls(
            name=data["name"],
            width=int(data["width"]),
            height=int(data["height"]),
            K=np.array(data["K"], np.float64),
            T_cam_world=np.array(data["T_cam_world"], np.float64),
            exposure=float(data.get("exposure", 1.0)),
        )


@dataclass(frozen=True, kw_only=True)
class Cameras:
    """A batch of cameras of one image size, as a rasterizer takes it."""

    viewmats: Tensor
    """[C, 4, 4] float, world to camera; gradients flow to it."""
    Ks: Tensor
    """[C, 3, 3] float, pixels."""
    width: int
    height: int
    exposures: Tensor | None = None
    """[C] float, factors on rgb; None where all are 1."""

    @classmethod
    def of(
        cls,
        cameras: Camera | Sequence[Camera],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Cameras:
        """Stacks cameras.

        Raises:
            ValueError: no camera, or cameras of different sizes.
        """
        cameras = [cameras] if isinstance(cameras, Camera) else list(cameras)
        sizes, exposures = {(c.width, c.height) for c in cameras}, [c.exposure for c in cameras]
        if len(sizes) != 1:
            raise ValueError(f"a batch needs cameras of one size; got {sorted(sizes)}")
        return cls(
            viewmats=torch.tensor(np.stack([c.T_cam_world for c in cameras]), dtype=dtype, device=device),
            Ks=torch.tensor(np.stack([c.K for c in cameras]), dtype=dtype, device=device),
            width=cameras[0].width,
            height=cameras[0].height,
            exposures=None if set(exposures) == {1.0} else torch.tensor(exposures, dtype=dtype, device=device),
        )

    def __len__(self) -> int:
        return self.viewmats.shape[0]


@dataclass(frozen=True, kw_only=True)
class Splats:
    """3D Gaussians at one instant, with activated values: all that a rasterizer sees."""

    means: Tensor
    """[N, 3] metres, world."""
    quats: Tensor
    """[N, 4] wxyz; rasterizers normalise."""
    scales: Tensor
    """[N, 3] metres, standard deviations."""
    opacities: Tensor
    """[N] in [0, 1]."""
    sh: Tensor
    """[N, (degree + 1)^2, 3] spherical harmonics, DC first; colour = max(SH + 0.5, 0), display-referred sRGB."""
    rows: Tensor | None = None
    """[N] int64, where each came from in the model's pools."""
    body: Tensor | None = None
    """[N] int64, rigid body of each; 0 is the background."""

    def __post_init__(self) -> None:
        n = self.means.shape[0]
        shapes = {"means": (n, 3), "quats": (n, 4), "scales": (n, 3), "opacities": (n,), "sh": (n, self.sh.shape[1], 3)}
        for name, shape in shapes.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(f"Splats.{name} must have shape {shape}; it has {tuple(getattr(self, name).shape)}")
        if self.sh.shape[1] not in (1, 4, 9, 16):
            raise ValueError(
                f"Splats.sh must hold 1, 4, 9 or 16 coefficients (degree 0-3); it holds {self.sh.shape[1]}"
            )

    def __len__(self) -> int:
        return self.means.shape[0]

    @property
    def sh_degree(self) -> int:
        return int(self.sh.shape[1] ** 0.5) - 1


@dataclass(frozen=True, kw_only=True)
class RenderOutput:
    """What a rasterizer draws, for C cameras. Outputs that were not asked for are None."""

    rgb: Tensor | None = None
    """[C, H, W, 3] with the background behind."""
    alpha: Tensor | None = None
    """[C, H, W] accumulated opacity, 1 - final transmittance."""
    depth: Tensor | None = None
    """[C, H, W] camera-z in metres, normalised by alpha; 0 where alpha < 1e-3."""
    overflow: Tensor | None = None
    """0-dim bool, whether a picture had outgrown its plan; None without plans."""


class Frames(Protocol):
    """A clip's images: ``frames[i]`` is uint8 [H, W, 3], sRGB, undistorted."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> np.ndarray: ...


@dataclass(frozen=True)
class FrameSubset:
    """Some frames of another clip, in the given order; reads go through to it."""

    frames: Frames
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, index: int, /) -> np.ndarray:
        return self.frames[int(self.index[index])]


@dataclass(frozen=True, kw_only=True)
class Clip:
    """One camera's video: frames at their own times, never resampled."""

    camera: Camera
    times: np.ndarray
    """[F] float64, seconds on the capture clock, strictly increasing."""
    frames: Frames
    valid: np.ndarray
    """[H, W] bool, False where undistortion has no source pixel."""

    def __len__(self) -> int:
        return len(self.times)

    def nearest(self, time_s: float) -> int:
        """Index of the frame whose own time is nearest."""
        return int(np.argmin(np.abs(self.times - time_s)))

    def select(self, index: np.ndarray | Sequence[int]) -> Clip:
        """The clip reduced to the given frames."""
        index = np.asarray(index, np.int64)
        return replace(self, times=self.times[index], frames=FrameSubset(self.frames, index))


@dataclass(frozen=True, kw_only=True)
class SplitRule:
    """Which cameras and instants are kept from training. Times are on the capture clock."""

    heldout_cameras: tuple[str, ...] = ()
    """Names of cameras that training never sees."""
    grid_s: float = 0.1
    """Spacing of the instants t_k = k * grid_s at which captures are scored."""
    every: int = 8
    """Every how many grid instants one is held out; 0 holds out none."""
    first: int = 4
    """Index of the first held-out grid instant."""
    guard_s: float = 0.09
    """No frame of any training camera within this distance of a held-out instant is ever trained on."""

    def test_times(self, end_s: float) -> np.ndarray:
        """[T] float64, the held-out instants up to ``end_s``."""
        count = int(np.floor(end_s / self.grid_s + 1e-6)) + 1
        return np.arange(self.first, count, self.every) * self.grid_s if self.every > 0 else np.zeros(0)


@dataclass(frozen=True, kw_only=True)
class Capture:
    """Several cameras' clips of one event, on one clock, in one world frame."""

    name: str
    clips: tuple[Clip, ...]
    duration_s: float
    """t = 0 is where all cameras first overlap; all overlap until here."""
    clock_offset_s: float = 0.0
    """Capture-clock zero on the original clock."""
    plane: np.ndarray | None = None
    """[4] float64 (a, b, c, d) with a x + b y + c z + d = 0 on the bench, (a, b, c) unit and up; None when unknown."""
    split: SplitRule = field(default_factory=SplitRule)
    """The capture's own rule for what is held out."""
    input_hash: str = ""
    """SHA-256 over the calibration and the videos."""
    notes: str = ""

    @property
    def cameras(self) -> tuple[Camera, ...]:
        return tuple(clip.camera for clip in self.clips)

    def clip(self, camera: str) -> Clip:
        """The clip of the named camera.

        Raises:
            KeyError: there is no such camera; lists those there are.
        """
        names = [known.name for known in self.cameras]
        if camera not in names:
            raise KeyError(f"no camera '{camera}'; there are {names}")
        return self.clips[names.index(camera)]

    def exposed(self, exposures: Mapping[str, float]) -> Capture:
        """The same capture with the named cameras' exposures set; the others keep theirs."""
        known = {camera.name: camera.exposure for camera in self.cameras} | dict(exposures)
        cameras = [replace(camera, exposure=known[camera.name]) for camera in self.cameras]
        clips = (replace(clip, camera=camera) for clip, camera in zip(self.clips, cameras, strict=True))
        return replace(self, clips=tuple(clips))


@dataclass(frozen=True, kw_only=True)
class ClipStatistics:
    """What holds over a whole clip, computed once from the frames that training may read."""

    median: np.ndarray
    """[H, W, 3] uint8, temporal median."""
    spread: np.ndarray
    """[H, W] float32 in [0, 1], temporal standard deviation of the channel where it is largest."""

    def moving(self, frame: np.ndarray, threshold: float = 0.08) -> np.ndarray:
        """[H, W] bool: where a uint8 frame's largest channel difference from the median exceeds the threshold."""
        difference = np.abs(frame.astype(np.int16) - self.median.astype(np.int16)).max(-1)
        return difference > threshold * 255


@dataclass(frozen=True, kw_only=True)
class StaticPool:
    """Gaussians that are there for the whole clip; activated values, float32 on the CPU."""

    means: Tensor
    quats: Tensor
    scales: Tensor
    opacities: Tensor
    sh: Tensor

    def __len__(self) -> int:
        return self.means.shape[0]


@dataclass(frozen=True, kw_only=True)
class DynamicPool:
    """Gaussians with a life span: mean(t) = means + velocities (t - centers_s), opacity(t) = opacities * phi(t),
    phi = 1 for |t - center| <= radius, else exp(-((|t - center| - radius) / tail)^2 / 2)."""

    means: Tensor
    """[N, 3] metres at the centre time."""
    quats: Tensor
    scales: Tensor
    opacities: Tensor
    sh: Tensor
    velocities: Tensor
    """[N, 3] metres per second."""
    centers_s: Tensor
    """[N] seconds on the capture clock."""
    radii_s: Tensor
    """[N] seconds of full opacity on either side."""
    tails_s: Tensor
    """[N] seconds, standard deviation of the fading on either side."""

    def __len__(self) -> int:
        return self.means.shape[0]


@dataclass(frozen=True, kw_only=True)
class Scene4D:
    """A reconstructed scene: plain named tensors and what is needed to read them."""

    static: StaticPool
    dynamic: DynamicPool
    cameras: tuple[Camera, ...]
    """The capture's rig, held-out cameras included."""
    duration_s: float
    """The scene is defined for 0 <= t <= duration_s on the capture clock."""
    clock_offset_s: float = 0.0
    plane: np.ndarray | None = None
    input_hash: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    """The resolved configuration of the run."""
    software: str = ""
    """Version of recon4d that fitted it."""
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Colour where nothing is."""
    antialiased: bool = False
    """Whether it was fitted with the opacity compensation for the pixel dilation."""

    def __post_init__(self) -> None:
        for pool in (self.static, self.dynamic):
            n = len(pool)
            for name, value in vars(pool).items():
                if value.shape[0] != n:
                    raise SceneError(f"{type(pool).__name__}.{name} has {value.shape[0]} rows; means has {n}")
        if self.static.sh.shape[1:] != self.dynamic.sh.shape[1:]:
            raise SceneError(
                "static and dynamic SH differ in shape:"
                f" {tuple(self.static.sh.shape[1:])}, {tuple(self.dynamic.sh.shape[1:])}"
            )

    @property
    def exposures(self) -> dict[str, float]:
        """Exposure of every camera of the rig."""
        return {camera.name: camera.exposure for camera in self.cameras}

    @property
    def splats(self) -> int:
        """Gaussians in all."""
        return len(self.static) + len(self.dynamic)
