"""Skins over the core for libraries that train and evaluate: each module here is named for one.

In:   a bundle, a task, options.
Out:  what that library calls an environment.

Owns: when worlds begin anew, names and shapes of observations, seeds as the library means them.
Does not own: anything that happens in a world (core).
"""

__all__: list[str] = []
