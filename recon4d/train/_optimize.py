"""One step of gradient descent, and the guard around rounds of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recon4d.errors import TrainingDiverged
from recon4d.geometry import SH_C0, SH_C1
from recon4d.loss import LossTerms, image_loss
from recon4d.model import Gaussians4D, RowAdam
from recon4d.raster import rasterize
from recon4d.train._ahead import ROOM, Prepared, on_device, with_room
from recon4d.train._config import RateConfig
from recon4d.types import Camera, Cameras

Color = tuple[float, float, float]

ROUND = 100
"""Steps between looks at the numbers: each look makes a device wait for its queue."""
_ROLLBACKS = 3
_BEHIND = 4  # Random stream of the colours behind everything; the fit's seed uses 1 to 3.
_HARMONIC_LIMIT = 0.1  # Of the colour, a channel and harmonic.
_LARGEST = 0.2  # Standard deviation, as a share of the workspace's distance.
_LONGEST = 15.0  # Longest over shortest axis.


@dataclass(frozen=True, kw_only=True)
class View:
    """What one step looks at."""

    camera: Camera
    """Possibly a crop of one."""
    time_s: float
    target: Tensor
    """[H, W, 3] uint8."""
    weight: Tensor | None
    """[H, W] float32, or None for 1 everywhere."""
    pixels: int
    """Of the whole image: a crop's loss keeps the whole image's scale."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Price of opacity, per living Gaussian."""

    static: float = 0.0
    dynamic: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step to make."""

    number: int
    """Decides the colour behind everything. A random one at every step keeps surfaces from turning transparent and
    letting a colour that suits them shine through."""
    view: View
    terms: LossTerms
    costs: Costs
    decay: float
    """Factor on the learning rates."""


class Descent:
    """A model, its optimizer and the present learning rates.

    Numbers are looked at once a round; on an accelerator a round begins with a survey, and its steps never wait for
    the device. When a loss or a parameter has stopped being finite, the last good round
    is restored and the rates are halved; after three times in a row the fit gives up.
    """

    def __init__(
        self,
        model: Gaussians4D,
        rates: tuple[RateConfig, RateConfig],
        distance_m: float,
        background: Color,
        backend: str = "auto",
    ) -> None:
        self.model = model
        self.background = background
        self.backend = backend
        self.surveys = model.device.type != "cpu"
        """Whether rounds begin with a survey. It changes what is computed by no more than rounding."""
        self._distance_m = distance_m
        self.optimizer = RowAdam(model.params)
        self._static_rates = _rate_vector(model, rates[0], distance_m)
        self._dynamic_rates = _rate_vector(model, rates[1], distance_m)
        self._brake = 1.0
        self._failures = 0
        self.losses = np.zeros(0, np.float32)
        """Of each step of the round that was looked at last."""
        self._losses: list[Tensor] = []
        self._overflows: list[Tensor] = []
        self._good = self._snapshot()

    def round(self, steps: Iterable[Step]) -> list[int]:
        """Makes up to ``ROUND`` steps. Returns how many Gaussians were alive and in view in each."""
        if not self.surveys:
            return [self._step(step, None) for step in steps]
        steps, room = list(steps), ROOM
        cameras, times_s = [step.view.camera for step in steps], [step.view.time_s for step in steps]
        colors = np.array([_color_behind(step.number) for step in steps])
        prepared = on_device(cameras, colors, self.model.device)
        while True:
            ready = with_room(self.model, times_s, prepared, room, self.backend)
            self._overflows = []
            for step, seen in zip(steps, ready, strict=True):
                self._step(step, seen)
            if not (self._overflows and bool(torch.stack(self._overflows).any())):
                return [seen.kept for seen in ready]
            # Something grew out of its room during the round: made again with more.
            self._restore()
            self._losses = []
            room *= 2

    def _step(self, step: Step, ready: Prepared | None) -> int:
        """Draws the step's view, and moves what it shows. Returns how many Gaussians were taken."""
        view, costs = step.view, step.costs
        slice_ = self.model.slice(
            view.time_s,
            view.camera if ready is None else None,
            view=None if ready is None else ready.view,
            opacity_cost=costs.dynamic,
            static_opacity_cost=costs.static,
            room=None if ready is None else ready.room,
        )
        drawn = rasterize(
            slice_.splats,
            Cameras.of(view.camera, device=self.model.device) if ready is None else ready.cameras,
            background=_color_behind(step.number) if ready is None else ready.background,
            backend=self.backend,
            outputs=("rgb",),
            plans=None if ready is None else ready.plans,
        )
        assert drawn.rgb is not None
        loss = image_loss(drawn.rgb[0], view.target, weight=view.weight, terms=step.terms, pixels=view.pixels)
        loss.backward()
        scale = step.decay * self._brake
        self.optimizer.step(
            slice_.rows,
            slice_.gradient(),
            self._static_rates * scale,
            self._dynamic_rates * scale,
            self.model.n_static,
        )
        self._losses.append(loss.detach())
        if ready is not None and slice_.kept is not None:
            self._overflows.append(slice_.kept > len(slice_))
        if drawn.overflow is not None:
            self._overflows.append(drawn.overflow)
        return len(slice_)

    def end_round(self, step: int) -> tuple[float, bool]:
        """Looks at a round's numbers. Returns its mean loss and whether they were good.

        Args:
            step: how many steps the stage has made; a bad round is to be made again.

        Raises:
            TrainingDiverged: rolling back did not help.
        """
        self.losses = losses = torch.stack(self._losses).cpu().numpy()
        self._losses = []
        culprit = self._not_finite(losses, step)
        if culprit is None:
            _keep_plausible(self.model, self._distance_m)
            self._failures = 0
            self._good = self._snapshot()
            return float(losses.mean()), True
        self._failures += 1
        if self._failures > _ROLLBACKS:
            raise TrainingDiverged(
                step=culprit[0],
                tensor=culprit[1],
                advice=f"{_ROLLBACKS} restarts from the last good round at ever lower rates did not help;"
                " look for broken frames or calibration with 'recon4d check', or lower the learning rates",
            )
        self._restore()
        self._brake *= 0.5
        return float("nan"), False

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors by name: all that is needed to go on."""
        state = {f"optimizer.{name}": value for name, value in self.optimizer.state_dict().items()}
        return {"params": self.model.params, "brake": torch.tensor([self._brake], dtype=torch.float64), **state}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.model.params.copy_(state["params"])
        self._brake = float(state["brake"][0])
        prefix = "optimizer."
        self.optimizer.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
        self._good = self._snapshot()

    def _not_finite(self, losses: np.ndarray, step: int) -> tuple[int, str] | None:
        bad = np.flatnonzero(~np.isfinite(losses))
        if len(bad):
            return step - len(losses) + int(bad[0]) + 1, "loss"
        finite = torch.isfinite(self.model.params).all(0).cpu()
        if bool(finite.all()):
            return None
        column = int(torch.nonzero(~finite)[0])
        name = next(name for name, part in self.model.layout.columns.items() if part.start <= column < part.stop)
        return step, name

    def _snapshot(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.state_dict().items()}

    def _restore(self) -> None:
        brake = self._brake
        self.load_state_dict(self._good)
        self._brake = brake


def _color_behind(step: int) -> Color:
    """The random colour behind everything at a step."""
    red, green, blue = np.random.default_rng([_BEHIND, step]).random(3).tolist()
    return red, green, blue


def _keep_plausible(model: Gaussians4D, distance_m: float) -> None:
    """Brings back values that training views do not forbid but that no surface has, and other views would show.

    Colours stay in [0, 1], harmonics faint, Gaussians no needles and no larger than a share of the workspace.
    """
    columns, params = model.layout.columns, model.params
    params[:, columns["sh_dc"]].clamp_(-0.5 / SH_C0, 0.5 / SH_C0)
    params[:, columns["sh_rest"]].clamp_(-_HARMONIC_LIMIT / SH_C1, _HARMONIC_LIMIT / SH_C1)
    scales = params[:, columns["log_scale"]]
    scales.clamp_max_(math.log(_LARGEST * distance_m))
    scales.copy_(torch.maximum(scales, scales.amax(1, keepdim=True) - math.log(_LONGEST)))


def _rate_vector(model: Gaussians4D, rates: RateConfig, distance_m: float) -> Tensor:
    """[D] learning rates, one a parameter column."""
    return model.layout.vector(
        mean=rates.means * distance_m,
        quat=rates.quats,
        log_scale=rates.scales,
        logit_opacity=rates.opacities,
        sh_dc=rates.colors / SH_C0,
        sh_rest=rates.colors * rates.sh_share,
        velocity=rates.velocities * distance_m,
        center=rates.centers,
        log_radius=rates.durations,
        log_tail=rates.durations,
    ).to(model.device)
