"""The panel: figures and the checkerboard of a run, labels carried over with their names, and the script of both."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.core.napari_io import KEY, volume_layer, volume_of
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.diffusion.napari_io import atlas_layer
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.registration.gui import RegistrationPanel
from tests.dock_widgets import docked, press_and_wait, run_script, save_scripts_as, script_of, until_the_end
from tests.registration.samples import moved, needs_sitk, scan


@pytest.fixture
def panel(napari_in_tests, qtbot):
    """With a T1, its labels, and the mean b = 0 of a scan."""
    needs_sitk()
    viewer = ViewerModel()
    data, keywords, _ = volume_layer(scan().b0, scan().affine, "b0")
    viewer.add_image(data, **keywords)
    data, keywords, _ = volume_layer(moved().t1.astype(np.float32), moved().affine, "t1")
    viewer.add_image(data, **keywords)
    names = {17: "gray matter", 12_000: "white matter"}
    data, keywords, _ = atlas_layer(Atlas(labels=moved().labels, affine=moved().affine, names=names), "aparc")
    viewer.add_labels(data, **keywords)
    panel = docked(viewer, RegistrationPanel(viewer), "Registration")
    panel.form.boxes["moving"].choose(viewer.layers["t1"])
    panel.form.boxes["onto"].choose(viewer.layers["b0"])
    panel.form.settings.widget("iterations").value = 1
    yield from until_the_end(qtbot, viewer, panel)


@pytest.mark.daily
def test_a_run_its_figures_and_the_script_with_what_was_carried_over(panel, qtbot, monkeypatch, tmp_path):
    panel.carry_over()
    assert "press Run first" in panel.message
    press_and_wait(qtbot, panel, panel.run_button)
    assert "overlap of the brains" in panel.figures_label.text()
    image, board = panel.layer_of("image"), panel.layer_of("checkerboard")
    assert image.visible
    assert image.metadata[KEY]["parameters"]["overlap_after"] > 0
    assert NOTES in image.metadata[KEY]
    panel.toggle_board()
    assert board.visible
    panel.carry_box.choose(panel.viewer.layers["aparc"])
    press_and_wait(qtbot, panel, panel.carry_button)
    labels = panel.viewer.layers["aparc on b0"]
    assert labels.metadata[KEY]["structures"][12_000] == "white matter"
    assert volume_of(labels).shape == scan().b0.shape
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    run_script(script_of(panel), tmp_path)
    np.testing.assert_array_equal(read_volume(tmp_path / "register image.nii.gz")[0], volume_of(image))
    np.testing.assert_array_equal(read_volume(tmp_path / "aparc on b0.nii.gz")[0], volume_of(labels))
