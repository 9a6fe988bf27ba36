"""The command line.

In:   arguments.
Out:  what the doors leave, progress on stderr, results on stdout, an exit code (see ``recon4d.errors``).
Owns: commands, their help, how events are drawn, Ctrl-C.
Does not own: any work; every command calls one door.

Installed packages add commands through the entry-point group ``recon4d.commands``: the entry's name is the command,
its value a function with annotated arguments that returns an exit code.
"""

from recon4d.commands._device import usable
from recon4d.commands._main import main, run
from recon4d.commands._progress import Painter, table_console
from recon4d.commands._reconstruct import print_scores

__all__ = ["Painter", "main", "print_scores", "run", "table_console", "usable"]
