"""Finds the commands, runs one, and turns errors into a line and an exit code."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from recon4d import __version__
from recon4d.commands import run

COMMANDS = {
    "bundle": "simbridge.commands._bundle:bundle",
    "check": "simbridge.commands._check:check",
    "evaluate": "simbridge.commands._evaluate:evaluate",
    "compare": "simbridge.commands._compare:compare",
}
"""Command -> "module:function": annotated arguments, returns an exit code. Imported only when called."""
_DESCRIPTION = f"""Turns a reconstructed scene into an environment for reinforcement learning and evaluation, and
says how well success there tells success in reality.
Version {__version__}."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    Args:
        arguments: without the program's name; None takes the process's.
    """
    return run(commands, "simbridge", _DESCRIPTION, arguments, extras={"mujoco": "sim"})


def commands() -> dict[str, Callable[..., int]]:
    """Every command by name. Their modules import what they need only when they run."""
    return {name: _load(target) for name, target in COMMANDS.items()}


def _load(target: str) -> Callable[..., int]:
    module, name = target.split(":")
    return getattr(importlib.import_module(module), name)
