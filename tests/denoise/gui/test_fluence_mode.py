"""The dock widget "Denoise", mode "fluence": two halves of the photons, or one buffer; and the script."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from napari_gpubio import denoise
from napari_gpubio.core.napari_io import carried, volume_layer, volume_of
from napari_gpubio.denoise.gui import request
from napari_gpubio.denoise.napari_io import stored_array
from tests.denoise.gui.panel_samples import (
    AFFINE,
    BOTH,
    EVEN,
    HALF_SHAPE,
    ODD,
    SAGITTAL,
    SIZES,
    add_halves,
    add_volume,
    execute,
    made,
    names,
    number,
    run,
)
from tests.dock_widgets import Held, save_scripts_as, script_of, wait_until

pytestmark = pytest.mark.usefixtures("in_fluence_mode")


# -- two halves -------------------------------------------------------------------------------------------------------


@pytest.mark.display
def test_from_the_sample_to_clean_fluence(viewer, panel, qtbot):
    viewer.open_sample("napari-gpubio", "fluence_pair")
    assert panel.image_box.layer.name == "fluence half A, log10 1/mm²"
    assert panel.mode.second_box.layer.name == "fluence half B, log10 1/mm²"
    run(qtbot, panel)
    pair = denoise.samples.fluence_pair()
    clean, _, noise, _ = made(viewer, "fluence half A + B, log10 1/mm²")
    images = (pair.half_a + pair.half_b) / 2, denoise.io.from_log10(volume_of(clean))
    raw, left = (gaussian_filter(np.square(image.astype(float) - pair.truth), 2) for image in images)
    truth_db = np.median(10 * np.log10(raw / left)[pair.truth**2 > raw])
    assert truth_db > 9
    gain_db = float(number(panel, "Gain").split()[1])
    assert 0 < gain_db - truth_db < 3  # bias is not seen
    assert carried(noise, "quantity") == "log10 standard error that is left"


@pytest.mark.parametrize("affine", [AFFINE, SAGITTAL], ids=["anisotropic, from right to left", "sagittal"])
def test_the_gui_gives_what_the_api_gives(viewer, panel, qtbot, affine):
    image = add_halves(viewer, affine)
    border = (np.indices(HALF_SHAPE)[2] > 9).astype(int)
    data, keywords, _ = volume_layer(border, affine, "tissue", kind="labels")
    panel.mode.labels_box.choose(viewer.add_labels(data, **keywords))
    panel.mode.form.widget("largest_scale").value = 3.0
    run(qtbot, panel)
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
    assert number(panel, "Gain") == f"≈ {expected.snr_gain_db:.1f} dB"
    assert number(panel, "As good as") == f"≈ {expected.photon_multiplier:.2g} × the photons"


def test_counts_of_large_whole_numbers(viewer, panel, qtbot):
    first, second = ((80 * array).astype(np.uint8) + 60 for array in (EVEN, ODD))
    add_halves(viewer, even=first, odd=second)
    run(qtbot, panel)
    assert np.array_equal(volume_of(viewer.layers[BOTH]), (first.astype(np.float32) + second) / 2)
    assert "converted to float32" in panel.message


def test_noise_before_and_after_are_told(viewer, panel, qtbot):
    add_halves(viewer)
    run(qtbot, panel)
    result = denoise.denoise_fluence(EVEN, ODD, voxel_size_mm=SIZES, device="cpu")
    told = result.image > result.raw_noise
    before, after = (np.median(x[told & (result.raw_noise > 0)]) for x in (result.raw_noise, result.noise))
    assert number(panel, "Noise") == f"{before:.3g} → {after:.3g}"


def test_before_is_the_mean_of_both_halves(viewer, panel, qtbot):
    add_halves(viewer)
    run(qtbot, panel)
    buttons = panel.result_box._buttons
    assert not buttons["scale"].isHidden()
    clean, residual, noise, scale = made(viewer)
    parts = {"before": viewer.layers[BOTH], "after": clean, "residual": residual, "noise": noise, "scale": scale}
    for part in parts:
        buttons[part].click()
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
    assert panel.result_box._buttons["scale"].isHidden()
    panel.toggle_before_after()
    assert [layer.name for layer in viewer.layers if layer.visible] == ["fluence even"]


def test_logarithms(viewer, panel, qtbot):
    told = {"quantity": "log10 fluence", "unit": "1/mm²"}
    shown = [denoise.io.to_log10(array) for array in (EVEN, ODD)]
    add_volume(viewer, shown[1], name="fluence odd", metadata=told, contrast_limits=(-2, 0))
    add_volume(viewer, shown[0], name="fluence even", metadata=told, contrast_limits=(-2, 0))
    panel.image_box.layer_box.choose(viewer.layers["fluence even"])
    run(qtbot, panel)
    linear = [denoise.io.from_log10(array) for array in shown]
    expected = denoise.denoise_fluence(*linear, voxel_size_mm=SIZES, device="cpu")
    clean, _, noise, scale = made(viewer)
    assert np.array_equal(volume_of(clean), denoise.io.to_log10(expected.image), equal_nan=True)
    assert np.array_equal(volume_of(noise), denoise.io.to_log10(expected.noise), equal_nan=True)
    assert np.array_equal(volume_of(scale), expected.scale_mm)  # no logarithm
    assert np.array_equal(volume_of(viewer.layers[BOTH]), denoise.io.to_log10(sum(linear) / 2), equal_nan=True)
    assert " % " not in number(panel, "Noise")
    assert number(panel, "Noise").endswith(" %")


def test_some_gates_and_a_mask(viewer, panel, qtbot):
    gates = [np.stack([array, array[::-1], array[:, ::-1]], -1) for array in (EVEN, ODD)]
    for name, array in zip(("fluence odd", "fluence even"), gates[::-1], strict=True):
        viewer.add_image(array.T, name=name)
    panel.image_box.layer_box.choose(viewer.layers["fluence even"])
    panel.image_box.first.setValue(1)
    mask = np.zeros(HALF_SHAPE, int)
    mask[4:20, 3:18, 2:17] = 1
    panel.image_box.mask_box.choose(viewer.add_labels(mask.T, name="mask"))
    run(qtbot, panel)
    first, second = (array[..., 1:] for array in gates)
    expected = denoise.denoise_fluence(first, second, mask=mask, device="cpu")
    clean, residual, _, _ = (stored_array(layer) for layer in made(viewer))
    assert np.array_equal(clean[..., 1:], expected.image)
    assert np.array_equal(clean[..., 0], gates[0][..., 0])
    assert not residual[..., 0].any()


def test_stopping_keeps_what_was_tried(viewer, panel, qtbot, monkeypatch):
    add_halves(viewer)
    held = Held(monkeypatch, request, "denoise_fluence_steps")
    panel.run_button.click()
    held.wait(qtbot)
    panel.run_button.click()
    wait_until(qtbot, lambda: not panel.running)
    assert "wider windows were not tried" in panel._status.text()
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
    assert number(panel, "Gain") == f"≤ {expected.snr_gain_db:.1f} dB"
    assert number(panel, "As good as") == f"≤ {expected.photon_multiplier:.2g} × the photons"
    assert "→" not in number(panel, "Noise")
    panel.show_only("before")
    assert viewer.layers["fluence"].visible
    assert len(viewer.layers) == 5


# -- the script -------------------------------------------------------------------------------------------------------


def test_the_script_gives_the_same(viewer, panel, qtbot, tmp_path, monkeypatch):
    told = {"quantity": "log10 fluence"}
    add_volume(viewer, denoise.io.to_log10(ODD), SAGITTAL, "fluence odd", metadata=told, visible=False)
    image = add_volume(viewer, denoise.io.to_log10(EVEN), SAGITTAL, "fluence even", metadata=told)
    labels = viewer.add_labels((image.data > -1).astype(int), affine=image.affine.affine_matrix, name="tissue",
                               metadata=image.metadata)  # fmt: skip
    panel.mode.labels_box.choose(labels)
    panel.mode.form.widget("largest_scale").value = 4.0
    run(qtbot, panel)
    folder = tmp_path / "scripts"
    folder.mkdir()
    save_scripts_as(monkeypatch, folder / "script.py")
    text = script_of(panel)
    assert (
        "denoise.denoise_fluence(values, settings=denoise.FluenceSettings(largest_scale=4.0), second=second, labels="
        in text
    )
    execute(text, tmp_path, monkeypatch)
    for path, layer in (("denoised fluence even", made(viewer)[0]), ("noise of fluence even", made(viewer)[2])):
        written = denoise.io.read_image(tmp_path / f"{path}.nii.gz").array
        assert np.array_equal(written, stored_array(layer), equal_nan=True)


def test_the_script_of_one_buffer_and_some_gates(viewer, panel, qtbot, tmp_path, monkeypatch):
    gates = [np.stack([array, array[::-1]], -1) for array in (EVEN, ODD)]
    for name, array in zip(("fluence odd", "fluence even"), gates[::-1], strict=True):
        viewer.add_image(array.T, name=name)
    panel.image_box.layer_box.choose(viewer.layers["fluence even"])
    panel.image_box.first.setValue(1)
    folder = tmp_path / "scripts"
    folder.mkdir()
    for second, name in ((1, BOTH), (0, "fluence even")):
        assert panel.image_box.layer.name == "fluence even"  # hidden behind its result, but still the one
        panel.mode.second_box.setCurrentIndex(second and panel.mode.second_box.findText("fluence odd"))
        panel.mode.second_box.activated.emit(second)
        run(qtbot, panel)
        save_scripts_as(monkeypatch, folder / f"script{second}.py")
        execute(script_of(panel), tmp_path, monkeypatch)
        written = denoise.io.read_image(tmp_path / "denoised fluence even.nii.gz").array
        assert np.array_equal(written, stored_array(viewer.layers[f"denoised {name}"]))
