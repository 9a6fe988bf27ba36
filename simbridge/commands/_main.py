"""Finds the commands, runs one, and turns errors into a line and an exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

import tyro

from recon4d import __version__
from recon4d.errors import MissingExtraError, Recon4DError

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
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments in (["--version"], ["-V"]):
        print(f"simbridge {__version__}")
        return 0
    try:
        return tyro.extras.subcommand_cli_from_dict(
            commands(), prog="simbridge", description=_DESCRIPTION, args=arguments, sort_subcommands=False
        )
    except Recon4DError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if error.name != "mujoco":
            raise
        missing = MissingExtraError("mujoco", "sim", "simbridge")
        print(f"error: {missing}", file=sys.stderr)
        return missing.exit_code
    except KeyboardInterrupt:
        print("aborted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # The reader of our output went away, as `head` does.
        sys.stderr.close()
        return 141


def commands() -> dict[str, Callable[..., int]]:
    """Every command by name. Their modules import what they need only when they run."""
    return {name: _load(target) for name, target in COMMANDS.items()}


def _load(target: str) -> Callable[..., int]:
    module, name = target.split(":")
    return getattr(importlib.import_module(module), name)
