"""The manifest ``scene.json``: what it says, how it is checked, how older versions are brought up to date."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from recon4d.errors import CaptureError, SceneError
from recon4d.types import Camera, DynamicPool, Scene4D, StaticPool

FORMAT = "recon4d-scene"
VERSION = 1
UNITS = "metre"
FRAME = "right-handed, +Z up"

Migration = Callable[[dict[str, Any], dict[str, Tensor]], tuple[dict[str, Any], dict[str, Tensor]]]
MIGRATIONS: dict[int, Migration] = {}
"""From version -> what makes a scene of the next version of it. Version 1 is the first."""


def describe(scene: Scene4D, *, tensor_file: str, sha256: str) -> dict[str, Any]:
    """The manifest of a scene."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "software": scene.software,
        "units": UNITS,
        "frame": FRAME,
        "time_range_s": [0.0, float(scene.duration_s)],
        "clock_offset_s": float(scene.clock_offset_s),
        "cameras": [camera.to_json() for camera in scene.cameras],
        "plane": None if scene.plane is None else [float(value) for value in scene.plane],
        "background": list(scene.background),
        "antialiased": scene.antialiased,
        "counts": {"static": len(scene.static), "dynamic": len(scene.dynamic)},
        "sh_coefficients": int(scene.static.sh.shape[1]),
        "input_hash": scene.input_hash,
        "config": scene.config,
        "tensors": {"file": tensor_file, "sha256": sha256},
    }


def dump(manifest: dict[str, Any]) -> str:
    """The manifest as JSON text.

    Raises:
        SceneError: a value has no JSON form (the configuration may hold anything).
    """
    try:
        return json.dumps(manifest, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    except (TypeError, ValueError) as error:
        raise SceneError(
            f"the scene's description cannot be written as JSON: {error}; its config may hold only numbers that are"
            " finite, strings, booleans, lists and dictionaries of them"
        ) from error


def read(path: Path) -> dict[str, Any]:
    """Reads ``scene.json`` and checks that it is one, of a version that this package knows.

    Raises:
        SceneError: there is none, it is no JSON, of another format or of a version that cannot be read.
    """
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise SceneError(
            f"{path.parent} is no scene: it has no {path.name}; give the folder it was saved to"
        ) from error
    except NotADirectoryError as error:
        raise SceneError(f"{path.parent} is no scene folder; give the folder that holds {path.name}") from error
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror or error}; correct the path") from error
    except ValueError as error:
        raise SceneError(f"{path} cannot be read as JSON: {error}; restore it or reconstruct again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise SceneError(f"{path} does not describe a scene: its format is {found!r}, not '{FORMAT}'")
    version = manifest.get("version")
    if type(version) is not int:
        raise SceneError(f"{path}: 'version' must be a whole number; it is {version!r}")
    if version > VERSION:
        raise SceneError(
            f"{path} is of version {version}, written by recon4d {manifest.get('software') or 'of an unknown version'};"
            f" this recon4d reads up to version {VERSION}: install a newer one"
        )
    missing = [v for v in range(version, VERSION) if v not in MIGRATIONS]
    if version < 1 or missing:
        raise SceneError(
            f"{path} is of version {version}; this recon4d reads {min(MIGRATIONS, default=VERSION)} to {VERSION}"
        )
    return manifest


def migrate(manifest: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Brings an older manifest and its tensors to the present version."""
    while manifest["version"] < VERSION:
        version = manifest["version"]
        manifest, tensors = MIGRATIONS[version](manifest, tensors)
        manifest = {**manifest, "version": version + 1}
    return manifest, tensors


def build(manifest: dict[str, Any], static: StaticPool, dynamic: DynamicPool, path: Path) -> Scene4D:
    """The scene that a manifest of the present version and its pools describe.

    Raises:
        SceneError: a field is missing or is not what it must be.
    """
    try:
        for field, expected in (("units", UNITS), ("frame", FRAME)):
            if manifest[field] != expected:
                raise ValueError(f"'{field}' must be '{expected}'; it is {manifest[field]!r}")
        start, end = (float(value) for value in manifest["time_range_s"])
        if start != 0.0 or not np.isfinite(end) or end < 0.0:
            raise ValueError(f"'time_range_s' must be [0, end] with end >= 0; it is {manifest['time_range_s']}")
        background = tuple(float(value) for value in manifest["background"])
        if len(background) != 3:
            raise ValueError(f"'background' must be three numbers; it is {manifest['background']}")
        return Scene4D(
            static=static,
            dynamic=dynamic,
            cameras=tuple(Camera.from_json(camera) for camera in manifest["cameras"]),
            duration_s=end,
            clock_offset_s=float(manifest["clock_offset_s"]),
            plane=_plane(manifest["plane"]),
            input_hash=manifest["input_hash"],
            config=manifest["config"],
            software=manifest["software"],
            background=background,
            antialiased=bool(manifest["antialiased"]),
        )
    except KeyError as error:
        raise SceneError(f"{path} has no field {error}; restore it or reconstruct again") from error
    except (TypeError, ValueError, CaptureError) as error:
        raise SceneError(f"{path} is damaged: {error}; restore it or reconstruct again") from error


def _plane(value: Any) -> np.ndarray | None:
    if value is None:
        return None
    plane = np.asarray(value, np.float64)
    if plane.shape != (4,) or not np.isfinite(plane).all():
        raise ValueError(f"'plane' must be four finite numbers or null; it is {value}")
    return plane
