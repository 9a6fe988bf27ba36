"""``python -m recon4d`` and the ``recon4d`` command."""

from recon4d.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
