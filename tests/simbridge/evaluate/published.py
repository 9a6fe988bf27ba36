"""Success rates that SIMPLER (Li et al. 2024) publishes, and figures of them that were computed apart from this code.

Order of policies: rt-2-x, rt-1-converged, rt-1-15pct, rt-1-x, rt-1-begin, octo-base; with three, rt-1-x, octo-base,
octo-small.
"""

from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    sim: tuple[float, ...]
    real: tuple[float, ...]
    mmrv: float
    mmrv_swapped: float
    pearson: float
    spearman: float


TASKS = {
    "pick_coke_can": Task(
        (0.787, 0.857, 0.710, 0.567, 0.027, 0.170),
        (0.907, 0.853, 0.920, 0.760, 0.133, 0.293),
        *(0.03133, 0.06183, 0.97543, 0.77143),
    ),
    "move_near": Task(
        (0.779, 0.442, 0.354, 0.317, 0.050, 0.042),
        (0.733, 0.633, 0.583, 0.450, 0.017, 0.350),
        *(0.11100, 0.00267, 0.85610, 0.94286),
    ),
    "open_drawer": Task(
        (0.157, 0.601, 0.463, 0.296, 0.000, 0.009),
        (0.333, 0.815, 0.704, 0.519, 0.000, 0.148),
        *(0.0, 0.0, 0.98317, 1.0),
    ),
    "close_drawer": Task(
        (0.343, 0.861, 0.667, 0.891, 0.278, 0.444),
        (0.630, 0.926, 0.889, 0.741, 0.000, 0.519),
        *(0.12333, 0.11333, 0.77123, 0.77143),
    ),
    "place_apple": Task(
        (0.037, 0.065, 0.130, 0.213, 0.000, 0.000),
        (0.074, 0.185, 0.185, 0.407, 0.000, 0.000),
        *(0.0, 0.01083, 0.96917, 0.98518),
    ),
    "spoon_on_towel": Task((0.000, 0.125, 0.472), (0.000, 0.333, 0.417), 0.0, 0.0, 0.82694, 1.0),
    "carrot_on_plate": Task((0.042, 0.083, 0.097), (0.000, 0.250, 0.083), 0.11133, 0.00933, 0.57137, 0.5),
    "stack_cube": Task((0.000, 0.000, 0.042), (0.000, 0.000, 0.125), 0.0, 0.0, 1.0, 1.0),
    "eggplant_in_basket": Task((0.000, 0.431, 0.569), (0.000, 0.250, 0.400), 0.0, 0.0, 0.98941, 1.0),
}
