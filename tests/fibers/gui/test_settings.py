"""The dock widget "Fiber tracking": the settings."""

import numpy as np
import pytest
from qtpy.QtWidgets import QComboBox

from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.napari_io import map_layer
from napari_gpubio.gui.views import set_view, view_of
from tests.dock_widgets import wait_until
from tests.fibers.gui.tracking_samples import CALLOSUM, add_maps, assert_same, field, on_screen


def hidden_rows(form, *names):
    return {name for name in names if form.widget(name).native.isHidden()}


def test_only_the_rows_that_matter_are_shown(user):
    form, directions = user.panel.settings_form, user.panel.directions_form
    rows = ("metric", "power", "max_drift", "interpolation", "texture", "step_mm", "fa_stop")
    expected = {
        ("hamiltonian", "inverse"): {"power", "texture"},
        ("hamiltonian", "sharpened"): {"texture"},
        ("vanaart2011", "sharpened"): {"interpolation"},
        ("vanaart2011", "inverse"): {"interpolation", "power"},
        ("eudx", "sharpened"): {"metric", "power", "max_drift", "interpolation", "texture"},
        ("hamiltonian", "adjugate"): {"power", "texture"},
    }
    for (method, metric), hidden in expected.items():
        form.widget("metric").value = metric
        form.widget("method").value = method
        assert hidden_rows(form, *rows) == hidden, (method, metric)
    neighbors = ("corner_angle_deg", "corner_weight")
    form.widget("method").value = "eudx"
    assert not hidden_rows(form, *neighbors)
    assert directions.widget("directions").choices == ("principal",)
    assert hidden_rows(directions, "count", "half_angle_deg") == {"count", "half_angle_deg"}
    form.widget("method").value = "hamiltonian"
    assert hidden_rows(form, *neighbors) == set(neighbors)
    kinds = {"principal": {"count", "half_angle_deg"}, "isotropic": {"half_angle_deg"}, "cone": set()}
    assert directions.widget("directions").choices == ("cone", "isotropic", "principal")
    for kind, hidden in kinds.items():
        directions.widget("directions").value = kind
        assert hidden_rows(directions, "count", "half_angle_deg") == hidden, kind


def test_the_fibers_follow_a_changed_setting_as_those_of_the_api(one):
    for method in ("vanaart2011", "eudx", "hamiltonian"):
        one.set("method", method)
        assert_same(one.fibers(), one.by_api())
    before = one.fibers().lengths_mm().max()
    one.set("max_length_mm", 40.0)
    assert before > 80 > 40 >= one.fibers().lengths_mm().max() > 38  # of the whole fiber
    assert_same(one.fibers(), one.by_api())


def test_the_step_fits_the_voxels_and_stays_as_the_user_set_it(viewer, user):
    step = user.panel.settings_form.widget("step_mm")
    assert step.value == pytest.approx(0.2 * 2.75)
    step.value = 0.3
    add_maps(viewer, ["MD"])
    viewer.layers["study FA"].name = "FA of the study"
    assert step.value == pytest.approx(0.3)
    viewer.layers.remove("study MD (mm²/s)")
    viewer.layers.remove("FA of the study")
    add_maps(viewer)
    assert step.value == pytest.approx(0.3)  # the same tensors


def test_fibers_stay_as_they_are_until_they_are_asked_for_anew(viewer, one, qtbot):
    panel, before = one.panel, one.fibers()

    def says():
        wait_until(qtbot, lambda: not (panel.stale_line.is_busy or panel.is_busy))
        return "" if panel.stale_line.isHidden() else panel.stale_line.text()

    assert not says()
    every_other = (slice(None, None, 2),) * 3
    coarse = TensorField(
        tensors=field().tensors[every_other],
        mask=field().mask[every_other],
        affine=field().affine @ np.diag([2, 2, 2, 1]),
    )
    data, keywords, _ = map_layer(coarse, "FA", "coarse")
    panel.source_box.choose(viewer.add_image(data, **keywords))
    assert says() == "Made with other inputs: Step 0.55 instead of 1.1 mm; Tensors: other values"
    assert one.fibers() is before
    one.press("Track")
    assert not says()
    assert one.fibers() is not before


def test_left_and_right(viewer, user):
    box = user.panel.view_box.findChild(QComboBox)
    assert (box.currentData(), view_of(viewer)) == ("neurological",) * 2  # since the scan was opened
    for name in ("neurological", "radiological"):
        box.setCurrentIndex(box.findData(name))
        box.activated.emit(box.currentIndex())
        assert view_of(viewer) == name
    set_view(viewer, "neurological")
    assert box.currentData() == "neurological"


@pytest.mark.display
def test_what_fibers_are_seen_against(viewer, one):
    fa = viewer.layers["study FA"]
    assert fa.depiction == "plane", "a volume takes twice as long to draw and hides fibers"
    for name, normal in (("axial", (1, 0, 0)), ("coronal", (0, 1, 0)), ("sagittal", (0, 0, 1))):
        one.panel.context_box.choose(name)
        assert fa.depiction == "plane"
        assert np.allclose(np.abs(fa.plane.normal), normal)
        assert np.allclose(fa.data_to_world(fa.plane.position), on_screen(CALLOSUM), atol=1e-3)
    one.panel.context_box.choose("volume")
    assert fa.depiction == "volume"
