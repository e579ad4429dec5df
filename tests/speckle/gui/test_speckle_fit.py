"""The dock widget "Laser speckle": multi-exposure fits of a stack."""

import numpy as np
import pytest
import tifffile

from napari_gpubio.core.napari_io import carried
from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast
from napari_gpubio.speckle.gui.inputs import MESI
from napari_gpubio.speckle.gui.panel_layers import LIVE_MAP
from napari_gpubio.speckle.gui.results import FIT_MAPS
from napari_gpubio.speckle.mesi import GivenBeta, MesiSettings, fit_mesi, recording
from napari_gpubio.speckle.mesi.model import BLOCKS, CYCLES
from napari_gpubio.speckle.samples import Camera, SpeckleField, flow_frames, window_share
from napari_gpubio.speckle.settings import Squared
from tests.dock_widgets import Held, error_after_run, save_scripts_as, script_of, shown_by_script
from tests.speckle.gui.panel_samples import add_stack, choose_dark, layer, run, speckle, start, stop

EXPOSURES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TEXT = "0.5 1; 2, 4,8 16"
TAU_MS, CUTOFF, REPEATS = 2.0, 0.25, 3
SHAPE = (48, 64)


# light of one correlation time everywhere, every exposure once, then all again
_DECAYS = [np.full(SHAPE, exposure / TAU_MS) for exposure in EXPOSURES * REPEATS]
FRAMES = np.array([flow_frames(x, cutoff=CUTOFF, camera=Camera(), seed=n)[0] for n, x in enumerate(_DECAYS)])


def choose_fit(panel, text=TEXT, **settings):
    box = panel.contrast_box
    box.choose_index(MESI)
    box.mesi.exposures.setText(text)
    if "beta" in settings:
        settings = {
            "beta": "given",
            "static_k2": settings["beta"],
            **{n: v for n, v in settings.items() if n != "beta"},
        }
    for name, value in settings.items():
        box.mesi.form.widget(name).value = value


def fit_of(frames, settings, noise):
    """The same fit, without the panel."""
    k2 = contrast(frames, ContrastSettings(index=Squared()), noise=noise, device="cpu").squared
    k2 = k2.astype(float).reshape(REPEATS, len(EXPOSURES), *SHAPE).mean(axis=0)
    return fit_mesi(np.sqrt(np.maximum(k2, 0)), EXPOSURES, settings)


def test_what_cannot_be_fitted(viewer, panel, qtbot):
    stack = add_stack(viewer, FRAMES)
    choose_fit(panel, "1, two, 5")
    assert "exposure 2 is 'two'" in error_after_run(qtbot, panel)
    choose_fit(panel)
    panel.contrast_box.form.widget("mode").value = "temporal"
    assert "choose the mode 'spatial'" in error_after_run(qtbot, panel)
    panel.contrast_box.form.widget("mode").value = "spatial"
    stack.data = FRAMES[:7]
    assert "6 exposures and 7 frames" in error_after_run(qtbot, panel)
    stack.data = np.full_like(FRAMES, 65535)
    assert "nothing could be fitted" in error_after_run(qtbot, panel)
    panel.source_box.stack.layer_box.choose(add_stack(viewer, FRAMES[0], "single"))
    assert "needs several frames and this is a single one" in error_after_run(qtbot, panel)
    assert len(viewer.layers) == 2


# -- the panel --------------------------------------------------------------------------------------------------------


def test_the_correlation_time_is_found(viewer, panel, qtbot):
    add_stack(viewer, FRAMES, metadata={"napari_gpubio": {"exposures_ms": EXPOSURES, "dark_adu": Camera().dark_adu}})
    window = 7
    assert panel.contrast_box.mesi.recipe.exposures_ms == EXPOSURES
    beta = round(window_share(window, CUTOFF), 3)
    choose_fit(panel, panel.contrast_box.mesi.exposures.text(), beta="given", static_k2=beta)
    panel.contrast_box.mesi.form.widget("fit_rho").value = False
    panel.contrast_box.form.widget("window").value = window
    run(qtbot, panel)
    assert "contradicts" not in panel.message
    inner = (..., slice(8, -8), slice(8, -8))
    tau = viewer.layers["MESI τ (ms) of frames"].data[inner]
    assert np.nanmedian(tau) == pytest.approx(TAU_MS, rel=0.2), "of single pixels, whose contrast is noisy"
    k2 = np.nanmean(panel.result.fit.contrast[inner] ** 2, axis=(1, 2))
    whole = fit_mesi(np.sqrt(k2)[:, None], EXPOSURES, panel.contrast_box.mesi_recipe.settings)
    assert float(whole.tau_ms[0]) == pytest.approx(TAU_MS, rel=0.08)
    np.testing.assert_allclose(viewer.layers["MESI 1/τ (1/s) of frames"].data[8:-8, 8:-8], 1e3 / tau, rtol=1e-6)


def test_maps_are_those_of_the_engine_and_the_next_fit_takes_their_place(viewer, panel, qtbot):
    stack = add_stack(viewer, FRAMES, scale=(1, 2, 2), units=("pixel", "um", "um"))
    noise = NoiseModel(dark_adu=Camera().dark_adu, gain=0.1)
    panel.contrast_box.noise.form.set_value(noise)
    choose_fit(panel, beta="given", static_k2=0.9, fit_noise=True)
    run(qtbot, panel)
    want = fit_of(FRAMES, MesiSettings(beta=GivenBeta(static_k2=0.9), fit_noise=True), noise)
    for name, part in {"1/τ (1/s)": "ict", "ρ, moving fraction": "rho", "ν, noise term of K²": "noise"}.items():
        shown = viewer.layers[f"MESI {name} of frames"]
        np.testing.assert_allclose(shown.data, getattr(want, part), rtol=1e-4, atol=1e-6)
        assert carried(shown, "exposures_ms") == list(EXPOSURES)
        assert tuple(shown.scale) == (2, 2)
        assert str(shown.units[0]) == "micrometer"
    assert [one.name for one in viewer.layers if one.visible] == ["MESI 1/τ (1/s) of frames"]
    assert carried(viewer.layers["MESI 1/τ (1/s) of frames"], "unit") == "1/s"
    assert tuple(viewer.layers["MESI ρ, moving fraction of frames"].contrast_limits) == (0.0, 1.0)
    assert "MESI β of frames" not in viewer.layers, "it was not fitted"
    panel.ask_video()
    assert "is a single image; choose the maps of a stack" in panel.message

    made = [one for one in viewer.layers if one is not stack]
    choose_fit(panel, model="gaussian")
    stack.scale = (1.0, 5.0, 5.0)
    run(qtbot, panel)
    assert [one for one in viewer.layers if one is not stack] == made
    assert [one.scale[-2:].tolist() for one in made] == [[5.0, 5.0]] * len(made)
    want = fit_of(FRAMES, MesiSettings(beta=GivenBeta(static_k2=0.9), fit_noise=True, model="gaussian"), noise).rho
    np.testing.assert_allclose(viewer.layers["MESI ρ, moving fraction of frames"].data, want, rtol=1e-4, atol=1e-6)


def test_stop_keeps_what_was_fitted(viewer, panel, qtbot, monkeypatch):
    held = Held(monkeypatch, recording, "fit_mesi_steps")
    add_stack(viewer, speckle(6, (100, 100)))
    choose_fit(panel)
    panel.run_button.click()
    held.wait(qtbot)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.run_button.click()
    held.go.set()
    assert "pixels that were not reached are empty" in panel.status
    share = np.isfinite(viewer.layers["MESI τ (ms) of frames"].data).mean()
    assert 0 < share < 0.9


def test_stop_before_the_fit_shows_nothing(viewer, panel, qtbot, monkeypatch):
    held = Held(monkeypatch, recording, "contrast_steps")
    add_stack(viewer, speckle(6, (1100, 1000)))
    choose_fit(panel)
    panel.run_button.click()
    held.wait(qtbot)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.run_button.click()
    assert "stopped" in panel.status
    assert len(viewer.layers) == 1


def test_live_maps_go_on_while_a_fit_is_set_up(viewer, panel, qtbot):
    add_stack(viewer, FRAMES)
    choose_fit(panel)
    panel.live_box.start_button.click()
    assert "choose another map for live imaging" in panel.message
    assert not panel.runner.is_live
    panel.contrast_box.choose_index("sfi")
    start(qtbot, panel)
    choose_fit(panel)
    assert "live maps continue unchanged" in panel.message
    stop(qtbot, panel)
    assert layer(viewer, LIVE_MAP).name == "live SFI (1/s)"


# -- Copy as Python ---------------------------------------------------------------------------------------------------


@pytest.mark.daily
@pytest.mark.parametrize("order", [CYCLES, BLOCKS])
def test_the_script_makes_the_same_fit(viewer, panel, qtbot, tmp_path, monkeypatch, order):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    frames = FRAMES.copy()
    frames[4, 20:24, 30:34] = 65535
    if order == BLOCKS:
        frames = frames.reshape(REPEATS, len(EXPOSURES), *SHAPE).swapaxes(0, 1).reshape(frames.shape).copy()
    add_stack(viewer, frames)
    add_stack(viewer, np.random.default_rng(4).poisson(100, (5, *SHAPE)).astype(np.uint16), "dark")
    choose_dark(panel, qtbot).form.widget("gain").value = 0.1
    panel.source_box.stack.layer_box.setCurrentText("frames")
    choose_fit(panel, fit_noise=True)
    panel.contrast_box.mesi.shows_errors.setChecked(True)
    panel.contrast_box.mesi.form.widget("order").value = order
    panel.contrast_box.registers.setChecked(True)
    run(qtbot, panel)
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    for one in FIT_MAPS:
        shown = next(each for each in viewer.layers if carried(each, "part") == f"mesi {one.part}")
        np.testing.assert_array_equal(
            tifffile.imread(
                tmp_path / ("mesi of frames.tif" if one.part == "ict" else f"mesi of frames_{one.part}.tif")
            ),
            shown.data,
        )


def test_beta_is_measured_on_a_static_target(viewer, panel, qtbot, tmp_path, monkeypatch):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    add_stack(viewer, FRAMES)
    light = np.abs(SpeckleField((96, 160), CUTOFF, np.random.default_rng(3)).draw()) ** 2
    paper = Camera().expose(light, np.random.default_rng(4))
    paper[:, :60] = 600
    add_stack(viewer, paper, "paper")
    panel.source_box.stack.layer_box.setCurrentText("frames")
    panel.contrast_box.noise.form.set_value(NoiseModel(dark_adu=Camera().dark_adu))
    choose_fit(panel)
    box = panel.contrast_box.mesi
    box.target_box.setCurrentText("paper")
    viewer.add_shapes([[[8, 70], [8, 150], [90, 150], [90, 70]]], shape_type="polygon", name="within")
    box.region_box.setCurrentText("within")
    run(qtbot, panel)
    measured = panel.result.fit.beta
    assert measured.beta == pytest.approx(window_share(ContrastSettings().width, CUTOFF), rel=0.15), (
        "the part without speckle is left out"
    )
    assert f"The static target gives β = {measured.beta:.4g} ± {measured.error:.2g}." in panel.message
    assert panel.result.fit.fit.beta_error[20, 30] == pytest.approx(measured.error)
    assert not [one for one in viewer.layers if carried(one, "part") == "mesi beta"], "it is no map"
    shown = viewer.layers["MESI τ (ms) of frames"]
    assert carried(shown, "notes") == list(panel.result.fit.notes)
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "mesi of frames_tau_ms.tif"), shown.data)


def test_notes_of_the_maps_are_kept(viewer, panel, qtbot):
    add_stack(viewer, FRAMES.astype(np.float32))
    choose_fit(panel)
    run(qtbot, panel)
    assert any("saturation level" in note for note in panel.result.made.notes)
