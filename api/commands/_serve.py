"""``recon4d serve``."""

from __future__ import annotations

from pathlib import Path

from api.commands._extra import service_extra


def serve(
    *,
    data_dir: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    slots: tuple[str, ...] | None = None,
    worker: bool = True,
) -> int:
    """Run the service: uploads over HTTP, reconstructions, scenes in the browser, environments.

    It prints its address on stdout once it listens, and logs JSON lines on stderr. SIGTERM or Ctrl-C ends it; a
    running reconstruction goes on from its checkpoint at the next start. What is left out here is taken from
    variables of the environment, RECON4D_DATA_DIR and so on.

    Args:
        data_dir: folder for everything that the service keeps; recon4d-data unless set.
        host: address to listen on; 127.0.0.1 unless set. Others need an API key: recon4d keys create.
        port: 8400 unless set; 0 takes a free one.
        slots: what jobs compute on, one job a slot at a time: cpu, or accelerators such as nvidia:1.
        worker: do jobs here; without, other processes on the same folder do them: python -m api.jobs.
    """
    given = {"data_dir": data_dir, "host": host, "port": port, "slots": slots}
    with service_extra("recon4d serve"):
        from api.commands._supervise import run
        from api.settings import Settings

        settings = Settings(**{key: value for key, value in given.items() if value is not None})
    return run(settings, worker=worker)
