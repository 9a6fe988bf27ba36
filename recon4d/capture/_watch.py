"""Looks at every frame while it passes by: black, repeated, blurred, and the colours of the bench; in little memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import cv2
import numpy as np

from recon4d.capture._findings import Subject

BLACK = 8.0
"""Mean level out of 255 under which a picture counts as black."""
_STILL_S = 1.0
"""An exact repetition of one picture for longer than this is no scene at rest: sensors are noisy."""
_STRIDE = 4
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_EVERY = 8
"""Of how many frames one is measured for sharpness and for the bench's colours."""
_LEAST_TEXTURE = 4.0
"""Mean square of the Laplacian under which a picture is too plain to be called blurred."""
_BLURRED = 0.2
"""Detail of one pixel over detail of two. Real captures have 0.37 to 0.64; blurred by a Gaussian of 1 px, 0.12 to
0.16."""
_SAME = 0.25
"""Change from a frame to the next, over that of moving frames, under which the two are one picture encoded twice."""
_MIN_REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class Looks:
    """What one camera's pictures look like, for comparing cameras with each other."""

    brightness: float
    """Mean level out of 255, over all frames."""
    digest: str
    """Of all pictures in their order: the same for the same pictures in another container."""
    bench: np.ndarray
    """[P, 3] float64 mean RGB at the points of the bench that were asked for; NaN where the camera sees none."""


class PictureWatch:
    """Statistics of one camera's pictures."""

    def __init__(self, points: np.ndarray) -> None:
        """
        Args:
            points: [P, 2] float64, pixels as filmed (centres at 0.5) of points on the bench; NaN where there is none.
        """
        self._levels: list[float] = []
        self._changes: list[float] = []
        """Of each frame but the first: mean difference from the one before."""
        self._previous: np.ndarray | None = None
        self._digest = hashlib.blake2b(digest_size=16)
        self._detail = np.zeros(2)
        """Sums of squares of the Laplacian of one pixel and of two."""
        self._visible = np.isfinite(points[:, 0])
        self._at = np.floor(points[self._visible]).astype(int)
        self._bench = np.zeros((len(self._at), 3))

    def see(self, frame: np.ndarray) -> None:
        """Takes the next frame, uint8 [H, W, 3]."""
        small = np.ascontiguousarray(frame[::_STRIDE, ::_STRIDE])
        self._digest.update(small.data)
        if self._previous is not None and self._previous.shape == frame.shape:
            self._changes.append(cv2.norm(frame, self._previous, cv2.NORM_L1) / frame.size)
        self._previous = frame
        if len(self._levels) % _EVERY == 0:
            self._measure(frame)
        self._levels.append(float((small.reshape(-1, 3).mean(0, dtype=np.float32) * _LUMA).sum()))

    def _measure(self, frame: np.ndarray) -> None:
        green = frame[..., 1]
        half = cv2.resize(green, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) if min(green.shape) > 1 else green
        self._detail += [np.square(cv2.Laplacian(picture, cv2.CV_32F)).mean() for picture in (green, half)]
        self._bench += cv2.blur(frame, (3, 3))[self._at[:, 1], self._at[:, 0]]

    @property
    def looks(self) -> Looks:
        measured = max(-(-len(self._levels) // _EVERY), 1)
        bench = np.full((len(self._visible), 3), np.nan)
        bench[self._visible] = self._bench / measured
        return Looks(
            brightness=float(np.mean(self._levels)) if self._levels else 0.0,
            digest=self._digest.hexdigest(),
            bench=bench,
        )

    def conclude(self, times: np.ndarray, video: Subject) -> None:
        """Warns of black, still, repeated and blurred pictures.

        Args:
            times: [F] seconds.
            video: Where findings go to.
        """
        self._conclude_black(times, video)
        self._conclude_repeats(times, video)
        texture = self._detail[1] / max(-(-len(self._levels) // _EVERY), 1)
        sharpness = self._detail[0] / max(self._detail[1], 1e-9)
        if texture > _LEAST_TEXTURE and sharpness < _BLURRED:
            video.warn(
                f"the pictures are blurred: detail of one pixel is {sharpness:.2f} of that of two; sharp video has 0.4",
                "focus the lens; a video that was scaled up or compressed hard looks like this as well",
            )

    def _conclude_black(self, times: np.ndarray, video: Subject) -> None:
        black = np.flatnonzero(np.array(self._levels) < BLACK)
        if self.looks.brightness < BLACK:
            video.warn(
                f"the video is black: its mean level is {self.looks.brightness:.1f} of 255",
                "check the lens cap and the exposure",
            )
        elif len(black):
            video.warn(
                f"{len(black)} of {len(self._levels)} frames are black, the first at {times[black[0]]:.3f} s",
                "cut them off, or check the camera: they are trained on as they are",
            )

    def _conclude_repeats(self, times: np.ndarray, video: Subject) -> None:
        changes = np.array(self._changes)
        first, last = _longest_run(changes == 0)
        if last > first and times[last] - times[first] > _STILL_S:
            video.warn(
                f"the picture stands still from {times[first]:.3f} to {times[last]:.3f} s:"
                f" {last - first + 1} equal frames",
                "check that the camera was not frozen",
            )
            return
        ratio = _conversion(changes)
        if ratio is not None:
            rate = (len(times) - 1) / (times[-1] - times[0])
            video.warn(
                f"shows each picture {ratio:.3g} times on average, evenly: {rate / ratio:.4g} pictures a second were"
                f" brought to {rate:.4g} by repeating some",
                "use the video before its frame rate was converted: a repeated picture is shown too late",
            )
            return
        equal = int((changes == 0).sum())
        if equal >= _MIN_REPEATS:
            video.note(f"{equal} of {len(changes) + 1} frames equal the one before them to the last bit")


def _longest_run(same: np.ndarray) -> tuple[int, int]:
    """First and last frame of the longest run of frames of which each is the same as the one before."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(int)))
    if not len(edges):
        return 0, 0
    starts, stops = edges[::2], edges[1::2]
    longest = int(np.argmax(stops - starts))
    return int(starts[longest]), int(stops[longest])


def _conversion(changes: np.ndarray) -> float | None:
    """How many frames a picture fills when a converter of frame rates repeated some; None when none did.

    A converter repeats evenly: the frames that are new lie on a line, to within a frame. Still scenes and stuck
    cameras repeat in heaps, which do not. A repeated picture is encoded again, so it is rarely equal to the last bit.
    """
    if not len(changes) or np.quantile(changes, 0.9) == 0:
        return None
    new = np.flatnonzero(np.concatenate([[True], changes >= _SAME * np.quantile(changes, 0.9)]))
    if len(changes) + 1 - len(new) < _MIN_REPEATS or len(new) < _MIN_REPEATS:
        return None
    order = np.arange(len(new))
    step, start = np.polyfit(order, new, 1)
    return float(step) if np.abs(new - (start + step * order)).max() < 1 else None
