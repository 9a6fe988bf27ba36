"""LeRobot datasets of both layouts, written here as their public description says, to captures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

from recon4d.capture import Finding, check, frames, import_capture, ingest
from recon4d.commands import main
from recon4d.errors import CalibrationError, CaptureError, ConfigError, MissingExtraError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

FPS, LENGTHS = 30, (5, 7, 6)
CAMERAS = ("top", "left", "wrist")
JOINTS = ["shoulder.pos", "gripper.pos"]


def features(kit: SimpleNamespace) -> dict[str, Any]:
    video = {
        "dtype": "video",
        "shape": [kit.HEIGHT, kit.WIDTH, 3],
        "names": ["height", "width", "channels"],
        "info": {"video.fps": float(FPS), "video.codec": "h264", "video.is_depth_map": False, "has_audio": False},
    }
    joints = {"dtype": "float32", "shape": [len(JOINTS)], "names": JOINTS}
    scalar = {"shape": [1], "names": None}
    return {
        "action": joints,
        "observation.state": joints,
        **{f"observation.images.{camera}": video for camera in CAMERAS},
        "next.reward": {"dtype": "float32", **scalar},
        "timestamp": {"dtype": "float32", **scalar},
        **{name: {"dtype": "int64", **scalar} for name in ("frame_index", "episode_index", "index", "task_index")},
    }


def pictures_of(kit: SimpleNamespace, camera: int, episode: int) -> np.ndarray:
    return kit.pictures(LENGTHS[episode], seed=10 * camera + episode)


def rows_of(episode: int) -> dict[str, Any]:
    """The columns of one episode. Its actions tell episode, frame and joint."""
    length = LENGTHS[episode]
    action = [np.array([10 * episode + frame, 0.5 * frame], np.float32) for frame in range(length)]
    return {
        "action": action,
        "observation.state": [a + 100 for a in action],
        "next.reward": np.array([np.nan if f == 0 else f for f in range(length)], np.float32),
        "timestamp": (np.arange(length) / FPS).astype(np.float32),
        "frame_index": np.arange(length),
        "episode_index": np.full(length, episode),
        "index": np.arange(length) + sum(LENGTHS[:episode]),
        "task_index": np.zeros(length, int),
    }


def table(columns: dict[str, Any]) -> Any:
    return pyarrow.table({name: [v.tolist() for v in np.asarray(values)] for name, values in columns.items()})


H264 = {"crf": "8", "g": "50", "bf": "2"}
AV1 = {"crf": "30", "g": "2", "preset": "12"}


def encode(path: Path, pictures: np.ndarray, codec: str = "libx264", **options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        defaults = H264 if codec == "libx264" else AV1
        stream = container.add_stream(codec, rate=FPS, options=defaults | options)
        stream.height, stream.width, stream.pix_fmt = *pictures.shape[1:3], "yuv420p"
        for index, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture)
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_v21(kit: SimpleNamespace, root: Path) -> Path:
    """One Parquet file and one video a camera for each episode."""
    info = {
        "codebase_version": "v2.1",
        "robot_type": "so100",
        "total_episodes": len(LENGTHS),
        "total_frames": sum(LENGTHS),
        "total_tasks": 1,
        "total_videos": len(LENGTHS) * len(CAMERAS),
        "total_chunks": 1,
        "chunks_size": 1000,
        "fps": FPS,
        "splits": {"train": f"0:{len(LENGTHS)}"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": features(kit),
    }
    (root / "meta").mkdir(parents=True)
    (root / "data/chunk-000").mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info))
    (root / "meta/tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "Push the T"}) + "\n")
    lines = [{"episode_index": e, "tasks": ["Push the T"], "length": n} for e, n in enumerate(LENGTHS)]
    (root / "meta/episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for episode in range(len(LENGTHS)):
        parquet.write_table(table(rows_of(episode)), root / f"data/chunk-000/episode_{episode:06d}.parquet")
        for camera, name in enumerate(CAMERAS):
            path = root / f"videos/chunk-000/observation.images.{name}/episode_{episode:06d}.mp4"
            encode(path, pictures_of(kit, camera, episode))
    return root


def join(parts: list[Path], target: Path) -> list[float]:
    """Writes videos behind each other without decoding them; where each begins, in seconds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    starts, offset = [], 0
    with av.open(str(target), "w", options={"movflags": "faststart"}) as sink:
        copied = None
        for part, length in zip(parts, LENGTHS, strict=True):
            with av.open(str(part)) as source:
                stream = source.streams.video[0]
                copied = copied or sink.add_stream_from_template(stream, opaque=True)
                starts.append(float(offset * stream.time_base))
                for packet in source.demux(stream):
                    if packet.dts is not None:
                        packet.pts, packet.dts, packet.stream = packet.pts + offset, packet.dts + offset, copied
                        sink.mux(packet)
                offset += round(length / FPS / stream.time_base)
    return starts


def write_v30(kit: SimpleNamespace, root: Path, *, keyframes: bool = True, codec: str = "libx264") -> Path:
    """All episodes in one Parquet file and one video a camera; without ``keyframes`` episodes begin anywhere."""
    info = {
        "codebase_version": "v3.0",
        "robot_type": "so101",
        "total_episodes": len(LENGTHS),
        "total_frames": sum(LENGTHS),
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": FPS,
        "splits": {"train": f"0:{len(LENGTHS)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": features(kit),
    }
    for folder in ("meta/episodes/chunk-000", "data/chunk-000"):
        (root / folder).mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info))
    all_rows = [rows_of(episode) for episode in range(len(LENGTHS))]
    columns = {name: np.concatenate([np.asarray(rows[name]) for rows in all_rows]) for name in all_rows[0]}
    parquet.write_table(table(columns), root / "data/chunk-000/file-000.parquet")
    ends = np.cumsum(LENGTHS)
    zeros = [0] * len(LENGTHS)
    episodes: dict[str, Any] = {
        "episode_index": list(range(len(LENGTHS))),
        "tasks": [["Push the T"]] * len(LENGTHS),
        "length": list(LENGTHS),
        **{"data/chunk_index": zeros, "data/file_index": zeros},
        **{"dataset_from_index": (ends - LENGTHS).tolist(), "dataset_to_index": ends.tolist()},
        "stats/action/mean": [[0.0, 0.0]] * len(LENGTHS),
    }
    for camera, name in enumerate(CAMERAS):
        key = f"observation.images.{name}"
        target = root / f"videos/{key}/chunk-000/file-000.mp4"
        pictures = [pictures_of(kit, camera, episode) for episode in range(len(LENGTHS))]
        if keyframes:
            parts = [encode(root / f"tmp/{e}.mp4", p, codec) for e, p in enumerate(pictures)]
            starts = join(parts, target)
        else:
            encode(target, np.concatenate(pictures), bf="0", **{"sc_threshold": "0"})
            starts = ((ends - LENGTHS) / FPS).tolist()
        episodes |= {f"videos/{key}/chunk_index": zeros, f"videos/{key}/file_index": zeros}
        episodes |= {f"videos/{key}/from_timestamp": starts}
        episodes |= {f"videos/{key}/to_timestamp": [s + n / FPS for s, n in zip(starts, LENGTHS, strict=True)]}
    parquet.write_table(pyarrow.table(episodes), root / "meta/episodes/chunk-000/file-000.parquet")
    return root


Write = Callable[[SimpleNamespace, Path], Path]
BOTH = pytest.mark.parametrize("write", [write_v21, write_v30], ids=["v2.1", "v3.0"])


def write_rig(kit: SimpleNamespace, path: Path, *names: str) -> Path:
    """A calibration: the cameras of a sound capture under other names, without videos."""
    folder = kit.make_capture(path.parent / f"{path.stem}-capture", count=len(names), frames=2)
    rig = json.loads((folder / "capture.json").read_text())
    for camera, name in zip(rig["cameras"], names, strict=True):
        camera["name"] = name
        del camera["video"]
    path.write_text(json.dumps(rig))
    return path


def shown(path: Path) -> np.ndarray:
    return np.stack([picture for _, picture in frames(path)])


@BOTH
@pytest.mark.parametrize("episode", [0, 1, 2])
def test_an_episode_becomes_a_capture(kit: SimpleNamespace, tmp_path: Path, write: Write, episode: int) -> None:
    source = write(kit, tmp_path / "data")
    rig = write_rig(kit, tmp_path / "rig.json", "top", "left")
    findings: list[Finding] = []
    folder = import_capture(
        "lerobot", source, tmp_path / "out", on_finding=findings.append, calibration=rig, episode=episode
    )
    assert check(folder) == ()
    capture = ingest(folder)
    assert [clip.camera.name for clip in capture.clips] == ["top", "left"]
    alone = encode(tmp_path / "alone.mp4", pictures_of(kit, 1, episode))
    clip = capture.clip("left")
    assert np.array_equal(np.stack(list(clip.frames)), shown(alone))  # Bit for bit what was encoded.
    assert clip.times == pytest.approx(np.arange(LENGTHS[episode]) / FPS, abs=1e-6)
    assert [(f.camera, f.severity) for f in findings] == [("wrist", "note")]
    assert "the robot carries it" in findings[0].message
    assert "wrist" in capture.notes


@BOTH
def test_the_state_log_keeps_every_number_of_the_episode(kit: SimpleNamespace, tmp_path: Path, write: Write) -> None:
    source = write(kit, tmp_path / "data")
    rig = write_rig(kit, tmp_path / "rig.json", "top", "left")
    folder = import_capture("lerobot", source, tmp_path / "out", calibration=rig, episode=1)
    state = json.loads((folder / "state.json").read_text())
    assert (state["dataset"], state["episode"], state["tasks"]) == ("data", 1, ["Push the T"])
    assert state["times_s"] == json.loads((folder / "top.timestamps.json").read_text())
    assert set(state["features"]) == {"action", "observation.state", "next.reward"}
    assert state["features"]["action"]["names"] == JOINTS
    assert state["features"]["action"]["values"] == [[10 + f, 0.5 * f] for f in range(7)]
    assert state["features"]["observation.state"]["values"][3] == [113, 101.5]
    assert state["features"]["next.reward"]["values"] == [None, 1, 2, 3, 4, 5, 6]


def test_an_episode_that_begins_between_keyframes_is_cut_exactly(kit: SimpleNamespace, tmp_path: Path) -> None:
    source = write_v30(kit, tmp_path / "data", keyframes=False)
    rig = write_rig(kit, tmp_path / "rig.json", "top", "left")
    folder = import_capture("lerobot", source, tmp_path / "out", calibration=rig, episode=2)
    whole = shown(source / "videos/observation.images.top/chunk-000/file-000.mp4")
    assert np.array_equal(shown(folder / "top.mp4"), whole[12:])
    (note, _) = check(folder)
    assert (note.severity, note.camera) == ("note", "top")
    assert "an edit list hides 12 of 18 frames; the 6 that it shows are used" in note.message


def test_av1_as_the_writer_encodes_it(kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVT_LOG", "1")
    source = write_v30(kit, tmp_path / "data", codec="libsvtav1")
    rig = write_rig(kit, tmp_path / "rig.json", "top", "left")
    folder = import_capture("lerobot", source, tmp_path / "out", calibration=rig, episode=1)
    whole = shown(source / "videos/observation.images.top/chunk-000/file-000.mp4")
    assert np.array_equal(shown(folder / "top.mp4"), whole[5:12])


def test_the_command_line(kit: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_v30(kit, tmp_path / "data")
    rig = write_rig(kit, tmp_path / "rig.json", *CAMERAS)
    out = tmp_path / "out"
    arguments = ["import", "lerobot", str(source), "--episode", "2", "--calibration", str(rig), "--out", str(out)]
    assert main([*arguments, "--cameras", "wrist", "left"]) == 0
    assert [clip.camera.name for clip in ingest(out).clips] == ["left", "wrist"]
    assert "note" not in capsys.readouterr().err
    assert main([*arguments[:-1], str(tmp_path / "other")]) == 0
    assert "note: camera 'wrist'" in capsys.readouterr().err


def rewrite(source: Path, **fields: Any) -> None:
    info = json.loads((source / "meta/info.json").read_text())
    (source / "meta/info.json").write_text(json.dumps(info | fields))


def spoil_video_times(source: Path) -> None:
    path = source / "meta/episodes/chunk-000/file-000.parquet"
    columns = parquet.read_table(path).to_pydict()
    columns["videos/observation.images.top/from_timestamp"] = [0.0, 0.18, 0.42]
    parquet.write_table(pyarrow.table(columns), path)


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no dataset": (lambda s: (s / "meta/info.json").unlink(), "is it the folder of a LeRobot dataset"),
    "cut info": (lambda s: (s / "meta/info.json").write_text('{"a"'), "cannot be read as JSON"),
    "old": (lambda s: rewrite(s, codebase_version="v1.6"), "'v1.6'; v2.0, v2.1, v3.0 are read"),
    "no features": (lambda s: rewrite(s, features=[]), "'features' must be an object"),
    "no video": (lambda s: rewrite(s, features={"action": {"dtype": "image"}}), r"there are \['image'\]"),
    "path outside": (lambda s: rewrite(s, data_path="../{chunk_index}.parquet"), "'data_path' must be a path"),
    "path of attributes": (lambda s: rewrite(s, data_path="{chunk_index.__class__}"), "'data_path' must be a path"),
    "wide path": (lambda s: rewrite(s, data_path="{chunk_index:0999999999d}"), "'data_path' must be a path"),
    "no data": (lambda s: (s / "data/chunk-000/file-000.parquet").unlink(), "cannot be read as Parquet"),
    "cut data": (lambda s: (s / "data/chunk-000/file-000.parquet").write_bytes(b"PAR1\0\0"), "cannot be read as Pa"),
    "no video file": (
        lambda s: (s / "videos/observation.images.top/chunk-000/file-000.mp4").unlink(),
        "the video file is missing",
    ),
    "wrong times": (spoil_video_times, r"camera 'top'.*shows .* 7 are named there.*timestamps"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_damaged_dataset_is_refused_with_a_reason(kit: SimpleNamespace, tmp_path: Path, name: str) -> None:
    source = write_v30(kit, tmp_path / "data")
    spoil, words = FAULTS[name]
    spoil(source)
    rig = write_rig(kit, tmp_path / "rig.json", "top", "left")
    with pytest.raises(CaptureError, match=words):
        import_capture("lerobot", source, tmp_path / "out", calibration=rig, episode=1)
    assert not (tmp_path / "out/capture.json").exists()


@BOTH
def test_an_episode_that_is_not_there(kit: SimpleNamespace, tmp_path: Path, write: Write) -> None:
    source = write(kit, tmp_path / "data")
    rig = write_rig(kit, tmp_path / "rig.json", "top", "left")
    with pytest.raises(CaptureError, match="there is no episode 9; there are 3, counted from 0"):
        import_capture("lerobot", source, tmp_path / "out", calibration=rig, episode=9)


def test_cameras_and_calibration_must_fit(kit: SimpleNamespace, tmp_path: Path) -> None:
    source = write_v30(kit, tmp_path / "data")

    def imported(names: tuple[str, ...], **options: Any) -> Path:
        rig = write_rig(kit, tmp_path / "rig.json", *names)
        return import_capture("lerobot", source, tmp_path / "out", calibration=rig, **options)

    with pytest.raises(CalibrationError, match="give --calibration"):
        import_capture("lerobot", source, tmp_path / "out")
    with pytest.raises(CalibrationError, match=r"1 of the videos \['top', 'left', 'wrist'\] are calibrated"):
        imported(("top", "Left"))
    with pytest.raises(CaptureError, match=r"no such video; there are \['top'"):
        imported(("top", "left"), cameras=("top", "front"))
    with pytest.raises(CalibrationError, match=r"the calibration lacks it; it has \['top', 'left'\]"):
        imported(("top", "left"), cameras=("top", "wrist"))
    with pytest.raises(ConfigError, match=r"takes no \['episode'\]; it takes \['calibration'"):
        import_capture("pusht-embodied", source, tmp_path / "out", episode=1)


def test_a_missing_extra_is_named(kit: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_v30(kit, tmp_path / "data")
    rig = write_rig(kit, tmp_path / "rig.json", "top", "left")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"recon4d\[lerobot\]"):
        import_capture("lerobot", source, tmp_path / "out", calibration=rig)
