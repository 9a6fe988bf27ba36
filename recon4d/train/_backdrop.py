"""The backdrop, where something that moves hides it for most of the time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recon4d.points import StaticView
from recon4d.types import Clip

_SETTLED = 0.6  # Weight from which a median is taken for the backdrop.
_CERTAIN = 0.9  # Weight from which it is not looked into.
_FEW = 50  # Settled pixels without which the backdrop's usual colour is not known.
_OFTEN = 0.1  # Share of the frames in which the backdrop must show.
_GAIN = 0.05  # By how much those frames must be more like it than the median is.
_LIKE, _UNLIKE = 0.05, 0.1  # Differences from its usual colour that count as alike, and as something else.
_SPREAD = 3.0  # The same two, in deviations of the backdrop's own colours, where these are larger.
_FRAMES = 150


def uncover(clip: Clip, view: StaticView, beyond: np.ndarray, settled_spread: float) -> StaticView:
    """A median picture that shows the backdrop where a moving thing covers it most of the time.

    A median is what is seen in more than half of the frames. Over the bench other cameras put right what one of them
    has covered; what lies behind the bench is often seen by one camera alone, and an arm that rests before it would
    stay painted on the wall, in everybody else's view. Where at least a tenth of the frames shows the backdrop's usual
    colour, their median is taken. A pixel that never shows it has no weight: what lies behind is not known.

    Args:
        clip: training frames only.
        view: its median and weight.
        beyond: [H, W] bool, pixels that look past the bench.
        settled_spread: temporal standard deviation at which a pixel's weight is one half.
    """
    settled = beyond & clip.valid & (view.weight > _SETTLED)
    if settled.sum() < _FEW:
        return view
    usual = np.median(view.image[settled], axis=0)
    deviation = _SPREAD * float(np.median(_difference(view.image[settled], usual)))
    v, u = np.nonzero(beyond & clip.valid & (view.weight < _CERTAIN))
    color, spread = _most_like(clip, v, u, usual)
    shown, median = _difference(color, usual), _difference(view.image[v, u], usual)
    uncovered = (shown < median - _GAIN) & (shown < max(deviation, _LIKE))
    covered = ~uncovered & (median > max(deviation, _UNLIKE))

    image, weight = view.image.copy(), view.weight.copy()
    image[v[uncovered], u[uncovered]] = color[uncovered]
    anew = 1 / (1 + (spread[uncovered] / settled_spread) ** 2)
    weight[v[uncovered], u[uncovered]] = np.maximum(weight[v[uncovered], u[uncovered]], anew)
    weight[v[covered], u[covered]] = 0
    return replace(view, image=image, weight=weight)


def _most_like(clip: Clip, v: np.ndarray, u: np.ndarray, usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[n, 3] median over the tenth of a pixel's frames that are most like a colour, and [n] the spread over them."""
    chosen = np.unique(np.linspace(0, len(clip) - 1, min(_FRAMES, len(clip))).round().astype(np.int64))
    values = np.stack([clip.frames[int(index)][v, u] for index in chosen]).astype(np.float32) / 255
    count = min(len(chosen), max(3, round(_OFTEN * len(chosen))))
    nearest = np.argpartition(_difference(values, usual), count - 1, axis=0)[:count]
    like = np.take_along_axis(values, nearest[..., None], 0)
    return np.median(like, axis=0), np.sqrt(like.var(0).mean(-1))


def _difference(colors: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Mean absolute difference of the channels."""
    return np.abs(colors - usual).mean(-1)
