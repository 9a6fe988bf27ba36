"""Interlaced frames to whole pictures, one for one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from fractions import Fraction

from av.error import BlockingIOError, EOFError
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame

from recon4d.capture._findings import Subject

Timed = tuple[float | None, VideoFrame]


def deinterlaced(frames: Iterable[Timed], video: Subject) -> Iterator[Timed]:
    """The same frames at the same times; each one that is marked as interlaced becomes its first field, made whole.

    The filter is FFmpeg's bwdif (the BBC's three-field filter where something moves), once a frame. A frame's time is
    that of its first field. Frames before the first interlaced one pass untouched, and so do later ones that are not
    marked.
    """
    whole: _Weaver | None = None
    for time_s, frame in frames:
        if whole is not None and not whole.takes(frame):
            yield from whole.finish()
            whole = None
        if whole is None and frame.interlaced_frame:
            video.note(
                "is interlaced: each frame is its first field, with the lines between estimated (bwdif)",
                "film progressively for the full height",
            )
            whole = _Weaver(frame)
        if whole is None:
            yield time_s, frame
        else:
            yield from whole.put(time_s, frame)
    if whole is not None:
        yield from whole.finish()


class _Weaver:
    """A filter graph for frames of one kind; it hands each frame on when it has seen the next."""

    def __init__(self, frame: VideoFrame) -> None:
        self._kind = _kind(frame)
        self._count = 0
        self._times: deque[float | None] = deque()
        self._graph = Graph()
        self._graph.threads = 1
        nodes: list[FilterContext] = [
            self._graph.add_buffer(
                width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1)
            ),
            self._graph.add("bwdif", "mode=send_frame:parity=auto:deint=interlaced"),
            self._graph.add("buffersink"),
        ]
        self._graph.link_nodes(*nodes).configure()

    def takes(self, frame: VideoFrame) -> bool:
        return _kind(frame) == self._kind

    def put(self, time_s: float | None, frame: VideoFrame) -> Iterator[Timed]:
        """Frames go in under their number, so that times that are uneven or missing come out as they were."""
        frame.pts, frame.time_base = self._count, Fraction(1, 1)
        self._count += 1
        self._times.append(time_s)
        self._graph.vpush(frame)
        yield from self._pull()

    def finish(self) -> Iterator[Timed]:
        self._graph.vpush(None)
        yield from self._pull()
        assert not self._times  # One picture a frame is what the filter's mode means.

    def _pull(self) -> Iterator[Timed]:
        while True:
            try:
                frame = self._graph.vpull()
            except (BlockingIOError, EOFError):
                return
            yield self._times.popleft(), frame


def _kind(frame: VideoFrame) -> tuple[int, int, str]:
    return frame.width, frame.height, frame.format.name
