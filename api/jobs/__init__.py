"""Jobs: work that takes longer than a request, kept through the death of whatever does it.

In:   what a client asks for, looked at first; the queue in the database.
Out:  jobs and their events for clients; scenes, bundles and findings for storage.
Owns: the kinds of jobs, the queue, leases, slots, the worker process and the processes of attempts, recovery, logs.
Does not own: HTTP, what happens inside a stage (the engine), and the folders of what is finished (storage).

A worker takes a job under a lease and gives each attempt a process of its own. Whatever is killed, the job is taken
up again from its last finished stage or checkpoint; only the attempt that holds the lease can write, so that a job
ends once.
"""

from api.jobs._feed import Feed
from api.jobs._folder import preview
from api.jobs._kinds import KINDS
from api.jobs._parts import check_parts
from api.jobs._requests import PRESETS, check_request
from api.jobs._store import ENDED, Jobs
from api.jobs._worker import worker_main

__all__ = ["ENDED", "KINDS", "PRESETS", "Feed", "Jobs", "check_parts", "check_request", "preview", "worker_main"]
