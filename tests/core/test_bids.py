"""Names of BIDS, and what a file inherits."""

import pytest

from napari_gpubio.core.bids import bids_name, described, inherited
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import noted


@pytest.mark.parametrize(
    "name", ["dwi.nii.gz", "sub-01_dwi", "sub-01_run1_dwi.nii", "sub-01_a-1_a-2_dwi.nii", "sub-_x.y"]
)
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InvalidInput, match=name):
        bids_name(name)


def test_the_nearest_and_most_special_table_comes_first(tmp_path):
    home = tmp_path / "sub-01" / "ses-a" / "dwi"
    home.mkdir(parents=True)
    for place, name in (
        (tmp_path, "dwi.bval"), (tmp_path, "ses-b_dwi.bval"), (home, "sub-01_dwi.bval"), (home, "sub-01_T1w.bval"),
        (home, "sub-01_run-1_dwi.bval"), (home.parent, "sub-01_ses-a_dwi.bval"), (home, "sub-01_run-2_dwi.bval"),
    ):  # fmt: skip
        (place / name).touch()
    found = [one.name for one in inherited(home / "sub-01_ses-a_run-1_dwi.nii.gz", ".bval")]
    assert found == ["sub-01_run-1_dwi.bval", "sub-01_dwi.bval", "sub-01_ses-a_dwi.bval", "dwi.bval"]
    (home.parents[1] / "dataset_description.json").touch()
    found = [one.name for one in inherited(home / "sub-01_ses-a_run-1_dwi.nii.gz", ".bval")]
    assert found[-1] == "sub-01_ses-a_dwi.bval"


def test_a_description_is_put_together_and_a_damaged_one_noted(tmp_path):
    home = tmp_path / "sub-01" / "dwi"
    home.mkdir(parents=True)
    (tmp_path / "dwi.json").write_text('{"EchoTime": 1, "Manufacturer": "x"}')
    (home / "sub-01_dwi.json").write_text('{"EchoTime": 2}')
    (home.parent / "sub-01_dwi.json").write_text('{"EchoTime": ')
    with noted() as notes:
        assert described(home / "sub-01_dwi.nii.gz") == {"EchoTime": 2, "Manufacturer": "x"}
    assert len(notes) == 1
    assert "sub-01_dwi.json" in notes[0]
