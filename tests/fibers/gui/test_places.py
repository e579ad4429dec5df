"""The offer of panels to take what tells no place voxel by voxel."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import diffusion, tractograms
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, grid_of
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.space import same_grid, voxel_sizes_mm
from napari_gpubio.diffusion.gui.source import mask_in
from napari_gpubio.diffusion.napari_io import read_layers, scan_layer
from napari_gpubio.fibers.gui import ConnectomePanel
from napari_gpubio.tractograms.connectome import connectome
from napari_gpubio.tractograms.gui import DissectionPanel
from napari_gpubio.tractograms.gui.dissection.rules import Rule
from napari_gpubio.tractograms.operations import OpenTractogram
from tests.diffusion.brain_samples import coarse_brain
from tests.dock_widgets import press_and_wait, save_scripts_as, script_of, shown_by_script, until_the_end
from tests.sentences import says

FIBERS, ATLAS = sample_path("brain_phantom/bundles.trk"), sample_path("brain_phantom/atlas.nii.gz")
STEM = 21


@pytest.fixture
def files(tmp_path):
    """The phantom's atlas without an orientation, and its fibers without a matrix."""
    image = nib.load(ATLAS)
    bare = nib.Nifti1Image(np.asarray(image.dataobj), None)
    bare.header.set_zooms(image.header.get_zooms()[:3])
    nib.save(bare, tmp_path / "bare.nii.gz")
    data = bytearray(FIBERS.read_bytes())
    data[440:504] = bytes(64)
    (tmp_path / "lost.trk").write_bytes(data)
    return tmp_path


def add_atlas(viewer, path):
    ((labels, keywords, _),) = read_layers(str(path))
    return viewer.add_labels(labels, **keywords)


@pytest.fixture
def make(viewer, qtbot):
    """A function that opens fibers and an atlas, and gives a panel over them."""
    panels = []

    def make(fibers, atlas, kind=ConnectomePanel):
        tractograms.show(viewer, fibers)
        add_atlas(viewer, atlas)
        panels.append(until_the_end(qtbot, viewer, kind(viewer)))
        panel = next(panels[-1])
        qtbot.wait(20)
        return panel

    yield make
    for one in panels:
        next(one, None)


@pytest.fixture
def expected():
    return connectome(FIBERS, diffusion.io.read_atlas(ATLAS)).matrix()


@pytest.mark.filterwarnings("ignore")
def test_an_atlas_without_orientation_is_refused_and_taken_as_the_fibers(
    make, files, qtbot, viewer, expected, monkeypatch
):
    panel = make(FIBERS, files / "bare.nii.gz")
    press_and_wait(qtbot, panel, panel.run_button)
    assert says(panel.message, "no orientation", "voxel by voxel")
    assert says(panel.place_button.text(), "bare", "voxel by voxel", "bundles")
    assert panel.place_button.isVisibleTo(panel)
    panel.place_button.click()
    assert not panel.place_button.isVisibleTo(panel)
    assert any(says(note, "voxel by voxel", "bundles") for note in panel.input_notes())
    press_and_wait(qtbot, panel, panel.run_button)
    np.testing.assert_array_equal(panel.matrix(), expected)
    layer, true = viewer.layers["bare as bundles"], nib.load(ATLAS)
    affine, shape = grid_of(layer)
    assert same_grid(shape, affine, true.shape, true.affine)
    np.testing.assert_array_equal(layer.data, add_atlas(viewer, ATLAS).data)
    before = (files / "bare.nii.gz").read_bytes()
    save_scripts_as(monkeypatch, files / "script.py")
    shown = shown_by_script(script_of(panel), files, monkeypatch)
    np.testing.assert_array_equal(shown.layers["connectome"].data, np.nan_to_num(expected))
    assert (files / "bare.nii.gz").read_bytes() == before


@pytest.mark.filterwarnings("ignore")
def test_fibers_of_unknown_place_are_taken_as_the_atlas(make, files, qtbot, viewer, expected, monkeypatch):
    panel = make(files / "lost.trk", ATLAS)
    press_and_wait(qtbot, panel, panel.run_button)
    assert says(panel.message, "tells no place", "voxel by voxel")
    record = record_of_output(OpenTractogram.at(files / "lost.trk").output())
    viewer.layers["lost"].metadata[KEY][RECORD] = record
    panel.place_button.click()
    assert record_of(viewer.layers["lost"]) is None  # which would put them where they were
    press_and_wait(qtbot, panel, panel.run_button)
    np.testing.assert_array_equal(panel.matrix(), expected)
    true = tractograms.io.read_tractogram(FIBERS)
    np.testing.assert_allclose(viewer.layers["lost"].points[:, ::-1], true.points, atol=1e-3)
    save_scripts_as(monkeypatch, files / "script.py")
    shown = shown_by_script(script_of(panel), files, monkeypatch)
    np.testing.assert_array_equal(shown.layers["connectome"].data, np.nan_to_num(expected))


@pytest.mark.filterwarnings("ignore")
def test_a_region_of_a_dissection_is_offered_its_place(make, files, qtbot, viewer):
    panel = make(FIBERS, files / "bare.nii.gz", DissectionPanel)
    assert not panel.place_button.isVisibleTo(panel)
    panel.add_rule(Rule(layer=viewer.layers["bare"], key=STEM))
    qtbot.waitUntil(lambda: says(panel.message, "no orientation"), timeout=20_000)
    panel.place_button.click()
    qtbot.waitUntil(lambda: not viewer.layers["bundles"].shown.all(), timeout=60_000)
    atlas = diffusion.io.read_atlas(ATLAS)
    kept = tractograms.dissection.dissect(FIBERS, tractograms.dissection.through(atlas.region(STEM)))
    np.testing.assert_array_equal(viewer.layers["bundles"].shown, kept)


@pytest.mark.filterwarnings("ignore")
def test_a_mask_without_orientation_is_offered_the_voxels_of_its_scan(fit_panel, viewer, qtbot, tmp_path):
    scan = coarse_brain(3)
    mask = nib.Nifti1Image((scan.data[..., 0] > 0).astype(np.uint8), None)
    mask.header.set_zooms(voxel_sizes_mm(scan.affine))
    nib.save(mask, tmp_path / "mask.nii.gz")
    data, keywords, _ = scan_layer(scan, "scan")
    viewer.add_image(data, **keywords)
    layer = add_atlas(viewer, tmp_path / "mask.nii.gz")
    fit_panel.mask_box.choose(layer)
    with pytest.raises(InvalidInput, match="not on the grid"):
        mask_in(layer, scan)
    assert says(fit_panel.place_button.text(), "mask", "scan")
    fit_panel.place_button.click()
    np.testing.assert_array_equal(mask_in(layer, scan), scan.data[..., 0] > 0)
