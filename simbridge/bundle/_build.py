"""From a scene and a configuration to a bundle."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from recon4d import __version__
from recon4d.errors import ConfigError, OutputError
from recon4d.events import Finished, OnEvent, Started, Warned, ignore
from recon4d.export import read_ply
from recon4d.geometry import look_at
from recon4d.model import Gaussians4D
from recon4d.scene import load as load_scene
from recon4d.types import Camera, Scene4D, StaticPool
from simbridge.bundle._align_colour import align_colour
from simbridge.bundle._compose import PREFIX, Composed, compose
from simbridge.bundle._config import BundleConfig, CameraConfig
from simbridge.bundle._cut import cut
from simbridge.bundle._draw import at_home, camera_in_world, draw, posed, smaller, write_picture
from simbridge.bundle._envelope import envelope
from simbridge.bundle._folder import MANIFEST, load, save
from simbridge.bundle._transform import bench_transform, joined, moved, with_degree
from simbridge.mjcf import Density, Shade, geom_splats
from simbridge.types import WORLD, BodySplats, Bundle, BundleCamera

_PICTURE_PX = 480


@dataclass(frozen=True, kw_only=True)
class _Scan:
    """The scene in the bench frame."""

    whole: StaticPool
    """Before anything was cut."""
    background: StaticPool
    cameras: tuple[Camera, ...]
    T_bench_scene: np.ndarray
    cut: tuple[int, ...]


def build(
    scene: Path | str | Scene4D,
    config: BundleConfig,
    out: Path | str,
    *,
    capture: Path | str | None = None,
    on_event: OnEvent = ignore,
) -> Bundle:
    """Makes a bundle and writes it into a folder: whole, or not at all.

    Args:
        scene: the reconstructed scene, or its folder.
        config: what to make of it.
        out: the folder; new, empty, or an earlier bundle, which is replaced.
        capture: the scene's capture folder, for the colour fit.
        on_event: progress and warnings.

    Raises:
        ConfigError: the configuration names what is not there, or the scene has no bench plane to align to.
        SceneError, ModelError, OutputError: the scene, an MJCF or the folder cannot be used.
    """
    out = Path(out)
    if out.exists() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise OutputError(f"{out} is neither empty nor a bundle; choose another folder")
    loaded = scene if isinstance(scene, Scene4D) else load_scene(scene)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            fresh = Path(scratch) / "new"
            fresh.mkdir()
            _build_into(fresh, loaded, config, Path(capture) if capture is not None else None, on_event)
            if out.exists():
                os.replace(out, Path(scratch) / "old")
            os.replace(fresh, out)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error}; free space or choose another folder") from error
    return load(out)


def _build_into(out: Path, scene: Scene4D, config: BundleConfig, capture: Path | None, on_event: OnEvent) -> None:
    scan = _stage("background", on_event, lambda: _scan(scene, config))
    composed = _stage("model", on_event, lambda: compose(config, out))
    data = at_home(composed.model)
    cameras = (*(_rig(scan.cameras) if config.rig else ()), *(_extra(c, composed) for c in config.cameras))
    taken = {camera.name for camera in scan.cameras} if config.rig else set()
    for camera in config.cameras:
        if camera.name in taken:
            raise ConfigError(f"cameras: '{camera.name}' is a camera of the rig; give it another name")
    parts = _stage("splats", on_event, lambda: _splats(scan, composed, config, on_event))
    everything = posed(parts, composed.model, data)
    heldout = set(scene.config.get("heldout_cameras") or ())
    trained = [camera for camera in scan.cameras if camera.name not in heldout]
    in_world = [camera_in_world(camera, composed.model, data) for camera in cameras]
    found = _stage("envelope", on_event, lambda: envelope(everything, in_world, trained, config.envelope, config.seed))
    colour, gap = None, {}
    if capture is not None and config.colour != "none":
        kind = config.colour
        colour, gap = _stage("colour", on_event, lambda: align_colour(scene, capture, kind))
    plane = np.array([0.0, 0.0, 1.0, 0.0]) if _has_bench(scene, config) else None
    bundle = Bundle(
        path=out,
        splats=parts,
        cameras=cameras,
        background=scene.background,
        plane=plane,
        robot=composed.robot,
        objects=composed.objects,
        colour=colour,
        initial_conditions=_placements(composed, config),
        envelope=found,
        licence=config.licence,
        provenance=_provenance(scene, config, scan, gap),
    )
    save(bundle, out, licences=_licences(config), name=config.name)
    _stage("pictures", on_event, lambda: _pictures(out, scan, everything, in_world, scene))
    if scene.antialiased:
        message = "the scene was fitted antialiased; flat discs of geoms need drawing without, and it may look thicker"
        on_event(Warned(stage="splats", message=message))


def _stage(name: str, on_event: OnEvent, work: Callable[[], Any]) -> Any:
    on_event(Started(stage=name))
    begin = time.monotonic()
    result = work()
    on_event(Finished(stage=name, seconds=time.monotonic() - begin))
    return result


def _has_bench(scene: Scene4D, config: BundleConfig) -> bool:
    return config.bench_plane is not None or scene.plane is not None


def _scan(scene: Scene4D, config: BundleConfig) -> _Scan:
    T = np.eye(4)
    if config.align:
        if not _has_bench(scene, config):
            raise ConfigError("the scene has no bench plane to align to; give bench_plane, or set align to false")
        plane = np.asarray(scene.plane if config.bench_plane is None else config.bench_plane, np.float64)
        T = bench_transform(plane, config.scale)
    whole = moved(_at_instant(scene, config.freeze_at_s), T, config.scale)
    background, counts = cut(whole, config.cut)
    cameras = tuple(_moved_camera(camera, T, config.scale) for camera in scene.cameras)
    return _Scan(whole=whole, background=background, cameras=cameras, T_bench_scene=T, cut=counts)


def _at_instant(scene: Scene4D, time_s: float | None) -> StaticPool:
    if time_s is None:
        return scene.static
    if not 0 <= time_s <= scene.duration_s:
        raise ConfigError(f"freeze_at_s must lie between 0 and {scene.duration_s:g}; it is {time_s}")
    splats = Gaussians4D.from_scene(scene).at(time_s)
    return StaticPool(**{name: getattr(splats, name).detach() for name in vars(scene.static)})


def _moved_camera(camera: Camera, T: np.ndarray, scale: float) -> Camera:
    pose = camera.T_world_cam
    pose[:3, 3] *= scale
    return Camera.from_json({**camera.to_json(), "T_cam_world": np.linalg.inv(T @ pose)})


def _rig(cameras: tuple[Camera, ...]) -> tuple[BundleCamera, ...]:
    return tuple(
        BundleCamera(
            name=c.name,
            width=c.width,
            height=c.height,
            K=c.K,
            body=WORLD,
            T_body_cam=c.T_world_cam,
            exposure=c.exposure,
        )
        for c in cameras
    )


def _extra(camera: CameraConfig, composed: Composed) -> BundleCamera:
    names = [composed.model.body(i).name for i in range(composed.model.nbody)]
    body = camera.body if camera.body in names else PREFIX + camera.body
    if body not in names:
        raise ConfigError(f"camera '{camera.name}': there is no body '{camera.body}'; there are {names}")
    focal = camera.height / 2 / np.tan(camera.fovy_rad / 2)
    cx, cy = camera.principal or (camera.width / 2, camera.height / 2)
    pose = np.linalg.inv(look_at(np.asarray(camera.position, np.float64), np.asarray(camera.look_at), camera.up))
    K = np.array([[focal, 0, cx], [0, focal, cy], [0, 0, 1]])
    return BundleCamera(name=camera.name, width=camera.width, height=camera.height, K=K, body=body, T_body_cam=pose)


def _splats(scan: _Scan, composed: Composed, config: BundleConfig, on_event: OnEvent) -> tuple[BodySplats, ...]:
    """The background, then every body: out of a scan where the configuration names one, else from its geoms."""
    coefficients = int(scan.background.sh.shape[1])
    scans = {item.name: item.splats for item in config.objects if item.splats}
    for body, file in config.robot.splats.items() if config.robot is not None else ():
        scans[PREFIX + body] = file
    names = [composed.model.body(i).name for i in range(composed.model.nbody)]
    strangers = [name.removeprefix(PREFIX) for name in scans if name not in names]
    if strangers:
        raise ConfigError(f"robot.splats: there are no bodies {strangers}; there are {names}")
    made = geom_splats(
        composed.model,
        density=_density(scan, config),
        shade=Shade() if config.shade else None,
        sh_degree=int(coefficients**0.5) - 1,
        skip=tuple(scans),
        on_event=on_event,
    )
    world = [scan.background, *(part.splats for part in made if part.body == WORLD)]
    by_body = {part.body: part.splats for part in made if part.body != WORLD}
    for body, file in scans.items():
        splats = read_ply(Path(config.folder) / file)
        pool = StaticPool(**{name: getattr(splats, name) for name in vars(scan.background)})
        if pool.sh.shape[1] > coefficients:
            raise ConfigError(f"{file}: its SH degree is above the scene's, {int(coefficients**0.5) - 1}")
        by_body[body] = with_degree(pool, coefficients)
    ordered = [name for name in names if name in by_body]
    return (
        BodySplats(body=WORLD, splats=joined(world)),
        *(BodySplats(body=name, splats=by_body[name]) for name in ordered),
    )


def _density(scan: _Scan, config: BundleConfig) -> Density:
    """Fine enough for the sharpest camera of the rig."""
    if not scan.cameras:
        return Density(pixels_per_splat=config.pixels_per_splat)
    distances = [float(np.linalg.norm(camera.center_w)) for camera in scan.cameras]
    sharpness = [camera.K[0, 0] / distance for camera, distance in zip(scan.cameras, distances, strict=True)]
    best = int(np.argmax(sharpness))
    return Density(
        reference_distance_m=distances[best],
        reference_focal_px=float(scan.cameras[best].K[0, 0]),
        pixels_per_splat=config.pixels_per_splat,
    )


def _placements(composed: Composed, config: BundleConfig) -> tuple[dict[str, Any], ...]:
    """Episodes' beginnings: objects upright on the bench, apart from each other where there is room."""
    draws, episodes = np.random.default_rng(config.seed), []
    for number in range(config.initial_conditions if composed.objects else 0):
        placed: dict[str, dict[str, Any]] = {}
        for item in composed.objects:
            radius = float(np.hypot(*item.size_m[:2])) / 2
            spots = np.stack([draws.uniform(low, high, 64) for low, high in item.spawn], axis=1)
            clear = [
                min(
                    (np.hypot(*(spot - o["position"][:2])) - o["radius"] - radius for o in placed.values()), default=1.0
                )
                for spot in spots
            ]
            spot = spots[int(np.argmax(np.array(clear) > 0))]
            yaw = float(draws.uniform(-np.pi, np.pi))
            placed[item.body] = {
                "position": [float(spot[0]), float(spot[1]), item.size_m[2] / 2],
                "quat": [float(np.cos(yaw / 2)), 0.0, 0.0, float(np.sin(yaw / 2))],
                "radius": radius,
            }
        objects = {name: {k: v for k, v in value.items() if k != "radius"} for name, value in placed.items()}
        episodes.append({"id": number, "objects": objects})
    return tuple(episodes)


def _licences(config: BundleConfig) -> dict[str, str]:
    parts = {item.name: item.licence for item in config.objects if item.licence}
    return parts | ({"robot": config.robot.licence} if config.robot is not None and config.robot.licence else {})


def _provenance(scene: Scene4D, config: BundleConfig, scan: _Scan, gap: dict[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in asdict(config).items() if key != "folder"}
    return {
        "scene_input_hash": scene.input_hash,
        "scene_software": scene.software,
        "software": f"simbridge {__version__}",
        "mujoco": mujoco.__version__,
        "T_bench_scene": scan.T_bench_scene.tolist(),
        "scale": config.scale,
        "cut": list(scan.cut),
        "config": settings,
        "colour": gap,
    }


def _pictures(out: Path, scan: _Scan, everything: StaticPool, cameras: list[Camera], scene: Scene4D) -> None:
    """For each camera: the scan as it was, with the cuts made, and with everything in it."""
    for camera in cameras:
        small = smaller(camera, _PICTURE_PX)
        images = []
        for pool in (scan.whole, scan.background, everything):
            output = draw(pool, small, scene.background)
            assert output.rgb is not None
            images.append(output.rgb[0].numpy())
        write_picture(out / "pictures" / f"{camera.name}.png", images)
