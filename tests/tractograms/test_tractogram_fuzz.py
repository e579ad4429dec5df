"""Damaged and hostile files: only `InvalidInput` may come out of a reader, which takes no more memory than they do."""

import dataclasses
import gzip
import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import noted
from napari_gpubio.tractograms.io import read_tractogram, write_tractogram
from napari_gpubio.tractograms.io.blocks import open_blocks
from napari_gpubio.tractograms.io.vtk import write_vtk
from napari_gpubio.tractograms.model import Tractogram
from tests.fuzzing import fuzzed, refusal
from tests.sentences import says
from tests.tractograms.odd_tractograms import write_tiny_track, write_vtp

KINDS = ["a.trk", "a.trk.gz", "a.tck", "a.trx", "a.vtk", "text.vtk", "text.vtp", "raw.vtp", "zlib.vtp", "a.tt.gz"]
ODD_NUMBERS = [-1, 0, 1, 3, 255, 2**15 - 1, 2**31 - 1, -(2**31), 0x7FC00000, 0x7F800000]  # two are NaN and inf
TEXTS = [b"nan", b"-1", b"99999999999999999999", b"1e308", b"\n\n", b"END", b'"', b"[", b"null", b"float", b" 0 "]
MEGABYTE = 2**20


def made(*, columns=True) -> Tractogram:
    points = np.random.default_rng(3).uniform(0, 9, (9, 3)).astype(np.float32)
    return Tractogram(
        points=points,
        offsets=np.array([0, 4, 5, 9]),
        affine=np.diag([1.0, 2, 3, 1]),
        shape=(10, 5, 4),
        per_point={"fa": points[:, 0], "dir": points} if columns else {},
        per_fiber={"id": np.arange(3), "group/a": np.array([True, False, True])} if columns else {},
        parameters={"step_mm": 0.5},
    )


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> dict[str, bytes]:
    """Bytes of a good file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    for name in ("a.trk", "a.tck", "a.trx", "a.vtk"):
        write_tractogram(folder / name, made())
    write_vtk(folder / "text.vtk", made(), binary=False)
    (folder / "a.trk.gz").write_bytes(gzip.compress((folder / "a.trk").read_bytes(), mtime=0))
    for coding in ("text", "raw", "zlib"):
        write_vtp(folder / f"{coding}.vtp", made(), coding)
    write_tiny_track(folder / "a.tt.gz", dataclasses.replace(made(), points=made().points / 3))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


MUTATIONS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),  # where, as a fraction of the file
        st.sampled_from(["byte", "number", "text", "cut", "drop", "repeat"]),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=4,
)


def mutated(data: bytes, changes) -> bytes:
    for where, kind, value in changes:
        at = int(where * len(data))
        if kind == "cut":
            data = data[:at]
        elif kind == "drop":
            data = data[:at] + data[at + 1 + value % 13 :]
        elif kind == "repeat":
            data = data[: at + value] + data[at:]
        else:
            new = bytes([value])
            if kind == "number":
                new = np.array(ODD_NUMBERS[value % len(ODD_NUMBERS)] & 0xFFFFFFFF, "<u4").tobytes()
                new = new if value % 2 else new[::-1]
            elif kind == "text":
                new = TEXTS[value % len(TEXTS)]
            data = data[:at] + new + data[at + len(new) :]
    return data


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: dict[str, bytes], compression=zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def read_or_refuse(path, data: bytes) -> str:
    """Return the sentence that a file is refused with, or an empty text."""
    return refusal(read_tractogram, path, data)


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_bytes(tmp_path, good, kind):
    refused = []

    @fuzzed(150)
    @given(MUTATIONS)
    def run(changes):
        refused.append(bool(read_or_refuse(tmp_path / kind, mutated(good[kind], changes))))

    run()
    assert sum(refused) > len(refused) // 10


@pytest.mark.parametrize(
    "kind", ["header.json", "offsets.uint64", "positions.3.float32", "groups/a.uint32", "dpv/fa.float32", "a.trk.gz"]
)
def test_mutated_bytes_inside_an_archive(tmp_path, good, kind):
    members = unpacked(good["a.trx"])

    @fuzzed(150)
    @given(MUTATIONS)
    def run(changes):
        if kind == "a.trk.gz":
            read_or_refuse(tmp_path / kind, gzip.compress(mutated(good["a.trk"], changes), 1))
        else:
            read_or_refuse(tmp_path / "a.trx", packed(members | {kind: mutated(members[kind], changes)}))

    run()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "text.vtk"])
def test_every_cut_is_seen(tmp_path, good, kind):
    """A file that is cut off is refused, or its whole fibers are read and a note tells it."""
    data, whole = good[kind].rstrip(b"\n").removesuffix(b"</AppendedData></VTKFile>"), made()
    if kind == "a.vtk":  # a cut behind a section of numbers cannot be seen
        write_tractogram(tmp_path / kind, made(columns=False))
        data = (tmp_path / kind).read_bytes().rstrip(b"\n")
    for length in {*range(0, len(data), 5), *range(len(data) - 20, len(data))}:
        if not read_or_refuse(tmp_path / kind, data[:length]):
            cut = read_tractogram(tmp_path / kind)
            assert cut.notes
            assert cut.counts.tolist() == whole.counts[: len(cut)].tolist()
            divisor, tolerance = (3, 3 / 32) if kind == "a.tt.gz" else (1, 1e-4)  # whose steps are 1/32 voxel
            np.testing.assert_allclose(cut.points, whole.points[: len(cut.points)] / divisor, atol=tolerance)


NOT_THERE = [
    ("nothing.trk", None, "does not exist"),
    ("folder.trx", "folder", "holds a header.json, this one does not"),
    ("folder.trk", "folder", "is a folder; give the file in it"),
    ("empty.tck", b"", r"empty \(0 bytes\)"),
    ("a.txt", b"x", "suffix '.txt' is unknown; tractograms are read from .trk, .trk.gz"),
    ("a.trk", b"mrtrax tracks\n", r"a trk file begins with b'TRACK', this one with b'mrtrax"),
    ("a.trk", b"TRACK\0", "a trk header has 1000 bytes, this file 6"),
    ("a.tck", b"TRACK" * 9, "a mrtrix tracks file begins with"),
    ("a.trx", b"TRACK" * 9, r"a trx \(zip\) file begins with"),
    ("a.vtk", b"<html>", "a vtk file begins with"),
    ("a.trk.gz", b"TRACK" * 999, "hdr_size, is not 1000"),
    ("a.dpy", b"\x89HDF", "suffix '.dpy' is unknown; tractograms are read with DIPY"),
    ("a.tck", b"mrtrix tracks\nfile: . 60\n", "its header has no END"),
    (
        "a.tck",
        b"mrtrix tracks\ndatatype: Int32LE\nfile: . 60\nEND\n" + b"\0" * 99,
        "datatype is 'Int32LE'; tck has Float32LE",
    ),
    ("a.tck", b"mrtrix tracks\ndatatype: Float32LE\nfile: . 999\nEND\n", "its header puts the points at .. 999"),
    ("a.trx", packed({"x": b"1"}), "holds a header.json, this one does not"),
    ("a.trx", packed({"header.json": b"[" * 100_000}), "header.json is not valid JSON"),
    ("a.vtk", b"# vtk DataFile Version 3.0\n\nASCII\nDATASET UNSTRUCTURED_GRID\n", "fibers are DATASET POLYDATA"),
    (
        "a.vtk",
        b"# vtk DataFile Version 3.0\n\nASCII\nDATASET POLYDATA\nPOINTS 0 float\n",
        "it has no LINES, only points",
    ),
]


@pytest.mark.parametrize(("name", "data", "sentence"), NOT_THERE)
def test_sentences(tmp_path, name, data, sentence):
    if data == "folder":
        (tmp_path / name).mkdir()
    elif data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=sentence):
        read_tractogram(tmp_path / name)


def put(data: bytes, at: int, value: int | float, dtype: str) -> bytes:
    new = np.array(value, dtype).tobytes()
    return data[:at] + new + data[at + len(new) :]


HOSTILE_TRK = [
    (1000, 2**30, "<i4", "the file ends inside fiber 0"),
    (1000, -7, "<i4", "fiber 0 claims -7 points"),
    (36, 32767, "<i2", "the file ends inside fiber 0"),
    (36, -3, "<i2", "claims -3 scalars"),
    (996, 7, "<i4", "hdr_size, is not 1000"),
]


def refused_with_little_memory(path, data: bytes) -> str:
    """Return the sentence that a file is refused with; the reader may take 1 MB of memory."""
    tracemalloc.start()
    try:
        refused = read_or_refuse(path, data)
        assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    finally:
        tracemalloc.stop()
    return refused


@pytest.mark.parametrize(("at", "value", "dtype", "sentence"), HOSTILE_TRK)
def test_hostile_trk(tmp_path, good, at, value, dtype, sentence):
    assert sentence in refused_with_little_memory(tmp_path / "a.trk", put(good["a.trk"], at, value, dtype))


@pytest.mark.parametrize(
    ("old", "new", "sentence", "in_text"),
    [
        ("POINTS 9", "POINTS 999999999", "promises 999999999 values", None),
        ("POINTS 9", "POINTS -9", "promises -9 values", None),
        ("POINTS 9", "POINTS 500", "the file is cut off", None),
        ("POINTS 9 float", "POINTS 9 quad", "numbers of type 'quad' are not read", None),
        ("LINES 3 12", "LINES 9 999", "promises 999 values", None),
    ],
)
def test_hostile_vtk(tmp_path, good, old, new, sentence, in_text):
    for kind in ("a.vtk", "text.vtk"):
        data = good[kind].replace(old.encode(), new.encode())
        assert data != good[kind]
        expected = in_text or sentence if kind == "text.vtk" else sentence
        assert expected in refused_with_little_memory(tmp_path / "a.vtk", data)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"NB_VERTICES": 10**15}, "1000000000000000 points and the arrays have 9"),
        ({"NB_VERTICES": 9.5}, "NB_VERTICES = 9.5"),
        ({"NB_STREAMLINES": -1}, "NB_STREAMLINES = -1"),
        ({"NB_STREAMLINES": 7}, "7 fibers and the arrays have 3"),
        ({"DIMENSIONS": [0, 1, 1]}, "dimensions (0, 1, 1)"),
        ({"VOXEL_TO_RASMM": np.zeros((4, 4)).tolist()}, "the affine cannot be inverted"),
        ({"VOXEL_TO_RASMM": [[np.nan] * 4] * 4}, "the affine has values that are not finite"),
    ],
)
def test_a_header_of_trx_that_makes_no_sense_costs_no_fibers(tmp_path, good, changes, sentence):
    members = unpacked(good["a.trx"])
    header = json.dumps(json.loads(members["header.json"]) | changes).encode()
    (tmp_path / "a.trx").write_bytes(packed(members | {"header.json": header}))
    read = read_tractogram(tmp_path / "a.trx")
    assert sentence in " ".join(read.notes)
    np.testing.assert_array_equal(read.points, made().points)


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        ("positions.3.float32", "all 3 fibers have points that are not finite"),
        ("offsets.uint64", "all 3 fibers have offsets that are not in order"),
        ("groups/a.uint32", "group 'a' names 2 fibers that are not there"),
        ("dpv/fa.float32", ""),
    ],
)
@pytest.mark.parametrize("mapped", [False, True])
def test_members_of_trx_that_are_minus_one_throughout(tmp_path, good, caplog, member, sentence, mapped):
    """Bytes 255: NaN, -1, or the largest number, which as an index is -1."""
    path, members = tmp_path / "a.trx", unpacked(good["a.trx"])
    path.write_bytes(packed(members | {member: b"\xff" * len(members[member])}))
    with noted() as heard:
        try:
            if mapped:
                with open_blocks(path) as blocks:
                    heard += blocks.part(0, len(blocks)).notes
            else:
                heard += read_tractogram(path).notes
        except InvalidInput as error:
            heard.append(str(error))
    assert any(sentence in text for text in heard) or not sentence
    assert not caplog.records


def test_half_characters_of_a_header_are_reported_in_whole_ones(tmp_path, good):
    """JSON may hold a half of a pair of UTF-16, which no terminal and no file of text takes."""
    members = unpacked(good["a.trx"])
    header = json.dumps(json.loads(members["header.json"]) | {"NB_VERTICES": "\ud800"}).encode()
    (tmp_path / "a.trx").write_bytes(packed(members | {"header.json": header}))
    assert "NB_VERTICES = \\ud800" in " ".join(read_tractogram(tmp_path / "a.trx").notes)
    assert str(InvalidInput("\ud800")) == "\\ud800"


def test_trx_with_members_it_does_not_know(tmp_path, good):
    members = unpacked(good["a.trx"])
    more = {"provenance.txt": b"x", "dps/a.json": b"{}", "../../out.float32": b"1234", "dpg/a/x.float32": b"1234"}
    data = packed(members | more, zipfile.ZIP_DEFLATED)
    for accepted in (data, data.replace(b"provenance.txt", bytes(14))):  # a member without a name
        assert not read_or_refuse(tmp_path / "a.trx", accepted)
        assert says(" ".join(read_tractogram(tmp_path / "a.trx").notes), "3 members", "dps/a.json")
    assert list(tmp_path.iterdir()) == [tmp_path / "a.trx"]
    far = packed(members | {"groups/a.uint32": b"\x09\0\0\0\x01\0\0\0"})
    assert not read_or_refuse(tmp_path / "a.trx", far)
    read = read_tractogram(tmp_path / "a.trx")
    assert says(" ".join(read.notes), "group 'a'", "1 fibers that are not there")
    assert read.per_fiber["group/a"].tolist() == [False, True, False]
    assert "compressed in a way" in read_or_refuse(tmp_path / "a.trx", packed(members, zipfile.ZIP_LZMA))


def test_bombs(tmp_path, good):
    zeros = bytes(70 * MEGABYTE)
    header = json.loads(unpacked(good["a.trx"])["header.json"])
    header = json.dumps(header | {"NB_VERTICES": len(zeros) // 12, "NB_STREAMLINES": 1}).encode()
    members = {"header.json": header, "positions.3.float32": zeros, "offsets.uint32": b"\0" * 8}
    bomb = packed(members, zipfile.ZIP_DEFLATED)
    tape = gzip.compress(good["a.trk"] + zeros, 1)
    del zeros
    for name, data in (("a.trx", bomb), ("a.trk.gz", tape)):
        assert "as no tractogram does" in read_or_refuse(tmp_path / name, data)
