"""The dock widget "Laser speckle": multi-exposure fits of a stack."""

import re

import numpy as np
import pytest
import tifffile

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast
from napari_gpubio.speckle.gui import request
from napari_gpubio.speckle.gui.inputs import MESI
from napari_gpubio.speckle.gui.layers import LIVE_MAP
from napari_gpubio.speckle.gui.results import FIT_MAPS
from napari_gpubio.speckle.mesi import MesiSettings, fit_mesi
from napari_gpubio.speckle.mesi.model import BLOCKS, CYCLES, MesiRecipe, exposure_contrast, parse_exposures
from napari_gpubio.speckle.model import BELOW_NOISE, SATURATED, ContrastMaps
from napari_gpubio.speckle.samples import Camera, flow_frames, window_share
from tests.dock_widgets import Held, run_script, save_scripts_as, script_of, wait_until
from tests.speckle.gui.panel_samples import add_stack, layer, run, speckle, start, stop

EXPOSURES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TEXT = "0.5 1; 2, 4,8 16"
TAU_MS, CUTOFF, REPEATS = 2.0, 0.25, 3
SHAPE = (48, 64)


def exposed(shape=SHAPE, repeats=REPEATS):
    """Frames whose light has one correlation time everywhere, every exposure once, then all again."""
    x = [np.full(shape, exposure / TAU_MS) for _ in range(repeats) for exposure in EXPOSURES]
    made = [flow_frames(one, cutoff=CUTOFF, camera=Camera(), seed=n)[0] for n, one in enumerate(x)]
    return np.array(made)


FRAMES = exposed()


def choose_fit(panel, text=TEXT, **settings):
    box = panel.contrast_box
    box.choose_index(MESI)
    box.mesi.exposures.setText(text)
    for name, value in settings.items():
        box.mesi.form.widget(name).value = value


def fit_of(frames, settings, noise=None, contrast_settings=None, repeats=REPEATS):
    """The same fit, without the panel."""
    k2 = contrast(frames, contrast_settings or ContrastSettings(index="squared"), noise=noise, device="cpu").squared
    k2 = k2.astype(float).reshape(repeats, len(EXPOSURES), *frames.shape[1:]).mean(axis=0)
    return fit_mesi(np.sqrt(np.maximum(k2, 0)), EXPOSURES, settings)


# -- exposures --------------------------------------------------------------------------------------------------------


def test_exposures_are_read_as_they_are_typed():
    assert parse_exposures(TEXT) == EXPOSURES


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there are no exposures"),
        ("1, two, 5", "exposure 2 is 'two'; give numbers in ms"),
        ("0, 1, 2, 4, 8, 16", "exposure 1 is 0 ms; it must be greater than 0 ms"),
        ("1, 2, -4, 8", "exposure 3 is -4 ms; it must be greater than 0 ms"),
        ("1, 2, inf, 8", "exposure 3 is inf ms"),
        ("1, 2, nan, 8", "exposure 3 is nan ms"),
        ("1, 2, 2, 4", "exposure 3 is 2 ms and the one before it 2 ms; they must increase"),
        ("1, 4, 2, 8", "exposure 3 is 2 ms and the one before it 4 ms; they must increase"),
        ("1, 2, 4", "3 different exposures cannot determine 3 parameters"),
        ("1, 2, 4, 8", "there are 4 exposures and 18 frames; give one exposure for each frame"),
        ("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20", "20 exposures and 18 frames"),
    ],
)
def test_exposures_that_make_no_sense(text, words):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        MesiRecipe(exposures_ms=parse_exposures(text)).repeats(len(FRAMES))


def test_orders_and_numbers_of_exposures():
    with pytest.raises(InvalidInput, match="order is 'cycles'; choose 'in turn' or 'one after another'"):
        MesiRecipe(exposures_ms=EXPOSURES, order="cycles").repeats(18)
    with pytest.raises(InvalidInput, match="1 different exposures cannot determine 1 parameters"):
        recipe(CYCLES, (1.0,)).repeats(4)


def test_what_cannot_be_fitted(viewer, panel):
    add_stack(viewer, FRAMES)
    choose_fit(panel, "1, two, 5")
    panel.run_button.click()
    assert "exposure 2 is 'two'" in panel.message
    assert not panel.running
    assert len(viewer.layers) == 1
    choose_fit(panel)
    panel.contrast_box.form.widget("mode").value = "temporal"
    panel.run_button.click()
    assert "choose the mode 'spatial'" in panel.message
    panel.contrast_box.form.widget("mode").value = "spatial"
    panel.source_box.stack.layer_box.choose(add_stack(viewer, FRAMES[0], "single"))
    panel.run_button.click()
    assert "needs several frames and this is a single one" in panel.message


def maps_of(k2, mask=None):
    return ContrastMaps(contrast=np.sqrt(np.abs(k2)), index=k2, mask=mask, settings=ContrastSettings(index="squared"))


def recipe(order, exposures=(1.0, 2.0)):
    settings = MesiSettings(fit_rho=False, fit_noise=False)
    return MesiRecipe(exposures_ms=exposures, order=order, settings=settings)


@pytest.mark.parametrize(("order", "frames"), [(CYCLES, (0, 2)), (BLOCKS, (0, 1))])
def test_k2_is_averaged_over_the_frames_of_an_exposure(order, frames):
    k2 = np.arange(1, 5, dtype=np.float32)[:, None, None] * np.ones((1, 2, 2), np.float32)
    first = exposure_contrast(maps_of(k2), recipe(order))[0]
    np.testing.assert_allclose(first, np.sqrt(np.mean([k2[n, 0, 0] for n in frames])))


def test_saturated_frames_are_left_out_and_those_below_the_noise_are_not():
    k2 = np.array([0.5, 0.2, 0.9, -0.1], np.float32)[:, None, None]
    mask = np.array([0, 0, SATURATED, BELOW_NOISE], np.uint8)[:, None, None]
    got = exposure_contrast(maps_of(k2, mask), recipe(CYCLES))
    np.testing.assert_allclose(got[:, 0, 0], np.sqrt([0.5, (0.2 - 0.1) / 2]), rtol=1e-6)
    mask[0] = SATURATED
    assert np.isnan(exposure_contrast(maps_of(k2, mask), recipe(CYCLES))[0, 0, 0])


# -- the panel --------------------------------------------------------------------------------------------------------


def test_the_correlation_time_is_found(viewer, panel, qtbot):
    add_stack(viewer, FRAMES, metadata={"napari_gpubio": {"exposures_ms": EXPOSURES, "dark_adu": Camera().dark_adu}})
    window = 7
    assert panel.contrast_box.mesi.recipe.exposures_ms == EXPOSURES
    choose_fit(panel, panel.contrast_box.mesi.exposures.text(), beta=round(window_share(window, CUTOFF), 3))
    panel.contrast_box.mesi.form.widget("fit_noise").value = False
    panel.contrast_box.mesi.form.widget("fit_rho").value = False
    panel.contrast_box.form.widget("window").value = window
    run(qtbot, panel)
    assert panel.message == "" or "not fitted" in panel.message
    inner = (..., slice(8, -8), slice(8, -8))
    tau = viewer.layers["MESI τ (ms) of frames"].data[inner]
    assert np.nanmedian(tau) == pytest.approx(TAU_MS, rel=0.2), "of single pixels, whose contrast is noisy"
    k2 = np.nanmean(panel.result.contrast[inner] ** 2, axis=(1, 2))
    whole = fit_mesi(np.sqrt(k2)[:, None], EXPOSURES, panel.contrast_box.mesi_recipe.settings)
    assert float(whole.tau_ms[0]) == pytest.approx(TAU_MS, rel=0.08)
    np.testing.assert_allclose(viewer.layers["MESI 1/τ (1/s) of frames"].data[8:-8, 8:-8], 1e3 / tau, rtol=1e-6)


def test_maps_are_those_of_the_engine(viewer, panel, qtbot):
    add_stack(viewer, FRAMES, scale=(1, 2, 2), units=("pixel", "um", "um"))
    noise = NoiseModel(dark_adu=Camera().dark_adu, gain=0.1)
    panel.contrast_box.noise.form.set_value(noise)
    choose_fit(panel, beta=0.9)
    run(qtbot, panel)
    settings = MesiSettings(beta=0.9)
    want = fit_of(FRAMES, settings, noise)
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


def test_another_fit_takes_the_place_of_the_first_and_lies_where_its_stack_lies(viewer, panel, qtbot):
    stack = add_stack(viewer, FRAMES)
    choose_fit(panel)
    run(qtbot, panel)
    made = [one for one in viewer.layers if one is not stack]
    choose_fit(panel, model="gaussian")
    stack.scale = (1.0, 5.0, 5.0)
    run(qtbot, panel)
    assert [one for one in viewer.layers if one is not stack] == made
    assert [one.scale[-2:].tolist() for one in made] == [[5.0, 5.0]] * len(made)
    want = fit_of(FRAMES, MesiSettings(model="gaussian")).rho
    np.testing.assert_allclose(viewer.layers["MESI ρ, moving fraction of frames"].data, want, rtol=1e-4, atol=1e-6)


def test_stop_keeps_what_was_fitted(viewer, panel, qtbot, monkeypatch):
    held = Held(monkeypatch, request, "fit_mesi_steps")
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


def test_stop_before_the_fit_shows_nothing(viewer, panel, qtbot, held):
    add_stack(viewer, speckle(6, (1100, 1000)))
    choose_fit(panel)
    panel.run_button.click()
    held.wait(qtbot)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.run_button.click()
    assert "stopped" in panel.status
    assert len(viewer.layers) == 1


def test_a_saturated_stack_is_reported(viewer, panel, qtbot):
    add_stack(viewer, np.full_like(FRAMES, 65535))
    choose_fit(panel)
    panel.run_button.click()
    wait_until(qtbot, lambda: not panel.running)
    assert "nothing could be fitted" in panel.message


def test_live_maps_go_on_while_a_fit_is_set_up(viewer, panel, qtbot):
    add_stack(viewer, FRAMES)
    choose_fit(panel)
    panel.live_box.start_button.click()
    assert "choose another map for live imaging" in panel.message
    assert not panel.runner.is_live
    panel.contrast_box.choose_index("sfi")
    start(qtbot, panel)
    choose_fit(panel)
    assert "live maps go on as they were" in panel.message
    stop(qtbot, panel)
    assert layer(viewer, LIVE_MAP).name == "live SFI (1/s)"


# -- Copy as Python ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [CYCLES, BLOCKS])
def test_the_script_makes_the_same_fit(viewer, panel, qtbot, tmp_path, monkeypatch, order):
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    frames = FRAMES.copy()
    frames[4, 20:24, 30:34] = 65535
    if order == BLOCKS:
        frames = frames.reshape(REPEATS, len(EXPOSURES), *SHAPE).swapaxes(0, 1).reshape(frames.shape).copy()
    add_stack(viewer, frames)
    add_stack(viewer, np.random.default_rng(4).poisson(100, (5, *SHAPE)).astype(np.uint16), "dark")
    panel.contrast_box.noise.dark_box.setCurrentText("dark")
    panel.contrast_box.noise.form.widget("gain").value = 0.1
    panel.source_box.stack.layer_box.setCurrentText("frames")
    choose_fit(panel, fit_beta=True, beta=0.9)
    panel.contrast_box.mesi.order.setCurrentText(order)
    panel.contrast_box.registers.setChecked(True)
    wait_until(qtbot, lambda: "Subtracted" in panel.contrast_box.noise.description.text())
    run(qtbot, panel)
    run_script(script_of(panel), tmp_path)
    for one in FIT_MAPS:
        shown = next(each for each in viewer.layers if carried(each, "part") == f"mesi {one.part}")
        np.testing.assert_array_equal(tifffile.imread(tmp_path / f"mesi {one.part} of frames.tif"), shown.data)


def test_notes_of_the_maps_are_kept(viewer, panel, qtbot):
    add_stack(viewer, FRAMES.astype(np.float32))
    choose_fit(panel)
    run(qtbot, panel)
    assert any("saturation level" in note for note in panel.result.notes)
