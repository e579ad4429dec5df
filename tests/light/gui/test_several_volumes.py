"""The dock widget "Light transport" with several labels layers: each keeps what belongs to it, and gives nothing on."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.layer_files import MEDIA, STRUCTURES, write_image
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.diffusion.napari_io import read_layers as read_nifti_layers
from napari_gpubio.light.io.results import media_from
from napari_gpubio.optics.model import Domain, Medium
from tests.dock_widgets import press_and_wait
from tests.light.gui.panel_samples import (
    CENTER,
    FEW,
    LEFT,
    add_ball,
    ball,
    detector_rows,
    fluence,
    held_run,
    result,
    run,
    settle,
)
from tests.light.gui.panel_samples import (
    MEDIA as BALL_MEDIA,
)

CUBE = Medium(label=1, name="cube", mua_per_mm=1.0)


@pytest.fixture
def drawn(viewer):
    """A function that adds labels of the user's own, without properties, where the ball lies."""

    def add(name="my labels"):
        labels = viewer.layers["ball"]
        return viewer.add_labels(np.array(labels.data), name=name, affine=labels.affine.affine_matrix)

    return add


def choose(qtbot, panel, layer):
    panel.voxels.labels_box.choose(layer)
    panel.voxels.labels_box.settle()
    settle(qtbot, panel)


def test_new_labels_inherit_nothing_and_the_old_ones_keep_all(viewer, shown, qtbot, drawn):
    panel = shown
    panel.voxels.controller.add_detector((CENTER[0], CENTER[1], CENTER[2] + 21.0))
    panel.voxels.source_box.form.widget("source").value = "isotropic"
    panel.voxels.table.model.type_in({(0, panel.voxels.table.model.column_of("mua_per_mm")): "0.07"})
    settle(qtbot, panel)
    before, media, light = panel.voxels.draft(), panel.voxels.table.media(), fluence(viewer)
    displayed, made = panel.voxels.results.displayed, result(viewer)
    choose(qtbot, panel, drawn())
    assert panel.voxels.table.model.labels == (1, 2)
    assert [row.name for row in panel.voxels.table.model.rows] == ["", ""]
    assert panel.voxels.table.model.complete_media() == []
    assert panel.voxels.controller.optodes.source is None
    assert detector_rows(panel) == []
    assert panel.voxels.source_box.form.widget("source").value == "pencil"
    assert panel.voxels.results.displayed is None
    assert not panel.voxels.actions.isVisibleTo(panel)
    assert fluence(viewer) is None
    assert light in viewer.layers
    assert not light.visible
    choose(qtbot, panel, viewer.layers["ball"])
    again = panel.voxels.draft()
    assert (again.source, again.detectors) == (before.source, before.detectors)
    assert panel.voxels.table.media() == media
    assert panel.voxels.results.displayed is displayed
    assert fluence(viewer) is light
    assert light.visible
    assert result(viewer) is made  # nothing ran


def place(panel):
    panel.voxels.place_source(LEFT)


def type_absorption(panel):
    panel.voxels.table.model.type_in({(0, panel.voxels.table.model.column_of("mua_per_mm")): "0.07"})


@pytest.mark.parametrize("goes", ["hidden", "deleted"])
@pytest.mark.parametrize(("act", "stays"), [(None, False), (place, True), (type_absorption, True)])
def test_labels_that_were_worked_with_stay_chosen_when_new_ones_come(viewer, panel, qtbot, act, stays, goes):
    labels = viewer.layers["ball"]
    data, affine = np.array(labels.data), labels.affine.affine_matrix
    panel.voxels.run_box.set_live(False)
    if act is not None:
        act(panel)
    settle(qtbot, panel)
    before = panel.voxels.controller.optodes, panel.voxels.table.media()
    if goes == "hidden":
        labels.visible = False
    else:
        viewer.layers.remove(labels)
    new = viewer.add_labels(data, name="white matter", affine=affine)
    settle(qtbot, panel)
    assert panel.voxels.labels_box.layer == (labels if stays else new)
    if stays:
        assert (panel.voxels.controller.optodes, panel.voxels.table.media()) == before


def test_the_second_volume_keeps_its_own_too(viewer, shown, qtbot):
    domain = Domain(labels=np.ones((8, 8, 8), np.uint8), affine=np.eye(4), media=(CUBE,))
    cube = add_ball(viewer, domain, "cube")
    choose(qtbot, shown, cube)
    assert shown.voxels.table.media() == (CUBE,)
    shown.voxels.place_source((4.0, 4.0, 20.0))
    settle(qtbot, shown)
    made = result(viewer)
    assert made.domain.shape == (8, 8, 8)
    choose(qtbot, shown, viewer.layers["ball"])
    assert result(viewer).domain.shape == ball().shape
    assert shown.voxels.results.result is result(viewer)
    choose(qtbot, shown, cube)
    assert result(viewer) is made
    assert sum(layer.visible and "fluence" in layer.name for layer in viewer.layers) == 1


def test_a_run_goes_to_the_volume_that_it_was_begun_for(viewer, panel, qtbot, held, drawn):
    held_run(qtbot, panel, held)
    panel.voxels.labels_box.choose(drawn())
    held.go.set()
    settle(qtbot, panel)
    assert fluence(viewer) is None
    assert panel.voxels.results.displayed is None
    assert "choose ball again" in panel.status
    choose(qtbot, panel, viewer.layers["ball"])
    assert result(viewer).launched == FEW
    assert panel.voxels.results.result is result(viewer)


def test_a_result_of_labels_that_were_chosen_again_gets_more_photons(viewer, placed, qtbot, drawn):
    run(qtbot, placed)
    choose(qtbot, placed, drawn())
    choose(qtbot, placed, viewer.layers["ball"])
    run(qtbot, placed)
    assert result(viewer).launched == 2 * FEW


def test_properties_travel_with_labels_that_were_drawn_here(viewer, panel, qtbot, drawn, tmp_path):
    layer = drawn()
    choose(qtbot, panel, layer)
    assert carried(layer, MEDIA) is None
    panel.voxels.table.set_media([dataclasses.replace(medium, name=f"my {medium.name}") for medium in BALL_MEDIA])
    assert carried(layer, STRUCTURES) == {1: "my rind", 2: "my core"}
    assert [medium.name for medium in media_from(layer.metadata[KEY][MEDIA])] == ["my rind", "my core"]
    assert carried(viewer.layers["ball"], STRUCTURES) == {1: "rind", 2: "core"}
    path = tmp_path / "mine.nii.gz"
    write_image(str(path), *layer.as_layer_data_tuple()[:2])
    (data, keywords, _), *_ = read_nifti_layers(str(path))
    choose(qtbot, panel, viewer.add_labels(data, **keywords))
    assert [medium.name for medium in panel.voxels.table.media()] == ["my rind", "my core"]


# -- more photons ------------------------------------------------------------------------------------------------------


def test_more_photons_are_added_and_fewer_never_replace_them(viewer, placed, qtbot):
    photons = placed.voxels.run_box.photons
    run(qtbot, placed)
    first = result(viewer)
    placed.voxels.run_box.set_live(True)
    photons.set_value(3 * FEW)
    settle(qtbot, placed)
    assert result(viewer) is first
    assert f"Run adds {2 * FEW:,}" in placed.status
    run(qtbot, placed)
    assert result(viewer).launched == 3 * FEW
    assert f"{2 * FEW:,} photons added" in placed.status
    photons.set_value(FEW)
    settle(qtbot, placed)
    assert result(viewer).launched == 3 * FEW
    assert f"Run adds {FEW:,}" in placed.status
    run(qtbot, placed)
    assert result(viewer).launched == 4 * FEW
    fresh = placed.voxels.run_box.form.widget("seed")
    placed.voxels.run_box.set_live(False)
    fresh.value = 7
    run(qtbot, placed)
    assert result(viewer).launched == FEW  # of another seed: made anew


def test_a_quick_run_is_not_what_a_long_run_goes_on_with(viewer, placed, qtbot, held, monkeypatch):
    """Its batches are small; it stays on show until there are more photons."""
    voxels = placed.voxels
    monkeypatch.setattr(type(voxels), "quick_photons", FEW // 2)
    held.go.set()
    voxels.run_box.set_live(True)
    voxels.place_source(LEFT)
    settle(qtbot, placed)
    quick = result(viewer)
    assert quick.launched == FEW // 2
    held.again()
    placed.run_button.click()
    held.wait(qtbot)
    placed.run_button.click()
    settle(qtbot, placed)
    assert result(viewer) is quick
    assert f"the result with {FEW // 2:,} stays" in placed.status
    held.go.set()
    run(qtbot, placed)
    assert result(viewer).launched == FEW
    assert result(viewer).state.batch_size == FEW // 16


def test_a_stopped_run_goes_on_by_run_as_by_continue(viewer, panel, qtbot, held):
    held_run(qtbot, panel, held)
    press_and_wait(qtbot, panel, panel.run_button)
    settle(qtbot, panel)
    stopped = result(viewer)
    assert stopped.launched < FEW
    held.go.set()
    run(qtbot, panel)
    assert result(viewer).launched == FEW
    assert panel.voxels.results.displayed.operation.settings.photons == FEW
