"""``simbridge check``."""

from __future__ import annotations

import json as json_
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from simbridge.errors import BundleError


def check(bundle: Annotated[Path, tyro.conf.Positional], /, *, json: bool = False) -> int:
    """Say what is wrong with a bundle, before anybody trains in it.

    Exit code 0 when it can be used (there may be warnings), else that of a bundle error.

    Args:
        bundle: bundle folder.
        json: print the findings as JSON lines.
    """
    from simbridge.bundle import check as findings_of

    findings = findings_of(bundle)
    for finding in findings:
        print(json_.dumps(asdict(finding)) if json else str(finding))
    errors = sum(finding.severity == "error" for finding in findings)
    if not json:
        print(f"{bundle}: {errors} errors, {len(findings) - errors} warnings", file=sys.stderr)
    return BundleError.exit_code if errors else 0
