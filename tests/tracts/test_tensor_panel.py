"""The dock widget "Diffusion tensors".

Most tests use napari's viewer model, without a window; what a window adds is tested in one, under the marker
``display``.
"""

import dataclasses
import functools
import gc
import shutil
import subprocess
import sys
import threading
import weakref

import nibabel as nib
import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels, Surface
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtWidgets import QApplication, QComboBox, QPushButton

from napari_gpubio import tracts
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.space import apply_affine, viewer_to_world, world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.tracts.io.gradients import write_fsl_gradients
from napari_gpubio.tracts.layers import field_of, map_layer, scan_layer, scan_of, volume_of
from napari_gpubio.tracts.model import DiffusionScan
from napari_gpubio.tracts.widget import TensorPanel
from napari_gpubio.tracts.widget import tensors as module

MILLISECONDS = 60_000
KEY = "napari_gpubio"


@functools.cache
def phantom_field():
    """The tensors of the sample scan with the panel's own settings, through the API."""
    return tracts.fit_tensors(tracts.load_brain_phantom())


@functools.cache
def sticks(flip=False):
    """Straight bundles in many directions, which show a wrong gradient table; two shells of six directions."""
    shape, rng = (40, 40, 40), np.random.default_rng(0)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    points = np.moveaxis(np.indices(shape), 0, -1) * 2.0 - 39.0
    v1 = np.zeros((*shape, 3))
    for _ in range(50):
        direction = rng.normal(size=3)
        direction /= np.linalg.norm(direction)
        off = points - rng.uniform(-30, 30, 3)
        near = np.linalg.norm(off - (off @ direction)[..., None] * direction, axis=-1) < 3
        v1[near] = direction
    gradients = rng.normal(size=(14, 3))
    gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
    bvals = np.array([0.0] * 2 + [1000.0] * 6 + [2000.0] * 6)
    gradients[:2] = 0
    along = (v1.reshape(-1, 3) @ gradients.T) ** 2
    in_stick = (v1 != 0).any(axis=-1).reshape(-1, 1)
    diffusivity = np.where(in_stick, 3e-4 + 1.2e-3 * along, 7e-4)
    data = (1000 * np.exp(-bvals * diffusivity)).reshape(*shape, 14).astype(np.float32)
    data[np.linalg.norm(points, axis=-1) > 36] = 0  # air around it
    return DiffusionScan(data=data, bvals=bvals, directions=gradients * ([-1, 1, 1] if flip else 1), affine=affine)


def saved(scan, folder):
    """Write a scan as NIfTI with bval and bvec; returns the path."""
    path = folder / "dwi.nii.gz"
    nib.save(nib.Nifti1Image(scan.data, scan.affine), path)
    write_fsl_gradients(folder / "dwi.bval", folder / "dwi.bvec", scan.bvals, scan.directions, scan.affine)
    return path


@pytest.fixture
def viewer(request, qtbot, monkeypatch):
    """A viewer as plugins see it; with a (hidden) window for tests marked ``display``."""
    if request.node.get_closest_marker("display"):
        return request.getfixturevalue("make_napari_viewer_proxy")()
    monkeypatch.setenv("NAPARI_ENSURE_PLUGIN_MAIN_THREAD", "1")
    return PublicOnlyProxy(ViewerModel())


@pytest.fixture
def panel(viewer, qtbot):
    panel = TensorPanel(viewer)
    if hasattr(viewer, "window"):
        viewer.window.add_dock_widget(panel, name="Diffusion tensors")
    else:
        qtbot.addWidget(panel)
    yield panel
    panel.teardown()


def add_scan(viewer, scan, name="scan"):
    data, keywords, _ = scan_layer(scan, name)
    return viewer.add_image(data, **keywords)


def add_map(viewer, field, map_name="FA"):
    data, keywords, _ = map_layer(field, map_name, "study")
    return viewer.add_image(data, **keywords)


def fit(qtbot, panel):
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
        assert panel.running, panel.message


def names(viewer):
    return [layer.name for layer in viewer.layers]


def layer_named(viewer, end):
    return next(layer for layer in viewer.layers if layer.name.endswith(end))


def script_of(panel):
    QApplication.clipboard().setText("nothing was copied")
    panel.copy_script()
    return QApplication.clipboard().text()


def run_script(text, folder):
    path = folder / "copied.py"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, path], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ------------------------------------------------------------------------------------------------- from scan to maps


@pytest.mark.display
def test_from_the_sample_to_fa_and_dec(viewer, panel, qtbot):
    viewer.open_sample("napari-gpubio", "brain_phantom")
    scan = viewer.layers[0]
    assert panel.scan_box.layer is not None
    fit(qtbot, panel)
    assert names(viewer) == ["brain phantom", "brain phantom FA", "brain phantom DEC"]
    assert not scan.visible
    fa, dec = viewer.layers[1], viewer.layers[2]
    field = field_of(fa)
    assert field is field_of(dec)
    assert dec.rgb
    assert fa.contrast_limits == [0, 1]
    # GUI = API: the same numbers
    assert np.array_equal(field.tensors, phantom_field().tensors)
    assert np.array_equal(volume_of(fa), tracts.scalar_map(phantom_field(), "FA"))
    # what belongs together lies together
    assert np.allclose(scan.extent.world[:, 1:], fa.extent.world)
    assert np.allclose(fa.extent.world, dec.extent.world)
    assert panel.check_label.text() == tracts.check_gradients(phantom_field()).message
    assert not panel.check_label.isHidden()
    assert "without a usable signal" in panel.message


def test_the_chosen_maps_are_made_with_their_units(viewer, panel, qtbot):
    add_scan(viewer, tracts.load_brain_phantom(), "brain")
    for name, box in panel.map_boxes.items():
        box.setChecked(name in ("MD", "AD", "RD", "S0"))
    fit(qtbot, panel)
    assert names(viewer)[1:] == ["brain MD (mm²/s)", "brain AD (mm²/s)", "brain RD (mm²/s)", "brain S0 (signal)"]
    md = layer_named(viewer, "MD (mm²/s)")
    assert np.array_equal(volume_of(md), tracts.scalar_map(phantom_field(), "MD"))


def test_maps_say_how_they_were_made(viewer, panel, qtbot):
    """All parameters, version, device and seconds are to travel with a result."""
    add_scan(viewer, sticks())
    panel.form.widget("estimator").value = "ols"
    panel.choose_device("cpu")
    fit(qtbot, panel)
    said = repr(layer_named(viewer, "FA").metadata[KEY])
    for word in ("ols", "cpu", "napari-gpubio", "seconds"):
        assert word in said


def test_settings_reach_the_fit(viewer, panel, qtbot):
    add_scan(viewer, sticks())
    panel.form.widget("estimator").value = "ols"
    fit(qtbot, panel)
    expected = tracts.fit_tensors(sticks(), None, tracts.FitSettings(estimator="ols"))
    assert np.array_equal(field_of(layer_named(viewer, "FA")).tensors, expected.tensors)


def test_shells(viewer, panel, qtbot):
    add_scan(viewer, sticks())
    boxes = panel._shell_boxes
    assert list(boxes) == [0, 1000, 2000]
    assert [box.toolTip().split()[0] for box in boxes.values()] == ["2", "6", "6"]
    assert panel.settings.shells == ()
    boxes[2000].setChecked(False)
    assert panel.settings.shells == (0, 1000)
    fit(qtbot, panel)
    expected = tracts.fit_tensors(sticks(), None, tracts.FitSettings(shells=(0, 1000)))
    field = field_of(layer_named(viewer, "FA"))
    assert np.array_equal(field.tensors, expected.tensors)
    assert not np.array_equal(field.tensors, tracts.fit_tensors(sticks()).tensors)
    for box in boxes.values():
        box.setChecked(False)
    panel.run_button.click()
    assert "no b-value is chosen" in panel.message
    assert not panel.running
    boxes[1000].setChecked(True)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    assert "second b-value" in panel.message


def test_the_shells_follow_the_scan(viewer, panel, qtbot):
    add_scan(viewer, sticks())
    other = add_scan(viewer, tracts.load_brain_phantom(), "brain")
    panel.scan_box.choose(other)
    assert list(panel._shell_boxes) == [0, 1000]
    viewer.layers.remove(other.name)
    assert list(panel._shell_boxes) == [0, 1000, 2000]
    viewer.layers.clear()
    assert not panel._shell_boxes


# --------------------------------------------------------------------------------------------------------- the mask


def mask_layer(viewer, field, mask):
    _, keywords, _ = map_layer(field, "FA", "mask")
    return viewer.add_labels(mask.T.astype(int), name="mask", affine=keywords["affine"], metadata=keywords["metadata"])


def test_a_mask_of_ones_choice(viewer, panel, qtbot):
    scan = tracts.load_brain_phantom()
    add_scan(viewer, scan)
    mask = np.zeros(scan.shape, bool)
    mask[20:30, 30:40, 25:30] = True
    panel.mask_box.choose(mask_layer(viewer, phantom_field(), mask))
    fit(qtbot, panel)
    field = field_of(layer_named(viewer, "scan FA"))
    assert np.array_equal(field.mask, tracts.fit_tensors(scan, mask).mask)
    assert field.mask.sum() == 500


def test_a_mask_of_another_shape_is_a_sentence(viewer, panel):
    add_scan(viewer, sticks())
    layer = viewer.add_labels(np.ones((5, 6, 7), int), name="too small")
    panel.mask_box.choose(layer)
    panel.run_button.click()
    assert not panel.running
    for word in ("'too small'", "(7, 6, 5)", "(40, 40, 40)", "grid"):
        assert word in panel.message
    assert names(viewer) == ["scan", "too small"]


def test_a_mask_in_another_place_is_a_sentence(viewer, panel):
    add_scan(viewer, sticks())
    panel.mask_box.choose(viewer.add_labels(np.ones((40, 40, 40), int), name="elsewhere"))
    panel.run_button.click()
    assert not panel.running
    assert "'elsewhere'" in panel.message


def test_an_empty_mask_is_a_sentence(viewer, panel, qtbot):
    add_scan(viewer, tracts.load_brain_phantom())
    panel.mask_box.choose(mask_layer(viewer, phantom_field(), np.zeros(phantom_field().shape)))
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    assert "mask is empty" in panel.message


def test_a_mask_can_be_drawn_with_naparis_own_button(viewer, panel, qtbot):
    """The new-labels button makes a layer with all the viewer's axes, also that of the scan's volumes."""
    add_scan(viewer, tracts.load_brain_phantom())
    viewer._new_labels()
    drawn = viewer.layers[-1]
    assert isinstance(drawn, Labels)
    centre = world_to_viewer((0.0, -5.0, 22.0), phantom_field().affine, phantom_field().shape)
    at = np.round(drawn.world_to_data([0.0, *centre])).astype(int)
    painted = np.zeros(drawn.data.shape, int)
    painted[at[0], at[1] - 2 : at[1] + 3, at[2] - 2 : at[2] + 3, at[3] - 2 : at[3] + 3] = 1
    drawn.data = painted
    panel.mask_box.choose(drawn)
    assert panel.mask_box.layer is not None
    fit(qtbot, panel)
    field = field_of(layer_named(viewer, "FA"))
    assert field.mask.sum() == 125
    middle = apply_affine(field.affine, np.argwhere(field.mask).mean(axis=0))
    assert np.abs(middle - (0.0, -5.0, 22.0)).max() < 1.5 * 2.75


# ------------------------------------------------------------------------------------------------ what can go wrong


def test_without_a_scan_run_and_copy_say_so(viewer, panel):
    panel.run_button.click()
    assert "no diffusion scan" in panel.message
    assert not panel.running
    panel.clear_message()
    assert script_of(panel) == "nothing was copied"
    assert "no diffusion scan" in panel.message


def test_a_wrong_gradient_table_is_warned_of(viewer, panel, qtbot):
    add_scan(viewer, sticks(), "right")
    fit(qtbot, panel)
    assert "fits the fibers" in panel.check_label.text()
    plain = panel.check_label.styleSheet()
    add_scan(viewer, sticks(flip=True), "flipped")
    panel.scan_box.choose(layer_named(viewer, "flipped"))
    fit(qtbot, panel)
    assert "The gradient table looks wrong: x (left-right) is flipped" in panel.check_label.text()
    assert panel.check_label.styleSheet() != plain
    panel.scan_box.choose(layer_named(viewer, "right"))
    fit(qtbot, panel)
    assert panel.check_label.styleSheet() == plain


def test_stop_does_not_pass_a_part_off_as_the_whole(viewer, panel, qtbot, monkeypatch):
    stop_in_the_middle(monkeypatch, panel)
    add_scan(viewer, tracts.load_brain_phantom())
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    maps = [field_of(layer) for layer in viewer.layers if field_of(layer) is not None]
    assert all(field.mask.sum() < phantom_field().mask.sum() for field in maps)
    assert "stopped" in panel.message.lower()


def stop_in_the_middle(monkeypatch, panel):
    """Let the fit be stopped after its first chunk of voxels."""
    real = module.fit_steps

    def steps(*args, **keywords):
        inner = real(*args, **keywords)
        step = next(inner)
        yield step
        keywords["stop"].set()
        return (yield from inner)

    monkeypatch.setattr(module, "fit_steps", steps)


def held(monkeypatch):
    """Make the fit wait after its end until the event is set."""
    go, real = threading.Event(), module.fit_steps

    def steps(*args, **keywords):
        field = yield from real(*args, **keywords)
        while not (go.wait(0.01) or keywords["stop"].is_set()):
            yield Step(1, 1)
        return field

    monkeypatch.setattr(module, "fit_steps", steps)
    return go


@pytest.fixture
def qt_errors(qtbot):
    """What was raised in the event loop; pytest-qt fails the test for them, too."""
    with qtbot.capture_exceptions() as errors:
        yield errors


@pytest.mark.display
def test_removing_the_scan_during_a_run_does_no_harm(viewer, panel, qtbot, monkeypatch, qt_errors):
    go = held(monkeypatch)
    layer = add_scan(viewer, sticks())
    panel.run_button.click()
    viewer.layers.remove(layer.name)
    with qtbot.waitSignal(panel.run_finished, timeout=2000, raising=False) as said:
        go.set()
    assert not qt_errors
    assert said.signal_triggered
    assert not panel.running
    assert panel.run_button.text() == "Fit"


def test_choosing_another_scan_during_a_run_hides_the_one_that_was_fitted(viewer, panel, qtbot, monkeypatch):
    go = held(monkeypatch)
    fitted = add_scan(viewer, sticks(), "fitted")
    other = add_scan(viewer, dataclasses.replace(sticks()), "other")
    panel.scan_box.choose(fitted)
    panel.run_button.click()
    panel.scan_box.choose(other)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        go.set()
    assert names(viewer)[-2:] == ["fitted FA", "fitted DEC"]
    assert (fitted.visible, other.visible) == (False, True)


def test_a_fit_of_another_scan_does_not_leave_the_old_note(viewer, panel, qtbot, tmp_path):
    add_scan(viewer, tracts.load_brain_phantom(), "with notes")
    fit(qtbot, panel)
    assert panel.message
    clean = add_scan(viewer, sticks(), "clean")
    panel.scan_box.choose(clean)
    assert "gradient table: dwi.bval" not in panel.message


# ---------------------------------------------------------------------------------------------------------- opening


def test_opening_a_scan_and_what_goes_wrong(viewer, panel, tmp_path):
    path = saved(sticks(), tmp_path)
    panel.open_scan(str(path))
    scan = scan_of(panel.scan_box.layer)
    assert scan.path == path
    assert np.allclose(scan.directions, sticks().directions, atol=1e-6)
    shutil.move(tmp_path / "dwi.bvec", tmp_path / "elsewhere.txt")
    panel.open_scan(str(path))
    assert "bvec" in panel.message
    assert len(viewer.layers) == 1
    (tmp_path / "dwi.bvec").write_text("1 2 three")
    panel.open_scan(str(path))
    assert "dwi.bvec" in panel.message
    assert len(viewer.layers) == 1
    path.write_bytes(b"this is no image")
    panel.open_scan(str(path))
    assert "dwi.nii.gz" in panel.message
    assert len(viewer.layers) == 1


def test_opening_tensors(viewer, panel, tmp_path):
    path = tmp_path / "tensors.nii.gz"
    tracts.write_tensors(path, phantom_field())
    panel.open_tensors(str(path))
    assert names(viewer) == ["tensors FA", "tensors DEC"]
    field = field_of(viewer.layers[0])
    assert np.allclose(field.tensors[field.mask], phantom_field().tensors[field.mask], atol=1e-9)
    panel.open_tensors(str(tmp_path / "missing.nii.gz"))
    assert "missing.nii.gz" in panel.message
    panel.open_tensors(str(sample_path("brain_phantom") / "dwi.nii.gz"))
    assert panel.message
    assert len(viewer.layers) == 2


# ------------------------------------------------------------------------------------------------------- ellipsoids


def show_ellipsoids(panel, place):
    box = next(b for b in panel.findChildren(QComboBox) if b.findData("slice") >= 0)
    box.setCurrentIndex(box.findData(place))
    next(b for b in panel.findChildren(QPushButton) if b.text() == "Show").click()


def drawn(viewer, field):
    """World positions (mm) of the vertices of the ellipsoids on screen."""
    (layer,) = [layer for layer in viewer.layers if isinstance(layer, Surface)]
    on_screen = np.array([layer.data_to_world(v) for v in layer.data[0][::37]])
    return viewer_to_world(on_screen, field.affine, field.shape)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ellipsoids_of_the_slice_on_screen(viewer, panel, axis):
    field = phantom_field()
    add_map(viewer, field)
    viewer.dims.order = [axis, *[a for a in range(3) if a != axis]]
    seed = (-10.0, -20.0, 20.0)
    viewer.dims.set_point([0, 1, 2], world_to_viewer(seed, field.affine, field.shape))
    show_ellipsoids(panel, "slice")
    assert panel.message == ""
    across = drawn(viewer, field)[:, 2 - axis]
    assert np.abs(across - seed[2 - axis]).max() <= 2.75
    assert np.ptp(drawn(viewer, field)[:, (3 - axis) % 3]) > 80
    show_ellipsoids(panel, "slice")
    assert names(viewer).count("ellipsoids") == 1


@pytest.mark.display
def test_ellipsoids_of_a_slice_beside_a_scan_of_four_axes(viewer, panel):
    field = phantom_field()
    add_scan(viewer, tracts.load_brain_phantom())
    add_map(viewer, field)
    viewer.dims.set_point([1, 2, 3], world_to_viewer((-10.0, -20.0, 20.0), field.affine, field.shape))
    show_ellipsoids(panel, "slice")
    assert np.abs(drawn(viewer, field)[:, 2] - 20.0).max() <= 2.75


def test_ellipsoids_around_the_middle_of_the_view(viewer, panel):
    field = phantom_field()
    add_map(viewer, field)
    seed = np.array([-22.0, -18.0, 12.0])
    viewer.dims.set_point([0, 1, 2], world_to_viewer(seed, field.affine, field.shape))
    show_ellipsoids(panel, "point")
    distance = np.linalg.norm(drawn(viewer, field) - seed, axis=1)
    assert distance.max() <= 9 * 2.75
    assert distance.min() <= 2.75


def test_ellipsoids_lie_along_the_fibers(viewer, panel):
    """In the corpus callosum the long axes run left-right."""
    field = phantom_field()
    add_map(viewer, field)
    viewer.dims.set_point([0, 1, 2], world_to_viewer((0.0, -5.0, 22.0), field.affine, field.shape))
    show_ellipsoids(panel, "point")
    (layer,) = [layer for layer in viewer.layers if isinstance(layer, Surface)]
    vertices = apply_affine(layer.affine.affine_matrix, layer.data[0]).reshape(-1, 42, 3)  # an icosphere each
    centres = vertices.mean(axis=1)[:, ::-1]
    nearest = vertices[np.linalg.norm(centres - (0.0, -5.0, 22.0), axis=1).argmin()]
    assert np.ptp(nearest, axis=0).argmax() == 2  # z, y, x


@pytest.mark.display
def test_removing_the_ellipsoids_does_not_move_the_slices(viewer, panel, qtbot):
    """The slices jump to the end if a slider has fewer steps than before: ellipsoids must not bring smaller ones."""
    field = phantom_field()
    add_map(viewer, field)
    viewer.dims.set_point([0, 1, 2], world_to_viewer((0.0, -5.0, 22.0), field.affine, field.shape))
    qtbot.wait(20)
    place = viewer.dims.point
    show_ellipsoids(panel, "slice")
    qtbot.wait(20)
    viewer.layers.remove("ellipsoids")
    qtbot.wait(20)
    assert np.allclose(viewer.dims.point, place, atol=1.5)


def test_ellipsoids_outside_and_without_tensors_are_sentences(viewer, panel):
    show_ellipsoids(panel, "slice")
    assert "fit a scan first" in panel.message
    field = phantom_field()
    add_map(viewer, field)
    viewer.dims.set_point([0, 1, 2], world_to_viewer((60.0, 60.0, 60.0), field.affine, field.shape))
    show_ellipsoids(panel, "point")
    assert "no tensors here" in panel.message
    assert not any(isinstance(layer, Surface) for layer in viewer.layers)


def test_a_message_goes_when_the_ellipsoids_come(viewer, panel):
    show_ellipsoids(panel, "slice")
    assert panel.message
    add_map(viewer, phantom_field())
    show_ellipsoids(panel, "slice")
    assert panel.message == ""


# -------------------------------------------------------------------------------------------------- Copy as Python


def test_the_script_gives_the_same_fa(viewer, panel, qtbot, tmp_path):
    add_scan(viewer, tracts.load_brain_phantom())
    panel.form.widget("iterations").value = 1
    fit(qtbot, panel)
    text = script_of(panel)
    assert "FitSettings(iterations=1)" in text
    printed = run_script(text, tmp_path)
    assert panel.check_label.text() in printed
    made = nib.load(tmp_path / "FA.nii.gz")
    shown = volume_of(layer_named(viewer, "FA"))
    assert np.abs(np.asarray(made.dataobj) - shown).max() < 1e-6
    assert np.allclose(made.affine, phantom_field().affine)


def test_the_script_with_a_painted_mask_and_one_shell(viewer, panel, qtbot, tmp_path, monkeypatch):
    path = saved(sticks(), tmp_path)
    panel.open_scan(str(path))
    panel._shell_boxes[2000].setChecked(False)
    mask = np.zeros((40, 40, 40), int)
    mask[10:30, 12:28, 5:35] = 1
    fa = tracts.fit_tensors(sticks())
    panel.mask_box.choose(mask_layer(viewer, fa, mask))
    fit(qtbot, panel)
    folder = tmp_path / "scripts"
    folder.mkdir()
    monkeypatch.setattr(
        "napari_gpubio.viewer.panel.QFileDialog.getSaveFileName", lambda *_, **__: (str(folder / "script.py"), "")
    )
    text = script_of(panel)
    assert (folder / "script.py").read_text(encoding="utf-8") == text
    assert "SHA-256" in text
    run_script(text, tmp_path)
    made = np.asarray(nib.load(tmp_path / "FA.nii.gz").dataobj)
    assert np.abs(made - volume_of(layer_named(viewer, "dwi FA"))).max() < 1e-6


def test_a_script_for_a_scan_without_a_file_is_not_pretended(viewer, panel):
    add_scan(viewer, sticks())
    assert script_of(panel) == "nothing was copied"
    assert "file" in panel.message


# ----------------------------------------------------------------------------------------------------------- the end


@pytest.mark.display
@pytest.mark.parametrize("how", ["the viewer", "the dock"])
def test_nothing_is_left_when_it_is_closed(make_napari_viewer_proxy, qtbot, how):
    viewer = make_napari_viewer_proxy(strict_qt="raise")
    add_map(viewer, phantom_field())
    panel = TensorPanel(viewer)
    dock = viewer.window.add_dock_widget(panel, name="Diffusion tensors")
    listeners = [len(event.callbacks) for event in viewer.layers.events.emitters.values()]
    gone = weakref.ref(panel)
    if how == "the viewer":
        viewer.close()
    else:
        dock.destroyOnClose()
    del panel, dock
    qtbot.wait(20)
    gc.collect()
    if how == "the dock":
        assert sum(len(e.callbacks) for e in viewer.layers.events.emitters.values()) < sum(listeners)
    assert gone() is None


@pytest.mark.display
def test_the_manifest_opens_it(viewer):
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    assert isinstance(panel, TensorPanel)
    assert dock is not None
    panel.teardown()


def test_a_volume_that_is_not_ours_is_no_scan(viewer, panel):
    viewer.add_image(np.zeros((3, 4, 5, 6)), name="time series")
    assert panel.scan_box.layer is None
    assert isinstance(viewer.layers[0], Image)
    assert panel.mask_box.count() == 1


@pytest.mark.display
def test_tracking_opens_beside_the_panel(make_napari_viewer):
    viewer = make_napari_viewer()
    _, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Diffusion tensors")
    panel.open_tracking()
    assert any("Fiber tracking" in name for name in viewer.window.dock_widgets)
