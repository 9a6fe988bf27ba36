"""What lies at a path, parsed without trusting it: JSON, TOML, YAML, XML and .npy of strangers.

Files are parsed by code that cannot run anything, does not expand entities or aliases, and reads no more than a
calibration can hold. Whatever is wrong with them comes out as a ``CaptureError``.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
import yaml

from recon4d.errors import CaptureError

_LIMIT_MIB = {"json": 64, "xml": 16, "toml": 1, "yaml": 0.5}
"""A rig of a hundred cameras is a tenth of a MiB; the parsers of TOML and YAML are slow."""
_PARSED = {".json": "json", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".xml": "xml"}
_MOST_FILES = 256
_DEEPEST = 64
_INDENTED = re.compile(rf"^ {{{4 * _DEEPEST}}}", re.MULTILINE)
_DOTTED = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){{{_DEEPEST}}}")
"""Keys such as a.a.a, for which the parser takes time with the square of their length."""
_NPY_HEADER = re.compile(
    rb"\{'descr': '([<>][fiu]\d{1,2})', 'fortran_order': (True|False), "
    rb"'shape': \((\d{1,18}(?:, ?\d{1,18})*),?\), \} *\n"
)


class Untrusted:
    """A file or a folder that may hold a calibration; every text file is parsed at most once."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise CaptureError("there is no such file or folder", file=str(path))
        self.path = path
        self.folder = path if path.is_dir() else path.parent
        self.complaints: dict[str, str] = {}
        """By file name: why it could not be parsed."""

    @cached_property
    def documents(self) -> dict[Path, Any]:
        """The content of each text file that parses to an object or list, in the order of names.

        Of a folder, its own files of a fitting suffix; of a file, that file whatever its name.
        """
        if self.path.is_file():
            candidates = [self.path]
        else:
            candidates = sorted(p for p in self.path.iterdir() if p.suffix.lower() in _PARSED and p.is_file())
            for path in candidates[_MOST_FILES:]:
                self.complaints[path.name] = f"is not looked at: the folder has more than {_MOST_FILES} such files"
        found = {}
        for path in candidates[:_MOST_FILES]:
            try:
                found[path] = parse(path)
            except CaptureError as error:
                self.complaints[path.name] = error.reason
        return found

    def only(self, fits: Callable[[Any], bool], what: str) -> tuple[Path, Any]:
        """The one document that fits; ``what`` says of files, in an error, what they hold.

        Raises:
            CaptureError: none fits, or several do.
        """
        fitting = [(path, data) for path, data in self.documents.items() if fits(data)]
        if len(fitting) != 1:
            names = ", ".join(path.name for path, _ in fitting)
            raise CaptureError(f"{len(fitting) or 'no'} files hold {what}" + (f": {names}; give one" if names else ""))
        return fitting[0]


def parse(path: Path) -> dict[str, Any] | list[Any]:
    """The object or list in a text file, in whichever of JSON, TOML, YAML and XML it is written.

    YAML's and XML's scalars are all text. The format is told by how the file begins, else by its suffix.

    Raises:
        CaptureError: it is none of them, or too large for a calibration.
    """
    with reading(path) as file:
        head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    suffix = _PARSED.get(path.suffix.lower())
    if head.startswith(b"<"):
        kind = "xml"
    elif head.startswith(b"{"):
        kind = "json"
    elif head.startswith((b"%YAML", b"---")):
        kind = "yaml"
    else:
        kind = suffix or "toml"
    text = _text(path, kind)
    try:
        data = {"json": json.loads, "toml": _toml, "yaml": _yaml, "xml": _xml}[kind](text)
    except RecursionError:
        raise CaptureError(f"is nested too deeply to be {kind.upper()} of a calibration", file=path.name) from None
    except (ValueError, yaml.YAMLError, expat.ExpatError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CaptureError(f"cannot be read as {kind.upper()}: {reason}", file=path.name) from error
    if not isinstance(data, dict | list):
        raise CaptureError(f"must hold an object; it holds {str(data)[:60]!r}", file=path.name)
    return data


def load_npy(path: Path) -> np.ndarray:
    """A numeric array of a .npy file, float64. Pickled objects are refused, and so is a size that the file lacks.

    Raises:
        CaptureError: it is no such file.
    """
    with reading(path) as file:
        head = file.read(12)
        if head[:6] != b"\x93NUMPY" or len(head) < 12 or head[6] not in (1, 2, 3):
            raise CaptureError("is no .npy file", file=path.name)
        long = head[6] > 1
        length = int.from_bytes(head[8:12] if long else head[8:10], "little")
        file.seek(12 if long else 10)
        header = file.read(min(length, 4096))
        if b"'O'" in header or b"|O" in header:
            raise CaptureError(
                "holds pickled Python objects, which can run code when they are read; they are refused", file=path.name
            )
        match = _NPY_HEADER.fullmatch(header)
        if match is None:
            raise CaptureError(
                f"has the header {header[:120]!r}; numbers as numpy.save writes are needed", file=path.name
            )
        try:
            kind = np.dtype(match[1].decode())
        except TypeError as error:
            raise CaptureError(f"holds {match[1].decode()}, which is no number", file=path.name) from error
        shape = tuple(int(n) for n in match[3].split(b","))
        count = 1
        for n in shape:
            count *= n
        left = path.stat().st_size - file.tell()
        if count * kind.itemsize != left or left > 64 * 2**20:
            raise CaptureError(
                f"promises {count} numbers of {kind.itemsize} bytes, but {left} bytes follow", file=path.name
            )
        values = np.frombuffer(file.read(left), kind).astype(np.float64)
    return values.reshape(shape, order="F" if match[2] == b"True" else "C")


def reading(path: Path):
    """The file, opened; what the system refuses is said as our error."""
    try:
        return path.open("rb")
    except OSError as error:
        raise CaptureError(f"cannot be read: {error.strerror}", file=path.name) from error


def _text(path: Path, kind: str) -> str:
    with reading(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        data = file.read(size) if size <= _LIMIT_MIB[kind] * 2**20 else None
    if data is None:
        raise CaptureError(
            f"is larger than {_LIMIT_MIB[kind]:g} MiB, too large for a calibration in {kind.upper()}", file=path.name
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CaptureError(f"is not UTF-8: byte {error.start} cannot be decoded", file=path.name) from error


def _toml(text: str) -> Any:
    if _DOTTED.search(text):
        raise RecursionError
    return tomllib.loads(text)


class _Loader(yaml.BaseLoader):
    """YAML whose every scalar is text: names keep their leading zeros. Tags mean nothing; aliases are refused."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read")
        return super().compose_node(parent, index)


def _yaml(text: str) -> Any:
    # The parser is slow with deep content: it is refused before.
    if _INDENTED.search(text) or _brackets(text) > _DEEPEST:
        raise RecursionError
    # OpenCV's FileStorage writes the directive with a colon, which is no YAML.
    text = re.sub(r"\A%YAML[: ]1\.\d\s*\n", "", text)
    try:
        return yaml.load(text, _Loader)
    except TypeError as error:  # A mapping as a key.
        raise yaml.YAMLError(str(error)) from error


def _brackets(text: str) -> int:
    """How deep brackets are nested; those in quotes count as well."""
    depth = deepest = 0
    for bracket in re.findall(r"[][{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _xml(text: str) -> Any:
    """OpenCV's FileStorage in XML. A document type, the home of entities, is refused."""
    builder, depth = ElementTree.TreeBuilder(), 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise RecursionError
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*_: Any) -> None:
        raise ValueError("a document type (<!DOCTYPE>) is not read")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    parser.StartDoctypeDeclHandler = refuse
    # The text is decoded already: what its declaration says of an encoding no longer holds.
    parser.Parse(re.sub(r"\A\s*<\?xml[^>]*\?>", "", text), True)
    return _plain(builder.close())


def _plain(element: ElementTree.Element) -> Any:
    """Elements named "_" are a list's, others an object's; text with spaces is a list of words."""
    children = list(element)
    if not children:
        words = (element.text or "").split()
        return words if len(words) > 1 else (words[0].strip('"') if words else "")
    if all(child.tag == "_" for child in children):
        return [_plain(child) for child in children]
    return {child.tag: _plain(child) for child in children}
