"""Layers: what belongs together lies together, whatever the affine, and files come back as they were."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Image, Labels, Points

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import write_image
from napari_gpubio.core.napari_io import (
    KEY,
    carried,
    grid_of,
    notes_of,
    series_layer,
    taken_as_mm,
    volume_layer,
    volume_of,
)
from napari_gpubio.core.operations import OpenVolume
from napari_gpubio.core.operations.layer_sources import layer_source
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.space import apply_affine, viewer_to_world, world_to_viewer
from napari_gpubio.core.volumes import read_volume
from tests.volume_samples import (
    AFFINES,
    EVERY_AFFINE,
    OBLIQUE,
    SHAPE,
    SOME_VOXELS,
    STRAIGHT,
    TURN,
    VOLUME,
    built,
    shown_at,
    written,
)


def value_at(layer, position):
    """The value of the voxel that a viewer position lies in."""
    return layer.data[tuple(np.round(layer.world_to_data(position)).astype(int))]


# -- where things lie -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("affine", STRAIGHT.values(), ids=list(STRAIGHT))
def test_a_voxel_is_shown_where_it_is_in_the_world(affine):
    layer = built(volume_layer(VOLUME, affine, "volume"))
    for voxel in SOME_VOXELS:
        position = shown_at(layer, VOLUME[voxel])
        np.testing.assert_allclose(viewer_to_world(position), apply_affine(affine, voxel), atol=1e-4)


@pytest.mark.parametrize("affine", OBLIQUE.values(), ids=list(OBLIQUE))
def test_labels_of_an_oblique_volume_are_shown_where_they_are_in_the_world(affine):
    labels = np.kron(VOLUME.astype(np.uint16) + 1, np.ones((4, 4, 4), np.uint16))
    finer = affine @ np.diag([0.25, 0.25, 0.25, 1.0])
    layer = built(volume_layer(labels, finer, "labels", kind="labels"))
    for voxel in SOME_VOXELS:
        places = np.argwhere(np.asarray(layer.data) == VOLUME[voxel] + 1)
        center = apply_affine(finer, 4 * np.array(voxel) + 1.5)
        assert np.linalg.norm(layer.data_to_world(places.mean(axis=0))[::-1] - center) < 0.5


@EVERY_AFFINE
def test_slices_are_cut_along_the_axes_of_the_world(affine):
    """The layer's affine has no rotation left, its axes are z, y, x, and they count millimeters."""
    layer = built(volume_layer(VOLUME, affine, "volume"))
    matrix = np.array([np.asarray(layer.data_to_world(unit)) for unit in np.eye(3)]) - layer.data_to_world(np.zeros(3))
    assert np.abs(matrix - np.diag(np.diag(matrix))).max() < 1e-5
    assert layer.axis_labels == ("z", "y", "x")
    assert [str(unit) for unit in layer.units] == ["millimeter"] * 3


# -- what a layer carries ---------------------------------------------------------------------------------------------


@EVERY_AFFINE
def test_a_layer_of_ours_gives_back_its_volume_and_grid_in_files_too(tmp_path, affine):
    layer = built(volume_layer(VOLUME, affine, "my mask: left/right", colormap="magma"))
    assert (layer.name, layer.colormap.name) == ("my mask: left/right", "magma")
    np.testing.assert_array_equal(volume_of(layer), VOLUME)
    found, shape = grid_of(layer)
    np.testing.assert_array_equal(found, affine)
    assert shape == SHAPE
    array, found = written(tmp_path / "volume.nii.gz", layer)
    np.testing.assert_array_equal(array, VOLUME)
    np.testing.assert_allclose(found, affine, atol=1e-5)


@EVERY_AFFINE
def test_labels_and_a_series_lie_where_their_volume_lies(affine):
    volume = built(volume_layer(VOLUME, affine, "volume"))
    labels = built(volume_layer(VOLUME.astype(np.uint16), affine, "labels", kind="labels"))
    series = built(series_layer(np.stack([VOLUME, -VOLUME], axis=-1), affine, "series", "time"))
    assert (labels.ndim, series.data.shape[0], series.axis_labels) == (3, 2, ("time", "z", "y", "x"))
    place = world_to_viewer(apply_affine(affine, SOME_VOXELS[2]))
    inside = value_at(volume, place)
    assert np.isfinite(inside)
    assert value_at(series, (1, *place)) == pytest.approx(-inside)
    assert labels.data.shape == volume.data.shape
    np.testing.assert_allclose(labels.data_to_world((1, 2, 3)), volume.data_to_world((1, 2, 3)))
    np.testing.assert_array_equal(volume_of(labels), VOLUME)
    np.testing.assert_array_equal(grid_of(series)[0], affine)
    assert grid_of(series)[1] == SHAPE


def test_what_a_layer_carries_is_given_back_as_it_is():
    thing = object()
    layer = built(volume_layer(VOLUME, AFFINES["cubic"], "volume", metadata={"thing": thing}))
    assert carried(layer, "thing") is thing
    assert carried(layer, "nothing") is None
    assert carried(Image(VOLUME), "thing") is None


# -- layers of others -------------------------------------------------------------------------------------------------

FOREIGN = {
    "nothing": {},
    "scale": {"scale": (3.0, 2.0, 1.5)},
    "scale and place": {"scale": (3.0, 2.0, 1.5), "translate": (-7.0, 8.0, 9.5)},
    "affine": {"affine": np.array([[3.0, 0.2, 0, -7], [0, -2.0, 0.1, 8], [0, 0, 1.5, 9.5], [0, 0, 0, 1]])},
    "affine and scale": {"affine": np.eye(4)[[1, 0, 2, 3]] + np.eye(4, k=3), "scale": (3.0, 2.0, 1.0)},
    "rotated": {"scale": (3.0, 2.0, 1.5), "rotate": TURN, "translate": (1.0, 2.0, 3.0)},
    "sheared": {"scale": (3.0, 2.0, 1.5), "shear": (0.1, 0.2, 0.3)},
}  # fmt: skip
EVERY_FOREIGN = pytest.mark.parametrize("keywords", FOREIGN.values(), ids=list(FOREIGN))


def test_lengths_without_a_unit_are_said_to_be_taken_as_mm():
    ours = Image(np.zeros((4, 5, 6)), metadata={KEY: {"affine": np.eye(4), NOTES: ["read so"]}})
    assert (taken_as_mm(ours), notes_of(ours)) == ("", ("read so",))
    for kind, values in ((Image, np.zeros((4, 5, 6))), (Labels, np.zeros((4, 5, 6), int))):
        assert notes_of(kind(values, name="theirs")) == ("theirs is in pixels, taken as mm",)
        assert notes_of(kind(values, name="theirs", units=("um",) * 3)) == ()
    assert notes_of(Image(np.zeros((4, 5)), name="photo")) == ()  # of which no lengths are taken
    assert "taken as mm" in taken_as_mm(Image(np.zeros((4, 5)), name="photo"))
    assert notes_of(Points(np.zeros((2, 3)))) == ()


def check_grid(layer, affine, shape=SHAPE):
    """A grid is right if it takes voxels where the viewer shows them."""
    for voxel in SOME_VOXELS:
        index = np.zeros(layer.ndim)
        index[-3:] = voxel[::-1]
        shown = np.asarray(layer.data_to_world(index))[-3:]
        np.testing.assert_allclose(apply_affine(affine, voxel), shown[::-1], atol=1e-4)
    assert shape == SHAPE


@EVERY_FOREIGN
@pytest.mark.parametrize("kind", [Image, Labels])
def test_the_grid_of_a_layer_of_others_is_its_own_transform_in_files_too(tmp_path, keywords, kind):
    layer = kind(VOLUME.T.astype(np.uint16), **keywords)
    check_grid(layer, *grid_of(layer))
    np.testing.assert_array_equal(volume_of(layer), VOLUME)
    array, affine = written(tmp_path / "volume.nii.gz", layer)
    np.testing.assert_array_equal(array, VOLUME)
    check_grid(layer, affine)


def test_the_grid_of_colors_and_of_a_series_of_others(tmp_path):
    rgb = np.random.default_rng(1).uniform(size=(*SHAPE, 3)).astype(np.float32)
    colors = Image(rgb.transpose(2, 1, 0, 3), rgb=True, scale=(3, 2, 1.5), translate=(1, 2, 3))
    check_grid(colors, *grid_of(colors))
    array, affine = written(tmp_path / "colors.nii.gz", colors)
    np.testing.assert_array_equal(array, rgb)
    check_grid(colors, affine)
    series = Image(np.zeros((9, 7, 6, 5)), scale=(1, 3, 2, 1.5), translate=(0, 1, 2, 3))
    check_grid(series, *grid_of(series))


def test_metadata_of_others_do_no_harm():
    layer = Image(VOLUME.T, metadata={KEY: "something else", "field": 3})
    assert carried(layer, "field") is None
    np.testing.assert_array_equal(grid_of(layer)[0], np.eye(4))


# -- files ------------------------------------------------------------------------------------------------------------


def test_what_is_no_volume_is_not_written(tmp_path):
    data, attributes, _ = Image(np.zeros((6, 5))).as_layer_data_tuple()
    with pytest.raises(InvalidInput, match="3 dimensions"):
        write_image(str(tmp_path / "flat.nii.gz"), data, attributes)
    assert list(tmp_path.iterdir()) == []


@EVERY_AFFINE
def test_a_file_behind_a_layer_is_known_until_the_layer_changes(tmp_path, affine):
    path, array = tmp_path / "volume.nii.gz", VOLUME.copy()
    array[0, 0, 0] = np.nan
    nib.save(nib.Nifti1Image(array, affine), path)
    layer = built(volume_layer(*read_volume(path), "volume", metadata={"path": str(path)}))
    assert file_behind(layer) == path
    assert file_behind(layer, array[None]) is None
    layer.data = np.asarray(layer.data) + 1
    assert file_behind(layer) is None
    assert file_behind(layer, array) == path
    nib.save(nib.Nifti1Image(array, affine + np.eye(4, k=3)), path)
    assert file_behind(layer, array) is None
    assert file_behind(built(volume_layer(VOLUME, affine, "volume"))) is None


def file_behind(layer, array=None):
    """The file that holds exactly what a layer shows, or None."""
    source = layer_source(layer, array).output().of
    return Path(source.file.path) if isinstance(source, OpenVolume) else None
