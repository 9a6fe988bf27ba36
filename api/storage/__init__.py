"""Storage: captures, the files on their way into them, and everything else that lies in the data folder.

In:   names, bytes, calibrations; folders that the engine left.
Out:  checked files, finished scenes and bundles under names of the service's choosing, capture folders that the engine
reads.
Owns: the tables of captures, files, uploads, scenes, bundles and environments; the layout of the data folder; offsets,
hashes and locks of uploads; quotas, the reserve of free disk, and sweeping away what nobody needs.
Does not own: HTTP, jobs, and what a calibration, a video, a scene or a bundle means: the engine says that.
"""

from api.storage._bundles import (
    PreparedBundle,
    add_bundle,
    bundle_folder,
    delete_bundle,
    discard_bundle,
    find_bundle,
    insert_bundle,
    list_bundles,
    prepare_bundle,
)
from api.storage._calibration import Calibration, calibration, set_calibration
from api.storage._captures import CaptureState, create_capture, delete_capture, find_capture, list_captures
from api.storage._environments import (
    create_environment,
    delete_environment,
    find_environment,
    list_environments,
)
from api.storage._files import Label, add_file, remove_file
from api.storage._materialise import materialise
from api.storage._quota import free_bytes
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
    list_scenes,
    prepare_scene,
    scene_folder,
    sweep_finished,
)
from api.storage._sweep import prepare, sweep
from api.storage._uploads import Writer, commit_upload, create_upload, delete_upload, find_upload

__all__ = [
    "POSTER",
    "Calibration",
    "CaptureState",
    "Label",
    "PreparedBundle",
    "PreparedScene",
    "Writer",
    "add_bundle",
    "add_file",
    "add_scene",
    "artifacts",
    "bundle_folder",
    "calibration",
    "commit_upload",
    "create_capture",
    "create_environment",
    "create_upload",
    "delete_bundle",
    "delete_capture",
    "delete_environment",
    "delete_scene",
    "delete_upload",
    "discard_bundle",
    "discard_scene",
    "find_artifact",
    "find_bundle",
    "find_capture",
    "find_environment",
    "find_scene",
    "find_upload",
    "free_bytes",
    "insert_bundle",
    "insert_scene",
    "list_bundles",
    "list_captures",
    "list_environments",
    "list_scenes",
    "materialise",
    "prepare",
    "prepare_bundle",
    "prepare_scene",
    "remove_file",
    "scene_folder",
    "set_calibration",
    "sweep",
    "sweep_finished",
]
