"""Where goals and objects may lie."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from simbridge.errors import TaskError
from simbridge.types import Bundle, ObjectSpec

TRIES = 200
"""Draws of a place before none is said to be free."""
Area = tuple[tuple[float, float], tuple[float, float]]
"""Ranges of x and y, metres in the world."""


def goal_area(bundle: Bundle, area: Area | None, task: str) -> Area:
    """The area given, or the box around all places where the bundle's objects may begin.

    Raises:
        TaskError: neither is there, or the area is empty.
    """
    if area is None and not bundle.objects:
        raise TaskError(
            f"task '{task}' does not know where goals may lie: the bundle has no object; give it"
            " area=((x0, x1), (y0, y1)) in metres"
        )
    if area is None:
        ranges = np.array([thing.spawn for thing in bundle.objects])
        (x0, y0), (x1, y1) = ranges.min((0, 2)).tolist(), ranges.max((0, 2)).tolist()
        area = (x0, x1), (y0, y1)
    (x0, x1), (y0, y1) = area
    if not (x0 < x1 and y0 < y1):
        raise TaskError(f"task '{task}': the area x {x0} to {x1}, y {y0} to {y1} is empty")
    return (x0, x1), (y0, y1)


def place(area: Area, rng: np.random.Generator) -> np.ndarray:
    """[2] a point of the area, metres."""
    (x0, x1), (y0, y1) = area
    return rng.uniform([x0, y0], [x1, y1])


def free_place(area: Area, things: np.ndarray, radius_m: float, rng: np.random.Generator) -> np.ndarray | None:
    """[2] a point of the area, metres, around which nothing stands within ``radius_m``; None when none was found.

    Args:
        things: [n, 3] as :func:`standing` gives them.
    """
    for _ in range(TRIES):
        xy = place(area, rng)
        if (np.hypot(*(things[:, :2] - xy).T) > things[:, 2] + radius_m).all():
            return xy
    return None


def standing(spec: mujoco.MjSpec, bundle: Bundle) -> np.ndarray:
    """[n, 3] x, y and radius in metres of what stands on the bench: objects, where the model has them, then boxes."""
    things = [(*spec.body(thing.body).pos[:2], footprint(thing.size_m)) for thing in bundle.objects]
    boxes = [geom for geom in spec.worldbody.geoms if geom.type == mujoco.mjtGeom.mjGEOM_BOX]
    things += [(*box.pos[:2], footprint(2 * box.size)) for box in boxes]
    return np.array(things, np.float64).reshape(-1, 3)


def footprint(size_m: Sequence[float] | np.ndarray) -> float:
    """Radius of the circle around a box [3] that stands on the bench, however it is turned."""
    return float(np.hypot(size_m[0], size_m[1])) / 2


def resting_pose(bundle: Bundle, thing: ObjectSpec, xy: np.ndarray, yaw: float) -> np.ndarray:
    """[7] xyz and wxyz of an object that stands on the bench."""
    return np.array([*xy, bench_height(bundle, xy) + thing.size_m[2] / 2, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])


def bench_height(bundle: Bundle, xy: np.ndarray) -> float:
    """z of the bench plane at a point, metres; 0 where no plane is known."""
    if bundle.plane is None:
        return 0.0
    a, b, c, d = bundle.plane
    return float(-(a * xy[0] + b * xy[1] + d) / c)


def first_object(bundle: Bundle, name: str | None, task: str) -> ObjectSpec:
    """The named object, or the first.

    Raises:
        TaskError: there is none.
    """
    for thing in bundle.objects:
        if name is None or thing.body == name:
            return thing
    known = ", ".join(thing.body for thing in bundle.objects) or "none"
    raise TaskError(f"task '{task}' needs an object{f' {name!r}' if name else ''}; the bundle has {known}")
