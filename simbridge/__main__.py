"""``python -m simbridge`` and the ``simbridge`` command."""

from simbridge.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
