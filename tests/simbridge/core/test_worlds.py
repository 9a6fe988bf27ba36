"""The batched core: episodes, control, physics, and pictures of them."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from recon4d.errors import ConfigError
from simbridge.core import Randomisation, SensorConfig, Worlds, WorldsConfig
from simbridge.errors import ActionError, BundleError, TaskError
from simbridge.tasks import make_task
from simbridge.types import Bundle
from tests.simbridge import worlds as small

SEEN = WorldsConfig(sensors=SensorConfig(cameras=("front", "wrist"), kinds=("rgb", "depth", "segmentation")))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small.bundle(tmp_path_factory.mktemp("bundle"))


def make(bundle: Bundle, count: int = 3, task: str = "reach", config: WorldsConfig | None = None) -> Worlds:
    return Worlds(bundle, make_task(task), count, config=config or WorldsConfig())


def actions(count: int, width: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, width))


def test_an_episode_is_the_same_in_whichever_world_it_is_played(bundle: Bundle) -> None:
    """A batch equals single worlds, bit for bit: states, rewards and pictures."""
    several, one = make(bundle, 3, config=SEEN), make(bundle, 1, config=SEEN)
    first = several.reset(several.all, [11, 12, 13])
    alone = one.reset(one.all, [12])
    for step in range(4):
        for name in ("states", "rewards", "terminated", "truncated"):
            assert np.array_equal(getattr(first, name)[1], getattr(alone, name)[0]), (step, name)
        assert first.pictures is not None
        assert alone.pictures is not None
        for camera, kinds in first.pictures.items():
            for kind, value in kinds.items():
                assert np.array_equal(value[1], alone.pictures[camera][kind][0]), (step, camera, kind)
        moves = actions(3, seed=step)
        first, alone = several.step(several.all, moves), one.step(one.all, moves[1:2])


def test_physics_equals_a_loop_of_single_simulations(bundle: Bundle) -> None:
    worlds = make(bundle, 2)
    worlds.reset(worlds.all, [5, 6])
    model = worlds.physics.model
    twins = []
    for world in range(2):
        data = mujoco.MjData(model)
        data.qpos[:] = worlds.physics._qpos[world]
        data.mocap_pos[:], data.mocap_quat[:] = worlds.physics._mocap_pos[world], worlds.physics._mocap_quat[world]
        twins.append(data)
    for step in range(5):
        worlds.step(worlds.all, actions(2, seed=step), render=False)
        for world, data in enumerate(twins):
            data.ctrl[:] = worlds.controller.targets[world]
            for _ in range(worlds.substeps):
                mujoco.mj_step(model, data)
            assert np.array_equal(data.qpos, worlds.physics._qpos[world])
            mujoco.mj_kinematics(model, data)
            assert np.allclose(data.xpos, worlds.physics._xpos[world], atol=1e-12)


def test_episodes_differ_and_repeat(bundle: Bundle) -> None:
    worlds = make(bundle, 3)
    a = worlds.reset(worlds.all, [1, 2, 1], render=False)
    assert np.array_equal(a.infos["goal"][0], a.infos["goal"][2])
    assert np.array_equal(a.states[0], a.states[2])
    assert not np.array_equal(a.infos["goal"][0], a.infos["goal"][1])
    other = Worlds(bundle, make_task("reach"), 1, seed=1)
    assert not np.array_equal(other.reset(other.all, [1], render=False).infos["goal"][0], a.infos["goal"][0])


def test_worlds_that_are_not_named_stand_still(bundle: Bundle) -> None:
    worlds = make(bundle, 3)
    worlds.reset(worlds.all, [1, 2, 3], render=False)
    before = worlds.physics._qpos.copy()
    worlds.step(np.array([1]), actions(1), render=False)
    assert np.array_equal(worlds.physics._qpos[[0, 2]], before[[0, 2]])
    assert not np.array_equal(worlds.physics._qpos[1], before[1])
    assert worlds.look(worlds.all, render=False).infos["elapsed_steps"].tolist() == [0, 1, 0]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ee_delta_moves_the_tip_along_the_worlds_axes(bundle: Bundle, axis: int) -> None:
    worlds = make(bundle, 2, config=WorldsConfig(control="ee_delta"))
    worlds.reset(worlds.all, [1, 2], render=False)
    for _ in range(10):  # The arm sinks a little under its own weight.
        worlds.step(worlds.all, np.zeros((2, 3)), render=False)
    before = worlds.physics.site("tip", worlds.all)
    push = np.zeros((2, 3))
    push[:, axis] = 0.5 if axis < 2 else 1.0
    for _ in range(3):
        worlds.step(worlds.all, push, render=False)
    for _ in range(5):
        worlds.step(worlds.all, np.zeros((2, 3)), render=False)
    moved = worlds.physics.site("tip", worlds.all) - before
    assert (moved[:, axis] > 0.02).all()
    assert (np.abs(np.delete(moved, axis, 1)) < 0.5 * moved[:, axis, None]).all()


def test_joint_position_reaches_the_limits_of_actuators(bundle: Bundle) -> None:
    worlds = make(bundle, 1, config=WorldsConfig(control="joint_position"))
    worlds.reset(worlds.all, [1], render=False)
    worlds.step(worlds.all, np.array([[-1.0, 0.0, 1.0]]), render=False)
    low, high = np.array(small.LIMITS).T
    assert worlds.controller.targets[0] == pytest.approx([low[0], (low[1] + high[1]) / 2, high[2]])


def test_actions_out_of_range_are_cut_off_and_told(bundle: Bundle) -> None:
    worlds, twin = make(bundle, 2), make(bundle, 2)
    for each in (worlds, twin):
        each.reset(each.all, [1, 2], render=False)
    told = worlds.step(worlds.all, np.array([[5.0, 0, 0], [0.5, 0, 0]]), render=False)
    wanted = twin.step(twin.all, np.array([[1.0, 0, 0], [0.5, 0, 0]]), render=False)
    assert told.infos["clipped"].tolist() == [True, False]
    assert np.array_equal(told.states, wanted.states)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.full((2, 3), np.nan), "world 0 is not finite"),
        (np.array([[0, 0, 0], [0, np.inf, 0]]), "world 1 is not finite"),
        (np.zeros((2, 4)), r"must have shape \(2, 3\)"),
        (np.zeros(3), r"must have shape \(2, 3\)"),
    ],
)
def test_bad_actions_are_refused_and_change_nothing(bundle: Bundle, bad: np.ndarray, message: str) -> None:
    worlds = make(bundle, 2)
    worlds.reset(worlds.all, [1, 2], render=False)
    before = worlds.physics._qpos.copy()
    with pytest.raises(ActionError, match=message):
        worlds.step(worlds.all, bad, render=False)
    assert np.array_equal(worlds.physics._qpos, before)


def test_an_unstable_world_is_cut_off_and_told(bundle: Bundle) -> None:
    worlds = make(bundle, 2)
    worlds.reset(worlds.all, [1, 2], render=False)
    worlds.physics._qvel[1, 0] = 1e20
    step = worlds.step(worlds.all, np.zeros((2, 3)), render=False)
    assert step.infos["unstable"].tolist() == [False, True]
    assert step.truncated.tolist() == [False, True]
    assert np.isfinite(step.rewards).all()


def test_an_episode_ends_by_success_or_time(bundle: Bundle) -> None:
    worlds = make(bundle, 1, config=WorldsConfig(max_steps=3))
    worlds.reset(worlds.all, [1], render=False)
    ends = [worlds.step(worlds.all, np.zeros((1, 3)), render=False) for _ in range(3)]
    assert [bool(step.truncated[0]) for step in ends] == [False, False, True]
    worlds.reset(worlds.all, [1], render=False)
    worlds._facts["goal"][0] = worlds.physics.site("tip", worlds.all)[0]
    step = worlds.step(worlds.all, np.zeros((1, 3)), render=False)
    assert (bool(step.terminated[0]), bool(step.truncated[0]), bool(step.success[0])) == (True, False, True)
    assert step.infos["success_once"][0]
    lasting = make(bundle, 1, config=WorldsConfig(end_on_success=False))
    lasting.reset(lasting.all, [1], render=False)
    lasting._facts["goal"][0] = lasting.physics.site("tip", lasting.all)[0]
    assert not lasting.step(lasting.all, np.zeros((1, 3)), render=False).terminated[0]


def test_the_goal_is_seen_and_not_told(bundle: Bundle) -> None:
    """Two episodes that differ in the goal alone: equal states, different pictures."""
    worlds = make(bundle, 2, config=replace(SEEN, home_noise=0.0))
    step = worlds.reset(worlds.all, [1, 2])
    assert np.array_equal(step.states[0], step.states[1])
    assert step.pictures is not None
    segmentation = step.pictures["front"]["segmentation"]
    goal = worlds.sensors.bodies.index("goal")
    assert ((segmentation == goal).sum((1, 2)) > 5).all()
    assert not np.array_equal(segmentation[0] == goal, segmentation[1] == goal)


def test_pictures_agree_with_the_physics(bundle: Bundle) -> None:
    """Where a body's pixels are, its depth is that of the body; a camera on the arm sees it differently as it moves."""
    worlds = make(bundle, 1, "push_block", SEEN)
    step = worlds.reset(worlds.all, [3])
    assert step.pictures is not None
    camera = worlds.sensors.cameras[0]
    kinds = step.pictures["front"]
    block = worlds.sensors.bodies.index("block")
    rows, columns = np.nonzero(kinds["segmentation"][0] == block)
    assert len(rows) > 8
    center = worlds.physics.position("block", worlds.all)[0]
    seen = np.linalg.inv(camera.T_body_cam) @ [*center, 1]
    pixel = camera.K[:2, :2] @ seen[:2] / seen[2] + camera.K[:2, 2]
    assert np.abs([columns.mean() + 0.5, rows.mean() + 0.5] - pixel).max() < 2.5
    assert np.median(kinds["depth"][0][rows, columns]) == pytest.approx(seen[2], abs=0.05)
    before = step.pictures["wrist"]["rgb"].copy()
    for _ in range(5):
        step = worlds.step(worlds.all, np.array([[1.0, 0.3, 0.0]]))
    assert step.pictures is not None
    assert (np.abs(step.pictures["wrist"]["rgb"].astype(int) - before).max(-1) > 20).mean() > 0.1


def test_arrays_that_were_given_out_are_never_written_again(bundle: Bundle) -> None:
    worlds = make(bundle, 2, config=SEEN)
    kept = worlds.reset(worlds.all, [1, 2])
    assert kept.pictures is not None
    copies = {camera: kinds["rgb"].copy() for camera, kinds in kept.pictures.items()}
    states, goal = kept.states.copy(), kept.infos["goal"].copy()
    worlds.step(worlds.all, actions(2))
    worlds.reset(worlds.all, [3, 4])
    assert np.array_equal(kept.states, states)
    assert np.array_equal(kept.infos["goal"], goal)
    for camera, picture in copies.items():
        assert np.array_equal(kept.pictures[camera]["rgb"], picture)


def test_after_offloading_pictures_are_the_same(bundle: Bundle) -> None:
    worlds = make(bundle, 2, config=SEEN)
    before = worlds.reset(worlds.all, [1, 2]).pictures
    worlds.offload()
    after = worlds.look(worlds.all).pictures
    assert before is not None
    assert after is not None
    assert np.array_equal(before["front"]["rgb"], after["front"]["rgb"])


def test_randomisation_is_of_the_episode_and_told(bundle: Bundle) -> None:
    random = Randomisation(
        camera_shift_m=0.03, camera_turn_deg=3, focal_share=0.05, exposure_share=0.2, mass_share=0.3, friction_share=0.3
    )
    worlds = make(bundle, 3, config=replace(SEEN, randomisation=random))
    step = worlds.reset(worlds.all, [1, 2, 1])
    assert step.pictures is not None
    for name in ("focal", "exposure", "mass", "friction", "T_cam_moved"):
        drawn = step.infos[f"randomised/{name}"]
        assert np.array_equal(drawn[0], drawn[2]), name
        assert not np.array_equal(drawn[0], drawn[1]), name
    for kinds in step.pictures.values():
        assert np.array_equal(kinds["rgb"][0], kinds["rgb"][2])
        assert not np.array_equal(kinds["rgb"][0], kinds["rgb"][1])
    block = worlds.physics.body("block")
    masses = worlds.physics._batch.expanded("body_mass")[:, block]
    assert masses == pytest.approx(0.1 * step.infos["randomised/mass"])
    plain = make(bundle, 1, config=SEEN).reset(np.zeros(1, int), [1])
    assert np.array_equal(plain.infos["goal"][0], step.infos["goal"][0])  # The task's own beginning is the same.


def test_pictures_are_late_by_whole_steps(bundle: Bundle) -> None:
    random = Randomisation(latency_steps=2)
    late, prompt = make(bundle, 4, config=replace(SEEN, randomisation=random)), make(bundle, 4, config=SEEN)
    seen = [each.reset(each.all, [1, 2, 3, 4]) for each in (late, prompt)]
    latency = seen[0].infos["randomised/latency"]
    assert len(set(latency.tolist())) > 1
    history = [seen[1].pictures["wrist"]["rgb"]]  # type: ignore[index]
    for k in range(4):
        moves = actions(4, seed=k)
        now, true = late.step(late.all, moves), prompt.step(prompt.all, moves)
        assert now.pictures is not None
        assert true.pictures is not None
        history.append(true.pictures["wrist"]["rgb"])
        for world in range(4):
            wanted = history[max(0, len(history) - 1 - latency[world])][world]
            assert np.array_equal(now.pictures["wrist"]["rgb"][world], wanted)


def test_a_camera_that_sees_nothing_is_told(bundle: Bundle) -> None:
    away = replace(bundle.cameras[0], name="away", T_body_cam=bundle.cameras[0].T_body_cam @ np.diag([1, -1, -1, 1]))
    config = WorldsConfig(sensors=SensorConfig(cameras=("front", "away")))
    worlds = make(replace(bundle, cameras=(bundle.cameras[0], away)), 2, config=config)
    for step in (worlds.reset(worlds.all, [1, 2]), worlds.step(worlds.all, actions(2))):
        assert step.infos["blank"].tolist() == [[False, True]] * 2
    assert "blank" not in worlds.step(worlds.all, actions(2), render=False).infos


def test_noise_is_the_worlds_own_and_repeats(bundle: Bundle) -> None:
    noisy = replace(SEEN, randomisation=Randomisation(noise=0.02))
    clean = make(bundle, 1, config=SEEN).reset(np.zeros(1, int), [7]).pictures
    drawn = [make(bundle, 2, config=noisy).reset(np.arange(2), [7, 8]).pictures for _ in range(2)]
    assert clean is not None
    assert np.array_equal(drawn[0]["front"]["rgb"], drawn[1]["front"]["rgb"])  # type: ignore[index]
    difference = drawn[0]["front"]["rgb"][0].astype(float) - clean["front"]["rgb"][0]  # type: ignore[index]
    assert difference.std() == pytest.approx(0.02 * 255, rel=0.15)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"control_hz": 30.0}, ConfigError, "whole number of physics steps"),
        ({"control_hz": 0.0}, ConfigError, "control_hz"),
        ({"control": "torque"}, ConfigError, "'ee_delta'"),
        (
            {"sensors": SensorConfig(cameras=("front", "nose"))},
            ConfigError,
            "no camera 'nose'; it has front, side, wrist",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(bundle: Bundle, change: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make(bundle, 1, config=WorldsConfig(**change))


def test_what_the_bundle_lacks_is_named(bundle: Bundle) -> None:
    with pytest.raises(TaskError, match="has none"):
        make(replace(bundle, robot=None))
    with pytest.raises(TaskError, match="needs an object"):
        make(replace(bundle, objects=()), task="push_block")
    with pytest.raises(TaskError, match="area="):
        make(replace(bundle, objects=()))
    assert bundle.robot is not None
    with pytest.raises(BundleError, match="no site 'hand'; it has tip"):
        make(replace(bundle, robot=replace(bundle.robot, site="hand")))
    with pytest.raises(ConfigError, match="at least one world"):
        make(bundle, 0)
    with pytest.raises(TaskError, match="did you mean 'reach'"):
        make_task("raech")
    with pytest.raises(TaskError, match="no option 'tolerance'"):
        make_task("reach", tolerance=1)


def test_push_block_is_won_where_the_goal_is(bundle: Bundle) -> None:
    worlds = make(bundle, 4, "push_block")
    step = worlds.reset(worlds.all, [1, 2, 3, 4], render=False)
    blocks, goals = worlds.physics.position("block", worlds.all), step.infos["goal"]
    assert (np.linalg.norm((blocks - goals)[:, :2], axis=1) >= 0.12).all()
    assert not step.success.any()
    others = worlds.physics.position("other", worlds.all)
    assert (np.linalg.norm((blocks - others)[:, :2], axis=1) > 0.05).all()
    worlds.physics._qpos[:, worlds.physics._address("block_joint")][:, :2] = 0
    for world in range(4):
        worlds.physics._qpos[world, worlds.physics._address("block_joint").start :][:2] = goals[world, :2]
    won = worlds.step(worlds.all, np.zeros((4, 3)), render=False)
    assert won.success.all()
    assert won.terminated.all()
    assert (won.rewards > 0).all()
