"""Input files of lines: the same cases as in JSON; lines that lack something are named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.mcx.io.cases import read_mcx
from napari_gpubio.mcx.napari_io import get_reader
from tests.fuzzing import refusal
from tests.mcx.samples import written

LINES = [
    "2e5            # photons",
    "-3             # a seed from the clock",
    "4.5 3 1 1      # position, from 0",
    "0 0.6 0.8 the direction",
    "0 4e-09 1e-09  # gates",
    "two.bin        # labels",
    "0.5 6 1 6",
    "0.5 5 1 5",
    "",
    "0.5 4 1 4",
    "2",
    "10 0.9 0.02 1.4  # mus, g, mua, n",
    "5, 0.8, 0.01, 1.37",
    "2 1.5",
    "1 1 0",
    "2 1 0 0.75",
    "disk",
    "2 1 0 0",
    "0 0 0 0",
]
LABELS = np.arange(120).reshape(6, 5, 4) % 3
TWIN = {
    "Session": {"ID": "input", "Photons": 200_000, "RNGSeed": -3},
    "Forward": {"T0": 0, "T1": 4e-9, "Dt": 1e-9},
    "Domain": {
        "VolumeFile": "two.bin", "Dim": [6, 5, 4], "Step": [0.5] * 3, "OriginType": 1, "MediaFormat": "byte",
        "Media": [[0, 0, 1, 1], [0.02, 10, 0.9, 1.4], [0.01, 5, 0.8, 1.37]],
    },
    "Optode": {
        "Source": {
            "Type": "disk", "Pos": [4.5, 3, 1], "Dir": [0, 0.6, 0.8], "Param1": [2, 1, 0, 0], "Param2": [0, 0, 0, 0],
        },
        "Detector": [{"Pos": [1, 1, 0], "R": 1.5}, {"Pos": [2, 1, 0], "R": 0.75}],
    },
}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """A function that writes lines beside their volume and reads them."""
    (tmp_path / "two.bin").write_bytes(LABELS.astype(np.uint8).tobytes(order="F"))

    def write_and_read(lines):
        path = tmp_path / "input.inp"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return read_mcx(path)

    return write_and_read


def changed(number, line):
    return [*LINES[:number], line, *LINES[number + 1 :]]


def test_lines_are_the_case_of_their_twin_in_json(read, tmp_path):
    found, twin = read(LINES), read_mcx(written(tmp_path, TWIN))
    np.testing.assert_array_equal(found.domain.labels, LABELS)
    np.testing.assert_array_equal(found.domain.labels, twin.domain.labels)
    np.testing.assert_array_equal(found.domain.affine, twin.domain.affine)
    assert found.domain.media == twin.domain.media
    assert vars(found.source) == vars(twin.source)
    assert (found.settings, found.detectors, found.notes) == (twin.settings, twin.detectors, twin.notes)
    assert found.name == "input"


def test_positions_count_from_one_without_the_flag(read):
    found = read(changed(2, "4.5 3 1"))
    np.testing.assert_allclose(found.source.position_mm, (np.array([4.5, 3, 1]) - 1) / 2)
    np.testing.assert_allclose(found.detectors[0].position_mm, (np.array([1, 1, 0]) - 1) / 2)


def test_a_file_may_end_before_the_kind_of_the_source(read):
    assert read(LINES[:-3]).source.kind == "pencil"


def test_a_cropped_box_is_not_used_and_said(read):
    assert any("Domain.Crop" in note for note in read(changed(6, "0.5 6 2 5")).notes)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (changed(0, "many"), r"line 1 is 'many'.*the number of photons.*an integer"),
        (changed(1, "nan"), "line 2.*the seed"),
        (changed(3, "0 0 down"), "line 4 is '0 0 down'.*direction.*3 numbers"),
        (changed(9, "0.5"), "line 10.*along z"),
        (changed(10, "-1"), "the number of media is -1"),
        (changed(10, "1e6"), "the number of media is 1e.06; MCX takes up to 4000"),
        (changed(11, "10 0.9"), "line 12.*refractive index"),
        (changed(13, "nan"), "the number of detectors is nan"),
        (LINES[:7], "the file ends before the edge of a voxel"),
        (LINES[:15], "the file ends before the position of a detector"),
        (changed(16, "pattern"), "'pattern'; its pattern is read from MCX's JSON"),
        (changed(5, "../two.bin"), "outside the folder"),
        (changed(5, "gone.bin"), r"gone\.bin"),
    ],
)
def test_what_a_line_lacks_is_named(read, lines, named):
    with pytest.raises(InvalidInput, match=named):
        read(lines)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "two.bin").write_bytes(LABELS.astype(np.uint8).tobytes(order="F"))
    return folder / "damaged.inp"


WORDS = ["", "-1", "0", "nan", "inf", "1e400", "9" * 40, "x", "1 2", "nan nan nan nan", "# 1"]


PLACES = [number for number in range(len(LINES)) if number != 5]  # a volume that is not there is named instead


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(WORDS)), min_size=1, max_size=3))
def test_damaged_lines_are_read_or_refused(damaged, changes):
    lines = list(LINES)
    for number, words in changes:
        lines[number] = words
    refusal(read_mcx, damaged, "\n".join(lines).encode())


def test_napari_opens_lines_but_no_other_file_of_that_name(read, tmp_path):
    read(LINES)
    path = tmp_path / "input.inp"
    with pytest.warns(ReadingNote, match="DoSpecular is absent"):
        ((data, _, kind),) = get_reader(str(path))(str(path))
    np.testing.assert_array_equal(data, LABELS.T)  # napari shows the first axis last
    assert kind == "labels"
    other = tmp_path / "mesh.inp"
    other.write_text("*HEADING\n*NODE\n1, 0., 0., 0.\n", encoding="utf-8")
    assert get_reader(str(other)) is None


@pytest.mark.parametrize(
    ("name", "data", "named"),
    [
        ("study.mcxp", b"[]", "project of MCX Studio"),
        ("long.inp", b"1\n" * (1 << 20), "no more than"),
        ("binary.inp", b"\xff\xfe\x00\x01", "not text"),
    ],
)
def test_other_files_are_named(tmp_path, name, data, named):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=named):
        read_mcx(path)
