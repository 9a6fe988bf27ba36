"""Finds the commands, runs one, and turns errors into a line and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import entry_points

import tyro

from recon4d import __version__
from recon4d.commands._accelerators import accelerators
from recon4d.commands._calibrate import calibrate
from recon4d.commands._check import check
from recon4d.commands._import import convert_calibration, import_
from recon4d.commands._look import export, render, score
from recon4d.commands._reconstruct import reconstruct
from recon4d.commands._sync import sync
from recon4d.commands._view import view
from recon4d.errors import ConfigError, MissingExtraError, OutputError, Recon4DError

ENTRY_POINTS = "recon4d.commands"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
"""What the system answers where nothing more can be written."""
_DESCRIPTION = f"""Turns videos of a workbench from several fixed cameras into a dynamic 4D Gaussian scene.
Version {__version__}.

A capture folder holds capture.json and one video a camera; see the README, or start from 'recon4d import'."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    Args:
        arguments: without the program's name; None takes the process's.
    """
    return run(commands, "recon4d", _DESCRIPTION, arguments)


def run(
    table: Callable[[], dict[str, Callable[..., int]]],
    program: str,
    description: str,
    arguments: Sequence[str] | None = None,
    *,
    extras: Mapping[str, str] | None = None,
) -> int:
    """Runs one of a program's commands: an error of ours becomes a line and its exit code, Ctrl-C becomes 130.

    Args:
        table: gives the commands by name, annotated functions that return an exit code.
        program: its name.
        description: what its help begins with.
        arguments: without the program's name; None takes the process's.
        extras: by package that may be missing, the extra that installs it.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments in (["--version"], ["-V"]):
        print(f"{program} {__version__}")
        return 0
    try:
        code = tyro.extras.subcommand_cli_from_dict(
            table(), prog=program, description=description, args=arguments, sort_subcommands=False
        )
        sys.stdout.flush()  # Results that cannot be written are no success.
        return code
    except Recon4DError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        extra = (extras or {}).get(error.name or "")
        if extra is None:
            raise
        missing = MissingExtraError(str(error.name), extra, program)
        print(f"error: {missing}", file=sys.stderr)
        return missing.exit_code
    except KeyboardInterrupt:
        print("aborted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # The reader of our output went away, as `head` does.
        sys.stderr.close()
        return 141
    except OSError as error:
        return _refused(error)


def _refused(error: OSError) -> int:
    """Says what the system has against a file that nothing else looked at before: a name that is too long, a full disk.

    Returns:
        The exit code of an output that cannot be written, or else of an option.
    """
    if error.errno in _FULL:
        with suppress(OSError, ValueError):  # What stdout still holds would be tried, and told, once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    where = "" if error.filename is None else f"'{error.filename}': "
    print(f"error: {where}{error.strerror or error}", file=sys.stderr)
    return OutputError.exit_code if error.errno in _FULL else ConfigError.exit_code


def commands() -> dict[str, Callable[..., int]]:
    """Every command by name.

    Raises:
        ConfigError: an installed package offers a name that is taken.
    """
    known: dict[str, Callable[..., int]] = {
        "reconstruct": reconstruct,
        "import": import_,
        "convert-calibration": convert_calibration,
        "calibrate": calibrate,
        "check": check,
        "sync": sync,
        "view": view,
        "render": render,
        "export": export,
        "score": score,
        "accelerators": accelerators,
    }
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name in known:
            raise ConfigError(f"the command '{entry.name}' is offered twice, the second time by '{entry.value}'")
        known[entry.name] = entry.load()
    return known
