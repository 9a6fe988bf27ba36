"""Videos: count, size, colours, tags, and that a failed one leaves nothing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace

from recon4d.errors import ConfigError, OutputError, Stopped
from recon4d.events import Event, Finished, Progress, Saved, Started
from recon4d.show import VideoConfig, VideoKind, picture, video
from recon4d.show._painter import Painter, colour_depth, depth_range
from tests.recon4d.show.world import NAMES, cameras, scene

FAST = VideoConfig(fps=10, sweep_s=1.2)


def _frames(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [
            frame.to_ndarray(format="rgb24", src_colorspace=Colorspace.ITU709, src_color_range=ColorRange.MPEG)
            for frame in container.decode(video=0)
        ]


@pytest.mark.parametrize(("kind", "count"), [("rig", 11), ("orbit", 11), ("depth", 11), ("frozen", 12)])
def test_every_kind_decodes_with_its_count_size_and_tags(tmp_path: Path, kind: VideoKind, count: int) -> None:
    heard: list[Event] = []
    path = video(scene(), tmp_path / "deep" / "v.mp4", kind, FAST, on_event=heard.append)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        assert (context.name, context.pix_fmt, context.width, context.height) == ("h264", "yuv420p", 64, 48)
        assert stream.average_rate == 10
        times = [frame.time for frame in container.decode(stream)]
        assert (context.color_primaries, context.color_trc, context.colorspace) == (1, 1, 1)
        assert context.color_range == ColorRange.MPEG
    assert times == pytest.approx(np.arange(count) / 10)
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    assert [type(event) for event in heard] == [Started, *[Progress] * count, Saved, Finished]
    assert [p.name for p in path.parent.iterdir()] == ["v.mp4"]


@pytest.mark.parametrize(
    "colour", [(0.9, 0.1, 0.1), (0.1, 0.8, 0.2), (0.1, 0.2, 0.9), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5)]
)
def test_colours_survive(tmp_path: Path, colour: tuple[float, float, float]) -> None:
    empty = scene(duration_s=0.1)
    empty.static.opacities.zero_()
    empty.dynamic.opacities.zero_()
    plain = scene(duration_s=0.1, static=empty.static, dynamic=empty.dynamic, background=colour)
    frame = _frames(video(plain, tmp_path / "v.mp4", "rig", FAST))[0]
    # Measured at most 2 of 255: eight bits of luma and chroma, twice rounded.
    assert np.abs(frame.reshape(-1, 3) - np.array(colour) * 255).max() <= 3


def test_time_runs_and_the_camera_moves_as_the_kind_says(tmp_path: Path) -> None:
    rig = _frames(video(scene(), tmp_path / "r.mp4", "rig", VideoConfig(fps=10, camera=NAMES[1])))
    frozen = _frames(video(scene(), tmp_path / "f.mp4", "frozen", FAST))
    difference = [np.abs(a.astype(int) - b).mean() for a, b in pairwise(rig)]
    assert max(difference) > 0.3
    middle = len(frozen) // 2
    assert np.abs(frozen[0].astype(int) - frozen[middle]).mean() > 1.5
    assert np.abs(frozen[0].astype(int) - frozen[-1]).mean() < 1


def test_depth_colours() -> None:
    depth = np.array([[0.0, 1.0, 2.0]], np.float32)
    near_far = depth_range([depth])
    assert near_far == pytest.approx((1.02, 1.98), abs=1e-5)
    nothing, near, far = colour_depth(depth, near_far)[0]
    assert nothing.tolist() == [0, 0, 0]
    assert near[0] > 100 > near[2]
    assert near.tolist() != far.tolist()
    assert depth_range([np.zeros((2, 2), np.float32)]) == (0.0, 1.0)


def test_an_empty_scene_and_a_clip_of_one_instant(tmp_path: Path) -> None:
    still = scene(duration_s=0.0)
    assert len(_frames(video(still, tmp_path / "o.mp4", "orbit", FAST))) == 1
    still.static.opacities.zero_()
    still.dynamic.opacities.zero_()
    assert _frames(video(still, tmp_path / "d.mp4", "depth", FAST))[0].max() < 20


@pytest.mark.parametrize("suffix", [".png", ".JPG"])
def test_a_picture_is_what_the_camera_sees(tmp_path: Path, suffix: str) -> None:
    path = picture(scene(), tmp_path / f"p{suffix}", camera=NAMES[1], time_s=0.2)
    read = cv2.imread(str(path))
    assert read is not None
    expected = Painter(scene()).rgb(cameras()[1], 0.2)
    # PNG loses nothing; JPEG was measured to lose 1 of 255 in the mean.
    assert np.abs(read[..., ::-1].astype(int) - expected).mean() <= (0 if suffix == ".png" else 3)
    assert expected.std() > 10


def test_picture_refusals(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"p\.gif"):
        picture(scene(), tmp_path / "p.gif")
    with pytest.raises(ConfigError, match="no camera 'top'"):
        picture(scene(), tmp_path / "p.png", camera="top")
    with pytest.raises(ConfigError, match="time_s"):
        picture(scene(), tmp_path / "p.png", time_s=-1)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no camera 'top'"):
        video(scene(), tmp_path / "v.mp4", "rig", VideoConfig(camera="top"))
    with pytest.raises(ConfigError, match="no kind of video 'spin'"):
        video(scene(), tmp_path / "v.mp4", "spin", FAST)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match=r"time_s must lie in \[0, 1\]"):
        video(scene(), tmp_path / "v.mp4", "frozen", VideoConfig(time_s=3))
    with pytest.raises(ConfigError, match="no camera"):
        video(scene(cameras=()), tmp_path / "v.mp4", "orbit", FAST)
    for options in ({"fps": 0}, {"crf": 60}, {"sweep_s": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            VideoConfig(**options)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        video(scene(), tmp_path / "file" / "v.mp4", "rig", FAST)


def test_a_stopped_video_leaves_the_old_one(tmp_path: Path) -> None:
    path = video(scene(), tmp_path / "v.mp4", "rig", FAST)
    before = path.read_bytes()
    asked = iter([False] * 4 + [True] * 99)
    with pytest.raises(Stopped, match="frame 4 of 11"):
        video(scene(), path, "rig", FAST, should_stop=lambda: next(asked))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["v.mp4"]


def test_the_world_of_these_tests_has_an_odd_width() -> None:
    assert cameras()[0].width % 2 == 1
