"""A reconstructed scene as an environment for reinforcement learning and evaluation, seen through splat cameras.

Physics is MuJoCo's, pictures are drawn by :mod:`recon4d.raster`: no OpenGL is needed.

    import simbridge

    envs = simbridge.make("path/to/bundle", "reach", num_envs=16)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from simbridge.adapters.gymnasium import SplatEnv, SplatVectorEnv
    from simbridge.types import Bundle

__all__ = ["make"]


@overload
def make(bundle: Bundle | Path | str, task: str = ..., num_envs: None = ..., **options: Any) -> SplatEnv: ...
@overload
def make(bundle: Bundle | Path | str, task: str = ..., *, num_envs: int, **options: Any) -> SplatVectorEnv: ...
def make(
    bundle: Bundle | Path | str, task: str = "reach", num_envs: int | None = None, **options: Any
) -> SplatEnv | SplatVectorEnv:
    """An environment of Gymnasium: one world, or with ``num_envs`` as many.

    Args:
        bundle: a bundle or its folder.
        task: a name from :func:`simbridge.tasks.tasks`.
        num_envs: None for one ``Env``; a number for a ``VectorEnv``.
        options: further arguments of :class:`simbridge.adapters.gymnasium.SplatEnv` or ``SplatVectorEnv``.

    Raises:
        BundleError, TaskError, ConfigError: see :class:`simbridge.core.Worlds`.
    """
    from simbridge.adapters.gymnasium import SplatEnv, SplatVectorEnv

    if num_envs is None:
        return SplatEnv(bundle, task, **options)
    return SplatVectorEnv(bundle, task, num_envs, **options)
