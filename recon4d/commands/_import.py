"""``recon4d import`` and ``recon4d convert-calibration``: what a lab has, in the forms that are used here."""

from __future__ import annotations

import json as json_
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from recon4d.errors import ConfigError

if TYPE_CHECKING:
    from recon4d.capture import Finding, ReadConfig


@dataclass(frozen=True, kw_only=True)
class CalibrationOptions:
    """What a calibration leaves open, or says wrongly."""

    reading: str | None = None
    """how its poses are meant: w2c or c2w, then opencv, opengl or llff, as in c2w-opengl; found out when left out."""
    units: str | None = None
    """unit of its lengths: m, dm, cm, mm, in or ft; found out when left out."""
    scale: float | None = None
    """metres per unit of its lengths."""
    distance: str | None = None
    """two cameras and their distance in metres, as in left:right:0.84; gives the scale."""
    up: str | None = None
    """which way is up in its world: x, y, z, or cameras; --up=-x, --up=-y, --up=-z for the others."""
    plane: str | None = None
    """the bench in its world and units, as a,b,c,d with a x + b y + c z + d = 0; becomes z = 0."""
    size: str | None = None
    """WIDTHxHEIGHT of the pictures, where it does not say."""

    def config(self) -> ReadConfig:
        """The same as the engine takes it.

        Raises:
            ConfigError: a value is out of range, or written otherwise than its help says.
        """
        from recon4d.capture import ReadConfig

        distance, plane, size = None, None, None
        try:
            if self.distance is not None:
                a, b, metres = self.distance.rsplit(":", 2)
                distance = (a, b, float(metres))
            if self.plane is not None:
                a, b, c, d = map(float, self.plane.split(","))
                plane = (a, b, c, d)
            if self.size is not None:
                width, height = map(int, self.size.lower().split("x"))
                size = (width, height)
        except ValueError:
            raise ConfigError(
                f"--distance is CAMERA:CAMERA:METRES, --plane is a,b,c,d and --size is WIDTHxHEIGHT; given are"
                f" {', '.join(str(v) for v in (self.distance, self.plane, self.size) if v is not None)}"
            ) from None
        return ReadConfig(
            reading=self.reading,
            units=self.units,
            scale=self.scale,
            distance=distance,
            up=self.up,
            plane=plane,
            size=size,
        )


@dataclass(frozen=True, kw_only=True)
class VideoOptions:
    """Where the videos are, and what was done to them."""

    videos: Path | None = None
    """the videos' folder, where it is another than the source."""
    fit: str | None = None
    """what was done to pictures since the calibration, where sizes differ: scale, crop, rotate-left, rotate-right."""


def import_(
    format: Annotated[str, tyro.conf.Positional],
    source: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path | None = None,
    calibration: Path | None = None,
    episode: int | None = None,
    cameras: tuple[str, ...] | None = None,
    pictures: Annotated[VideoOptions, tyro.conf.arg(name="")] = VideoOptions(),
    options: Annotated[CalibrationOptions, tyro.conf.arg(name="")] = CalibrationOptions(),
) -> int:
    """Make a capture folder from a calibration and videos, or from another layout.

    Videos are found by their cameras' names; upper case, leading zeros and separators may differ.

    Args:
        format: auto, or one of calibration, colmap, easymocap, lerobot, llff, nerfstudio, opencv, pusht-embodied, toml,
            and what installed packages add.
        source: folder with the calibration and the videos; it is only read.
        out: capture folder to make; the source's name in the present folder when left out.
        calibration: the calibration's file or folder, where it lies elsewhere.
        episode: which recording of a dataset of several.
        cameras: which cameras to take; all that are calibrated (and, of a dataset, stand still) when left out.
        pictures: where the videos are.
        options: what the calibration leaves open.
    """
    from recon4d.capture import import_capture

    chosen: dict[str, Any] = {
        "calibration": calibration,
        "episode": episode,
        "cameras": cameras,
        "videos": pictures.videos,
        "fit": pictures.fit,
        "config": None if options == CalibrationOptions() else options.config(),
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    capture = import_capture(format, source, out, on_finding=_say, **given)
    written = shlex.quote(str(capture))  # To be copied, whatever the name.
    print(f"capture {capture}\nnext: recon4d check {written}; recon4d reconstruct {written} --out SCENE")
    return 0


def convert_calibration(
    source: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path,
    to: str = "calibration",
    format: str = "auto",
    options: Annotated[CalibrationOptions, tyro.conf.arg(name="")] = CalibrationOptions(),
    json: bool = False,
) -> int:
    """Read a calibration in any known form, say how it was read, and write it in another.

    Args:
        source: its file or folder.
        out: file (calibration, nerfstudio) or folder (colmap, colmap-text) to write.
        to: calibration, colmap, colmap-text or nerfstudio.
        format: form of the source; found out by content when left out.
        options: what the calibration leaves open.
        json: print how it was read as JSON.
    """
    from recon4d.capture import read_calibration, write_calibration

    rig, report = read_calibration(source, options.config(), format=format)
    print(report, file=sys.stderr)
    written = write_calibration(rig, out, to)
    print(json_.dumps(report.to_json()) if json else f"{to} {written}")
    return 0


def _say(finding: Finding) -> None:
    print(f"{finding.severity}: {finding}", file=sys.stderr)
