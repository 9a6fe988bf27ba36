"""Our own form: ``capture.json``, whole or without its videos (then usually called ``calibration.json``).

Each camera declares the convention of its pose and of its pixel centres; see ``recon4d.capture._manifest``.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from recon4d.capture._findings import Finding, Inspection
from recon4d.capture._manifest import Manifest, parse_manifest
from recon4d.capture._rig import Rig
from recon4d.capture.calibrations import W2C_OPENCV, CalibrationFormat, Found, FoundCamera, Reading, Untrusted

_DECLARED = {("T_cam_world", "opencv"): W2C_OPENCV, ("T_cam_world", "opengl"): Reading("w2c", "opengl")}
_DECLARED |= {("T_world_cam", axes): Reading("c2w", axes) for axes in ("opencv", "opengl")}


def write(rig: Rig, path: Path) -> None:
    """Writes the rig as one file."""
    path.write_text(json.dumps(rig.to_manifest(), indent=2, ensure_ascii=False) + "\n", "utf-8")


def found_in(data: Any, folder: Path, file: str) -> Found:
    """What a manifest says; its videos need not be there.

    Args:
        data: The parsed JSON.
        folder: Where the manifest's paths begin.
        file: The manifest's name, for messages.
    """
    findings: list[Finding] = []

    def keep(finding: Finding) -> None:
        finding = replace(finding, file=file)
        if finding.severity == "error":
            raise finding.as_error()
        findings.append(finding)

    manifest = parse_manifest(folder, b"", data, Inspection(keep), bare=True)
    timed = [e.name for e in manifest.entries if e.timestamps or e.time_offset_s or e.time_scale != 1]
    if timed:
        message = f"timestamps, time_offset_s and time_scale of {timed} are no calibration, and are left out"
        findings.append(Finding(severity="warning", message=message, file=file))
    # Conventions may differ from camera to camera: the commonest is called the file's.
    declared = [_DECLARED[(item["pose"]["convention"], item["pose"]["axes"])] for item in data["cameras"]]
    reading = Counter(declared).most_common(1)[0][0]
    return Found(
        cameras=_cameras(manifest, folder, reading),
        documented=reading,
        units="m",
        z_up=True,
        plane=manifest.plane,
        notes=manifest.notes,
        findings=tuple(findings),
    )


def _cameras(manifest: Manifest, folder: Path, reading: Reading) -> tuple[FoundCamera, ...]:
    return tuple(
        FoundCamera(
            name=entry.name,
            matrix=reading.matrix(entry.camera.T_cam_world),
            K=entry.camera.K,
            width=entry.camera.width,
            height=entry.camera.height,
            distortion=entry.distortion,
            video=folder / entry.video if entry.video else None,
        )
        for entry in manifest.entries
    )


def _is_ours(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and isinstance(data.get("cameras"), list)
        and any(isinstance(camera, dict) and "pose" in camera and "K" in camera for camera in data["cameras"])
    )


def _recognises(source: Untrusted) -> bool:
    return any(_is_ours(data) for data in source.documents.values())


def _read(source: Untrusted) -> Found:
    path, data = source.only(_is_ours, "a calibration in our form")
    return found_in(data, source.folder, path.name)


FORMAT = CalibrationFormat(
    name="calibration",
    title="capture.json or calibration.json; conventions are declared in it",
    recognises=_recognises,
    read=_read,
)
