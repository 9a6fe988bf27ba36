"""What a fit is told. Every value is saved, resolved, with the run."""

from __future__ import annotations

import types
import typing
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal, get_args

from recon4d.errors import ConfigError
from recon4d.loss import LossTerms
from recon4d.points import DynamicSeedConfig, ForegroundConfig

Preset = Literal["fast", "balanced", "quality"]


@dataclass(frozen=True, kw_only=True)
class RateConfig:
    """Learning rates of one pool at the first step. All decay to a tenth over a stage."""

    means: float
    """Positions; per step, as a share of the workspace's distance (a scene twice as large moves twice as far)."""
    quats: float = 5e-3
    scales: float = 2e-2
    """Logarithm of the standard deviations."""
    opacities: float = 5e-2
    """Logits."""
    colors: float = 1e-2
    """The constant term, in units of colour."""
    sh_share: float = 0.3
    """Rate of the higher harmonics, as a share of ``colors``."""
    velocities: float = 1e-2
    """Per second, as a share of the workspace's distance. Dynamic rows only, like the next two."""
    centers: float = 3e-3
    """Seconds."""
    durations: float = 2e-2
    """Logarithms of flat radius and tail."""


@dataclass(frozen=True, kw_only=True)
class StaticConfig:
    """The static fit: temporal-median images only."""

    count: int = 36_000
    """Gaussians of the static pool."""
    steps: int = 1600
    """One view each."""
    rates: RateConfig = field(default_factory=lambda: RateConfig(means=1e-3))
    settled_spread: float = 0.04
    """Temporal standard deviation at which a pixel's weight is one half: what moves must not leak in."""
    least_weight: float = 0.02
    """Weight of pixels that never settle, so that the hole behind them is still filled."""
    opacity_cost: float = 1e-2
    """Of the mean opacity: removes Gaussians that no view needs."""


@dataclass(frozen=True, kw_only=True)
class JointConfig:
    """The joint fit of both pools on video frames."""

    steps: int = 14_000
    """One frame of one camera each."""
    rates: RateConfig = field(default_factory=lambda: RateConfig(means=1.5e-3))
    """Of the dynamic pool."""
    static_rates: RateConfig = field(
        default_factory=lambda: RateConfig(means=3.75e-4, quats=1.5e-2, scales=6e-2, opacities=0.15, colors=3e-2)
    )
    """The static pool must keep learning fast here, its positions excepted: holding it back cost 0.5 dB."""
    whole_every: int = 4
    """Every how many steps the whole image is drawn; the others draw the box around what moves."""
    opacity_cost: float = 3.3e-6
    """Per living dynamic Gaussian: opacity must be earned (FreeTimeGS, Wang et al. 2025)."""
    checkpoint_every: int = 2000
    """Steps between checkpoints on disk."""


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """Everything that decides a fit's outcome, together with the capture and the device."""

    seed: int = 0
    """Of every random choice; results are bit-equal for a seed, whatever the number of CPU threads."""
    sh_degree: int = 1
    """Of the spherical harmonics, 0 to 3. Few cameras cannot tell more from free colours per camera."""
    key_hz: float = 10.0
    """Key frames a second: seeds come from them."""
    train_hz: float = 10.0
    """Frames a second that the joint fit visits; each is drawn at its own time."""
    loss: LossTerms = field(default_factory=lambda: LossTerms(l1=0.8, ssim=0.2, l2=10.0))
    ssim_every: int = 4
    """Every how many steps the SSIM term takes part."""
    backend: str = "auto"
    """Rasterizer; "auto" takes the one that suits the device."""
    static: StaticConfig = field(default_factory=StaticConfig)
    foreground: ForegroundConfig = field(default_factory=ForegroundConfig)
    seeds: DynamicSeedConfig = field(default_factory=DynamicSeedConfig)
    joint: JointConfig = field(default_factory=JointConfig)

    def __post_init__(self) -> None:
        _require("seed", self.seed, 0, 2**63 - 1)
        _require("sh_degree", self.sh_degree, 0, 3)
        _require("key_hz", self.key_hz, 0.1, 1000)
        _require("train_hz", self.train_hz, 0.1, 1000)
        _require("ssim_every", self.ssim_every, 1, 1_000_000)
        _require("static.count", self.static.count, 1, 5_000_000)
        _require("static.steps", self.static.steps, 1, 10_000_000)
        _require("seeds.count", self.seeds.count, 0, 5_000_000)
        _require("joint.steps", self.joint.steps, 1, 10_000_000)
        _require("joint.whole_every", self.joint.whole_every, 1, 1_000_000)
        _require("joint.checkpoint_every", self.joint.checkpoint_every, 1, 10_000_000)

    def to_json(self) -> dict[str, Any]:
        """Nested dictionaries of plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FitConfig:
        """The inverse of ``to_json``.

        Raises:
            ConfigError: a field is unknown.
        """
        return _build(cls, data, "")


def preset(name: Preset) -> FitConfig:
    """The configuration of a named preset.

    Raises:
        ConfigError: there is no such preset.
    """
    if name not in get_args(Preset):
        raise ConfigError(f"no preset '{name}'; there are {', '.join(get_args(Preset))}")
    return _PRESETS[name]


def _require(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}; it must lie between {low} and {high}")


def _build(cls: type, data: dict[str, Any], path: str) -> Any:  # A dataclass of any kind.
    known = {f.name for f in fields(cls)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ConfigError(f"unknown configuration field '{path}{unknown[0]}'; there are {', '.join(sorted(known))}")
    hints = typing.get_type_hints(cls)
    return cls(
        **{
            name: _build(hints[name], value, f"{path}{name}.")
            if is_dataclass(hints[name])
            else _plain(hints[name], value)
            for name, value in data.items()
        }
    )


def _plain(hint: Any, value: Any) -> Any:  # JSON has no tuples.
    is_tuple = typing.get_origin(hint) is tuple or isinstance(hint, types.GenericAlias)
    return tuple(value) if is_tuple and isinstance(value, list) else value


_PRESETS: dict[str, FitConfig] = {
    "fast": FitConfig(
        static=StaticConfig(count=18_000, steps=900),
        seeds=DynamicSeedConfig(count=25_000),
        joint=JointConfig(steps=3000),
    ),
    "balanced": FitConfig(),
    "quality": FitConfig(
        static=StaticConfig(count=45_000, steps=2400),
        seeds=DynamicSeedConfig(count=90_000),
        joint=JointConfig(steps=22_000),
    ),
}
