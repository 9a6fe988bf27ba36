"""Commands that the service adds to ``recon4d``.

In:   arguments.
Out:  a running service, keys, and an exit code.
Owns: how the service's processes are started, watched over and ended.
Does not own: any work of theirs.

Importing this takes no package of the extra ``service``: ``recon4d`` loads every command at each start.
"""

from api.commands._keys import keys
from api.commands._remote import remote
from api.commands._serve import serve

__all__ = ["keys", "remote", "serve"]
