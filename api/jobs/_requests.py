"""What a reconstruction is asked for, and the engine's configuration that it means."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from api.errors import Problem
from api.settings import Settings
from recon4d.errors import ConfigError

if TYPE_CHECKING:
    from recon4d.reconstruct import ReconstructConfig

PRESETS = ("fast", "balanced", "quality")


def config_of(request: Mapping[str, Any]) -> ReconstructConfig:
    """The configuration of a request with ``preset``, ``options`` and ``heldout_cameras``.

    Raises:
        ConfigError: an option is unknown or out of range.
    """
    from recon4d.reconstruct import ReconstructConfig

    config = ReconstructConfig.of(request["preset"])
    for name, value in request["options"].items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        config = config.with_value(f"{name}={text}")
    if request["heldout_cameras"] is not None:
        config = replace(config, heldout_cameras=tuple(request["heldout_cameras"]))
    return config


def check_request(settings: Settings, request: Mapping[str, Any], cameras: Collection[str]) -> None:
    """Looks at a request before it is queued.

    Args:
        cameras: names of those that the capture has.

    Raises:
        Problem: 422, an option that the engine does not take, a slot that this service does not have, or a camera
            that the capture does not have.
    """
    slot = request["slot"]
    if slot is not None and slot not in settings.slots:
        known = ", ".join(settings.slots)
        raise Problem(
            422, "unknown-slot", f"there is no slot '{slot}'; there are {known}", hint="Leave it out for any."
        )
    for camera in request["heldout_cameras"] or ():
        if camera not in cameras:
            detail = f"heldout_cameras names '{camera}'; the capture has {', '.join(cameras)}"
            raise Problem(422, "config", detail, camera=camera)
    try:
        config_of(request)
    except ConfigError as error:
        raise Problem(422, "config", str(error), hint="GET /v1/options lists what can be set, and to what.") from error
