"""The doors of readers: what is no file, is too large, or leads elsewhere is refused before it is read."""

import csv
import gzip
import os
import re
import socket
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from napari_gpubio.core.archives import opened_npz, opened_zip, unpacked_gzip
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file, leads_somewhere
from napari_gpubio.core.foreign import (
    existing_bytes,
    existing_json,
    existing_map,
    existing_numbers,
    existing_table,
    existing_text,
)
from napari_gpubio.core.reading import noted

only_posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")


@only_posix
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "link to a device"])
@pytest.mark.parametrize(
    "read", [existing_file, existing_bytes, existing_map, existing_text, existing_json, opened_npz]
)
def test_what_is_no_file_on_a_disk_is_refused_and_not_waited_for(tmp_path, monkeypatch, kind, read):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    path = tmp_path / "a.json"
    with socket.socket(socket.AF_UNIX) as one:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            one.bind(path.name)
        elif kind == "device":
            path = type(path)("/dev/zero")
        else:
            path.symlink_to("/dev/zero")
        with pytest.raises(InvalidInput, match=f"{path.name} is a pipe, a device or a socket; give a file"), read(path):
            pass
        assert leads_somewhere(path)


def test_whether_a_path_leads_somewhere(tmp_path):
    assert not leads_somewhere(tmp_path)
    assert not leads_somewhere(tmp_path / "gone")
    assert not leads_somewhere(tmp_path / ("a" * 300))  # longer than a name may be: an OSError of `is_file`
    (tmp_path / "a").touch()
    assert not leads_somewhere(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"0")
    assert leads_somewhere(tmp_path / "a")


@pytest.mark.parametrize("read", [existing_bytes, existing_text, existing_json, existing_table, existing_numbers])
def test_a_file_that_is_too_large_is_refused_by_its_size(tmp_path, read):
    path = tmp_path / "a.txt"
    path.touch()
    os.truncate(path, 3 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=r"^a\.txt has 3,221,225,472 bytes, .* no more than 67,108,864"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    (tmp_path / "b.txt").write_bytes(b"12345")
    assert existing_bytes(tmp_path / "b.txt", 5) == b"12345"
    with pytest.raises(InvalidInput, match="has 5 bytes"):
        existing_text(tmp_path / "b.txt", 4)


def test_a_map_takes_what_is_looked_at(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"begin")
    os.truncate(path, 3 << 30)
    mapped = existing_map(path)
    assert (len(mapped), mapped[:7]) == (3 << 30, b"begin\0\0")


def test_texts_in_other_encodings(tmp_path):
    (tmp_path / "a.txt").write_bytes("µ".encode("latin-1"))
    with pytest.raises(InvalidInput, match="not a text in UTF-8"):
        existing_text(tmp_path / "a.txt")
    assert existing_text(tmp_path / "a.txt", other="latin-1") == "µ"


def test_tables(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("\ufeffname\tx\none\t1\ntwo\n", encoding="utf-8")
    titles, rows = existing_table(path, "\t")
    assert titles == ["name", "x"]
    assert list(rows) == [{"name": "one", "x": "1"}, {"name": "two", "x": ""}]
    for text in ("a" * (csv.field_size_limit() + 1), f"name\n{'a' * (csv.field_size_limit() + 1)}"):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=r"^a\.tsv is no table .*field larger than field limit"):
            list(existing_table(path)[1])


def test_numbers(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("# x\n1 2.5\n-3 nan # y\n")
    np.testing.assert_array_equal(existing_numbers(path), [[1, 2.5], [-3, np.nan]])
    for text, words in (
        ("1 a", "no text file of numbers"),
        ("1 2\n3", "no text file of numbers"),
        ("#\n", "numbers"),
        (" \n" * 1_000_000, "has no"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=f"^{re.escape(path.name)} .*{words}"):
            existing_numbers(path)


# -- gzip -------------------------------------------------------------------------------------------------------------


def test_gzip_of_several_members_and_with_zeros_behind(tmp_path):
    path, data = tmp_path / "a.gz", np.random.default_rng(1).bytes(200_000) + bytes(500_000)
    path.write_bytes(gzip.compress(data[:300_000]) + gzip.compress(b"") + gzip.compress(data[300_000:]) + bytes(9))
    sizes = []
    with noted() as notes:
        assert unpacked_gzip(path, sizes.append) == data
    assert not notes
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(data)
    os.truncate(path, 3 << 30)  # of which Python's own reader takes one byte after the other
    with noted() as notes:
        assert unpacked_gzip(path, sizes.append) == data
    assert "over 1 MB of zeros follow" in notes[0]


def test_gzip_that_is_cut_off_or_damaged(tmp_path):
    path, data = tmp_path / "a.gz", np.random.default_rng(1).bytes(200_000)
    packed = gzip.compress(data)
    path.write_bytes(packed[:100_000])
    with noted() as notes:
        found = unpacked_gzip(path, len_of_nothing)
    assert data.startswith(found)
    assert len(found) > 90_000
    assert f"cut off after {len(found)} unpacked bytes" in notes[0]
    for bad in (packed[:-8] + bytes(8), packed + b"more"):
        path.write_bytes(bad)
        with pytest.raises(zlib.error):
            unpacked_gzip(path, len_of_nothing)


def len_of_nothing(_):
    """A check that all pass."""


def test_gzip_is_left_when_it_is_too_much(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(1 << 27)))

    def check(size):
        if size > 1 << 20:
            raise InvalidInput(f"{size}")

    with pytest.raises(InvalidInput) as refused:
        unpacked_gzip(tmp_path / "a.gz", check)
    assert int(str(refused.value)) < 80 << 20


# -- zip --------------------------------------------------------------------------------------------------------------


def test_a_list_of_contents_that_is_larger_than_any_is_not_read(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"x")
    end = bytearray(path.read_bytes()[-22:])
    end[12:20] = (3 << 30).to_bytes(4, "little") + bytes(4)  # its size, and where it begins
    path.write_bytes(b"PK\3\4")
    os.truncate(path, 3 << 30)
    with path.open("ab") as file:
        file.write(end)
    words = r"^a\.npz cannot be read .*list of contents claims 3,221,225,472 bytes"
    with pytest.raises(InvalidInput, match=words), opened_npz(path):
        pass
    with pytest.raises(zipfile.BadZipFile), opened_zip(path):
        pass


def test_a_long_text_of_an_archive_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("result.json", bytes(65 << 20))
    with opened_npz(path) as archive, pytest.raises(InvalidInput, match=r"result\.json of a\.npz has 68,157,440 bytes"):
        archive.text("result.json")
