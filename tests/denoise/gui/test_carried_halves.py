"""The dock widget "Denoise" with a fluence that carries both halves of its photons, saved and opened in between."""

import numpy as np
import pytest

from napari_gpubio import denoise
from napari_gpubio.core.layer_files import write_image
from napari_gpubio.core.napari_io import stored_array, volume_layer, volume_of
from napari_gpubio.core.quantity import Quantity, quantity_metadata, quantity_of, standard_error_of
from napari_gpubio.denoise.gui.modes import AnlmMode, FluenceMode
from napari_gpubio.diffusion.napari_io import read_layers
from tests.denoise.gui.panel_samples import AFFINE, SAGITTAL, add_volume, run, run_script_here
from tests.dock_widgets import error_after_run

SHAPE = (20, 18, 16)


def halves():
    rng = np.random.default_rng(3)
    truth = np.exp(-0.3 * np.indices(SHAPE)[2])
    return np.stack([rng.poisson(40 * truth) / 40 for _ in range(2)]).astype(np.float32)


def guide():
    return (0.5 * np.exp(-0.27 * np.indices(SHAPE)[2])).astype(np.float32)


def add_fluence(viewer, scale, affine=AFFINE, held=None, name="light", **more):
    held = halves() if held is None else held
    mean = (held[0] + held[1]) / 2
    values = denoise.values.to_log10(mean) if scale == "log10" else mean
    metadata = quantity_metadata(Quantity("fluence", "1/mm2", scale), halves=held) | more
    return add_volume(viewer, values, affine, name, metadata=metadata)


def expected(affine=AFFINE, **known):
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    return denoise.denoise_fluence(*halves(), **known, voxel_size_mm=sizes, device="cpu")


def shown(image, scale):
    return denoise.values.to_log10(image) if scale == "log10" else image


@pytest.mark.parametrize("scale", ["log10", "linear"])
def test_the_halves_are_used_by_themselves(viewer, panel, qtbot, scale):
    layer = add_fluence(viewer, scale)
    assert isinstance(panel.mode, FluenceMode)
    assert "carries both halves" in panel.mode.alone.text()
    assert "fluence (1/mm²)" in panel.image_box.sizes.text()
    run(qtbot, panel)
    assert "thin, strong absorbers" in panel.message
    clean, found = viewer.layers["denoised light"], expected()
    assert np.array_equal(volume_of(clean), shown(found.image, scale), equal_nan=True)
    assert np.array_equal(standard_error_of(clean), found.noise)
    assert quantity_of(clean) == Quantity("fluence", "1/mm²", scale, "denoised: light")
    assert not layer.visible


def test_a_saved_fluence_is_opened_and_continued_and_so_is_its_result(viewer, panel, qtbot, tmp_path, monkeypatch):
    layer = add_fluence(viewer, "log10", SAGITTAL)
    path = tmp_path / "light.nii.gz"
    data, attributes, _ = layer.as_layer_data_tuple()
    write_image(str(path), data, attributes)
    viewer.layers.clear()
    for data, keywords, _ in read_layers(str(path)):
        viewer.add_image(data, **keywords)
    run(qtbot, panel)
    clean = viewer.layers["denoised light"]
    assert np.array_equal(volume_of(clean), shown(expected(SAGITTAL).image, "log10"), equal_nan=True)
    text = run_script_here(panel, tmp_path, monkeypatch)
    assert "light_half_1.nii.gz" in text
    written = denoise.open_volume(tmp_path / "denoised light.nii.gz")
    assert np.array_equal(written.array, stored_array(clean), equal_nan=True)


@pytest.mark.daily
def test_the_script_saves_halves_that_are_in_no_file(viewer, panel, qtbot, tmp_path, monkeypatch):
    add_fluence(viewer, "linear")
    run(qtbot, panel)
    run_script_here(panel, tmp_path, monkeypatch)
    written = denoise.open_volume(tmp_path / "denoised light.nii.gz")
    assert np.array_equal(written.array, stored_array(viewer.layers["denoised light"]))


@pytest.mark.daily
def test_the_guide_is_used_by_itself_and_in_the_script(viewer, panel, qtbot, tmp_path, monkeypatch):
    add_fluence(viewer, "linear", guide=guide())
    assert "guide of its run" in panel.mode.alone.text()
    run(qtbot, panel)
    assert panel.message == ""
    image = expected(guide=guide()).image
    assert np.array_equal(volume_of(viewer.layers["denoised light"]), image)
    assert not np.array_equal(image, expected().image)
    run_script_here(panel, tmp_path, monkeypatch)
    written = denoise.open_volume(tmp_path / "denoised light.nii.gz")
    assert np.array_equal(written.array, stored_array(viewer.layers["denoised light"]))


MEDIA = [{"label": 1, "mua_per_mm": 0.02}]


@pytest.mark.parametrize(("media", "is_chosen"), [(MEDIA, True), ([], False)])
def test_the_labels_of_the_run_are_chosen_with_the_guide(viewer, panel, qtbot, media, is_chosen):
    add_fluence(viewer, "linear", guide=guide(), media=MEDIA)
    labels = (np.indices(SHAPE)[0] > 9).astype(np.uint8)
    layer = volume_layer(labels, AFFINE, "head", kind="labels", metadata={"media": media})
    viewer.add_labels(layer[0], **layer[1])
    assert (panel.mode.labels_box.layer is not None) == is_chosen
    run(qtbot, panel)
    known = {"labels": labels} if is_chosen else {}
    image = expected(guide=guide(), **known).image
    assert np.array_equal(volume_of(viewer.layers["denoised light"]), image)


def test_an_image_without_halves_brings_the_second_one_back(viewer, panel):
    add_fluence(viewer, "log10")
    add_volume(viewer, name="t1")
    panel.image_box.layer_box.choose(viewer.layers["t1"])
    assert not panel.modes[1].has_own_halves
    panel.image_box.layer_box.choose(viewer.layers["light"])
    assert panel.modes[1].has_own_halves


def test_the_mode_of_other_images_stays(viewer, panel):
    add_volume(viewer, name="t1")
    assert isinstance(panel.mode, AnlmMode)


def test_halves_of_another_shape_are_not_used(viewer, panel):
    values = denoise.values.to_log10(halves()[0])
    metadata = quantity_metadata(Quantity("fluence", "1/mm2", "log10"), halves=halves()[:, 1:])
    add_volume(viewer, values, metadata=metadata, name="light")
    assert not panel.modes[1].has_own_halves


def test_a_fluence_that_is_nan_everywhere_is_refused(viewer, panel, qtbot):
    add_fluence(viewer, "log10", held=np.zeros_like(halves()))
    assert "zero everywhere" in error_after_run(qtbot, panel)


def listed(panel):
    box = panel.image_box.layer_box
    return [(box.itemText(row), box.model().item(row).isEnabled()) for row in range(box.count())]


def test_images_that_cannot_be_denoised_are_listed_with_the_reason(viewer, panel, qtbot):
    viewer.add_image(np.zeros((2, 2, 4, 5, 6)), name="photograph")
    viewer.add_image(np.zeros((4, 20, 20, 3)), rgb=True, name="drawing")
    assert panel.image_box.layer is None
    assert "there is no image" in error_after_run(qtbot, panel)
    add_volume(viewer, name="t1")
    assert panel.image_box.layer == viewer.layers["t1"]
    assert listed(panel) == [
        ("t1", True),
        ("drawing (colors; Split RGB makes channels of them)", False),
        ("photograph (5-D; a volume is needed)", False),
    ]
    run(qtbot, panel, patches="small")
    assert ("denoised t1 (a result; press Keep to use it)", False) in listed(panel)
    viewer.layers.remove("photograph")
    assert len(listed(panel)) == 3
    assert panel.image_box.layer == viewer.layers["t1"]


def test_labels_of_another_grid_are_refused(viewer, panel, qtbot):
    add_fluence(viewer, "log10")
    labels = viewer.add_labels(np.ones((9, 9, 9), int), name="other head")
    panel.mode.labels_box.choose(labels)
    assert "'other head' has shape (9, 9, 9)" in error_after_run(qtbot, panel)


def test_a_fluence_without_unit_or_affine_is_denoised_and_says_nothing_it_does_not_know(viewer, panel, qtbot):
    values = denoise.values.to_log10(halves()[0])
    viewer.add_image(values.T, name="log10 of something")
    assert panel.image_box.log.isChecked()
    run(qtbot, panel, patches="small")
    assert quantity_of(viewer.layers["denoised log10 of something"]) is None
