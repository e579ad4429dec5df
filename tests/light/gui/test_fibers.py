"""The dock widget "Light transport": scattering that follows the fibers of tensors that another panel has made."""

import numpy as np
import pytest

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.napari_io import map_layer
from napari_gpubio.light.gui.domains import Domains
from napari_gpubio.light.io.results import load_result
from napari_gpubio.optics.anisotropy import with_fibers
from tests.dock_widgets import save_scripts_as, script_of, shown_by_script
from tests.light.gui.panel_samples import LEFT, ball, result, run, settle

COARSE = ball().affine @ np.diag([2.0, 2.0, 2.0, 1.0])


def field():
    """Tensors of fibers along (1, 1, 0), on a coarser grid than the labels."""
    shape = (26, 13, 11)
    tensors = np.zeros((*shape, 6), np.float32)
    tensors[...] = np.array([1.0, 1.0, 0.3, 0.7, 0.0, 0.0]) * 1e-3
    return TensorField(tensors=tensors, mask=np.ones(shape, bool), affine=COARSE)


def add_map(viewer, own=None, name="FA"):
    data, keywords, _ = map_layer(own or field(), name, "brain")
    return viewer.add_image(data, **keywords)


@pytest.fixture
def fiber_box(panel):
    return panel.voxels.fiber_box


def names(box):
    return [box.itemText(index) for index in range(box.count())]


def test_it_is_offered_while_a_layer_has_tensors(viewer, panel, fiber_box, qtbot):
    assert fiber_box.isHidden()
    own = field()
    layer = add_map(viewer, own)
    colors = add_map(viewer, own, name="DEC")
    assert not fiber_box.isHidden()
    assert names(fiber_box.choice) == ["none", "brain FA", "brain DEC (choose the FA of the same tensors)"]
    assert fiber_box.value is None
    assert fiber_box.labels_box.isHidden()
    fiber_box.choice.choose(layer)
    assert not fiber_box.labels_box.isHidden()
    assert names(fiber_box.labels_box) == ["all labels", "1 rind", "2 core"]
    viewer.layers.remove(layer)
    assert fiber_box.value is not None
    fiber_box.choice.setCurrentIndex(0)
    assert fiber_box.value is None
    viewer.layers.remove(colors)
    assert fiber_box.isHidden()


def test_nothing_is_computed_again_when_the_panel_closes(viewer, fiber_box, qtbot):
    fiber_box.choice.choose(add_map(viewer))
    with qtbot.assertNotEmitted(fiber_box.changed):
        fiber_box.detach()


def test_a_scan_without_tensors_is_listed_with_what_to_do(viewer, fiber_box):
    viewer.add_image(np.zeros((4, 4, 4)), name="scan", metadata={KEY: {"scan": object()}})
    assert names(fiber_box.choice) == ["none", "scan (a scan; fit its diffusion tensors first)"]
    assert fiber_box.value is None


def test_a_model_that_is_not_reciprocal_is_named_so(viewer, fiber_box):
    fiber_box.choice.choose(add_map(viewer))
    assert "no wavelength" in fiber_box._note.text()
    fiber_box.model_box.setCurrentIndex(1)
    assert "not reciprocal" in fiber_box._note.text()
    assert "not reciprocal" in fiber_box.model_box.currentText()


@pytest.mark.daily
@pytest.mark.parametrize(("label", "model"), [(None, "product"), (2, "free")])
def test_runs_follow_the_fibers_and_the_script_gives_the_same_numbers(
    viewer, panel, fiber_box, qtbot, tmp_path, monkeypatch, label, model
):
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    run(qtbot, panel)
    plain = result(viewer)
    assert not plain.domain.is_anisotropic
    fiber_box.choice.choose(add_map(viewer))
    fiber_box.labels_box.setCurrentIndex(fiber_box.labels_box.findData(label) if label else 0)
    fiber_box.model_box.setCurrentIndex(fiber_box.model_box.findData(model))
    run(qtbot, panel)
    shown = result(viewer)
    own = field()
    expected = with_fibers(
        plain.domain, own.tensors, own.affine, labels=None if label is None else [label], model=model
    )
    np.testing.assert_array_equal(shown.domain.mus_tensor_per_mm, expected.mus_tensor_per_mm)
    assert (shown.domain.scattering_model, shown.domain.notes) == (model, expected.notes)
    assert not np.array_equal(shown.gates, plain.gates)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    made = load_result(tmp_path / "ball.npz")
    assert np.array_equal(made.gates, shown.gates)
    assert made.energy == shown.energy


def test_tensors_that_do_not_lie_in_the_tissue_are_a_sentence(viewer, panel, fiber_box, qtbot):
    away = np.array(COARSE)
    away[:3, 3] += 1000
    own = TensorField(tensors=field().tensors, mask=field().mask, affine=away)
    fiber_box.choice.choose(add_map(viewer, own))
    panel.voxels.place_source(LEFT)
    settle(qtbot, panel)
    assert "tissue voxels has a diffusion tensor" in panel.message


def test_fibers_are_found_once_while_optical_properties_change(viewer, panel, fiber_box, monkeypatch):
    fiber_box.choice.choose(add_map(viewer))
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    domains = Domains()
    first = domains.of(panel.voxels.draft().volume)
    assert domains.of(panel.voxels.draft().volume) is first
    monkeypatch.setattr("napari_gpubio.light.gui.domains.fiber_map", None)  # would not be called again
    panel.voxels.table.model.type_in({(0, 3): "1.5"})
    second = domains.of(panel.voxels.draft().volume)
    assert second.medium(1).mus_per_mm == 1.5
    ratio = second.mus_tensor_per_mm[25, 3, 10, 2] / first.mus_tensor_per_mm[25, 3, 10, 2]
    assert ratio == pytest.approx(1.5, rel=1e-5)
    fiber_box.choice.setCurrentIndex(0)
    assert not domains.of(panel.voxels.draft().volume).is_anisotropic


def test_labels_that_go_are_not_offered_and_a_chosen_one_is_marked(viewer, fiber_box):
    box = fiber_box.labels_box
    fiber_box.choice.choose(add_map(viewer))
    fiber_box.show_labels({1: "a", 2: "b", 3: "c"})
    box.setCurrentIndex(1)
    fiber_box.show_labels({1: "a", 2: "b"})
    assert names(box) == ["all labels", "1 a", "2 b"]
    box.setCurrentIndex(2)
    fiber_box.show_labels({1: "a"})
    assert names(box)[:2] == ["all labels", "1 a"]
    assert len(names(box)) == 3
    assert "not" in box.currentText()
    assert fiber_box.value.labels == (2,)  # not all labels
    fiber_box.show_labels({})
    assert len(names(box)) == 2
    fiber_box.show_labels({1: "a", 2: "b"})
    assert names(box) == ["all labels", "1 a", "2 b"]
    assert fiber_box.value.labels == (2,)


def test_another_map_is_offered_where_there_is_no_fa(viewer, fiber_box):
    own = field()
    colors = add_map(viewer, own, name="DEC")
    assert names(fiber_box.choice) == ["none", "brain DEC"]
    fiber_box.choice.choose(colors)
    chosen = add_map(viewer, own)
    assert fiber_box.layer == colors  # stays chosen
    fiber_box.choice.choose(chosen)
    add_map(viewer, own, name="MD")
    texts = names(fiber_box.choice)
    assert [text.split(" (")[0] for text in texts] == ["none", "brain FA", "brain MD", "brain DEC"]
    assert all("FA of the same tensors" in text for text in texts[2:])
