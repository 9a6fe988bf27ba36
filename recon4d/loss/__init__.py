"""How far a rendering is from an image: the training loss, and the measures of scoring.

Purpose  one differentiable scalar of a rendered and a real image (``image_loss``); SSIM and PSNR to score with.
Input    images [H, W, 3] or batches of them in [0, 1] (targets also uint8), per-pixel weights.
Output   a 0-dim tensor with a gradient in the rendering; decibel and SSIM.
Owns     the terms and the SSIM window; the backends (``cpu``: loss and gradient compiled into one pass; ``torch``: any
         device).
Not      rendering, which pixels count, regularisers of the model.
"""

from recon4d.loss._door import image_loss
from recon4d.loss._metrics import psnr, ssim
from recon4d.loss._registry import backends
from recon4d.loss._terms import LossTerms

__all__ = ["LossTerms", "backends", "image_loss", "psnr", "ssim"]
