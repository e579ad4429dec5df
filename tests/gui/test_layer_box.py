"""The list of layers that fit a purpose."""

import gc
import weakref

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels

from napari_gpubio.gui.layers import LayerBox


def is_labels(layer):
    return isinstance(layer, Labels)


def is_image(layer):
    return isinstance(layer, Image)


@pytest.fixture
def viewer():
    return ViewerModel()


@pytest.fixture
def make_box(qtbot, viewer):
    def make(accepts=is_labels, **options):
        box = LayerBox(viewer, accepts, **options)
        box.attach()
        qtbot.addWidget(box)
        box.heard = []
        box.currentIndexChanged.connect(lambda *_: box.heard.append(box.layer))
        return box

    return make


def add_labels(viewer, name):
    return viewer.add_labels(np.zeros((2, 2, 2), int), name=name)


def names(box):
    return [box.itemText(i) for i in range(box.count())]


def test_it_starts_with_the_layers_that_are_there_the_newest_chosen(viewer, make_box):
    first, second = add_labels(viewer, "first"), add_labels(viewer, "second")
    viewer.add_image(np.zeros((2, 2, 2)), name="an image")
    box = make_box()
    assert names(box) == ["second", "first"]
    assert box.layer is second
    box.choose(first)
    assert box.layer is first


def test_while_no_layer_fits_it_says_so_and_has_none(viewer, make_box):
    box = make_box(empty="draw a region first")
    assert box.layer is None
    assert box.count() == 0
    assert box.currentIndex() == -1
    assert box.placeholderText() == "draw a region first"


def test_the_first_layer_that_fits_is_chosen(viewer, make_box):
    box = make_box()
    viewer.add_image(np.zeros((2, 2, 2)))
    assert box.heard == []
    region = add_labels(viewer, "region")
    assert box.layer is region
    assert box.heard == [region]


def test_a_new_layer_does_not_take_the_choice_away(viewer, make_box):
    box = make_box()
    first = add_labels(viewer, "first")
    add_labels(viewer, "second")
    assert names(box) == ["second", "first"]
    assert box.layer is first
    assert box.heard == [first]


def test_nothing_stays_chosen_where_nothing_is_allowed(viewer, make_box):
    box = make_box(nothing="the whole volume")
    region = add_labels(viewer, "region")
    assert names(box) == ["the whole volume", "region"]
    assert box.layer is None
    box.choose(region)
    assert box.layer is region
    viewer.layers.remove(region)
    assert box.layer is None
    assert box.currentText() == "the whole volume"


def test_a_removed_layer_is_gone_and_another_is_chosen(viewer, make_box):
    box = make_box()
    first, second = add_labels(viewer, "first"), add_labels(viewer, "second")
    viewer.layers.remove(first)
    assert names(box) == ["second"]
    assert box.layer is second
    viewer.layers.remove(second)
    assert box.layer is None
    assert box.currentIndex() == -1
    assert box.heard == [first, second, None]


def test_clearing_the_viewer(viewer, make_box):
    box = make_box()
    add_labels(viewer, "a"), add_labels(viewer, "b")
    viewer.layers.clear()
    assert box.layer is None
    assert box.count() == 0


def test_a_renamed_layer_stays_chosen_under_its_new_name(viewer, make_box):
    box = make_box()
    first, second = add_labels(viewer, "first"), add_labels(viewer, "second")
    heard = list(box.heard)
    first.name = "thalamus"
    assert names(box) == ["second", "thalamus"]
    assert box.layer is first
    second.name = "putamen"
    assert names(box) == ["putamen", "thalamus"]
    assert box.layer is first
    assert box.heard == heard


def test_names_that_change_places_do_not_change_the_choice(viewer, make_box):
    box = make_box()
    first, second = add_labels(viewer, "first"), add_labels(viewer, "second")
    first.name = "x"
    second.name = "first"
    first.name = "second"
    assert box.layer is first
    assert box.heard == [first]


def test_moved_layers_are_listed_from_the_top(viewer, make_box):
    box = make_box()
    first = add_labels(viewer, "first")
    add_labels(viewer, "second")
    viewer.layers.move(0, 2)
    assert names(box) == ["first", "second"]
    assert box.layer is first


def test_choosing_a_layer_that_does_not_fit_changes_nothing(viewer, make_box):
    image = viewer.add_image(np.zeros((2, 2, 2)))
    region = add_labels(viewer, "region")
    box = make_box()
    box.choose(image)
    assert box.layer is region


def test_a_proxy_of_a_layer_can_be_chosen(viewer, make_box):
    from napari.utils._proxies import PublicOnlyProxy

    first = add_labels(viewer, "first")
    add_labels(viewer, "second")
    box = make_box()
    box.choose(PublicOnlyProxy(first))
    assert box.layer is first


def test_refreshing_without_a_change_says_nothing(viewer, make_box):
    from napari.utils._proxies import PublicOnlyProxy

    add_labels(viewer, "region")
    for seen in (viewer, PublicOnlyProxy(viewer)):
        box = LayerBox(seen, is_labels)
        box.attach()
        heard = []
        box.currentIndexChanged.connect(lambda *_, heard=heard: heard.append(1))
        box.refresh()
        viewer.add_image(np.zeros((2, 2, 2)))
        assert not heard
        box.detach()


def test_after_teardown_it_hears_no_more_and_holds_no_layer(qtbot, viewer):
    add_labels(viewer, "region")
    box = LayerBox(viewer, is_labels)
    box.attach()
    box.detach()
    add_labels(viewer, "another")
    assert box.count() == 0
    assert box.layer is None
    gone = weakref.ref(box)
    del box
    gc.collect()
    assert gone() is None


def test_without_teardown_the_viewer_does_not_keep_it_alive(qtbot, viewer):
    gone = weakref.ref(LayerBox(viewer, is_labels))
    gc.collect()
    assert gone() is None
    add_labels(viewer, "region")
