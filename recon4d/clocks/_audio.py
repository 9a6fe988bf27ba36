"""Clocks from what is heard: generalised cross-correlation with phase transform (Knapp and Carter 1976).

Sound travels 1 m in 2.9 ms, so a microphone 3 m further away hears a clap 9 ms later: what is found is when the sound
arrives, and the way to it is part of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import ndimage, signal

from recon4d.capture import Source
from recon4d.clocks._clock import Clock, late_by
from recon4d.clocks._config import SyncConfig
from recon4d.clocks._sound import RATE_HZ, Sound, listen, presented
from recon4d.clocks._table import CameraClock, Evidence, Synchronised
from recon4d.errors import CaptureError

_LOUDNESS_HZ = 100
_WINDOW_S = 1.0
_WINDOWS = 60
_FIRST_REACH_S = 0.2
_REACH_S = 0.02
_AGREE_S = 1e-3
_CLEAR = 6.0
"""A window's peak over the root mean square of its correlation."""
_LEAST_WINDOWS = 3
_LEAST_SHARE = 0.5
_WAY = "sound travels 1 m in 2.9 ms: cameras at different distances from it hear it that much apart"


@dataclass(frozen=True, kw_only=True)
class Heard:
    """One camera's sound against the reference's."""

    clock: Clock
    """Own times to the reference's."""
    error_s: float
    windows: int
    """That agree within a millisecond."""
    tried: int
    lags_s: np.ndarray
    score: np.ndarray
    off_s: np.ndarray
    """[windows that were clear] from the common line."""

    def evidence(self, against: str) -> Evidence:
        return Evidence(
            lags_s=self.lags_s,
            score=self.score,
            against=against,
            spread_s=self.off_s,
            weight=np.ones(len(self.off_s)),
        )


def synchronise_by_sound(sources: Sequence[Source], config: SyncConfig) -> Synchronised:
    """The sync table from the audio tracks.

    Raises:
        CaptureError: a camera's times come from a timestamp file, the reference has no sound, or a file cannot be read.
    """
    for source in sources:
        if source.times is not None:
            raise CaptureError(
                "its times come from a timestamp file, its sound runs on the video's own clock: use --method geometric,"
                " or take 'timestamps' out of capture.json",
                camera=source.name,
            )
    sounds = {source.name: listen(source.video, source.name) for source in sources}
    reference = config.reference or max(sounds, key=lambda name: _span(sounds[name]))
    first = sounds[reference]
    if first is None:
        raise CaptureError("has no sound to hold the others against; use --method geometric", camera=reference)
    heard = {
        name: compare_sounds(first, sound, config.search_s, config.max_drift)
        for name, sound in sounds.items()
        if sound is not None and name != reference
    }
    clock = next(_given(source) for source in sources if source.name == reference)
    rows: list[CameraClock] = []
    for source in sources:
        times_s = presented(source.video, source.name)
        if source.name == reference:
            rows.append(replace(_row(source, times_s), status="reference", error_s=0.0, reason=""))
        elif sounds[source.name] is None:
            rows.append(_row(source, times_s))
        else:
            rows.append(_fitted(source, times_s, clock, heard[source.name], config))
    return Synchronised(
        method="audio",
        reference=reference,
        clocks=tuple(rows),
        evidence={name: h.evidence(reference) for name, h in heard.items() if h is not None},
        notes=(_WAY,),
    )


def _given(source: Source) -> Clock:
    return Clock(scale=source.time_scale, offset_s=source.time_offset_s)


def _span(sound: Sound | None) -> float:
    return 0.0 if sound is None else float(np.count_nonzero(np.abs(sound.samples) > 1e-4))


def compare_sounds(a: Sound, b: Sound, search_s: float, max_drift: float) -> Heard | None:
    """How b's clock runs against a's; None when less than three windows agree.

    Loudness finds the lag roughly, windows of a second find it at their own time, and a line through them gives offset
    and drift; then b is read along that line and the windows are looked at once more.
    """
    lags, score = _rough(a, b, search_s)
    middle = a.start_s + 0.5 * len(a.samples) / RATE_HZ
    starts = _loud_windows(a)
    line, reach = np.array([lags[score.argmax()], 0.0]), _FIRST_REACH_S
    at, off, kept, agree = np.zeros(0), np.zeros(0), np.zeros(0, bool), np.zeros(0, bool)
    for _ in range(3):
        at, lag, clear = _windows(a, b, starts, line, middle, reach)
        kept = clear > _CLEAR
        if kept.sum() < _LEAST_WINDOWS:
            return None
        line = _consensus(at[kept] - middle, lag[kept], max_drift, reach)
        off = lag[kept] - line[0] - line[1] * (at[kept] - middle)
        agree = np.abs(off) < (_AGREE_S if reach == _REACH_S else 0.01)
        reach = _REACH_S
    if agree.sum() < max(_LEAST_WINDOWS, _LEAST_SHARE * kept.sum()):
        return None
    spread = max(float(off[agree].std()), 0.5 / RATE_HZ)
    far = np.abs(at[kept][agree] - middle).max() / max(float((at[kept][agree] - middle).std()), 1e-6)
    return Heard(
        clock=late_by(float(line[0]), float(line[1]), middle),
        error_s=spread * float(np.sqrt((1 + far**2) / agree.sum())),
        windows=int(agree.sum()),
        tried=len(starts),
        lags_s=lags,
        score=score,
        off_s=off,
    )


def _rough(a: Sound, b: Sound, search_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Lags and correlation of how the loudness of both rises."""
    x, y = _onsets(a), _onsets(b)
    score = signal.correlate(y, x, method="fft") / (np.linalg.norm(x) * np.linalg.norm(y) + 1e-12)
    lags = signal.correlation_lags(len(y), len(x)) / _LOUDNESS_HZ + b.start_s - a.start_s
    near = np.abs(lags) <= search_s
    if not near.any():
        return np.zeros(1), np.zeros(1)
    return lags[near], score[near]


def _onsets(sound: Sound) -> np.ndarray:
    high = np.diff(sound.samples, prepend=0.0)
    block = RATE_HZ // _LOUDNESS_HZ
    energy = (high[: len(high) // block * block].reshape(-1, block) ** 2).mean(1)
    level = ndimage.gaussian_filter1d(np.log(energy + 1e-3 * energy.mean() + 1e-12), 2.0)
    rise = np.maximum(np.diff(level, prepend=level[:1]), 0)
    return rise - rise.mean()


def _loud_windows(a: Sound) -> np.ndarray:
    """First samples of the windows in which most happens, in order; at most ``_WINDOWS``."""
    size = int(_WINDOW_S * RATE_HZ)
    starts = np.arange(0, max(len(a.samples) - size, 0) + 1, size // 2)
    high = np.diff(a.samples, prepend=0.0)
    energy = np.array([float((high[s : s + size] ** 2).sum()) for s in starts])
    return np.sort(starts[np.argsort(-energy)[:_WINDOWS]])


def _windows(
    a: Sound, b: Sound, starts: np.ndarray, line: np.ndarray, middle: float, reach: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each window of a: its middle, b's lag there, and how clear the peak is; b is read along the line."""
    size, most = int(_WINDOW_S * RATE_HZ), int(reach * RATE_HZ)
    at, lag, clear = (np.zeros(len(starts)) for _ in range(3))
    own = np.arange(len(b.samples))
    for index, start in enumerate(starts):
        piece = a.samples[start : start + size]
        times = a.start_s + (start - most + np.arange(len(piece) + 2 * most)) / RATE_HZ
        other = times + line[0] + line[1] * (times - middle)
        there = np.interp((other - b.start_s) * RATE_HZ, own, b.samples, left=0.0, right=0.0)
        peak, clear[index] = _phase_transform(piece, there, most)
        at[index] = a.start_s + (start + 0.5 * len(piece)) / RATE_HZ
        lag[index] = line[0] + line[1] * (at[index] - middle) + peak / RATE_HZ * (1 + line[1])
    return at, lag, clear


def _phase_transform(piece: np.ndarray, there: np.ndarray, most: int) -> tuple[float, float]:
    """Shift of the piece within -most..most samples, to a fraction of one, and the peak over the noise."""
    size = 1 << (len(there) + len(piece)).bit_length()
    cross = np.fft.rfft(there, size) * np.conj(np.fft.rfft(piece, size))
    cross /= np.abs(cross) + 1e-3 * np.abs(cross).mean() + 1e-20
    whole = np.fft.irfft(cross, size)[: 2 * most + 1]
    peak = int(np.abs(whole).argmax())
    noise = float(np.sqrt(np.mean(whole**2))) + 1e-20
    shift = 0.0
    if 0 < peak < 2 * most:
        before, best, after = np.abs(whole[peak - 1 : peak + 2])
        bend = before - 2 * best + after
        shift = 0.5 * (before - after) / bend if bend < 0 else 0.0
    return peak + shift - most, float(np.abs(whole[peak])) / noise


def _consensus(at: np.ndarray, lag: np.ndarray, max_drift: float, reach: float) -> np.ndarray:
    """[2] lag at zero and its growth: the line through two windows that most windows agree with, fitted to those."""
    tolerance = 0.01 if reach > _REACH_S else _AGREE_S
    best, line = -1, np.array([np.median(lag), 0.0])
    for i in range(len(at)):
        for j in range(i, len(at)):
            rate = (lag[j] - lag[i]) / (at[j] - at[i]) if at[j] != at[i] else 0.0
            if abs(rate) <= max_drift:
                near = np.abs(lag - lag[i] - rate * (at - at[i])) < tolerance
                if near.sum() > best:
                    best = int(near.sum())
                    slope, level = (
                        np.polyfit(at[near], lag[near], 1) if np.ptp(at[near]) > 1.0 else (0.0, lag[near].mean())
                    )
                    line = np.array([level, slope])
    return line


def _row(source: Source, times_s: np.ndarray) -> CameraClock:
    """A camera without sound."""
    return CameraClock(
        camera=source.name,
        status="refused",
        time_offset_s=source.time_offset_s,
        time_scale=source.time_scale,
        moved_s=0.0,
        drift=0.0,
        error_s=None,
        residual_s=None,
        frame_s=float(np.median(np.diff(times_s))) * source.time_scale,
        speed_px_s=0.0,
        reason="its video has no sound",
    )


def _fitted(
    source: Source, times_s: np.ndarray, reference: Clock, heard: Heard | None, config: SyncConfig
) -> CameraClock:
    row, given = _row(source, times_s), _given(source)
    if heard is None:
        within = f"at any offset within {config.search_s:g} s"
        return replace(row, reason=f"its sound agrees with the reference's in less than half of the windows, {within}")
    total = reference.after(heard.clock)
    moves = total(times_s) - given(times_s)
    moved = float(moves[np.abs(moves).argmax()])
    row = replace(row, moved_s=moved, drift=total.scale / given.scale - 1, error_s=heard.error_s)
    if 2 * heard.error_s > config.limit_frames * row.frame_s:
        return replace(row, reason=f"its clock is uncertain by {2e3 * heard.error_s:.1f} ms; record more sound")
    if config.method == "auto" and source.timed and abs(moved) <= config.limit_frames * row.frame_s:
        return replace(
            row, status="given", reason=f"the times given agree with the sound within {1e3 * abs(moved):.1f} ms"
        )
    said = f"{heard.windows} of {heard.tried} windows of {_WINDOW_S:g} s agree within {1e3 * _AGREE_S:g} ms"
    return replace(row, status="fitted", time_offset_s=total.offset_s, time_scale=total.scale, reason=said)
