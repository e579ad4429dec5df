"""The dock widget "Fiber tracking": Copy as Python."""

import numpy as np
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio import tracts
from napari_gpubio.core.space import apply_affine
from napari_gpubio.tracts.gui import TensorPanel
from napari_gpubio.tracts.napari_io import field_of, map_layer
from napari_gpubio.tracts.samples import brain_sample_layers, ring_sample_layers
from tests.dock_widgets import NOTHING_COPIED, moved, press_and_wait, run_script, save_scripts_as, script_of
from tests.tracts.gui.tracking_samples import CALLOSUM, add_labels, add_sample, add_scan, field


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
