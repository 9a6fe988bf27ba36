"""Messages between an environment and who steps it: MessagePack, with arrays as maps that any language can read.

    array       {"dtype": "float32", "shape": [16, 7], "data": bytes}        little-endian, row by row
    pictures    {"pictures": "png", "shape": [16, 128, 128, 3], "data": [bytes, …]}     one file a picture, RGB
    mixed       {"items": [value or nil, …]}                                 an array of objects, one axis

What comes in is believed in nothing: every size is checked before memory is taken for it, and there is no way to name a
class, a function or a file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Literal, get_args

import cv2
import numpy as np

from recon4d.errors import MissingExtraError
from simbridge.errors import RemoteError

try:
    import msgpack
except ImportError as error:
    raise MissingExtraError("msgpack", "remote", "stepping environments on a server") from error

ImageFormat = Literal["raw", "png", "jpeg"]
IMAGE_FORMATS: tuple[str, ...] = get_args(ImageFormat)
LARGEST = 256 * 2**20
"""Bytes of one message that a client takes; a server takes far less."""

_DTYPES = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"}) | frozenset(
    {"float16", "float32", "float64"}
)
_AXES = 8
_ENTRIES = 4096  # Of a map, and of a list that is no array.
_TEXT = 1 << 16
_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 90]
_PNG = [cv2.IMWRITE_PNG_COMPRESSION, 1]
_START_OF_PNG, _START_OF_JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"


def encode(message: dict[str, Any], images: ImageFormat = "raw") -> bytes:
    """A message as bytes.

    Args:
        message: strings to None, numbers, strings, lists, maps of the same, and arrays of numbers or of objects.
        images: how to pack uint8 arrays [..., H, W, 3]: as they are, without loss as PNG, or small as JPEG.

    Raises:
        RemoteError: it holds something that has no such form.
    """

    def packed(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return _packed(value, images)
        if isinstance(value, np.generic):
            return value.item()
        raise RemoteError(f"a message cannot hold a {type(value).__name__}")

    try:
        return bytes(msgpack.Packer(default=packed, use_bin_type=True).pack(message))
    except (OverflowError, ValueError, TypeError) as error:
        raise RemoteError(f"the message has no form on the wire: {error}") from error


def decode(data: bytes | memoryview, limit: int = LARGEST) -> dict[str, Any]:
    """The message in bytes; its arrays are its own and may be written to.

    Args:
        data: what came in.
        limit: bytes that it may have, and that all its arrays together may take.

    Raises:
        RemoteError: it is no such message, or larger.
    """
    if len(data) > limit:
        raise RemoteError(f"a message may have {limit} bytes; this one has {len(data)}")
    try:
        message = msgpack.unpackb(
            data,
            object_hook=_Reader(limit).read,
            raw=False,
            strict_map_key=True,
            max_str_len=_TEXT,
            max_bin_len=limit,
            max_array_len=_ENTRIES,
            max_map_len=_ENTRIES,
            max_ext_len=0,
        )
    except RemoteError:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise RemoteError(f"this is no message: {error or type(error).__name__}") from error
    if not isinstance(message, dict):
        raise RemoteError(f"a message is a map; this is a {type(message).__name__}")
    return message


def _packed(array: np.ndarray, images: ImageFormat) -> dict[str, Any]:
    if array.dtype == object:
        if array.ndim != 1:
            raise RemoteError(f"an array of objects must have one axis; it has {array.ndim}")
        return {"items": list(array)}
    if array.dtype.name not in _DTYPES:
        raise RemoteError(f"an array of {array.dtype} has no form on the wire")
    if images != "raw" and array.dtype == np.uint8 and array.ndim in (3, 4) and array.shape[-1] == 3 and array.size:
        files = [_file(picture, images) for picture in (array if array.ndim == 4 else array[None])]
        return {"pictures": images, "shape": list(array.shape), "data": files}
    whole = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    # A view of bytes: packing then copies once.
    data = whole.reshape(-1).view(np.uint8).data if whole.size else b""
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def _file(picture: np.ndarray, images: ImageFormat) -> bytes:
    done, data = cv2.imencode(f".{images}", picture[..., ::-1], _JPEG if images == "jpeg" else _PNG)
    if not done:
        raise RemoteError(f"a picture of shape {picture.shape} has no {images} form")
    return data.tobytes()


class _Reader:
    """Turns maps back into arrays while bytes are left for them."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def read(self, entry: dict[Any, Any]) -> Any:
        kind = self._KINDS.get(frozenset(entry))
        return entry if kind is None else kind(self, entry)

    def _array(self, entry: dict[str, Any]) -> np.ndarray:
        name, data = entry["dtype"], entry["data"]
        if not isinstance(name, str) or name not in _DTYPES or not isinstance(data, bytes):
            raise RemoteError(f"an array is bytes of one of {', '.join(sorted(_DTYPES))}; it is {str(name)[:40]!r}")
        dtype = np.dtype(name).newbyteorder("<")
        shape, size = self._shape(entry["shape"], dtype.itemsize)
        if size != len(data):
            raise RemoteError(f"an array of {name} {list(shape)} has {size} bytes; {len(data)} came")
        # Numbers of this machine's own byte order, whatever it is.
        return np.frombuffer(data, dtype).reshape(shape).astype(np.dtype(name))

    def _pictures(self, entry: dict[str, Any]) -> np.ndarray:
        kind, files = entry["pictures"], entry["data"]
        shape, _ = self._shape(entry["shape"], 1)
        if kind not in ("png", "jpeg") or len(shape) not in (3, 4) or shape[-1] != 3 or not isinstance(files, list):
            raise RemoteError("pictures are PNG or JPEG files of a shape [..., H, W, 3]")
        count = shape[0] if len(shape) == 4 else 1
        if len(files) != count or not all(isinstance(file, bytes) for file in files):
            raise RemoteError(f"pictures of shape {list(shape)} are {count} files; {len(files)} came")
        pictures = np.empty((count, *shape[-3:]), np.uint8)
        for picture, file in zip(pictures, files, strict=True):
            if _size(file) != shape[-3:-1]:
                raise RemoteError(f"a picture of {shape[-2]} x {shape[-3]} pixels was announced; another came")
            found = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)
            if found is None or found.shape != picture.shape:
                raise RemoteError(f"a {kind} picture is damaged")
            picture[:] = found[..., ::-1]
        return pictures.reshape(shape)

    def _items(self, entry: dict[str, Any]) -> np.ndarray:
        items = entry["items"]
        if not isinstance(items, list):
            raise RemoteError(f"items are a list; they are a {type(items).__name__}")
        array = np.empty(len(items), object)
        for index, item in enumerate(items):  # At once, equal arrays would become one of more axes.
            array[index] = item
        return array

    def _shape(self, shape: Any, itemsize: int) -> tuple[tuple[int, ...], int]:
        """The shape, and how many bytes it takes; those are taken off what is left."""
        whole = isinstance(shape, list) and len(shape) <= _AXES
        if not whole or not all(type(n) is int and 0 <= n <= LARGEST for n in shape):
            raise RemoteError(f"a shape is a list of up to {_AXES} whole numbers; it is {str(shape)[:80]}")
        size = math.prod(shape) * itemsize
        self._left -= size
        if self._left < 0:
            raise RemoteError(f"the arrays of a message would take more than was allowed: one has shape {shape}")
        return tuple(shape), size

    _KINDS: dict[frozenset[str], Callable[[_Reader, dict[str, Any]], Any]] = {  # noqa: RUF012 - never written to.
        frozenset({"dtype", "shape", "data"}): _array,
        frozenset({"pictures", "shape", "data"}): _pictures,
        frozenset({"items"}): _items,
    }


def _size(file: bytes) -> tuple[int, int] | None:
    """Height and width that a PNG or JPEG file says of itself, before anything is unpacked; None when it does not."""
    if file.startswith(_START_OF_PNG) and len(file) >= 24:
        width, height = struct.unpack(">II", file[16:24])
        return height, width
    at = 2
    while file.startswith(_START_OF_JPEG) and at + 9 <= len(file) and file[at] == 0xFF:
        mark, length = file[at + 1], int.from_bytes(file[at + 2 : at + 4], "big")
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", file[at + 5 : at + 9])
            return height, width
        at += 2 + length
    return None
