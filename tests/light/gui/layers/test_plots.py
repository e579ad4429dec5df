"""The plots of light in layers."""

import dataclasses

import numpy as np
import pyqtgraph
import pytest
from napari.components import ViewerModel
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio.layered.beams import FlatBeam
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.run import simulate
from napari_gpubio.light.gui.displayed import DisplayOptions, display_layers
from napari_gpubio.light.gui.plots import LAYERS, PlotWindow
from napari_gpubio.light.gui.plots_layers import AT_RADIUS, BROAD, EMPTY, NO_MAP, NOTHING, TOO_FEW
from napari_gpubio.optics.estimates import fluence_units
from napari_gpubio.optics.model import Layer
from tests.light.gui.layers.panel_samples import MEDIUM, SETTINGS
from tests.light.plot_samples import axis_texts, close, drawn_curves

JOULES = fluence_units(energy_j=0.5)[1]


@pytest.fixture(scope="module")
def traced():
    return simulate(MEDIUM, SETTINGS, device="cpu")


@pytest.fixture
def window(qtbot):
    window = PlotWindow(PublicOnlyProxy(ViewerModel()), LAYERS)
    qtbot.addWidget(window)
    window.resize(1000, 400)
    window.show()
    qtbot.waitExposed(window)
    return window


def plot(window, result, tab=2, **options):
    """Plot a result: the inside, or with tab 3 what escapes."""
    window.display("layers", display_layers(result, DisplayOptions(**options)))
    window.tabs.setCurrentIndex(tab)


def curves(pane):
    """Curves by name, what is drawn dashed put together with the rest."""
    drawn = drawn_curves(pane.plot)
    whole = {name.removesuffix(" ± standard error"): both for name, both in drawn.items() if TOO_FEW not in name}
    for name, (_, dashed) in drawn.items():
        if (solid := name.removesuffix(f", {TOO_FEW}")) != name:
            x, y = whole[solid]
            whole[solid] = x, np.where(np.isnan(y), dashed, y)
    return whole


def bands(pane):
    items = pane.plot.getPlotItem().items
    return [item for item in items if isinstance(item, pyqtgraph.FillBetweenItem)]


def borders(pane):
    lines = [item for item in pane.plot.getPlotItem().items if isinstance(item, pyqtgraph.InfiniteLine)]
    return {round(line.value(), 6): line.label.toPlainText() for line in lines}


def test_what_few_photons_have_seen_is_dashed_and_without_a_band(window, traced):
    """The line is drawn where its error is at most half of it, and goes on dashed where that is not so."""
    plot(window, traced)
    drawn = drawn_curves(window.radial.plot)
    (solid,), (dashed,) = ([y for name, (_, y) in drawn.items() if (TOO_FEW in name) == few] for few in (False, True))
    fluence = traced.fluence_rz()
    trusted = fluence.trusted[:-1, 0]
    assert 3 < trusted.sum() < len(trusted) - 3
    np.testing.assert_array_equal(np.isfinite(solid), trusted)
    assert np.isfinite(dashed)[~trusted & (fluence.value[:-1, 0] > 0)].all()
    assert not np.isfinite(dashed)[:2].any()


def test_without_a_result_it_says_what_to_do(window):
    window.tabs.setCurrentIndex(3)
    for pane in window.plots["layers"]:
        assert pane.hint == EMPTY
        assert not curves(pane)


def test_depth_shows_a_broad_beam_with_its_error_and_the_borders_or_one_radius(window, traced):
    plot(window, traced, unit=JOULES)
    drawn = curves(window.depth)["Fluence / incident of a broad beam"]
    assert close(drawn[1], traced.fluence_z().value)
    assert np.allclose(drawn[0], traced.z_mm)
    assert bands(window.depth)
    assert axis_texts(window.depth.plot) == ["Depth z (mm)", "Fluence / incident"]
    assert borders(window.depth) == {0.025: "top", 0.4: "bottom"}  # the first begins with the first bin
    window.depth.choose(AT_RADIUS, 0.26)
    ((name, drawn),) = curves(window.depth).items()
    assert name == "Fluence at r = 0.275 mm"
    assert close(drawn[1], 50 * traced.fluence_rz().value[5])
    assert axis_texts(window.depth.plot)[1] == "Fluence (J/cm²)"
    window.depth.choose(AT_RADIUS, 99.0)
    assert "the grid goes from 0 to 2 mm" in window.depth.hint
    assert not curves(window.depth)
    window.depth.choose(BROAD)
    assert window.depth.hint == ""


def test_absorbed_energy_follows_the_picture(window, traced):
    plot(window, traced, quantity="absorbed")
    assert close(curves(window.depth)["Absorbed / incident of a broad beam"][1], traced.A_z.value)
    assert axis_texts(window.depth.plot)[1] == "Absorbed / incident (1/mm)"
    assert close(curves(window.radial)["Absorbed at z = 0.025 mm"][1], traced.A_rz.value[:-1, 0])


def test_radial_profile_names_the_layer(window, traced):
    plot(window, traced)
    assert window.radial.hint == "top"
    window.radial.depth.setValue(0.5)
    assert window.radial.hint == "bottom"
    assert close(curves(window.radial)["Fluence at z = 0.525 mm"][1], traced.fluence_rz().value[:-1, 10])


def test_what_escapes_by_radius_and_by_angle(window, traced):
    plot(window, traced, tab=3, unit=JOULES)
    drawn = curves(window.escape)
    assert close(drawn["Diffuse reflectance Rd"][1], 50 * traced.Rd_r.value[:-1])
    assert close(drawn["Transmittance Tt"][1], 50 * traced.Tt_r.value[:-1])
    assert axis_texts(window.escape.plot) == ["Radius r (mm)", "Escaping (J/cm²)"]
    drawn = curves(window.angle)
    assert close(drawn["Transmittance Tt"][1], traced.Tt_a.value)
    lambertian = drawn["Lambertian of the same Rd"][1]
    solid = 2 * np.pi * np.sin(traced.angle_rad) * np.pi / 2 / SETTINGS.angle_bins
    assert (lambertian * solid).sum() == pytest.approx(traced.diffuse_reflectance.value, rel=0.01)
    assert axis_texts(window.angle.plot) == ["Angle from the normal (°)", "Escaping (1/sr)"]
    assert bands(window.angle)
    # a beam changes what is drawn along r only
    plot(window, traced, tab=3, beam=FlatBeam(radius_mm=0.5))
    assert curves(window.escape)["Diffuse reflectance Rd"][1][0] < 0.5 * traced.Rd_r.value[0]
    assert close(curves(window.angle)["Diffuse reflectance Rd"][1], traced.Rd_a.value)


def test_nothing_that_escapes_and_a_missing_map_are_said(window):
    black = LayeredMedium(layers=(Layer(n=1.0, mua_per_mm=100.0, thickness_mm=10.0),))
    plot(window, simulate(black, dataclasses.replace(SETTINGS, photons=500), device="cpu"), tab=3)
    assert window.escape.hint == window.angle.hint == NOTHING
    settings = dataclasses.replace(SETTINGS, photons=500, absorption="off")
    plot(window, simulate(MEDIUM, settings, device="cpu"))
    assert window.depth.hint == window.radial.hint == NO_MAP
    window.tabs.setCurrentIndex(3)
    assert curves(window.escape)
