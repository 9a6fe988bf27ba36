"""The service from Python, over HTTP.

In:   the service's address and a key; capture folders, ids, options.
Out:  records of what the service holds, events as they come, scenes as folders here, environments to step.
Owns: requests that go on through lost connections and restarts: uploads, event streams, downloads.
Does not own: any computation, and any idea of how the service works; it needs none of the service's own packages.
"""

from api.client._client import Client
from api.client._errors import JobFailed, ServiceError
from api.client._records import Artifact, Bundle, Capture, CaptureFile, Environment, Job, JobEvent, Scene

__all__ = [
    "Artifact",
    "Bundle",
    "Capture",
    "CaptureFile",
    "Client",
    "Environment",
    "Job",
    "JobEvent",
    "JobFailed",
    "Scene",
    "ServiceError",
]
