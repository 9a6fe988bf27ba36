"""Multi-view video to a dynamic 4D Gaussian splatting scene."""

__version__ = "0.2.0.dev0"
