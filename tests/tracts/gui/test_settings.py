"""The dock widget "Fiber tracking": the settings, and Copy as Python."""

import numpy as np
import pytest
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtWidgets import QComboBox

from napari_gpubio import tracts
from napari_gpubio.core.space import apply_affine
from napari_gpubio.gui.views import set_view, view_of
from napari_gpubio.tracts.gui import TensorPanel
from napari_gpubio.tracts.napari_io import field_of, map_layer
from napari_gpubio.tracts.samples import brain_sample_layers, ring_sample_layers
from tests.dock_widgets import NOTHING_COPIED, moved, press_and_wait, run_script, save_scripts_as, script_of
from tests.tracts.gui.tracking_samples import (
    CALLOSUM,
    add_labels,
    add_maps,
    add_sample,
    add_scan,
    assert_same,
    field,
    on_screen,
)


def hidden_rows(form, *names):
    return {name for name in names if form.widget(name).native.isHidden()}


def test_only_the_rows_that_matter_are_shown(user):
    form, directions = user.panel.settings_form, user.panel.directions_form
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
    kinds = {"principal": {"count", "cone_half_angle_deg"}, "sphere": {"cone_half_angle_deg"}, "cone": set()}
    for kind, hidden in kinds.items():
        directions.widget("kind").value = kind
        assert hidden_rows(directions, "count", "cone_half_angle_deg") == hidden, kind


def test_the_fibers_follow_a_changed_setting_as_those_of_the_api(one):
    for method in ("vanaart2011", "eudx", "hamiltonian"):
        one.set("method", method)
        assert_same(one.fibers(), one.by_api())
    before = one.fibers().lengths_mm().max()
    one.set("max_length_mm", 40.0)
    assert before > 80 > 40.6 > one.fibers().lengths_mm().max() / 2  # each way
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


# -- Copy as Python ------------------------------------------------------------------------------------------------


def test_the_script_gives_the_same_fibers(viewer, empty, tmp_path):
    add_sample(viewer, brain_sample_layers)
    empty.click(CALLOSUM)
    empty.click(moved(CALLOSUM, 0.123456, -6.654321, 0.0))
    empty.list.currentItem().setText("left/right")  # no file name
    run_script(script_of(empty.panel), tmp_path)
    (path,) = tmp_path.rglob("*.trk")
    made, shown = tracts.io.read_tractogram(path), empty.fibers("left/right")
    assert len(made) == len(shown) > 0
    assert np.abs(made.lengths_mm() - shown.lengths_mm()).max() < 0.01


def test_the_script_of_a_label_region_saves_the_region(viewer, user, tmp_path, monkeypatch):
    viewer.layers.clear()
    add_sample(viewer, brain_sample_layers)
    layer, _ = add_labels(viewer, CALLOSUM)
    user.panel.settings_form.widget("method").value = "eudx"
    user.panel.directions_form.widget("kind").value = "principal"
    user.seed_from(layer)
    user.press("Track")
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    user.seed_from(layer)
    text = script_of(user.panel)
    assert (tmp_path / "region.nii.gz").is_file()
    run_script(text, tmp_path)
    made = tracts.io.read_tractogram(tmp_path / "region 1.trk")
    assert len(made) == len(user.fibers("region 1")) > 0


def test_the_script_of_tensors_fitted_in_a_painted_mask_runs_or_says_why_not(viewer, empty, qtbot, tmp_path):
    add_sample(viewer, brain_sample_layers)
    fitting = TensorPanel(PublicOnlyProxy(viewer))
    qtbot.addWidget(fitting)
    mask, _ = add_labels(viewer, moved(CALLOSUM, 20, -20, -10), size=15, name="painted")
    fitting.mask_box.choose(mask)
    press_and_wait(qtbot, fitting, fitting.run_button)
    fitting.teardown()
    empty.panel.source_box.choose(viewer.layers["brain phantom FA"])
    empty.click(CALLOSUM)
    text = script_of(empty.panel)
    if text == NOTHING_COPIED:
        assert "painted" in empty.message
    else:
        run_script(text, tmp_path)


def test_the_script_of_a_scan_before_its_fit_and_of_tensors_from_a_file(viewer, empty, tmp_path):
    empty.panel.bundles.add(CALLOSUM)
    add_scan(viewer)
    assert "field = tracts.fit_tensors(scan)\n" in script_of(empty.panel)
    path = tmp_path / "tensors.nii.gz"
    tracts.io.write_tensors(path, field())
    data, keywords, _ = map_layer(tracts.io.read_tensors(path), "FA", "study")
    empty.panel.source_box.choose(viewer.add_image(data, **keywords))
    assert f"field = tracts.io.read_tensors({str(path)!r})\n" in script_of(empty.panel)


def test_tensors_that_come_from_no_file_are_a_sentence(viewer, empty):
    add_sample(viewer, ring_sample_layers)
    ring = field_of(viewer.layers[0])
    fa = tracts.tensors.scalar_map(ring, "FA")
    empty.panel.place_seed(tuple(apply_affine(ring.affine, np.unravel_index(fa.argmax(), fa.shape))))
    empty.settle()
    assert script_of(empty.panel) == NOTHING_COPIED
    assert "do not come from a file" in empty.message
