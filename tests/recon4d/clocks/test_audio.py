"""Clocks from what is heard, through real encoders and containers."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from scipy import signal

from recon4d.clocks import SyncConfig, synchronise
from recon4d.commands import main
from recon4d.errors import CaptureError
from tests import bench

RATE_HZ = 48_000
SECONDS = 8.0
BEFORE_S = 4.0
"""The scene's sound begins that long before the first recording."""


def claps(seed: int = 0) -> np.ndarray:
    """A scene with background noise and a clap a second."""
    rng = np.random.default_rng(seed)
    length = int((SECONDS + 2 * BEFORE_S) * RATE_HZ)
    sound, decay = rng.normal(0, 0.01, length), np.exp(-np.arange(1500) / 300)
    for start in rng.integers(0, length - 1500, int(length / RATE_HZ)):
        sound[start : start + 1500] += rng.normal(0, 0.3, 1500) * decay
    return sound


def in_a_room(sound: np.ndarray, seed: int) -> np.ndarray:
    """What a microphone somewhere hears of it: echoes, a band, noise; the direct way comes first and undelayed."""
    rng = np.random.default_rng(seed)
    echoes = np.zeros(4000)
    echoes[0] = 1
    echoes[rng.integers(50, 4000, 40)] += rng.normal(0, 0.25, 40) * 0.97 ** np.arange(40)
    b, a = signal.butter(2, [300, 5000 + 3000 * seed], "band", fs=RATE_HZ)
    return signal.lfilter(b, a, signal.fftconvolve(sound, echoes)[: len(sound)]) + rng.normal(0, 0.004, len(sound))


def recorded(sound: np.ndarray, offset_s: float, rate: float) -> np.ndarray:
    """By a recorder whose time is common * rate + offset_s."""
    own = np.arange(int(SECONDS * RATE_HZ)) / RATE_HZ
    return np.interp(((own - offset_s) / rate + BEFORE_S) * RATE_HZ, np.arange(len(sound)), sound)


def film(path: Path, picture: np.ndarray, sound: np.ndarray | None, codec: str) -> None:
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=10)
        video.height, video.width, video.pix_fmt = *picture.shape[:2], "yuv420p"
        audio = None if sound is None else container.add_stream(codec, rate=RATE_HZ, layout="mono")
        for index in range(int(SECONDS * 10)):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 10)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None and sound is not None:
            size = 960 if codec == "libopus" else 1024
            pieces = av.AudioResampler(format="flt" if codec == "libopus" else "fltp", rate=RATE_HZ, frame_size=size)
            whole = av.AudioFrame.from_ndarray(sound[None].astype(np.float32), format="fltp", layout="mono")
            whole.sample_rate, whole.pts, whole.time_base = RATE_HZ, 0, Fraction(1, RATE_HZ)
            for piece in [*pieces.resample(whole), *pieces.resample(None)]:
                container.mux(audio.encode(piece))
            container.mux(audio.encode(None))


def write(folder: Path, tracks: dict[str, tuple[np.ndarray | None, str, str]]) -> Path:
    """A capture in which nothing moves; of each camera its sound, codec and container."""
    folder.mkdir()
    entries = []
    for (name, (sound, codec, suffix)), shot in zip(tracks.items(), bench.films().values(), strict=False):
        film(folder / f"{name}{suffix}", shot.frames[0], sound, codec)
        entries.append({**bench.entry(shot.camera, f"{name}{suffix}"), "name": name})
    (folder / "capture.json").write_text(json.dumps({"version": 1, "cameras": entries}))
    return folder


def test_offset_and_drift_within_a_millisecond_through_codecs(tmp_path: Path) -> None:
    scene = claps()
    clocks = {"b": (0.3217, 1.0), "c": (-1.7043, 1.005)}
    folder = write(
        tmp_path / "in",
        {
            "a": (recorded(in_a_room(scene, 0), 0.0, 1.0), "aac", ".mp4"),
            "b": (recorded(in_a_room(scene, 1), *clocks["b"]), "libopus", ".mkv"),
            "c": (recorded(in_a_room(scene, 2), *clocks["c"]), "aac", ".mkv"),
        },
    )
    result = synchronise(folder, SyncConfig(method="audio", reference="a"))
    assert result.notes
    assert "sound travels 1 m in 2.9 ms" in result.text()
    ends = np.array([0.0, SECONDS])
    for row in result.clocks[1:]:
        offset_s, rate = clocks[row.camera]
        assert row.status == "fitted"
        assert ends * row.time_scale + row.time_offset_s == pytest.approx((ends - offset_s) / rate, abs=1e-3)
        assert row.error_s < 1e-3
        assert row.drift == pytest.approx(1 / rate - 1, abs=1e-4)


def test_where_nothing_moves_sound_decides_and_a_strange_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = claps()
    folder = write(
        tmp_path / "in",
        {
            "a": (recorded(in_a_room(scene, 0), 0.0, 1.0), "aac", ".mp4"),
            "b": (recorded(in_a_room(scene, 1), 0.25, 1.0), "aac", ".mp4"),
            "c": (recorded(claps(seed=9), 0.0, 1.0), "aac", ".mp4"),
            "d": (None, "aac", ".mp4"),
        },
    )
    assert main(["sync", str(folder), "--out", str(tmp_path / "out"), "--reference", "a"]) == 3
    said = capsys.readouterr()
    assert "by sound, as too little moves" in said.err.replace("\n", " ")
    assert "camera 'c': cannot be synchronised" in said.err
    assert "'d'" in said.err
    out = tmp_path / "dropped"
    assert main(["sync", str(folder), "--out", str(out), "--reference", "a", "--drop-bad-cameras", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert (table["method"], [row["status"] for row in table["cameras"]]) == (
        "audio",
        ["reference", "fitted", "refused", "refused"],
    )
    cameras = json.loads((out / "capture.json").read_text())["cameras"]
    assert [camera["name"] for camera in cameras] == ["a", "b"]
    assert cameras[1]["time_offset_s"] == pytest.approx(-0.25, abs=1e-3)


def test_sound_is_no_clock_where_there_is_none_or_where_timestamps_count(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", {"a": (None, "aac", ".mp4"), "b": (None, "aac", ".mp4")})
    with pytest.raises(CaptureError, match="camera 'a': has no sound"):
        synchronise(folder, SyncConfig(method="audio"))
    manifest = json.loads((folder / "capture.json").read_text())
    manifest["cameras"][1]["timestamps"] = "b.json"
    (folder / "b.json").write_text(json.dumps([0.1 * k for k in range(80)]))
    (folder / "capture.json").write_text(json.dumps(manifest))
    with pytest.raises(CaptureError, match="camera 'b': its times come from a timestamp file"):
        synchronise(folder, SyncConfig(method="audio"))
