"""The product door: a capture folder to a scene folder, in named stages.

In:   a capture folder and a ``ReconstructConfig``.
Out:  a scene folder: ``scene.json`` and its tensors, ``scores.json``, ``events.jsonl``, ``report.html``, videos.
Owns: the order of the stages (ingest, static, seeds, joint, score, report), the hash of what each one depends on,
where each one's result lies, the lock on the folder, and going on after an interruption or a change.
Does not own: what happens inside a stage.

The command line, batches and services all call this door and read its events.
"""

from recon4d.reconstruct._batch import BatchItem, batch, read_manifest
from recon4d.reconstruct._config import ReconstructConfig
from recon4d.reconstruct._estimate import Estimate, estimate, estimates
from recon4d.reconstruct._reconstruct import Result, reconstruct
from recon4d.train import Preset

__all__ = [
    "BatchItem",
    "Estimate",
    "Preset",
    "ReconstructConfig",
    "Result",
    "batch",
    "estimate",
    "estimates",
    "read_manifest",
    "reconstruct",
]
