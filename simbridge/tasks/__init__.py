"""What can be done in a scene.

In:   a name and options.
Out:  a :class:`simbridge.core.Task`.

Owns: goals, success, rewards, and what is shown of them.
Does not own: the robot, the objects and where they may be (the bundle says), nor stepping and seeing (core).

Add a task: one module with a class that is a ``Task``, and a line in ``_registry.py``; other packages name theirs
under the entry-point group ``simbridge.tasks``.
"""

from simbridge.tasks._registry import make_task, tasks

__all__ = ["make_task", "tasks"]
