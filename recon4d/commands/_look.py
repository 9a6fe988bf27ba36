"""``recon4d render``, ``export`` and ``score``: what is done with a scene."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated, Literal

import tyro

from recon4d.commands._device import usable
from recon4d.commands._progress import Painter, stop_on_signal
from recon4d.errors import ConfigError


def render(
    scene: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path,
    kind: Literal["picture", "rig", "orbit", "frozen", "depth"] = "picture",
    camera: str | None = None,
    time_s: float | None = None,
    device: str = "cpu",
    quiet: bool = False,
) -> int:
    """Draw a picture or a film of a scene.

    Args:
        scene: scene folder.
        out: file to write: .png or .jpg for a picture, .mp4 for a film.
        kind: picture (one instant), rig (a camera over time), orbit (camera and time move), frozen (time stands
            still, the camera moves), depth (a camera's depth over time).
        camera: name of a rig camera; the first when left out.
        time_s: instant of a picture or of frozen time, seconds; the middle of the clip when left out.
        device: what to draw on: auto, a name of 'recon4d accelerators list', NAME:INDEX, or a torch device.
        quiet: no progress.
    """
    from recon4d.scene import load
    from recon4d.show import VideoConfig, picture, video

    if time_s is not None and kind not in ("picture", "frozen"):
        raise ConfigError(f"--time-s is the instant of a picture or of frozen time; '{kind}' shows the whole clip")
    loaded, device = load(scene), usable(device)
    if kind == "picture":
        print(picture(loaded, out, camera=camera, time_s=time_s, device=device))
        return 0
    if out.suffix.lower() != ".mp4":
        raise ConfigError(f"a film is written as .mp4; --out is {out}")
    with stop_on_signal() as should_stop, Painter(quiet=quiet) as on_event:
        config = VideoConfig(camera=camera, time_s=time_s, device=device)
        print(video(loaded, out, kind, config, on_event=on_event, should_stop=should_stop))
    return 0


def export(
    scene: Annotated[Path, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    format: str = "ply",
    time_s: float | None = None,
    fps: float = 30.0,
) -> int:
    """Write a scene in another program's format.

    Args:
        scene: scene folder.
        out: file or folder to write.
        format: ply (one instant), ply-sequence (a folder of instants), or what installed packages add.
        time_s: instant, seconds, for formats that hold one; the middle of the clip when left out.
        fps: instants a second, for formats that hold many.
    """
    from recon4d.export import ExportOptions
    from recon4d.export import export as write
    from recon4d.scene import load

    print(write(load(scene), out, format, ExportOptions(time_s=time_s, fps=fps)))
    return 0


def score(
    scene: Annotated[Path, tyro.conf.Positional],
    capture: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path | None = None,
    device: str = "cpu",
    quiet: bool = False,
    json: bool = False,
) -> int:
    """Score a scene on a capture's held-out cameras and times.

    Args:
        scene: scene folder.
        capture: capture folder that it was made from, or another one of the same rig and clock.
        out: also write the scores to this JSON file.
        device: what to draw on: auto, a name of 'recon4d accelerators list', NAME:INDEX, or a torch device.
        quiet: no progress.
        json: print the scores as JSON.
    """
    import tempfile

    from recon4d.capture import IngestConfig, divide, ingest
    from recon4d.commands._reconstruct import print_scores
    from recon4d.files import write_atomic
    from recon4d.scene import load
    from recon4d.score import ScoreConfig
    from recon4d.score import score as score_scene

    loaded, device = load(scene), usable(device)
    with (
        tempfile.TemporaryDirectory(prefix="recon4d-") as workdir,
        stop_on_signal() as should_stop,
        Painter(quiet=quiet or json) as on_event,
    ):
        ingested = ingest(capture, IngestConfig(), workdir=Path(workdir), on_event=on_event, should_stop=should_stop)
        scores = score_scene(
            loaded, divide(ingested), ScoreConfig(device=device), on_event=on_event, should_stop=should_stop
        )
    if json:
        print(json_.dumps(scores))
    else:
        print_scores(scores)
    if out is not None:  # Last: minutes of work are not to be lost with a file that cannot be written.
        write_atomic(out, json_.dumps(scores, indent=1))
    return 0
