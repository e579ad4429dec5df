"""Binary JSON from its bytes, written here by hand, and volumes in binary JNIfTI."""

import contextlib
import struct
import zlib

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.bjdata import decode_bjdata
from tests.mcx.samples import case, without

LABELS = np.random.default_rng(4).integers(0, 3, (4, 5, 6)).astype(np.uint8)


def text(words: str) -> bytes:
    return b"U" + bytes([len(words)]) + words.encode()


def packed(data: bytes, order: str = "<") -> bytes:
    return b"[$U#l" + struct.pack(f"{order}i", len(data)) + data


def field(key: str, value: bytes) -> bytes:
    return text(key) + value


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"Z", None),
        (b"T", True),
        (b"i\xfe", -2),
        (b"U\xfe", 254),
        (b"I\x01\x02", 0x0201),
        (b"u\xff\xff", 65535),
        (b"m\x01\x00\x00\x80", 0x80000001),
        (b"L" + struct.pack("<q", -(2**40)), -(2**40)),
        (b"h" + np.array(1.5, "<f2").tobytes(), 1.5),
        (b"d" + struct.pack("<f", 0.25), 0.25),
        (b"D" + struct.pack("<d", -1e300), -1e300),
        (b"Ca", "a"),
        (b"S" + text("µm")[:1] + bytes([3]) + "µm".encode(), "µm"),
        (b"H" + text("1e5"), 1e5),
        (b"[]", []),
        (b"{}", {}),
        (b"N[NU\x01NNTZN]N", [1, True, None]),
        (b"[#U\x02U\x01F", [1, False]),
        (b"[$S#U\x02" + text("ab") + text("c"), ["ab", "c"]),
        (b"{#U\x01" + field("a", b"U\x07"), {"a": 7}),
        (b"{$U#U\x02" + text("a") + b"\x01" + text("b") + b"\x02", {"a": 1, "b": 2}),
        (b"{" + field("a", b"[U\x01U\x02]") + field("b", b"{" + field("c", b"Z") + b"}") + b"}",
         {"a": [1, 2], "b": {"c": None}}),
    ],
)  # fmt: skip
def test_values(data, expected):
    assert decode_bjdata(data, "a.bnii") == expected


@pytest.mark.parametrize("order", ["<", ">"])
def test_packed_arrays(order):
    values = np.arange(300, dtype=f"{order}f4").reshape(20, 15)
    counts = b"[$U#U\x02\x14\x0f", b"[U\x14U\x0f]"
    for shape in counts:
        found = decode_bjdata(b"[$d#" + shape + values.tobytes() + b"N" * (order == ">"), "a")
        assert found.shape == (20, 15)
        if order == "<":  # nothing in these bytes tells which it is
            np.testing.assert_array_equal(found, values)
    length = struct.pack(f"{order}H", 300)
    np.testing.assert_array_equal(decode_bjdata(b"[$d#u" + length + values.tobytes(), "a"), values.ravel())


@pytest.mark.parametrize(
    "data",
    [
        b"", b"Q", b"[", b"{U", b"S", b"SU\x05ab", b"U", b"D\x00", b"[$U#U\x05ab", b"[$UU", b"[$d#i\xff", b"TT",
        b"[#l\xff\xff\xff\x7f", b"[$Z#M" + b"\xff" * 8, b"SU\x02\xff\xff", b"[" * 1000, b"{$i#[U\x02U\x02]",
        b"[$U#[$U#U\x02\x00\x80]", b"{#U\x02" + field("a", b"Z"),
        b"HU\x01x", b"[$U#[SU\x01a]", b"[$U#[Z]", b"[#" * 2000, b"{#[#" * 2000,
    ],
)  # fmt: skip
def test_damaged_bytes(data):
    with pytest.raises(InvalidInput, match=r"a\.bnii is not binary JSON that can be read .*; save it again"):
        decode_bjdata(data, "a.bnii")


def test_any_cut_and_any_changed_byte_is_refused_or_read():
    whole = bnii("<", "packed")
    for end in range(0, len(whole) - 1, 3):
        with pytest.raises(InvalidInput):
            decode_bjdata(whole[:end], "a")
    random = np.random.default_rng(1)
    for _ in range(300):
        changed = bytearray(whole)
        changed[random.integers(len(whole))] = random.integers(256)
        with contextlib.suppress(InvalidInput):
            decode_bjdata(bytes(changed), "a")


def bnii(order: str, kind: str) -> bytes:
    """A binary JNIfTI file of the labels: zipped as MCX has them, or an array of three axes."""
    header = field("NIFTIHeader", b"{" + field("Dim", b"[$U#U\x03\x04\x05\x06") + b"}")
    if kind == "axes":
        return b"{" + header + field("NIFTIData", b"[$U#[$U#U\x03\x04\x05\x06" + LABELS.tobytes()) + b"}"
    zipped = zlib.compress(np.repeat(LABELS, 9).tobytes())  # longer than 255 bytes, so that the order counts
    fields = field("_ArrayType_", b"S" + text("uint8")) + field("_ArraySize_", b"[$U#U\x04\x04\x05\x06\x09")
    fields += field("_ArrayZipType_", b"S" + text("zlib")) + field("_ArrayZipData_", packed(zipped, order))
    return b"{" + header + field("NIFTIData", b"{" + fields + b"}") + b"}"


@pytest.mark.parametrize("order", ["<", ">"])
def test_volumes_of_either_order_of_bytes(order):
    found = decode_bjdata(bnii(order, "packed"), "a")["NIFTIData"]
    assert zlib.decompress(found["_ArrayZipData_"].tobytes()) == np.repeat(LABELS, 9).tobytes()


def test_labels_from_binary_jnifti(tmp_path, read):
    root = without(case(Domain={"Dim": [4, 5, 6], "VolumeFile": "v.bnii"}), "Shapes")
    (tmp_path / "v.bnii").write_bytes(bnii("<", "axes"))
    np.testing.assert_array_equal(read(root).domain.labels, LABELS)
    zipped = zlib.compress(LABELS.tobytes())
    fields = field("_ArrayType_", b"S" + text("uint8")) + field("_ArraySize_", b"[$U#U\x03\x04\x05\x06")
    fields += field("_ArrayZipType_", b"S" + text("zlib")) + field("_ArrayZipData_", packed(zipped))
    (tmp_path / "v.bnii").write_bytes(b"{" + field("NIFTIData", b"{" + fields + b"}") + b"}")
    np.testing.assert_array_equal(read(root).domain.labels, LABELS)
    (tmp_path / "v.bnii").write_bytes(b"{" + field("NIFTIHeader", b"{}") + b"}")
    with pytest.raises(InvalidInput, match=r"v\.bnii: NIFTIData is absent"):
        read(root)
