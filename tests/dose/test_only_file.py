"""A folder stands for the only file of a kind in it."""

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.io import dicom
from napari_gpubio.dose.operations.inputs import OpenContours, OpenDose, OpenPlan


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder whose files are of the modality that their names say."""
    for name in ("RTDOSE 1", "RTPLAN 1", "RTPLAN 2"):
        (tmp_path / name).touch()
    monkeypatch.setattr(dicom, "modality_of", lambda path: path.name.split()[0])
    return tmp_path


def test_the_only_file_of_a_kind_is_found_and_others_are_named(study):
    dose = study / "RTDOSE 1"
    assert OpenDose.found_in(study) == OpenDose.found_in(dose) == dose
    with pytest.raises(InvalidInput, match="holds 2 RTPLAN files; give one of RTPLAN 1"):
        OpenPlan.found_in(study)
    with pytest.raises(InvalidInput, match="holds no RTSTRUCT file"):
        OpenContours.found_in(study)
