"""``recon4d check``."""

from __future__ import annotations

import json as json_
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from recon4d.errors import CaptureError


def check(capture: Annotated[Path, tyro.conf.Positional], /, *, json: bool = False) -> int:
    """Say what is wrong with a capture, without training.

    Every video is decoded to its end. Exit code 0 when it can be reconstructed (there may be warnings), else that
    of a capture error.

    Args:
        capture: capture folder.
        json: print the findings as JSON lines.
    """
    from recon4d.capture import check as findings_of

    findings = findings_of(capture)
    for finding in findings:
        if json:
            print(json_.dumps(asdict(finding)))
        else:
            where = ", ".join(part for part in (finding.camera and f"camera '{finding.camera}'", finding.file) if part)
            advice = f"; {finding.advice}" if finding.advice else ""
            print(f"{finding.severity}: {where + ': ' if where else ''}{finding.message}{advice}")
    errors = sum(finding.severity == "error" for finding in findings)
    if not json:
        print(f"{capture}: {errors} errors, {len(findings) - errors} warnings", file=sys.stderr)
    return CaptureError.exit_code if errors else 0
