"""The records that layers of light carry."""

import dataclasses

import pytest

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.files import output_of_record
from napari_gpubio.layered.beams import FlatBeam
from napari_gpubio.layered.operations import SimulateLayers
from napari_gpubio.layered.run import simulate
from napari_gpubio.light.gui.displayed import DisplayOptions, display_layers, display_voxels
from napari_gpubio.light.operations import OpenRun
from tests.light.gui.layers.panel_samples import MEDIUM, SETTINGS
from tests.light.result_samples import sample_result

OPERATION = SimulateLayers(medium=MEDIUM, settings=SETTINGS)  # whatever makes a run


def record_in(displayed):
    return output_of_record(displayed.layers["fluence"][1]["metadata"][KEY].get(RECORD))


@pytest.fixture(scope="module")
def traced():
    return simulate(MEDIUM, SETTINGS, device="cpu")


@pytest.mark.parametrize(("radius_mm", "fits"), [(0.3, True), (1000.0, False)])
def test_a_picture_names_the_beam_that_it_is_shown_for(traced, radius_mm, fits):
    beam = FlatBeam(radius_mm=radius_mm)
    displayed = display_layers(traced, DisplayOptions(beam=beam), OPERATION)
    assert bool(displayed.problem) != fits
    assert record_in(displayed).of.beam == (beam if fits else None)


def test_what_is_not_whole_has_no_record(traced):
    stopped = dataclasses.replace(traced, complete=False)
    assert record_in(display_layers(traced, DisplayOptions(), OPERATION)).of.run.of == OPERATION
    assert record_in(display_layers(stopped, DisplayOptions(), OPERATION)) is None


def test_what_is_not_whole_in_voxels_has_no_record():
    run = OpenRun.at(__file__)
    for complete in (True, False):
        result = sample_result((8, 8, 8), detectors=(), photons=3000, complete=complete)
        found = record_in(display_voxels(result, DisplayOptions(), run))
        assert (found is not None and found.of.volume.of.run.of == run) if complete else found is None
