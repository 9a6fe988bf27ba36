"""One rig in every form: read back to the same cameras, whatever convention it was written in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import ClassVar

import cv2
import numpy as np
import pytest

from recon4d.capture import (
    Distortion,
    ReadConfig,
    Rig,
    RigCamera,
    calibration_formats,
    calibration_writers,
    read_calibration,
    write_calibration,
)
from recon4d.errors import CalibrationError, CaptureError, ConfigError, OutputError
from recon4d.geometry import look_at
from recon4d.types import Camera
from tests.calibrations import KINDS, Truth, colmap_text, easymocap, rig, transforms

CASES = [(name, lens) for name, kind in KINDS.items() for lens in kind.lenses]


def named(name: str, kind: str) -> str:
    """caliscope knows numbers alone."""
    return name.replace("cam_04", "cam_4") if kind == "caliscope" else name


def assert_same(got: Rig, truth: list[Truth], kind: str = "", *, by_order: bool = False) -> None:
    if by_order:
        pairs = list(zip(got.cameras, truth, strict=True))
    else:
        cameras = {camera.name: camera for camera in got.cameras}
        assert set(cameras) == {named(t.name, kind) for t in truth}
        pairs = [(cameras[named(t.name, kind)], t) for t in truth]
    for camera, t in pairs:
        assert (camera.camera.width, camera.camera.height) == (t.width, t.height)
        assert pytest.approx(np.array(t.K()), abs=1e-6) == camera.camera.K
        assert camera.camera.T_cam_world == pytest.approx(t.T_cam_world, abs=1e-6)
        if t.k:
            assert camera.distortion is not None
            assert camera.distortion.model == ("fisheye" if t.fisheye else "opencv")
            assert camera.distortion.coefficients[: len(t.k)] == pytest.approx(t.k, abs=1e-9)
            assert not camera.distortion.coefficients[len(t.k) :].any()
        else:
            assert camera.distortion is None


@pytest.mark.parametrize(("name", "lens"), CASES)
def test_every_form_is_read_back(name: str, lens: str, tmp_path: Path) -> None:
    kind, truth = KINDS[name], rig(lens)
    source = kind.write(tmp_path, truth, kind.documented or "w2c-opencv", 1.0)
    got, report = read_calibration(source)
    assert report.format == kind.format
    assert str(report.reading) == (kind.documented or "w2c-opencv")
    assert_same(got, truth, name, by_order=name == "llff")
    again, _ = read_calibration(source, format=kind.format)
    assert [camera.name for camera in again.cameras] == [camera.name for camera in got.cameras]
    scale = [finding for finding in report.findings if "scale is arbitrary" in finding.message]
    assert len(scale) == (not kind.metric)
    assert str(report.reading) in str(report)
    json.dumps(report.to_json())


VARIANTS = [
    (name, reading, unit)
    for name, kind in KINDS.items()
    for reading in kind.readings
    for unit in ((1.0, 0.001) if kind.metric else (1.0,))
]


@pytest.mark.parametrize(("name", "reading", "unit"), VARIANTS)
def test_every_wrong_convention_is_corrected_and_said(name: str, reading: str, unit: float, tmp_path: Path) -> None:
    kind, truth = KINDS[name], rig(KINDS[name].lenses[0])
    got, report = read_calibration(kind.write(tmp_path, truth, reading, unit))
    assert_same(got, truth, name, by_order=name == "llff")
    assert str(report.reading) == reading
    assert report.metres_per_unit == unit
    said = any("not what the format documents" in finding.message for finding in report.findings)
    documents_units = kind.format not in ("toml", "opencv")
    as_documented = kind.documented in (None, reading) and (unit == 1.0 or not documents_units)
    assert said == (not as_documented)


def test_numbers_sort_as_numbers(tmp_path: Path) -> None:
    got, _ = read_calibration(KINDS["anipose"].write(tmp_path, rig(), "w2c-opencv", 1.0))
    assert [camera.name for camera in got.cameras] == ["cam_1", "cam_2", "cam_3", "cam_04", "cam_9", "cam_10"]


def test_what_nothing_tells_apart_asks_for_a_flag(tmp_path: Path) -> None:
    pair = [rig()[0], rig()[1]]
    source = KINDS["by-hand"].write(tmp_path, pair, "c2w-opengl", 1.0)
    with pytest.raises(CalibrationError, match=r"rig\.json|give --reading .*c2w-opengl") as refused:
        read_calibration(source)
    assert "--reading" in str(refused.value)
    got, report = read_calibration(source, ReadConfig(reading="c2w-opengl"))
    assert_same(got, pair)
    assert str(report.reading) == "c2w-opengl"
    near = [Truth(**{**vars(t), "T_cam_world": shrunk(t.T_cam_world)}) for t in rig()]
    source = KINDS["anipose"].write(tmp_path, near, "w2c-opencv", 1.0)
    with pytest.raises(CalibrationError, match=r"give --units m\|mm \(or --scale\)"):
        read_calibration(source)
    got, _ = read_calibration(source, ReadConfig(units="m"))
    assert_same(got, near)


def shrunk(pose: np.ndarray) -> np.ndarray:
    """A rig of some 45 units: as metres too large, as millimetres too small, by the same factor."""
    pose = pose.copy()
    pose[:3, 3] *= 13.5
    return pose


@pytest.mark.parametrize("count", [2, 3, 5])
def test_random_rigs_are_never_misread_in_silence(count: int, tmp_path: Path) -> None:
    """What a form documents is taken where it is true; where it is not, it is corrected, refused, or doubted aloud."""
    chance, taken, corrected, refused = np.random.default_rng(count), 0, 0, []
    for trial in range(16):
        truth = random_rig(chance, count)
        for reading in ("w2c-opencv", "c2w-opencv", "c2w-opengl", "w2c-opencv-transposed"):
            folder = tmp_path / f"{trial}-{reading}"
            folder.mkdir()
            source = KINDS["colmap-text"].write(folder, truth, reading, 1.0)
            try:
                got, report = read_calibration(source)
            except CalibrationError as error:
                refused.append((reading, str(error)))
                continue
            said = [f for f in report.findings if "reading" in f.message or "documents" in f.message]
            right = all(
                np.abs(c.camera.T_cam_world - t.T_cam_world).max() < 1e-6
                for c, t in zip(got.cameras, truth, strict=True)
            )
            assert right or said
            assert right or reading != "w2c-opencv"
            taken += right and reading == "w2c-opencv"
            corrected += right and reading != "w2c-opencv"
    assert all("--reading" in message for _, message in refused)
    assert taken >= (12 if count == 2 else 16)
    assert corrected >= {2: 0, 3: 12, 5: 30}[count]


def random_rig(chance: np.random.Generator, count: int) -> list[Truth]:
    cameras = []
    for index in range(count):
        azimuth, elevation, distance = chance.uniform([0, 0.2, 0.6], [5.0, 1.2, 1.8])
        level = np.array([np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), np.sin(elevation)])
        T = look_at(distance * level, chance.normal(0, 0.12, 3))
        cameras.append(Truth(f"cam_{index}", 640, 480, (600.0, 600.0), (320.0, 240.0), T))
    return cameras


def test_two_cameras_do_not_overrule_a_format(tmp_path: Path) -> None:
    pair = [rig()[0], rig()[2]]
    source = KINDS["easymocap"].write(tmp_path, pair, "w2c-opengl", 1.0)
    with pytest.raises(CalibrationError, match="--reading"):
        read_calibration(source)


def test_a_mirrored_world_is_refused(tmp_path: Path) -> None:
    flip = np.diag([1.0, -1.0, 1.0, 1.0])
    mirrored = [Truth(**{**vars(t), "T_cam_world": t.T_cam_world @ flip}) for t in rig()]
    with pytest.raises(CalibrationError, match=r"camera 'cam_1'.*mirrors.*left-handed"):
        read_calibration(KINDS["caliscope"].write(tmp_path, mirrored, "w2c-opencv", 1.0))


def test_scale_by_factor_and_by_distance(tmp_path: Path) -> None:
    truth = rig("none")
    source = KINDS["colmap-text"].write(tmp_path, truth, "w2c-opencv", 0.37)
    for config in (ReadConfig(scale=0.37), ReadConfig(distance=("cam_1", "cam_9", distance(truth[0], truth[4])))):
        got, report = read_calibration(source, config)
        assert_same(got, truth)
        assert report.metres_per_unit == pytest.approx(0.37)
        assert not any("arbitrary" in finding.message for finding in report.findings)
    with pytest.raises(CalibrationError, match=r"--distance names the camera 'left'; there are \['cam_1'"):
        read_calibration(source, ReadConfig(distance=("left", "cam_9", 1.0)))


def distance(a: Truth, b: Truth) -> float:
    centres = [np.linalg.inv(t.T_cam_world)[:3, 3] for t in (a, b)]
    return float(np.linalg.norm(centres[0] - centres[1]))


@pytest.mark.parametrize("up", ["x", "-x", "y", "-y", "z", "-z", "cameras"])
def test_up_turns_the_world(up: str, tmp_path: Path) -> None:
    truth = rig("none")
    axis = {"x": [1, 0, 0], "y": [0, 1, 0], "z": [0, 0, 1], "cameras": [0.6, 0, 0.8]}[up.strip("-")]
    target = np.array(axis, float) * (-1 if up.startswith("-") else 1)
    turn = np.eye(4)  # Takes +Z to the file's up.
    if abs(target[2]) < 1:
        other = np.array([0.0, 0, 1]) - target[2] * target
        other /= np.linalg.norm(other)
        turn[:3, :3] = np.stack([np.cross(other, target), other, target], 1)
    elif target[2] < 0:
        turn[:3, :3] = np.diag([1.0, -1, -1])
    written = [Truth(**{**vars(t), "T_cam_world": t.T_cam_world @ np.linalg.inv(turn)}) for t in truth]
    source = KINDS["transforms"].write(tmp_path, written, "c2w-opengl", 1.0)
    _, before = read_calibration(source)
    warned = [finding for finding in before.findings if "up in the pictures" in finding.message]
    assert [finding.severity for finding in warned] == ["note" if up in ("z", "cameras") else "warning"]
    if up not in ("z", "cameras"):
        assert f"--up={up}" in warned[0].advice
    got, after = read_calibration(source, ReadConfig(up=up))
    assert not any("--up" in finding.advice for finding in after.findings)
    heights = [camera.camera.center_w[2] for camera in got.cameras]
    expected = [np.linalg.inv(t.T_cam_world)[2, 3] for t in truth]
    assert heights == pytest.approx(expected, abs=0.25 if up == "cameras" else 1e-9)


def test_a_bench_plane_becomes_the_ground(tmp_path: Path) -> None:
    truth = rig("none")
    source = KINDS["transforms"].write(tmp_path, truth, "c2w-opengl", 0.5)
    normal = np.array([0.1, -0.2, 0.95])
    normal /= np.linalg.norm(normal)
    point = np.array([0.2, 0.1, 0.04])
    for sign in (1, -1):
        plane = tuple(sign * np.append(normal, -normal @ point / 0.5))
        got, _ = read_calibration(source, ReadConfig(scale=0.5, plane=plane))
        assert got.plane == pytest.approx([0, 0, 1, 0], abs=1e-12)
        heights = [camera.camera.center_w[2] for camera in got.cameras]
        expected = [normal @ (np.linalg.inv(t.T_cam_world)[:3, 3] - point) for t in truth]
        assert heights == pytest.approx(expected)


def test_points_decide_where_axes_do_not(tmp_path: Path) -> None:
    """Parallel cameras look the same under many readings; the model's points do not."""
    truth = []
    for index in range(4):
        T = np.eye(4)
        T[:3, :3] = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
        T[:3, 3] = -T[:3, :3] @ [0.2 * index, 0.0, 0.5]
        truth.append(Truth(f"cam_{index}", 640, 480, (600.0, 606.0), (320.0, 240.0), T, (-0.1, 0.02, 0, 0, 0)))
    points = np.random.default_rng(0).uniform([-0.5, 2.0, 0.1], [1.0, 4.0, 0.9], (40, 3))
    for reading in ("w2c-opencv", "c2w-opencv", "c2w-opengl"):
        folder = tmp_path / reading
        folder.mkdir()
        colmap_text(folder, truth, reading, 1.0)
        add_points(folder, truth, points)
        got, report = read_calibration(folder)
        assert_same(got, truth)
        assert report.scores[0].point_error_px == pytest.approx(0, abs=1e-3)
        assert str(report.reading) == reading


def add_points(folder: Path, truth: list[Truth], points: np.ndarray) -> None:
    """Tracks of all points in all cameras, as COLMAP writes them."""
    lines = (folder / "images.txt").read_text().splitlines()
    for index, t in enumerate(truth):
        rvec, tvec = cv2.Rodrigues(t.T_cam_world[:3, :3])[0], t.T_cam_world[:3, 3]
        pixels = cv2.projectPoints(points, rvec, tvec, np.array(t.K()), np.array(t.k))[0][:, 0]
        lines[2 + 2 * index] = " ".join(f"{x} {y} {number}" for number, (x, y) in enumerate(pixels, 1))
    (folder / "images.txt").write_text("\n".join(lines) + "\n")
    tracks = " ".join(f"{image + 1} 0" for image in range(len(truth)))
    rows = [f"{number} {x} {y} {z} 0 0 0 0.1 {tracks}" for number, (x, y, z) in enumerate(points, 1)]
    (folder / "points3D.txt").write_text("\n".join(rows) + "\n")


class TestColmap:
    """What is peculiar to COLMAP's models."""

    MODELS: ClassVar = {
        "SIMPLE_PINHOLE": ([500, 320, 240], None, ()),
        "SIMPLE_RADIAL": ([500, 320, 240, 0.1], "opencv", (0.1, 0, 0, 0)),
        "RADIAL": ([500, 320, 240, 0.1, 0.02], "opencv", (0.1, 0.02, 0, 0)),
        "OPENCV": ([500, 500, 320, 240, 0.1, 0.02, 0.003, 0.004], "opencv", (0.1, 0.02, 0.003, 0.004)),
        "SIMPLE_RADIAL_FISHEYE": ([500, 320, 240, 0.1], "fisheye", (0.1, 0, 0, 0)),
        "RADIAL_FISHEYE": ([500, 320, 240, 0.1, 0.02], "fisheye", (0.1, 0.02, 0, 0)),
        "SIMPLE_FISHEYE": ([500, 320, 240], "fisheye", (0, 0, 0, 0)),
        "FISHEYE": ([500, 500, 320, 240], "fisheye", (0, 0, 0, 0)),
        "THIN_PRISM_FISHEYE": (
            [500, 500, 320, 240, 0.1, 0.02, 0, 0, 0.3, 0.04, 0, 0],
            "fisheye",
            (0.1, 0.02, 0.3, 0.04),
        ),
    }

    def model(self, folder: Path, line: str) -> Path:
        colmap_text(folder, rig("none"), "w2c-opencv", 1.0)
        lines = (folder / "cameras.txt").read_text().splitlines()
        (folder / "cameras.txt").write_text("\n".join([lines[0], f"1 {line}", *lines[2:]]) + "\n")
        return folder

    @pytest.mark.parametrize("model", MODELS)
    def test_lenses(self, model: str, tmp_path: Path) -> None:
        params, kind, k = self.MODELS[model]
        got, _ = read_calibration(self.model(tmp_path, f"{model} 640 480 {' '.join(map(str, params))}"))
        camera = got.cameras[0]
        assert pytest.approx(np.array([[500, 0, 320], [0, 500, 240], [0, 0, 1]])) == camera.camera.K
        assert (camera.distortion.model if camera.distortion else None) == kind
        if camera.distortion is not None:
            assert camera.distortion.coefficients == pytest.approx(k)

    @pytest.mark.parametrize(
        "line",
        [
            "FOV 640 480 500 500 320 240 0.9",
            "EUCM 640 480 500 500 320 240 0.5 1",
            "EQUIRECTANGULAR 640 480 640 480",
            "DIVISION 640 480 500 500 320 240 0.1",
            "THIN_PRISM_FISHEYE 640 480 500 500 320 240 0.1 0.02 0.001 0 0 0 0 0",
        ],
    )
    def test_lenses_without_a_counterpart_are_refused_by_name(self, line: str, tmp_path: Path) -> None:
        with pytest.raises(CalibrationError, match=rf"camera 'cam_1'.*{line.split()[0]} has no.*image_undistorter"):
            read_calibration(self.model(tmp_path, line))

    def test_lenses_are_those_of_colmap(self) -> None:
        """Each model that is mapped, at points of a picture, against COLMAP's own projection."""
        pycolmap = pytest.importorskip("pycolmap")
        from recon4d.capture.calibrations import Values
        from recon4d.capture.formats.colmap import _distortion

        rays = np.array([[0.1, -0.2, 1.0], [-0.3, 0.25, 1.0], [0.35, 0.1, 1.0]])
        for model, (params, _, _) in {**self.MODELS, "FULL_OPENCV": FULL_OPENCV}.items():
            camera = pycolmap.Camera(model=model, width=640, height=480, params=params)
            expected = np.array([camera.img_from_cam(ray) for ray in rays]).reshape(-1, 2)
            rest = list(params[3 if len(params) < 8 and model not in ("FISHEYE",) else 4 :])
            lens = _distortion(model, rest, Values("cameras"))
            K, still = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]]), np.zeros(3)
            k = np.zeros(4) if lens is None else lens.coefficients
            project = cv2.fisheye.projectPoints if lens is not None and lens.model == "fisheye" else None
            if project is not None:
                got = project(rays[:, None], still, still, K, k)[0][:, 0]
            else:
                got = cv2.projectPoints(rays, still, still, K, k)[0][:, 0]
            assert got == pytest.approx(expected, abs=1e-6), model

    def test_folders_are_cameras_whose_pictures_agree(self, tmp_path: Path) -> None:
        truth = rig("none")
        twice = [Truth(**{**vars(t), "name": f"{t.name}/{frame:04d}"}) for t in truth for frame in range(2)]
        got, _ = read_calibration(colmap_text(tmp_path, twice, "w2c-opencv", 1.0))
        assert_same(got, truth)
        moved = twice[1].T_cam_world.copy()
        moved[0, 3] += 0.1
        twice[1] = Truth(**{**vars(twice[1]), "T_cam_world": moved})
        with pytest.raises(CalibrationError, match=r"camera 'cam_1'.*different poses.*stand still"):
            read_calibration(colmap_text(tmp_path, twice, "w2c-opencv", 1.0))

    def test_several_models_are_told(self, tmp_path: Path) -> None:
        source = KINDS["colmap-binary"].write(tmp_path, rig("none"), "w2c-opencv", 1.0)
        (tmp_path / "sparse/1").mkdir()
        _, report = read_calibration(source)
        assert any("several models (0, 1)" in finding.message for finding in report.findings)

    def test_lines_of_points_that_were_left_out(self, tmp_path: Path) -> None:
        colmap_text(tmp_path, rig("none"), "w2c-opencv", 1.0)
        lines = [line for line in (tmp_path / "images.txt").read_text().splitlines() if line]
        (tmp_path / "images.txt").write_text("\n".join(lines))
        with pytest.raises(CaptureError, match=r"images\.txt.*without any it must be empty"):
            read_calibration(tmp_path)

    @pytest.mark.parametrize("binary", [True, False])
    def test_rigs_and_frames_of_colmap_itself(self, binary: bool, tmp_path: Path) -> None:
        pycolmap = pytest.importorskip("pycolmap")
        options = pycolmap.SyntheticDatasetOptions()
        options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig = 3, 1, 1
        options.num_points3D = 60
        model = pycolmap.synthesize_dataset(options)
        (model.write_binary if binary else model.write_text)(str(tmp_path))
        assert (tmp_path / ("rigs.bin" if binary else "rigs.txt")).exists()
        got, report = read_calibration(tmp_path)
        expected = {Path(i.name).stem: i.cam_from_world().matrix() for i in model.images.values()}
        assert {c.name for c in got.cameras} == set(expected)
        for camera in got.cameras:
            assert camera.camera.T_cam_world[:3] == pytest.approx(expected[camera.name], abs=1e-9)
        assert report.scores[0].point_error_px == pytest.approx(0, abs=1e-3)


FULL_OPENCV = ([500, 500, 320, 240, 0.1, 0.02, 0.003, 0.004, 0.01, 0.02, 0.03, 0.01], "opencv", ())


class TestNerfstudio:
    """What is peculiar to transforms.json."""

    def test_applied_transform_is_undone(self, tmp_path: Path) -> None:
        truth = rig("none")
        applied = np.array([[0.0, 1, 0, 0.3], [1, 0, 0, -0.2], [0, 0, -1, 1.0], [0, 0, 0, 1]])
        moved = [Truth(**{**vars(t), "T_cam_world": t.T_cam_world @ np.linalg.inv(applied)}) for t in truth]
        transforms(tmp_path, moved, "c2w-opengl", 1.0)
        data = json.loads((tmp_path / "transforms.json").read_text())
        data["applied_transform"] = applied[:3].tolist()
        (tmp_path / "transforms.json").write_text(json.dumps(data))
        got, report = read_calibration(tmp_path)
        assert_same(got, truth)
        assert any("applied_transform is undone" in finding.message for finding in report.findings)

    def test_d_nerf_gives_a_field_of_view(self, tmp_path: Path) -> None:
        truth = rig("none")
        frames = [
            {"file_path": f"./train/r_{k}", "time": 0.1 * frame, "transform_matrix": t.matrix("c2w-opengl")}
            for k, t in enumerate(truth)
            for frame in range(2)
        ]
        path = tmp_path / "transforms_train.json"
        path.write_text(json.dumps({"camera_angle_x": 0.8, "frames": frames}))
        with pytest.raises(CalibrationError, match=r"camera 'r_0'.*--size"):
            read_calibration(path)
        got, _ = read_calibration(path, ReadConfig(size=(800, 600)))
        assert [camera.name for camera in got.cameras] == [f"r_{k}" for k in range(6)]
        f = 400 / np.tan(0.4)
        for camera, t in zip(got.cameras, truth, strict=True):
            assert pytest.approx(np.array([[f, 0, 400], [0, f, 300], [0, 0, 1]])) == camera.camera.K
            assert camera.camera.T_cam_world == pytest.approx(t.T_cam_world, abs=1e-9)
        for k, frame in enumerate(frames):
            frame["transform_matrix"][0][3] += 0.01 * k
        path.write_text(json.dumps({"camera_angle_x": 0.8, "frames": frames}))
        with pytest.raises(CaptureError, match="one camera that moves"):
            read_calibration(path)

    def test_a_transposed_4x4_is_turned(self, tmp_path: Path) -> None:
        transforms(tmp_path, rig("none"), "c2w-opengl", 1.0)
        data = json.loads((tmp_path / "transforms.json").read_text())
        for frame in data["frames"]:
            frame["transform_matrix"] = np.array(frame["transform_matrix"]).T.tolist()
        (tmp_path / "transforms.json").write_text(json.dumps(data))
        got, report = read_calibration(tmp_path)
        assert_same(got, rig("none"))
        assert any("transposed" in finding.message for finding in report.findings)

    @pytest.mark.parametrize(
        ("change", "words"), [({"camera_model": "EQUIRECTANGULAR"}, "EQUIRECTANGULAR"), ({"k4": 0.1}, "k4")]
    )
    def test_lenses_that_are_not_known(self, change: dict, words: str, tmp_path: Path) -> None:
        transforms(tmp_path, rig("none"), "c2w-opengl", 1.0)
        data = json.loads((tmp_path / "transforms.json").read_text())
        (tmp_path / "transforms.json").write_text(json.dumps({**data, **change}))
        with pytest.raises(CalibrationError, match=rf"transforms\.json.*{words}.*undistort"):
            read_calibration(tmp_path)


class TestEasyMocap:
    """What is peculiar to intri.yml and extri.yml."""

    def test_vectors_alone(self, tmp_path: Path) -> None:
        got, _ = read_calibration(easymocap(tmp_path, rig(), "w2c-opencv", 1.0, vectors=True))
        assert_same(got, rig())

    def test_matrix_and_vector_that_disagree(self, tmp_path: Path) -> None:
        easymocap(tmp_path, rig(), "w2c-opencv", 1.0)
        text = (tmp_path / "extri.yml").read_text()
        (tmp_path / "extri.yml").write_text(
            text.replace("Rot_cam_2:", "Rot_cam_X:").replace("Rot_cam_3:", "Rot_cam_2:")
        )
        with pytest.raises(CalibrationError, match=r"camera 'cam_2', extri\.yml.*degrees apart"):
            read_calibration(tmp_path)

    def test_older_names_and_no_size(self, tmp_path: Path) -> None:
        easymocap(tmp_path, rig(), "w2c-opencv", 1.0)
        lines = (tmp_path / "intri.yml").read_text().splitlines()
        kept = [line.replace("dist_cam", "D_cam") for line in lines if not line.startswith(("H_", "W_"))]
        (tmp_path / "intri.yml").write_text("\n".join(kept))
        with pytest.raises(CalibrationError, match="--size"):
            read_calibration(tmp_path / "intri.yml")
        got, _ = read_calibration(tmp_path / "intri.yml", ReadConfig(size=(1280, 720)))
        assert got.cameras[1].distortion is not None
        assert got.cameras[1].camera.width == 1280

    def test_names_keep_their_zeros(self, tmp_path: Path) -> None:
        truth = [Truth(**{**vars(t), "name": f"{k:02d}"}) for k, t in enumerate(rig(), 1)]
        easymocap(tmp_path, truth, "w2c-opencv", 1.0)
        for name in ("intri.yml", "extri.yml"):
            (tmp_path / name).write_text((tmp_path / name).read_text().replace('"', ""))
        got, _ = read_calibration(tmp_path)
        assert_same(got, truth)


def test_opencv_stereo(tmp_path: Path) -> None:
    a, b = rig()[:2]
    relative = b.T_cam_world @ np.linalg.inv(a.T_cam_world)
    storage = cv2.FileStorage(str(tmp_path / "intrinsics.yml"), cv2.FILE_STORAGE_WRITE)
    for number, t in ((1, a), (2, b)):
        storage.write(f"M{number}", np.array(t.K(-0.5)))
        storage.write(f"D{number}", np.array([t.k]))
    for name, value in (("R", relative[:3, :3]), ("T", relative[:3, 3]), ("R1", np.eye(3)), ("R2", np.eye(3))):
        storage.write(name, value)
    storage.release()
    got, _ = read_calibration(tmp_path, ReadConfig(size=(1280, 720), units="m"))
    assert [camera.name for camera in got.cameras] == ["1", "2"]
    assert got.cameras[0].camera.T_cam_world == pytest.approx(np.eye(4), abs=1e-12)
    assert got.cameras[1].camera.T_cam_world == pytest.approx(relative, abs=1e-9)
    assert pytest.approx(np.array(b.K())) == got.cameras[1].camera.K


@pytest.mark.parametrize("writer", ["calibration", "colmap", "colmap-text", "nerfstudio"])
@pytest.mark.parametrize("lens", ["none", "opencv", "fisheye"])
def test_what_is_written_is_read_back(writer: str, lens: str, tmp_path: Path) -> None:
    assert writer in calibration_writers()
    truth = rig(lens)
    first = rig_of(truth)
    path = write_calibration(first, tmp_path / "new/out", writer)
    got, _ = read_calibration(path, ReadConfig(units="m"))
    for a, b in zip(first.cameras, got.cameras, strict=True):
        assert pytest.approx(b.camera.K, abs=1e-12) == a.camera.K
        assert a.camera.T_cam_world == pytest.approx(b.camera.T_cam_world, abs=1e-12)
        assert (a.name, a.camera.width, a.camera.height) == (b.name, b.camera.width, b.camera.height)
        assert (a.distortion is None) == (b.distortion is None)
        if a.distortion is not None and b.distortion is not None:
            assert a.distortion.model == b.distortion.model
            assert a.distortion.coefficients == pytest.approx(b.distortion.coefficients, abs=0)
    with pytest.raises(OutputError, match="exists already"):
        write_calibration(first, path, writer)


def rig_of(truth: list[Truth]) -> Rig:
    return Rig(
        cameras=tuple(
            RigCamera(
                camera=Camera(
                    name=t.name, width=t.width, height=t.height, K=np.array(t.K()), T_cam_world=t.T_cam_world
                ),
                distortion=Distortion(model="fisheye" if t.fisheye else "opencv", coefficients=np.array(t.k))
                if t.k
                else None,
            )
            for t in truth
        )
    )


@pytest.mark.parametrize("writer", ["colmap", "colmap-text"])
def test_colmap_itself_reads_what_is_written(writer: str, tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap")
    truth = rig("opencv")
    folder = write_calibration(rig_of(truth), tmp_path / "model", writer)
    images = {image.name: image for image in pycolmap.Reconstruction(str(folder)).images.values()}
    for t in truth:
        image = images[f"{t.name}.png"]
        assert image.cam_from_world().matrix() == pytest.approx(t.T_cam_world[:3], abs=1e-9)
        ray = np.array([0.2, -0.1, 1.0])
        expected = cv2.projectPoints(ray[None], np.zeros(3), np.zeros(3), np.array(t.K()), np.array(t.k))[0].ravel()
        assert image.camera.img_from_cam(ray) == pytest.approx(expected, abs=1e-6)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    one = rig_of(rig()).cameras[0]
    tilted = RigCamera(camera=one.camera, distortion=Distortion(model="opencv", coefficients=np.full(14, 0.01)))
    for writer in ("colmap", "nerfstudio"):
        with pytest.raises(CalibrationError, match=r"camera 'cam_1'.*14 coefficients"):
            write_calibration(Rig(cameras=(tilted,)), tmp_path / writer, writer)
        assert not (tmp_path / writer).exists()
    mixed = Rig(cameras=(rig_of(rig()).cameras[0], rig_of(rig("fisheye")).cameras[1]))
    with pytest.raises(CalibrationError, match="mixes fisheye"):
        write_calibration(mixed, tmp_path / "mixed", "nerfstudio")
    with pytest.raises(ConfigError, match="no writer of 'kalibr'; there are calibration, colmap"):
        write_calibration(mixed, tmp_path / "mixed", "kalibr")


def test_the_bench_and_notes_are_kept_in_our_form(tmp_path: Path) -> None:
    cameras = rig_of(rig()).cameras
    written = Rig(cameras=cameras, plane=np.array([0.0, 0.0, 1.0, -0.1]), notes="after the move")
    got, _ = read_calibration(write_calibration(written, tmp_path / "calibration.json"))
    assert got.plane == pytest.approx([0, 0, 1, -0.1])
    assert got.notes == "after the move"


def test_what_is_nothing_known_says_what_is(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"camera": 1}')
    (tmp_path / "broken.toml").write_text("[cam_0\n")
    with pytest.raises(
        CaptureError, match=r"no calibration of a known format \(calibration, colmap.*broken\.toml cannot"
    ):
        read_calibration(tmp_path)
    with pytest.raises(CaptureError, match="no such file"):
        read_calibration(tmp_path / "absent")
    with pytest.raises(ConfigError, match="no calibration format 'qualisys'; there are calibration"):
        read_calibration(tmp_path, format="qualisys")
    transforms(tmp_path, rig(), "c2w-opengl", 1.0)
    colmap_text(tmp_path, rig("none"), "w2c-opencv", 1.0)
    with pytest.raises(CaptureError, match="several formats: colmap, nerfstudio"):
        read_calibration(tmp_path)
    assert set(calibration_formats()) >= {"colmap", "nerfstudio", "llff", "easymocap", "toml", "opencv", "calibration"}


@pytest.mark.parametrize(
    "values",
    [
        {"reading": "opengl"}, {"units": "furlong"}, {"scale": 0.0}, {"scale": 2.0, "units": "m"}, {"up": "down"},
        {"plane": (0.0, 0.0, 0.0, 1.0)}, {"plane": (0, 0, 1, 0), "up": "y"}, {"distance": ("a", "b", -1.0)},
        {"size": (0, 9)},
    ],
)  # fmt: skip
def test_configurations_that_make_no_sense(values: dict) -> None:
    with pytest.raises(ConfigError):
        ReadConfig(**values)


needs_real = pytest.mark.skipif(
    "RECON4D_TEST_DATA" not in os.environ, reason="RECON4D_TEST_DATA does not name the folder of real captures"
)


@needs_real
def test_the_real_calibrations() -> None:
    data = Path(os.environ["RECON4D_TEST_DATA"])
    got, report = read_calibration(data / "caliscope_charuco_calibration/camera_array.toml")
    assert (report.format, str(report.reading), report.units) == ("toml", "w2c-opencv", "m")
    assert [camera.name for camera in got.cameras] == ["cam_0", "cam_1", "cam_2", "cam_3"]
    first = got.cameras[0]
    assert first.camera.K[0, 2] == pytest.approx(618.3086297620227 + 0.5)
    assert first.camera.T_cam_world[:3, 3] == pytest.approx([0.12300856, -0.20907747, 0.66794905])
    got, report = read_calibration(data / "embodied_pusht")
    assert (report.format, str(report.reading), report.units) == ("pusht-embodied", "c2w-opengl", "m")
    assert len(got.cameras) == 3
    assert got.plane is not None
    assert not any(finding.severity == "warning" for finding in report.findings)
