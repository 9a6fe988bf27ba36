"""One episode of a LeRobot dataset (versions 2.0, 2.1 and 3.0) whose cameras stand still.

A dataset knows its cameras' pictures but not where they stand, so a calibration is given beside it. Its cameras are
matched by the last part of a video's key: ``observation.images.top`` is "top". Where several episodes share one video
(version 3) the episode is cut out, bit for bit; frames are those at the dataset's own timestamps.

Beside ``capture.json`` a file ``state.json`` keeps what the robot did, one row for each frame::

    {
      "dataset": "pusht_real", "robot_type": "so101", "episode": 3, "tasks": ["Push the T"],
      "times_s": [0.0, 0.0333, ...],                       on the same clock as the cameras' timestamps
      "features": {
        "action": {"names": [...], "values": [[...], ...]},    every feature of numbers, names as the dataset has them;
        "observation.state": {...}                             what is not finite is null
      }
    }
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recon4d.capture._findings import Finding
from recon4d.capture.calibrations import ReadConfig, read_calibration
from recon4d.capture.formats import Foreign
from recon4d.capture.video import Part
from recon4d.errors import CalibrationError, CaptureError, MissingExtraError

_VERSIONS = ("v2.0", "v2.1", "v3.0")
_INFO = "meta/info.json"
_INDEX = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_MOVING = ("wrist", "hand", "gripper", "ego", "head")
"""Words in a camera's name that mean that the robot carries it."""


def read(
    source: Path,
    *,
    calibration: Path | None = None,
    config: ReadConfig | None = None,
    episode: int = 0,
    cameras: Sequence[str] | None = None,
) -> Foreign:
    """Reads one episode.

    Args:
        source: The dataset's folder, the one that holds ``meta``.
        calibration: In any form that ``read_calibration`` reads.
        config: What the calibration leaves open.
        episode: Its index.
        cameras: Names of the cameras to take; None takes all that are calibrated, except for those that the robot
            carries by their names.

    Raises:
        CaptureError: the dataset is of no known version, or lacks what it names.
        CalibrationError: a camera has no calibration.
        MissingExtraError: pyarrow is not installed.
    """
    info = _info(source)
    if calibration is None:
        raise CalibrationError("a LeRobot dataset does not say where its cameras stand; give --calibration FILE")
    calibrated, report = read_calibration(calibration, config)
    rig = calibrated.to_manifest()
    keys = _video_keys(info)
    chosen, findings = _choose(info, keys, [camera["name"] for camera in rig["cameras"]], cameras)
    take = _episode(source, info, episode)
    name = str(info.get("repo_id") or source.resolve().name)
    manifest = {
        **rig,
        "version": 1,
        "name": f"{name}-{episode}",
        "notes": "; ".join([f"episode {episode} of the LeRobot dataset '{name}'", *take.tasks, *map(str, findings)]),
        "cameras": [camera for camera in rig["cameras"] if camera["name"] in chosen],
    }
    return Foreign(
        manifest=manifest,
        videos={camera: take.video(keys[camera]) for camera in chosen},
        timestamps=dict.fromkeys(chosen, take.times_s),
        files={"state.json": _state(name, info, take)},
        findings=(*findings, *report.findings),
    )


@dataclass(frozen=True, kw_only=True)
class _Episode:
    """One episode's rows, and where its videos are."""

    source: Path
    info: dict[str, Any]
    index: int
    tasks: list[str]
    rows: dict[str, list[Any]]
    """By column, in the order of frames."""
    row: dict[str, Any]
    """Of the table of episodes, in version 3."""

    @property
    def times_s(self) -> list[float]:
        return self.rows["timestamp"]

    def video(self, key: str) -> Path | Part:
        """A file of its own, or a part of a longer one."""
        if not self.row:
            return _place(self.source, self.info, "video_path", video_key=key, **_chunk(self.info, self.index))
        fields = [f"videos/{key}/{name}" for name in ("chunk_index", "file_index", "from_timestamp")]
        missing = [field for field in fields if self.row.get(field) is None]
        if missing:
            raise CaptureError(f"episode {self.index} has no {missing}", camera=_short(key), file="meta/episodes")
        chunk, file, start_s = (self.row[field] for field in fields)
        path = _place(self.source, self.info, "video_path", video_key=key, chunk_index=int(chunk), file_index=int(file))
        return Part(video=path, times_s=float(start_s) + np.array(self.times_s))


def _info(source: Path) -> dict[str, Any]:
    info = _json(source, _INFO, "is it the folder of a LeRobot dataset, the one that holds 'meta'?")
    version = info.get("codebase_version")
    if version not in _VERSIONS:
        raise CaptureError(
            f"'codebase_version' is {version!r}; {', '.join(_VERSIONS)} are read; convert it with LeRobot's scripts",
            file=_INFO,
        )
    if not isinstance(info.get("features"), dict) or not all(isinstance(f, dict) for f in info["features"].values()):
        raise CaptureError("'features' must be an object of objects", file=_INFO)
    return info


def _json(source: Path, file: str, advice: str) -> dict[str, Any]:
    try:
        data = json.loads((source / file).read_text("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CaptureError(f"'{source}' has no such file; {advice}", file=file) from error
    except (OSError, ValueError) as error:
        raise CaptureError(f"cannot be read as JSON: {error}", file=file) from error
    if not isinstance(data, dict):
        raise CaptureError(f"must hold a JSON object; it holds a {type(data).__name__}", file=file)
    return data


def _video_keys(info: dict[str, Any]) -> dict[str, str]:
    """Keys of the features that are videos of colours, by the cameras' names."""
    keys: dict[str, str] = {}
    for key, feature in info["features"].items():
        details = feature.get("info") or feature.get("video_info") or {}
        if feature.get("dtype") == "video" and not any(
            name.endswith("is_depth_map") and details[name] for name in details
        ):
            keys[_short(key)] = key
    if not keys:
        kinds = sorted({str(feature.get("dtype")) for feature in info["features"].values()})
        raise CaptureError(f"no feature is a video; there are {kinds}; images in tables are not read", file=_INFO)
    return keys


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def _choose(
    info: dict[str, Any], keys: dict[str, str], calibrated: list[str], wanted: Sequence[str] | None
) -> tuple[list[str], list[Finding]]:
    """Cameras to take, and a note for each that is not."""
    if wanted is not None:
        for name in wanted:
            if name not in keys:
                raise CaptureError(f"there is no such video; there are {list(keys)}", camera=name, file=_INFO)
            if name not in calibrated:
                raise CalibrationError(f"the calibration lacks it; it has {calibrated}", camera=name)
        return list(wanted), []
    chosen, findings = [], []
    for name in keys:
        word = next((word for word in re.split(r"[^a-z]+", name.lower()) if word in _MOVING), None)
        if word is not None:
            reason, advice = f"is left out: by the word '{word}' the robot carries it", "name it with --cameras if not"
        elif name not in calibrated:
            reason, advice = f"is left out: the calibration lacks it; it has {calibrated}", "calibrate it to use it"
        else:
            chosen.append(name)
            continue
        findings.append(Finding(severity="note", message=reason, advice=advice, camera=name, file=_INFO))
    if len(chosen) < 2:
        raise CalibrationError(
            f"{len(chosen)} of the videos {list(keys)} are calibrated and of cameras that stand still; at least 2 are"
            f" needed. The calibration has {calibrated}: its names must be those of the videos"
        )
    return chosen, findings


def _episode(source: Path, info: dict[str, Any], index: int) -> _Episode:
    """Reads the episode's rows, and where its videos are."""
    if info["codebase_version"] == "v3.0":
        row = _episode_row(source, info, index)
        where = {"chunk_index": int(row["data/chunk_index"]), "file_index": int(row["data/file_index"])}
        tasks = row.get("tasks") or []
    else:
        row, where, tasks = {}, _chunk(info, index), _tasks_of_lines(source, info, index)
    path = _place(source, info, "data_path", **where)
    columns = [name for name, feature in info["features"].items() if _is_numbers(name, feature)]
    rows = _table(path, source, [*columns, "timestamp", "frame_index", "episode_index"], index)
    order = sorted(range(len(rows["frame_index"])), key=rows["frame_index"].__getitem__)
    if len(order) < 2 or [rows["frame_index"][i] for i in order] != list(range(len(order))):
        raise CaptureError(
            f"episode {index} has {len(order)} rows, whose 'frame_index' must be 0, 1, 2, …",
            file=path.relative_to(source).as_posix(),
        )
    rows = {name: [values[i] for i in order] for name, values in rows.items()}
    times = np.array(rows["timestamp"], np.float64)
    if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise CaptureError(
            f"the timestamps of episode {index} do not increase strictly", file=path.relative_to(source).as_posix()
        )
    return _Episode(source=source, info=info, index=index, tasks=[str(t) for t in tasks], rows=rows, row=row)


def _is_numbers(name: str, feature: dict[str, Any]) -> bool:
    return name not in _INDEX and re.fullmatch(r"(float|u?int)\d+|bool", str(feature.get("dtype"))) is not None


def _chunk(info: dict[str, Any], index: int) -> dict[str, int]:
    size = info.get("chunks_size", 1000)
    if not isinstance(size, int) or size < 1:
        raise CaptureError(f"'chunks_size' must be a positive number; it is {size!r}", file=_INFO)
    return {"episode_chunk": index // size, "episode_index": index}


def _tasks_of_lines(source: Path, info: dict[str, Any], index: int) -> list[Any]:
    """Tasks of an episode of version 2, whose table is one JSON object a line."""
    file, known = "meta/episodes.jsonl", 0
    try:
        with (source / file).open(encoding="utf-8-sig") as lines:
            for line in lines:
                item = json.loads(line)
                if item["episode_index"] == index:
                    return list(item.get("tasks") or [])
                known += 1
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CaptureError(f"is no table of episodes: {error}", file=file) from error
    raise _no_such(index, known)


def _episode_row(source: Path, info: dict[str, Any], index: int) -> dict[str, Any]:
    """The row of an episode of version 3, but for its statistics."""
    for path in sorted((source / "meta/episodes").glob("chunk-*/file-*.parquet")):
        names = [name for name in _columns(path, source) if not name.startswith("stats/")]
        rows = _table(path, source, names, index)
        if rows["episode_index"]:
            return {name: values[0] for name, values in rows.items()}
    raise _no_such(index, info.get("total_episodes"))


def _no_such(index: int, known: Any) -> CaptureError:
    return CaptureError(f"there is no episode {index}; there are {known}, counted from 0", file=_INFO)


def _columns(path: Path, source: Path) -> list[str]:
    return _parquet(path, source, lambda parquet: parquet.read_schema(path).names)


def _table(path: Path, source: Path, columns: list[str], episode: int) -> dict[str, list[Any]]:
    """The episode's rows of a Parquet file, by column."""
    filters = [("episode_index", "=", episode)]
    table = _parquet(path, source, lambda parquet: parquet.read_table(path, columns=columns, filters=filters))
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise CaptureError(f"lacks the columns {missing}", file=path.relative_to(source).as_posix())
    return table.to_pydict()


def _parquet(path: Path, source: Path, use: Any) -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyarrow", "lerobot", "reading a LeRobot dataset") from error
    try:
        return use(parquet)
    except (OSError, pyarrow.ArrowException) as error:
        raise CaptureError(
            f"cannot be read as Parquet: {' '.join(str(error).split())[:200]}", file=path.relative_to(source).as_posix()
        ) from error


def _place(source: Path, info: dict[str, Any], key: str, **fields: int | str) -> Path:
    """A path by the dataset's own template, which may not lead out of the dataset."""
    template = info.get(key)

    def fill(match: re.Match[str]) -> str:
        value = fields.get(match[1], match[0])
        return f"{value:0{match[2]}d}" if match[2] and isinstance(value, int) else str(value)

    path = re.sub(r"\{(\w+)(?::0(\d)d)?\}", fill, template) if isinstance(template, str) else "{"
    if "{" in path or "\0" in path or Path(path).is_absolute() or ".." in Path(path).parts:
        raise CaptureError(f"'{key}' must be a path of {sorted(fields)}; it is {template!r}", file=_INFO)
    return source / path


def _state(name: str, info: dict[str, Any], take: _Episode) -> str:
    features = {
        key: {"names": feature.get("names"), "values": _plain(take.rows[key])}
        for key, feature in info["features"].items()
        if key in take.rows and key not in _INDEX
    }
    state = {
        "dataset": name,
        "robot_type": info.get("robot_type"),
        "episode": take.index,
        "tasks": take.tasks,
        "times_s": take.times_s,
        "features": features,
    }
    return json.dumps(state, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Lists of JSON's numbers: what is not finite becomes null."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
