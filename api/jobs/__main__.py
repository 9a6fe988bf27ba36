"""``python -m api.jobs``: a worker; with ``attempt JOB OWNER``, the process of one attempt, which workers start."""

from __future__ import annotations

import sys

from api.settings import Settings


def main(arguments: list[str]) -> int:
    """Runs a worker, or an attempt; settings come from the environment."""
    if arguments[:1] == ["attempt"]:
        from api.jobs._attempt import attempt

        _, job_id, owner = arguments
        return attempt(Settings(), job_id, owner)
    from api.jobs import worker_main
    from api.logs import configure_logging

    configure_logging()
    parent = int(arguments[1]) if arguments[:1] == ["--parent"] else None
    return worker_main(Settings(), parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
