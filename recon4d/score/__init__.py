"""How good a scene is, against frames that training never saw, beside predictors that need no model.

Purpose: numbers that cannot flatter: held-out cameras and held-out times apart, moving pixels apart from all.
Input:   a scene and the capture's division into what was trained on and what was kept.
Output:  a dictionary that is plain JSON (see :func:`score`).
Owns:    which frames are scored, the definition of a moving pixel, of the means, and of the predictors.
Does not own: the division itself and the temporal median (``capture``), rendering (``raster``), pictures (``show``).
"""

from recon4d.score._score import ScoreConfig, score

__all__ = ["ScoreConfig", "score"]
