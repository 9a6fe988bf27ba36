"""Which episode a world plays next."""

from __future__ import annotations

import numpy as np


class Episodes:
    """Per world a seed and how many episodes it has begun since; episodes are named by both.

    A world of a batch plays the same episodes as a single world that was given its seed.
    """

    def __init__(self, count: int) -> None:
        self._seeds = np.random.SeedSequence().generate_state(count, np.uint64)
        self._begun = np.zeros(count, np.int64)

    def seed(self, world: int, seed: int) -> None:
        """Starts a world's sequence of episodes anew."""
        self._seeds[world], self._begun[world] = seed, 0

    def next(self, worlds: np.ndarray) -> list[int]:
        """The next episode of each of the worlds [n]."""
        names = []
        for world in worlds:
            sequence = np.random.SeedSequence([int(self._seeds[world]), int(self._begun[world])])
            names.append(int(sequence.generate_state(1, np.uint64)[0] >> 1))
            self._begun[world] += 1
        return names
