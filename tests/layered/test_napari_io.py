"""Layered results as napari layers, curves and rows: where things lie, and what they say."""

import csv
import dataclasses
import math

import numpy as np
import pytest
from napari.layers import Image, Labels, Points, Vectors

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.layered.beams import FlatBeam, convolved
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.napari_io import border_layers, picture_layer, result_of
from napari_gpubio.layered.quantities import quantity_rz
from napari_gpubio.layered.run import simulate
from napari_gpubio.layered.settings import LayeredSettings, ring_area_mm2, solid_angle_sr
from napari_gpubio.layered.summary import (
    absorbed_beyond,
    angle_curves,
    broad_beam_curve,
    depth_curve,
    escape_curves,
    every_curve,
    fraction_rows,
    layered_findings,
    layered_rows,
    radial_curve,
    write_curves,
)
from napari_gpubio.light.layered_phantom import voxel_case, voxel_phantom
from napari_gpubio.light.napari_io import phantom_layer
from napari_gpubio.optics.estimates import Estimate, fluence_units
from napari_gpubio.optics.model import Layer
from napari_gpubio.optics.pictures import LAYER_COLORS, layer_colors
from tests.described import check_described

MEDIUM = LayeredMedium(
    name="three",
    layers=(
        Layer(name="top", n=1.4, mua_per_mm=0.5, mus_per_mm=5.0, g=0.5, thickness_mm=0.4),
        Layer(name="glass", n=1.5, thickness_mm=0.2),
        Layer(name="", n=1.4, mua_per_mm=0.1, mus_per_mm=10.0, g=0.9, thickness_mm=1.4),
    ),
)
SETTINGS = LayeredSettings(photons=20_000, dr_mm=0.05, dz_mm=0.1, radial_bins=30, depth_bins=20, angle_bins=10)
JOULES = fluence_units(energy_j=0.5)[1]
MILLIWATTS = fluence_units(power_mw=5.0)[1]


@pytest.fixture(scope="module")
def result():
    return simulate(MEDIUM, SETTINGS, device="cpu")


@pytest.fixture(scope="module")
def picture(result):
    data, keywords, _ = picture_layer(result, "three")
    return Image(data, **keywords)


def test_a_bin_is_shown_where_it_lies_on_both_sides(picture, result):
    fluence = result.fluence_rz().value
    for i, k in ((0, 0), (3, 7), (20, 15)):
        for r in (result.r_mm[i], -result.r_mm[i]):
            index = picture.world_to_data((result.z_mm[k], r))
            assert np.allclose(index, np.round(index), atol=1e-9)
            assert picture.data[tuple(np.round(index).astype(int))] == pytest.approx(np.log10(fluence[i, k]), abs=1e-5)
    centers = picture.extent.world  # of the outermost bins; half a bin is beyond them
    assert np.allclose(centers, [[0.05, -1.475], [1.95, 1.475]])
    assert picture.axis_labels == ("z", "r")
    assert [str(unit) for unit in picture.units] == ["millimeter", "millimeter"]


def test_the_picture_is_a_logarithm_over_whole_decades_and_carries_its_result(picture, result):
    assert picture.name == "three fluence, log10 1/mm²"
    low, high = picture.contrast_limits
    assert high - low == 6
    assert high == math.ceil(np.log10(np.nanmax(result.fluence_rz().value[:-1])))
    assert picture_layer(result, "", decades=3)[1]["contrast_limits"] == (high - 3, high)
    assert result_of(picture) is result
    assert carried(picture, "unit") == "1/mm²"
    assert carried(picture, "parameters")["settings"]["photons"] == SETTINGS.photons
    assert result_of(Image(np.zeros((2, 2)))) is None


def test_what_is_not_known_is_transparent(picture, result):
    data = picture.data
    glass = (result.z_mm > 0.4) & (result.z_mm < 0.6)
    assert np.isnan(data[glass]).all()  # fluence where nothing absorbs
    assert np.isfinite(data[~glass][:, 29:31]).all()
    assert np.isnan(data[:, [0, -1]]).all()  # the outermost radial bin holds everything beyond
    assert np.isfinite(data[-1, 1:-1]).any()  # the grid ends where the layers do
    absorbed = picture_layer(result, "", quantity="absorbed")[0]
    assert np.isnan(absorbed[glass]).all()  # nothing is absorbed in glass


def test_the_last_depth_bin_is_hidden_where_it_collects_what_lies_below(result):
    shallow = simulate(MEDIUM, dataclasses.replace(SETTINGS, depth_bins=10), device="cpu")
    assert np.isnan(picture_layer(shallow, "")[0][-1]).all()
    dropped = simulate(MEDIUM, dataclasses.replace(SETTINGS, depth_bins=10, absorption="drop"), device="cpu")
    data = picture_layer(dropped, "")[0]
    assert np.isfinite(data[-1, 25:35]).all()
    assert np.isfinite(data[0, [0, -1]]).all()


def test_below_the_layers_there_is_nothing():
    """Rounding may bring a photon at the bottom into the bin below it."""
    deep = simulate(MEDIUM, dataclasses.replace(SETTINGS, depth_bins=30), device="cpu")
    assert np.isnan(picture_layer(deep, "")[0][20:]).all()
    assert np.isfinite(picture_layer(deep, "")[0][19, 25:35]).all()
    assert broad_beam_curve(deep).at[-1] == pytest.approx(1.95)
    assert absorbed_beyond(deep) == pytest.approx(absorbed_beyond(simulate(MEDIUM, SETTINGS, device="cpu")))


def test_units_of_power_and_energy(result):
    fluence, absorbed = result.fluence_rz().value[:-1], result.A_rz.value[:-1]
    for unit, quantity, name, factor, values in (
        (MILLIWATTS, "fluence", "fluence rate, log10 mW/mm²", 5.0, fluence),
        (MILLIWATTS, "absorbed", "absorbed power density, log10 mW/mm³", 5.0, absorbed),
        (JOULES, "fluence", "fluence, log10 J/cm²", 0.5 * 100, fluence),  # 1/mm^2 = 100/cm^2
        (JOULES, "absorbed", "absorbed energy density, log10 J/cm³", 0.5 * 1000, absorbed),
    ):
        found = quantity_rz(result, quantity, unit)
        np.testing.assert_allclose(found.value[:-1], factor * values)
        _, keywords, _ = picture_layer(result, "", quantity=quantity, unit=unit)
        assert keywords["name"] == name


def test_noise_can_be_hidden():
    few = simulate(MEDIUM, dataclasses.replace(SETTINGS, photons=320), device="cpu")
    data = picture_layer(few, "", hide_uncertain=True)[0]
    fluence = few.fluence_rz()
    noisy = (fluence.error > 0.5 * fluence.value)[:-1].T
    assert noisy.any()
    assert np.isnan(data[:, 30:-1][noisy]).all()
    assert np.isfinite(data[:, 30:-1][~noisy & (fluence.value[:-1].T > 0)]).all()


def test_without_a_map_there_is_no_picture():
    flat = simulate(MEDIUM, dataclasses.replace(SETTINGS, photons=1000, absorption="off"), device="cpu")
    with pytest.raises(InvalidInput, match="absorption="):
        picture_layer(flat, "")
    with pytest.raises(InvalidInput, match="absorption="):
        broad_beam_curve(flat, "absorbed")
    assert [curve.coordinate for curve in every_curve(flat)] == ["Radius r"] * 2 + ["Angle from the normal"] * 2
    with pytest.raises(InvalidInput, match="the quantity is 'heat'"):
        quantity_rz(flat, "heat")


def test_borders_are_drawn_where_layers_meet():
    (lines, line_keywords, _), (places, name_keywords, _) = border_layers(MEDIUM, SETTINGS)
    assert np.allclose(lines[:, 0, 0], [0.0, 0.4, 0.6, 2.0])
    assert np.allclose(lines[:, 0, 1] + lines[:, 1, 1], 1.5)
    assert list(name_keywords["features"]["name"]) == ["top", "glass", "layer 3"]
    assert np.allclose(places[:, 0], [0.2, 0.5, 1.3])
    assert len(Vectors(lines, **line_keywords).data) == 4
    assert len(Points(places, **name_keywords).data) == 3
    shallow = border_layers(MEDIUM, dataclasses.replace(SETTINGS, depth_bins=5))
    assert np.allclose(shallow[0][0][:, 0, 0], [0.0, 0.4])
    assert list(shallow[1][1]["features"]["name"]) == ["top", "glass"]


def test_layers_have_the_same_colors_everywhere():
    assert layer_colors(["a", "b"]) == LAYER_COLORS[:2]
    assert len(set(layer_colors([""] * 7))) == 7
    assert layer_colors(["scalp", "CSF"]) != LAYER_COLORS[:2]
    domain = voxel_phantom(MEDIUM, voxel_mm=0.2, width_mm=1.0)
    data, keywords, _ = phantom_layer(voxel_case(domain, name="three"))
    layer = Labels(data, **keywords)
    colors = [layer.get_color(label) for label in (1, 2, 3)]
    hexes = ["#" + "".join(f"{round(255 * part):02x}" for part in color[:3]) for color in colors]
    assert tuple(hexes) == LAYER_COLORS[:3]
    assert carried(layer, "domain") is carried(layer, "case").domain is domain


def test_curves_are_the_results_numbers(result):
    broad = broad_beam_curve(result)
    assert (broad.unit, broad.quantity_text) == ("", "Fluence / incident")
    np.testing.assert_array_equal(broad.value, result.fluence_z().value)
    deep = depth_curve(result, 0.12, unit=JOULES)
    np.testing.assert_allclose(deep.value, 50 * result.fluence_rz().value[2])
    np.testing.assert_allclose(deep.error, 50 * result.fluence_rz().error[2])
    assert deep.name == "Fluence at r = 0.125 mm"
    radial = radial_curve(result, 0.3, "absorbed")  # the edge of two bins belongs to the deeper one
    np.testing.assert_array_equal(radial.value, result.A_rz.value[:-1, 3])
    assert radial.quantity_text == "Absorbed (1/mm³)"
    for at in (-0.1, 1.5, 1e9):
        with pytest.raises(InvalidInput, match=r"the grid goes from 0 to 1\.5 mm"):
            depth_curve(result, at)


def test_what_escapes_integrates_to_the_fractions(result):
    reflected, transmitted = angle_curves(result)
    solid = solid_angle_sr(SETTINGS)
    assert (reflected.value * solid).sum() == pytest.approx(result.diffuse_reflectance.value, rel=1e-9)
    assert (transmitted.value * solid).sum() == pytest.approx(result.transmittance.value, rel=1e-9)
    near, _ = escape_curves(result)
    beyond = result.Rd_r.value[-1] * ring_area_mm2(SETTINGS)[-1]
    inside = (near.value * ring_area_mm2(SETTINGS)[:-1]).sum()
    assert inside + beyond == pytest.approx(result.diffuse_reflectance.value, rel=1e-9)
    assert reflected.at[0] == pytest.approx(4.5)


def test_a_wide_flat_beam_gives_a_broad_beams_fluence_on_its_axis():
    """Fluence on the axis of a uniform beam that is wide beside the paths of photons, times the beam's area."""
    medium = LayeredMedium(layers=(Layer(n=1.0, mua_per_mm=2.0, mus_per_mm=4.0, g=0.5, thickness_mm=1.0),))
    settings = dataclasses.replace(SETTINGS, dr_mm=0.25, radial_bins=32, depth_bins=10)
    traced, radius = simulate(medium, settings, device="cpu"), 5.0
    wide = convolved(traced, FlatBeam(radius_mm=radius))
    on_axis = depth_curve(wide, 0.0).value * np.pi * radius**2
    np.testing.assert_allclose(on_axis, broad_beam_curve(traced).value, rtol=2e-3)


def test_curves_are_written_as_one_table(result, tmp_path):
    path = tmp_path / "curves.csv"
    curves = every_curve(result, unit=JOULES)
    write_curves(path, curves)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(curve.at) for curve in curves)
    first = curves[0]
    assert rows[0]["curve"] == "Fluence / incident of a broad beam"
    assert float(rows[0]["value"]) == first.value[0]
    assert float(rows[0]["standard_error"]) == first.error[0]
    escaped = next(row for row in rows if row["curve"].startswith("Diffuse") and row["coordinate_unit"] == "mm")
    assert escaped["unit"] == "J/cm²"
    with pytest.raises(InvalidInput, match="does not exist"):
        write_curves(tmp_path / "no" / "curves.csv", curves)


def test_rows_are_the_results_fractions(result):
    rows = {row.name: row for row in layered_rows(result)}
    assert rows["Diffuse reflectance Rd"].value == result.diffuse_reflectance.value
    assert rows["Diffuse reflectance Rd"].error == result.diffuse_reflectance.error
    assert rows["Specular reflectance Rsp"].value == pytest.approx((0.4 / 2.4) ** 2)
    assert rows["Total"].value == pytest.approx(1.0, abs=1e-7)
    assert rows["Photons"].value == 20_000
    layers = [row for row in fraction_rows(result) if row.label is not None]
    assert [row.name for row in layers] == ["top", "glass", "layer 3"]
    assert sum(row.value for row in layers) == pytest.approx(result.absorbed.value, rel=1e-9)


def test_findings_name_the_worst_first(result):
    small = simulate(MEDIUM, dataclasses.replace(SETTINGS, radial_bins=4), device="cpu")
    broken = dataclasses.replace(small, absorbed=Estimate(0.9, 0.1), complete=False)
    found = layered_findings(broken)
    (total,) = [row for row in fraction_rows(broken) if row.name == "Total"]
    assert total.status == "error"
    assert [one.status for one in found[:2]] == ["error", "warning"]
    for one, words in zip(
        (*found[:2], found[-1]), ("balance violated", "beyond the grid", "after 20,000 of 20,000"), strict=True
    ):
        assert words in one.sentence
    fine = simulate(MEDIUM, dataclasses.replace(SETTINGS, photons=20_000, radial_bins=2000), device="cpu")
    assert [one.status for one in layered_findings(fine)] == ["ok"]
    volumes = ring_area_mm2(SETTINGS) * SETTINGS.dz_mm
    inside = (result.A_rz.value.sum(axis=1) * volumes)[:-1].sum()  # without what the last bin collects
    assert absorbed_beyond(result) == pytest.approx(1 - inside / result.absorbed.value, abs=1e-9)
    assert 0.01 < absorbed_beyond(result) < 0.5


def test_a_run_shows_itself_and_gives_its_curves_to_others(result):
    curves = every_curve(result)
    check_described(result, "numbers", "Diffuse reflectance Rd over radius r", pictures=len(curves))
    found = result.to_xarray()
    for curve in curves:  # one quantity is over radius, and over angle
        name = f"{curve.name} over {curve.coordinate.lower()}"
        np.testing.assert_array_equal(found[name], curve.value)
        np.testing.assert_array_equal(found[f"{name}, standard error"], curve.error)
    inside = found["fluence"].sel(x=result.r_mm[1], y=-result.z_mm[2], method="nearest")
    assert inside == result.fluence_rz().value[1, 2]
