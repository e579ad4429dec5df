"""The dock widget "Light transport": units, decades, noise, time gates, and what is kept."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.gui.display import DecadeBar
from napari_gpubio.light.gui.run_box import VoxelRunBox
from napari_gpubio.light.napari_io import result_of
from tests.dock_widgets import button
from tests.light.gui.panel_samples import LEFT, fluence, result, settle, tick


@pytest.fixture
def shown(viewer, panel, qtbot):
    """A picture of a source on the left."""
    panel.voxels.place_source(LEFT)
    settle(qtbot, panel)
    return panel


def give(panel, qtbot, **amounts):
    for name, value in amounts.items():
        getattr(panel.voxels.display_box, f"{name}_box").setValue(value)
    settle(qtbot, panel)


def legend(panel):
    return panel.voxels.display_box.findChild(DecadeBar)


def test_the_picture_is_the_logarithm_over_whole_decades(viewer, shown, qtbot):
    layer, values = fluence(viewer), result(viewer).fluence
    data = layer.data.T
    lit = values > 0
    assert np.allclose(data[lit], np.log10(values[lit]), atol=1e-6)
    assert np.isnan(data[~lit]).all()
    low, high = layer.contrast_limits
    assert high - low == 6
    assert high == np.ceil(np.log10(values.max()))
    shown.voxels.display_box.decades_box.setValue(3)
    settle(qtbot, shown)
    assert tuple(layer.contrast_limits) == (high - 3, high)


def test_power_and_exposure_give_the_users_units(viewer, shown, qtbot):
    per_photon = fluence(viewer).data.copy()
    layer = fluence(viewer)
    assert "1/mm²" in layer.name
    give(shown, qtbot, power=10.0)
    assert fluence(viewer) is layer
    assert "mW/mm²" in layer.name
    assert np.allclose(layer.data, per_photon + 1.0, atol=1e-5, equal_nan=True)  # times 10 mW
    give(shown, qtbot, exposure=50.0)
    assert shown.voxels.display_box.strength.energy_j == pytest.approx(0.5)
    unit = shown.voxels.results.unit_box
    unit.setCurrentIndex(unit.findData("J/cm²"))
    settle(qtbot, shown)
    assert "J/cm²" in layer.name
    # 0.5 J x fluence per mm^2 = 50 J/cm^2 per 1/mm^2
    assert np.allclose(layer.data, per_photon + np.log10(50.0), atol=1e-5, equal_nan=True)
    give(shown, qtbot, energy=2.0)
    assert shown.voxels.display_box.exposure_box.value() == pytest.approx(200.0)
    assert np.allclose(layer.data, per_photon + np.log10(200.0), atol=1e-5, equal_nan=True)
    values = result(viewer).fluence_j_per_cm2(2.0)
    assert np.allclose(layer.data.T[values > 0], np.log10(values[values > 0]), atol=1e-5)


def test_a_power_that_was_given_first_counts_for_the_first_picture(viewer, panel, qtbot):
    give(panel, qtbot, power=10.0)
    panel.voxels.place_source(LEFT)
    settle(qtbot, panel)
    values = result(viewer).irradiance_mw_per_mm2(10.0)
    assert "mW/mm²" in fluence(viewer).name
    assert panel.voxels.results.unit.name == "mW/mm²"
    assert np.allclose(fluence(viewer).data.T[values > 0], np.log10(values[values > 0]), atol=1e-5)


def test_noisy_voxels_are_hidden_on_request(viewer, shown, qtbot):
    every = np.isfinite(fluence(viewer).data).sum()
    tick(shown, "hide voxels")
    settle(qtbot, shown)
    data, error = fluence(viewer).data.T, result(viewer).relative_error
    assert np.array_equal(np.isfinite(data), error <= 0.5)
    assert 0 < np.isfinite(data).sum() < every
    tick(shown, "hide voxels")
    settle(qtbot, shown)
    assert np.isfinite(fluence(viewer).data).sum() == every


def test_the_error_can_be_seen_as_a_layer(viewer, shown, qtbot):
    tick(shown, "show the error")
    settle(qtbot, shown)
    layer = shown.voxels.view.layer("error")
    assert "%" in layer.name
    known = np.isfinite(result(viewer).relative_error)
    assert np.allclose(layer.data.T[known], 100 * result(viewer).relative_error[known])
    tick(shown, "show the error")
    settle(qtbot, shown)
    assert shown.voxels.view.layer("error") is None


def test_time_gates_step_with_the_viewers_slider(viewer, shown, qtbot):
    shown.voxels.run_box.set_gates(1.0, 4)
    settle(qtbot, shown)
    layer, gates = fluence(viewer), result(viewer).gates
    assert layer.ndim == viewer.dims.ndim == 4
    assert viewer.dims.axis_labels[0] == "time gate"
    assert result(viewer).settings.time_gates_ns == (0.0, 0.25, 0.5, 0.75, 1.0)
    for gate in range(4):
        lit = gates[..., gate] > 0
        assert np.allclose(layer.data[gate].T[lit], np.log10(gates[..., gate][lit]), atol=1e-5)
    viewer.dims.set_point(0, 2)
    assert "0.5 to 0.75 ns" in legend(shown).unit
    spatial = layer.affine.affine_matrix[1:, 1:]
    assert np.allclose(spatial, viewer.layers["ball"].affine.affine_matrix)
    shown.voxels.run_box.set_gates(5.0, 1)
    settle(qtbot, shown)
    assert viewer.dims.ndim == 3
    assert "ns" not in legend(shown).unit


def test_the_time_window_zero_is_a_sentence(viewer, shown, qtbot):
    shown.voxels.run_box.set_live(False)
    shown.voxels.run_box.set_gates(0.0, 1)
    shown.run_button.click()
    assert "ends at 0 ns" in shown.message


def test_the_legend_tells_powers_of_ten_and_the_unit(viewer, shown, qtbot):
    bar = legend(shown)
    assert not bar.isHidden()
    _, high = fluence(viewer).contrast_limits
    assert len(bar.texts) == 7
    assert bar.texts[0] == "10" + str(int(high)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    assert "1/mm² per launched photon" in bar.unit
    fluence(viewer).contrast_limits = (-2.5, -0.5)
    assert bar.texts == ["10⁻¹", "10⁻²"]
    give(shown, qtbot, power=10.0)
    assert "mW/mm²" in bar.unit
    viewer.layers.remove(fluence(viewer))
    assert bar.isHidden()


def test_a_picture_can_be_kept_to_compare(viewer, shown, qtbot):
    first, kept = fluence(viewer), result(viewer)
    button(shown, "Keep these layers").click()
    shown.voxels.place_source((LEFT[0], LEFT[1], LEFT[2] + 6.0))
    settle(qtbot, shown)
    assert fluence(viewer) is not first
    assert first in viewer.layers
    assert result_of(first) is kept
    assert result(viewer) is not kept
    names = [layer.name for layer in viewer.layers]
    assert names[-2:] == ["source beam", "source and detectors"]


@pytest.fixture
def run_box(qtbot):
    box = VoxelRunBox()
    qtbot.addWidget(box)
    return box


def type_photons(run_box, text):
    run_box.photons.text_box.setText(text)
    run_box.photons.text_box.editingFinished.emit()


@pytest.mark.parametrize(
    ("text", "photons"),
    [("2e6", 2_000_000), ("2,000,000", 2_000_000), ("2M", 2_000_000), ("12345", 12345), (" 5k ", 5000), ("1e9", 10**9)],
)
def test_photons_can_be_typed(run_box, text, photons):
    type_photons(run_box, text)
    assert run_box.settings.photons == photons
    assert run_box.photons.slider.value() == round(10 * np.log10(photons).clip(4, 9))


@pytest.mark.parametrize("text", ["many", "", "0", "-5", "nan", "1e15"])
def test_photons_that_are_no_number_are_a_sentence(run_box, text):
    type_photons(run_box, text)
    with pytest.raises(InvalidInput, match=f"photons is {text!r}"):
        _ = run_box.settings


def test_the_slider_goes_from_ten_thousand_to_a_billion(run_box):
    for tick_, photons in ((63, 2_000_000), (40, 10**4), (90, 10**9)):
        run_box.photons.slider.setValue(tick_)
        assert run_box.photons.value() == photons
