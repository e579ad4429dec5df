"""Names of labels, as other programs write them."""

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_tables import find_label_table, read_label_names

NAMES = {17: "Left-Hippocampus", 53: "Right-Hippocampus"}
FREESURFER = """#No. Label Name:                R   G   B   A

0   Unknown                         0   0   0   0
17  Left-Hippocampus                220 216 20  0
53  Right-Hippocampus               220 216 20  0
"""
ITK_SNAP = """################
# IDX   -R-  -G-  -B-  -A--  VIS MSH  LABEL
    0     0    0    0        0  0  0    "Clear Label"
   17   255    0    0        1  1  1    "Left-Hippocampus"
   53     0  255    0        1  1  1    "Right-Hippocampus"
"""
FSL = """<?xml version="1.0" encoding="ISO-8859-1"?>
<atlas version="1.0"><header><name>x</name><type>{}</type></header>
<data><label index="{}" x="1" y="2" z="3">Left-Hippocampus</label>
<label index="{}">Right-Hippocampus</label></data></atlas>
"""
TABLES = {
    "FreeSurfer.txt": FREESURFER,
    "snap.label": ITK_SNAP,
    "snap.txt": ITK_SNAP,
    "bids.tsv": "index\tname\tcolor\n0\tnone\t#000\n17\tLeft-Hippocampus\t#f00\n53\tRight-Hippocampus\t#0f0\n",
    "titles.csv": "Region,ID\nLeft-Hippocampus,17\nRight-Hippocampus,53\n",
    "semicolons.csv": "value;label\n17;Left-Hippocampus\n53;Right-Hippocampus\n",
    "bare.csv": "17,Left-Hippocampus\n53,Right-Hippocampus\n",
    "bare.txt": "17 Left-Hippocampus 4101\n53.0 Right-Hippocampus 4102\n",
    "tabs.txt": "Index\tName\n17\tLeft-Hippocampus\n53\tRight-Hippocampus\n",
    "labels.xml": FSL.format("Label", 17, 53),
    "probabilities.xml": FSL.format("Probabilistic", 16, 52),
    "names.json": '{"17": "Left-Hippocampus", "53": "Right-Hippocampus", "Units": 3}',
    "rows.json": '[{"index": 17, "name": "Left-Hippocampus"}, {"index": 53, "name": "Right-Hippocampus"}]',
}


@pytest.mark.parametrize("name", TABLES)
def test_the_names_are_read(tmp_path, name):
    (tmp_path / name).write_text(TABLES[name], encoding="utf-8")
    assert {label: text for label, text in read_label_names(tmp_path / name).items() if label} == NAMES


def test_names_may_have_spaces(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeff4 Left Lateral Ventricle 120 18 134 0  # a remark 7\n", encoding="utf-8")
    assert read_label_names(tmp_path / "a.txt") == {4: "Left Lateral Ventricle"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "no numbers here\n"),
        ("a.csv", "x,y\n1.5,2\n"),
        ("a.json", "{"),
        ("a.json", '{"RepetitionTime": 2.0}'),
        ("a.xml", "<atlas>"),
        ("a.xml", '<!DOCTYPE a [<!ENTITY b "c">]><atlas><label index="1">&b;</label></atlas>'),
        ("a.tsv", ""),
        ("a.txt", "\x00\x01\x02"),
    ],
)
def test_what_names_no_label_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=name):
        read_label_names(tmp_path / name)


@pytest.mark.parametrize("table", ["aparc.tsv", "aparc_labels.txt", "aparc.json", "aparcLUT.txt"])
def test_the_table_is_found_beside_the_volume(tmp_path, table):
    (tmp_path / "aparc.csv").write_text("a,b\n")  # names nothing
    kind = {".tsv": "bids.tsv", ".txt": "FreeSurfer.txt", ".json": "names.json"}["." + table.split(".")[1]]
    (tmp_path / table).write_text(TABLES[kind])
    assert find_label_table(tmp_path / "aparc.nii.gz") == tmp_path / table
    assert find_label_table(tmp_path / "other.nii.gz") is None
