"""RLinf's stock environment worker and evaluation runner over a bundle, on a machine without an accelerator.

RLINF_EXT_MODULE=simbridge.adapters.rlinf python -m tests.simbridge.adapters.rlinf_driver CONFIG BUNDLE OUT.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from rlinf.config import validate_cfg
from rlinf.runners.embodied_eval_runner import EmbodiedEvalRunner
from rlinf.scheduler import Cluster
from rlinf.utils.placement import HybridComponentPlacement
from rlinf.workers.env.env_worker import EnvWorker
from rlinf.workers.rollout.hf.huggingface_worker import MultiStepRolloutWorker

from simbridge.bundle import load


class _NoAccelerator:
    """What a rollout worker asks of an accelerator, answered for the CPU."""

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def is_available(self) -> bool:
        return False

    def is_initialized(self) -> bool:
        return False

    def empty_cache(self) -> None:
        pass

    synchronize = ipc_collect = empty_cache


class CpuRolloutWorker(MultiStepRolloutWorker):
    def __init__(self, cfg: Any) -> None:
        self.torch_platform = _NoAccelerator()
        super().__init__(cfg)


def main(config: Path, bundle: Path, out: Path) -> None:
    torch.manual_seed(0)
    robot = load(bundle).robot
    assert robot is not None
    cfg = OmegaConf.load(config)
    cfg.env.eval.init_params.bundle = str(bundle)
    cfg.rollout.model.obs_dim = len(robot.joints) + 3
    cfg.rollout.model.action_dim = len(robot.actuators)
    cfg.runner.logger.log_path = str(out.parent)
    cfg = validate_cfg(cfg)
    cluster = Cluster(cluster_cfg=cfg.cluster)
    placement = HybridComponentPlacement(cfg, cluster)
    groups = {}
    for name, worker in (("rollout", CpuRolloutWorker), ("env", EnvWorker)):
        strategy = placement.get_strategy(name)
        launched = worker.create_group(cfg).launch(cluster, name=cfg[name].group_name, placement_strategy=strategy)
        groups[name] = launched
    runner = EmbodiedEvalRunner(cfg=cfg, rollout=groups["rollout"], env=groups["env"])
    runner.init_workers()
    metrics = runner.evaluate()
    out.write_text(json.dumps({name: float(value) for name, value in metrics.items()}), "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
