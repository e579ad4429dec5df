"""Atlases: labels with names."""

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Labels

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.diffusion.io import read_atlas
from napari_gpubio.diffusion.layer_regions import region_names
from napari_gpubio.diffusion.napari_io import read_layers

AFFINE = np.diag([-2.0, 2.0, 2.0, 1.0])
LABELS = np.zeros((5, 6, 7), np.int16)
LABELS[1], LABELS[3, 2:] = 17, 2035


def save(path, values=LABELS):
    nib.save(nib.Nifti1Image(values, AFFINE), path)
    return path


@pytest.mark.parametrize("kind", [np.int16, np.float32, np.float64, np.uint16])
def test_labels_of_any_type_are_read(tmp_path, kind):
    atlas = read_atlas(save(tmp_path / "a.nii.gz", LABELS.astype(kind)))
    np.testing.assert_array_equal(atlas.labels, LABELS)
    np.testing.assert_allclose(atlas.affine, AFFINE)
    assert [region.name for region in atlas] == ["17", "2035"]


def test_names_come_from_the_table_beside_it_or_the_given_one(tmp_path):
    path = save(tmp_path / "a.nii.gz")
    (tmp_path / "a.tsv").write_text("index\tname\n17\thippocampus\n")
    (tmp_path / "other.csv").write_text("2035,insula\n")
    assert [region.name for region in read_atlas(path)] == ["hippocampus", "2035"]
    assert [region.name for region in read_atlas(path, tmp_path / "other.csv")] == ["17", "insula"]


def test_an_atlas_may_have_thousands_of_labels(tmp_path):
    labels = np.arange(20**3, dtype=np.int32).reshape(20, 20, 20) // 4
    atlas = read_atlas(save(tmp_path / "many.nii", labels))
    assert len(atlas) == 1999
    assert set(atlas.voxel_counts.values()) == {4}


@pytest.mark.parametrize("value", [0.5, np.inf, 1e30])
def test_probabilities_are_refused(tmp_path, value):
    values = LABELS.astype(np.float32)
    values[0, 0, 0] = value
    with pytest.raises(InvalidInput, match=r"p\.nii.*probabilities"):
        read_atlas(save(tmp_path / "p.nii", values))


def test_napari_opens_it_as_labels_with_names(tmp_path):
    path = save(tmp_path / "a.nii.gz")
    with pytest.warns(ReadingNote, match="labels here; Convert to Image"):
        ((data, keywords, kind),) = read_layers(str(path))
    assert kind == "labels"  # as they look like them
    assert region_names(Labels(data, **keywords)) == {17: "17", 2035: "2035"}
    (tmp_path / "a.tsv").write_text("index\tname\n17\thippocampus\n")
    with pytest.warns(ReadingNote, match=r"1 of 2 labels have no name in a\.tsv \(2035\)"):
        ((data, keywords, kind),) = read_layers(str(path))
    assert kind == "labels"
    layer = Labels(data, **keywords)
    assert region_names(layer) == {17: "hippocampus", 2035: "2035"}
    assert "hippocampus" in str(layer.get_status((3, 3, -2), world=True))
