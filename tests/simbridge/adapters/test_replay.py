"""A recording as an environment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from recon4d.errors import ConfigError
from recon4d.geometry import look_at
from recon4d.types import Camera, DynamicPool, Scene4D, StaticPool
from simbridge.adapters.replay import ReplayEnv


def camera(name: str, center: tuple[float, float, float]) -> Camera:
    K = np.array([[60.0, 0, 32], [0, 60.0, 24], [0, 0, 1]])
    return Camera(name=name, width=64, height=48, K=K, T_cam_world=look_at(np.array(center), np.zeros(3)))


def scene() -> Scene4D:
    """One red Gaussian that moves along y at 0.4 m/s."""
    none = StaticPool(
        means=torch.zeros(0, 3),
        quats=torch.zeros(0, 4),
        scales=torch.zeros(0, 3),
        opacities=torch.zeros(0),
        sh=torch.zeros(0, 1, 3),
    )
    moving = DynamicPool(
        means=torch.zeros(1, 3),
        quats=torch.tensor([[1.0, 0, 0, 0]]),
        scales=torch.full((1, 3), 0.03),
        opacities=torch.tensor([0.95]),
        sh=torch.tensor([[[1.6, -1.7, -1.7]]]),
        velocities=torch.tensor([[0.0, 0.4, 0.0]]),
        centers_s=torch.tensor([0.5]),
        radii_s=torch.tensor([2.0]),
        tails_s=torch.tensor([0.1]),
    )
    rig = (camera("a", (1.0, 0, 0.3)), camera("b", (0, -1.0, 0.3)))
    return Scene4D(static=none, dynamic=moving, cameras=rig, duration_s=1.0)


def column(picture: np.ndarray) -> float:
    """Where the red is."""
    weight = picture[..., 0].astype(float)
    return float((weight * np.arange(64)).sum() / weight.sum())


def test_gymnasiums_checker_is_content() -> None:
    check_env(ReplayEnv(scene(), render_mode="rgb_array"), skip_render_check=True)


def test_it_plays_the_recording_to_its_end() -> None:
    env = ReplayEnv(scene(), ["a"], control_hz=10)
    observation, info = env.reset()
    assert info["time_s"] == 0
    columns, cut = [column(observation["images"]["a"])], False
    while not cut:
        observation, reward, ended, cut, info = env.step(env.action_space.sample())
        assert reward == 0
        assert not ended
        columns.append(column(observation["images"]["a"]))
    assert info["time_s"] == pytest.approx(1.0)
    assert len(columns) == 11
    # 0.4 m/s at about a metre and 60 px focal length are 24 px/s to the right of a camera that looks along -x.
    assert columns[-1] - columns[0] == pytest.approx(0.4 * 60 / np.hypot(1.0, 0.3), rel=0.05)
    assert np.all(np.diff(columns) > 0)


def test_any_camera_any_size_any_beginning() -> None:
    own = camera("mine", (0.7, 0.7, 0.5))
    env = ReplayEnv(scene(), [own, "b"], image_size=(32, 24))
    observation, info = env.reset(options={"time_s": 0.5})
    assert info["time_s"] == 0.5
    assert set(observation["images"]) == {"mine", "b"}
    assert observation["images"]["mine"].shape == (24, 32, 3)
    again, _ = env.reset(options={"time_s": 0.5})
    assert np.array_equal(again["images"]["mine"], observation["images"]["mine"])
    darker = replace(scene(), cameras=tuple(replace(c, exposure=0.5) for c in scene().cameras))
    bright, dark = (ReplayEnv(s, ["a"]).reset()[0]["images"]["a"].astype(int) for s in (scene(), darker))
    assert np.abs(dark - bright / 2).max() <= 1


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="no camera 'c'; it has a, b"):
        ReplayEnv(scene(), ["c"])
    with pytest.raises(ConfigError, match="control_hz"):
        ReplayEnv(scene(), control_hz=0)
    with pytest.raises(ConfigError, match=r"time_s must lie in \[0, 1.000\]"):
        ReplayEnv(scene()).reset(options={"time_s": 2.0})
