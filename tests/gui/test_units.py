"""Layers with and without a unit in one viewer: napari does not warn, and what a layer has itself is known."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from napari_gpubio.core.napari_io import has_length_unit, mm_per_unit, own_units, taken_as_mm
from napari_gpubio.gui.anatomy import shows_a_body
from napari_gpubio.gui.layers import LayerListener
from napari_gpubio.gui.scans import follow_scans
from napari_gpubio.speckle.gui.panel_layers import pixel_note
from napari_gpubio.speckle.samples import step_layers

MM = ("mm",) * 3


@pytest.fixture
def followed():
    model = ViewerModel()
    follow_scans(model)
    return model


def names_of_units(units):
    return [str(unit) for unit in units]


def add(viewer, shape, units=None, **keywords):
    return viewer.add_image(np.zeros(shape), units=units, **keywords)


def warns(viewer):
    """Whether napari would warn when it draws."""
    return viewer.layers.extent.units is None


@pytest.mark.parametrize("frames_first", [True, False])
def test_frames_beside_a_volume_are_shown_in_its_units_and_keep_their_own(followed, frames_first):
    shapes = [((5, 8, 8), None), ((6, 8, 8), MM)]
    made = [add(followed, *one) for one in (shapes if frames_first else shapes[::-1])]
    frames, volume = made if frames_first else made[::-1]
    assert not warns(followed)
    assert names_of_units(frames.units) == names_of_units(volume.units) == ["millimeter"] * 3
    assert names_of_units(own_units(frames)) == ["pixel"] * 3
    assert taken_as_mm(frames), "the note stays"
    assert pixel_note(frames)
    assert not shows_a_body(frames)
    followed.layers.remove(volume)
    assert names_of_units(frames.units) == ["pixel"] * 3, "its own ones, now that it is alone"


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (("pixel", *MM), ("ps", *MM), "picosecond"),
        (("um", "um"), ("pixel", "pixel"), "micrometer"),
        (("pixel", "um", "um"), MM, "millimeter"),
    ],
    ids=["a series and time gates", "a known and an unknown pixel", "frames beside a volume"],
)
def test_every_axis_has_one_unit(followed, first, second, shown):
    layers = [add(followed, (4,) * len(units), units) for units in (first, second)]
    assert not warns(followed)
    assert {names_of_units(layer.units)[0] for layer in layers} == {shown}


def test_a_unit_that_is_given_later_is_the_layers_own(followed):
    frames, _ = add(followed, (5, 8, 8), scale=(1, 2, 2)), add(followed, (6, 8, 8), MM)
    assert not has_length_unit(frames)
    assert mm_per_unit(frames) == (1, 1, 1)
    frames.units = ("pixel", "um", "um")
    assert names_of_units(own_units(frames)) == ["pixel", "micrometer", "micrometer"]
    assert names_of_units(frames.units) == ["millimeter", "micrometer", "micrometer"]
    assert not warns(followed)
    followed.layers.clear()
    assert names_of_units(frames.units) == ["pixel", "micrometer", "micrometer"]


def test_the_speckle_samples_beside_a_brain_make_no_warning(followed):
    add(followed, (9, 9, 9), MM)
    for data, keywords, _ in step_layers():
        followed.add_image(data, **keywords)
    assert not warns(followed)


@pytest.mark.display
@pytest.mark.parametrize("frames_first", [True, False])
def test_napari_warns_not_even_while_a_layer_is_added(viewer, frames_first):
    follow_scans(viewer)
    before = len(notification_manager.records)
    for shape, units in [((5, 8, 8), None), ((6, 8, 8), MM)][:: 1 if frames_first else -1]:
        add(viewer, shape, units)
    viewer.layers.pop()
    viewer.layers.clear()
    found = [record.message for record in list(notification_manager.records)[before:]]
    assert not [message for message in found if "units" in message]


def test_a_loan_is_no_move_of_the_layer(followed):
    frames, moved = add(followed, (5, 8, 8)), []
    listener = LayerListener(
        followed, lambda layer: True, place_changed=moved.append, data_changed=lambda layer, _: moved.append(layer)
    )
    listener.attach()
    volume = add(followed, (6, 8, 8), MM)
    assert names_of_units(frames.units) == ["millimeter"] * 3
    followed.layers.remove(volume)
    assert names_of_units(frames.units) == ["pixel"] * 3
    assert moved == []
    frames.units = MM
    assert frames in moved
    listener.detach()
