"""The contract's thresholds as the blending kernels take them."""

from __future__ import annotations

import math

import numpy as np

from recon4d.raster import _contract as contract

RULES = tuple(
    np.float32(value)
    for value in (
        math.log2(contract.ALPHA_MIN),
        contract.ALPHA_MAX,
        contract.MIN_TRANSMITTANCE,
        contract.MIN_DEPTH_ALPHA,
    )
)
"""log2 of the least alpha, greatest alpha, least transmittance, least alpha that has depth."""
