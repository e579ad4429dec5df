"""Layers: what belongs together lies together, whatever the affine, and files come back as they were."""

import dataclasses

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Image, Labels
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine, is_straightened, viewer_to_world, world_to_viewer
from napari_gpubio.tracts import DiffusionScan, TensorField, read_volume, scalar_map
from napari_gpubio.tracts.layers import (
    KEY,
    MAP_UNITS,
    brain_sample_layers,
    field_of,
    get_reader,
    grid_of,
    map_layer,
    read_layers,
    ring_sample_layers,
    save_layer,
    saved_path,
    scan_layer,
    scan_of,
    volume_layer,
    volume_of,
    write_image,
)

SHAPE = (5, 6, 7)
VOLUME = np.arange(210, dtype=np.float32).reshape(SHAPE)  # every voxel has its own value
TURN = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix()


def affine_of(matrix):
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = np.float32(matrix), (-30.0, 12.5, 7.0)
    return affine


STRAIGHT = {
    "cubic": affine_of(np.diag([2.0, 2.0, 2.0])),
    "left-handed": affine_of(np.diag([-2.0, 2.0, 2.0])),
    "anisotropic": affine_of(np.diag([1.0, -2.0, 5.0])),
    "sagittal": affine_of([[0, 0, 3.0], [-2.0, 0, 0], [0, 1.0, 0]]),
    "coronal": affine_of([[2.0, 0, 0], [0, 0, -3.0], [0, 1.5, 0]]),
}
OBLIQUE = {
    "oblique": affine_of(TURN @ np.diag([1.5, 2.0, 3.0])),
    "oblique left-handed": affine_of(TURN @ np.diag([1.5, -2.0, 3.0])),
    "sheared": affine_of([[2.0, 0.4, 0], [0, 2.0, 0.3], [0, 0, 2.5]]),
    "oblique sagittal": affine_of(
        Rotation.from_euler("y", 12, degrees=True).as_matrix() @ [[0, 0, 3.0], [-2.0, 0, 0], [0, 1.0, 0]]
    ),
}
AFFINES = {**STRAIGHT, **OBLIQUE}
EVERY_AFFINE = pytest.mark.parametrize("affine", AFFINES.values(), ids=list(AFFINES))


def built(layer_data):
    """The napari layer of a tuple."""
    data, keywords, kind = layer_data
    return {"image": Image, "labels": Labels}[kind](data, **keywords)


def tensor_field(affine, **more):
    tensors = np.zeros((*SHAPE, 6))
    tensors[..., 0] = 1e-3 * (1 + VOLUME / 210)
    tensors[..., 1:3] = 3e-4
    return TensorField(**{"tensors": tensors, "mask": VOLUME > 20, "affine": affine, "s0": 1.0 + VOLUME, **more})


def scan(affine):
    data = np.stack([VOLUME, VOLUME / 2, VOLUME / 4, 1000 + VOLUME], axis=-1)
    return DiffusionScan(data=data, bvals=np.array([0.0, 1000, 1000, 2000]), directions=np.eye(4)[:, :3], affine=affine)


SOME_VOXELS = [(0, 0, 0), (4, 5, 6), (1, 4, 2), (3, 0, 5)]


def shown_at(layer, value, volume=None):
    """Where the viewer shows the voxel that has a value, as (z, y, x)."""
    data = np.asarray(layer.data) if volume is None else np.asarray(layer.data)[volume]
    (index,) = np.argwhere(data == value)
    index = index if volume is None else (volume, *index)
    return np.asarray(layer.data_to_world(index))[-3:]


# -- where things lie -------------------------------------------------------------------------------------------------


@EVERY_AFFINE
def test_a_clicked_voxel_is_the_right_one(affine):
    layer = built(volume_layer(VOLUME, affine, "volume"))
    for voxel in SOME_VOXELS:
        position = shown_at(layer, VOLUME[voxel])
        np.testing.assert_allclose(
            viewer_to_world(position, affine, SHAPE), apply_affine(affine, voxel), atol=1e-4, err_msg=str(voxel)
        )
        np.testing.assert_allclose(world_to_viewer(apply_affine(affine, voxel), affine, SHAPE), position, atol=1e-4)


@pytest.mark.parametrize("affine", STRAIGHT.values(), ids=list(STRAIGHT))
def test_the_viewer_shows_world_millimetres_where_it_can(affine):
    layer = built(volume_layer(VOLUME, affine, "volume"))
    assert not is_straightened(affine, SHAPE)
    for voxel in SOME_VOXELS:
        np.testing.assert_allclose(shown_at(layer, VOLUME[voxel])[::-1], apply_affine(affine, voxel), atol=1e-5)


@EVERY_AFFINE
def test_slices_are_cut_along_the_axes_of_the_world(affine):
    """The layer's affine has no rotation left, and its axes are z, y, x."""
    matrix = volume_layer(VOLUME, affine, "volume")[1]["affine"][:3, :3]
    assert np.abs(matrix - np.diag(np.diag(matrix))).max() < 1e-5


@pytest.mark.parametrize("affine", OBLIQUE.values(), ids=list(OBLIQUE))
def test_a_straightened_volume_keeps_its_centre_and_voxel_sizes(affine):
    layer = built(volume_layer(VOLUME, affine, "volume"))
    assert is_straightened(affine, SHAPE)
    centre = (np.array(layer.data.shape) - 1) / 2
    shown = np.asarray(layer.data_to_world(centre))[::-1]
    np.testing.assert_allclose(shown, apply_affine(affine, (np.array(SHAPE) - 1) / 2), atol=1e-4)
    for axis, neighbour in enumerate(map(tuple, np.eye(3, dtype=int))):
        step = shown_at(layer, VOLUME[neighbour]) - shown_at(layer, VOLUME[0, 0, 0])
        assert np.linalg.norm(step) == pytest.approx(np.linalg.norm(affine[:3, axis]), rel=1e-5)
        true = affine[:3, axis] / np.linalg.norm(affine[:3, axis])
        assert step[::-1] @ true > 0.55 * np.linalg.norm(step)  # the nearest direction of the world


@EVERY_AFFINE
def test_all_layers_of_a_study_lie_together(affine):
    field = tensor_field(affine)
    volume, series = built(volume_layer(VOLUME, affine, "volume")), built(scan_layer(scan(affine), "scan"))
    md = built(map_layer(field, "MD", "study"))
    for voxel in [v for v in SOME_VOXELS if VOLUME[v] > 20]:
        expected = shown_at(volume, VOLUME[voxel])
        for n in range(4):
            value = np.asarray(scan(affine).data)[(*voxel, n)]
            np.testing.assert_allclose(shown_at(series, value, volume=n), expected, atol=1e-5)
        np.testing.assert_allclose(shown_at(md, scalar_map(field, "MD")[voxel]), expected, atol=1e-5)


# -- what a layer carries ---------------------------------------------------------------------------------------------


@EVERY_AFFINE
def test_a_layer_of_ours_gives_back_its_volume_and_grid(affine):
    layer = built(volume_layer(VOLUME, affine, "volume", colormap="magma"))
    np.testing.assert_array_equal(volume_of(layer), VOLUME)
    found, shape = grid_of(layer)
    np.testing.assert_array_equal(found, affine)
    assert shape == SHAPE
    assert (layer.name, layer.colormap.name) == ("volume", "magma")
    assert (field_of(layer), scan_of(layer)) == (None, None)


@pytest.mark.parametrize("name", MAP_UNITS)
@EVERY_AFFINE
def test_maps_become_layers_that_carry_their_tensors(affine, name):
    field = tensor_field(affine)
    layer = built(map_layer(field, name, "study", visible=False))
    assert layer.name == {"FA": "study FA", "DEC": "study DEC", "S0": "study S0 (signal)"}.get(
        name, f"study {name} (mm²/s)"
    )
    assert not layer.visible
    assert layer.rgb == (name == "DEC")
    assert field_of(layer) is field
    np.testing.assert_array_equal(grid_of(layer)[0], affine)
    assert grid_of(layer)[1] == SHAPE
    if name != "DEC":
        np.testing.assert_array_equal(volume_of(layer), scalar_map(field, name))


def test_maps_have_their_customary_contrast():
    field = tensor_field(AFFINES["cubic"])
    assert built(map_layer(field, "FA", "s")).contrast_limits == [0, 1]
    for name in ("MD", "AD", "RD"):
        assert built(map_layer(field, name, "s")).contrast_limits == [0, 3e-3]
    colours = np.asarray(built(map_layer(field, "DEC", "s")).data)
    assert (colours.min(), colours.max() <= 1, colours.shape) == (0, True, (7, 6, 5, 3))


def test_a_map_that_there_is_not_is_refused():
    with pytest.raises(InvalidInput, match="no S0 map"):
        map_layer(tensor_field(AFFINES["cubic"], s0=None), "S0", "study")


def test_a_scan_becomes_a_series_that_carries_itself():
    given = scan(AFFINES["sagittal"])
    layer = built(scan_layer(given, "dwi"))
    assert scan_of(layer) is given
    assert (layer.ndim, layer.data.shape[0], grid_of(layer)[1]) == (4, 4, SHAPE)
    assert layer.contrast_limits == pytest.approx([0, np.percentile(VOLUME, 99.5)])
    with pytest.raises(InvalidInput, match=r"layer 'dwi' has 4 dimensions; choose a volume with three"):
        volume_of(layer)


def test_a_dark_scan_can_be_shown():
    dark = dataclasses.replace(scan(AFFINES["cubic"]), data=np.zeros((*SHAPE, 4)))
    assert built(scan_layer(dark, "dark")).contrast_limits == [0, 1]


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
def test_the_grid_of_a_layer_of_others_is_its_own_transform(keywords, kind):
    layer = kind(VOLUME.T.astype(np.uint16), **keywords)
    check_grid(layer, *grid_of(layer))
    np.testing.assert_array_equal(volume_of(layer), VOLUME)
    assert (field_of(layer), scan_of(layer)) == (None, None)


def test_the_grid_of_colours_and_of_a_series_of_others():
    colours = Image(np.zeros((7, 6, 5, 3)), rgb=True, scale=(3, 2, 1.5), translate=(1, 2, 3))
    check_grid(colours, *grid_of(colours))
    series = Image(np.zeros((9, 7, 6, 5)), scale=(1, 3, 2, 1.5), translate=(0, 1, 2, 3))
    check_grid(series, *grid_of(series))


def test_metadata_of_others_do_no_harm():
    layer = Image(VOLUME.T, metadata={KEY: "something else", "field": 3})
    assert (field_of(layer), scan_of(layer)) == (None, None)
    np.testing.assert_array_equal(grid_of(layer)[0], np.eye(4))


# -- reading ----------------------------------------------------------------------------------------------------------


def write_series(folder, affine, *, table=True):
    path = folder / "dwi.nii.gz"
    nib.save(nib.Nifti1Image(scan(affine).data.astype(np.float32), affine), path)
    if table:
        (folder / "dwi.bval").write_text("0 1000 1000 2000")
        (folder / "dwi.bvec").write_text("0 1 0 0\n0 0 1 0\n0 0 0 1")
    return path


def test_the_reader_takes_files_that_it_knows_and_that_are_there(tmp_path):
    for name in ("a.nii", "b.NII.GZ", "c.mif", "d.tif"):
        (tmp_path / name).touch()
    known = [str(tmp_path / name) for name in ("a.nii", "b.NII.GZ", "c.mif")]
    for path in (*known, known):
        assert get_reader(path) is read_layers
    for path in (
        str(tmp_path / "d.tif"),
        [*known, str(tmp_path / "d.tif")],
        str(tmp_path / "e.nii"),
        str(tmp_path),
        [],
    ):
        assert get_reader(path) is None


@pytest.mark.parametrize("affine", [AFFINES["left-handed"], AFFINES["oblique sagittal"]], ids=["straight", "oblique"])
def test_a_series_with_its_table_is_read_as_a_scan(tmp_path, affine):
    (found,) = read_layers(str(write_series(tmp_path, affine)))
    layer = built(found)
    assert (layer.name, layer.ndim) == ("dwi", 4)
    assert scan_of(layer).shells() == [0, 1000, 2000]
    np.testing.assert_allclose(scan_of(layer).affine, affine, atol=1e-5)


def test_a_series_without_a_table_is_refused(tmp_path):
    path = write_series(tmp_path, AFFINES["cubic"], table=False)
    with pytest.raises(InvalidInput, match=r"dwi\.nii\.gz"):
        read_layers(str(path))


@EVERY_AFFINE
def test_volumes_are_read_where_they_lie(tmp_path, affine):
    for name in ("one.nii", "two.nii.gz"):
        nib.save(nib.Nifti1Image(VOLUME, affine), tmp_path / name)
    layers = [built(found) for found in read_layers([str(tmp_path / "one.nii"), str(tmp_path / "two.nii.gz")])]
    assert [layer.name for layer in layers] == ["one", "two"]
    for layer in layers:
        np.testing.assert_array_equal(volume_of(layer), VOLUME)
        np.testing.assert_allclose(grid_of(layer)[0], affine, atol=1e-5)


def test_a_broken_file_is_refused_with_its_name(tmp_path):
    (tmp_path / "broken.nii").write_bytes(b"not an image")
    with pytest.raises(InvalidInput, match=r"broken\.nii"):
        read_layers(str(tmp_path / "broken.nii"))


# -- writing ----------------------------------------------------------------------------------------------------------


def written(path, layer):
    """The array and affine of a layer that went through a file."""
    data, attributes, _ = layer.as_layer_data_tuple()
    assert write_image(str(path), data, attributes) == [str(path)]
    image = nib.load(path)
    return np.asarray(image.dataobj), image.affine


@EVERY_AFFINE
def test_a_layer_of_ours_comes_back_from_a_file(tmp_path, affine):
    array, found = written(tmp_path / "volume.nii.gz", built(volume_layer(VOLUME, affine, "volume")))
    np.testing.assert_array_equal(array, VOLUME)
    np.testing.assert_allclose(found, affine, atol=1e-5)


@EVERY_AFFINE
def test_colours_and_series_come_back_from_a_file(tmp_path, affine):
    field = tensor_field(affine)
    colours, found = written(tmp_path / "dec.nii.gz", built(map_layer(field, "DEC", "study")))
    np.testing.assert_array_equal(colours, scalar_map(field, "DEC").clip(0, 1))
    np.testing.assert_allclose(found, affine, atol=1e-5)
    series, found = written(tmp_path / "dwi.nii.gz", built(scan_layer(scan(affine), "dwi")))
    np.testing.assert_array_equal(series, scan(affine).data)
    np.testing.assert_allclose(found, affine, atol=1e-5)


@EVERY_FOREIGN
@pytest.mark.parametrize("kind", [Image, Labels])
def test_a_layer_of_others_is_written_where_the_viewer_shows_it(tmp_path, keywords, kind):
    layer = kind(VOLUME.T.astype(np.uint16), **keywords)
    array, affine = written(tmp_path / "volume.nii.gz", layer)
    np.testing.assert_array_equal(array, VOLUME)
    check_grid(layer, affine)


def test_colours_of_others_are_written_where_the_viewer_shows_them(tmp_path):
    colours = np.random.default_rng(1).uniform(size=(*SHAPE, 3)).astype(np.float32)
    layer = Image(colours.transpose(2, 1, 0, 3), rgb=True, scale=(3, 2, 1.5), translate=(1, 2, 3))
    array, affine = written(tmp_path / "colours.nii.gz", layer)
    np.testing.assert_array_equal(array, colours)
    check_grid(layer, affine)


def test_what_is_no_volume_is_not_written(tmp_path):
    data, attributes, _ = Image(np.zeros((6, 5))).as_layer_data_tuple()
    with pytest.raises(InvalidInput, match="3 dimensions"):
        write_image(str(tmp_path / "flat.nii.gz"), data, attributes)
    assert list(tmp_path.iterdir()) == []


@EVERY_AFFINE
def test_a_file_behind_a_layer_is_known_until_the_layer_changes(tmp_path, affine):
    path = tmp_path / "volume.nii.gz"
    nib.save(nib.Nifti1Image(VOLUME, affine), path)
    layer = built(read_layers(str(path))[0])
    assert saved_path(layer) == path
    layer.data = np.asarray(layer.data) + 1
    assert saved_path(layer) is None
    assert saved_path(built(volume_layer(VOLUME, affine, "volume"))) is None


@EVERY_AFFINE
def test_a_painted_layer_is_saved_under_its_name(tmp_path, affine):
    layer = built(volume_layer(VOLUME, affine, "my mask: left/right"))
    path = save_layer(layer, tmp_path)
    assert path.parent == tmp_path
    assert path.name == "my_mask__left_right.nii.gz"
    array, found = read_volume(path)
    np.testing.assert_array_equal(array, VOLUME)
    np.testing.assert_allclose(found, affine, atol=1e-5)


# -- samples ----------------------------------------------------------------------------------------------------------


def test_the_samples_are_layers():
    (scan_data,) = brain_sample_layers()
    layer = built(scan_data)
    assert scan_of(layer).shape == grid_of(layer)[1]
    fa, dec = (built(found) for found in ring_sample_layers())
    assert (fa.name, fa.visible, dec.name, dec.rgb) == ("ring FA", False, "ring DEC", True)
    assert field_of(fa) is field_of(dec)
