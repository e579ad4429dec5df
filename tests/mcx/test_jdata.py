"""Arrays as the JData standard annotates them, checked against strings that other programs wrote."""

import base64
import gzip
import lzma
import tracemalloc
import zlib

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.jdata import decode_array, encode_array, is_array

# Written by the Python package jdata 0.9.5 for np.arange(24, dtype=np.uint16).reshape(2, 3, 4).
BY_JDATA = {
    "zlib": "eJwFwYUBgCAAALBZGIABIv9/6sZgNJktgtVmd4iS7HS5PYrq1Xy6HxIoARU=",
    "gzip": "H4sIAAAAAAAAAwXBhQGAIAAAsFkYgAEi/3/qxmA0mS2C1WZ3iJLsdLk9iurVfLoffN0Z0zAAAAA=",
    "lzma": "XQAAgAD//////////wAAYAJ/8+JzMj/+7R3ljd7Gx583pdrI3ghIxGZPWEY8o4XGDDnwbC8Y8O7//6P2AAA=",
}
ARANGE = np.arange(24).reshape(2, 3, 4)


def packed(data: bytes, zip_type="zlib", **fields) -> dict:
    return {
        "_ArrayType_": "uint8", "_ArraySize_": [2, 3, 4], "_ArrayZipType_": zip_type, "_ArrayZipSize_": 24,
        "_ArrayZipData_": base64.b64encode(data).decode(),
    } | fields  # fmt: skip


BYTES = ARANGE.astype(np.uint8).tobytes()


@pytest.mark.parametrize("zip_type", BY_JDATA)
def test_arrays_of_another_program(zip_type):
    node = {
        "_ArrayType_": "uint16", "_ArraySize_": [2, 3, 4], "_ArrayZipType_": zip_type, "_ArrayZipSize_": [1, 24],
        "_ArrayZipData_": BY_JDATA[zip_type],
    }  # fmt: skip
    found = decode_array(node, "Shapes")
    np.testing.assert_array_equal(found, ARANGE)
    assert found.dtype == np.uint16


@pytest.mark.parametrize(
    "node",
    [
        packed(zlib.compress(BYTES)),
        packed(gzip.compress(BYTES), "gzip"),
        packed(gzip.compress(BYTES), "ZLIB"),
        packed(lzma.compress(BYTES, lzma.FORMAT_ALONE), "lzma"),
        packed(lzma.compress(BYTES), "lzma"),
        packed(BYTES, "base64"),
        packed(zlib.compress(ARANGE.astype(np.uint8).tobytes(order="F")), _ArrayOrder_="col"),
        packed(zlib.compress(ARANGE.astype(">u2").tobytes()), _ArrayType_="uint16", _ArrayZipEndian_="big"),
        packed(zlib.compress(ARANGE.astype("<f8").tobytes()), _ArrayType_="double"),
        {"_ArrayType_": "int32", "_ArraySize_": [2, 3, 4], "_ArrayData_": list(range(24))},
        {"_ArrayType_": "single", "_ArraySize_": [2, 3, 4], "_ArrayData_": [float(n) for n in range(24)]},
        {"_ArrayType_": "uint8", "_ArraySize_": [2, 3, 4], "_ArrayOrder_": "c",
         "_ArrayData_": ARANGE.ravel(order="F").tolist()},
    ],
)  # fmt: skip
def test_every_way_to_store_an_array(node):
    assert is_array(node)
    np.testing.assert_array_equal(decode_array(node, "Shapes"), ARANGE)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", ">i2", ">f8", "?"])
def test_there_and_back(dtype):
    rng = np.random.default_rng(3)
    array = np.asfortranarray(rng.integers(0, 100, (3, 5, 2, 4)).astype(dtype))
    node = encode_array(array)
    found = decode_array(node, "Shapes")
    np.testing.assert_array_equal(found, array.astype(np.uint8) if dtype == "?" else array)
    assert found.dtype == (np.uint8 if dtype == "?" else np.dtype(dtype).newbyteorder("="))


def test_nan_and_infinity_survive():
    array = np.array([np.nan, np.inf, -np.inf, 1e-45], np.float32)
    np.testing.assert_array_equal(decode_array(encode_array(array), "a"), array)


GOOD = zlib.compress(BYTES)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (packed(GOOD, _ArrayType_="float80"), "Shapes._ArrayType_ is 'float80'"),
        (packed(GOOD, _ArrayType_=None), "_ArrayType_ is absent"),
        (packed(GOOD, _ArraySize_=[2, 3, -4]), "positive integers"),
        (packed(GOOD, _ArraySize_=[2, 3, 4.5]), "positive integers"),
        (packed(GOOD, _ArraySize_=[]), "positive integers"),
        (packed(GOOD, _ArraySize_=[True, 24]), "positive integers"),
        (packed(GOOD, _ArraySize_=[10**400]), "positive integers"),
        (packed(GOOD, _ArraySize_="all"), "positive integers"),
        (packed(GOOD, _ArraySize_=[2**20, 2**20]), "MB of memory"),
        (packed(GOOD, _ArraySize_=[2, 3, 5]), "holds 24 bytes and its size and type need 30"),
        (packed(GOOD, _ArraySize_=[2, 3, 3]), "holds more bytes"),
        (packed(GOOD, _ArrayZipType_="lz4"), "'lz4'; zlib, gzip, lzma, base64"),
        (packed(GOOD, _ArrayZipType_=None), "_ArrayZipType_ is absent"),
        (packed(GOOD, _ArrayZipData_="not*base64"), "not base64"),
        (packed(GOOD, _ArrayZipData_="é"), "not base64"),
        (packed(GOOD, _ArrayZipData_=[1, 2]), "base64 text is needed"),
        (packed(GOOD[:-8]), "holds .* bytes|cannot be decompressed"),
        (packed(b"rubbish"), "cannot be decompressed"),
        (packed(b"rubbish", "lzma"), "cannot be decompressed"),
        (packed(b"", "lzma"), "holds 0 bytes"),
        # an LZMA header that asks for a dictionary of 3 GB
        (packed(b"\x5d\x00\x00\x00\xc0" + b"\xff" * 8 + b"\x00" * 9, "lzma"), "cannot be decompressed"),
        (packed(GOOD, _ArrayIsComplex_=True), "_ArrayIsComplex_"),
        (packed(GOOD, _ArrayIsSparse_=True), "_ArrayIsSparse_"),
        ({"_ArrayType_": "uint8", "_ArraySize_": [2], "_ArrayData_": [1]}, "has 1 values .* needs 2"),
        ({"_ArrayType_": "uint8", "_ArraySize_": [2]}, "has 1 values .* needs 2"),
        ({"_ArrayType_": "uint8", "_ArraySize_": [2], "_ArrayData_": [1, 256]}, "no uint8 numbers"),
        ({"_ArrayType_": "uint8", "_ArraySize_": [2], "_ArrayData_": [1, 1.5]}, "no uint8 numbers"),
        ({"_ArrayType_": "uint8", "_ArraySize_": [2], "_ArrayData_": [1, 10**400]}, "no uint8 numbers"),
        ({"_ArrayType_": "single", "_ArraySize_": [2], "_ArrayData_": [1, "x"]}, "no float32 numbers"),
        ({"_ArrayType_": "single", "_ArraySize_": [2], "_ArrayData_": [1, [2, 3]]}, "no float32 numbers"),
        ({"_ArrayType_": "single", "_ArraySize_": [2], "_ArrayData_": [[1, 2], [2, 3]]}, "no float32 numbers"),
        ({"_ArrayType_": "single", "_ArraySize_": [2], "_ArrayData_": [None, {}]}, "no float32 numbers"),
    ],
)
def test_wrong_arrays(node, words):
    with pytest.raises(InvalidInput, match=words):
        decode_array(node, "Shapes")


@pytest.mark.parametrize("zip_type", ["zlib", "lzma"])
def test_a_bomb_takes_no_memory(zip_type):
    zeros = bytes(100 * 2**20)
    bomb = zlib.compress(zeros) if zip_type == "zlib" else lzma.compress(zeros, preset=0)
    node = packed(bomb, zip_type)
    tracemalloc.start()
    with pytest.raises(InvalidInput, match="holds more bytes"):
        decode_array(node, "Shapes")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([1j]), np.array([None])])
def test_what_cannot_be_written(array):
    with pytest.raises(InvalidInput, match="cannot be written as JData"):
        encode_array(array)


@pytest.mark.parametrize("node", [None, 5, [1], {"Grid": {}}, "x"])
def test_what_is_no_array(node):
    assert not is_array(node)
