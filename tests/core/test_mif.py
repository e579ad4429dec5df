"""MRtrix images: every layout and type comes back as it was written; damaged files give a sentence."""

import contextlib
import gzip
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core import volumes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.mif import read_mif
from napari_gpubio.core.reading import noted
from tests.fuzzing import fuzzed
from tests.sentences import says

TRANSFORM = np.array([[0.8, -0.6, 0, 10], [0.6, 0.8, 0, -20], [0, 0, 1, 30.5]])
VOX = (2.0, 2.5, 3.0)
SHAPE = (3, 4, 5, 2)
VALUES = np.arange(np.prod(SHAPE)).reshape(SHAPE)


def stored(array, layout):
    """Values in the order of the file: a small and slow writer, independent of the reader."""
    ranks = [int(word[1:]) for word in layout]
    stride, strides = 1, [0] * array.ndim
    for axis in sorted(range(array.ndim), key=lambda a: ranks[a]):
        strides[axis] = stride
        stride *= array.shape[axis]
    out = np.empty(array.size, array.dtype)
    for index in np.ndindex(array.shape):
        steps = [n - 1 - i if w[0] == "-" else i for i, n, w in zip(index, array.shape, layout, strict=True)]
        out[sum(i * s for i, s in zip(steps, strides, strict=True))] = array[index]
    return out


def mif_bytes(array, *, layout=None, datatype="Float32LE", code="<f4", extra=(), drop=(), file=". {}", end="END\n"):
    layout = layout or [f"+{axis}" for axis in range(array.ndim)]
    flat = stored(array, layout)
    body = np.packbits(flat.astype(bool)).tobytes() if datatype == "Bit" else flat.astype(code).tobytes()
    vox = [*VOX, *["nan"] * 5][: array.ndim]
    standard = [
        ("dim", ",".join(map(str, array.shape))),
        ("vox", ",".join(map(str, vox))),
        ("layout", ",".join(layout)),
        ("datatype", datatype),
        *[("transform", ",".join(map(str, row))) for row in TRANSFORM],
        ("file", file.format(1024)),
    ]
    lines = [line for line in standard if line[0] not in drop] + list(extra)
    text = "mrtrix image\n" + "".join(f"{key}: {value}\n" for key, value in lines) + end
    return text.encode().ljust(1024, b"\0") + body


@pytest.fixture
def read(tmp_path):
    """Write bytes to a file and read it."""

    def read_bytes(content, name="a.mif"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return read_mif(path)

    return read_bytes


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("signs", list(itertools.product("+-", repeat=3)))
def test_every_layout_of_a_volume(read, order, signs):
    layout = [sign + str(rank) for sign, rank in zip(signs, order, strict=True)]
    image = read(mif_bytes(VALUES[..., 0], layout=layout))
    np.testing.assert_array_equal(image.data, VALUES[..., 0])
    assert image.data.flags.c_contiguous


@pytest.mark.parametrize("layout", ["+1,+2,+3,+0", "-1,-2,+3,+0", "-3,+0,-1,-2", "+2,-3,+1,-0", "+1,+2,+3,+9"])
def test_layouts_of_a_series(read, layout):
    np.testing.assert_array_equal(read(mif_bytes(VALUES, layout=layout.split(","))).data, VALUES)


TYPES = {
    "Int8": "i1", "UInt8": "u1", "Int16LE": "<i2", "Int16BE": ">i2", "UInt16LE": "<u2", "UInt16BE": ">u2",
    "Int32LE": "<i4", "Int32BE": ">i4", "UInt32LE": "<u4", "UInt32BE": ">u4", "Int64LE": "<i8", "UInt64BE": ">u8",
    "Float16LE": "<f2", "Float32LE": "<f4", "Float32BE": ">f4", "Float64LE": "<f8", "Float64BE": ">f8",
    "float64be": ">f8", "Float32": "=f4",
}  # fmt: skip


@pytest.mark.parametrize("datatype", TYPES)
def test_every_type(read, datatype):
    image = read(mif_bytes(VALUES, datatype=datatype, code=TYPES[datatype]))
    np.testing.assert_array_equal(image.data, VALUES)
    assert image.data.dtype == np.dtype(TYPES[datatype]).newbyteorder("=")
    assert image.data.dtype.isnative


def test_bits_and_scaling(read):
    bits = np.random.default_rng(0).random((3, 5, 7)) > 0.5  # 105 values: the last byte is not full
    image = read(mif_bytes(bits, datatype="Bit", layout=["-1", "+0", "-2"]))
    assert image.data.dtype == bool
    np.testing.assert_array_equal(image.data, bits)
    image = read(mif_bytes(VALUES, datatype="Int16BE", code=">i2", extra=[("scaling", "-3.5,0.25")]))
    np.testing.assert_array_equal(image.data, VALUES * 0.25 - 3.5)
    plain = read(mif_bytes(VALUES, datatype="Int16LE", code="<i2", extra=[("scaling", "0,1")]))
    assert plain.data.dtype == np.int16


def test_gzip_and_affine_and_header(read):
    image = read(mif_bytes(VALUES, extra=[("comments", "one: 1"), ("comments", "two")]), "a.mif.gz")
    np.testing.assert_array_equal(image.data, VALUES)
    np.testing.assert_allclose(image.affine[:3], TRANSFORM * [*VOX, 1], rtol=1e-15)
    assert image.header["comments"] == ("one: 1", "two")
    assert image.gradients is None
    centered = read(mif_bytes(VALUES, drop=["transform"]))
    np.testing.assert_allclose(centered.affine @ [1, 1.5, 2, 1], [0, 0, 0, 1], atol=1e-15)


def test_gradients(read):
    rows = [("dw_scheme", row) for row in ("0,0,0,0", "0.6,-0.8,0,1000", "0,0,x,0")]
    image = read(mif_bytes(VALUES, extra=rows[:2]))
    np.testing.assert_array_equal(image.gradients, [[0, 0, 0, 0], [0.6, -0.8, 0, 1000]])
    np.testing.assert_array_equal(read(mif_bytes(VALUES, extra=rows[::2])).gradients[1], [0, 0, np.nan, 0])


@pytest.mark.parametrize("rows", [["0,0,0,0"], ["0,0,0,0", "1,0,1000"]])
def test_a_table_of_another_image_is_left_out_and_the_image_is_read(read, rows):
    with noted() as notes:
        image = read(mif_bytes(VALUES, extra=[("dw_scheme", row) for row in rows]))
    assert image.gradients is None
    np.testing.assert_array_equal(image.data, VALUES)
    assert says(notes[0], "a.mif", f"{len(rows)} rows", "2 volumes", "left out")


def test_header_with_a_data_file_beside_it(tmp_path):
    whole = mif_bytes(VALUES, file="values.dat 7")
    (tmp_path / "a.mih").write_bytes(whole[:1024].rstrip(b"\0").removesuffix(b"\n"))
    with pytest.raises(InvalidInput, match=r"values\.dat does not exist"):
        read_mif(tmp_path / "a.mih")
    (tmp_path / "values.dat").write_bytes(b"1234567" + whole[1024:])
    np.testing.assert_array_equal(read_mif(tmp_path / "a.mih").data, VALUES)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"drop": ["dim"]}, "no line 'dim:'"),
        ({"drop": ["layout"]}, "no line 'layout:'"),
        ({"drop": ["datatype"]}, "no line 'datatype:'"),
        ({"drop": ["file"]}, "no line 'file:'"),
        ({"end": ""}, "no END after its header"),
        ({"datatype": "Int24LE"}, "known are Bit"),
        ({"layout": ["+0", "+1", "+1", "+3"]}, "every axis needs its own rank"),
        ({"file": ". 12"}, "cannot begin before the header ends"),
        ({"file": ". x"}, "does not exist"),
        ({"file": "x" * 500}, "cannot be opened"),
        ({"file": ". 1024", "extra": [("file", "b.dat 0")]}, "b.dat does not exist"),
        ({"extra": [("scaling", "1,0")]}, "a factor other than 0"),
        ({"extra": [("scaling", "nan,1")]}, "a factor other than 0"),
        ({"drop": ["dim"], "extra": [("dim", "3")]}, "2 to 16 lengths"),
        ({"drop": ["dim"], "extra": [("dim", "3,4,0,2")]}, "at least 1"),
        ({"drop": ["dim"], "extra": [("dim", "3,4,-5,2")]}, "2 to 16 lengths"),
        ({"drop": ["dim"], "extra": [("dim", "3,4,5,2,1")]}, "5 signed ranks"),
    ],
)
def test_bad_headers(read, change, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        read(mif_bytes(VALUES, **change))


def test_sizes_are_checked_before_memory_is_taken(read, monkeypatch):
    huge = [("dim", "300000,300000,300000,300000")]
    for name in ("a.mif", "a.mif.gz"):
        with pytest.raises(InvalidInput, match="declares 32400000000000000000000 bytes"):
            read(mif_bytes(VALUES, drop=["dim"], extra=huge), name)
    with pytest.raises(InvalidInput, match="declares 480 bytes of data from byte 1024"):
        read(mif_bytes(VALUES)[:-1])
    with pytest.raises(InvalidInput, match="ends after 479 of 480 bytes"):
        read(mif_bytes(VALUES)[:-1], "a.mif.gz")
    monkeypatch.setattr(volumes, "free_memory_bytes", lambda _device: 479)
    with pytest.raises(InvalidInput, match="of memory and"):
        read(mif_bytes(VALUES))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.mif", b"NRRD0004\n" * 100_000, "does not begin with 'mrtrix image'"),
        ("a.mif.gz", b"no gzip at all", "does not begin with"),
        ("a.mif.gz", gzip.compress(mif_bytes(VALUES))[:-20], "cannot be read"),
        ("a.mif", b"", "is empty"),
        ("a.txt", mif_bytes(VALUES), "its name must end in"),
        ("a.mif", None, "does not exist"),
        ("", None, "is a folder"),
    ],
)
def test_files_that_are_no_mrtrix_images(tmp_path, name, content, sentence):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=sentence):
        read_mif(tmp_path / name)


def test_a_header_longer_than_one_block(read):
    extra = [("command_history", "x" * 200) for _ in range(1000)]
    text = mif_bytes(VALUES, extra=extra, file=". 300000")
    header = text[: text.index(b"END\n") + 4]
    image = read(header.ljust(300_000, b"\0") + text[-480:])
    np.testing.assert_array_equal(image.data, VALUES)
    assert len(image.header["command_history"]) == 1000


SEED = mif_bytes(VALUES, extra=[("scaling", "0,2"), ("dw_scheme", "0,0,0,0"), ("dw_scheme", "0,0,1,1000")])


@fuzzed(200)
@given(data=st.data())
def test_damaged_files_give_a_sentence_or_an_image(data, tmp_path_factory):
    content = bytearray(SEED)
    header_length = content.index(b"END\n") + 4
    words = st.sampled_from([b"-", b",", b":", b"\n", b"9" * 20, b"1e308", b"nan", b"0", b"."])
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, header_length))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4) | words)
    content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    packed = data.draw(st.booleans())
    path = tmp_path_factory.getbasetemp() / ("fuzz.mif.gz" if packed else "fuzz.mif")
    path.write_bytes(gzip.compress(bytes(content), 1) if packed else bytes(content))
    try:
        image = read_mif(path)
    except InvalidInput:
        return
    assert np.isfinite(image.affine).all()
    assert image.data.size <= 4000


@fuzzed(100)
@given(at=st.integers(0, len(gzip.compress(SEED, mtime=0)) - 1), byte=st.integers(0, 255))
def test_damaged_gzip(at, byte, tmp_path_factory):
    content = bytearray(gzip.compress(SEED, mtime=0))
    content[at] = byte
    path = tmp_path_factory.getbasetemp() / "fuzz.mif.gz"
    path.write_bytes(content)
    with contextlib.suppress(InvalidInput):
        assert read_mif(path).data.shape == SHAPE
