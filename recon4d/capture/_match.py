"""Which video is which camera's: by name first exactly, then ignoring more and more of what spellings differ in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from recon4d.errors import CaptureError

VIDEO_SUFFIXES = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".h264", ".hevc"}


def _composed(name: str) -> str:
    """One spelling of letters with marks, which macOS and Linux keep differently."""
    return unicodedata.normalize("NFC", name).strip()


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", _composed(name).casefold())


def _unpadded(name: str) -> str:
    """Numbers without leading zeros, and any separators as one."""
    return re.sub(r"[\s._-]+", "_", re.sub(r"0*(\d+)", r"\1", _folded(name)))


def _number(name: str) -> str:
    """The number alone, of names that hold one: cam_03, camera-3 and 3 are the same."""
    numbers = re.findall(r"\d+", _unpadded(name))
    return numbers[0] if len(numbers) == 1 else _unpadded(name)


LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", _composed),
    ("upper and lower case are the same", _folded),
    ("leading zeros and separators do not count", _unpadded),
    ("only the number counts", _number),
)


def videos_in(folder: Path) -> list[Path]:
    """The videos of a folder, sorted by name.

    Raises:
        CaptureError: it is no folder, or holds none.
    """
    if not folder.is_dir():
        raise CaptureError("there is no such folder", file=str(folder))
    videos = sorted(
        (path for path in folder.iterdir() if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file()),
        key=lambda path: _composed(path.name),
    )
    if not videos:
        raise CaptureError("holds no video; give their folder with --videos", file=str(folder))
    return videos


def match_videos(
    cameras: Sequence[str], videos: Sequence[Path], *, ordered: bool = False
) -> tuple[dict[str, Path], str]:
    """Each camera's video, and in words what was ignored to match them; empty where names are the same.

    Args:
        cameras: Names in the calibration.
        videos: Files.
        ordered: Cameras are told by their order alone: they belong to the sorted videos one by one.

    Raises:
        CaptureError: a camera has no video, or two; all unmatched names on both sides are listed.
    """
    if ordered:
        if len(cameras) != len(videos):
            raise CaptureError(
                f"the calibration tells cameras by the order of the sorted videos; it holds {len(cameras)}, but there"
                f" are {len(videos)} videos ({_listed(path.name for path in videos)}): leave those out that were not"
                " calibrated"
            )
        return dict(zip(cameras, videos, strict=True)), "cameras are in the order of the sorted videos"
    best: tuple[int, list[str], list[str]] | None = None
    for ignored, key in LEVELS:
        by_key: dict[str, list[Path]] = {}
        for path in videos:
            by_key.setdefault(key(path.stem), []).append(path)
        keys = [key(name) for name in cameras]
        _refuse_twins(cameras, keys, by_key)
        missing = [name for name, k in zip(cameras, keys, strict=True) if k not in by_key]
        if not missing:
            return {name: by_key[k][0] for name, k in zip(cameras, keys, strict=True)}, ignored
        stray = [path.name for k, paths in by_key.items() if k not in keys for path in paths]
        if best is None or len(missing) < best[0]:
            best = (len(missing), missing, stray)
    assert best is not None
    _, missing, stray = best
    raise CaptureError(
        f"no video was found for the cameras {_listed(missing)}; videos without a camera: {_listed(stray) or 'none'}."
        " Name each video after its camera, or take only some cameras with --cameras"
    )


def _refuse_twins(cameras: Sequence[str], keys: Sequence[str], by_key: dict[str, list[Path]]) -> None:
    """Refuses a match that could be meant otherwise: two videos, or two cameras, that one spelling stands for."""
    for name, k in zip(cameras, keys, strict=True):
        if len(by_key.get(k, [])) > 1:
            both = _listed(path.name for path in by_key[k])
            raise CaptureError(
                f"several videos could be meant: {both}; keep one, or name it after the camera", camera=name
            )
        if k in by_key and list(keys).count(k) > 1:
            twins = [other for other, key in zip(cameras, keys, strict=True) if key == k]
            raise CaptureError(
                f"the cameras {_listed(twins)} could all be meant by '{by_key[k][0].name}'; name videos as they are"
            )


def _listed(texts: Iterable[str]) -> str:
    names = list(texts)
    return ", ".join(repr(name) for name in names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
