"""Storage: everything that lies in the data folder, and the rows that say so.

In:   folders that the engine left.
Out:  finished scenes and bundles under names of the service's choosing, each with its files' sizes and hashes.
Owns: the layout of the data folder; how a folder comes to count, and goes.
Does not own: HTTP, jobs, and what is in a scene.
"""

from api.storage._scenes import (
    POSTER,
    PreparedScene,
    add_scene,
    artifacts,
    delete_scene,
    discard_scene,
    find_artifact,
    find_scene,
    insert_scene,
    prepare_scene,
    scene_folder,
    sweep_finished,
)

__all__ = [
    "POSTER",
    "PreparedScene",
    "add_scene",
    "artifacts",
    "delete_scene",
    "discard_scene",
    "find_artifact",
    "find_scene",
    "insert_scene",
    "prepare_scene",
    "scene_folder",
    "sweep_finished",
]
