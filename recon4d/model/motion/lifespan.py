"""Linear motion within a life span: full presence around a centre time, a Gaussian tail on either side.

    mean(t)       = mean + velocity (t - center)
    visibility(t) = 1                                          for |t - center| <= radius
                    exp(-((|t - center| - radius) / tail)^2 / 2)  otherwise

Linear motion with a temporal opacity follows FreeTimeGS (Wang et al., CVPR 2025); the flat top follows SharpTimeGS
(CVPR 2026). Radius and tail are separate, so that a Gaussian can live long and still vanish quickly.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numba import prange
from torch import Tensor

from recon4d.jit import kernel
from recon4d.model.motion import MotionKernels
from recon4d.types import DynamicPool

_FLOOR_S = 1e-6  # Shortest radius and tail that a logarithm is taken of.

# Columns relative to the first temporal one.
_VELOCITY, _CENTER, _LOG_RADIUS, _LOG_TAIL = 0, 3, 4, 5
_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
# Further out the visibility is below 1/255, so the row cannot be drawn whatever its opacity.
_CUT = np.float32(3.33)
# Fast, but NaN and infinity keep their meaning.
_FAST = {"contract", "reassoc", "arcp", "nsz", "afn"}


class Lifespan:
    """The motion model of :class:`recon4d.types.DynamicPool`."""

    columns = (("velocity", 3), ("center", 1), ("log_radius", 1), ("log_tail", 1))

    @property
    def kernels(self) -> MotionKernels:
        return MotionKernels(displace=_displace, pull_back=_pull_back)

    def displace(self, temporal: Tensor, t: float) -> tuple[Tensor, Tensor]:
        dt = t - temporal[:, _CENTER]
        beyond = (dt.abs() - temporal[:, _LOG_RADIUS].exp()).clamp_min(0)
        visibility = torch.exp(-0.5 * (beyond * torch.exp(-temporal[:, _LOG_TAIL])) ** 2)
        return temporal[:, :3] * dt[:, None], visibility

    def pack(self, pool: DynamicPool) -> Tensor:
        logs = [seconds.float().clamp_min(_FLOOR_S).log() for seconds in (pool.radii_s, pool.tails_s)]
        return torch.cat([pool.velocities.float(), torch.stack([pool.centers_s.float(), *logs], 1)], 1)

    def unpack(self, temporal: Tensor) -> dict[str, Tensor]:
        return {
            "velocities": temporal[:, :3].contiguous(),
            "centers_s": temporal[:, _CENTER].contiguous(),
            "radii_s": temporal[:, _LOG_RADIUS].exp(),
            "tails_s": temporal[:, _LOG_TAIL].exp(),
        }


LIFESPAN = Lifespan()


@kernel(parallel=True, fastmath=_FAST)
def _displace(params, n_static, first, t, moved):
    """Offset xyz and visibility [N - n_static, 4] of the dynamic rows; visibility 0 where it is below 1/255."""
    for j in prange(moved.shape[0]):
        i = n_static + j
        dt = t - params[i, first + _CENTER]
        beyond = abs(dt) - math.exp(params[i, first + _LOG_RADIUS])
        visibility = _ONE
        if not beyond <= _ZERO:  # A NaN comes here, and leaves with visibility 0.
            u = beyond * math.exp(-params[i, first + _LOG_TAIL])
            visibility = _ZERO
            if u < _CUT:
                visibility = math.exp(-_HALF * u * u)
        if visibility > _ZERO:
            moved[j, 0] = params[i, first] * dt
            moved[j, 1] = params[i, first + 1] * dt
            moved[j, 2] = params[i, first + 2] * dt
        moved[j, 3] = visibility


@kernel(parallel=True, fastmath=_FAST)
def _pull_back(leaf, n_static, first, t, g_means, g_visibility, gradient):
    """Gradient with respect to the temporal columns of rows n_static.. of the leaf."""
    for j in prange(leaf.shape[0] - n_static):
        i = n_static + j
        dt = t - leaf[i, first + _CENTER]
        radius = math.exp(leaf[i, first + _LOG_RADIUS])
        beyond = abs(dt) - radius
        g_center = _ZERO
        for c in range(3):
            gradient[i, first + c] = g_means[i, c] * dt
            g_center -= g_means[i, c] * leaf[i, first + c]
        g_log_radius = _ZERO
        g_log_tail = _ZERO
        if beyond > _ZERO:
            per_tail = math.exp(-leaf[i, first + _LOG_TAIL])
            u = beyond * per_tail
            g_u = -g_visibility[i] * u * math.exp(-_HALF * u * u)
            g_log_tail = -g_u * u
            g_log_radius = -g_u * per_tail * radius
            if dt > _ZERO:
                g_center -= g_u * per_tail
            else:
                g_center += g_u * per_tail
        gradient[i, first + _CENTER] = g_center
        gradient[i, first + _LOG_RADIUS] = g_log_radius
        gradient[i, first + _LOG_TAIL] = g_log_tail
