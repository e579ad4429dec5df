"""Atlases: label volumes, and the tables that name their labels."""

import numpy as np

from napari_gpubio.diffusion import io
from tests.conformance import Did, Rows
from tests.conformance.orientations import GRID, save

ROWS = Rows("Atlases")
LABELS = np.zeros(GRID, np.int16)
LABELS[1], LABELS[3, 2:] = 17, 53
BOTH = {17: "Left", 53: "Right"}


def atlas(folder, name="a.nii.gz", labels=LABELS):
    """Write an atlas, read it, and return it with the names of its labels."""
    read = io.read_atlas(save(folder / name, labels))
    np.testing.assert_array_equal(read.labels, labels)
    return read, {label: read.name_of(label) for label in read.voxel_counts}


AAL = "<label><index>{}</index><name>{}</name></label>"
FSL = "<label index='{}' x='1'>{}</label>"
TABLES = [  # trait, name of the file, its text
    ("FreeSurfer's", "a.txt", "#No. Name R G B A\n17  Left  220 216 20 0\n53  Right  1 2 3 0\n"),
    ("ITK-SNAP's", "a.label", '17 2 2 2 1 1 1 "Left"\n53 2 2 2 1 1 1 "Right"\n'),
    ("index, name, abbreviation (BIDS)", "a.tsv", "index\tname\tabbreviation\n17\tLeft\tL\n53\tRight\tR\n"),
    ("index, abbreviation, name (BIDS)", "a.tsv", "index\tabbreviation\tname\n17\tL\tLeft\n53\tR\tRight\n"),
    ("number, short and long name", "a.txt", "17\tL\tLeft\n53\tR\tRight\n"),
    ("number, short and long name, colors (MRtrix)", "a.txt", "17  L  Left   1 2 3\n53  R  Right  1 2 3\n"),
    ("short name, long name, number (AAL)", "a.txt", "L\tLeft\t17\nR\tRight\t53\n"),
    ("titles that are not known", "a.csv", "ROI,Acronym,Long title\n17,L,Left\n53,R,Right\n"),
    ("commas, Windows line ends and a BOM", "a.csv", "\ufeffID,Name\r\n17,Left\r\n53,Right\r\n"),
    ("semicolons", "a.csv", "value;label\n17;Left\n53;Right\n"),
    ("AAL's XML, elements", "a.xml", f"<atlas>{AAL.format(17, 'Left')}{AAL.format(53, 'Right')}</atlas>"),
    (
        "FSL's XML of a probabilistic atlas, counted from 0",
        "a.xml",
        f"<atlas><type>Probabilistic</type>{FSL.format(16, 'Left')}{FSL.format(52, 'Right')}</atlas>",
    ),
    ("JSON", "a.json", '{"17": "Left", "53": "Right"}'),
    ("labels of nnU-Net", "a.json", '{"labels": {"background": 0, "Left": 17, "Right": 53}}'),
]


def _add_table(trait, name, text):
    @ROWS.row("read_atlas", f"a table beside it: {trait}", Did.READ)
    def _(folder):
        (folder / name).write_bytes(text.encode())
        read, names = atlas(folder)
        assert names == BOTH
        return read


for each in TABLES:
    _add_table(*each)


@ROWS.row("read_atlas", "an anatomical image of whole numbers", Did.ASSUMED, "as those of an image do")
def _(folder):
    return atlas(folder, labels=np.random.default_rng(1).integers(0, 1000, GRID, np.int16))[0]


@ROWS.row("read_atlas", "FSL's XML without a type whose index 0 is no background", Did.ASSUMED, "minus 1")
def _(folder):
    text = "<atlas><label index='0'>Cortex</label><label index='16'>Left</label></atlas>"
    (folder / "a.xml").write_text(text)
    read, names = atlas(folder)
    assert names == {17: "Left", 53: "53"}
    return read


def _add_counting(trait, text, expected, did, *facts, file="a.csv"):
    @ROWS.row("read_atlas", trait, did, *facts)
    def _(folder):
        (folder / file).write_text(text)
        read, names = atlas(folder, labels=np.where(LABELS == 17, 1, np.where(LABELS == 53, 2, LABELS)))
        assert names == dict(zip((1, 2), expected, strict=True))
        return read


_add_counting("a table that counts the labels from 0", "index,name\n0,Left\n1,Right\n", ("Left", "Right"),
              Did.ASSUMED, "begin with 0", "minus 1")  # fmt: skip
_add_counting("a table with a column of row numbers", "index,label,name\n0,2,Right\n1,1,Left\n", ("Left", "Right"),
              Did.READ)  # fmt: skip
_add_counting("a table that names 0, and may count from it", "index,name\n0,A\n1,B\n2,C\n3,D\n", ("B", "C"),
              Did.ASSUMED, "calls 0", "'A'")  # fmt: skip
_add_counting("a table of subjects beside it", "participant_id,name\n1,Left\n2,Right\n", ("1", "2"), Did.READ)
_add_counting("a table beside it that names other numbers", "age,place\n23,Rome\n41,Oslo\n", ("1", "2"), Did.ASSUMED,
              "a.csv names 0 of its 2 labels", "not taken")  # fmt: skip


def _add_background(trait, labels, *facts):
    @ROWS.row("read_atlas", trait, Did.ASSUMED, *facts)
    def _(folder):
        read = io.read_atlas(save(folder / "a.nii.gz", labels))
        np.testing.assert_array_equal(read.labels, LABELS)
        return read


_add_background("NaN where no label is (SPM)", np.where(LABELS, LABELS, np.float32(np.nan)), "voxels are NaN", "(0)")
_add_background("-1 where no label is", np.where(LABELS, LABELS, np.int16(-1)), "no 0", "-1", "background")
_add_background("-9999 where no label is", np.where(LABELS, LABELS, np.float32(-9999)), "no 0", "-9999", "background")


@ROWS.row("read_atlas", "real numbers beyond all whole ones", Did.REFUSED, "2^53")
def _(folder):
    return atlas(folder, labels=LABELS * np.float32(1e30))[0]


@ROWS.row("read_atlas", "labels without a name in the table", Did.ASSUMED, "1 of 2 labels", "53")
def _(folder):
    (folder / "a.tsv").write_text("index\tname\n17\tLeft\n")
    read, names = atlas(folder)
    assert names == {17: "Left", 53: "53"}
    return read


@ROWS.row("read_atlas", "names of labels that no voxel has", Did.ASSUMED, "1 labels that no voxel has", "99")
def _(folder):
    (folder / "a.csv").write_text("17,Left\n53,Right\n99,Elsewhere\n")
    read, names = atlas(folder)
    assert names == BOTH
    return read


@ROWS.row("read_atlas", "a label that the table names twice", Did.ASSUMED, "1 labels are named twice", "17")
def _(folder):
    (folder / "a.csv").write_text("17,Left\n53,Right\n17,Elsewhere\n")
    read, names = atlas(folder)
    assert names == BOTH
    return read


@ROWS.row("read_atlas", "aparc+aseg without a table", Did.ASSUMED, "no table", "FreeSurfer")
def _(folder):
    labels = LABELS.copy()
    labels[0, 0] = 2022
    read, names = atlas(folder, "aparc+aseg.nii.gz", labels)
    assert names == {17: "Left-Hippocampus", 53: "Right-Hippocampus", 2022: "ctx-rh-postcentral"}
    return read


@ROWS.row("read_atlas", "aparc+aseg with a label that FreeSurfer's list lacks", Did.ASSUMED, "1 of 31 labels", "9999")
def _(folder):
    labels = LABELS.copy()
    labels[0] = np.arange(1001, 1025).reshape(6, 4)
    labels[2, 0] = 8, 10, 12, 13
    labels[4, 0, 0] = 9999
    read, names = atlas(folder, "aparc+aseg.nii.gz", labels)
    assert (names[1022], names[9999]) == ("ctx-lh-postcentral", "9999")
    return read


@ROWS.row("read_atlas", "aparc+aseg with FreeSurferColorLUT.txt in its folder", Did.READ)
def _(folder):
    (folder / "FreeSurferColorLUT.txt").write_text("17 Left 1 2 3 0\n53 Right 1 2 3 0\n99 x 1 2 3 0\n")
    read, names = atlas(folder, "aparc+aseg.nii.gz")
    assert names == BOTH
    return read


@ROWS.row("read_atlas", "labels 1 to 84 of MRtrix, called aparc", Did.READ)
def _(folder):
    labels = np.tile(np.arange(85, dtype=np.int16)[:, None], (86, 1, 2))
    read, names = atlas(folder, "aparc_nodes.nii.gz", labels)
    assert names[17] == "17"
    return read


@ROWS.row("read_atlas", "dseg of BIDS with its table in the folder of the dataset", Did.READ)
def _(folder):
    (folder / "desc-aseg_dseg.tsv").write_text("index\tname\n17\tLeft\n53\tRight\n")
    (folder / "sub-01" / "anat").mkdir(parents=True)
    read, names = atlas(folder / "sub-01" / "anat", "sub-01_desc-aseg_dseg.nii.gz")
    assert names == BOTH
    return read


@ROWS.row("read_atlas", "whole numbers that are stored as floats", Did.READ)
def _(folder):
    return atlas(folder, labels=LABELS.astype(np.float32))[0]


@ROWS.row("read_atlas", "probabilities", Did.REFUSED, "fractions")
def _(folder):
    return atlas(folder, labels=LABELS / np.float32(100))[0]


@ROWS.row("read_atlas", "a table that names no label, given by the user", Did.REFUSED, "b.csv", "names no label")
def _(folder):
    (folder / "b.csv").write_text("x,y\n1.5,2\n")
    return io.read_atlas(save(folder / "a.nii", LABELS), folder / "b.csv")


@ROWS.row("read_atlas", "an XML table with entities", Did.REFUSED, "b.xml", "names no label")
def _(folder):
    (folder / "b.xml").write_text('<!DOCTYPE a [<!ENTITY b "c">]><atlas><label index="1">&b;</label></atlas>')
    return io.read_atlas(save(folder / "a.nii", LABELS), folder / "b.xml")


@ROWS.row("read_atlas", "a file of a table's name beside it: a cell of 200,000 letters", Did.ASSUMED, "a.csv", "limit")
def _(folder):
    (folder / "a.csv").write_text(f"ID,Name\n17,{'a' * 200_000}\n")
    read, names = atlas(folder)
    assert names == {17: "17", 53: "53"}
    return read


@ROWS.row("read_atlas", "a file of a table's name beside it: 30 MB", Did.ASSUMED, "a.tsv", "30,000,000 bytes")
def _(folder):
    (folder / "a.tsv").write_bytes(b"17\tLeft\n".ljust(30_000_000))
    read, names = atlas(folder)
    assert names == {17: "17", 53: "53"}
    return read
