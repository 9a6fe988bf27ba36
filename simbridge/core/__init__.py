"""Many worlds of one bundle, stepped and seen together.

In:   a :class:`~simbridge.types.Bundle`, a :class:`Task`, how many worlds, a seed.
Out:  after every step pictures, states, rewards, ends and facts of the worlds asked for.

Owns: physics, control, splat cameras, randomisation, the count of steps and of returns, which episode is which.
Does not own: what a task is about (tasks), when worlds begin anew, and the shapes that a library wants (adapters).
"""

from simbridge.core._control import Control
from simbridge.core._randomise import Randomisation
from simbridge.core._sensors import Pictures, SensorConfig
from simbridge.core._task import Start, Task, View
from simbridge.core._worlds import Step, Worlds, WorldsConfig

__all__ = [
    "Control",
    "Pictures",
    "Randomisation",
    "SensorConfig",
    "Start",
    "Step",
    "Task",
    "View",
    "Worlds",
    "WorldsConfig",
]
