"""The dock widget "Fiber tracking": from one direction a voxel to fibers in FODs by one click."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.diffusion.fods import estimate
from napari_gpubio.diffusion.fods.napari_io import fods_of
from napari_gpubio.diffusion.gui import FodPanel
from napari_gpubio.diffusion.napari_io import scan_layer
from napari_gpubio.gui.history import history_of
from tests.diffusion.brain_samples import coarse_brain
from tests.fibers.gui.tracking_samples import CALLOSUM
from tests.sentences import says


def add(viewer, scan, name="scan"):
    data, keywords, _ = scan_layer(scan, name)
    return viewer.add_image(data, **keywords)


@pytest.mark.daily
def test_one_click_makes_fods_and_tensors_say_what_they_miss(viewer, empty, monkeypatch):
    monkeypatch.setattr(estimate, "LEAST_DIRECTIONS", 24)  # those of the sample
    panel, offer = empty.panel, empty.panel.fod_offer
    scan = add(viewer, coarse_brain(2))
    assert offer.button.text() == "Make FODs"
    assert "hamiltonian: " in offer.text
    empty.click(CALLOSUM)
    assert "one direction a voxel" in empty.summary
    assert panel.seed_box.crossings.isHidden()  # nothing tells of any
    tensors = panel.source_box.layer
    assert tensors is not scan

    history_of(viewer).note_act()
    offer.button.click()
    panel.run_button.click()  # Stop
    empty.settle()
    assert "no FODs" in empty.message
    assert panel.source_box.layer is tensors

    empty.press("Make FODs")
    made = panel.source_box.layer
    assert made.name == "scan FOD"
    assert "ifod2: " in offer.text
    assert offer.button.isHidden()
    fod_panel = FodPanel(viewer)
    assert record_of(made).of == fod_panel.take_draft()()  # as the panel of FODs would make them
    fod_panel.teardown()

    panel.source_box.choose(tensors)
    empty.settle()
    panel.track_again()
    empty.settle()
    assert says(panel.seed_box.crossings.text(), "% of the way", "two directions")
    assert carried(empty.layers["bundle 1"], "notes")
    history_of(viewer).note_act()
    empty.press("Track in FODs")
    assert fods_of(panel.source_box.layer) is fods_of(made)
    empty.settle()


def test_a_scan_that_gives_no_fods_says_why(viewer, empty):
    scan = coarse_brain(3)
    kept = np.r_[np.flatnonzero(scan.is_b0), np.flatnonzero(~scan.is_b0)[:12]]
    few = dataclasses.replace(scan, data=scan.data[..., kept], bvals=scan.bvals[kept], directions=scan.directions[kept])
    add(viewer, few)
    assert says(empty.panel.fod_offer.text, "12 directions", "28")
    assert empty.panel.fod_offer.button.isHidden()
