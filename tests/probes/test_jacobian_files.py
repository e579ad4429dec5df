"""Files of Jacobians hold all of it; damaged ones are refused."""

import dataclasses
import json

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.probes.io import load_jacobians, save_jacobians, write_jacobian
from tests.probes.jacobians.samples import HEAD, jacobians
from tests.probes.jacobians.test_replay_backends import check_same


def test_a_file_holds_all_of_it(tmp_path):
    save_jacobians(tmp_path / "j.npz", jacobians())
    found = load_jacobians(tmp_path / "j.npz")
    check_same(found, jacobians())
    np.testing.assert_array_equal(found.domain.labels, HEAD.labels)
    assert found.method == "replay"
    assert found.parameters["frequency_mhz"] == 100.0
    assert found.of("musp", gate=1).gate_ns == (0.1, 1.0)
    assert found.region(found.of(), [1])[0] == jacobians().region(jacobians().of(), [1])[0]


def test_volumes_have_errors_and_all_else_beside_them(tmp_path):
    part = jacobians().of("mua", "phase")
    beside = json.loads(write_jacobian(tmp_path / "phase.nii.gz", jacobians(), part).read_text())
    image = nib.load(tmp_path / "phase.nii.gz")
    np.testing.assert_array_equal(np.moveaxis(np.asarray(image.dataobj), -1, 0), part.values)
    np.testing.assert_allclose(image.affine, HEAD.affine)
    assert beside["unit"] == "rad mm"
    assert [channel["detector"] for channel in beside["channels"]] == ["D1", "D2"]
    np.testing.assert_allclose(beside["label_sums"], part.label_sums)
    errors = np.asarray(nib.load(tmp_path / beside["napari_gpubio"]["standard_error"]).dataobj)
    np.testing.assert_array_equal(np.moveaxis(errors, -1, 0), part.errors)


@pytest.mark.parametrize("name", ["values", "label_sums", "measured"])
def test_damaged_files_are_refused(tmp_path, name):
    part = jacobians().parts[0]
    changed = dataclasses.replace(part, **{name: getattr(part, name)[:1]})
    save_jacobians(tmp_path / "j.npz", dataclasses.replace(jacobians(), parts=(changed,)))
    with pytest.raises(InvalidInput, match=rf"j\.npz.*'{name}' has shape"):
        load_jacobians(tmp_path / "j.npz")


def test_other_files_are_named(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InvalidInput, match="not a result of Jacobians"):
        load_jacobians(tmp_path / "other.npz")
