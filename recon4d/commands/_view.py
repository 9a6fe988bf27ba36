"""``recon4d view``."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import tyro

from recon4d.errors import ConfigError


def view(scene: Annotated[Path, tyro.conf.Positional], /, *, port: int = 0, open: bool = False) -> int:
    """Show a scene in a browser: turn it, play it, stand where its cameras stand.

    Prints an address of this computer and serves it until Ctrl-C.

    Args:
        scene: scene folder.
        port: port on 127.0.0.1; a free one when 0.
        open: also open the address in a browser.
    """
    from recon4d.scene import load
    from recon4d.show import view_server, write_view

    loaded = load(scene)
    with tempfile.TemporaryDirectory(prefix="recon4d-view-") as folder:
        write_view(loaded, folder)
        try:
            server = view_server(Path(folder), port)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"port {port} cannot be used: {error}; leave --port out to take a free one") from error
        address = f"http://127.0.0.1:{server.server_port}/"
        with server:
            # Not in this thread, so that an interrupt finds it waiting and never in the middle of a request.
            threading.Thread(target=server.serve_forever, daemon=True).start()
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # The same as Ctrl-C: the folder goes too.
            try:
                print(address, flush=True)
                if open and not webbrowser.open(address):
                    print("no browser could be opened; open the address yourself", file=sys.stderr)
                threading.Event().wait()
            except KeyboardInterrupt:
                server.shutdown()
    return 0
