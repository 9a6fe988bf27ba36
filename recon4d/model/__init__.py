"""The scene model over time. It alone knows time: everything behind it sees :class:`recon4d.types.Splats`.

Purpose  hold raw parameters of 4D Gaussians, turn an instant into splats, carry a gradient back, move the rows.
Input    a scene or pools of activated values, or a matrix of raw parameters; instants in seconds; cameras to cull by.
Output   ``Splats`` at an instant (``at`` to look, ``slice`` to train), pools of activated values.
Owns     the parameter layout, activations and their chain rule, motion models (``motion/``, one file each), row-wise
         Adam with its statistics. On the CPU these run as compiled kernels, elsewhere as plain PyTorch.
Not      rasterization, losses, learning-rate schedules, where Gaussians are born or removed, files.
"""

from recon4d.model._adam import RowAdam
from recon4d.model._gaussians import Gaussians4D
from recon4d.model._instant import Slice, view_vector
from recon4d.model._layout import Layout

__all__ = ["Gaussians4D", "Layout", "RowAdam", "Slice", "view_vector"]
