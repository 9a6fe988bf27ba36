"""What a reconstruction is told."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from recon4d.capture import IngestConfig
from recon4d.errors import ConfigError
from recon4d.score import ScoreConfig
from recon4d.train import FitConfig, Preset, preset
from recon4d.types import SplitRule


@dataclass(frozen=True, kw_only=True)
class ReconstructConfig:
    """One configuration object a stage."""

    ingest: IngestConfig = field(default_factory=IngestConfig)
    fit: FitConfig = field(default_factory=FitConfig)
    score: ScoreConfig = field(default_factory=ScoreConfig)
    split: SplitRule | None = None
    """What is held out; None follows the capture's own rule."""
    heldout_cameras: tuple[str, ...] | None = None
    """Cameras that the rule is to hold out instead of its own; None leaves it as it is."""
    videos: bool = True
    """Whether to film the scene for the report."""

    @classmethod
    def of(cls, name: Preset) -> ReconstructConfig:
        """The configuration of a preset."""
        return cls(fit=preset(name))

    def rule(self, own: SplitRule) -> SplitRule:
        """What is held out of a capture with a rule of its own."""
        rule = self.split or own
        return rule if self.heldout_cameras is None else replace(rule, heldout_cameras=self.heldout_cameras)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def with_value(self, assignment: str) -> ReconstructConfig:
        """A copy with one value changed, written ``fit.joint.steps=5000``.

        Raises:
            ConfigError: no such field, or a value of another kind; names what there is.
        """
        path, separator, text = assignment.partition("=")
        if not separator:
            raise ConfigError(f"'{assignment}' is no assignment; write NAME=VALUE, for example fit.joint.steps=5000")
        return _assign(self, path.strip().split("."), text.strip(), path.strip())


def _assign(config: Any, path: list[str], text: str, full: str) -> Any:  # Any config dataclass.
    name, rest = path[0], path[1:]
    known = vars(config)
    if name not in known:
        raise ConfigError(f"no configuration field '{full}'; '{name}' is none of {', '.join(sorted(known))}")
    value = known[name]
    if hasattr(value, "__dataclass_fields__"):
        if not rest:
            raise ConfigError(f"'{full}' is a group; it holds {', '.join(sorted(vars(value)))}")
        return _replaced(config, name, _assign(value, rest, text, full), full)
    if rest:
        raise ConfigError(f"'{full}': '{name}' is a value and holds no fields")
    return _replaced(config, name, _parse(value, text, full), full)


def _replaced(config: Any, name: str, value: Any, full: str) -> Any:
    try:
        return replace(config, **{name: value})
    except ValueError as error:  # What records of other rooms say of a value out of range.
        raise ConfigError(f"{full}: {error}") from error


def _parse(present: Any, text: str, full: str) -> Any:  # Whatever kind the present value has.
    words = {"true": True, "false": False}
    try:
        if isinstance(present, bool):
            return words[text.lower()]
        if isinstance(present, int):
            return int(text)
        if isinstance(present, float):
            value = float(text)
            if math.isfinite(value):
                return value
            raise ConfigError(f"{full} must be finite; it is '{text}'")
    except (ValueError, KeyError):
        raise ConfigError(
            f"{full} must be of the kind {type(present).__name__}, like {present}; it is '{text}'"
        ) from None
    if isinstance(present, str):
        return text
    raise ConfigError(f"{full} cannot be set this way; it is {present!r}")
