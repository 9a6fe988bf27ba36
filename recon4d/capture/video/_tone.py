"""High dynamic range and wide gamuts to display-referred sRGB: the curves, as tables for the kernel.

PQ and HLG are those of ITU-R BT.2100-2 (tables 4 and 5, HLG's system gamma for a display of 1000 cd/m2). Both are
brought from 1000 cd/m2, whatever a file says of its own peak, down to a white of 203 cd/m2 (ITU-R BT.2408) by the
EETF of ITU-R BT.2390 (5.4.1), driven by the largest of R, G and B so that hues stay: one curve for all cameras, or
they would disagree about the same bench. Primaries are then those of BT.709, what lies outside is clipped (ITU-R
BT.2407, 2), and light becomes code by the curve of sRGB (IEC 61966-2-1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

Transfer = Literal["PQ", "HLG", "SDR"]

PEAK_CD_M2, WHITE_CD_M2 = 1000.0, 203.0
_PQ_CD_M2 = 10000.0
_HLG_GAMMA = 1.2
CODES = 2**16
"""Entries of the table from code to light, one for each 16-bit value."""
STEPS = 4096
"""Entries of the tables over light; they are finer where it is dark."""

_WHITE_D65 = (0.3127, 0.3290)
_PRIMARIES = {
    "BT.709": ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)),
    "BT.2020": ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    "P3-D65": ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
}


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Everything that the kernel needs to know about one kind of video."""

    light: np.ndarray
    """[65536] float32 by 16-bit code: light relative to white; of HLG the scene's, 0 to 1."""
    luma: np.ndarray
    """[3] float32, luminance of the video's primaries."""
    system_gamma: float
    """Exponent on the scene's luminance that makes it the display's; 1 when light is the display's already."""
    scale: float
    """Display light of 1 relative to white."""
    gain: np.ndarray
    """[4096] float32: factor on light by the fourth root of its largest component over 10000 cd/m2."""
    to_bt709: np.ndarray
    """[3, 3] float32, from the video's primaries."""
    code: np.ndarray
    """[4096] uint8: sRGB by the square root of light."""


@cache
def curves(transfer: Transfer, primaries: str) -> Curves:
    """The tables of one kind of video; ``primaries`` is "BT.709", "BT.2020" or "P3-D65"."""
    code = np.linspace(0, 1, CODES)
    to_xyz = _to_xyz(primaries)
    reach = np.linspace(0, 1, STEPS) ** 4 * _PQ_CD_M2
    if transfer == "SDR":
        light, scale, gain = _from_srgb(code), 1.0, np.ones(STEPS)
    elif transfer == "PQ":
        light, scale, gain = pq_to_cd_m2(code) / WHITE_CD_M2, 1.0, _gain(reach)
    else:
        light, scale, gain = hlg_to_scene(code), PEAK_CD_M2 / WHITE_CD_M2, _gain(reach)
    return Curves(
        light=light.astype(np.float32),
        luma=to_xyz[1].astype(np.float32),
        system_gamma=_HLG_GAMMA if transfer == "HLG" else 1.0,
        scale=scale,
        gain=gain.astype(np.float32),
        to_bt709=(np.linalg.inv(_to_xyz("BT.709")) @ to_xyz).astype(np.float32),
        code=np.rint(255 * _to_srgb(np.linspace(0, 1, STEPS) ** 2)).astype(np.uint8),
    )


def pq_to_cd_m2(code: np.ndarray) -> np.ndarray:
    """Display light in cd/m2 of PQ codes in 0..1 (BT.2100-2, table 4)."""
    m1, m2, c1, c2, c3 = _PQ
    power = code ** (1 / m2)
    return _PQ_CD_M2 * (np.maximum(power - c1, 0) / (c2 - c3 * power)) ** (1 / m1)


def cd_m2_to_pq(light: np.ndarray) -> np.ndarray:
    """The inverse of ``pq_to_cd_m2``."""
    m1, m2, c1, c2, c3 = _PQ
    power = (light / _PQ_CD_M2) ** m1
    return ((c1 + c2 * power) / (1 + c3 * power)) ** m2


def hlg_to_scene(code: np.ndarray) -> np.ndarray:
    """Scene light in 0..1 of HLG codes in 0..1 (BT.2100-2, table 5)."""
    a = 0.17883277
    b, c = 1 - 4 * a, 0.5 - a * np.log(4 * a)
    return np.where(code <= 0.5, code**2 / 3, (np.exp((code - c) / a) + b) / 12)


def eetf(light: np.ndarray) -> np.ndarray:
    """Light in cd/m2 of a display of 1000 to that of one of 203 (BT.2390, 5.4.1; black stays 0)."""
    source, target = cd_m2_to_pq(np.array([PEAK_CD_M2, WHITE_CD_M2]))
    e, peak = np.minimum(cd_m2_to_pq(light) / source, 1), target / source
    knee = 1.5 * peak - 0.5
    t = (e - knee) / (1 - knee)
    spline = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * peak
    return pq_to_cd_m2(np.where(e < knee, e, spline) * source)


_PQ = (2610 / 16384, 2523 / 4096 * 128, 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32)


def _gain(light: np.ndarray) -> np.ndarray:
    """Factor that the EETF is, by light in cd/m2; what is nearly black keeps its light."""
    return np.where(light > 1e-3, eetf(light) / np.maximum(light, 1e-3), 1.0)


def _from_srgb(code: np.ndarray) -> np.ndarray:
    return np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)


def _to_srgb(light: np.ndarray) -> np.ndarray:
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def _to_xyz(primaries: str) -> np.ndarray:
    """[3, 3]: linear RGB to CIE XYZ with a white of luminance 1 (SMPTE RP 177)."""

    def xyz(x: float, y: float) -> list[float]:
        return [x / y, 1.0, (1 - x - y) / y]

    columns = np.array([xyz(*xy) for xy in _PRIMARIES[primaries]]).T
    return columns * np.linalg.solve(columns, xyz(*_WHITE_D65))
