"""The demonstration's window, and everything the manifest contributes, opened as a user would."""

import shutil

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Labels
from napari.settings import get_settings

from napari_gpubio import demo, diffusion, tractograms
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.napari_io import KEY, carried, volume_of
from napari_gpubio.core.space import apply_affine, world_to_viewer
from napari_gpubio.diffusion.gui import TensorPanel
from napari_gpubio.diffusion.napari_io import field_of, scan_of
from napari_gpubio.fibers.gui import TrackingPanel
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.views import view_of

pytestmark = [pytest.mark.display, pytest.mark.daily]
PLUGIN = "napari-gpubio"
MILLISECONDS = 60_000


@pytest.fixture
def scan_file(tmp_path):
    """The sample scan in a folder of its own, with its bval and bvec."""
    for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec"):
        shutil.copy(sample_path("brain_phantom") / name, tmp_path / name)
    return tmp_path / "dwi.nii.gz"


def streamlines(viewer):
    return [layer for layer in viewer.layers if isinstance(layer, Streamlines)]


# ------------------------------------------------------------------------------------------------- the demonstration


def test_the_demonstration(viewer, qtbot):
    panel = demo.build_window(viewer, device="cpu")
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        pass
    qtbot.wait(10)
    assert isinstance(panel, TrackingPanel)
    (layer,) = streamlines(viewer)
    fibers = layer.metadata[KEY]["tractogram"]
    # what the window shows is what the demonstration without a display writes
    field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom(), device="cpu")
    seeds = fiber_tracking.seeds.ball(demo.CLICKS_MM["callosum"], demo.RADIUS_MM, demo.POINTS)
    expected = fiber_tracking.track(field, seeds, demo.DIRECTIONS, demo.SETTINGS, device="cpu")
    assert len(fibers) == len(expected) > 100
    assert np.array_equal(fibers.points, expected.points)
    assert panel.device == "cpu"
    assert viewer.dims.ndisplay == 3
    assert view_of(viewer) == "neurological"
    assert not viewer.layers["brain phantom DEC"].visible
    fa = viewer.layers["brain phantom FA"]
    assert fa.visible
    assert fa.depiction == "plane"
    assert np.allclose(fa.data_to_world(fa.plane.position), world_to_viewer(demo.CLICKS_MM["callosum"]))
    assert viewer.layers.selection.active is fa
    viewer.dims.ndisplay = 2
    qtbot.wait(50)
    assert np.allclose(viewer.dims.point[-3:], world_to_viewer(demo.CLICKS_MM["callosum"]), atol=1.4)
    # later runs leave the view alone
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.place_seed(demo.CLICKS_MM["corticospinal"], new=True)
    assert viewer.dims.ndisplay == 2
    assert len(streamlines(viewer)) == 2
    panel.teardown()


# --------------------------------------------------------------------------------------------------------- samples


def test_the_brain_phantom(viewer):
    layer, mean = viewer.open_sample(PLUGIN, "brain_phantom")
    scan = scan_of(layer)
    assert (layer.visible, mean.visible, mean.name) == (False, True, "brain phantom b = 0 mean")
    assert scan.shells() == [0, 1000]
    assert layer.data.shape == (25, 51, 65, 51)
    assert layer.data[0].max() > 0
    assert not any(label.lstrip("-").isdigit() for label in viewer.dims.axis_labels), "axes have names, not -4 and -3"


def test_light_in_layers(viewer):
    picture, borders, layer_names = viewer.open_sample(PLUGIN, "skin_layers")
    assert np.isfinite(picture.data).sum() > 1000
    assert len(borders.data) == 8
    assert "dermis" in list(layer_names.features["name"])


def test_files_are_opened_by_the_plugin_unless_the_user_decided(make_window, monkeypatch):
    plugins = get_settings().plugins
    monkeypatch.setattr(plugins, "extension2reader", {"*.trk": "another"})
    demo.prefer_readers()
    assert plugins.extension2reader["*.nii.gz"] == PLUGIN
    assert plugins.extension2reader["*.trk"] == "another"


def test_the_ring(viewer):
    layers = viewer.open_sample(PLUGIN, "ring_bundle")
    assert [layer.name for layer in layers] == ["ring FA", "ring DEC"]
    assert field_of(layers[0]) is field_of(layers[1])
    assert 0.5 < np.asarray(layers[0].data).max() <= 1


# ----------------------------------------------------------------------------------------------------------- files


def test_a_scan_with_its_gradient_table(viewer, scan_file):
    layer, mean = viewer.open(str(scan_file), plugin=PLUGIN)
    assert np.allclose(volume_of(mean), scan_of(layer).b0_mean())
    scan, sample = scan_of(layer), diffusion.phantom.load_brain_phantom()
    assert scan.path == scan_file
    assert np.array_equal(scan.data, sample.data)
    assert np.allclose(scan.directions, sample.directions)
    for panel in (TensorPanel(viewer), TrackingPanel(viewer)):
        box = panel.scan_box if isinstance(panel, TensorPanel) else panel.source_box
        assert box.layer is layer
        panel.teardown()
        panel.deleteLater()
    (scan_file.parent / "dwi.bvec").unlink()
    with pytest.raises(Exception, match="bvec"):
        viewer.open(str(scan_file), plugin=PLUGIN)


def open_volume(viewer, path, affine):
    """A layer of a file with random numbers, and these."""
    array = np.random.default_rng(0).random((5, 6, 7)).astype(np.float32)
    nib.save(nib.Nifti1Image(array, affine), path)
    (layer,) = viewer.open(str(path), plugin=PLUGIN)
    return layer, array


def test_a_volume_and_back(viewer, tmp_path):
    affine = np.array([[0, 0, 2.0, -10], [-1.5, 0, 0, 20], [0, 3.0, 0, 5], [0, 0, 0, 1]])  # a sagittal scan
    layer, array = open_volume(viewer, tmp_path / "t1.nii.gz", affine)
    assert np.array_equal(volume_of(layer), array)
    x, y, z = apply_affine(affine, (1, 2, 3))
    assert layer.get_value((z, y, x), world=True) == array[1, 2, 3]
    assert viewer.layers.save(str(tmp_path / "again.nii.gz"), plugin=PLUGIN)
    again = nib.load(tmp_path / "again.nii.gz")
    assert np.array_equal(np.asarray(again.dataobj), array)
    assert np.allclose(again.affine, affine)


def test_labels_drawn_on_a_volume_are_saved_on_its_grid(viewer, tmp_path):
    affine = np.diag([-2.0, 2.0, 2.5, 1.0])
    affine[:3, 3] = (10, -12, 4)
    image, _ = open_volume(viewer, tmp_path / "t1.nii.gz", affine)
    viewer._new_labels()
    labels = viewer.layers[-1]
    assert isinstance(labels, Labels)
    world = image.data_to_world((3, 2, 1))  # voxel (1, 2, 3)
    labels.data_setitem(tuple(np.array([c]) for c in np.round(labels.world_to_data(world)).astype(int)), 7)
    viewer.layers.selection = {labels}
    assert viewer.layers.save(str(tmp_path / "region.nii.gz"), selected=True, plugin=PLUGIN)
    saved = nib.load(tmp_path / "region.nii.gz")
    (at,) = np.argwhere(np.asarray(saved.dataobj) == 7)
    assert np.allclose(apply_affine(saved.affine, at), apply_affine(affine, (1, 2, 3)))


def test_a_tractogram(viewer):
    path = sample_path("brain_phantom") / "bundles.trk"
    (layer,) = viewer.open(str(path), plugin=PLUGIN)
    assert isinstance(layer, Streamlines)
    fibers = tractograms.io.read_tractogram(path)
    assert len(carried(layer, "tractogram")) == len(fibers)
    assert np.allclose(layer.data_to_world(layer.data[0]), world_to_viewer(fibers.points[0]), atol=1e-3)


@pytest.mark.parametrize("suffix", [".trk", ".tck", ".trx", ".vtk"])
def test_fibers_are_saved_by_naparis_own_save(viewer, tmp_path, suffix):
    fibers = tractograms.io.read_tractogram(sample_path("brain_phantom") / "bundles.trk")
    layer = Streamlines(fibers.points[:, ::-1], fibers.offsets, name="fibers", metadata={KEY: {"tractogram": fibers}})
    viewer.add_layer(layer)
    path = tmp_path / f"fibers{suffix}"
    assert viewer.layers.save(str(path)) == [str(path)]
    back = tractograms.io.read_tractogram(path)
    assert len(back) == len(fibers)
    assert np.abs(back.points - fibers.points).max() < 1e-3


def test_fibers_that_carry_no_tractogram_are_saved_as_they_are_shown(viewer, tmp_path):
    points = np.array([[0.0, 0, 0], [0, 0, 5], [1, 2, 3], [4, 5, 6], [7, 8, 9]])
    viewer.add_layer(Streamlines(points, [0, 2, 5], translate=(10, 0, 0)))
    path = tmp_path / "fibers.tck"
    assert viewer.layers.save(str(path)) == [str(path)]
    back = tractograms.io.read_tractogram(path)
    assert [len(fiber) for fiber in back] == [2, 3]
    assert np.allclose(back.points, (points + np.array([10, 0, 0]))[:, ::-1], atol=1e-4)
