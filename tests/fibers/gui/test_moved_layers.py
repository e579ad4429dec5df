"""The dock widget "Fiber tracking": what becomes of layers starts no run and changes no fibers."""

import pytest

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations import digest, verbs
from napari_gpubio.fibers.gui import tracing
from tests.fibers.gui.tracking_samples import CALLOSUM, add_labels, add_scan


@pytest.fixture
def runs(monkeypatch):
    """The runs that were begun."""
    begun, track_steps = [], tracing.track_steps

    def counted(*arguments, **keywords):
        begun.append(arguments)
        return track_steps(*arguments, **keywords)

    monkeypatch.setattr(tracing, "track_steps", counted)
    return begun


@pytest.mark.parametrize("seeded", ["click", "label"])
def test_what_becomes_of_layers_starts_no_run(viewer, one, runs, seeded):
    assert verbs()  # what kinds of results there are
    add_scan(viewer)
    labels, _ = add_labels(viewer, CALLOSUM)
    if seeded == "label":
        one.seed_from(labels)
        one.press("Track")
    one.settle()
    name = "bundle 1" if seeded == "click" else "region 1"
    before, settings = digest(one.fibers(name)), one.panel.settings_form.value()
    source = one.panel.source_box.layer
    runs.clear()
    for layer in list(viewer.layers):
        layer.visible = not layer.visible
        layer.visible = not layer.visible
    for place in range(len(viewer.layers)):
        viewer.layers.move(place, 0)
    one.settle()
    others = [layer for layer in viewer.layers if layer != one.layers[name] and layer.name != "seeds"]
    for layer in others:
        viewer.layers[0].name, old = "renamed", viewer.layers[0].name
        layer.name = "another name"
        viewer.layers[0].name = old
        one.settle()
    for layer in others:
        layer.name = "renamed again"
        viewer.layers.remove(layer)
        one.settle()
        assert one.panel.source_box.layer is source
    assert not runs
    assert one.panel.settings_form.value() == settings
    layer = one.panel.display.fiber_layer(one.panel.bundles.current.key) if seeded == "click" else one.layers[name]
    assert digest(carried(layer, "tractogram")) == before
