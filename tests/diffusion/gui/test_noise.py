"""The group "Noise" of the dock widget "Diffusion tensors": a raw scan is denoised before it is fitted."""

import functools

import numpy as np
import pytest
from napari.layers import Image
from qtpy.QtCore import Qt

from napari_gpubio import diffusion
from napari_gpubio.core.napari_io import stored_array, volume_of
from napari_gpubio.core.quantity import quantity_of
from napari_gpubio.diffusion.gui.noise.plot import expected_deviation
from napari_gpubio.diffusion.napari_io import scan_of
from napari_gpubio.diffusion.operations import noise as module
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.gui.tensor_samples import add_panel, add_scan, fit, layer_named, names, saved, sticks
from tests.dock_widgets import (
    MILLISECONDS,
    Held,
    open_and_wait,
    press_and_wait,
    save_scripts_as,
    script_of,
    shown_by_script,
    wait_until,
)
from tests.fibers.gui.tracking_samples import CALLOSUM
from tests.sentences import says

PARTS = ["dwi noise σ", "dwi denoised", "dwi residual"]
SIGMA = 20.0


@functools.cache
def noisy_scan():
    """The middle of straight bundles, with the noise of magnitudes."""
    inner, rng = slice(10, 30), np.random.default_rng(1)
    truth = sticks().data[inner, inner, inner].astype(np.float64)
    data = np.hypot(truth + rng.normal(0, SIGMA, truth.shape), rng.normal(0, SIGMA, truth.shape)).astype(np.float32)
    return diffusion.DiffusionScan(
        data=data, bvals=sticks().bvals, directions=sticks().directions, affine=np.diag([2.0, 2.0, 2.0, 1.0])
    )


@functools.cache
def by_api(**settings):
    """What the panel should find of the scan in a file."""
    return diffusion.noise.denoise_scan(noisy_scan(), settings=diffusion.noise.NoiseSettings(**settings))


@pytest.fixture
def noise_box(fit_panel, qtbot, tmp_path):
    """The group, with a scan from a file."""
    open_and_wait(qtbot, fit_panel.open_scan, saved(noisy_scan(), tmp_path))
    return fit_panel.noise_box


def denoise(qtbot, panel):
    press_and_wait(qtbot, panel, panel.noise_box.button)


def error_after_run(qtbot, panel):
    panel.noise_box.button.click()
    wait_until(qtbot, lambda: not panel.running)
    return panel.message


def assert_same_images(made, shown):
    """Each image of this package in a viewer is in another one with the same bits, and shown in the same way."""
    for layer in shown.layers:
        if not isinstance(layer, Image) or layer.name in ("dwi", "dwi b = 0 mean"):
            continue
        copy = made.layers[layer.name]
        assert np.array_equal(stored_array(copy), stored_array(layer), equal_nan=True)
        assert (copy.visible, copy.colormap.name) == (layer.visible, layer.colormap.name)
        assert list(copy.contrast_limits) == list(layer.contrast_limits)


# -- the run ----------------------------------------------------------------------------------------------------------


@pytest.mark.daily
@pytest.mark.display
def test_a_click_denoises_and_the_fit_takes_the_result(proxy, fit_panel, noise_box, qtbot):
    raw, mean = proxy.layers
    with qtbot.waitSignal(fit_panel.run_finished, timeout=MILLISECONDS):
        qtbot.mouseClick(noise_box.button, Qt.MouseButton.LeftButton)
    assert names(proxy)[2:] == PARTS
    sigma, denoised, residual = proxy.layers[2:]
    assert [layer.visible for layer in proxy.layers] == [False, False, False, True, False]
    assert fit_panel.scan_box.layer == denoised
    assert proxy.layers.selection.active == denoised
    # GUI = API: the same numbers
    expected = by_api()
    assert np.array_equal(volume_of(sigma), expected.noise)
    assert np.array_equal(scan_of(denoised).data, expected.scan.data)
    assert np.array_equal(stored_array(residual), expected.residual(noisy_scan()))
    # what the numbers mean, and where they lie
    assert (quantity_of(sigma).unit, quantity_of(residual).unit) == ("a.u.", "a.u.")
    assert np.allclose(sigma.extent.world, mean.extent.world)
    assert np.allclose(residual.extent.world, raw.extent.world)
    low, high = residual.contrast_limits
    assert low == -high
    assert high == pytest.approx(3 * np.median(expected.noise), rel=0.05)
    assert list(denoised.contrast_limits) == list(raw.contrast_limits)
    # how much noise there was
    assert np.median(volume_of(sigma)[volume_of(sigma) > 0]) == pytest.approx(SIGMA, rel=0.15)
    for part in ("σ median", "signal components median", "SD of residual / σ"):
        assert part in noise_box.summary_label.text()
    fit(qtbot, fit_panel)
    assert names(proxy)[5:] == ["dwi denoised FA", "dwi denoised DEC"]
    fa = diffusion.tensors.scalar_map(diffusion.fit_tensors(expected.scan), "FA")
    assert np.array_equal(volume_of(layer_named(proxy, "FA")), fa)
    assert not denoised.visible


def test_settings_and_device_reach_the_run(proxy, fit_panel, noise_box, qtbot):
    noise_box.form.widget("rician").value = True
    noise_box.form.widget("window").value = 5
    fit_panel.choose_device("cpu")
    denoise(qtbot, fit_panel)
    expected = by_api(rician=True, window=5)
    assert np.array_equal(scan_of(layer_named(proxy, "denoised")).data, expected.scan.data)
    assert np.array_equal(stored_array(layer_named(proxy, "residual")), expected.residual(noisy_scan()))


def test_the_residual_and_its_histogram(proxy, fit_panel, noise_box, qtbot):
    assert noise_box.plot_button.isHidden()
    noise_box.residual.setChecked(True)
    denoise(qtbot, fit_panel)
    residual = layer_named(proxy, "residual")
    assert residual.visible
    noise_box.residual.setChecked(False)
    assert not residual.visible
    noise_box.plot_button.click()
    plot = noise_box.plot.window
    bars, found, expected = plot.listDataItems()
    assert np.sum(bars.opts["height"] * (bars.opts["x1"] - bars.opts["x0"])) == pytest.approx(1)
    ratios = by_api().residual_ratio_histogram(noisy_scan())
    for curve in (found, expected):
        assert np.trapezoid(curve.yData, curve.xData) == pytest.approx(1, abs=1e-3)
    deviation = np.sqrt(np.trapezoid(found.yData * (found.xData - ratios.mean) ** 2, found.xData))
    assert deviation == pytest.approx(ratios.standard_deviation, abs=2e-3)
    assert f"{ratios.standard_deviation:.2f}" in noise_box.summary_label.text()
    fit_panel.teardown()
    assert noise_box.plot.window is None


def test_the_expected_deviation_is_that_of_noise_alone():
    """Noise without signal: what is taken away is all of it but the share that passes for signal."""
    rng = np.random.default_rng(3)
    scan = diffusion.DiffusionScan(
        data=(1000 + rng.normal(0, SIGMA, (16, 16, 16, 14))).astype(np.float32),
        bvals=noisy_scan().bvals, directions=noisy_scan().directions, affine=noisy_scan().affine,
    )  # fmt: skip
    result = diffusion.noise.denoise_scan(scan)
    assert np.median(result.rank) == 1  # the level
    expected = expected_deviation(result)
    assert expected == pytest.approx(np.sqrt(1 - 1 / 14), abs=0.01)
    assert result.residual_ratio_histogram(scan).standard_deviation == pytest.approx(expected, abs=0.02)


def test_stop_adds_nothing_and_says_so(proxy, fit_panel, noise_box, qtbot, monkeypatch, in_chunks_of):
    in_chunks_of(100)
    held = Held(monkeypatch, module, "denoise_scan_steps")
    noise_box.button.click()
    held.wait(qtbot)
    assert fit_panel.run_button.text() == "Stop"
    with qtbot.waitSignal(fit_panel.run_finished, timeout=MILLISECONDS):
        fit_panel.run_button.click()
    assert names(proxy) == ["dwi", "dwi b = 0 mean"]
    assert fit_panel.scan_box.layer == proxy.layers["dwi"]
    assert "stopped" in fit_panel.message
    assert noise_box.summary_label.isHidden()
    held.go.set()
    denoise(qtbot, fit_panel)
    assert names(proxy)[2:] == PARTS


# -- what can go wrong ------------------------------------------------------------------------------------------------


def test_bad_input_is_a_sentence(proxy, fit_panel, qtbot):
    assert "no diffusion scan" in error_after_run(qtbot, fit_panel)
    scan = noisy_scan()
    few = diffusion.DiffusionScan(
        data=scan.data[..., :8], bvals=scan.bvals[:8], directions=scan.directions[:8], affine=scan.affine
    )
    add_scan(proxy, few, "few")
    assert "8 volumes" in error_after_run(qtbot, fit_panel)
    fit_panel.scan_box.choose(add_scan(proxy, scan, "enough"))
    fit_panel.noise_box.form.widget("window").value = 4
    assert "window is 4" in error_after_run(qtbot, fit_panel)
    assert names(proxy) == ["few", "enough"]


def test_notes_are_shown(proxy, fit_panel, qtbot):
    scan = noisy_scan()
    thin = diffusion.DiffusionScan(
        data=scan.data[:, :, 12:14], bvals=scan.bvals, directions=scan.directions, affine=scan.affine
    )
    add_scan(proxy, thin, "thin")
    denoise(qtbot, fit_panel)
    assert any(says(note, "window", "3 x 3 x 2") for note in fit_panel.input_notes())


# -- Copy as Python ---------------------------------------------------------------------------------------------------


@pytest.mark.daily
def test_the_script_makes_the_same_layers_before_and_after_the_fit(
    proxy, fit_panel, noise_box, qtbot, tmp_path, monkeypatch
):
    noise_box.form.widget("estimator").value = "exp1"
    denoise(qtbot, fit_panel)
    layer_named(proxy, "σ").contrast_limits = (5.0, 30.0)
    noise_box.form.widget("estimator").value = "exp2"  # of no layer on screen
    text = script_of(fit_panel)
    assert "NoiseSettings(estimator='exp1')" in text
    before = shown_by_script(text, tmp_path, monkeypatch)
    assert_same_images(before, proxy)
    fit(qtbot, fit_panel)
    after = shown_by_script(script_of(fit_panel), tmp_path, monkeypatch)
    assert_same_images(after, proxy)
    assert np.array_equal(volume_of(before.layers["dwi denoised FA"]), volume_of(layer_named(proxy, "FA")))
    assert scan_of(after.layers["dwi denoised"]).data.tobytes() == scan_of(proxy.layers["dwi denoised"]).data.tobytes()


@pytest.mark.daily
def test_the_script_of_the_raw_scan_beside_one_that_was_denoised_twice(
    proxy, fit_panel, noise_box, qtbot, tmp_path, monkeypatch
):
    denoise(qtbot, fit_panel)
    denoise(qtbot, fit_panel)
    assert "dwi denoised denoised" in names(proxy)
    fit_panel.scan_box.choose(proxy.layers["dwi"])
    fit(qtbot, fit_panel)
    text = script_of(fit_panel)
    assert text.count("= Mppca(") == 2
    made = shown_by_script(text, tmp_path, monkeypatch)
    assert len(made.layers) == 8
    assert_same_images(made, proxy)


@pytest.mark.daily
def test_the_script_with_a_painted_mask(proxy, fit_panel, noise_box, qtbot, tmp_path, monkeypatch):
    denoise(qtbot, fit_panel)
    mask = np.zeros(noisy_scan().shape, np.uint8)
    mask[8:20, 8:20, 8:20] = 1
    mean = proxy.layers["dwi b = 0 mean"]
    fit_panel.mask_box.choose(proxy.add_labels(mask.T, name="mask", affine=mean.affine, metadata=mean.metadata))
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    made = shown_by_script(script_of(fit_panel), tmp_path, monkeypatch)
    fit(qtbot, fit_panel)
    assert np.array_equal(volume_of(layer_named(made, "FA")), volume_of(layer_named(proxy, "FA")))
    assert np.array_equal(volume_of(layer_named(made, "σ")), volume_of(layer_named(proxy, "σ")))


def test_a_scan_that_no_file_holds_is_saved_beside_the_script(proxy, fit_panel, qtbot, tmp_path, monkeypatch):
    add_scan(proxy, noisy_scan(), "in memory")
    denoise(qtbot, fit_panel)
    assert names(proxy)[1:] == ["in memory noise σ", "in memory denoised", "in memory residual"]
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    assert "HeldScan(" in script_of(fit_panel)


def test_tracking_in_a_denoised_scan_copies_its_denoising(viewer, tracking_user, qtbot, tmp_path, monkeypatch):
    fit_panel = add_panel(viewer)
    qtbot.addWidget(fit_panel)
    add_scan(viewer, diffusion.io.read_dwi(saved(coarse_brain(), tmp_path)))
    denoise(qtbot, fit_panel)
    fit_panel.teardown()
    tracking_user.panel.source_box.choose(viewer.layers["scan denoised"])
    tracking_user.click(CALLOSUM)
    made = shown_by_script(script_of(tracking_user.panel), tmp_path, monkeypatch)
    fibers = viewer.layers["bundle 1"].lines
    assert len(fibers) > 10
    assert made.layers["bundle 1"].lines.vertices.tobytes() == fibers.vertices.tobytes()
    for end in ("FA", "DEC"):
        name = f"scan denoised {end}"
        assert np.array_equal(stored_array(made.layers[name]), stored_array(viewer.layers[name]))
