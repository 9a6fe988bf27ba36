"""``recon4d calibrate``."""

from __future__ import annotations

import json as json_
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from recon4d.errors import ConfigError

if TYPE_CHECKING:
    from recon4d.calibrate import Align, BaseTag, Calibrated

_VIDEOS = {".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", ".ts"}
_UNITS_M = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": 0.0254}


@dataclass(frozen=True, kw_only=True)
class WorldOptions:
    """Where the world is."""

    align: str | None = None
    """when the board lies on the bench, which becomes z = 0: first, last, seconds, or a folder of videos of it."""
    thickness: str = "0mm"
    """of the board that lies on the bench, as in 3mm."""
    base_tag: str | None = None
    """a tag that stays where it is and makes the world the robot's base: NUMBER:SIDE or NUMBER:SIDE:DICTIONARY, as in
    7:60mm."""
    base: str | None = None
    """where that tag is in the robot's base: x,y,z in metres and its turn about z in degrees, as in 0.2,0,0,90."""


def calibrate(
    videos: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    *,
    board: str,
    out: Path = Path("calibration.json"),
    world: Annotated[WorldOptions, tyro.conf.arg(name="")] = WorldOptions(),
    lens: Literal["auto", "opencv", "fisheye"] = "auto",
    every: int = 1,
) -> int:
    """Calibrate cameras from videos of a board that is carried through what they see.

    One video a camera, filmed together; the file's name is the camera's. Carry the board slowly through the volume,
    tilted to all sides, near and far, where two or more cameras see it; hold it still now and then. Beside the
    calibration are written a report (OUT_report.json), pictures of the rig and of what each camera was shown, and what
    was detected, so that a second run with other options takes seconds.

    Args:
        videos: the videos, or one folder that holds them.
        board: charuco:COLUMNSxROWS:SQUARE or apriltag:COLUMNSxROWS:TAG, as in charuco:5x7:40mm:dict=5X5_50. More
            fields: marker=0.75 (its share of the square), gap=0.3 (between tags, in tags), legacy, inverted, first=0,
            order=bottom.
        out: calibration to write; recon4d import reads it, and capture.json has the same fields.
        world: where the world is.
        lens: lens model; auto takes a fisheye where it explains a camera clearly better.
        every: search only each so many frames; 3 is enough at 30 frames a second.
    """
    from recon4d.calibrate import Board, CalibrateConfig, draw_coverage, draw_rig
    from recon4d.calibrate import calibrate as calibrated
    from recon4d.commands._progress import Painter, stop_on_signal
    from recon4d.files import write_atomic

    given = _named(videos)
    plan = Board.parse(board)
    bench, tag = _align(world.align, world.thickness), _base_tag(world.base_tag, world.base)

    def beside(ending: str) -> Path:
        return out.with_name(f"{out.stem}_{ending}")

    with Painter() as on_event, stop_on_signal() as should_stop:
        result = calibrated(
            given,
            plan,
            CalibrateConfig(lens=lens, every=every),
            align=bench,
            base_tag=tag,
            cache=beside("detections.npz"),
            on_event=on_event,
            should_stop=should_stop,
        )
    write_atomic(out, json_.dumps(result.rig.to_manifest(), indent=1))
    write_atomic(beside("report.json"), json_.dumps(result.to_json(), indent=1))
    draw_rig(result, beside("rig.png"))
    draw_coverage(result, beside("coverage.png"))
    _print(result)
    print(f"calibration {out}\nreport {beside('report.json')}\npictures {beside('rig.png')}, {beside('coverage.png')}")
    return 0


def _named(videos: tuple[Path, ...]) -> dict[str, Path]:
    """Videos by their cameras' names."""
    paths = list(videos)
    if len(paths) == 1 and paths[0].is_dir():
        paths = sorted(path for path in paths[0].iterdir() if path.suffix.lower() in _VIDEOS)
        if not paths:
            raise ConfigError(f"the folder {videos[0]} holds no video ({', '.join(sorted(_VIDEOS))})")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise ConfigError(f"{missing[0]} is no folder and no file; give the videos, or one folder that holds them")
    folders = [path for path in paths if path.is_dir()]
    if folders:
        raise ConfigError(f"{folders[0]} is a folder; give one folder, or videos")
    names = [path.stem for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two videos are called '{twice[0]}'; the file's name is the camera's, so each needs its own")
    return dict(zip(names, paths, strict=True))


def _align(text: str | None, thickness: str) -> Align | None:
    from recon4d.calibrate import Align

    if text is None:
        return None
    thickness_m = _length(thickness, "--thickness")
    times = {"first": -np.inf, "last": np.inf}
    if text in times:
        return Align(time_s=times[text], thickness_m=thickness_m)
    if re.fullmatch(r"[0-9.]+", text) and text.count(".") < 2:
        return Align(time_s=float(text), thickness_m=thickness_m)
    if not Path(text).is_dir():
        raise ConfigError(f"--align {text} is neither first, last, seconds, nor a folder with videos")
    return Align(videos=_named((Path(text),)), thickness_m=thickness_m)


def _base_tag(text: str | None, base: str | None) -> BaseTag | None:
    from recon4d.calibrate import BaseTag

    if text is None:
        if base is not None:
            raise ConfigError("--base says where the tag of --base-tag is; give that too")
        return None
    parts = text.split(":")
    if len(parts) not in (2, 3) or not parts[0].isdigit():
        raise ConfigError(f"--base-tag {text} is not NUMBER:SIDE or NUMBER:SIDE:DICTIONARY, as in 7:60mm")
    place = None
    if base is not None:
        try:
            x, y, z, turn = (float(value) for value in base.split(","))
        except ValueError:
            raise ConfigError(f"--base {base} is not x,y,z,degrees, as in 0.2,0,0,90") from None
        c, s = np.cos(np.radians(turn)), np.sin(np.radians(turn))
        place = np.array([[c, -s, 0, x], [s, c, 0, y], [0, 0, 1, z], [0, 0, 0, 1.0]])
    size_m = _length(parts[1], "--base-tag")
    if len(parts) == 3:
        return BaseTag(number=int(parts[0]), size_m=size_m, dictionary=parts[2], T_base_tag=place)
    return BaseTag(number=int(parts[0]), size_m=size_m, T_base_tag=place)


def _length(text: str, flag: str) -> float:
    found = re.fullmatch(r"([0-9.]+)(mm|cm|m|in)", text)
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        raise ConfigError(f"{flag} {text} is no length with its unit, as in 60mm")
    return float(found[1]) * _UNITS_M[found[2]]


def _print(result: Calibrated) -> None:
    """The errors, one line a camera."""
    heads = f"{'camera':<16}{'frames':>8}{'covers':>8}{'fitted':>9}{'held out':>10}"
    print(f"{heads}{'focal length':>18}{'position':>11}{'delay':>9}")
    for camera in result.cameras:
        fitted, held_out = (f"{s.median_px:.2f} px" if s else "-" for s in (camera.training, camera.held_out))
        focal = f"{camera.focal_px:.1f} ± {camera.focal_sigma_px:.1f} px"
        place = "reference" if camera.name == result.reference else f"± {camera.position_sigma_m * 1e3:.1f} mm"
        print(
            f"{camera.name:<16}{camera.used:>8}{camera.coverage:>8.0%}{fitted:>9}{held_out:>10}{focal:>18}{place:>11}"
            f"{camera.delay_s * 1e3:>+6.0f} ms"
        )
    if result.square_m is not None:
        print(f"square {result.square_m * 1e3:.2f} mm, triangulated; {result.board.square_m * 1e3:.2f} mm given")
    for finding in result.findings:
        if finding.severity == "note":  # Warnings have been said.
            print(f"note: {finding}")
