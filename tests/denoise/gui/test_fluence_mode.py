"""The dock widget "Denoise", mode "fluence": two halves of the photons, or one buffer; and the script."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from napari_gpubio import denoise
from napari_gpubio.core.napari_io import stored_array, volume_of
from napari_gpubio.core.quantity import Quantity, quantity_of
from napari_gpubio.denoise import volumes
from tests.denoise.gui.panel_samples import (
    AFFINE,
    BOTH,
    EVEN,
    HALF_SHAPE,
    ODD,
    SAGITTAL,
    SIZES,
    add_gates,
    add_halves,
    add_labels,
    add_volume,
    made,
    names,
    number,
    part_button,
    run,
    run_script_here,
)
from tests.dock_widgets import Held, wait_until

pytestmark = pytest.mark.usefixtures("in_fluence_mode")


# -- two halves -------------------------------------------------------------------------------------------------------


@pytest.mark.daily
@pytest.mark.display
def test_from_the_sample_to_clean_fluence(viewer, panel, qtbot):
    viewer.open_sample("napari-gpubio", "fluence_pair")
    assert panel.image_box.layer.name == "fluence half A, log10 1/mm²"
    assert panel.mode.second_box.layer.name == "fluence half B, log10 1/mm²"
    run(qtbot, panel)
    pair = denoise.samples.fluence_pair()
    clean, _, noise, _ = made(viewer, "fluence half A + B, log10 1/mm²")
    images = (pair.half_a + pair.half_b) / 2, denoise.values.from_log10(volume_of(clean))
    raw, left = (gaussian_filter(np.square(image.astype(float) - pair.truth), 2) for image in images)
    truth_db = np.median(10 * np.log10(raw / left)[pair.truth**2 > raw])
    assert truth_db > 9
    gain_db = float(number(panel, "Gain").split()[1])
    assert -3 < gain_db - truth_db < 1  # bias is seen, and halves tell no more than they know
    assert quantity_of(noise) == Quantity("standard error that is left", "1/mm²", "log10")


@pytest.mark.parametrize("affine", [AFFINE, SAGITTAL], ids=["anisotropic, from right to left", "sagittal"])
def test_the_gui_gives_what_the_api_gives(viewer, panel, qtbot, affine):
    image = add_halves(viewer, affine)
    border = (np.indices(HALF_SHAPE)[2] > 9).astype(int)
    panel.mode.labels_box.choose(add_labels(viewer, image, border))
    run(qtbot, panel, largest_scale=3.0)
    sizes, settings = np.linalg.norm(affine[:3, :3], axis=0), denoise.FluenceSettings(largest_scale=3.0)
    expected = denoise.denoise_fluence(EVEN, ODD, settings, labels=border, voxel_size_mm=sizes, device="cpu")
    clean, residual, noise, scale = made(viewer)
    assert np.array_equal(volume_of(clean), expected.image)
    assert np.array_equal(volume_of(residual), (EVEN + ODD) / 2 - expected.image)
    assert np.array_equal(volume_of(noise), expected.noise)
    assert np.array_equal(volume_of(scale), expected.scale_mm)
    assert np.array_equal(volume_of(viewer.layers[BOTH]), (EVEN + ODD) / 2)
    for layer in (clean, residual, noise, scale, viewer.layers[BOTH]):
        assert np.allclose(layer.extent.world, image.extent.world)
    assert expected.photon_multiplier > 15  # of which two halves can prove no more
    assert number(panel, "Gain") == f"≤ {expected.snr_gain_db:.0f} dB"
    assert number(panel, "As good as") == f"≤ {float(f'{expected.photon_multiplier:.2g}'):g} × the photons"
    is_clear = (expected.raw_noise > 0) & (expected.image > expected.raw_noise)
    before, after = (np.median(x[is_clear]) for x in (expected.raw_noise, expected.noise))
    assert number(panel, "Noise") == f"{before:.3g} → {after:.3g}"


def test_counts_of_large_whole_numbers(viewer, panel, qtbot):
    first, second = ((80 * array).astype(np.uint8) + 60 for array in (EVEN, ODD))
    add_halves(viewer, even=first, odd=second)
    run(qtbot, panel)
    assert np.array_equal(volume_of(viewer.layers[BOTH]), (first.astype(np.float32) + second) / 2)
    assert "converted to float32" in panel.message


def test_before_is_the_mean_of_both_halves(viewer, panel, qtbot):
    add_halves(viewer)
    run(qtbot, panel)
    assert not part_button(panel, "scale").isHidden()
    clean, residual, noise, scale = made(viewer)
    parts = {"before": viewer.layers[BOTH], "after": clean, "residual": residual, "noise": noise, "scale": scale}
    for part in parts:
        part_button(panel, part).click()
        assert [layer.name for layer in viewer.layers if layer.visible] == [parts[part].name]
    for part in ("before", "after"):
        panel.toggle_before_after()
        assert panel.results.visible_part() == part


def test_what_another_mode_does_not_have_is_left_to_the_user(viewer, panel, qtbot):
    add_halves(viewer)
    run(qtbot, panel)
    panel.mode_box.setCurrentIndex(0)
    run(qtbot, panel)
    assert {"denoised fluence even", "noise σ of fluence even", "denoised " + BOTH, BOTH} <= set(names(viewer))
    assert len(viewer.layers) == 10
    assert part_button(panel, "scale").isHidden()
    panel.toggle_before_after()
    assert [layer.name for layer in viewer.layers if layer.visible] == ["fluence even"]


def test_stopping_keeps_what_was_tried(viewer, panel, qtbot, monkeypatch):
    add_halves(viewer)
    held = Held(monkeypatch, volumes, "denoise_fluence_steps")
    panel.run_button.click()
    held.wait(qtbot)
    panel.run_button.click()
    wait_until(qtbot, lambda: not panel.running)
    assert "wider windows were not tried" in panel.status
    clean = volume_of(made(viewer)[0])
    whole = denoise.denoise_fluence(EVEN, ODD, voxel_size_mm=SIZES, device="cpu").image
    assert not np.array_equal(clean, (EVEN + ODD) / 2)
    assert not np.array_equal(clean, whole)


# -- one buffer -------------------------------------------------------------------------------------------------------


def test_one_buffer_is_denoised_with_a_sentence(viewer, panel, qtbot):
    add_volume(viewer, EVEN, name="fluence")
    assert not panel.mode.alone.isHidden()
    assert "two halves" in panel.mode.alone.text()
    run(qtbot, panel)
    expected = denoise.denoise_fluence(EVEN, voxel_size_mm=SIZES, device="cpu")
    assert np.array_equal(volume_of(viewer.layers["denoised fluence"]), expected.image)
    assert "its noise was measured" in panel.message
    assert number(panel, "Gain") == f"≤ {expected.snr_gain_db:.0f} dB"
    assert number(panel, "As good as") == f"≤ {float(f'{expected.photon_multiplier:.2g}'):g} × the photons"
    assert "→" not in number(panel, "Noise")
    panel.show_only("before")
    assert viewer.layers["fluence"].visible
    assert len(viewer.layers) == 5


# -- the script -------------------------------------------------------------------------------------------------------


@pytest.mark.daily
def test_the_script_of_logarithms_gives_the_same(viewer, panel, qtbot, tmp_path, monkeypatch):
    quantity = {"quantity": "log10 fluence"}
    add_volume(viewer, denoise.values.to_log10(ODD), SAGITTAL, "fluence odd", metadata=quantity, visible=False)
    image = add_volume(viewer, denoise.values.to_log10(EVEN), SAGITTAL, "fluence even", metadata=quantity)
    panel.mode.labels_box.choose(add_labels(viewer, image, (EVEN > 0.1).astype(int)))
    run(qtbot, panel, largest_scale=4.0)
    text = run_script_here(panel, tmp_path, monkeypatch)
    for part in ("settings=FluenceSettings(largest_scale=4.0)", "second=fluence_odd", "labels=tissue", "log10=True"):
        assert part in text
    clean, _, noise, scale = made(viewer)
    for path, layer in (("denoised fluence even", clean), ("noise of fluence even", noise)):
        written = denoise.open_volume(tmp_path / f"{path}.nii.gz").array
        assert np.array_equal(written, stored_array(layer), equal_nan=True)
    assert volume_of(scale).max() > 1  # no logarithm
    whole = denoise.values.from_log10(volume_of(viewer.layers[BOTH]))
    np.testing.assert_allclose(whole, (EVEN + ODD) / 2, rtol=1e-5)
    assert " % " not in number(panel, "Noise")
    assert number(panel, "Noise").endswith(" %")


@pytest.mark.daily
def test_the_script_of_one_buffer_and_some_gates(viewer, panel, qtbot, tmp_path, monkeypatch):
    add_gates(viewer)
    panel.image_box.layer_box.choose(viewer.layers["fluence even"])
    panel.image_box.first.setValue(1)
    for second, name in ((1, BOTH), (0, "fluence even")):
        assert panel.image_box.layer.name == "fluence even"  # hidden behind its result, but still the one
        panel.mode.second_box.setCurrentIndex(second and panel.mode.second_box.findText("fluence odd"))
        panel.mode.second_box.activated.emit(second)
        run(qtbot, panel)
        run_script_here(panel, tmp_path, monkeypatch)
        written = denoise.open_volume(tmp_path / "denoised fluence even.nii.gz").array
        assert np.array_equal(written, stored_array(viewer.layers[f"denoised {name}"]))
        assert not stored_array(viewer.layers[f"residual {name}"])[..., 0].any()
