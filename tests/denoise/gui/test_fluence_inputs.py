"""The dock widget "Denoise", mode "fluence": the choice of the other half, errors, the preview."""

import numpy as np
import pytest

from napari_gpubio.denoise.gui import preview
from napari_gpubio.denoise.gui.inputs import both_halves, other_half
from tests.denoise.gui.panel_samples import (
    EVEN,
    HALF_SHAPE,
    ODD,
    SAGITTAL,
    add_halves,
    add_labels,
    add_volume,
    half,
    look,
    made,
    run,
    settle,
)
from tests.dock_widgets import error_after_run, forget_choices

pytestmark = pytest.mark.usefixtures("in_fluence_mode")


# -- which layer is the other half ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "other", "both"),
    [
        ("fluence half A, log10", "fluence half B, log10", "fluence half A + B, log10"),
        ("fluence_odd", "fluence_even", "fluence_even + odd"),
        ("First half of a run", "Second half of a run", "First + Second half of a run"),
        ("run 1.2 (2)", "run 1.2 (1)", "run 1.2 (1 + 2)"),
    ],
)
def test_halves_are_known_by_name(name, other, both):
    assert other_half(name, ["truth", name, other, f"denoised {other}"]) == other
    assert both_halves(name, other) == both


def test_other_names_are_no_halves():
    assert other_half("fluence", ["fluence b", "even", "seven"]) is None
    assert other_half("seven", ["sodd", "sodd n"]) is None
    assert both_halves("one", "another") == "one + another"


def test_the_other_half_is_chosen_and_a_choice_is_kept(viewer, panel):
    image = add_volume(viewer, EVEN, name="fluence even")
    second = panel.mode.second_box
    assert second.layer is None
    odd = add_volume(viewer, ODD, name="fluence odd")
    assert second.layer.name == odd.name
    assert panel.mode.alone.isHidden()
    second.setCurrentIndex(0)
    second.activated.emit(0)
    add_volume(viewer, ODD, name="something else")
    assert second.layer is None  # the user's own
    panel.image_box.layer_box.choose(odd)
    assert second.layer.name == image.name


def test_layers_that_go_stay_chosen_until_others_are(viewer, panel, qtbot):
    add_halves(viewer)
    odd = viewer.layers["fluence odd"]
    viewer.layers.remove(odd)
    assert panel.mode.second_box.layer == odd
    assert panel.mode.alone.isHidden()
    viewer.layers.clear()
    forget_choices(panel)
    assert not panel.mode.alone.isHidden()
    assert "there is no image" in error_after_run(qtbot, panel)


# -- errors -----------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_a_sentence(viewer, panel, qtbot):
    """As any input beside the image, which the noise map stands for."""
    add_halves(viewer)
    panel.mode.labels_box.choose(viewer.add_labels(np.ones((5, 6, 7), int), name="tissue"))
    assert "the labels layer 'tissue' has shape (7, 6, 5)" in error_after_run(qtbot, panel)
    panel.mode.second_box.choose(add_volume(viewer, half(1, (9, 8, 7)), name="small"))
    assert "the second half 'small' has shape (9, 8, 7)" in error_after_run(qtbot, panel)
    assert len(viewer.layers) == 4


def test_a_single_volume_and_gates_are_a_sentence(viewer, panel, qtbot):
    viewer.add_image(EVEN.T, name="fluence even")
    viewer.add_image(np.stack([ODD, ODD], -1).T, name="fluence odd", visible=False)
    panel.image_box.layer_box.choose(viewer.layers["fluence even"])
    assert "the second buffer has shape (24, 22, 20, 2)" in error_after_run(qtbot, panel)
    panel.image_box.layer_box.choose(viewer.layers["fluence odd"])
    assert "the second buffer has shape (24, 22, 20) and the first (24, 22, 20, 2)" in error_after_run(qtbot, panel)
    panel.preview_button.click()
    settle(qtbot, panel)
    assert "the second buffer has shape" in panel.message


# -- preview ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("affine", [np.eye(4), SAGITTAL], ids=["axial", "sagittal"])
def test_a_slice_is_nearly_what_a_run_gives(viewer, panel, qtbot, affine):
    shape = (24, 22, 60)
    image = add_halves(viewer, affine, half(0, shape), half(1, shape))
    axis = 1 if affine is SAGITTAL else 0  # of the layer: the long one
    viewer.dims.order = [axis, *[a for a in range(3) if a != axis]]
    viewer.dims.set_point(range(3), image.data_to_world((8, 8, 8)))
    seen = look(qtbot, panel).data.copy()
    run(qtbot, panel)
    clean, _, noise, _ = (np.take(layer.data, [8], axis) for layer in made(viewer))
    is_clear = clean > noise
    assert is_clear.mean() > 0.5
    np.testing.assert_allclose(seen[is_clear], clean[is_clear], rtol=0.05)


def test_the_preview_follows_labels_and_the_second_half(viewer, panel, qtbot, monkeypatch):
    monkeypatch.setattr(preview, "QUICK_SECONDS", 0.0)  # the middle comes first
    image = add_halves(viewer, np.eye(4))
    labels = add_labels(viewer, image, (np.indices(HALF_SHAPE)[0] > 11).astype(int))
    viewer.dims.set_point(0, 6)
    panel.live_box.setChecked(True)
    settle(qtbot, panel)
    for change in (lambda: panel.mode.labels_box.choose(labels), lambda: panel.mode.second_box.setCurrentIndex(0)):
        before = panel.preview.layer.data.copy()
        change()
        settle(qtbot, panel)
        assert panel.message == ""
        assert not np.array_equal(panel.preview.layer.data, before)


def test_a_slice_that_photons_of_one_half_have_not_reached_is_no_error(viewer, panel, qtbot):
    shape = (20, 20, 40)
    even, odd = half(0, shape), half(1, shape)
    even[:, :, 5:], odd[:, :, 3:] = 0, 0
    even[4, 4, 38] = 0.05
    add_halves(viewer, np.eye(4), even, odd)
    viewer.dims.set_point(0, 38)
    seen = look(qtbot, panel).data
    assert panel.message == ""
    assert seen.max() == pytest.approx(0.025)
