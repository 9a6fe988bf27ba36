"""Messages survive the wire, and what is no message never gets past it."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from typing import Any

import cv2
import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from simbridge.errors import RemoteError
from simbridge.remote import decode, encode

DTYPES = ("bool", "uint8", "int16", "int64", "uint64", "float16", "float32", "float64")


def sent(value: Any, **how: Any) -> Any:
    return decode(encode({"value": value}, **how))["value"]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(DTYPES).flatmap(lambda d: arrays.arrays(d, arrays.array_shapes(min_dims=0, min_side=0))))
def test_arrays_come_back_bit_by_bit(array: np.ndarray) -> None:
    back = sent(array)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert back.flags.writeable


def test_layouts_and_byte_orders_do_not_matter() -> None:
    grid = np.arange(24, dtype=np.int32).reshape(4, 6)
    for array in (grid.T, grid[::-1, ::2], grid.astype(">i4")):
        back = sent(array)
        assert np.array_equal(back, array)
        assert back.dtype == np.dtype("int32")


def test_plain_values_and_arrays_of_objects() -> None:
    mixed = np.array([None, {"a": np.arange(3)}, None], object)
    back = sent({"text": "ä", "numbers": [1, -2.5, None, True], "mixed": mixed, "scalar": np.float32(0.5)})
    assert back["text"] == "ä"
    assert back["numbers"] == [1, -2.5, None, True]
    assert back["scalar"] == 0.5
    assert back["mixed"].dtype == object
    assert back["mixed"][0] is None
    assert np.array_equal(back["mixed"][1]["a"], np.arange(3))


def test_pictures_pack_and_unpack() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 12, 20, 3), np.uint8)
    flat = np.full((2, 16, 16, 3), (200, 10, 60), np.uint8)
    assert np.array_equal(sent(noise, images="png"), noise)
    assert np.array_equal(sent(noise[0], images="png"), noise[0])
    assert np.abs(sent(flat, images="jpeg").astype(int) - flat).max() <= 3  # Red stays red.
    assert len(encode({"v": flat}, images="png")) < len(encode({"v": flat})) / 4
    depth = np.ones((2, 12, 20), np.float32)
    assert np.array_equal(sent(depth, images="jpeg"), depth)


@pytest.mark.parametrize("value", [{1, 2}, object(), np.array(["text"]), 2**80, np.zeros((2, 2), object), b"x".__len__])
def test_what_has_no_form_is_refused(value: Any) -> None:
    with pytest.raises(RemoteError):
        encode({"value": value})


def array(dtype: Any = "uint8", shape: Any = (4,), data: Any = b"1234") -> bytes:
    return msgpack.packb({"v": {"dtype": dtype, "shape": shape, "data": data}})


def picture(width: int, height: int, shape: Any, kind: str = "png") -> bytes:
    file = cv2.imencode(f".{kind}", np.zeros((height, width, 3), np.uint8))[1].tobytes()
    return msgpack.packb({"v": {"pictures": kind, "shape": shape, "data": [file]}})


HUGE = 1 << 40
BAD = {
    "nothing": b"",
    "cut short": array()[:-1],
    "more behind": array() + b"\x00",
    "a pickle": pickle.dumps({"op": "step"}),
    "text": b"\xd9\x05hello",
    "a list": msgpack.packb([1, 2]),
    "numbers as keys": msgpack.packb({1: 2}),
    "an extension": msgpack.packb({"v": msgpack.ExtType(1, b"x")}),
    "a time stamp": msgpack.packb({"v": msgpack.Timestamp(1)}),
    "no utf-8": b"\x81\xa1v\xa2\xff\xfe",
    "a list that claims to be huge": b"\x81\xa1v\xdd\xff\xff\xff\xff",
    "a map that claims to be huge": b"\x81\xa1v\xdf\xff\xff\xff\xff",
    "bytes that claim to be huge": b"\x81\xa1v\xc6\xff\xff\xff\xff",
    "too many entries": msgpack.packb({"v": [0] * 5000}),
    "deep": b"\x81\xa1v" + b"\x91" * 100_000,
    "objects": array("object"),
    "a dtype with fields": array("i4,i4"),
    "a dtype that is no name": array(["u1"]),
    "text as data": array(data="1234"),
    "too little data": array(shape=(5,)),
    "too much data": array(shape=(3,)),
    "a negative axis": array(shape=(-4,)),
    "an axis that is no number": array(shape=(4.0,)),
    "true as an axis": array(shape=(True, 4)),
    "many axes": array(shape=(4, *[1] * 40)),
    "a shape beyond all memory": array(shape=(HUGE, HUGE), data=b""),
    "pictures of another size": picture(8, 8, (1, 16, 16, 3)),
    "a bomb": picture(4000, 4000, (1, 8, 8, 3)),
    "jpegs of another size": picture(8, 8, (1, 8, 9, 3), "jpg"),
    "more pictures than files": picture(8, 8, (2, 8, 8, 3)),
    "no pictures": msgpack.packb({"v": {"pictures": "png", "shape": (1, 8, 8, 3), "data": [b"\x89PNG"]}}),
    "pictures of an unknown kind": msgpack.packb({"v": {"pictures": "tiff", "shape": (0, 8, 8, 3), "data": []}}),
    "items that are none": msgpack.packb({"v": {"items": 3}}),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_message_is_refused(name: str) -> None:
    with pytest.raises(RemoteError):
        decode(BAD[name])


def test_a_damaged_picture_is_refused() -> None:
    file = cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    damaged = file[:33] + b"\x00" * (len(file) - 33)
    with pytest.raises(RemoteError, match="damaged"):
        decode(msgpack.packb({"v": {"pictures": "png", "shape": (1, 8, 8, 3), "data": [damaged]}}))


def test_the_limit_holds_for_the_message_and_for_all_arrays_together() -> None:
    one = encode({"v": np.zeros(600, np.uint8)})
    assert len(decode(one, limit=len(one))["v"]) == 600
    with pytest.raises(RemoteError, match=r"may have 600 bytes"):
        decode(one, limit=600)
    # A picture of one colour is small on the wire and large in memory.
    flat = encode({"v": np.zeros((4, 64, 64, 3), np.uint8)}, images="png")
    assert len(flat) < 2000
    with pytest.raises(RemoteError, match="more than was allowed"):
        decode(flat, limit=2000)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_or_a_map(data: bytes) -> None:
    with suppress(RemoteError):
        assert isinstance(decode(data), dict)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_message_with_one_byte_changed_is_refused_or_a_map(at: int, value: int) -> None:
    whole = bytearray(encode({"op": "step", "v": np.zeros((3, 4)), "p": np.zeros((1, 8, 8, 3), np.uint8)}, "png"))
    whole[at % len(whole)] = value
    with suppress(RemoteError):
        assert isinstance(decode(bytes(whole)), dict)


def test_sizes_are_read_from_what_files_say() -> None:
    # A JPEG whose first parts are longer than usual, as cameras write them.
    file = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    long = file[:2] + b"\xff\xe1" + struct.pack(">H", 300) + b"x" * 298 + file[2:]
    message = msgpack.packb({"v": {"pictures": "jpeg", "shape": (8, 8, 3), "data": [long]}})
    assert decode(message)["v"].shape == (8, 8, 3)
