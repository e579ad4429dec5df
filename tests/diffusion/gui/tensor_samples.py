"""What the tests of the dock widget "Diffusion tensors" share: scans, and what a user does."""

import functools

import nibabel as nib
import numpy as np

from napari_gpubio import diffusion
from napari_gpubio.diffusion.gui import TensorPanel
from napari_gpubio.diffusion.io.gradients import write_fsl_gradients
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.napari_io import map_layer, scan_layer
from tests.diffusion.tensor_samples import sticks as stick_directions
from tests.dock_widgets import docked, press_and_wait


@functools.cache
def phantom_field():
    """The tensors of the sample scan with the panel's own settings, through the API."""
    return diffusion.fit_tensors(diffusion.phantom.load_brain_phantom())


@functools.cache
def sticks(flip=False):
    """Straight bundles in many directions, which show a wrong gradient table; two shells of six directions."""
    points = np.moveaxis(np.indices((40, 40, 40)), 0, -1) * 2.0 - 39.0
    v1 = stick_directions(points)
    gradients = np.random.default_rng(0).normal(size=(14, 3))
    gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
    gradients[:2] = 0
    bvals = np.array([0.0] * 2 + [1000.0] * 6 + [2000.0] * 6)
    diffusivity = np.where(v1.any(axis=-1, keepdims=True), 3e-4 + 1.2e-3 * (v1 @ gradients.T) ** 2, 7e-4)
    data = (1000 * np.exp(-bvals * diffusivity)).astype(np.float32)
    data[np.linalg.norm(points, axis=-1) > 36] = 0  # air around it
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    return DiffusionScan(data=data, bvals=bvals, directions=gradients * ([-1, 1, 1] if flip else 1), affine=affine)


def saved(scan, folder):
    """Write a scan as NIfTI with bval and bvec; returns the path."""
    path = folder / "dwi.nii.gz"
    nib.save(nib.Nifti1Image(scan.data, scan.affine), path)
    write_fsl_gradients(folder / "dwi.bval", folder / "dwi.bvec", scan.bvals, scan.directions, scan.affine)
    return path


def add_panel(viewer):
    return docked(viewer, TensorPanel(viewer), "Diffusion tensors")


def add_scan(viewer, scan, name="scan"):
    data, keywords, _ = scan_layer(scan, name)
    return viewer.add_image(data, **keywords)


def add_map(viewer, field, map_name="FA"):
    data, keywords, _ = map_layer(field, map_name, "study")
    return viewer.add_image(data, **keywords)


def fit(qtbot, panel):
    press_and_wait(qtbot, panel, panel.run_button)


def names(viewer):
    return [layer.name for layer in viewer.layers]


def layer_named(viewer, end):
    return next(layer for layer in viewer.layers if layer.name.endswith(end))
