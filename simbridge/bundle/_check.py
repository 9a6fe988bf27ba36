"""Everything that is wrong with a bundle, before anybody trains in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from recon4d.errors import Recon4DError
from recon4d.types import StaticPool
from simbridge.bundle._compose import read_model
from simbridge.bundle._draw import at_home, camera_in_world, draw, posed, smaller
from simbridge.bundle._findings import Finding
from simbridge.bundle._folder import MANIFEST, camera_from_json, load, read_json, read_manifest, read_splats
from simbridge.bundle._geometry import body_box, ground, inside_geom, thin_axes
from simbridge.errors import BundleError
from simbridge.mjcf import Density, geom_splats
from simbridge.types import WORLD, BodySplats, Bundle

PARTS = ("scene.xml", "cameras.json", "colour.json", "initial_conditions.json", "envelope.json")
_PLANE_TOLERANCE_M = (0.01, 0.03)
"""Distance between the background's bench and the physics' that is told, and that is an error."""
_DISTANCES_M = (0.03, 10.0)
"""From a camera to the bench: outside of this, units are more likely wrong than the rig is strange."""
_HOLES = (0.1, 0.5)
"""Share of a picture that is no surface: told, and an error."""
_ANGLE_RAD = 0.6
"""Farther from every training camera than this, views are guesses."""
_IDENTITY_XYZW = np.array([0.0, 0.0, 0.0, 1.0])


@dataclass(frozen=True)
class _World:
    """A bundle that could be read, at home."""

    bundle: Bundle
    model: mujoco.MjModel
    data: mujoco.MjData


def check(path: Path | str) -> list[Finding]:
    """Reads a bundle and looks at all of it.

    Args:
        path: the folder.

    Returns:
        Findings, errors first; empty when nothing is wrong. Never raises for what is wrong with the bundle.
    """
    path = Path(path)
    findings = _files(path)
    if not any(finding.severity == "error" for finding in findings):
        try:
            bundle = load(path)
            model = read_model(bundle.model_path)
        except Recon4DError as error:
            return [*findings, _error(path.name, str(error))]
        world = _World(bundle, model, at_home(model))
        findings += [*_names(world), *_conventions(world)]
        if not any(finding.severity == "error" for finding in findings):
            findings += [*_drawable(world), *_ground(world), *_bodies(world), *_cameras(world), *_quaternions(world)]
            findings += _envelope(world)
    return sorted(findings, key=lambda finding: finding.severity != "error")


def _error(where: str, message: str, advice: str = "") -> Finding:
    return Finding(severity="error", where=where, message=message, advice=advice)


def _warning(where: str, message: str, advice: str = "") -> Finding:
    return Finding(severity="warning", where=where, message=message, advice=advice)


def _files(path: Path) -> list[Finding]:
    """Every file is there and can be read."""
    try:
        manifest = read_manifest(path)
    except BundleError as error:
        return [_error(MANIFEST, str(error))]
    found = [
        _error(name, "the file is missing", "copy the whole folder again")
        for name in PARTS
        if not (path / name).is_file()
    ]
    for name in (name for name in PARTS if name.endswith(".json") and (path / name).is_file()):
        try:
            content = read_json(path / name)
            if content.get("version") != 1:
                found.append(_error(name, f"version must be 1; it is {content.get('version')!r}"))
            if name == "cameras.json":
                found += _cameras_read(content, path / name)
        except BundleError as error:
            found.append(_error(name, str(error)))
    for entry in manifest.get("splats") or []:
        try:
            read_splats(path, entry, (int(manifest.get("sh_degree", 0)) + 1) ** 2)
        except BundleError as error:
            found.append(_error(str(entry.get("file")), str(error)))
    if not str(manifest.get("licence", "")).strip():
        found.append(_error(MANIFEST, "licence is empty", "say under which terms the bundle may be used"))
    robot = manifest.get("robot")
    parts = {"robot"} if robot else set()
    parts |= {item.get("body") for item in manifest.get("objects") or []}
    missing = sorted(parts - set(manifest.get("licences") or {}))
    if missing:
        found.append(_warning(MANIFEST, f"no licence is given for {missing}", "add it to the configuration"))
    if not (manifest.get("provenance") or {}).get("scene_input_hash"):
        found.append(_warning(MANIFEST, "provenance does not name the scene's input", "build from a scene folder"))
    return found


def _cameras_read(content: dict[str, Any], where: Path) -> list[Finding]:
    found = []
    for entry in content.get("cameras") or []:
        try:
            camera_from_json(entry, where)
        except BundleError as error:
            found.append(_error("cameras.json", str(error)))
    return found


def _names(world: _World) -> list[Finding]:
    """What the records name is in the model."""
    model, bundle = world.model, world.bundle
    bodies = {model.body(i).name for i in range(model.nbody)}
    joints = {model.joint(i).name for i in range(model.njnt)}
    wanted = [(f"splats of '{part.body}'", part.body, bodies) for part in bundle.splats]
    wanted += [(f"camera '{camera.name}'", camera.body, bodies) for camera in bundle.cameras]
    wanted += [(f"object '{item.body}'", item.body, bodies) for item in bundle.objects]
    wanted += [(f"object '{item.body}'", item.joint, joints) for item in bundle.objects]
    if bundle.robot is not None:
        sites = {model.site(i).name for i in range(model.nsite)}
        actuators = {model.actuator(i).name for i in range(model.nu)}
        wanted += [("robot", name, joints) for name in bundle.robot.joints]
        wanted += [("robot", name, actuators) for name in bundle.robot.actuators]
        wanted.append(("robot", bundle.robot.site, sites))
    found = [
        _error("scene.xml", f"{who} names '{name}', which the model does not have", f"there are {sorted(known)}")
        for who, name, known in wanted
        if name not in known
    ]
    names = [camera.name for camera in bundle.cameras]
    if len(set(names)) != len(names):
        found.append(_error("cameras.json", f"camera names must differ; they are {names}"))
    return found


def _conventions(world: _World) -> list[Finding]:
    """Up is +z for physics and for the bench."""
    found = []
    gravity, plane = world.model.opt.gravity, world.bundle.plane
    if gravity[2] > -1 or np.abs(gravity[:2]).max() > 0.1:
        found.append(
            _error("scene.xml", f"gravity must point along -z; it is {gravity.tolist()}", "the frame is +Z up: turn it")
        )
    if plane is None:
        found.append(_warning(MANIFEST, "the bench plane is unknown", "give bench_plane in the configuration"))
    elif plane[2] < 0.999:
        found.append(_error(MANIFEST, f"the bench's normal must be +z; the plane is {plane.tolist()}", "set align"))
    if not len(world.bundle.splats[0].splats):
        found.append(_error("splats of 'world'", "the background has no splats", "cut less out of the scene"))
    return found


def _drawable(world: _World) -> list[Finding]:
    """Visible geoms of bodies without splats: do they have surfaces?"""
    have = {part.body for part in world.bundle.splats} - {WORLD}
    coarse = Density(reference_focal_px=25.0)
    try:
        rest = geom_splats(world.model, density=coarse, skip=tuple(have))
    except Recon4DError as error:
        return [_error("scene.xml", str(error))]
    bare = sorted(part.body for part in rest if part.body != WORLD)
    return [_warning("scene.xml", f"bodies {bare} have visible geoms and no splats", "build again")] if bare else []


def _ground(world: _World) -> list[Finding]:
    """The background's bench lies on the physics' plane, and the whole is of a workbench's size."""
    found = []
    pool = world.bundle.splats[0].splats
    heights = [camera_in_world(c, world.model, world.data).center_w[2] for c in _fixed(world.bundle)]
    plane_z = 0.0 if world.bundle.plane is None else float(-world.bundle.plane[3] / world.bundle.plane[2])
    for camera, height in zip(_fixed(world.bundle), heights, strict=True):
        if not _DISTANCES_M[0] <= height - plane_z <= _DISTANCES_M[1]:
            message = f"camera '{camera.name}' is {height - plane_z:.3g} m above the bench"
            allowed = f"it should be {_DISTANCES_M[0]} to {_DISTANCES_M[1]} m"
            found.append(_error("cameras.json", f"{message}; {allowed}", "check scale and frame"))
    spread = np.percentile(pool.means.numpy(), 95, axis=0) - np.percentile(pool.means.numpy(), 5, axis=0)
    if not 0.05 <= float(spread.max()) <= 30:
        message = f"the background extends over {float(spread.max()):.3g} m; it should be 0.05 to 30 m"
        found.append(_error("splats of 'world'", message, "check the scale"))
    if found or world.bundle.plane is None:
        return found
    estimate = ground(pool, plane_z)
    if estimate is None:
        return [_warning("splats of 'world'", "no plane was found in the background to hold against the bench")]
    tilt, offset = estimate
    if np.rad2deg(tilt) > 10:
        message = f"its largest plane is tilted by {np.rad2deg(tilt):.0f} degrees against the bench"
        return [_error("splats of 'world'", message, "is the frame +Z up? set align")]
    if abs(offset) > _PLANE_TOLERANCE_M[0]:
        message = f"the background's bench lies {1000 * offset:.0f} mm above the physics plane"
        make = _error if abs(offset) > _PLANE_TOLERANCE_M[1] else _warning
        return [make("splats of 'world'", message, "correct bench_plane or scale")]
    return []


def _fixed(bundle: Bundle) -> list[Any]:
    return [camera for camera in bundle.cameras if camera.body == WORLD]


def _bodies(world: _World) -> list[Finding]:
    """Splats of each body lie where its geoms are."""
    found = []
    for part in world.bundle.splats[1:]:
        where = f"splats of '{part.body}'"
        box = body_box(world.model, world.model.body(part.body).id)
        if not len(part.splats):
            found.append(_error(where, "there are none", "remove the entry or build again"))
            continue
        if box is None:
            found.append(_warning(where, "the body has no geoms to collide with"))
            continue
        low, high = np.percentile(part.splats.means.numpy(), [2, 98], axis=0)
        size = box[1] - box[0]
        off = np.maximum(np.abs(low - box[0]), np.abs(high - box[1]))
        if (off > 0.02 + 0.5 * size).any():
            message = f"they lie {low.round(3).tolist()} to {high.round(3).tolist()} m, its geoms"
            message += f" {box[0].round(3).tolist()} to {box[1].round(3).tolist()} m, in the body's frame"
            found.append(_error(where, message, "check the frame and unit of the splats"))
        elif (off > 0.01 + 0.2 * size).any():
            found.append(_warning(where, f"they and the geoms differ by {float(off.max()) * 1000:.0f} mm in extent"))
    return found


def _cameras(world: _World) -> list[Finding]:
    """No camera is inside something, and each sees a surface nearly everywhere."""
    found = []
    pool: StaticPool = posed(world.bundle.splats, world.model, world.data)
    for camera in world.bundle.cameras:
        placed = camera_in_world(camera, world.model, world.data)
        where = f"camera '{camera.name}'"
        geom = inside_geom(world.model, world.data, placed.center_w)
        if geom is not None:
            found.append(_error(where, f"it is inside the geom {geom}", "move it out"))
            continue
        alpha = draw(pool, smaller(placed, 64), (0.0, 0.0, 0.0)).alpha
        assert alpha is not None
        holes = float((alpha < 0.5).float().mean())
        if holes > _HOLES[0]:
            make = _error if holes > _HOLES[1] else _warning
            found.append(make(where, f"{100 * holes:.0f} % of its picture is empty", "turn it to the bench"))
    return found


def _envelope(world: _World) -> list[Finding]:
    found = []
    for name, facts in (world.bundle.envelope.get("cameras") or {}).items():
        worst = facts.get("worst", {})
        if worst.get("holes", 0.0) > _HOLES[0]:
            message = f"when randomised, up to {100 * worst['holes']:.0f} % of its picture is empty"
            found.append(_warning(f"camera '{name}'", message, "randomise it less"))
        if (worst.get("angle_rad") or 0.0) > _ANGLE_RAD:
            degrees = np.rad2deg(worst["angle_rad"])
            message = f"it looks from {degrees:.0f} degrees beside the nearest camera that the scene was made from"
            found.append(_warning(f"camera '{name}'", message, "expect artefacts"))
    missing = sorted({camera.name for camera in world.bundle.cameras} - set(world.bundle.envelope.get("cameras") or {}))
    if missing:
        found.append(_warning("envelope.json", f"cameras {missing} are not in it", "build again"))
    return found


def _quaternions(world: _World) -> list[Finding]:
    """Quaternions that look like x, y, z, w."""
    found = []
    for part in world.bundle.splats:
        quats = part.splats.quats.numpy()
        share = float((np.abs(quats - _IDENTITY_XYZW).max(axis=1) < 1e-6).mean())
        if len(quats) and share > 0.5:
            message = f"{100 * share:.0f} % of the quaternions are (0, 0, 0, 1): half a turn about z in wxyz order"
            found.append(_warning(f"splats of '{part.body}'", message, "were they written as x, y, z, w?"))
    for body in range(1, world.model.nbody):
        if np.array_equal(world.model.body_quat[body], _IDENTITY_XYZW):
            name = world.model.body(body).name
            message = f"body '{name}' has the quaternion (0, 0, 0, 1): half a turn about z in wxyz order"
            found.append(_warning("scene.xml", message, "was it written as x, y, z, w?"))
    return [*found, *_discs_stand(world)]


def _discs_stand(world: _World) -> list[Finding]:
    """Flat splats on the bench should lie on it; if they would in the other order, it is the other order."""
    part: BodySplats = world.bundle.splats[0]
    means, scales = part.splats.means.numpy(), np.sort(part.splats.scales.numpy(), axis=1)
    plane_z = 0.0 if world.bundle.plane is None else float(-world.bundle.plane[3] / world.bundle.plane[2])
    flat = (np.abs(means[:, 2] - plane_z) < 0.02) & (scales[:, 0] < 0.3 * scales[:, 1])
    if flat.sum() < 50:
        return []
    upright = [
        float(np.abs(thin_axes(part.splats, flat, order)[:, 2]).mean()) for order in ((0, 1, 2, 3), (3, 0, 1, 2))
    ]
    if upright[1] < upright[0] + 0.25:
        return []
    message = f"discs on the bench stand on edge in wxyz order (mean |normal z| {upright[0]:.2f})"
    return [_error("splats of 'world'", f"{message}, and lie flat as xyzw ({upright[1]:.2f})", "reorder to wxyz")]
