"""Sizes fixed ahead, so that drawing never waits for an accelerator.

How many tile entries a picture has, and how long its longest lists are, decides the shapes of tensors. Asking the
device at every step makes it run dry; a plan made from a survey of many pictures at once asks once. A picture that
has outgrown its plan is drawn without what did not fit, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

STEP = 8
"""List entries of each tile blended at once on accelerators, where launches cost more than arithmetic."""
_SPARE_ENTRIES = 256
_SPARE_LENGTH = 4


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Room for one picture."""

    entries: int
    """How many (splat, tile) pairs there is room for."""
    active: tuple[int, ...]
    """For each turn of ``STEP`` list entries, how many tiles, in order of falling length, still have entries."""
    lengths: Tensor
    """[tiles] int64 on the device: the room of each tile, in the same order."""


def make_plans(surveys: Sequence[np.ndarray], room: float, device: torch.device) -> list[Plan]:
    """Plans of P pictures, brought to the device in one transfer.

    Args:
        surveys: per picture [1 + tiles] integers, the number of entries and the falling lengths of the tiles' lists.
        room: factor on what the surveys found and a little in reserve, so that an empty tile too has more room with a
            larger factor.
    """
    turns = [np.ceil((survey[1:] + _SPARE_LENGTH) * room / STEP).astype(np.int64) for survey in surveys]
    lengths = torch.from_numpy(np.concatenate(turns) * STEP).to(device).split([len(turn) for turn in turns])
    plans = []
    for survey, turn, length in zip(surveys, turns, lengths, strict=True):
        active = len(turn) - np.searchsorted(turn[::-1], np.arange(turn[0]), side="right")
        entries = int((survey[0] + _SPARE_ENTRIES) * room)
        plans.append(Plan(entries=entries, active=tuple(active.tolist()), lengths=length))
    return plans
