"""Velocities of seeds, from optical flow in the image that they came from."""

from __future__ import annotations

import cv2
import numpy as np

from recon4d.types import Clip


def constant_depth_velocities(
    clip: Clip, frame: int, u: np.ndarray, v: np.ndarray, depth: np.ndarray, *, gap_s: float
) -> np.ndarray:
    """[n, 3] metres per second in the world: dense flow to a frame about ``gap_s`` away, at constant depth.

    The later frame is taken where there is one within twice the gap, else the earlier one; zero where there is
    neither. Dense inverse search flow (Kroeger et al. 2016).
    """
    partner = _partner(clip.times, frame, gap_s)
    if partner is None:
        return np.zeros((len(u), 3))
    grey = [cv2.cvtColor(clip.frames[i], cv2.COLOR_RGB2GRAY) for i in (frame, partner)]
    flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM).calc(grey[0], grey[1], None)[v, u]
    K = clip.camera.K
    shift_cam = np.stack([flow[:, 0] / K[0, 0] * depth, flow[:, 1] / K[1, 1] * depth, np.zeros(len(u))], 1)
    return shift_cam @ clip.camera.T_cam_world[:3, :3] / (clip.times[partner] - clip.times[frame])


def _partner(times: np.ndarray, frame: int, gap_s: float) -> int | None:
    for sign in (1, -1):
        other = int(np.argmin(np.abs(times - (times[frame] + sign * gap_s))))
        distance = sign * (times[other] - times[frame])
        if 0.1 * gap_s < distance < 2 * gap_s:
            return other
    return None
