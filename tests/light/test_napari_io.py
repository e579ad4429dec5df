"""Results as layers: they lie on the labels, show the numbers of the result, and carry everything that made them."""

import dataclasses
import json

import numpy as np
import pytest

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, carried, volume_layer, volume_of
from napari_gpubio.core.space import apply_affine
from napari_gpubio.light.napari_io import (
    domain_of,
    error_layer,
    fluence_layer,
    labels_layer,
    result_of,
)
from napari_gpubio.optics.estimates import fluence_units
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.pictures import decade_limits
from tests.light.result_samples import sample_result
from tests.volume_samples import AFFINES, SHAPE, SOME_VOXELS, STRAIGHT, VOLUME, assert_registered, built, shown_at

RIGID = {name: affine for name, affine in AFFINES.items() if name != "sheared"}
EVERY_GRID = pytest.mark.parametrize("affine", RIGID.values(), ids=list(RIGID))
MEDIA = tuple(Medium(label=label, mua_per_mm=0.02, mus_per_mm=1.0) for label in range(1, 211))
LABELS = (VOLUME + 1).astype(np.uint8)  # every voxel its own
FLUENCE = np.float32(10) ** (-VOLUME / 20)  # every voxel its own


def result_on(affine=AFFINES["anisotropic"], **more):
    """A result whose fluence is FLUENCE, three quarters of it in the first gate."""
    gates = np.stack([0.75 * FLUENCE, 0.25 * FLUENCE], axis=-1)
    values = {
        "domain": Domain(labels=LABELS, affine=affine, media=MEDIA),
        "gates": gates,
        "gates_error": 0.2 * gates,
        "fluence_error": 0.1 * FLUENCE,
        "escaped_weight": 0.5 * FLUENCE,
    }
    sample = sample_result((4, 4, 4), (0.0, 1.0, 5.0))
    return dataclasses.replace(sample, **{**values, **more})


# -- where they lie ---------------------------------------------------------------------------------------------------


def shown_near(layer, value, volume=None):
    """Where the viewer shows the voxel whose value is nearest to a value, as (z, y, x)."""
    data = np.asarray(layer.data) if volume is None else np.asarray(layer.data)[volume]
    return shown_at(layer, data.ravel()[np.nanargmin(np.abs(data - value))], volume)


def layers_of(result):
    """The labels, the gates and the images of a result."""
    images = {make: built(make(result, "head")) for make in (fluence_layer, error_layer)}
    return built(labels_layer(result.domain, "head")), built(fluence_layer(result, "head", gates=True)), images


@EVERY_GRID
def test_every_layer_lies_on_the_labels(affine):
    labels, gates, images = layers_of(result_on(affine))
    assert_registered((labels, gates, *images.values()), affine)


@pytest.mark.parametrize("affine", STRAIGHT.values(), ids=list(STRAIGHT))
def test_each_voxel_is_shown_where_it_is(affine):
    labels, gates, images = layers_of(result_on(affine))
    for voxel in SOME_VOXELS:
        place, fluence = apply_affine(affine, voxel)[::-1], np.log10(FLUENCE[voxel])
        np.testing.assert_allclose(shown_at(labels, LABELS[voxel]), place, atol=1e-5)
        np.testing.assert_allclose(shown_near(images[fluence_layer], fluence), place, atol=1e-5)
        np.testing.assert_allclose(shown_near(gates, fluence + np.log10(0.25), volume=1), place, atol=1e-5)


# -- what they show ---------------------------------------------------------------------------------------------------


def test_fluence_is_shown_as_its_logarithm_over_six_decades():
    layer = built(fluence_layer(result_on(), "head"))
    assert (layer.name, layer.data.dtype, layer.colormap.name) == ("head fluence, log10 1/mm²", np.float32, "inferno")
    np.testing.assert_allclose(volume_of(layer), -VOLUME / 20, atol=1e-6)
    assert layer.contrast_limits == [-6, 0]
    assert layer.axis_labels == ("z", "y", "x")


@pytest.mark.parametrize(
    ("source", "factor", "name"),
    [
        ({"power_mw": 30.0}, 30.0, "head fluence rate, log10 mW/mm²"),
        ({"energy_j": 0.5}, 50.0, "head fluence, log10 J/cm²"),  # 1/mm² = 100/cm²
    ],
)
def test_fluence_is_shown_in_the_users_unit(source, factor, name):
    unit = fluence_units(**source)[-1]
    layer = built(fluence_layer(result_on(), "head", unit=unit))
    assert layer.name == name
    np.testing.assert_allclose(volume_of(layer), -VOLUME / 20 + np.log10(factor), atol=1e-6)
    assert layer.contrast_limits == [-4, 2]
    assert carried(layer, "factor") == factor


def test_time_gates_are_a_first_axis():
    result = result_on()
    layer = built(fluence_layer(result, "head", gates=True, decades=3))
    assert (layer.name, layer.data.shape) == ("head fluence in time gates, log10 1/mm²", (2, 7, 6, 5))
    assert layer.axis_labels == ("time gate", "z", "y", "x")
    shown = np.asarray(layer.data)
    np.testing.assert_allclose(shown[0] - shown[1], np.log10(3), atol=1e-5)
    np.testing.assert_allclose((10.0**shown).sum(), FLUENCE.sum(), rtol=1e-5)
    assert layer.contrast_limits == [-3, 0]


def test_voxels_without_light_are_transparent():
    gates = result_on().gates.copy()
    gates[2:, :, :] = 0
    dark = built(fluence_layer(result_on(gates=gates), "head"))
    np.testing.assert_array_equal(np.isnan(volume_of(dark)), np.arange(5)[:, None, None] >= np.full(SHAPE, 2))
    black = built(fluence_layer(result_on(gates=gates * 0), "head"))
    assert np.isnan(black.data).all()
    assert black.contrast_limits == [-6, 0]


def test_uncertain_voxels_are_hidden_on_request():
    error = FLUENCE * np.where(VOLUME % 2, 0.51, 0.49).astype(np.float32)
    result = result_on(fluence_error=error)
    np.testing.assert_array_equal(
        np.isnan(volume_of(built(fluence_layer(result, "head", hide_uncertain=True)))), VOLUME % 2 == 1
    )
    assert np.isfinite(fluence_layer(result, "head")[0]).all()
    unknown = result_on(fluence_error=np.full(SHAPE, np.nan, np.float32))
    assert np.isfinite(fluence_layer(unknown, "head", hide_uncertain=True)[0]).all()
    gates_error = result.gates * np.float32([0.4, 0.6])
    gates = fluence_layer(result_on(gates_error=gates_error), "head", gates=True, hide_uncertain=True)[0]
    assert (np.isnan(gates[0]).any(), np.isnan(gates[1]).all()) == (False, True)


@pytest.mark.parametrize(
    ("highest", "limits"), [(1.0, (-6, 0)), (1.01, (-5, 1)), (999, (-3, 3)), (1000, (-3, 3)), (0.0011, (-8, -2))]
)
def test_the_highest_decade_is_a_whole_one(highest, limits):
    assert decade_limits(np.log10(np.float32([1e-9, highest, np.nan]))) == limits


def test_the_error_is_shown_in_per_cent():
    layer = built(error_layer(result_on(fluence_error=FLUENCE * np.float32(0.125)), "head"))
    assert (layer.name, layer.contrast_limits) == ("head relative standard error (%)", [0, 100])
    np.testing.assert_allclose(layer.data, 12.5, rtol=1e-6)
    dark = result_on(gates=result_on().gates * 0)
    assert np.isnan(error_layer(dark, "head")[0]).all()


def test_absorbed_energy_and_reflectance():
    result = result_on()
    np.testing.assert_allclose(result.absorbed_density, 0.02 * FLUENCE, rtol=1e-5)
    left = result.diffuse_reflectance()  # voxels are 1 x 2 x 5 mm
    assert left[0, 0, 0] == pytest.approx(0.5 * FLUENCE[0, 0, 0] / (2 * 5 + 1 * 5 + 1 * 2), rel=1e-5)
    assert left[2, 3, 0] == pytest.approx(0.5 * FLUENCE[2, 3, 0] / (1 * 2), rel=1e-5)
    assert left[2, 3, 3] == 0  # inside
    with pytest.raises(InvalidInput, match="exit_map=True"):
        result_on(escaped_weight=None).diffuse_reflectance()


# -- what they carry --------------------------------------------------------------------------------------------------


def test_a_layer_gives_back_its_result_and_domain():
    result = result_on()
    for make in (fluence_layer, error_layer):
        layer = built(make(result, "head", visible=False))
        assert result_of(layer) is result
        assert domain_of(layer) is result.domain
        assert not layer.visible
    labels = built(labels_layer(result.domain, "head"))
    assert (result_of(labels), domain_of(labels)) == (None, result.domain)
    for metadata in ({}, {"result": "?", "domain": 3}):
        other = built(volume_layer(VOLUME, AFFINES["cubic"], "other", metadata=metadata))
        assert (result_of(other), domain_of(other)) == (None, None)


def test_painting_does_not_change_the_domain():
    domain = result_on().domain
    layer = built(labels_layer(domain, "head"))
    layer.data_setitem((np.array([0]), np.array([0]), np.array([0])), 77)
    np.testing.assert_array_equal(domain.labels, LABELS)
    assert (volume_of(layer) != LABELS).sum() == 1


def test_labels_of_a_file_know_it(tmp_path):
    domain = dataclasses.replace(result_on().domain, path=tmp_path / "head.nii.gz")
    assert carried(built(labels_layer(domain, "head")), "path") == str(tmp_path / "head.nii.gz")
    assert carried(built(labels_layer(result_on().domain, "head")), "path") is None


def test_all_parameters_are_in_the_metadata():
    result = dataclasses.replace(sample_result((6, 6, 6)), parameters={"device": "cpu (2 cores)", "seconds": 3.5})
    metadata = fluence_layer(result, "head")[1]["metadata"][KEY]
    quantity = metadata["quantity"]
    assert (quantity.name, quantity.unit, quantity.scale) == ("fluence", "1/mm²", "log10")
    assert metadata["meaning"] == "per launched photon"
    parameters = metadata["parameters"]
    assert json.loads(json.dumps(parameters, allow_nan=False)) == parameters
    assert parameters["software"] == f"napari-gpubio {__version__}"
    assert (parameters["device"], parameters["seconds"]) == ("cpu (2 cores)", 3.5)
    assert parameters["settings"]["seed"] == 1
    assert parameters["source"]["kind"] == "pencil"
    assert parameters["launched"] == 1_000_000
    assert parameters["domain"]["media"][2]["name"] == "CSF"
    assert "pattern" not in parameters["source"]
