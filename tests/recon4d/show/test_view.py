"""A scene's files for a browser, read back and evaluated as the page does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from recon4d.geometry import quat_to_matrix
from recon4d.model import Gaussians4D
from recon4d.show import write_view
from recon4d.types import DynamicPool, Scene4D, StaticPool
from tests.recon4d.show.world import scene as tiny_scene


def random_scene(coefficients: int) -> Scene4D:
    generator = torch.Generator().manual_seed(coefficients)

    def pool(n: int) -> dict[str, torch.Tensor]:
        return {
            "means": torch.randn(n, 3, generator=generator),
            "quats": 3 * torch.randn(n, 4, generator=generator),
            "scales": 0.1 * torch.rand(n, 3, generator=generator) + 1e-3,
            "opacities": 0.9 * torch.rand(n, generator=generator) + 0.05,
            "sh": torch.randn(n, coefficients, 3, generator=generator),
        }

    lives = {
        "velocities": torch.randn(31, 3, generator=generator),
        "centers_s": torch.rand(31, generator=generator),
        "radii_s": 0.3 * torch.rand(31, generator=generator),
        "tails_s": 0.1 * torch.rand(31, generator=generator) + 0.01,
    }
    return tiny_scene(static=StaticPool(**pool(17)), dynamic=DynamicPool(**pool(31), **lives))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    view = json.loads((folder / "view.json").read_text())
    data = (folder / view["splats"]["file"]).read_bytes()
    assert len(data) == view["splats"]["bytes"]
    arrays = {}
    for name, entry in view["splats"]["arrays"].items():
        assert entry["offset"] % 16 == 0
        count = int(np.prod(entry["shape"]))
        flat = np.frombuffer(data, np.dtype(entry["type"]).newbyteorder("<"), count, entry["offset"])
        arrays[name] = flat.reshape(entry["shape"]).astype(np.float64)
    return view, arrays


def test_what_is_written_gives_the_instants_of_the_model(tmp_path: Path) -> None:
    for coefficients in (1, 4, 16):
        scene = random_scene(coefficients)
        view, arrays = read(write_view(scene, tmp_path / str(coefficients)))
        assert view["counts"] == {"static": 17, "dynamic": 31}
        assert (view["sh_degree"] + 1) ** 2 == coefficients
        for t in (0.0, 0.37, 1.0):
            expected = Gaussians4D.from_scene(scene).at(t)
            rows = expected.rows.numpy()
            dt = t - arrays["lives"][:, 3]
            beyond = np.maximum(np.abs(dt) - arrays["lives"][:, 4], 0)
            presence = np.exp(-0.5 * (beyond / arrays["lives"][:, 5]) ** 2)
            means, opacities = arrays["centres"][:, :3].copy(), arrays["centres"][:, 3].copy()
            means[17:] += arrays["lives"][:, :3] * dt[:, None]
            opacities[17:] *= presence
            assert set(np.flatnonzero(opacities >= 1.01 / 255)) <= set(rows)
            np.testing.assert_allclose(means[rows], expected.means.numpy(), atol=1e-5)
            np.testing.assert_allclose(opacities[rows], expected.opacities.numpy(), atol=1e-5)
            np.testing.assert_allclose(arrays["shapes"][rows, 4:7], expected.scales.numpy(), rtol=1e-3)
            colours = arrays["colours"][rows][:, : 3 * coefficients].reshape(-1, coefficients, 3)
            np.testing.assert_allclose(colours, expected.sh.numpy(), rtol=1e-3, atol=1e-6)
            turned = quat_to_matrix(torch.tensor(arrays["shapes"][rows][:, [3, 0, 1, 2]]))
            np.testing.assert_allclose(turned.numpy(), quat_to_matrix(expected.quats).numpy(), atol=4e-3)


def test_the_rest_of_the_scene_is_told(tmp_path: Path) -> None:
    scene = tiny_scene(antialiased=True)
    view, _ = read(write_view(scene, tmp_path / "deep" / "view"))
    assert view["cameras"] == [camera.to_json() for camera in scene.cameras]
    assert view["background"] == list(scene.background)
    assert view["plane"] == [0, 0, 1, 0]
    assert view["antialiased"] is True
    assert view["duration_s"] == 1.0
    np.testing.assert_allclose(view["focus"], [0, 0, 0], atol=1e-6)  # Where every camera looks.
    poster = cv2.imread(str(tmp_path / "deep" / "view" / "poster.jpg"))
    assert poster.shape == (48, 65, 3)
    assert poster.std() > 1


def test_a_scene_without_a_rig_or_without_motion_has_a_view_too(tmp_path: Path) -> None:
    bare = random_scene(1)
    empty = {name: value[:0] for name, value in vars(bare.dynamic).items()}
    scene = tiny_scene(cameras=(), plane=None, dynamic=DynamicPool(**empty))
    view, arrays = read(write_view(scene, tmp_path))
    assert view["poster"] is None
    assert view["cameras"] == []
    assert arrays["lives"].shape == (0, 8)
    assert not (tmp_path / "poster.jpg").exists()
