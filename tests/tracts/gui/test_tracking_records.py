"""The dock widget "Fiber tracking": the operation that fibers carry gives these fibers."""

import pytest

from napari_gpubio import tracts
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations import digest, run
from napari_gpubio.core.operations.files import output_of_record
from napari_gpubio.core.operations.layers import shown_as
from napari_gpubio.tracts import operations
from napari_gpubio.tracts.gui.fibers import fibers_to_save
from tests.tracts.gui.tracking_samples import CALLOSUM, add_labels, add_scan


def again(layer):
    """The operation of a layer, whose result must be the fibers of the layer."""
    output = output_of_record(carried(layer, RECORD))
    assert output.kind is tracts.Tractogram
    assert digest(output.value_in(run(output.of, device="cpu"))) == digest(carried(layer, "tractogram"))
    return output.of


@pytest.mark.parametrize("method", ["hamiltonian", "eudx"])
def test_a_bundle_carries_the_operation_that_made_it(one, method):
    one.set("method", method)
    made = again(one.layers["bundle 1"])
    assert isinstance(made, operations.Track)
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
    assert isinstance(made.region.of, operations.HeldRegion)
    labels.data[...] = 0  # later strokes change nothing
    again(one.layers["region 1"])


def test_fibers_of_a_file_have_it_as_their_source(viewer, user):
    for layer in list(viewer.layers):
        viewer.layers.remove(layer)
    add_scan(viewer)
    user.click(CALLOSUM)
    made = again(user.layers["bundle 1"])
    assert isinstance(made.field.of, operations.FitTensors)
    assert isinstance(made.field.of.scan.of, operations.OpenScan)
    user.set("fa_stop", 0.3)  # in the tensors that were fitted
    assert again(user.layers["bundle 1"]).field == made.field


def test_a_file_of_all_fibers_carries_it_and_a_session_shows_them(viewer, one, tmp_path):
    layer = one.layers["bundle 1"]
    made = again(layer)
    fibers_to_save(layer).save(tmp_path / "all.trx")
    assert output_of_record(tracts.io.read_tractogram(tmp_path / "all.trx").parameters[RECORD]).of == made
    layer.shown = layer.per_fiber["length_mm"] > 60
    assert RECORD not in fibers_to_save(layer).parameters
    ((shown, _, _),) = shown_as(carried(layer, "tractogram"), made.output(), "again")
    assert shown.name == "again"
    assert again(shown) == made
