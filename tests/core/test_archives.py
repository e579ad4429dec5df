"""Archives that are damaged, or claim what they do not hold."""

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.core.archives import array_names, opened_npz
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import json_of
from napari_gpubio.core.layer_files import get_reader, read_layers

GOOD = {"volume": np.ones((2, 3, 4)), "affine": np.eye(4), "about": np.array("{}")}


def npy(array: np.ndarray) -> bytes:
    """An array as it lies in an archive."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def with_header(text: str) -> bytes:
    """An array whose header is a text of one's own."""
    header = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(100)


def written(path: Path, method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    """An archive of a volume, some of its members replaced."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in ({name: npy(array) for name, array in GOOD.items()} | members).items():
            archive.writestr(f"{name}.npy", data)
    return path


HEADERS = {
    "brackets without an end": "{'descr': '<f8', 'fortran_order': False, 'shape': (((",
    "an indentation": "{'descr': '<f8',\n   'fortran_order'\n : False}",
    "no dictionary": "[1, 2]",
    "more than memory": "{'descr': '<f8', 'fortran_order': False, 'shape': (400000000,), }",
    "a number of 40 digits": "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 40 + ",), }",
    "a negative number": "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -4), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (10,), }",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=list(HEADERS))
def test_headers_that_lie_are_refused_by_name(tmp_path, header):
    path = written(tmp_path / "a.npz", volume=with_header(header))
    assert get_reader(str(path)) is read_layers
    with pytest.raises(InvalidInput, match=r"^a\.npz cannot be read"):
        read_layers(str(path))


def test_an_archive_that_grows_too_much_is_refused_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr("napari_gpubio.core.volumes._ALWAYS_UNPACKED_BYTES", 0)
    zeros = npy(np.zeros(16 * 2**20, np.uint8))
    path = written(tmp_path / "a.npz", zipfile.ZIP_BZIP2, volume=zeros)
    with pytest.raises(InvalidInput, match=r"^a\.npz has \d+ bytes and unpacks to \d+, over 1100 times"):
        read_layers(str(path))
    with pytest.raises(InvalidInput, match="of shape"):  # as much as an honest archive of zeros does
        read_layers(str(written(path, volume=zeros)))


def test_a_table_of_contents_that_is_damaged_offers_no_reader(tmp_path):
    data = bytearray(written(tmp_path / "a.npz").read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at : at + 4] = b"XXXX"
    (tmp_path / "a.npz").write_bytes(data)
    assert get_reader(str(tmp_path / "a.npz")) is None
    assert array_names(tmp_path / "a.npz") == frozenset()


def test_texts_that_json_cannot_hold(tmp_path):
    assert json_of(f'{{"a": {"9" * 5000}}}', "a.json") == {"a": float("inf")}
    with pytest.raises(InvalidInput, match=r"^a\.json is not valid JSON \((maximum recursion|Stack overflow)"):
        json_of("[" * 100_000, "a.json")
    deep = written(tmp_path / "a.npz", about=npy(np.array("[" * 100_000)))
    with pytest.raises(InvalidInput, match=r"^a\.npz is not valid JSON"):
        read_layers(str(deep))


def test_arrays_and_texts_of_a_good_archive(tmp_path):
    path = written(tmp_path / "a.npz")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.json", json.dumps([1]))
    with opened_npz(path) as opened:
        assert sorted(opened.names) == sorted(GOOD)
        assert opened.text("more.json") == b"[1]"
        assert opened.text("none.json") == b""
        for name, array in GOOD.items():
            np.testing.assert_array_equal(opened.array(name), array)


@pytest.mark.parametrize("order", ["<", ">"])
def test_characters_that_do_not_exist_are_refused(tmp_path, order):
    """NumPy makes strings of them that end in a SystemError wherever they are used."""
    text = np.frombuffer(np.array([97, 0x110000], f"{order}u4").tobytes(), f"{order}U2")
    np.savez(tmp_path / "a.npz", good=np.array("é𝛼"), bad=text)
    with opened_npz(tmp_path / "a.npz") as archive:
        assert str(archive.array("good")) == "é𝛼"
        with pytest.raises(InvalidInput, match=r"^a\.npz cannot be read .* character 1114112, which does not exist"):
            archive.array("bad")
