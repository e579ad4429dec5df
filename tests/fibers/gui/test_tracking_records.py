"""The dock widget "Fiber tracking": the operation that fibers carry gives these fibers."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio import diffusion, tractograms
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations import digest, run, run_steps
from napari_gpubio.core.operations.files import output_of_record
from napari_gpubio.core.operations.layer_sources import shown_as
from napari_gpubio.core.steps import drive
from napari_gpubio.diffusion import operations as diffusion_operations
from napari_gpubio.diffusion.napari_io import read_layers
from napari_gpubio.fibers import operations as fibers_operations
from napari_gpubio.gui.looks import show_layers
from napari_gpubio.gui.session_window import shown_steps, take_layers
from napari_gpubio.tractograms.gui.fibers import fiber_layer, fibers_to_save, read_tractogram_layers
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from tests.fibers.gui.tracking_samples import CALLOSUM, add_labels, add_scan


def again(layer):
    """The operation of a layer, whose result must be the fibers of the layer."""
    output = output_of_record(carried(layer, RECORD))
    assert output.kind is tractograms.Tractogram
    assert digest(output.value_in(run(output.of, device="cpu"))) == digest(carried(layer, "tractogram"))
    return output.of


@pytest.mark.parametrize("method", ["hamiltonian", "eudx"])
def test_a_bundle_carries_the_operation_that_made_it(one, method):
    one.set("method", method)
    made = again(one.layers["bundle 1"])
    assert isinstance(made, fibers_operations.Track)
    assert (made.seeds.seed, made.seeds.radius_mm, made.seeds.points) == ((CALLOSUM,), 3.0, 10)
    assert made.method == one.panel.settings_form.value()
    one.panel.seed_box.form.widget("radius_mm").value = 0.0
    one.settle()
    assert again(one.layers["bundle 1"]).seeds.points == 1


def test_fibers_of_a_label_carry_the_painted_region(viewer, one):
    labels, _ = add_labels(viewer, CALLOSUM)
    one.seed_from(labels)
    one.press("Track")
    made = again(one.layers["region 1"])
    assert isinstance(made.region.of, diffusion_operations.HeldRegion)
    labels.data[...] = 0  # later strokes change nothing
    again(one.layers["region 1"])


def test_fibers_of_a_file_have_it_as_their_source(viewer, user):
    for layer in list(viewer.layers):
        viewer.layers.remove(layer)
    add_scan(viewer)
    user.click(CALLOSUM)
    made = again(user.layers["bundle 1"])
    assert isinstance(made.field.of, diffusion_operations.FitTensors)
    assert isinstance(made.field.of.scan.of, diffusion_operations.OpenScan)
    user.set("fa_stop", 0.3)  # in the tensors that were fitted
    assert again(user.layers["bundle 1"]).field == made.field


@pytest.mark.filterwarnings("ignore::napari_gpubio.core.reading.ReadingNote")
def test_what_readers_show_is_opened_from_its_files_by_a_session(viewer, one, tmp_path):
    layer, fibers = one.layers["bundle 1"], carried(one.layers["bundle 1"], "tractogram")
    write_tractogram(tmp_path / "all.trk", fibers)
    tensors = run(again(layer).field, device="cpu")
    diffusion.io.write_tensors(tmp_path / "dti.nii.gz", tensors)
    viewer.layers.clear()
    (opened,) = read_tractogram_layers(str(tmp_path / "all.trk"))
    viewer.add_layer(opened)
    viewer.add_layer(fiber_layer(fibers.select([0]), "first"))  # of no file
    for data, keywords, _ in read_layers(str(tmp_path / "dti.nii.gz")):
        viewer.add_image(data, **keywords)
    others = take_layers(viewer.layers)[1]
    shown = drive(shown_steps(take_layers(viewer.layers)[0]))
    assert not others
    verbs = ["open-tractogram", "held-tractogram", "open-tensors", "open-tensors"]
    assert [one.output.of.verb for one in shown] == verbs
    other = ViewerModel()
    for saved in shown:
        show_layers(other, saved, drive(run_steps(saved.output, device="cpu")))
    assert [one.name for one in other.layers] == [one.name for one in viewer.layers]
    for again_, before in zip(other.layers[2:], viewer.layers[2:], strict=True):
        np.testing.assert_array_equal(again_.data, before.data)
    assert digest(carried(other.layers[0], "tractogram")) == digest(carried(opened, "tractogram"))


def test_a_file_of_all_fibers_carries_it_and_a_session_shows_them(viewer, one, tmp_path):
    layer = one.layers["bundle 1"]
    made = again(layer)
    write_tractogram(tmp_path / "all.trx", fibers_to_save(layer))
    assert output_of_record(tractograms.io.read_tractogram(tmp_path / "all.trx").parameters[RECORD]).of == made
    layer.shown = layer.per_fiber["length_mm"] > 60
    assert RECORD not in fibers_to_save(layer).parameters
    ((shown, _, _),) = shown_as(carried(layer, "tractogram"), made.output(), "again")
    assert shown.name == "again"
    assert again(shown) == made
