"""The command line.

In:   arguments.
Out:  what the doors leave, results on stdout, warnings on stderr, an exit code (see ``simbridge.errors``).
Owns: commands and their help.
Does not own: any work; every command calls one door.
"""

from simbridge.commands._main import main

__all__ = ["main"]
