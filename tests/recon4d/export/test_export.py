"""PLY exports: layout, round trip, same picture; sequences; refusals."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from plyfile import PlyData

from recon4d.errors import ConfigError, OutputError, SceneError
from recon4d.export import ExportOptions, export, formats, read_ply
from recon4d.export.ply import vertices
from recon4d.geometry import look_at
from recon4d.model import Gaussians4D
from recon4d.raster import rasterize
from recon4d.types import Camera, Cameras, DynamicPool, Scene4D, Splats, StaticPool


def _scene(coefficients: int = 9, static: int = 40, dynamic: int = 20) -> Scene4D:
    g = torch.Generator().manual_seed(3)

    def pool(n: int) -> dict[str, torch.Tensor]:
        return {
            "means": (torch.rand(n, 3, generator=g) - 0.5) * 0.6,
            "quats": torch.nn.functional.normalize(torch.randn(n, 4, generator=g), dim=-1),
            "scales": torch.rand(n, 3, generator=g) * 0.05 + 0.01,
            "opacities": torch.rand(n, generator=g) * 0.8 + 0.1,
            "sh": torch.randn(n, coefficients, 3, generator=g) * 0.3,
        }

    K = np.array([[60.0, 0, 32], [0, 60, 24], [0, 0, 1]])
    camera = Camera(name="a", width=64, height=48, K=K, T_cam_world=look_at(np.array([0.8, -0.5, 0.7]), np.zeros(3)))
    return Scene4D(
        static=StaticPool(**pool(static)),
        dynamic=DynamicPool(
            **pool(dynamic),
            velocities=torch.randn(dynamic, 3, generator=g) * 0.2,
            centers_s=torch.rand(dynamic, generator=g) * 2,
            radii_s=torch.rand(dynamic, generator=g) * 0.3,
            tails_s=torch.rand(dynamic, generator=g) * 0.2 + 0.02,
        ),
        cameras=(camera,),
        duration_s=2.0,
        background=(0.2, 0.1, 0.3),
    )


def _draw(scene: Scene4D, splats: Splats) -> torch.Tensor:
    cameras = Cameras.of(scene.cameras[0])
    rgb = rasterize(splats, cameras, background=scene.background, outputs=("rgb",)).rgb
    assert rgb is not None
    return rgb


@pytest.mark.parametrize("coefficients", [1, 4, 9, 16])
def test_an_independent_reader_finds_the_layout(tmp_path: Path, coefficients: int) -> None:
    scene = _scene(coefficients)
    splats = Gaussians4D.from_scene(scene).at(0.7)
    file = PlyData.read(export(scene, tmp_path / "s.ply", "ply", ExportOptions(time_s=0.7)))
    rows = file["vertex"].data
    assert not file.text
    assert file.byte_order == "<"
    rest = [f"f_rest_{i}" for i in range(3 * (coefficients - 1))]
    scales, quats = [f"scale_{i}" for i in range(3)], [f"rot_{i}" for i in range(4)]
    dc = [f"f_dc_{i}" for i in range(3)]
    assert list(rows.dtype.names) == ["x", "y", "z", "nx", "ny", "nz", *dc, *rest, "opacity", *scales, *quats]
    assert len(rows) == len(splats)
    np.testing.assert_array_equal(np.stack([rows[n] for n in "xyz"], 1), splats.means)
    np.testing.assert_array_equal(np.stack([rows[n] for n in dc], 1), splats.sh[:, 0])
    np.testing.assert_allclose(1 / (1 + np.exp(-rows["opacity"])), splats.opacities, rtol=1e-5)
    np.testing.assert_allclose(np.exp(np.stack([rows[n] for n in scales], 1)), splats.scales, rtol=1e-5)
    np.testing.assert_array_equal(np.stack([rows[n] for n in quats], 1), splats.quats)
    per_channel = coefficients - 1
    for k in range(per_channel):
        for channel in range(3):
            np.testing.assert_array_equal(rows[f"f_rest_{channel * per_channel + k}"], splats.sh[:, 1 + k, channel])


@pytest.mark.parametrize("time_s", [0.0, 0.7, 2.0])
def test_the_picture_is_the_scene_s(tmp_path: Path, time_s: float) -> None:
    scene = _scene()
    read = read_ply(export(scene, tmp_path / "s.ply", "ply", ExportOptions(time_s=time_s)))
    ours = _draw(scene, Gaussians4D.from_scene(scene).at(time_s))
    assert ours.std() > 0.05
    # Measured at most 2.4e-6.
    assert (ours - _draw(scene, read)).abs().max() < 1e-4


def test_exact_zeros_and_ones_stay_finite(tmp_path: Path) -> None:
    scene = _scene(1, static=3, dynamic=0)
    scene = replace(
        scene,
        static=replace(scene.static, opacities=torch.tensor([1.0, 0.5, 0.999]), scales=torch.zeros(3, 3)),
    )
    splats = Gaussians4D.from_scene(scene).at(0.0)
    splats = replace(splats, opacities=torch.tensor([0.0, 1.0, 0.5]), scales=torch.zeros(3, 3))
    rows = vertices(splats)
    assert all(np.isfinite(rows[name]).all() for name in rows.dtype.names or ())
    assert 1 / (1 + np.exp(-rows["opacity"][1].astype(np.float64))) > 1 - 1 / 255


def test_header_says_frame_units_time_and_mode(tmp_path: Path) -> None:
    scene = replace(_scene(), antialiased=True)
    comments = PlyData.read(export(scene, tmp_path / "s.ply", "ply", ExportOptions(time_s=0.5))).comments
    assert "units metre, right-handed, +Z up" in comments
    assert "time_s 0.500000" in comments
    assert "SplatRenderMode: mip" in comments
    assert "SplatRenderMode: mip" not in PlyData.read(
        export(_scene(), tmp_path / "t.ply", "ply", ExportOptions(time_s=0.5))
    ).comments  # fmt: skip


def test_a_sequence_holds_the_clip(tmp_path: Path) -> None:
    scene = _scene()
    folder = export(scene, tmp_path / "seq", "ply-sequence", ExportOptions(fps=5))
    index = json.loads((folder / "sequence.json").read_text())
    assert [frame["time_s"] for frame in index["frames"]] == pytest.approx(np.arange(11) / 5)
    assert sorted(p.name for p in folder.glob("*.ply")) == [frame["file"] for frame in index["frames"]]
    for frame in index["frames"][::5]:
        expected = Gaussians4D.from_scene(scene).at(frame["time_s"])
        assert torch.equal(read_ply(folder / frame["file"]).means, expected.means)
    export(scene, folder, "ply-sequence", ExportOptions(fps=2))
    assert len(list(folder.glob("*.ply"))) == 5
    assert [p.name for p in tmp_path.iterdir()] == ["seq"]


def test_a_sequence_never_replaces_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(OutputError, match="neither empty nor a PLY sequence"):
        export(_scene(), tmp_path, "ply-sequence")
    assert (tmp_path / "thesis.tex").exists()


def test_a_failed_sequence_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = export(_scene(), tmp_path / "seq", "ply-sequence", ExportOptions(fps=2))
    replace_file = os.replace

    def failing(source: str | Path, target: str | Path) -> None:
        if Path(target) == folder and Path(source).name == "new":
            raise OSError(28, "No space left on device")
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OutputError, match="No space left"):
        export(_scene(), folder, "ply-sequence", ExportOptions(fps=5))
    assert len(list(folder.glob("*.ply"))) == 5
    assert [p.name for p in tmp_path.iterdir()] == ["seq"]


@pytest.mark.parametrize("time_s", [-0.1, 2.1, float("nan")])
def test_a_ply_needs_an_instant_of_the_clip(tmp_path: Path, time_s: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 2"):
        export(_scene(), tmp_path / "s.ply", "ply", ExportOptions(time_s=time_s))


def test_without_an_instant_the_middle_is_taken(tmp_path: Path) -> None:
    assert "time_s 1.000000" in PlyData.read(export(_scene(), tmp_path / "s.ply", "ply")).comments


def test_unknown_formats_and_rates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'pyl' \(did you mean 'ply'\?\); there are: ply, ply-sequence"):
        export(_scene(), tmp_path / "s", "pyl")
    with pytest.raises(ConfigError, match="fps"):
        export(_scene(), tmp_path / "s", "ply-sequence", ExportOptions(fps=0))
    assert all(name == format.name and format.summary for name, format in formats().items())


def test_an_unwritable_place_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("ply", "ply-sequence"):
        with pytest.raises(OutputError):
            export(_scene(), tmp_path / "file" / "x", name)


def test_foreign_files_are_read_or_refused(tmp_path: Path) -> None:
    path = export(_scene(4), tmp_path / "s.ply", "ply", ExportOptions(time_s=0.0))
    expected, rows = read_ply(path), PlyData.read(path)["vertex"].data
    order = [name for name in sorted(rows.dtype.names) if not name.startswith("n")]  # Another order, no normals.
    fields = "".join(f"property double {name}\r\n" for name in order)
    header = f"ply\r\nformat binary_little_endian 1.0\r\nelement vertex {len(rows)}\r\n{fields}end_header\r\n"
    body = np.stack([rows[name].astype("<f8") for name in order], 1).tobytes()
    path.write_bytes(header.encode() + body)
    read = read_ply(path)
    for name in ("means", "quats", "scales", "opacities", "sh"):
        assert torch.equal(getattr(read, name), getattr(expected, name))
    bad = {
        "cut short": header.encode() + body[:-1],
        "lacks the properties.*rot_2": (header.replace(" rot_2", " other")).encode() + body,
        "must be 0, 9, 24 or 45": (header.replace(" f_rest_2", " other")).encode() + body,
        "no binary little-endian": header.replace("binary_little_endian", "ascii").encode(),
        "scalar properties only": header.replace("double x", "list uchar int x").encode() + body,
        "first element must be 'vertex'": header.replace("element vertex", "element face").encode() + body,
    }
    for message, data in bad.items():
        path.write_bytes(data)
        with pytest.raises(SceneError, match=message):
            read_ply(path)
    with pytest.raises(SceneError, match="cannot be read"):
        read_ply(tmp_path / "none.ply")


@pytest.mark.skipif("RECON4D_TEST_DATA" not in os.environ, reason="RECON4D_TEST_DATA names no folder of real captures")
def test_a_real_file_of_another_writer() -> None:
    splats = read_ply(Path(os.environ["RECON4D_TEST_DATA"]) / "embodied_pusht" / "tblock_inria.ply")
    assert len(splats) == 498
    assert 0.001 < float(splats.scales.median()) < 0.1
    assert float(splats.opacities.min()) >= 0
