"""Room fixed ahead grows everywhere when it is asked to, also where the survey found nothing."""

from __future__ import annotations

import numpy as np
import torch

from recon4d.raster import make_plans


def test_more_room_is_more_for_an_empty_picture_too() -> None:
    empty = [np.zeros(5, np.int64)]
    rooms = [make_plans(empty, room, torch.device("cpu"))[0] for room in (1.25, 20.0, 80.0)]
    assert rooms[0].entries < rooms[1].entries < rooms[2].entries
    assert int(rooms[0].lengths.min()) < int(rooms[1].lengths.min()) < int(rooms[2].lengths.min())
