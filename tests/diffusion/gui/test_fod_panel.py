"""The dock widget "Fiber orientations": from a scan to glyphs, files in any basis, and fibers in FODs."""

import dataclasses
import threading
from contextlib import nullcontext

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import diffusion
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.steps import drive
from napari_gpubio.core.tensor_components import axes_of
from napari_gpubio.diffusion.fods.napari_io import fixels_of, fod_layer, fods_of
from napari_gpubio.diffusion.gui import FodPanel
from napari_gpubio.diffusion.gui.fods import responses
from napari_gpubio.fibers.gui import TrackingPanel
from napari_gpubio.tractograms.gui.numbers import picked_numbers, reason_text
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.fods import fixel_samples
from tests.diffusion.fods.samples import straight_bundles
from tests.diffusion.fods.scan_samples import (
    THREE_SHELLS,
    TISSUES,
    scan_of,
    several_shells,
    tissue_matrix,
    tissue_mixture,
)
from tests.diffusion.gui.tensor_samples import saved
from tests.dock_widgets import button, press_and_wait, script_of, shown_by_script, until_the_end, wait_until
from tests.sentences import says

SHIFTED = np.array([[2.0, 0, 0, -20], [0, 2.0, 0, -18], [0, 0, 2.0, 4], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """The coarse brain, from a file."""
    return diffusion.io.read_dwi(saved(coarse_brain(3), tmp_path_factory.mktemp("scan")))


@pytest.fixture(scope="module")
def field(scan):
    return diffusion.fit_tensors(scan)


@pytest.fixture(scope="module")
def fods(scan, field):
    """FODs of the scan, of the response of few voxels."""
    settings = diffusion.HighestFa(voxels=100, lmax=4)
    response = diffusion.estimate_response(scan, settings=settings, field=field)
    return diffusion.deconvolve(scan, response, field.mask, diffusion.CsdSettings(lmax=4))


@pytest.fixture
def panel(viewer, qtbot):
    """A panel in an empty viewer."""
    yield from until_the_end(qtbot, viewer, FodPanel(viewer))


def crossing():
    return straight_bundles([(1, 0, 0), (0, 1, 0)], shape=(16, 16, 16), affine=SHIFTED)


def add_scan(viewer, scan):
    for data, keywords, kind in diffusion.napari_io.scan_layers(scan, "dwi"):
        getattr(viewer, f"add_{kind}")(data, **keywords)


def add_fods(viewer, fods=None):
    data, keywords, _ = fod_layer(fods or crossing(), "study")
    return viewer.add_image(data, **keywords)


def drawn(panel, qtbot):
    wait_until(qtbot, lambda: not panel.glyphs.is_busy)
    return panel.glyphs.layer


@pytest.mark.daily
@pytest.mark.display
def test_a_scan_is_deconvolved_checked_and_drawn(viewer, panel, qtbot, scan):
    add_scan(viewer, scan)
    panel.form.widget("lmax").value = 6
    press_and_wait(qtbot, panel, panel.run_button)
    fods = panel.fods
    assert fods.lmax == 6
    assert "agree with the tensors" in panel.check_label.text()
    assert panel.fod_box.layer.name.endswith("FOD")
    assert drawn(panel, qtbot) is not None


@pytest.mark.daily
def test_the_script_makes_the_same_fods(viewer, panel, qtbot, scan, tmp_path, monkeypatch):
    add_scan(viewer, scan)
    panel.form.widget("lmax").value = 4
    press_and_wait(qtbot, panel, panel.run_button)
    there = shown_by_script(script_of(panel), tmp_path, monkeypatch)
    made = fods_of(there.layers[panel.fod_box.layer.name])
    np.testing.assert_array_equal(made.coefficients, panel.fods.coefficients)


@pytest.mark.display
def test_glyphs_follow_the_slice_and_go_with_their_box(viewer, panel, qtbot):
    add_fods(viewer)
    panel.glyphs.attach()
    layer = drawn(panel, qtbot)
    assert layer is not None
    steps, before = viewer.dims.current_step, np.array(layer.data[0])
    axis = viewer.dims.order[0]
    plane = before[:, axis] * layer.scale[axis]
    np.testing.assert_allclose(plane, viewer.dims.point[axis], atol=1e-4)
    viewer.dims.set_current_step(axis, steps[axis] + 1)
    qtbot.wait(150)
    moved = np.array(drawn(panel, qtbot).data[0])
    np.testing.assert_allclose(moved[:, axis] * layer.scale[axis], viewer.dims.point[axis], atol=1e-4)
    layer.visible = False
    viewer.dims.set_current_step(axis, steps[axis])
    qtbot.wait(150)
    assert not drawn(panel, qtbot).visible, "what the user has hidden stays so"
    layer.visible = True
    viewer.dims.set_current_step(axis, 0)  # where no fiber is
    qtbot.wait(150)
    wait_until(qtbot, lambda: not panel.glyphs.is_busy)
    assert not panel.glyphs.layer.visible
    assert "no FODs in this part" in panel.message
    viewer.layers.remove(panel.glyphs.layer)
    viewer.dims.set_current_step(axis, steps[axis])
    qtbot.wait(150)
    assert drawn(panel, qtbot) is None, "what the user has deleted stays so"
    for is_checked in (False, True):
        panel.shows_glyphs.setChecked(is_checked)
        assert (drawn(panel, qtbot) is not None) == is_checked


def test_files_in_a_wrong_basis_are_found_out(viewer, panel, qtbot, field, fods, tmp_path):
    diffusion.io.write_fods(tmp_path / "dipy.nii.gz", fods, basis="descoteaux_legacy")
    (tmp_path / "dipy.json").unlink()  # so that the file does not say its basis
    data, keywords, _ = diffusion.napari_io.map_layer(field, "FA", "study")
    viewer.add_image(data, **keywords)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fods(tmp_path / "dipy.nii.gz")
    assert "disagree with the tensors" in panel.check_label.text()
    assert "descoteaux_legacy" in panel.check_label.text()
    panel.basis_box.setCurrentIndex(panel.basis_box.findData("descoteaux_legacy"))
    panel.frame_box.setCurrentIndex(panel.frame_box.findData("world"))
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fods(tmp_path / "dipy.nii.gz")
    assert "FODs agree with the tensors" in panel.check_label.text()
    np.testing.assert_allclose(panel.fods.coefficients, fods.coefficients, atol=1e-6)


def test_files_are_checked_in_any_order_of_their_voxels(viewer, panel, qtbot, field, fods, tmp_path):
    turned = dataclasses.replace(
        fods,
        coefficients=np.ascontiguousarray(fods.coefficients[::-1].transpose(1, 0, 2, 3)),
        mask=fods.mask[::-1].transpose(1, 0, 2),
        affine=fods.affine @ [[0, -1, 0, fods.shape[0] - 1], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    )
    diffusion.io.write_fods(tmp_path / "turned.nii.gz", turned)
    diffusion.io.write_peaks(tmp_path / "peaks.nii.gz", diffusion.find_peaks(turned))
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fods(tmp_path / "turned.nii.gz")
    assert "not checked" in panel.check_label.text()
    data, keywords, _ = diffusion.napari_io.map_layer(field, "FA", "study")
    viewer.add_image(data, **keywords)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fods(tmp_path / "turned.nii.gz")
    assert "FODs agree with the tensors" in panel.check_label.text()
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fixels(tmp_path / "peaks.nii.gz")
    assert "fixels agree with the tensors" in panel.check_label.text()
    panel.frame_box.setCurrentIndex(panel.frame_box.findData("fsl"))
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fixels(tmp_path / "peaks.nii.gz")
    assert "disagree with the tensors" in panel.check_label.text()


@pytest.mark.parametrize("intent", ["none", "vector"])  # the latter is refused without tensors
def test_open_tensors_tell_the_axes_that_peaks_do_not_say(viewer, panel, qtbot, field, fods, intent, tmp_path):
    directions, amplitudes = diffusion.find_peaks(fods).dense()
    own = directions * amplitudes[..., None] @ axes_of("fsl", fods.affine).astype(np.float32)
    path, image = tmp_path / "peaks.nii.gz", nib.Nifti1Image(own.reshape(*fods.shape, -1), fods.affine)
    image.header.set_intent(intent)
    nib.save(image, path)
    with nullcontext() if intent == "none" else pytest.raises(InvalidInput, match="not clear"):
        assert diffusion.io.read_fixels(path).parameters["frame"] == "world"  # as most such files have it
    data, keywords, _ = diffusion.napari_io.map_layer(field, "FA", "study")
    viewer.add_image(data, **keywords)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fixels(path)
    assert "fixels agree with the tensors" in panel.check_label.text()
    layer = viewer.layers["peaks fixels"]
    assert fixels_of(layer).parameters["frame"] == "fsl"
    assert record_of(layer).of.frame == "fsl"
    assert says(panel.message, "axes of the bvec file", "agree with the tensors" if intent == "none" else "VECTOR")


def test_bedpostx_is_opened_by_any_of_its_files(viewer, panel, qtbot, tmp_path):
    folder = fixel_samples.bedpostx(tmp_path, SHIFTED)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fixels(folder / "dyads1.nii.gz")
    np.testing.assert_array_equal(
        fixels_of(viewer.layers["a fixels"]).directions, diffusion.io.read_fixels(folder).directions
    )


def test_a_run_that_is_stopped_before_the_deconvolution_says_so(viewer, panel, qtbot, scan):
    add_scan(viewer, scan)
    layers, stop = list(viewer.layers), threading.Event()
    stop.set()
    for _ in panel.show_result(drive(panel.make_steps(stop))):
        pass
    assert "stopped before the deconvolution began" in panel.message
    assert list(viewer.layers) == layers


def test_a_response_of_a_file_is_used(panel, qtbot, tmp_path, monkeypatch):
    response = diffusion.Response(coefficients=np.array([[105.9, -35.7, 6.7, -0.7]]), bvals=(1000,))
    diffusion.fods.write_response(tmp_path / "wm.txt", response)
    monkeypatch.setattr(responses, "open_paths", lambda *_: [tmp_path / "wm.txt"])
    button(panel, "Open…").click()
    box = panel.response_box.box
    assert box.currentText() == "wm.txt"
    (opened,) = panel.response_box.choice.responses
    np.testing.assert_allclose(opened.coefficients, response.coefficients, rtol=1e-5)
    box.setCurrentIndex(0)
    assert panel.response_box.choice.responses == ()
    box.setCurrentIndex(box.findText("wm.txt"))
    assert panel.response_box.choice.responses == (opened,), "a response that was opened can be chosen again"


def test_two_tissues_of_a_scan_are_told_apart_and_normalized(viewer, panel, qtbot, scan, tmp_path, monkeypatch):
    add_scan(viewer, scan)
    panel.form.widget("lmax").value = 4
    assert not panel.response_box.normalize.isVisibleTo(panel)
    panel.response_box.box.setCurrentIndex(panel.response_box.box.findText("two tissues: white matter, CSF"))
    assert panel.response_box.normalize.isVisibleTo(panel)
    panel.response_box.normalize.setChecked(True)
    press_and_wait(qtbot, panel, panel.run_button)
    fods, study = panel.fods, carried(panel.fod_box.layer, "study")
    assert list(fods.tissues) == ["csf"]
    assert "normalization" in fods.parameters
    csf = viewer.layers[f"{study} CSF"]
    assert not csf.visible
    assert viewer.layers.index(csf) > viewer.layers.index(panel.fod_box.layer), "else the FODs would cover it"
    assert viewer.layers.selection.active == panel.fod_box.layer
    assert csf.colormap.name == "red"
    there = shown_by_script(script_of(panel), tmp_path, monkeypatch)
    made = fods_of(there.layers[panel.fod_box.layer.name])
    np.testing.assert_array_equal(made.tissues["csf"], fods.tissues["csf"])
    assert f"{study} CSF" in there.layers


def test_files_of_three_tissues_are_put_in_order(viewer, panel, qtbot, tmp_path):
    bvals, directions = several_shells()
    files = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt")]
    for path, rows in zip(files, TISSUES[::-1], strict=True):  # CSF first
        diffusion.fods.write_response(path, diffusion.Response(coefficients=np.array(rows, float), bvals=THREE_SHELLS))
    coefficients = tissue_mixture(120, TISSUES, blur=0.06)
    signals = coefficients @ tissue_matrix(bvals, directions, TISSUES, 8).T
    scan = scan_of(signals, bvals, directions)
    (data, keywords, _), *_ = diffusion.napari_io.scan_layers(scan, "mixed")
    viewer.add_image(data, **keywords)
    panel.response_box.open(files)
    assert panel.response_box.box.currentText() == "c.txt, b.txt, a.txt"
    mask = viewer.add_labels(np.ones(scan.shape[::-1], np.uint8), name="everywhere")
    panel.mask_box.choose(mask)
    press_and_wait(qtbot, panel, panel.run_button)
    fods = panel.fods
    np.testing.assert_allclose(fods.tissues["gm"].ravel(), coefficients[:, -2], atol=2e-3)
    np.testing.assert_allclose(fods.tissues["csf"].ravel(), coefficients[:, -1], atol=2e-3)
    panel.response_box.open(files[:2])
    assert "the first must be that of white matter" in panel.message
    assert panel.response_box.box.currentText() == "c.txt, b.txt, a.txt", "a refusal changes nothing"


def test_bad_input_is_reported_and_loses_nothing(viewer, panel, qtbot, tmp_path):
    panel.run()
    assert "no diffusion scan" in panel.message
    (tmp_path / "words.txt").write_text("one two three")
    panel.response_box.open([tmp_path / "words.txt"])
    assert "has 'one', which is no finite number" in panel.message
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fods(tmp_path / "gone.nii.gz")
    assert "gone.nii.gz" in panel.message
    assert panel.response_box.box.currentIndex() == 0


def test_peaks_become_fixels_that_geodesics_are_tracked_in(viewer, panel, qtbot, tmp_path):
    fods = crossing()
    diffusion.io.write_fods(tmp_path / "fod.nii.gz", fods)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fods(tmp_path / "fod.nii.gz")
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.find_peaks()
    fixels = fixels_of(viewer.layers["fod fixels"])
    expected = diffusion.find_peaks(fods_of(viewer.layers["fod FOD"]), device="cpu")
    np.testing.assert_array_equal(fixels.directions, expected.directions)
    panel.peak_form.widget("most").value = 1
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.find_peaks()
    assert fixels_of(viewer.layers[-1]).counts.max() == 1
    diffusion.io.write_fixels(tmp_path / "folder", fixels)
    with qtbot.waitSignal(panel.run_finished, timeout=60_000):
        panel.open_fixels(next((tmp_path / "folder").glob("index.*")))
    np.testing.assert_array_equal(fixels_of(viewer.layers["folder fixels"]).counts, fixels.counts)
    for tracking in until_the_end(qtbot, viewer, TrackingPanel(viewer)):
        tracking.source_box.choose(viewer.layers["fod fixels"])
        assert tracking.settings_form.value() == fiber_tracking.FixelGeodesic()
        with qtbot.waitSignal(tracking.run_finished, timeout=60_000):
            tracking.place_seed((-5.0, -3.0, 19.0))
        assert len(carried(viewer.layers["bundle 1"], "tractogram")) > 100
        text = script_of(tracking)
        assert "OpenFods(" in text
        assert "FindPeaks(" in text


def test_a_click_tracks_in_fods_and_the_panel_offers_their_methods(viewer, qtbot):
    layer = add_fods(viewer)
    for panel in until_the_end(qtbot, viewer, TrackingPanel(viewer)):
        method = panel.settings_form.widget("method")
        assert tuple(method.choices) == ("ifod2", "ifod1", "sd_stream", "lifted_geodesic")
        assert panel.settings_form.value() == fiber_tracking.IFOD2()
        method.value = "sd_stream"
        assert panel.settings_form.value() == fiber_tracking.SDStream()
        method.value = "ifod2"
        panel.settings_form.widget("fod_stop").value = 0.4
        with qtbot.waitSignal(panel.run_finished, timeout=60_000):
            panel.place_seed((-5.0, -3.0, 19.0))
        bundle = viewer.layers["bundle 1"]
        fibers = carried(bundle, "tractogram")
        seeds = panel.seed_box.seeds_at((-5.0, -3.0, 19.0)).points_in(None)
        expected = fiber_tracking.track(
            fods_of(layer), seeds, panel.directions_form.value(), panel.settings_form.value(), device="cpu"
        )
        np.testing.assert_array_equal(fibers.points, expected.points)
        bundle.color_by = "fod"
        numbers = picked_numbers("fiber", fibers.per_fiber, 0)
        assert "mean FOD" in [number.name for number in numbers]
        reasons = {reason_text(int(code)) for code in fibers.per_fiber["stop_reason"]}
        assert reasons <= {"left the mask", "left the volume", "FOD or fixel fell below the limit"}
        ends = np.array([fiber[-1] - fiber[0] for fiber in fibers])
        assert set(np.abs(ends).argmax(axis=1)) == {0, 1}
        button(panel, "Whole brain").click()
        wait_until(qtbot, lambda: "white matter" in [x.name for x in viewer.layers])
