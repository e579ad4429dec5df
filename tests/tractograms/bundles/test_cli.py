"""``napari-gpubio bundles``."""

import csv
import dataclasses

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import cli
from napari_gpubio.tractograms.bundles.group import subject_of
from napari_gpubio.tractograms.io import write_tractogram
from tests.tractograms.bundles.test_profile import RAMP, bundle


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three subjects, each with two bundles; fibers of the second one are stored the other way."""
    folder = tmp_path_factory.mktemp("study")
    for n in range(3):
        own = folder / f"sub-0{n + 1}"
        own.mkdir()
        fibers = bundle(20, seed=n)
        write_tractogram(own / f"sub-0{n + 1}_AF_left.trx", fibers)
        write_tractogram(own / "CST.tck", fibers.select(np.arange(20)[:: -1 if n == 1 else 1]))
        nib.save(nib.Nifti1Image((RAMP + n).astype(np.float32), np.eye(4)), own / "fa.nii.gz")
    return folder


def run(study, out, *arguments):
    """Exit status, and the rows of the table that is written."""
    status = cli.main(["bundles", *(text.format(study) for text in arguments)])
    return status, list(csv.DictReader(out.read_text(encoding="utf-8").splitlines())) if out.exists() else []


ALL = ("{}/sub-*/*AF_left.trx", "{}/sub-*/CST.tck", "--image", "FA={}/sub-*/fa.nii.gz")


def test_each_bundle_of_each_subject_has_a_row(study, tmp_path):
    status, rows = run(study, tmp_path / "t.csv", *ALL, "-o", str(tmp_path / "t.csv"))
    assert status == 0
    assert [(row["subject"], row["bundle"]) for row in rows] == [
        (f"sub-0{n}", name) for n in (1, 2, 3) for name in ("AF_left", "CST")
    ]
    np.testing.assert_allclose([float(row["FA_mean"]) for row in rows], [20, 20, 21, 21, 22, 22], atol=1e-4)


def test_profiles_are_long_tables_that_run_the_same_way(study, tmp_path):
    status, rows = run(study, tmp_path / "p.csv", *ALL, "--profiles-out", str(tmp_path / "p.csv"), "--nodes", "7")
    assert status == 0
    assert list(rows[0]) == ["subject", "bundle", "node", "metric", "mean", "sd", "se", "n"]
    assert len(rows) == 3 * 2 * 7
    for n in range(3):
        own = [float(row["mean"]) for row in rows if row["subject"] == f"sub-0{n + 1}" and row["bundle"] == "CST"]
        np.testing.assert_allclose(own, np.linspace(5, 35, 7) + n, atol=1e-4)
    assert {row["n"] for row in rows} == {"20"}


def test_one_image_may_serve_all(study, tmp_path):
    table = tmp_path / "t.tsv"
    assert (
        cli.main(["bundles", f"{study}/sub-02/CST.tck", "--image", f"X={study}/sub-01/fa.nii.gz", "-o", f"{table}"])
        == 0
    )
    assert table.read_text(encoding="utf-8").startswith("subject\tbundle\tfibers")


WRONG = {
    "no such file": (["{}/sub-9*/CST.tck", "-o", "t.csv"], "no file is called"),
    "an image as a bundle": (["{}/sub-01/fa.nii.gz", "-o", "t.csv"], "no tractogram"),
    "a bundle as an image": (["{}/sub-01/CST.tck", "--image", "FA={}/sub-01/CST.tck", "-o", "t.csv"], "CST.tck"),
    "no image of a subject": (
        ["{}/sub-*/CST.tck", "--image", "FA={}/sub-0[13]/fa.nii.gz", "-o", "t.csv"],
        "sub-02 has 0 images for FA",
    ),
    "several images": (["{}/sub-01/CST.tck", "--image", "FA={}/sub-01/*", "-o", "t.csv"], "sub-01 has 3 images"),
    "no name": (["{}/sub-01/CST.tck", "--image", "{}/sub-01/fa.nii.gz", "-o", "t.csv"], "give a name and a file"),
    "one name twice": (["{}/sub-01/CST.tck", "--image", "A=a", "--image", "A=b", "-o", "t.csv"], "two images"),
    "profiles of nothing": (["{}/sub-01/CST.tck", "--profiles-out", "p.csv"], "no profiles with these"),
    "one node": ([*ALL, "--profiles-out", "p.csv", "--nodes", "1"], "at least 2"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_done_is_reported_in_a_sentence(study, tmp_path, monkeypatch, capsys, case):
    monkeypatch.chdir(tmp_path)
    arguments, sentence = WRONG[case]
    assert cli.main(["bundles", *(text.format(study) for text in arguments)]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("/data/sub-01/AF.trx", "sub-01"),
        ("/data/sub-01/ses-2/dwi/sub-01_ses-2_AF.trx", "sub-01_ses-2"),
        ("/data/sub-01/ses-2/AF.trx", "sub-01_ses-2"),
        ("/data/anna/AF.trx", "anna"),
    ],
)
def test_a_path_tells_the_subject(path, subject):
    assert subject_of(path) == subject


def test_groups_of_a_file_are_bundles_of_their_own(tmp_path):
    fibers = bundle(20, seed=0)
    masks = {"group/AF": np.arange(20) < 12, "group/CST": np.arange(20) >= 15}
    write_tractogram(tmp_path / "sub-01_brain.trx", dataclasses.replace(fibers, per_fiber=masks))
    status, rows = run(tmp_path, tmp_path / "t.csv", "{}/sub-01_brain.trx", "-o", str(tmp_path / "t.csv"))
    assert status == 0
    assert [(row["subject"], row["bundle"]) for row in rows] == [
        ("sub-01", "AF"),
        ("sub-01", "CST"),
        ("sub-01", "brain"),
    ]
    assert [int(row["fibers"]) for row in rows] == [12, 5, 3]
