"""Whether a device computes right: an acceptance run that can fail.

In:   a device of an accelerator, or a torch device string; a rasterizer backend.
Out:  a :class:`Report` of findings, each a value beside its limit; as JSON, as a table, as a page for people.
Owns: the scenes that are drawn and trained on, the limits and why they are what they are, the judgement.
Does not own: what is judged (raster, model, loss, train), the finding of devices (accelerators), files and terminals.

Every part looks at the device from another side: its operators against the CPU's, images and gradients against the
float64 reference, a short training against the CPU's own spread. What cannot be wrong, as speed, is told, not judged.
"""

from recon4d.verify._report import Finding, Operator, Report
from recon4d.verify._run import verify

__all__ = ["Finding", "Operator", "Report", "verify"]
