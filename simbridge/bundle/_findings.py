"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong with a bundle, or may be."""

    severity: Literal["error", "warning"]
    where: str
    """File, and what in it."""
    message: str
    """What is wrong, with the value found and what is allowed."""
    advice: str = ""
    """What to do."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.message}" + (f"; {self.advice}" if self.advice else "")
