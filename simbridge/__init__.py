"""A reconstructed scene as an environment for reinforcement learning and evaluation, seen through splat cameras.

Physics is MuJoCo's, pictures are drawn by :mod:`recon4d.raster`: no OpenGL is needed.
"""
