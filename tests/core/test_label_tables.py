"""Names of labels, as other programs write them."""

import csv
import os

import pytest
from hypothesis import given

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.freesurfer_labels import FREESURFER_NAMES
from napari_gpubio.core.label_tables import find_label_table, names_of_labels, read_label_names
from napari_gpubio.core.reading import noted
from tests.fuzzing import fuzzed, refusal
from tests.sentences import says
from tests.tractograms.test_tractogram_fuzz import MUTATIONS, mutated

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
    "dataset.json": '{"labels": {"background": 0, "Left-Hippocampus": 17, "Right-Hippocampus": 53}}',
    "nested.json": '{"labels": {"17": {"name": "Left-Hippocampus"}, "53": {"name": "Right-Hippocampus"}}}',
    "AAL.xml": "<?xml version='1.0' encoding='ISO-8859-1'?><atlas><data>"
    "<label><index>17</index><name>Left-Hippocampus</name></label>"
    "<label> <index> 53 </index> <name> Right-Hippocampus </name></label></data></atlas>",
    "counted.xml": '<atlas><label index="16">Left-Hippocampus</label><label index="52">Right-Hippocampus</label>'
    '<label index="0">Left-Cortex</label></atlas>',
    "AAL.txt": "LH\tLeft-Hippocampus\t17\nRH\tRight-Hippocampus\t53\n",
    "short and long.txt": "17   L.HIP   Left-Hippocampus    220 216 20\n53   R.HIP   Right-Hippocampus   220 216 20\n",
    "short and long.tsv": "index\tabbreviation\tname\n17\tLH\tLeft-Hippocampus\n53\tRH\tRight-Hippocampus\n",
    "odd titles.csv": "ROI,Acronym,Long title,Red\n17,LH,Left-Hippocampus,220\n53,RH,Right-Hippocampus,220\n",
    "names first.txt": "Left-Hippocampus    17\nRight-Hippocampus   53\n",
    "windows.txt": "Index\tName\r\n17\tLeft-Hippocampus\r\n53\tRight-Hippocampus\r\n",
    "one space between colors.txt": "17  Left-Hippocampus  220 216 20 0 255 255 255\n53  Right-Hippocampus  1 2 3 0\n",
    "remarks.tsv": "# made by hand\n17\tLeft-Hippocampus\n\n53\tRight-Hippocampus\n",
    "rows.json": '[{"index": 17, "name": "Left-Hippocampus"}, {"index": 53, "name": "Right-Hippocampus"}]',
}


@pytest.mark.parametrize("name", TABLES)
def test_the_names_are_read(tmp_path, name):
    (tmp_path / name).write_text(TABLES[name], encoding="utf-8")
    names = read_label_names(tmp_path / name)
    assert {label: text for label, text in names.items() if label != 1} == NAMES


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings(tmp_path, encoding):
    (tmp_path / "a.tsv").write_bytes("index\tname\n4\tNoyau caudé\n".encode(encoding))
    assert read_label_names(tmp_path / "a.tsv") == {4: "Noyau caudé"}


def test_a_label_that_is_named_twice(tmp_path):
    (tmp_path / "a.csv").write_text("4,first\n4,second\n5,other\n")
    with noted() as notes:
        assert read_label_names(tmp_path / "a.csv") == {4: "first", 5: "other"}
    assert says(notes[0], "a.csv", "1 labels", "twice", "4")


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
        ("a.json", '{"EchoNumber": 1, "FlipAngle": 9}'),
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


def test_a_table_that_does_not_fit_is_said(tmp_path):
    (tmp_path / "a.tsv").write_text("index\tname\n1\tone\n2\ttwo\n3\tthree\n")
    with noted() as notes:
        assert names_of_labels(tmp_path / "a.nii.gz", {0, 1, 2, 3}) == {1: "one", 2: "two", 3: "three"}
    assert not notes
    with noted() as notes:
        assert names_of_labels(tmp_path / "a.nii.gz", {1, 2, 7, 8}) == {1: "one", 2: "two", 3: "three"}
    assert says(notes[0], "2 of 4 labels", "a.tsv", "7, 8")
    assert says(notes[1], "1 labels that no voxel has", "3")


def test_tables_that_bids_lets_a_segmentation_inherit(tmp_path):
    folder = tmp_path / "sub-01" / "anat"
    folder.mkdir(parents=True)
    (tmp_path / "desc-aseg_dseg.tsv").write_text("index\tname\n17\there\n")
    (tmp_path / "desc-other_dseg.tsv").write_text("index\tname\n17\tother\n")
    assert find_label_table(folder / "sub-01_desc-aseg_dseg.nii.gz") == tmp_path / "desc-aseg_dseg.tsv"
    assert find_label_table(folder / "sub-01_desc-third_dseg.nii.gz") is None


FREESURFER_FILES = ["aparc+aseg.mgz", "aseg.nii.gz", "sub-01_aparc.DKTatlas+aseg.nii", "wmparc.nii.gz", "my_aseg.nii"]


@pytest.mark.parametrize("name", FREESURFER_FILES)
def test_labels_of_freesurfer_have_names_without_a_table(tmp_path, name, monkeypatch):
    monkeypatch.delenv("FREESURFER_HOME", raising=False)
    monkeypatch.delenv("SUBJECTS_DIR", raising=False)
    with noted() as notes:
        names = names_of_labels(tmp_path / name, {0, 17, 53, 1035, 2022, 9999} | set(range(1001, 1036)))
    assert (names[17], names[1035], names[2022]) == ("Left-Hippocampus", "ctx-lh-insula", "ctx-rh-postcentral")
    assert says(notes[0], "no table", "FreeSurfer")
    assert says(notes[1], "1 of 39 labels", "9999")


@pytest.mark.parametrize("where", ["beside", "above", "FREESURFER_HOME", "SUBJECTS_DIR"])
def test_its_own_table_is_found(tmp_path, where, monkeypatch):
    for name in ("FREESURFER_HOME", "SUBJECTS_DIR"):
        monkeypatch.delenv(name, raising=False)
    folder, home = tmp_path / "subject" / "mri", tmp_path / "home"
    folder.mkdir(parents=True)
    home.mkdir()
    place = {"beside": folder, "above": tmp_path}.get(where, home)
    (place / "FreeSurferColorLUT.txt").write_text(FREESURFER.replace("Left-Hippocampus", "LH"))
    if place is home:
        monkeypatch.setenv(where, str(home))
    with noted() as notes:
        assert names_of_labels(folder / "aparc+aseg.nii.gz", {17, 53}) == {17: "LH", 53: "Right-Hippocampus"}
    assert not notes


@pytest.mark.parametrize(
    ("name", "labels"),
    [("t1.nii.gz", {17, 53}), ("aparc_nodes.nii.gz", set(range(1, 85))), ("nasegment.nii", {17})],
)
def test_other_labels_get_no_names_of_freesurfer(tmp_path, name, labels):
    assert names_of_labels(tmp_path / name, labels) == {}


def test_the_list_of_freesurfer():
    cortex = {label for label in FREESURFER_NAMES if 1000 < label < 1036} - {1004}
    assert len(cortex) == 34
    assert all(FREESURFER_NAMES[n + 1000] == FREESURFER_NAMES[n].replace("-lh-", "-rh-") for n in cortex)
    sides = {name[5:] for name in FREESURFER_NAMES.values() if name.startswith("Left-")}
    assert sides == {name[6:] for name in FREESURFER_NAMES.values() if name.startswith("Right-")}


@pytest.mark.parametrize(
    "name", ["FreeSurfer.txt", "snap.label", "bids.tsv", "AAL.xml", "nested.json", "odd titles.csv"]
)
def test_damaged_tables(tmp_path, name):
    good = TABLES[name].encode()

    @fuzzed(200)
    @given(MUTATIONS)
    def run(changes):
        refusal(read_label_names, tmp_path / name, mutated(good, changes))

    run()


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("a.txt", "1 Brodmann area 1\n2 Brodmann area 2\n", {1: "Brodmann area 1", 2: "Brodmann area 2"}),
        ("a.txt", "1 Precentral_L 2001\n2 Precentral_R 2002\n", {1: "Precentral_L", 2: "Precentral_R"}),
        ("a.txt", "2   Left-WM  245 245 245 0\n1002  ctx-lh-a 125 100 160 0\n", {2: "Left-WM", 1002: "ctx-lh-a"}),
        ("a.csv", "ROI Label,ROI Name,Hemisphere\n1,CA,L\n2,CA,R\n", {1: "CA L", 2: "CA R"}),
        ("a.csv", "Label,Structure,Side\n1,CA,left\n2,CA,right\n", {1: "CA left", 2: "CA right"}),
        ("a.csv", "index,name,hemi\n1,CA left,L\n2,CA right,R\n", {1: "CA left", 2: "CA right"}),
    ],
)
def test_numbers_and_sides_that_tell_names_apart_are_kept(tmp_path, name, text, names):
    (tmp_path / name).write_text(text)
    assert read_label_names(tmp_path / name) == names


# -- what lies beside a volume by the name of a table, and is none -----------------------------------------------------


def put_pipe(path):
    os.mkfifo(path)


def put_device(path):
    path.symlink_to("/dev/zero")


def put_large(path):
    path.write_text(TABLES["bids.tsv"])
    os.truncate(path, 3 << 30)


def put_long_field(path):
    path.write_text(f"index\tname\n1\t{'a' * (csv.field_size_limit() + 1)}\n")


def put_unreadable(path):
    path.symlink_to(path.name)  # a loop, which leads nowhere and is passed over


@pytest.mark.parametrize(
    ("put", "fact"),
    [
        (put_pipe, "pipe"),
        (put_device, "device"),
        (put_large, "3,221,225,472 bytes"),
        (put_long_field, "field limit"),
        (put_unreadable, ""),
    ],
)
@pytest.mark.parametrize(("volume", "table"), [("a.nii.gz", "a_labels.tsv"), ("s_dseg.nii.gz", "s_dseg.tsv")])
def test_what_cannot_be_read_is_noted_and_labels_keep_their_numbers(tmp_path, put, fact, volume, table):
    if os.name == "nt" and put in (put_pipe, put_device, put_unreadable):
        pytest.skip("Windows has no such files")
    put(tmp_path / table)
    with noted() as notes:
        assert names_of_labels(tmp_path / volume, {1, 2}) == {}
    assert len(notes) == bool(fact)
    assert all(says(note, table, fact, "not taken for the names") for note in notes)
    if fact:
        with pytest.raises(InvalidInput, match=f"{table}.*{fact}|device.*{fact}"):
            names_of_labels(tmp_path / volume, {1, 2}, tmp_path / table)


def test_the_longest_names_of_volumes_have_no_tables(tmp_path):
    """With an ending more, they are longer than a name may be."""
    assert names_of_labels(tmp_path / f"{'a' * 248}.nii.gz", {1}) == {}


def test_a_row_of_a_million_cells_beside_a_million_rows_is_no_table(tmp_path):
    (tmp_path / "a.csv").write_text("1," * 1_000_000 + "\n" + "2,b\n" * 1_000_000)
    with pytest.raises(InvalidInput, match=r"a\.csv names no label"):
        read_label_names(tmp_path / "a.csv")
