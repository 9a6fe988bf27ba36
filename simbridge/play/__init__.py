"""Policies in worlds: every episode once, and how it ended.

In:   a bundle, a task, a policy, which episodes.
Out:  ``EpisodeResult`` of each, films of some; recorded actions that can be played again.

Owns: the loop between policy and worlds, action chunks, delayed actions, films.
Does not own: worlds (core), what the results say (evaluate), nor any policy beyond the simplest.
"""

from simbridge.play._play import PlayConfig, play
from simbridge.play._policies import Policy, load_policy

__all__ = ["PlayConfig", "Policy", "load_policy", "play"]
