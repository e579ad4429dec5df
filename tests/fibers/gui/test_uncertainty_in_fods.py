"""The dock widget Fiber uncertainty with fibers that were tracked in FODs."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio import diffusion, tractograms
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations import HeldVolume, Volume
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.fods.napari_io import fod_layer
from napari_gpubio.diffusion.gui.records import output_of, remember
from napari_gpubio.diffusion.napari_io import scan_layer
from napari_gpubio.diffusion.operations import Deconvolve
from napari_gpubio.fibers.gui import UncertaintyPanel
from napari_gpubio.fibers.gui.tracing import BundleSettings
from napari_gpubio.fibers.gui.uncertainty.panel import OTHER_FODS
from napari_gpubio.fibers.seeds import AtPoints
from napari_gpubio.fibers.settings import METHODS
from tests.dock_widgets import (
    error_after_run,
    press_and_wait,
    save_scripts_as,
    script_of,
    shown_by_script,
    until_the_end,
)

SEED = (0.0, -5.0, 22.0)
FEW = fiber_tracking.FodBootstrapSettings(repeats=3, kept_repeats=2, margin_mm=2.0)


@pytest.fixture(scope="module")
def scan():
    return diffusion.phantom.load_brain_phantom()


@pytest.fixture(scope="module")
def mask(scan):
    """Voxels near the seed."""
    places = apply_affine(scan.affine, np.moveaxis(np.indices(scan.shape), 0, -1))
    return np.linalg.norm(places - SEED, axis=-1) < 14.0


@pytest.fixture(scope="module")
def fods(scan, mask):
    return diffusion.deconvolve(scan, None, mask, diffusion.CsdSettings(lmax=4), device="cpu")


@pytest.fixture(scope="module")
def made(fods):
    return BundleSettings(
        seeds=AtPoints(seed=(SEED,)), directions=fiber_tracking.Principal(), method=fiber_tracking.SDStream()
    )


def show_fods(viewer, fods, name):
    data, keywords, _ = fod_layer(fods, name)
    return viewer.add_image(data, **keywords)


@pytest.fixture
def panel(viewer, qtbot, scan, fods, made):
    data, keywords, _ = scan_layer(scan, "scan")
    viewer.add_image(data, **keywords)
    fibers = fiber_tracking.track(fods, [SEED], made.directions, made.method, device="cpu")
    tractograms.show(viewer, fibers, "bundle 1", metadata={"settings": made, "seeds_mm": np.array([SEED])})
    panel = UncertaintyPanel(viewer)
    panel.choose_device("cpu")
    for name in ("repeats", "kept_repeats", "margin_mm"):
        panel.form.widget(name).value = getattr(FEW, name)
    yield from until_the_end(qtbot, viewer, panel)


def test_fibers_in_fods_are_drawn_in_fods(viewer, panel, qtbot, scan, fods, made, mask, tmp_path, monkeypatch):
    assert not panel.fod_box.isHidden()
    brain = HeldVolume.of(Volume(array=mask.astype(np.uint8), affine=fods.affine))
    made_by = Deconvolve(scan=output_of(scan), mask=brain, settings=diffusion.CsdSettings(lmax=4))
    remember(made_by.output(), fods, "cpu")
    show_fods(viewer, fods, "scan")
    press_and_wait(qtbot, panel, panel.run_button)
    assert panel.message == ""
    expected = fiber_tracking.bootstrap(scan, [SEED], made.directions, made.method, FEW, field=fods, device="cpu")
    image = viewer.layers["bundle 1 visit probability"]
    assert np.array_equal(np.sort(image.data, axis=None), np.sort(expected.probability, axis=None))
    assert OTHER_FODS not in panel.results.findings
    assert {"length (mm)", "repeats"} <= {row.name for row in panel.results.table.rows}
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    script = script_of(panel)
    assert script.count("OpenScan(") == 1
    there = shown_by_script(script, tmp_path, monkeypatch)
    assert np.array_equal(there.layers[image.name].data, image.data)


def test_what_is_missing_is_said(viewer, panel, qtbot, fods):
    assert "there are no FODs" in error_after_run(qtbot, panel)
    show_fods(viewer, dataclasses.replace(fods, parameters={}), "file")
    assert "not deconvolved here" in error_after_run(qtbot, panel)


def test_the_inputs_are_those_of_the_fibers(viewer, panel, made):
    fibers = viewer.layers["bundle 1"].metadata[KEY]["tractogram"]
    for name, method in (("in tensors", "hamiltonian"), ("in fixels", "fixel_geodesic")):
        settings = dataclasses.replace(made, method=METHODS[method]())
        tractograms.show(viewer, fibers, name, metadata={"settings": settings, "seeds_mm": np.array([SEED])})
    panel.fibers_box.choose(viewer.layers["in fixels"])
    assert panel.fibers_box.layer.name == "bundle 1"
    panel.fibers_box.choose(viewer.layers["in tensors"])
    assert panel.fod_box.isHidden()
