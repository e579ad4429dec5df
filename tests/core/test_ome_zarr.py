"""OME-Zarr: volumes and labels there and back, exactly; valid for others; theirs with what they lack told."""

import numpy as np
import pytest
import yaozarrs

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import file_checksum
from napari_gpubio.core.ome_zarr import read_ome_zarr, write_ome_zarr
from napari_gpubio.core.operations import OpenVolume, Store, Volume, run, save
from napari_gpubio.core.operations.volumes import HeldVolume
from napari_gpubio.core.quantity import Quantity

TURNED = np.array([[-2.0, 0, 0, 90], [0, 0, 1.5, -100], [0, 2, 0, -70], [0, 0, 0, 1]])


def test_a_volume_comes_back_with_its_place_and_meaning_through_operations(tmp_path):
    values = np.random.default_rng(0).random((70, 9, 5)).astype(np.float32)
    given = Volume(array=values, affine=TURNED, quantity=Quantity("fluence", "1/mm2"))
    store, path = Store(), tmp_path / "a.ome.zarr"
    save(HeldVolume.of(given, store), path, store=store)
    yaozarrs.validate_zarr_store(str(path))
    opened = OpenVolume.at(path)
    found = run(opened, device="cpu", store=store)
    np.testing.assert_array_equal(found.array, values)
    np.testing.assert_array_equal(found.affine, TURNED)
    assert found.quantity == given.quantity
    assert found.oriented
    chunk = max((one for one in path.rglob("*") if one.is_file()), key=lambda one: one.stat().st_size)
    chunk.write_bytes(chunk.read_bytes()[:-1])
    assert file_checksum(path) != opened.file.checksum  # what lies deeper counts


def test_lower_resolutions_are_means_at_the_same_place_and_labels_stay_labels(tmp_path):
    values = np.zeros((70, 8, 6), np.float32)
    values[10, 4, 2] = 8.0
    labels = (values > 0).astype(np.uint8) * 7
    write_ome_zarr(tmp_path / "a.ome.zarr", values, TURNED, labels={"spot": labels})
    low = read_ome_zarr(tmp_path / "a.ome.zarr", level=1)
    assert low.array.shape == (35, 4, 3)
    assert low.array[5, 2, 1] == 1.0
    middle = TURNED @ [10.5, 4.5, 2.5, 1]  # of the eight voxels
    np.testing.assert_allclose(low.affine @ [5, 2, 1, 1], middle)
    for level in (0, 1):
        found = read_ome_zarr(tmp_path / "a.ome.zarr", label="spot", level=level)
        assert set(np.unique(found.array)) == {0, 7}


def test_an_array_that_is_no_volume_gets_a_sentence(tmp_path):
    with pytest.raises(InvalidInput, match=r"takes volumes .* shape \(4,\)"):
        write_ome_zarr(tmp_path / "a.ome.zarr", np.zeros(4), np.eye(4))
