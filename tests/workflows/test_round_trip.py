"""Layers of the chain saved by napari, opened by napari, and continued as if they had never been in a file."""

import numpy as np
import pytest

from napari_gpubio import workflows
from napari_gpubio.core.napari_io import carried, volume_of
from napari_gpubio.core.quantity import Quantity, guide_of, halves_of, quantity_of, standard_error_of, to_linear
from napari_gpubio.denoise.gui import DenoisePanel
from napari_gpubio.dose.gui import DosePanel
from napari_gpubio.light.napari_io import domain_of
from tests.dock_widgets import button, docked, press_and_wait, wait_until
from tests.light.gui.panel_samples import LEFT, MEDIA, ball, fluence, result, run, settle

FORMATS = pytest.mark.parametrize("ending", [".nii.gz", ".npz"])


def saved_and_opened(viewer, layer, path):
    """Save a layer as File > Save does, and open it as File > Open or a script does."""
    assert layer.save(str(path), plugin="napari-gpubio") == [str(path)]
    (opened,) = viewer.open(str(path), plugin="napari-gpubio")
    return opened


@pytest.fixture
def ran(ran, qtbot):
    """A panel with a result of the ball in mW/mm²."""
    ran.voxels.display_box.power_box.setValue(7.5)
    settle(qtbot, ran)
    return ran


@FORMATS
def test_labels_open_with_names_and_optical_properties_and_are_simulated_alike(viewer, ran, qtbot, tmp_path, ending):
    first = result(viewer)
    opened = saved_and_opened(viewer, viewer.layers["ball"], tmp_path / f"labels{ending}")
    assert type(opened).__name__ == "Labels"
    assert carried(opened, "structures") == {1: "rind", 2: "core"}
    domain = domain_of(opened)
    assert domain.media == MEDIA
    assert domain.outside_n == ball().outside_n
    ran.voxels.labels_box.choose(opened)
    settle(qtbot, ran)
    assert ran.voxels.table.media() == MEDIA
    ran.voxels.place_source(LEFT)  # that of another volume is not taken for it
    run(qtbot, ran)
    assert np.array_equal(ran.voxels.results.result.gates, first.gates)


@pytest.mark.daily
@pytest.mark.display
@FORMATS
def test_an_opened_fluence_is_cleaned_and_counted_as_the_one_on_screen(viewer, ran, qtbot, tmp_path, ending):
    made, layer = result(viewer), fluence(viewer)
    opened = saved_and_opened(viewer, layer, tmp_path / f"light{ending}")
    assert quantity_of(opened) == quantity_of(layer)
    assert quantity_of(opened).text == "log10 fluence rate (mW/mm²)"
    for of in (standard_error_of, halves_of, guide_of):
        np.testing.assert_array_equal(of(opened), of(layer))
    assert carried(opened, "result") is None
    denoise = docked(viewer, DenoisePanel(viewer), "Denoise")
    denoise.choose_device("cpu")
    denoise.image_box.layer_box.choose(opened)
    press_and_wait(qtbot, denoise, denoise.run_button)
    assert "thin, strong absorbers" not in denoise.message
    clean = viewer.layers[f"denoised {opened.name}"]
    again = saved_and_opened(viewer, clean, tmp_path / f"clean{ending}")
    assert quantity_of(again).name == "fluence rate"
    np.testing.assert_array_equal(volume_of(again), volume_of(clean))
    np.testing.assert_array_equal(standard_error_of(again), standard_error_of(clean))
    dose = docked(viewer, DosePanel(viewer), "Dose")
    dose.choose_device("cpu")
    dose.inputs_box.dose_box.choose(again)
    dose.inputs_box.structures.choose(viewer.layers["ball"])
    press_and_wait(qtbot, dose, dose.run_button)
    wait_until(qtbot, lambda: not dose.is_busy)
    assert dose.message == ""
    values = to_linear(volume_of(clean), quantity_of(clean))
    shown = dose.controller.live.results()[0]
    for name, label in (("rind", 1), ("core", 2)):
        assert shown[name].mean == pytest.approx(values[made.domain.labels == label].mean(dtype=float), rel=1e-3)
        assert shown[name].unit == "mW/mm²"
    for each in (denoise, dose):
        each.teardown()


def test_a_cleaned_fluence_is_saved_as_what_it_is(viewer, ran, qtbot, tmp_path):
    press_and_wait(qtbot, ran, button(ran, "Clean"))
    layer = next(one for one in viewer.layers if one.name.startswith("cleaned"))
    opened = saved_and_opened(viewer, layer, tmp_path / "clean.nii.gz")
    assert quantity_of(opened) == Quantity("fluence rate", "mW/mm²", "log10", "cleaned: light, 2,000 photons")
    expected = 7.5 * workflows.clean_fluence(result(viewer), device="cpu").image
    np.testing.assert_allclose(to_linear(volume_of(opened), quantity_of(opened)), expected, rtol=2e-5)


def test_the_exported_fluence_opens_with_its_meaning(viewer, ran, qtbot, tmp_path):
    results = ran.voxels.results
    results.files.write(tmp_path / "f.nii.gz", lambda path: results._fluence_writer()(path, results.displayed))
    wait_until(qtbot, lambda: not results.files.is_busy)
    (opened,) = viewer.open(str(tmp_path / "f.nii.gz"), plugin="napari-gpubio")
    assert quantity_of(opened).text == "fluence rate (mW/mm²)"
    np.testing.assert_allclose(volume_of(opened), 7.5 * result(viewer).fluence, rtol=1e-6)
    assert halves_of(opened).shape == (2, *ball().shape)
