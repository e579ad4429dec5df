"""Datasets of BIDS: what is found, what belongs together, and what is wrong."""

import json
import shutil

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import ReadingNote, noted
from napari_gpubio.workflows.bids import napari_io, open_dataset
from tests.workflows.bids_samples import BARE, BRAIN, HEAD, PLAN, made, study


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The dataset, which is not changed."""
    return study(tmp_path_factory.mktemp("bids") / "study")


@pytest.fixture
def empty(tmp_path):
    """A dataset of a subject that has nothing."""
    made(tmp_path, "sub-01")
    (tmp_path / "dataset_description.json").write_text('{"Name": "x", "BIDSVersion": "1.10.0"}')
    return tmp_path


def put(folder, *names):
    """Make files, which hold nothing."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return open_dataset(folder)


def names_of(files):
    return [one.path.name for one in files]


def test_files_are_found_by_what_their_names_say(written):
    dataset = open_dataset(written)
    assert dataset.subjects == (BRAIN, BARE, HEAD, PLAN)
    assert names_of(dataset.files(suffix="dwi", extension=".nii.gz")) == [
        f"sub-{BRAIN}_run-1_dwi.nii.gz",
        f"sub-{BARE}_run-1_dwi.nii.gz",
    ]
    (labels,) = dataset.files(subject=BRAIN, suffix="dseg")
    assert labels.pipeline.endswith("seg")
    assert names_of(dataset.probes(HEAD)) == [f"sub-{HEAD}_optodes.tsv"]
    assert [one.path.name for one in dataset.plans(PLAN)] == ["rt"]
    assert dataset.problems(BRAIN) == ()
    (problem,) = dataset.problems()
    assert f"sub-{BARE}_run-1_dwi.nii.gz has no b-values (.bval) and no b-vectors (.bvec)" in problem
    with pytest.raises(InvalidInput, match="no subject '5'; it has 01"):
        dataset.files(subject="5")


def test_nothing_of_another_subject_or_session_is_joined(empty):
    dataset = put(
        empty, "sub-02/anat/sub-02_T1w.nii.gz", "sub-01/ses-b/anat/sub-01_ses-b_T1w.nii.gz",
        "sub-01/ses-a/dwi/sub-01_ses-a_run-1_dwi.nii.gz", "sub-01/anat/sub-01_space-MNI152_T1w.nii.gz",
    )  # fmt: skip
    (scan,) = dataset.files(suffix="dwi")
    assert dataset.joined(scan, suffix="T1w") is None
    dataset = put(
        empty, "sub-01/ses-a/anat/sub-01_ses-a_run-2_T1w.nii.gz", "sub-01/ses-a/dwi/sub-01_ses-a_run-2_mask.nii"
    )
    assert dataset.joined(scan, suffix="T1w").path.name == "sub-01_ses-a_run-2_T1w.nii.gz"
    assert dataset.joined(scan, suffix="mask") is None
    dataset = put(empty, "sub-01/ses-a/dwi/sub-01_ses-a_run-1_mask.nii", "sub-01/ses-a/dwi/sub-01_ses-a_mask.nii")
    with noted() as notes:
        assert dataset.joined(scan, suffix="mask").path.name == "sub-01_ses-a_run-1_mask.nii"
    assert "of sub-01_ses-a_run-1_mask.nii, sub-01_ses-a_mask.nii" in notes[0]
    assert dataset.sessions("01") == ("a", "b")


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["sub-01/anat/T1w.nii.gz"], "sub-01/anat/T1w.nii.gz is left out: T1w.nii.gz is no name"),
        (["sub-01/anat/sub-02_T1w.nii.gz"], "its name says sub-02, and its folder sub-01"),
        (["sub-01/ses-a/anat/sub-01_T1w.nii.gz"], "its name says ses-, and its folder ses-a"),
        (["sub-01/anat/sub-01_T1w.nii", "sub-01/anat/sub-01_T1w.nii.gz"], "has the entities of sub-01_T1w.nii;"),
        (
            ["sub-01/anat/sub-01_acq-a_run-1_T1w.nii", "sub-01/anat/sub-01_run-1_acq-a_T1w.nii"],
            "has the entities of sub-01_acq-a_run-1_T1w.nii;",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_no_other_is_lost(empty, names, problem):
    dataset = put(empty, *names, "sub-01/anat/sub-01_T2w.nii.gz")
    assert problem in dataset.problems()[0]
    assert "sub-01_T2w.nii.gz" in names_of(dataset.files())
    assert len(dataset.files()) == len(names)


def test_a_link_to_what_is_not_here_is_named(empty):
    made(empty, "sub-01", "dwi")
    (empty / "sub-01" / "dwi" / "sub-01_dwi.nii.gz").symlink_to(empty / "annex")
    (problem,) = open_dataset(empty).problems()
    assert "datalad get" in problem


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "is not valid JSON"), ("{}", "lacks Name and BIDSVersion"), (None, "does not exist")]
)
def test_a_description_that_is_missing_or_damaged_is_named(empty, text, problem):
    path = empty / "dataset_description.json"
    path.unlink() if text is None else path.write_text(text)
    assert problem in open_dataset(empty).problems()[0]


def test_folders_that_are_no_dataset_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no folder of a subject"):
        open_dataset(tmp_path)
    with pytest.raises(InvalidInput, match="is no folder"):
        open_dataset(tmp_path / "nowhere")
    assert napari_io.get_reader(str(tmp_path)) is None


# -- in napari --------------------------------------------------------------------------------------------------------


def opened(folder):
    """Names of the layers of a folder, and the notes."""
    with pytest.warns(ReadingNote) as warned:
        layers = napari_io.get_reader(str(folder))(str(folder))
    return [keywords["name"] for _, keywords, _ in layers], "\n".join(str(one.message) for one in warned)


def test_the_first_subject_of_a_dataset_opens_and_the_others_are_named(written):
    names, notes = opened(written)
    assert names[0] == f"sub-{BRAIN}_T1w"
    assert names[-1] == f"sub-{BRAIN}_dseg"
    assert f"sub-{BRAIN}_run-1_dwi" in names
    assert f"of study, sub-{BRAIN} is shown; choose another one in the panel 'BIDS dataset'" in notes
    assert f"or open its folder: sub-{BARE}, sub-{HEAD}" in notes
    assert opened(written / "dataset_description.json")[0] == names


def test_a_subject_opens_with_what_it_has(written):
    names, notes = opened(written / f"sub-{BARE}")
    assert names == [f"sub-{BARE}_run-1_dwi"]
    assert "no b-vectors" in notes
    for subject, expected in ((PLAN, ["d.dcm", "s contours", "s"]), (HEAD, ["sub-03_dseg", "sub-03_optodes optodes"])):
        layers = napari_io.read_layers(str(written / f"sub-{subject}"))
        assert [keywords["name"] for _, keywords, _ in layers] == expected


def test_a_damaged_file_keeps_no_other_from_being_shown(empty, written):
    home = made(empty, "sub-01", "anat")
    shutil.copy(written / f"sub-{BRAIN}" / "anat" / f"sub-{BRAIN}_T1w.nii.gz", home / "sub-01_T1w.nii.gz")
    (home / "sub-01_run-2_T1w.nii.gz").write_bytes(b"no image")
    (empty / "dataset_description.json").write_text(json.dumps([]))
    names, notes = opened(empty)
    assert names == ["sub-01_T1w"]
    assert "sub-01_run-2_T1w.nii.gz is left out" in notes
    (home / "sub-01_T1w.nii.gz").unlink()
    with pytest.raises(InvalidInput, match="no diffusion scan and no labels"):
        napari_io.read_layers(str(empty))
