"""The device that a command is told to compute on."""

from __future__ import annotations

from recon4d.errors import BackendError


def usable(device: str) -> str:
    """The device's name again, when torch can put a tensor there and read it back.

    Raises:
        BackendError: it is no device, or this machine or this build of torch does not have it.
    """
    import torch

    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:  # torch has no one error for this.
        reason = str(error).splitlines()[0].rstrip(".")
        raise BackendError(f"device '{device}' cannot be used here: {reason}; the default is cpu") from error
    return device
