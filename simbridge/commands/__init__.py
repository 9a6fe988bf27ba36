"""The command line of simbridge.

In:   arguments.
Out:  what the doors leave, progress on stderr, results on stdout, an exit code (see ``recon4d.errors``).
Owns: commands, their help, how progress looks.
Does not own: any work; every command calls one door.
"""

from simbridge.commands._main import main

__all__ = ["main"]
