"""Tables of optical properties: what is written is read back, other dialects too, and every wrong cell is named."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.io.table import read_table, write_table
from napari_gpubio.optics.model import Medium

MEDIA = (
    Medium(label=1, name="scalp, µ", mua_per_mm=0.018, mus_per_mm=19.0, g=0.9, n=1.37, source='said "so"; p. 3'),
    Medium(label=300, name="", mua_per_mm=1e-300, mus_per_mm=0.1 + 0.2, g=-1.0, n=1.0),
    Medium(label=65535, name="Liquor\n(clear)", mua_per_mm=0.0, mus_per_mm=1 / 3, g=1 / 7, n=10.0),
)
HEADER = "label,name,mua_per_mm,mus_per_mm,g,n,source\n"


@pytest.mark.parametrize("name", ["table.csv", "table.JSON"])
def test_what_is_written_is_read_back(tmp_path, name):
    write_table(tmp_path / name, MEDIA)
    assert read_table(str(tmp_path / name)) == MEDIA
    assert [path.name for path in tmp_path.iterdir()] == [name]


numbers = st.floats(0, 1e6)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20).map(str.strip)


@pytest.mark.daily
@given(
    media=st.lists(
        st.builds(
            Medium, label=st.integers(1, 65535), name=texts, mua_per_mm=numbers, mus_per_mm=numbers,
            g=st.floats(-1, 1), n=st.floats(1, 10), source=texts,
        ),
        min_size=1, max_size=4, unique_by=lambda medium: medium.label,
    )
)  # fmt: skip
def test_any_table_comes_back_to_the_last_bit(tmp_path_factory, media):
    folder = tmp_path_factory.mktemp("table")
    for name in ("a.csv", "a.json"):
        write_table(folder / name, media)
        assert read_table(folder / name) == tuple(media)


@pytest.mark.parametrize(
    "text",
    [
        "label,mua_per_mm,mus_per_mm,g,n\n2,0.5,10,0.9,1.4\n",
        "\ufefflabel;mua_per_mm;mus_per_mm;g;n\r\n2;0,5;10;0,9;1,4\r\n",
        "# head, 810 nm; made by hand\n\nn\tg\tLABEL\tmus_per_mm \tmua_per_mm\n1.4\t.9\t2.0\t1e1\t5e-1\n\n",
        "label, mua_per_mm, mus_per_mm, g, n,,\n2, 0.5, 10, 0.9, 1.4,,\n",
        '"label","mua_per_mm","mus_per_mm","g","n"\n"2","0.5","10","0.9","1.4"\n',
    ],
    ids=["plain", "spreadsheet with decimal commas", "tabs and comments", "blanks and empty columns", "quotes"],
)
def test_tables_of_other_programs_are_read(tmp_path, text):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    assert read_table(tmp_path / "t.csv") == (Medium(label=2, mua_per_mm=0.5, mus_per_mm=10.0, g=0.9, n=1.4),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEADER + "1,a,0.1,10,0.9,1.4,\n2,b,0.1,ten,0.9,1.4,\n", r"t\.csv, line 3: mus_per_mm is 'ten'; give a number"),
        (HEADER + "1,a,-0.1,10,0.9,1.4,\n", r"line 2: label 1 \(a\): mua_per_mm is -0.1 1/mm; it must be at least 0"),
        (HEADER + "1,a,nan,10,0.9,1.4,\n", "line 2: label 1 .*mua_per_mm is nan; give a finite number"),
        (HEADER + "1,a,0.1,10,1.1,1.4,\n", "line 2: label 1 .*g is 1.1; it must be at most 1"),
        (HEADER + "1,a,0.1,10,0.9,0.9,\n", "line 2: label 1 .*n is 0.9; it must be at least 1"),
        (HEADER + "1.5,a,0.1,10,0.9,1.4,\n", "line 2: label is '1.5'; give an integer"),
        (HEADER + "inf,a,0.1,10,0.9,1.4,\n", "line 2: label is 'inf'; give an integer"),
        (HEADER + "0,a,0.1,10,0.9,1.4,\n", "line 2: label 0 .*label is 0; it must be at least 1"),
        (HEADER + "1,a,0.1,,0.9,1.4,\n", "line 2: mus_per_mm has no value"),
        (HEADER + "1,a,0.1\n", "line 2: mus_per_mm has no value"),
        (HEADER + "1,a,0.1,10,0.9,1.4,,9\n", "line 2: '9' is beyond the last column; put text with ',' in quotes"),
        (HEADER + '1,"a\nb",0.1,10,0.9,1.4,\n1,c,0.1,10,0.9,1.4,\n', r"line 4: label 1 already has a row \(line 3\)"),
        ("label,mua_per_cm,mus_per_mm,g,n\n", "column 'mua_per_cm' is not known; the first line must name the columns"),
        ("label,mua_per_mm,mus_per_mm,g\n1,2,3,0\n", "column 'n' is missing"),
        ("label,g,mua_per_mm,mus_per_mm,g,n\n", "column 'g' is given twice"),
        (HEADER, "has no rows"),
        ("", "is empty"),
    ],
)
def test_what_is_wrong_in_a_csv_file_is_named(tmp_path, text, sentence):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InvalidInput, match=sentence):
        read_table(tmp_path / "t.csv")


def test_all_wrong_cells_are_named_up_to_a_few(tmp_path):
    (tmp_path / "t.csv").write_text(HEADER + "1,a,x,y,0.9,1.4,\n" + "2,b,0.1,10,0.9,z,\n" * 5)
    with pytest.raises(InvalidInput) as caught:
        read_table(tmp_path / "t.csv")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines[:5]] == [f"t.csv, line {n}" for n in (2, 2, 3, 4, 5)]
    assert lines[5] == "… and 2 more"


ROW = {"label": 1, "mua_per_mm": 0.1, "mus_per_mm": 10, "g": 0.9, "n": 1.4}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([ROW, {**ROW, "label": 2, "g": "high"}], r"t\.json, entry 2: g is 'high'; give a number"),
        ([{**ROW, "n": True}], "entry 1: n is True; give a number"),
        ([{**ROW, "n": None}], "entry 1: n has no value"),
        ([{**ROW, "n": [1.4]}], r"entry 1: n is \[1.4\]; give a number"),
        ([{**ROW, "mus": 1}], "entry 1: 'mus' is not known; the keys are label, name"),
        ([{**ROW, "mua_per_mm": -1}], "entry 1: label 1: mua_per_mm is -1"),
        ([ROW, ROW], r"entry 2: label 1 already has a row \(entry 1\)"),
        ([ROW, 3], "is not a list of objects"),
        ({"media": [ROW]}, "is not a list of objects"),
        ([], "has no rows"),
    ],
)
def test_what_is_wrong_in_a_json_file_is_named(tmp_path, rows, sentence):
    (tmp_path / "t.json").write_text(json.dumps(rows))
    with pytest.raises(InvalidInput, match=sentence):
        read_table(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.json", json.dumps([ROW])[:-3].encode(), r"t\.json is not valid JSON .*cut off"),
        ("t.json", np.random.default_rng(1).bytes(1000), "is not a text in UTF-8"),
        ("t.csv", np.random.default_rng(1).bytes(1000), "is not a text in UTF-8"),
        ("t.csv", b"\0" * 100, r"t\.csv"),
        ("t.csv", None, "does not exist"),
        ("t.xlsx", b"PK", r"does not end in \.csv or \.json"),
    ],
)
def test_a_truncated_or_foreign_file_is_refused(tmp_path, name, content, sentence):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=sentence):
        read_table(tmp_path / name)
