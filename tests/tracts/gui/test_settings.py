"""The dock widget "Fiber tracking": the settings."""

import numpy as np
import pytest
from qtpy.QtWidgets import QComboBox

from napari_gpubio.gui.views import set_view, view_of
from napari_gpubio.tracts.napari_io import map_layer
from tests.tracts.gui.tracking_samples import (
    CALLOSUM,
    add_maps,
    assert_same,
    by_api,
    fibers_layers,
    field,
    on_screen,
    settle,
    tractogram,
)

# ------------------------------------------------------------------------------------------------------ the settings


def hidden_rows(form, *names):
    return {name for name in names if form.widget(name).native.isHidden()}


def test_only_the_rows_that_matter_are_shown(panel):
    form = panel.settings_form
    rows = ("metric", "sharpening", "max_drift", "interpolation", "texture", "step_mm", "fa_stop")
    expected = {
        ("hamiltonian", "inverse"): {"sharpening", "texture"},
        ("hamiltonian", "sharpened"): {"texture"},
        ("vanaart2011", "sharpened"): {"interpolation"},
        ("vanaart2011", "inverse"): {"interpolation", "sharpening"},
        ("eudx", "sharpened"): {"metric", "sharpening", "max_drift", "interpolation", "texture"},
        ("hamiltonian", "adjugate"): {"sharpening", "texture"},
    }
    for (method, metric), hidden in expected.items():
        form.widget("metric").value = metric
        form.widget("method").value = method
        assert hidden_rows(form, *rows) == hidden, (method, metric)
    for kind, hidden in (
        ("principal", {"count", "cone_half_angle_deg"}),
        ("sphere", {"cone_half_angle_deg"}),
        ("cone", set()),
    ):
        panel.directions_form.widget("kind").value = kind
        assert hidden_rows(panel.directions_form, "count", "cone_half_angle_deg") == hidden, kind


def test_every_method_gives_what_the_api_gives(viewer, one, qtbot):
    for method in ("vanaart2011", "eudx", "hamiltonian"):
        one.settings_form.widget("method").value = method
        settle(qtbot, one)
        assert_same(tractogram(fibers_layers(viewer)["bundle 1"]), by_api(one, one.bundles.current.center_mm))


def test_the_fibers_follow_a_changed_setting(viewer, one, qtbot):
    before = tractogram(fibers_layers(viewer)["bundle 1"])
    one.settings_form.widget("max_length_mm").value = 40.0
    settle(qtbot, one)
    after = tractogram(fibers_layers(viewer)["bundle 1"])
    assert before.lengths_mm().max() > 80 > 40.6 > after.lengths_mm().max() / 2  # each way
    assert_same(after, by_api(one, one.bundles.current.center_mm))


def test_the_step_fits_the_voxels_and_stays_as_the_user_set_it(viewer, panel, qtbot):
    step = panel.settings_form.widget("step_mm")
    assert step.value == pytest.approx(0.2 * 2.75)
    step.value = 0.3
    data, keywords, _ = map_layer(field(), "MD", "study")
    viewer.add_image(data, **keywords)
    viewer.layers["study FA"].name = "FA of the study"
    assert step.value == pytest.approx(0.3)
    viewer.layers.remove("study MD (mm²/s)")
    viewer.layers.remove("FA of the study")
    add_maps(viewer)
    assert step.value == pytest.approx(0.3)  # the same tensors


def test_left_and_right(viewer, panel):
    box = panel.view_box.findChild(QComboBox)
    assert "mirrored" in box.currentText()
    for name in ("neurological", "radiological"):
        box.setCurrentIndex(box.findData(name))
        box.activated.emit(box.currentIndex())
        assert view_of(viewer) == name
    set_view(viewer, "neurological")
    assert box.currentData() == "neurological"


@pytest.mark.display
def test_what_fibers_are_seen_against(viewer, one):
    fa = viewer.layers["study FA"]
    for name, normal in (("axial", (1, 0, 0)), ("coronal", (0, 1, 0)), ("sagittal", (0, 0, 1))):
        one.context_box.choose(name)
        assert fa.depiction == "plane"
        assert np.allclose(np.abs(fa.plane.normal), normal)
        assert np.allclose(fa.data_to_world(fa.plane.position), on_screen(CALLOSUM), atol=1e-3)
    one.context_box.choose("volume")
    assert fa.depiction == "volume"
