"""The MJCF of a bundle: bench, collision boxes, robot, objects."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

from recon4d.errors import ConfigError
from simbridge.bundle._config import BundleConfig, ObjectConfig, RobotConfig
from simbridge.errors import ModelError
from simbridge.types import ObjectSpec, RobotSpec

PREFIX = "robot/"
"""Before every name of the robot's MJCF."""
HIDDEN_GROUP = 3
"""Of geoms that collide and are not drawn: what they stand for is in the background's splats."""
BENCH_HALF_M = 5.0
_FILE_TAGS = ("mesh", "texture", "hfield")
_SHAPES = {"box": mujoco.mjtGeom.mjGEOM_BOX, "sphere": mujoco.mjtGeom.mjGEOM_SPHERE}
_SHAPES |= {"cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER, "mesh": mujoco.mjtGeom.mjGEOM_MESH}


@dataclass(frozen=True, kw_only=True)
class Composed:
    """A model, its text and what tasks need to know of it."""

    model: mujoco.MjModel
    robot: RobotSpec | None
    objects: tuple[ObjectSpec, ...]


def compose(config: BundleConfig, out: Path) -> Composed:
    """Writes ``scene.xml`` and ``assets/`` into a folder.

    Raises:
        ConfigError: a file or a name of the configuration is not there.
        ModelError: an MJCF cannot be read, or the whole does not compile.
    """
    spec = mujoco.MjSpec()
    spec.modelname = config.name
    spec.option.timestep = config.timestep_s
    spec.compiler.degree = 0
    _add_bench(spec, config)
    if config.robot is not None:
        _attach(spec, config.robot, Path(config.folder))
    for item in config.objects:
        _add_object(spec, item, Path(config.folder))
    try:
        model = spec.compile()
    except ValueError as error:
        raise ModelError(f"the bundle's model does not compile: {error}") from error
    robot = robot_spec(model, config.robot) if config.robot is not None else None
    objects = tuple(_object_spec(model, item) for item in config.objects)
    _add_home(spec, model, robot)
    path = out / "scene.xml"
    path.write_text(_localised(spec.to_xml(), out / "assets"), "utf-8")
    return Composed(model=read_model(path), robot=robot, objects=objects)


def read_model(path: Path) -> mujoco.MjModel:
    """The model of an MJCF file.

    Raises:
        ModelError: it cannot be read or compiled.
    """
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ModelError(f"{path} cannot be compiled: {error}") from error


def _add_bench(spec: mujoco.MjSpec, config: BundleConfig) -> None:
    bench = spec.worldbody.add_geom(name="bench", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[BENCH_HALF_M] * 2 + [0.1])
    bench.group, bench.friction[0] = HIDDEN_GROUP, config.plane_friction
    for number, box in enumerate(config.boxes):
        geom = spec.worldbody.add_geom(name=f"collision{number}", type=mujoco.mjtGeom.mjGEOM_BOX)
        geom.size, geom.pos = [edge / 2 for edge in box.size], list(box.center)
        geom.quat = [np.cos(box.yaw_rad / 2), 0, 0, np.sin(box.yaw_rad / 2)]
        geom.group, geom.rgba = HIDDEN_GROUP, [0.5, 0.6, 0.7, 0.5]


def _attach(spec: mujoco.MjSpec, robot: RobotConfig, folder: Path) -> None:
    path = folder / robot.mjcf
    if not path.is_file():
        raise ConfigError(f"robot.mjcf: there is no file {path}")
    try:
        child = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise ModelError(f"{path} cannot be read as MJCF: {error}") from error
    for key in list(child.keys):
        child.delete(key)  # It is of the robot's own size; the bundle has one for everything.
    for items, sub in ((child.meshes, child.meshdir), (child.textures, child.texturedir)):
        for item in items:
            if item.file:
                item.file = str((path.parent / (sub or ".") / item.file).resolve())
    child.meshdir = child.texturedir = ""
    frame = spec.worldbody.add_frame(pos=list(robot.position), quat=list(robot.quat))
    spec.attach(child, frame=frame, prefix=PREFIX)


def _add_object(spec: mujoco.MjSpec, item: ObjectConfig, folder: Path) -> None:
    body = spec.worldbody.add_body(name=item.name)
    (x0, x1), (y0, y1) = item.spawn
    body.add_freejoint(name=f"{item.name}_joint")
    geom = body.add_geom(name=item.name, type=_SHAPES[item.shape], mass=item.mass_kg, rgba=[*item.rgb, 1.0])
    half = [edge / 2 for edge in item.size]
    if item.shape == "mesh":
        path = folder / (item.mesh or "")
        if not item.mesh or not path.is_file():
            raise ConfigError(f"objects '{item.name}': there is no mesh file {path}")
        spec.add_mesh(name=item.name, file=str(path.resolve()))
        geom.meshname = item.name
    elif item.shape == "box":
        geom.size = half
    else:
        geom.size = [half[0], half[2] if item.shape == "cylinder" else 0.0, 0.0]
    geom.friction[0] = item.friction
    body.pos = [(x0 + x1) / 2, (y0 + y1) / 2, half[2]]


def robot_spec(model: mujoco.MjModel, robot: RobotConfig) -> RobotSpec:
    """The robot's names in the bundle.

    Raises:
        ConfigError: one of them is not in the model, or the counts do not agree.
    """
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    own = [model.joint(i) for i in range(model.njnt)]
    all_joints = [j.name for j in own if j.name.startswith(PREFIX) and int(j.type[0]) in scalar]
    all_actuators = [model.actuator(i).name for i in range(model.nu)]
    joints = _named("joints", robot.joints, all_joints)
    actuators = _named("actuators", robot.actuators, all_actuators)
    (site,) = _named("site", (robot.site,), [model.site(i).name for i in range(model.nsite)])
    home = robot.home or (0.0,) * len(joints)
    if len(home) != len(joints):
        raise ConfigError(f"robot.home must have {len(joints)} values, for {list(joints)}; it has {len(home)}")
    ranges = [tuple(float(v) for v in model.actuator(name).ctrlrange) for name in actuators]
    unlimited = [n for n in actuators if not model.actuator(n).ctrllimited[0]]
    if unlimited and not robot.limits:
        raise ConfigError(f"the actuators {unlimited} have no control range; give robot.limits")
    limits = robot.limits or tuple((low, high) for low, high in ranges)
    if len(limits) != len(actuators):
        raise ConfigError(f"robot.limits must have {len(actuators)} pairs, for {list(actuators)}; it has {len(limits)}")
    return RobotSpec(joints=joints, actuators=actuators, site=site, home=home, limits=limits)


def _named(what: str, wanted: tuple[str, ...], known: list[str]) -> tuple[str, ...]:
    names = tuple(PREFIX + name for name in wanted) or tuple(known)
    missing = [name.removeprefix(PREFIX) for name in names if name not in known]
    if missing:
        plain = [name.removeprefix(PREFIX) for name in known]
        raise ConfigError(f"robot.{what}: the robot's MJCF has no {missing}; it has {plain}")
    return names


def _object_spec(model: mujoco.MjModel, item: ObjectConfig) -> ObjectSpec:
    size = item.size
    if item.shape == "mesh":
        size = tuple(float(2 * edge) for edge in model.geom_aabb[model.geom(item.name).id, 3:])
    return ObjectSpec(body=item.name, joint=f"{item.name}_joint", size_m=size, spawn=item.spawn)  # type: ignore[arg-type]


def _add_home(spec: mujoco.MjSpec, model: mujoco.MjModel, robot: RobotSpec | None) -> None:
    """A keyframe with the robot at home and the objects in the middle of their ranges; position servos hold it."""
    qpos, ctrl = model.qpos0.copy(), np.zeros(model.nu)
    for name, value in zip(robot.joints, robot.home, strict=True) if robot is not None else ():
        qpos[model.joint(name).qposadr[0]] = value
        for index in range(model.nu):
            held = int(model.actuator_biastype[index]) == int(mujoco.mjtBias.mjBIAS_AFFINE)
            if held and int(model.actuator_trnid[index, 0]) == model.joint(name).id:
                ctrl[index] = value
    spec.add_key(name="home", qpos=qpos, ctrl=ctrl)


def _localised(text: str, folder: Path) -> str:
    """The MJCF with every file that it names copied into a folder beside it."""
    root = ElementTree.fromstring(text)
    for item in root.iter():
        source = Path(item.get("file") or "")
        if item.get("file") and item.tag in _FILE_TAGS:
            folder.mkdir(exist_ok=True)
            target, number = folder / source.name, 1
            while target.exists() and target.read_bytes() != source.read_bytes():
                target, number = folder / f"{source.stem}-{number}{source.suffix}", number + 1
            shutil.copyfile(source, target)
            item.set("file", f"{folder.name}/{target.name}")
    return ElementTree.tostring(root, encoding="unicode") + "\n"
