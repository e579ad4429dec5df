"""Scans, tensor maps and fibers as napari layers, and their files through napari."""

import dataclasses
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Image, Tracks

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, carried, grid_of, volume_layer, volume_of
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion import DiffusionScan, TensorField
from napari_gpubio.diffusion.napari_io import (
    MAP_UNITS,
    field_of,
    get_reader,
    map_layer,
    read_layers,
    scan_layer,
    scan_layers,
    scan_of,
    shows_signal_of,
)
from napari_gpubio.diffusion.samples import brain_sample_layers, ring_sample_layers
from napari_gpubio.diffusion.tensors import scalar_map
from napari_gpubio.tractograms.napari_io import fibers_of_tracks
from tests.volume_samples import (
    AFFINES,
    EVERY_AFFINE,
    SHAPE,
    SOME_VOXELS,
    STRAIGHT,
    VOLUME,
    assert_registered,
    built,
    shown_at,
    written,
)


def tensor_field(affine, **more):
    tensors = np.zeros((*SHAPE, 6))
    tensors[..., 0] = 1e-3 * (1 + VOLUME / 210)
    tensors[..., 1:3] = 3e-4
    return TensorField(**{"tensors": tensors, "mask": VOLUME > 20, "affine": affine, "s0": 1.0 + VOLUME, **more})


def scan(affine):
    data = np.stack([VOLUME, VOLUME / 2, VOLUME / 4, 1000 + VOLUME], axis=-1)
    return DiffusionScan(data=data, bvals=np.array([0.0, 1000, 1000, 2000]), directions=np.eye(4)[:, :3], affine=affine)


# -- where things lie -------------------------------------------------------------------------------------------------


@EVERY_AFFINE
def test_all_layers_of_a_study_lie_together(affine):
    field = tensor_field(affine)
    volume, series = built(volume_layer(VOLUME, affine, "volume")), built(scan_layer(scan(affine), "scan"))
    assert_registered((volume, series, built(map_layer(field, "MD", "study"))), affine)


@pytest.mark.parametrize("affine", STRAIGHT.values(), ids=list(STRAIGHT))
def test_each_voxel_of_a_study_is_shown_where_it_is(affine):
    field = tensor_field(affine)
    series, md = built(scan_layer(scan(affine), "scan")), built(map_layer(field, "MD", "study"))
    for voxel in [v for v in SOME_VOXELS if VOLUME[v] > 20]:
        expected = apply_affine(affine, voxel)[::-1]
        for n in range(4):
            value = np.asarray(scan(affine).data)[(*voxel, n)]
            np.testing.assert_allclose(shown_at(series, value, volume=n), expected, atol=1e-5)
        np.testing.assert_allclose(shown_at(md, scalar_map(field, "MD")[voxel]), expected, atol=1e-5)


# -- what a layer carries ---------------------------------------------------------------------------------------------


def test_a_layer_without_tensors_or_scan_gives_none():
    plain = built(volume_layer(VOLUME, AFFINES["cubic"], "volume"))
    foreign = Image(VOLUME.T, metadata={KEY: "something else", "field": 3})
    for layer in (plain, foreign):
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
    colors = np.asarray(built(map_layer(field, "DEC", "s")).data)
    assert (colors.min(), colors.max() <= 1, colors.shape) == (0, True, (7, 6, 5, 3))
    dark = dataclasses.replace(scan(AFFINES["cubic"]), data=np.zeros((*SHAPE, 4)))
    for layer in map(built, scan_layers(dark, "dark")):
        assert layer.contrast_limits == [0, 1]
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


@EVERY_AFFINE
def test_a_scan_opens_on_the_mean_of_its_volumes_at_b_0(affine):
    given = dataclasses.replace(scan(affine), bvals=np.array([0.0, 1000, 5, 2000]))
    series, mean = map(built, scan_layers(given, "dwi"))
    assert (series.name, series.visible, mean.name, mean.visible) == ("dwi", False, "dwi b = 0 mean", True)
    np.testing.assert_allclose(volume_of(mean), VOLUME * 0.625)
    assert_registered((series, mean), affine)
    assert (scan_of(mean), shows_signal_of(mean, given), shows_signal_of(series, given)) == (None, True, True)
    assert not shows_signal_of(mean, scan(affine))


def test_a_scan_without_b_0_opens_on_its_lowest_b_value():
    given = dataclasses.replace(scan(AFFINES["cubic"]), bvals=np.array([2000.0, 700, 700, 2000]))
    mean = built(scan_layers(given, "dwi")[-1])
    assert mean.name == "dwi b = 700 mean"
    np.testing.assert_allclose(volume_of(mean), VOLUME * 0.375)


# -- reading ----------------------------------------------------------------------------------------------------------


def write_series(folder, affine):
    path = folder / "dwi.nii.gz"
    nib.save(nib.Nifti1Image(scan(affine).data.astype(np.float32), affine), path)
    (folder / "dwi.bval").write_text("0 1000 1000 2000")
    (folder / "dwi.bvec").write_text("0 1 0 0\n0 0 1 0\n0 0 0 1")
    return path


def test_the_reader_takes_files_that_it_knows_and_that_are_there(tmp_path):
    *known, other = (str(tmp_path / name) for name in ("a.nii", "b.NII.GZ", "c.mif", "d.tif"))
    for path in (*known, other):
        Path(path).touch()
    for path in (*known, known):
        assert get_reader(path) is read_layers
    for path in (other, [*known, other], str(tmp_path / "e.nii"), str(tmp_path), []):
        assert get_reader(path) is None


@pytest.mark.parametrize("affine", [AFFINES["left-handed"], AFFINES["oblique sagittal"]], ids=["straight", "oblique"])
def test_a_series_with_its_table_is_read_as_a_scan(tmp_path, affine):
    path = write_series(tmp_path, affine)
    layer, mean = map(built, read_layers(str(path)))
    assert mean.name == "dwi b = 0 mean"
    assert (layer.name, layer.ndim) == ("dwi", 4)
    assert scan_of(layer).shells() == [0, 1000, 2000]
    np.testing.assert_allclose(scan_of(layer).affine, affine, atol=1e-5)
    for table in ("dwi.bval", "dwi.bvec"):
        (tmp_path / table).unlink()
    (series,) = map(built, read_layers(str(path)))
    assert (series.name, series.ndim, scan_of(series)) == ("dwi", 4, None)
    (tmp_path / "broken.nii").write_bytes(b"not an image")
    with pytest.raises(InvalidInput, match=r"broken\.nii"):
        read_layers(str(tmp_path / "broken.nii"))


@EVERY_AFFINE
def test_volumes_are_read_where_they_lie(tmp_path, affine):
    paths = [tmp_path / "one.nii", tmp_path / "two.nii.gz"]
    for path in paths:
        nib.save(nib.Nifti1Image(VOLUME, affine), path)
    layers = [built(found) for found in read_layers([str(path) for path in paths])]
    assert [layer.name for layer in layers] == ["one", "two"]
    for layer, path in zip(layers, paths, strict=True):
        np.testing.assert_array_equal(volume_of(layer), VOLUME)
        np.testing.assert_allclose(grid_of(layer)[0], affine, atol=1e-5)
        assert carried(layer, "path") == str(path)


# -- writing ----------------------------------------------------------------------------------------------------------


@EVERY_AFFINE
def test_colors_and_series_come_back_from_a_file(tmp_path, affine):
    field = tensor_field(affine)
    colors, found = written(tmp_path / "dec.nii.gz", built(map_layer(field, "DEC", "study")))
    np.testing.assert_array_equal(colors, scalar_map(field, "DEC").clip(0, 1))
    np.testing.assert_allclose(found, affine, atol=1e-5)
    series, found = written(tmp_path / "dwi.nii.gz", built(scan_layer(scan(affine), "dwi")))
    np.testing.assert_array_equal(series, scan(affine).data)
    np.testing.assert_allclose(found, affine, atol=1e-5)


# -- samples ----------------------------------------------------------------------------------------------------------


def test_the_samples_are_layers():
    layer, _ = map(built, brain_sample_layers())
    assert scan_of(layer).shape == grid_of(layer)[1]
    fa, dec = (built(found) for found in ring_sample_layers())
    assert (fa.name, fa.visible, dec.name, dec.rgb) == ("ring FA", False, "ring DEC", True)
    assert field_of(fa) is field_of(dec)


# -- tractograms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 4])
def test_ordinary_tracks_become_fibers_where_they_are_shown(d):
    rng = np.random.default_rng(0)
    data = np.column_stack([[4, 2, 2, 4, 2, 9], [1, 2, 1, 0, 0, 0], rng.uniform(0, 9, (6, d - 1))])
    affine = np.eye(d + 1)
    affine[-3:-1, -3:] = [[0.5, 2, -3], [2, 0.1, 7]]
    turn = np.eye(d)
    turn[-2:, -2:] = [[0.8, -0.6], [0.6, 0.8]]
    shear = np.arange(d * (d - 1) // 2) / 10
    layer = Tracks(data, affine=affine, scale=range(1, d + 1), translate=range(d), rotate=turn, shear=shear)
    world = np.array([layer.data_to_world(row) for row in layer.data[:, 1:]])
    fibers, total = fibers_of_tracks(*layer.as_layer_data_tuple()[:2])
    assert total == 3
    assert fibers.counts.tolist() == [3, 2, 1]
    np.testing.assert_allclose(fibers.points[:, : d - 1], world[:, :0:-1], atol=1e-4)
    if d == 3:
        assert not fibers.points[:, 2].any()
    with pytest.raises(InvalidInput, match="tracks have shape"):
        fibers_of_tracks(np.zeros((3, 2)), {})
