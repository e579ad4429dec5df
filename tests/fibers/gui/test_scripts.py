"""The dock widgets of tractography: Copy as Python shows what is on screen, bit by bit."""

import ast
import re
import shutil
import subprocess
import sys

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Image, Surface
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio import diffusion, fibers, tractograms
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.napari_io import stored_array
from napari_gpubio.core.operations import script
from napari_gpubio.core.space import apply_affine, is_oblique
from napari_gpubio.diffusion.gui import TensorPanel
from napari_gpubio.diffusion.gui.records import pictures
from napari_gpubio.diffusion.io.gradients import write_fsl_gradients
from napari_gpubio.diffusion.napari_io import field_of, map_layer, scan_layer
from napari_gpubio.diffusion.samples import brain_sample_layers, ring_sample_layers
from napari_gpubio.gui.looks import options_of
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tractograms.gui.fibers import read_tractogram_layers
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from tests.diffusion.brain_samples import coarse_brain
from tests.dock_widgets import (
    NOTHING_COPIED,
    button,
    moved,
    open_and_wait,
    press_and_wait,
    save_scripts_as,
    script_of,
    shown_by_script,
)
from tests.fibers.gui.tracking_samples import CALLOSUM, CORTICOSPINAL, add_labels, add_sample, add_scan, field


def of_kind(viewer, kind):
    return {layer.name: layer for layer in viewer.layers if isinstance(layer, kind)}


def assert_same_fibers(made, shown):
    """Two viewers show the same fibers: places, colors and filters to the bit, and how they are drawn."""
    made, shown = of_kind(made, Streamlines), of_kind(shown, Streamlines)
    assert list(made) == list(shown)
    for name, layer in shown.items():
        assert np.array_equal(made[name].offsets, layer.offsets)
        assert made[name].lines.vertices.tobytes() == layer.lines.vertices.tobytes()  # with the colors
        assert np.array_equal(made[name].shown, layer.shown)
        assert options_of(made[name]) == options_of(layer)
        assert made[name].color_by == layer.color_by
        assert made[name].contrast_limits == layer.contrast_limits


def assert_same_maps(made, shown):
    made, shown = of_kind(made, Image), of_kind(shown, Image)
    for name, layer in shown.items():
        if field_of(layer) is None:
            continue
        assert stored_array(made[name]).tobytes() == stored_array(layer).tobytes()
        assert np.array_equal(field_of(made[name]).affine, field_of(layer).affine)
        assert np.array_equal(made[name].extent.world, layer.extent.world)
        for setting in ("visible", "opacity", "gamma", "blending"):
            assert getattr(made[name], setting) == getattr(layer, setting)
        if not layer.rgb:
            assert made[name].contrast_limits == layer.contrast_limits
            assert made[name].colormap.name == layer.colormap.name


def tilted_scan(folder):
    """The coarse brain in a file, tilted by 12 degrees about two axes; returns the path and a seed in the callosum."""
    scan = coarse_brain()
    c, s = np.cos(np.radians(12)), np.sin(np.radians(12))
    turn = np.eye(4)
    turn[:3, :3] = np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    affine = turn @ scan.affine
    path = folder / "tilted.nii.gz"
    nib.save(nib.Nifti1Image(np.asarray(scan.data), affine), path)
    directions = scan.directions @ turn[:3, :3].T
    write_fsl_gradients(folder / "tilted.bval", folder / "tilted.bvec", scan.bvals, directions, affine)
    return path, tuple(apply_affine(turn, CALLOSUM))


# -- fibers -----------------------------------------------------------------------------------------------------------


@pytest.mark.daily
def test_all_bundles_filters_and_colors(viewer, empty, tmp_path, monkeypatch):
    add_sample(viewer, brain_sample_layers)
    empty.click(CALLOSUM)
    empty.click(moved(CALLOSUM, 0.1234567, -6.7654321, 0.0))
    empty.list.currentItem().setText("left/right's")
    first = empty.layers["left/right's"]
    first.colormap, first.color_by, first.contrast_limits = "magma", "mean_fa", (0.31, 0.52)
    empty.filter_by("length_mm", 30.0, 90.0)
    assert 0 < first.shown.sum() < len(first.shown)
    empty.click(CORTICOSPINAL, "Shift")
    empty.set("method", "eudx")
    second = empty.layers["bundle 1"]
    second.color_by, second.color, second.line_style, second.opacity, second.visible = (
        "uniform", (0.1, 0.7, 0.3), "tubes", 0.6, False,
    )  # fmt: skip
    viewer.layers["brain phantom FA"].contrast_limits = (0.1, 0.8)
    viewer.layers["brain phantom FA"].name = "anisotropy"
    empty.panel.settings_form.set_value(fibers.Hamiltonian(step_mm=1.3))  # of no fibers on screen
    empty.panel._retrack.stop()
    made = shown_by_script(script_of(empty.panel), tmp_path, monkeypatch)
    assert_same_fibers(made, viewer)
    assert_same_maps(made, viewer)


@pytest.mark.daily
def test_an_oblique_scan(viewer, empty, tmp_path, monkeypatch):
    path, seed = tilted_scan(tmp_path)
    scan = diffusion.io.read_dwi(path)
    assert is_oblique(scan.affine)
    data, keywords, _ = scan_layer(scan, "tilted")
    viewer.add_image(data, **keywords)
    empty.click(seed)
    text = script_of(empty.panel)
    assert str(path) in text
    made = shown_by_script(text, tmp_path, monkeypatch)
    assert_same_fibers(made, viewer)
    assert_same_maps(made, viewer)
    assert len(made.layers["bundle 1"].lines) > 10


def test_a_label_region_that_is_painted_over_afterwards(viewer, empty, tmp_path, monkeypatch):
    add_sample(viewer, brain_sample_layers)
    empty.click(CALLOSUM)
    layer, array = add_labels(viewer, CALLOSUM)
    empty.seed_from(layer)
    empty.press("Track")
    array[:] = 0
    layer.refresh()
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    made = shown_by_script(script_of(empty.panel), tmp_path, monkeypatch)
    assert len([*tmp_path.glob("*.npy")]) == 1, "the voxels of the region, as they were"
    assert_same_fibers(made, viewer)
    assert "region 1" in of_kind(made, Streamlines)


def test_fibers_of_a_file_and_those_that_a_script_has_chosen(viewer, user, tmp_path, monkeypatch):
    write_tractogram(tmp_path / "mine.trk", user.by_api(CALLOSUM))
    user.open(tmp_path / "mine.trk")
    layer = user.layers["mine.trk"]
    layer.shown = np.arange(len(layer.lines)) % 3 == 0
    layer.color_by = "length_mm"
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    made = shown_by_script(script_of(user.panel), tmp_path, monkeypatch)
    assert_same_fibers(made, viewer)


def test_fibers_colored_by_images(viewer, empty, tmp_path, monkeypatch):
    path, seed = tilted_scan(tmp_path)
    data, keywords, _ = scan_layer(diffusion.io.read_dwi(path), "tilted")
    viewer.add_image(data, **keywords)
    empty.click(seed)
    first = empty.layers["bundle 1"]
    first.color_by_image(viewer.layers["tilted FA"])
    first.contrast_limits = (0.15, 0.6)
    empty.press("Duplicate")
    noise = np.random.default_rng(0).normal(size=(30, 40, 50)).astype(np.float32)
    other = viewer.add_image(noise, scale=(4, 4, 4), translate=(-40, -80, -90), name="T1", units=("mm",) * 3)
    empty.layers["bundle 1 copy"].color_by_image(other)
    viewer.layers.remove(other)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    text = script_of(empty.panel)
    (held,) = tmp_path.glob("*.npy")
    assert np.array_equal(np.load(held), noise.T)
    assert_same_fibers(shown_by_script(text, tmp_path, monkeypatch), viewer)


@pytest.mark.long  # scripts run in this process above and below
@pytest.mark.display
def test_the_script_in_a_process_and_a_window_of_its_own(viewer, empty, tmp_path):
    add_sample(viewer, brain_sample_layers)
    empty.click(CALLOSUM)
    empty.filter_by("length_mm", 40.0, None)
    save = (
        "layer = viewer.layers['bundle 1']\n"
        "np.savez('made.npz', vertices=layer.lines.vertices, shown=layer.shown)\n"
        "viewer.close()\n"
    )
    text = "import numpy as np\n" + script_of(empty.panel).replace("napari.run()", save)
    script = tmp_path / "copied.py"
    script.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    made, layer = np.load(tmp_path / "made.npz"), empty.layers["bundle 1"]
    assert made["vertices"].tobytes() == layer.lines.vertices.tobytes()
    assert np.array_equal(made["shown"], layer.shown)
    assert not layer.shown.all()


def test_a_seed_before_its_fit_and_tensors_of_a_file(viewer, empty, tmp_path):
    empty.panel.bundles.add(CALLOSUM)
    add_scan(viewer)
    text = script_of(empty.panel)
    assert re.search(r"tensors = FitTensors\(scan=\w+\)\n", text)
    assert "OpenScan(" in text
    path = tmp_path / "tensors.nii.gz"
    diffusion.io.write_tensors(path, field())
    data, keywords, _ = map_layer(diffusion.io.read_tensors(path), "FA", "study")
    empty.panel.source_box.choose(viewer.add_image(data, **keywords))
    text = script_of(empty.panel)
    assert "OpenTensors(" in text
    assert f"file({str(path)!r}" in text


def test_what_comes_from_no_file_is_saved_beside_the_script(viewer, empty, tmp_path, monkeypatch):
    add_sample(viewer, ring_sample_layers)
    ring = field_of(viewer.layers[0])
    fa = diffusion.tensors.scalar_map(ring, "FA")
    empty.panel.place_seed(tuple(apply_affine(ring.affine, np.unravel_index(fa.argmax(), fa.shape))))
    empty.settle()
    tractograms.show(viewer, empty.fibers().select(np.arange(2)), "mine")
    viewer.layers["mine"].visible = False
    save_scripts_as(monkeypatch, None)
    assert script_of(empty.panel) == NOTHING_COPIED, "the question where to save them was not answered"
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    made = shown_by_script(script_of(empty.panel), tmp_path, monkeypatch)
    assert_same_fibers(made, viewer)
    assert_same_maps(made, viewer)


# -- maps -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fitting(viewer, qtbot):
    """The panel "Diffusion tensors"."""
    panel = TensorPanel(PublicOnlyProxy(viewer))
    qtbot.addWidget(panel)
    yield panel
    panel.teardown()


@pytest.mark.daily
def test_maps_with_their_limits_and_ellipsoids(viewer, fitting, qtbot, tmp_path, monkeypatch):
    path, _ = tilted_scan(tmp_path)
    open_and_wait(qtbot, fitting.open_scan, path)
    fitting.form.widget("iterations").value = 1
    fitting.map_boxes["MD"].setChecked(True)
    press_and_wait(qtbot, fitting, fitting.run_button)
    viewer.layers["tilted FA"].contrast_limits = (0.1, 0.7)
    viewer.layers["tilted FA"].colormap = "viridis"
    viewer.layers["tilted DEC"].opacity = 0.4
    viewer.dims.set_point(range(viewer.dims.ndim - 3, viewer.dims.ndim), (20.0, 0.0, 0.0))
    button(fitting, "Show").click()
    assert fitting.message == "" or "ellipsoids" in of_kind(viewer, Surface)
    fitting.form.widget("iterations").value = 3  # of no maps on screen
    made = shown_by_script(script_of(fitting), tmp_path, monkeypatch)
    assert_same_maps(made, viewer)
    for mine, theirs in zip(made.layers["ellipsoids"].data, viewer.layers["ellipsoids"].data, strict=True):
        assert np.array_equal(mine, theirs)


def test_a_painted_mask_that_is_painted_over_afterwards(viewer, empty, fitting, qtbot, tmp_path, monkeypatch):
    add_sample(viewer, brain_sample_layers)
    mask, array = add_labels(viewer, moved(CALLOSUM, 20, -20, -18), size=15, name="painted")
    fitting.mask_box.choose(mask)
    press_and_wait(qtbot, fitting, fitting.run_button)
    array[:] = 0
    mask.refresh()
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    text = script_of(fitting)
    assert "script" not in fitting.message, fitting.message
    made = shown_by_script(text, tmp_path, monkeypatch)
    assert_same_maps(made, viewer)
    empty.panel.source_box.choose(viewer.layers["brain phantom FA"])
    empty.panel.come_to_front()
    empty.click(CALLOSUM)
    text = script_of(empty.panel)
    assert "script" not in empty.message, empty.message
    made = shown_by_script(text, tmp_path, monkeypatch)
    assert_same_fibers(made, viewer)


@pytest.mark.skipif(sys.platform == "win32", reason="names of files have no line breaks there")
@pytest.mark.parametrize("end", ["\n", "\r", "\u2028"], ids=ascii)
def test_the_name_of_a_file_does_not_become_code(tmp_path, end):
    path = tmp_path / f"a{end}open('made', 'w')  #.trk"
    shutil.copy(sample_path("brain_phantom/bundles.trk"), path)
    (layer,) = read_tractogram_layers(str(path))[:1]
    tree = ast.parse(script(shows=pictures([layer])))
    assert layer.name in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert "open" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
