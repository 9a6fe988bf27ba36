"""A bundle's folder: what its files say, written whole and read with every fault named."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from recon4d.errors import OutputError
from recon4d.files import replacing, write_atomic
from recon4d.types import StaticPool
from simbridge.errors import BundleError
from simbridge.types import WORLD, BodySplats, Bundle, BundleCamera, ObjectSpec, RobotSpec

FORMAT = "simbridge-bundle"
VERSION = 1
MANIFEST = "bundle.json"
FIXED = {"units": "metre", "frame": "right-handed, +Z up", "quaternions": "wxyz", "camera_axes": "opencv"}
"""Conventions that every bundle of this version has, said in its manifest so that nobody has to guess."""
KNOWN = {
    *("format", "version", "name", "licence", "licences", "provenance", "gravity", "plane", "background"),
    *("sh_degree", "antialiased", "splats", "robot", "objects"),
    *FIXED,
}
CAMERA_FIELDS = {"name", "width", "height", "K", "body", "T_body_cam", "exposure", "source"}
_WIDTHS = {"means": (3,), "quats": (4,), "scales": (3,), "opacities": ()}


def save(bundle: Bundle, path: Path | str, *, licences: dict[str, str] | None = None, name: str = "bundle") -> Bundle:
    """Writes a bundle's records into a folder; ``scene.xml`` and ``assets`` are copied from where the bundle lies.

    Args:
        bundle: the bundle.
        path: the folder, created.
        licences: of single parts, by name.
        name: of the bundle.

    Returns:
        The bundle as it lies there.

    Raises:
        OutputError: the folder cannot be written.
        BundleError: the bundle has no splats or its degrees differ.
    """
    path = Path(path)
    degrees = {int(part.splats.sh.shape[1] ** 0.5) - 1 for part in bundle.splats}
    if len(degrees) != 1 or bundle.splats[0].body != WORLD:
        raise BundleError(
            "a bundle needs the world's splats first and one SH degree;"
            f" it has {[part.body for part in bundle.splats]} with degrees {sorted(degrees)}"
        )
    entries = []
    for number, part in enumerate(bundle.splats):
        file = f"splats/{number:02d}_{''.join(c if c.isalnum() else '_' for c in part.body)}.safetensors"
        tensors = {key: value.detach().cpu().float().contiguous() for key, value in vars(part.splats).items()}
        with replacing(path / file) as temporary:
            save_file(tensors, temporary)
        entries.append({"body": part.body, "file": file, "count": len(part.splats)})
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        **FIXED,
        "name": name,
        "licence": bundle.licence,
        "licences": licences or {},
        "gravity": [0.0, 0.0, -9.81],
        "plane": None if bundle.plane is None else [float(value) for value in bundle.plane],
        "background": list(bundle.background),
        "sh_degree": degrees.pop(),
        "antialiased": False,
        "splats": entries,
        "robot": None if bundle.robot is None else asdict(bundle.robot),
        "objects": [asdict(item) for item in bundle.objects],
        "provenance": bundle.provenance,
    }
    colour = {"version": 1, "matrix": None if bundle.colour is None else bundle.colour.tolist()}
    colour |= bundle.provenance.get("colour", {})
    _write(path / "cameras.json", {"version": 1, "cameras": [camera_to_json(camera) for camera in bundle.cameras]})
    _write(path / "colour.json", colour)
    _write(path / "initial_conditions.json", {"version": 1, "episodes": list(bundle.initial_conditions)})
    _write(path / "envelope.json", bundle.envelope)
    if bundle.model_path.resolve() != (path / "scene.xml").resolve():
        _copy_model(bundle.path, path)
    _write(path / MANIFEST, manifest)  # Last: a folder without it is no bundle.
    return load(path)


def load(path: Path | str) -> Bundle:
    """Reads a bundle.

    Raises:
        BundleError: the folder holds none, one of a newer version, or a damaged one; names the file and the field.
    """
    path = Path(path)
    manifest = read_manifest(path)
    if not (path / "scene.xml").is_file():
        raise BundleError(f"{path / 'scene.xml'} is missing; copy the whole folder again")
    coefficients = (int(_field(manifest, "sh_degree", path)) + 1) ** 2
    parts = tuple(read_splats(path, entry, coefficients) for entry in _field(manifest, "splats", path))
    if not parts or parts[0].body != WORLD:
        raise BundleError(f"{path / MANIFEST}: 'splats' must begin with the body 'world'")
    cameras = read_json(path / "cameras.json").get("cameras", [])
    matrix = read_json(path / "colour.json").get("matrix")
    try:
        return Bundle(
            path=path,
            splats=parts,
            cameras=tuple(camera_from_json(entry, path / "cameras.json") for entry in cameras),
            background=tuple(manifest["background"]),
            plane=None if manifest["plane"] is None else np.array(manifest["plane"], np.float64),
            robot=_robot(manifest["robot"]),
            objects=tuple(_object(entry) for entry in manifest["objects"]),
            colour=None if matrix is None else np.array(matrix, np.float64),
            initial_conditions=tuple(read_json(path / "initial_conditions.json").get("episodes", [])),
            envelope=read_json(path / "envelope.json"),
            licence=manifest["licence"],
            provenance=manifest["provenance"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{path / MANIFEST} is damaged: {error!r}; build the bundle again") from error


def read_manifest(path: Path) -> dict[str, Any]:
    """``bundle.json``, of a version that can be read.

    Raises:
        BundleError: it is missing, no JSON, of another format, a newer version, other conventions or unknown fields.
    """
    if not (path / MANIFEST).is_file():
        raise BundleError(f"{path} is no bundle: it has no {MANIFEST}; build one with 'simbridge bundle'")
    manifest = read_json(path / MANIFEST)
    where = path / MANIFEST
    if manifest.get("format") != FORMAT:
        raise BundleError(f"{where}: format must be '{FORMAT}'; it is {manifest.get('format')!r}")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise BundleError(f"{where}: version must be a whole number from 1 to {VERSION}; it is {version!r}")
    if version > VERSION:
        raise BundleError(f"{where} is of version {version}; this simbridge reads up to {VERSION}: install a newer one")
    for name, expected in FIXED.items():
        if manifest.get(name) != expected:
            raise BundleError(f"{where}: {name} must be '{expected}'; it is {manifest.get(name)!r}: convert the data")
    unknown = sorted(manifest.keys() - KNOWN)
    if unknown:
        raise BundleError(f"{where}: unknown fields {unknown}; there are {sorted(KNOWN)}")
    return manifest


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds one object.

    Raises:
        BundleError: it is missing or holds something else.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BundleError(f"{path} is missing; copy the whole folder again") from error
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise BundleError(f"{path} must hold one JSON object; it holds {type(value).__name__}")
    return value


def read_splats(path: Path, entry: dict[str, Any], coefficients: int) -> BodySplats:
    """One body's splats.

    Raises:
        BundleError: the file is missing, damaged, of another degree or holds values that are not finite.
    """
    if not isinstance(entry, dict) or not {"body", "file"} <= entry.keys():
        raise BundleError(f"{path / MANIFEST}: entries of 'splats' need 'body' and 'file'; one is {entry!r}")
    file = path / entry["file"]
    if not file.is_file():
        raise BundleError(f"{file} is missing, the splats of body '{entry['body']}'; copy the whole folder again")
    names = [field.name for field in fields(StaticPool)]
    try:
        with safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise BundleError(f"{file} is no safetensors file with {names}: {error}") from error
    count = len(tensors["means"])
    for name, tail in {**_WIDTHS, "sh": (coefficients, 3)}.items():
        if tuple(tensors[name].shape) != (count, *tail):
            found, advice = tuple(tensors[name].shape), "one SH degree per bundle" if name == "sh" else "build it again"
            raise BundleError(f"{file}: '{name}' must have shape {(count, *tail)}; it has {found}: {advice}")
        bad = int((~torch.isfinite(tensors[name])).sum())
        if bad:
            raise BundleError(f"{file}: '{name}' holds {bad} values that are not finite; build the bundle again")
    return BodySplats(body=entry["body"], splats=StaticPool(**tensors))


def camera_to_json(camera: BundleCamera) -> dict[str, Any]:
    return {
        "name": camera.name,
        "width": camera.width,
        "height": camera.height,
        "K": camera.K.tolist(),
        "body": camera.body,
        "T_body_cam": camera.T_body_cam.tolist(),
        "exposure": camera.exposure,
    }


def camera_from_json(entry: dict[str, Any], where: Path) -> BundleCamera:
    """A camera.

    Raises:
        BundleError: a field is missing, unknown or no camera's.
    """
    unknown = sorted(entry.keys() - CAMERA_FIELDS)
    if unknown:
        raise BundleError(f"{where}: camera '{entry.get('name')}' has unknown fields {unknown}")
    try:
        K, T = np.array(entry["K"], np.float64), np.array(entry["T_body_cam"], np.float64)
        if K.shape != (3, 3) or T.shape != (4, 4) or not (np.isfinite(K).all() and np.isfinite(T).all()):
            raise ValueError(
                f"K must be a finite 3x3 and T_body_cam a finite 4x4 matrix; they are {K.shape}, {T.shape}"
            )
        if np.abs(T[:3, :3] @ T[:3, :3].T - np.eye(3)).max() > 1e-3 or np.linalg.det(T[:3, :3]) < 0:
            raise ValueError("the 3x3 part of T_body_cam is no rotation")
        return BundleCamera(
            name=entry["name"],
            width=int(entry["width"]),
            height=int(entry["height"]),
            K=K,
            body=entry["body"],
            T_body_cam=T,
            exposure=float(entry.get("exposure", 1.0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{where}: camera '{entry.get('name')}': {error}") from error


def _robot(entry: dict[str, Any] | None) -> RobotSpec | None:
    if entry is None:
        return None
    return RobotSpec(
        joints=tuple(entry["joints"]),
        actuators=tuple(entry["actuators"]),
        site=entry["site"],
        home=tuple(float(value) for value in entry["home"]),
        limits=tuple((float(low), float(high)) for low, high in entry["limits"]),
    )


def _object(entry: dict[str, Any]) -> ObjectSpec:
    x, y, z = (float(value) for value in entry["size_m"])
    (x0, x1), (y0, y1) = entry["spawn"]
    return ObjectSpec(body=entry["body"], joint=entry["joint"], size_m=(x, y, z), spawn=((x0, x1), (y0, y1)))


def _field(manifest: dict[str, Any], name: str, path: Path) -> Any:
    if name not in manifest:
        raise BundleError(f"{path / MANIFEST} has no field '{name}'; build the bundle again")
    return manifest[name]


def _write(path: Path, value: dict[str, Any]) -> None:
    write_atomic(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def _copy_model(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source / "scene.xml", target / "scene.xml")
        if (source / "assets").is_dir():
            shutil.copytree(source / "assets", target / "assets", dirs_exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot copy the model to {target}: {error}") from error
