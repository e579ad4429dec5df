"""Labels from NIfTI and fluence to NIfTI with its sidecar: the right place, the right unit, both files or neither."""

import dataclasses
import json

import nibabel as nib
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.light.io import read_domain, write_fluence, write_fluence_steps
from napari_gpubio.optics.estimates import fluence_units
from napari_gpubio.optics.model import Medium
from tests.light.result_samples import sample_result

OBLIQUE = np.eye(4)
OBLIQUE[:3, :3] = np.float32(Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix() @ np.diag([-1, 2, 3]))
OBLIQUE[:3, 3] = 5, -7, 11
MEDIA = [Medium(label=1, mua_per_mm=0.02), Medium(label=300, mua_per_mm=0.01)]


@pytest.fixture
def result():
    sample = sample_result((5, 6, 7), (0.0, 0.5, 1.0, 5.0), photons=1000)
    return dataclasses.replace(sample, domain=dataclasses.replace(sample.domain, affine=OBLIQUE))


def test_fluence_lies_where_the_labels_lie(tmp_path, result):
    sidecar = write_fluence(tmp_path / "f.nii.gz", result)
    assert sidecar == tmp_path / "f.json"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.json", "f.nii.gz", "f_standard_error.nii.gz"]
    image = nib.load(tmp_path / "f.nii.gz")
    assert image.get_data_dtype() == np.float32
    np.testing.assert_array_equal(np.asarray(image.dataobj), result.fluence)
    np.testing.assert_allclose(image.affine, OBLIQUE, atol=1e-5)
    assert image.header["descrip"] == b"fluence, 1/mm2"
    assert image.header.get_xyzt_units()[0] == "mm"


@pytest.mark.parametrize(
    ("source", "factor", "name"), [({"power_mw": 2.5}, 2.5, "mW/mm²"), ({"energy_j": 0.03}, 3.0, "J/cm²")]
)
def test_time_gates_are_the_fourth_dimension_in_the_users_unit(tmp_path, result, source, factor, name):
    write_fluence(tmp_path / "f.nii", result, unit=fluence_units(**source)[-1], gates=True)
    found = np.asarray(nib.load(tmp_path / "f.nii").dataobj)
    assert found.shape == (5, 6, 7, 3)
    np.testing.assert_allclose(found, factor * result.gates, rtol=1e-6)
    sidecar = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert (sidecar["unit"], sidecar["factor"]) == (name, pytest.approx(factor))
    assert sidecar["settings"]["time_gates_ns"] == [0.0, 0.5, 1.0, 5.0]


def test_each_volume_that_is_scaled_is_a_step(tmp_path, result):
    halves = np.stack([result.gates, 2 * result.gates])
    whole = dataclasses.replace(result, half_fluences=halves, guide=3 * result.fluence)
    steps = []
    unit = fluence_units(power_mw=2.5)[-1]
    assert drive(write_fluence_steps(tmp_path / "f.nii", whole, unit=unit), steps.append) == tmp_path / "f.json"
    assert [step.done for step in steps] == [0, 1, 2, 3]
    found = np.asarray(nib.load(tmp_path / "f_guide.nii.gz").dataobj)
    np.testing.assert_array_equal(found, 3 * result.fluence * np.float32(2.5))


def test_the_sidecar_has_all_parameters(tmp_path, result):
    write_fluence(tmp_path / "f.nii.gz", result)
    sidecar = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert (sidecar["quantity"], sidecar["unit"], sidecar["meaning"]) == ("fluence", "1/mm²", "per launched photon")
    assert sidecar["software"].startswith("napari-gpubio ")
    assert {name: sidecar[name] for name in result.parameters} == dict(result.parameters)
    assert sidecar["settings"] == {
        **dataclasses.asdict(result.settings),
        "time_gates_ns": [0, 0.5, 1, 5],
        "faces": ["default"] * 6,
    }
    assert sidecar["domain"]["media"] == [dataclasses.asdict(medium) for medium in result.domain.media]
    np.testing.assert_array_equal(sidecar["domain"]["affine"], OBLIQUE)
    assert sidecar["energy"]["absorbed"]["value"] == result.energy.absorbed.value
    assert {int(label): part["value"] for label, part in sidecar["absorbed"].items()} == {
        label: part.value for label, part in result.absorbed.items()
    }


def labels():
    values = np.ones((4, 5, 6), np.int16)
    values[0], values[1] = 0, 300
    return values


def save(path, array, affine=OBLIQUE):
    nib.save(nib.Nifti1Image(array, affine), path)
    return path


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.float32, np.float64, np.int32])
def test_labels_become_a_domain(tmp_path, dtype):
    path = save(tmp_path / "head.nii.gz", labels().astype(dtype))
    domain = read_domain(str(path), MEDIA, outside_n=1.33)
    np.testing.assert_array_equal(domain.labels, labels())
    np.testing.assert_allclose(domain.affine, OBLIQUE, atol=1e-5)
    assert (domain.path, domain.outside_n, domain.media) == (path, 1.33, tuple(MEDIA))


def test_coefficients_may_come_voxel_by_voxel(tmp_path):
    path = save(tmp_path / "head.nii", labels())
    mua = save(tmp_path / "mua.nii", np.random.default_rng(1).random((4, 5, 6)).astype(np.float32))
    domain = read_domain(path, MEDIA, mua_path=mua)
    np.testing.assert_array_equal(domain.absorption()[1:], np.asarray(nib.load(mua).dataobj)[1:])
    assert domain.mus_per_mm is None
    save(mua, np.ones((4, 5, 6), np.float32), np.eye(4))
    with pytest.raises(InvalidInput, match=r"mua\.nii is on a different grid from the labels of head\.nii"):
        read_domain(path, MEDIA, mus_path=mua)


@pytest.mark.parametrize(
    ("array", "affine", "sentence"),
    [
        (labels() + 0.5, OBLIQUE, r"head\.nii: the labels have values that are not integers"),
        (labels() - 1, OBLIQUE, r"head\.nii: the labels range from -1 to 299"),
        (labels() * 0, OBLIQUE, r"head\.nii: every voxel is 0"),
        (labels() * 2, OBLIQUE, r"head\.nii: no optical properties for label 2, 600; add a row"),
        (np.stack([labels()] * 2, -1), OBLIQUE, r"head\.nii has shape \(4, 5, 6, 2\); one volume"),
        (labels(), np.eye(4) + np.eye(4, k=1) * [[1], [0], [0], [0]], r"head\.nii: the volume is sheared"),
    ],
)
def test_volumes_that_are_no_labels_are_refused(tmp_path, array, affine, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        read_domain(save(tmp_path / "head.nii", array, affine), MEDIA)


def test_a_damaged_file_is_refused(tmp_path):
    path = save(tmp_path / "head.nii.gz", labels())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidInput, match=r"head\.nii\.gz cannot be read"):
        read_domain(path, MEDIA)
