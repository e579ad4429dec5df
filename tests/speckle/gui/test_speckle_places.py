"""Where live maps lie, and in which units; that what is put into a layer reaches the screen."""

import numpy as np
import pytest
from napari.layers import Image
from napari.utils.notifications import notification_manager

from napari_gpubio.speckle.gui.layers import LIVE_MAP, LIVE_RAW, REGIONS, move_to, place_beside, place_of, update_data
from tests.speckle.gui.panel_samples import SHAPE, add_panel, add_stack, box, draw, layer, simulate, start, stop

UM = ("um", "um")
MICROMETRES = ["micrometer", "micrometer"]


def image(*units, scale=1.0):
    ndim = len(units)
    return Image(np.zeros((4,) * ndim), units=units, scale=(scale,) * ndim)


def units_of(one):
    return [str(unit) for unit in one.units]


@pytest.mark.parametrize(
    ("told", "others", "units"),
    [
        ({}, [], ["pixel", "pixel"]),
        ({}, [image("pixel", "um", "um")], MICROMETRES),
        ({}, [image("pixel", "pixel")], ["pixel", "pixel"]),
        ({"scale": (5, 5), "units": UM}, [], ["um", "um"]),
        ({"scale": (5, 5), "units": UM}, [image("mm", "mm")], ["um", "um"]),
        ({"scale": (5, 5), "units": UM}, [image("pixel", "pixel")], ["pixel", "pixel"]),
        ({"units": UM}, [image("pixel", "pixel"), image("mm", "mm")], ["um", "um"]),
    ],
    ids=["alone", "unknown beside um", "unknown beside pixels", "known", "two lengths", "known beside pixels", "mixed"],
)
def test_units_go_with_those_of_the_others(told, others, units):
    place = place_beside(told, others)
    assert [str(unit) for unit in place["units"]] == units
    assert place["scale"] == told.get("scale", (1.0, 1.0))


def test_a_layer_is_moved_where_it_does_not_lie_yet():
    one, place = image("pixel", "pixel"), {"scale": (2.0, 2.0), "translate": (1.0, 0.0), "units": UM}
    assert move_to(one, place)
    assert (tuple(one.scale), tuple(one.translate), units_of(one)) == ((2, 2), (1, 0), MICROMETRES)
    assert not move_to(one, place)
    assert not move_to(one, place | {"units": ("pixel", "pixel")})
    assert units_of(one) == ["pixel", "pixel"]


def test_live_maps_follow_their_source(viewer, panel, qtbot):
    simulate(panel, SHAPE)
    panel.source_box.pixel.setValue(3.0)
    start(qtbot, panel)
    draw(qtbot, panel, box(5, 5, 20, 20))
    stop(qtbot, panel)
    for part in (LIVE_MAP, LIVE_RAW, REGIONS):
        assert tuple(layer(viewer, part).scale) == (3, 3)
        assert units_of(layer(viewer, part)) == MICROMETRES
    panel.source_box.pixel.setValue(4.0)
    assert tuple(layer(viewer, LIVE_MAP).scale) == (4, 4), "it may be found out later"
    stack = add_stack(viewer, scale=(1, 2, 2), translate=(0, 7, 9), units=("pixel", "um", "um"))
    panel.source_box.choose(type(panel.source_box.pages[0]))
    panel.source_box.stack.layer_box.choose(stack)
    start(qtbot, panel)
    stop(qtbot, panel)
    want = place_of(stack)
    for part in (LIVE_MAP, LIVE_RAW, REGIONS):
        assert place_of(layer(viewer, part)) == want


@pytest.fixture
def warnings():
    """Texts of napari's notifications."""
    told = []

    def note(notification):
        told.append(str(notification.message))

    notification_manager.notification_ready.connect(note)
    yield told
    notification_manager.notification_ready.disconnect(note)


@pytest.mark.display
def test_napari_does_not_warn_of_units(make_napari_viewer_proxy, qtbot, errors, warnings):
    """A stack in micrometers is open; then a camera whose pixel size nobody knows, then the stack itself, live."""
    viewer = make_napari_viewer_proxy()
    panel = add_panel(viewer)
    stack = add_stack(viewer, scale=(1, 2.5, 2.5), units=("pixel", "um", "um"))
    simulate(panel, SHAPE)
    start(qtbot, panel)
    draw(qtbot, panel, box(5, 5, 20, 20))
    stop(qtbot, panel)
    panel.source_box.choose(type(panel.source_box.pages[0]))
    panel.source_box.stack.layer_box.choose(stack)
    start(qtbot, panel)
    stop(qtbot, panel)
    panel.teardown()
    assert [text for text in warnings if "nits" in text] == []
    assert errors() == []


@pytest.mark.display
def test_a_unit_that_comes_later_is_taken_over(make_napari_viewer_proxy, qtbot, errors):
    viewer = make_napari_viewer_proxy()
    panel = add_panel(viewer)
    simulate(panel, SHAPE)
    start(qtbot, panel)
    stop(qtbot, panel)
    add_stack(viewer, units=("pixel", "um", "um"))
    assert units_of(layer(viewer, LIVE_MAP)) == MICROMETRES
    viewer.layers.remove("frames")
    assert units_of(layer(viewer, LIVE_MAP)) == ["pixel", "pixel"]
    panel.teardown()
    assert errors() == []


# -- the screen -------------------------------------------------------------------------------------------------------


@pytest.mark.display
def test_what_is_put_into_a_layer_reaches_the_screen(make_napari_viewer):
    """It is not sliced again, so that what napari draws must be the layer's own memory."""
    viewer = make_napari_viewer()
    one = viewer.add_image(np.zeros(SHAPE, np.float32), contrast_limits=(0, 1))
    canvas = viewer.window._qt_viewer.canvas._scene_canvas
    assert canvas.render()[..., :3].max() == 0
    memory = one.data
    update_data(one, np.ones(SHAPE, np.float32))
    assert one.data is memory
    assert np.shares_memory(one._data_view, memory)
    assert canvas.render()[..., :3].max() == 255
    one.visible = False
    update_data(one, np.zeros(SHAPE, np.float32))
    one.visible = True
    assert canvas.render()[..., :3].max() == 0, "a hidden layer is drawn anew when it is shown"
