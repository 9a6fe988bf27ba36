"""Every error that this package raises on purpose.

    Recon4DError
    ├── CaptureError            a capture folder or one of its videos cannot be used
    │   └── CalibrationError    a camera's K, distortion, size or pose cannot be used
    ├── ConfigError             an option or a configuration value is out of range
    ├── SceneError              a scene folder is missing, damaged or of an unknown version
    ├── OutputError             the output folder cannot be written, or is in use
    ├── BackendError            a rasterizer or loss cannot be used here
    ├── AcceleratorError        there is no such accelerator here, or not so many devices
    ├── MissingExtraError       an optional package is not installed
    ├── TrainingDiverged        a loss or gradient stopped being finite
    └── Stopped                 work ended on request, with a checkpoint to resume from

A message says what was wrong, the value found, what is allowed and what to do. The command line prints it
without a traceback and exits with ``exit_code``.
"""

from __future__ import annotations


class Recon4DError(Exception):
    """Root of the tree; ``exit_code`` is what the command line exits with."""

    exit_code = 1


class CaptureError(Recon4DError):
    """A capture cannot be used. Names the camera and the file where there is one."""

    exit_code = 3

    def __init__(self, message: str, *, camera: str | None = None, file: str | None = None) -> None:
        where = ", ".join(part for part in (camera and f"camera '{camera}'", file) if part)
        super().__init__(f"{where}: {message}" if where else message)
        self.camera = camera
        self.file = file
        self.reason = message


class CalibrationError(CaptureError):
    """A camera's K, distortion, size or pose cannot be used."""


class ConfigError(Recon4DError):
    """An option or a configuration value is out of range."""

    exit_code = 2


class SceneError(Recon4DError):
    """A scene folder is missing, damaged or of an unknown version."""

    exit_code = 4


class OutputError(Recon4DError):
    """The output folder cannot be written, or another run uses it."""

    exit_code = 5


class BackendError(Recon4DError):
    """A rasterizer or loss cannot be used here, or not on the tensors' device."""

    exit_code = 6


class AcceleratorError(Recon4DError):
    """There is no accelerator of that name here, it has not so many devices, or its variables cannot be read."""

    exit_code = 6


class MissingExtraError(Recon4DError):
    """An optional package is not installed."""

    exit_code = 6

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package '{package}'; install it with: pip install 'recon4d[{extra}]'")


class TrainingDiverged(Recon4DError):
    """A loss or gradient stopped being finite and rolling back did not help."""

    exit_code = 7

    def __init__(self, *, step: int, tensor: str, advice: str) -> None:
        super().__init__(f"training diverged at step {step}: '{tensor}' is not finite; {advice}")
        self.step = step
        self.tensor = tensor


class Stopped(Recon4DError):
    """Work ended on request; what was reached is saved and can be resumed."""

    exit_code = 130
