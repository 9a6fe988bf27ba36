"""Many simulations of one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mujoco
import numpy as np
from mujoco.batch import Batch
from scipy.spatial.transform import Rotation

from simbridge.errors import BundleError

_BEGINNING_S = 1.0
"""MuJoCo's clock at the beginning of an episode. It resets a simulation that became unstable, its clock to 0, without
an error: a clock that has gone back tells."""
_POSITIONS = mujoco.mjtStage.mjSTAGE_POS
"""Poses lag one substep behind the state unless they are computed anew after a step."""


class Physics:
    """W simulations, stepped together on threads.

    Args:
        model: what each of them simulates.
        count: W.
        threads: 0 takes all CPUs.
    """

    def __init__(self, model: mujoco.MjModel, count: int, threads: int = 0) -> None:
        self.model = model
        self.count = count
        self._batch = Batch(model, count, nthread=threads)
        self._qpos, self._qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        self._ctrl, self._time = self._batch.bind("ctrl"), self._batch.bind("time")
        self._xpos, self._xquat = self._batch.bind("xpos"), self._batch.bind("xquat")
        self._site_xpos = self._batch.bind("site_xpos")
        self._mocap_pos, self._mocap_quat = self._batch.bind("mocap_pos"), self._batch.bind("mocap_quat")

    def reset(
        self,
        ids: np.ndarray,
        joints: Sequence[Mapping[str, np.ndarray]],
        mocap: Sequence[Mapping[str, np.ndarray]],
        ctrl: np.ndarray,
    ) -> None:
        """Puts simulations ``ids`` [n] to a beginning: positions by joint, poses (xyz, wxyz) by mocap body, and
        control [n, A]. What is not named is the model's default; velocities are 0."""
        self._batch.reset(ids=ids, stage=mujoco.mjtStage.mjSTAGE_NONE)
        for i, positions, bodies in zip(ids, joints, mocap, strict=True):
            for name, value in positions.items():
                self._qpos[i, self._address(name)] = value
            for name, pose in bodies.items():
                slot = int(self.model.body_mocapid[self.body(name)])
                self._mocap_pos[i, slot], self._mocap_quat[i, slot] = pose[:3], pose[3:]
        self._ctrl[ids], self._time[ids] = ctrl, _BEGINNING_S
        self._batch.forward(ids=ids)

    def step(self, ids: np.ndarray, ctrl: np.ndarray, substeps: int) -> np.ndarray:
        """Advances simulations ``ids`` [n] under control [n, A].

        Returns:
            [n] bool: which of them became unstable. MuJoCo resets those to the model's default without an error.
        """
        before = self._time[ids].copy()
        self._ctrl[ids] = ctrl
        self._batch.step(ids=ids, nstep=substeps, stage=_POSITIONS)
        return self._time[ids] < before

    def expand(self, field: str) -> np.ndarray:
        """[W, ...] a field of the model with a value of its own in each simulation."""
        return self._batch.expand(field)

    def set_const(self) -> None:
        """Brings up to date what MuJoCo derives from fields that were changed."""
        self._batch.set_const()

    def poses(self, bodies: Sequence[int], ids: np.ndarray) -> np.ndarray:
        """[n, B, 4, 4] float64, body to world."""
        T = np.zeros((len(ids), len(bodies), 4, 4))
        rows = ids[:, None], np.asarray(bodies, np.int64)
        quats = self._xquat[rows].reshape(-1, 4)
        T[..., :3, :3] = Rotation.from_quat(quats, scalar_first=True).as_matrix().reshape(*T.shape[:2], 3, 3)
        T[..., :3, 3] = self._xpos[rows]
        T[..., 3, 3] = 1
        return T

    def position(self, body: str, ids: np.ndarray) -> np.ndarray:
        """[n, 3] metres, where a body is."""
        return self._xpos[ids, self.body(body)].copy()

    def site(self, name: str, ids: np.ndarray) -> np.ndarray:
        """[n, 3] metres, where a site is."""
        return self._site_xpos[ids, self._find(mujoco.mjtObj.mjOBJ_SITE, name, "site")].copy()

    def joints(self, names: Sequence[str], ids: np.ndarray) -> np.ndarray:
        """[n, J] positions of joints of one degree of freedom, rad or m."""
        return self._qpos[ids][:, [self._address(name).start for name in names]]

    def jacobian(self, site: str, joints: Sequence[str], ids: np.ndarray) -> np.ndarray:
        """[n, 3, J], how a site moves with joints of one degree of freedom."""
        number = self._find(mujoco.mjtObj.mjOBJ_SITE, site, "site")
        body = int(self.model.site_bodyid[number])
        linear, _ = self._batch.jac(body, self._site_xpos[ids, number], ids=ids)
        return linear[:, :, [int(self.model.jnt_dofadr[self._joint(name)]) for name in joints]]

    def body(self, name: str) -> int:
        """A body's number.

        Raises:
            BundleError: there is none of that name.
        """
        return self._find(mujoco.mjtObj.mjOBJ_BODY, name, "body")

    def actuators(self, names: Sequence[str]) -> list[int]:
        """Numbers of actuators."""
        return [self._find(mujoco.mjtObj.mjOBJ_ACTUATOR, name, "actuator") for name in names]

    def close(self) -> None:
        """Lets go of the simulations."""
        for name in [name for name in vars(self) if name.startswith("_")]:
            setattr(self, name, None)

    def _joint(self, name: str) -> int:
        return self._find(mujoco.mjtObj.mjOBJ_JOINT, name, "joint")

    def _address(self, joint: str) -> slice:
        number = self._joint(joint)
        width = {0: 7, 1: 4}.get(int(self.model.jnt_type[number]), 1)
        start = int(self.model.jnt_qposadr[number])
        return slice(start, start + width)

    def _find(self, kind: mujoco.mjtObj, name: str, word: str) -> int:
        number = mujoco.mj_name2id(self.model, kind, name)
        if number < 0:
            counts = {"body": self.model.nbody, "site": self.model.nsite, "joint": self.model.njnt}
            known = [mujoco.mj_id2name(self.model, kind, i) for i in range(counts.get(word, self.model.nu))]
            raise BundleError(f"the model has no {word} '{name}'; it has {', '.join(map(str, known)) or 'none'}")
        return number
