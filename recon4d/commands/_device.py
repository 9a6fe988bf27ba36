"""The device that a command is told to compute on."""

from __future__ import annotations

from recon4d.errors import AcceleratorError


def usable(device: str) -> str:
    """The torch device that an accelerator's name or a torch device string means, once a tensor came back from it.

    From then on rasterizers are those that are the fastest there; the first time on a machine that is tried out.

    Raises:
        AcceleratorError: nothing is called so, it is not there, or it is there and does not work.
        BackendError: no rasterizer works there.
    """
    import torch

    from recon4d.accelerators import resolve
    from recon4d.raster import choose, prefer

    found = resolve(device)
    try:
        torch.zeros(1, device=found.torch_device).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:  # torch has no one error for this.
        lines = str(error).splitlines() or [type(error).__name__]
        raise AcceleratorError(
            f"device '{device}' cannot be used here: {found.name} is there, but a tensor put on it does not come back:"
            f" {lines[0].rstrip('.')}. Look at its driver, or choose another one of 'recon4d accelerators list'"
        ) from error
    target = torch.device(found.torch_device)
    if target.type != "cpu":
        choice = choose(
            target, preferred=found.accelerator.rasterizers, key=choice_key(found.accelerator.name, found.model)
        )
        prefer(target.type, choice.backend)
    return found.torch_device


def choice_key(accelerator: str, model: str) -> str:
    """Under what the choice of a rasterizer is remembered."""
    return f"{accelerator} {model}"
