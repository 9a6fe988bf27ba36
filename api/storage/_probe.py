"""Looks at a file that a stranger sent; run by its path, in a process of its own that may die of what it reads.

``python -I _probe.py video|timestamps FILE`` prints one JSON object: ``{"suffix", "facts"}`` or ``{"refused"}``.
It imports nothing of the service, and nothing beyond the header of a video is decoded.
"""

from __future__ import annotations

import json
import math
import resource
import sys
from fractions import Fraction
from typing import Any, NoReturn

_MEMORY = 4 * 2**30
_CPU_S = 30
_LARGEST_SIDE = 16384
_LONGEST_TEXT = 64 * 2**20

_SUFFIX = {
    "mov,mp4,m4a,3gp,3g2,mj2": ".mp4",
    "matroska,webm": ".mkv",
    "avi": ".avi",
    "mpeg": ".mpg",
    "mpegts": ".ts",
}
"""Containers that are taken, as FFmpeg calls them. Playlists and the like, which name further files, are not."""
_COVER = 0x400
"""The disposition of a picture that is attached to a sound."""


class RefusedError(Exception):
    """Says why a file is not taken."""


def main(kind: str, path: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer = video(path) if kind == "video" else timestamps(path)
    except RefusedError as refused:
        answer = {"refused": str(refused)}
    sys.stdout.write(json.dumps(answer))


def video(path: str) -> dict[str, Any]:
    """Container and stream headers."""
    with open(path, "rb") as file:
        head = file.read(400)
    if not _looks_like_video(head):
        _refuse(f"it is no video in MP4, MOV, MKV, WebM, AVI, MPEG or TS: it begins with {head[:12]!r}")
    import av

    try:
        # The very call by which the file will be read later, less every protocol that leads out of it.
        with av.open(path, options={"protocol_whitelist": "file"}) as container:
            suffix = _SUFFIX.get(container.format.name)
            if suffix is None:
                _refuse(f"it is of the format '{container.format.name}', which is not taken")
            return {"suffix": suffix, "facts": _facts(container)}
    except (OSError, ValueError) as error:  # FFmpeg's errors are of these kinds.
        reason = getattr(error, "strerror", None) or error
        _refuse(f"it is damaged or was cut off: it cannot be opened as a video ({reason})")


def timestamps(path: str) -> dict[str, Any]:
    """One finite time a frame, strictly increasing, in any of the ways in which the engine reads them."""
    with open(path, "rb") as file:
        data = file.read(_LONGEST_TEXT + 1)
    if len(data) > _LONGEST_TEXT:
        _refuse(f"timestamps may have {_LONGEST_TEXT:,} bytes")
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        _refuse(f"it is not UTF-8: byte {error.start} cannot be decoded")
    is_json = text[:1] in ("[", "{")
    try:
        values = json.loads(text) if is_json else text.split()
    except (ValueError, RecursionError) as error:
        _refuse(f"it is no JSON: {error}")
    values = values.get("timestamps") if isinstance(values, dict) else values
    if not isinstance(values, list) or not values:
        _refuse('it holds no times; it needs a JSON list, {"timestamps": […]}, or one number a line, in seconds')
    _check_times(values)
    facts = {"frames": len(values), "first_s": float(values[0]), "last_s": float(values[-1])}
    return {"suffix": ".json" if is_json else ".txt", "facts": facts}


def _check_times(values: list[Any]) -> None:
    before = -math.inf
    for index, value in enumerate(values):
        try:
            time_s = float(value)
        except (TypeError, ValueError, OverflowError):
            _refuse(f"entry {index} is {value!r:.60}, no number")
        if not math.isfinite(time_s) or time_s <= before:
            _refuse(f"times must be finite and increase strictly; entry {index} is {time_s} after {before}")
        before = time_s


def _looks_like_video(head: bytes) -> bool:
    """Whether the first bytes are those of a container that is taken, before any parser sees the file."""
    boxes = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
    return (
        head[4:8] in boxes
        or head[:4] == b"\x1aE\xdf\xa3"
        or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")
        or head[:4] == b"\x00\x00\x01\xba"
        or (head[:1] == b"G" and head[188:189] == b"G")
        or (head[4:5] == b"G" and head[196:197] == b"G")
    )


def _facts(container: Any) -> dict[str, Any]:
    streams = [stream for stream in container.streams.video if not int(stream.disposition) & _COVER]
    if not streams:
        kinds = sorted({stream.type for stream in container.streams}) or ["nothing"]
        _refuse(f"it holds no video stream; it holds {', '.join(kinds)}")
    stream = streams[0]
    codec = stream.codec_context
    if codec is None or not (0 < codec.width <= _LARGEST_SIDE and 0 < codec.height <= _LARGEST_SIDE):
        size = "of no size" if codec is None else f"of {codec.width}x{codec.height}"
        _refuse(f"its pictures are {size}; a side of 1 to {_LARGEST_SIDE} pixels is allowed")
    seconds = None if stream.duration is None else float(stream.duration * (stream.time_base or Fraction(0)))
    if seconds is None and container.duration is not None:
        seconds = container.duration / 1e6
    return {
        "width": codec.width,
        "height": codec.height,
        "codec": codec.name,
        "frames": stream.frames or None,
        "seconds": seconds if seconds is not None and math.isfinite(seconds) and seconds >= 0 else None,
    }


def _refuse(reason: str) -> NoReturn:
    raise RefusedError(reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
