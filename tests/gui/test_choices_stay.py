"""What the user chose stays: layers in lists when others are opened, the camera when a panel is closed."""

import contextlib

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QComboBox

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.views import VIEWS, ViewBox, camera_of
from napari_gpubio.speckle.gui.fitting import WHOLE_IMAGE
from tests import panel_walk

MIRRORED = ("towards", "down", "right")


def open_more_layers(viewer):
    """What a user may open later, of every kind and with every meaning that a list may like better."""
    values = np.random.default_rng(2).random((3, 6, 12, 12)).astype(np.float32)
    for meaning in ({}, {"unit": "Gy", "quantity": "dose"}, {"unit": "mm-2", "quantity": "fluence"}):
        viewer.add_image(values[0], name="new volume", metadata={KEY: meaning} if meaning else {})
        viewer.add_image(values, name="new series", metadata={KEY: meaning} if meaning else {})
    viewer.add_image((200 * values[0]).astype(np.uint8), name="new frames")
    viewer.add_labels((values[0] > 0.5).astype(np.uint8), name="new labels")
    viewer.add_points(np.zeros((2, 3)), name="new points")
    viewer.add_shapes([np.array([(0, 0, 0), (0, 5, 0), (0, 5, 5)])], shape_type="polygon", name="new contours")


@pytest.mark.display
def test_a_layer_that_is_opened_replaces_no_choice(viewer, qtbot, subtests):
    panel_walk.add_layers(viewer)
    with contextlib.ExitStack() as all_panels:
        chosen = {}
        for name in panel_walk.PANELS:
            panel = all_panels.enter_context(panel_walk.shown_panel(viewer, name))
            chosen[name] = choose_oldest(panel)
        for layer in viewer.layers:
            layer.visible = False
        open_more_layers(viewer)
        viewer.layers.move(len(viewer.layers) - 1, 0)
        for name in panel_walk.PANELS:
            with subtests.test(name):
                assert chosen[name] or name in ("Session", "BIDS dataset")
                for box, layer in chosen[name].items():
                    assert box.layer == layer, (box.toolTip(), layer)


def choose_oldest(panel):
    """Choose the oldest layer in each list on any page, and return what was chosen."""
    chosen = {}
    for _ in panel_walk.pages(panel):
        for box in panel.findChildren(LayerBox):
            if box.isVisible() and box.isEnabled() and box.count() > 1 and box not in chosen:
                QTest.keyClick(box, Qt.Key.Key_End)  # lists begin with the newest
                chosen[box] = box.layer
    return chosen


def test_a_suggestion_counts_until_the_user_chooses(qtbot):
    viewer = ViewerModel()
    first, second = (viewer.add_image(np.zeros((2, 2)), name=name) for name in ("first", "second"))
    box = LayerBox(viewer, lambda _: None)
    qtbot.addWidget(box)
    box.attach()
    box.suggest(first)
    assert box.layer == first
    QTest.keyClick(box, Qt.Key.Key_Home)
    assert box.layer == second
    box.suggest(first)
    assert box.layer == second, "the user's choice"
    viewer.layers.remove(second)
    third = viewer.add_image(np.zeros((2, 2)), name="third")
    box.suggest(third)
    assert box.layer == second, "it is gone, and still the user's choice"


def choose_view(box, name):
    shown = box.findChild(QComboBox)
    shown.setCurrentIndex(shown.findData(name))
    shown.activated.emit(shown.currentIndex())


@pytest.fixture
def viewer_and_boxes(qtbot):
    viewer = ViewerModel()
    camera_of(viewer).orientation = MIRRORED
    boxes = [ViewBox(viewer), ViewBox(viewer)]
    for box in boxes:
        qtbot.addWidget(box)
        box.attach()
    return viewer, *boxes


def orientation(viewer):
    return tuple(str(one.value) for one in camera_of(viewer).orientation)


def test_a_panel_gives_the_orientation_back(viewer_and_boxes):
    viewer, first, second = viewer_and_boxes
    second.detach()
    assert orientation(viewer) == MIRRORED
    choose_view(first, "radiological")
    choose_view(first, "neurological")
    assert orientation(viewer) == VIEWS["neurological"]
    first.detach()
    assert orientation(viewer) == MIRRORED
    first.attach()
    assert orientation(viewer) == VIEWS["neurological"], "the window was not closed after all"
    first.detach()
    assert orientation(viewer) == MIRRORED


def test_a_panel_leaves_the_orientation_of_another_one_alone(viewer_and_boxes):
    viewer, first, second = viewer_and_boxes
    choose_view(first, "radiological")
    choose_view(second, "neurological")
    first.detach()
    assert orientation(viewer) == VIEWS["neurological"]
    second.detach()
    assert orientation(viewer) == VIEWS["radiological"]


@pytest.mark.display
def test_every_list_of_layers_says_why_it_does_not_offer_one(viewer, subtests):
    flat, colors = np.zeros((4, 5)), np.zeros((4, 5, 6, 3))
    viewer.add_labels(flat.astype(np.uint8), name="flat labels")
    viewer.add_image(colors, name="colors", rgb=True)
    viewer.add_image(np.zeros((2, 3, 4, 5, 6)), name="five axes", metadata={"napari_gpubio": {"quantity": "FA"}})
    others = {"no regions", WHOLE_IMAGE}  # of shapes
    others |= {"open a tractogram, or track fibers", "track fibers in a diffusion scan"}
    for name in panel_walk.PANELS:
        with subtests.test(name), panel_walk.shown_panel(viewer, name) as panel:
            for box in panel.findChildren(LayerBox):
                if {box.placeholderText(), box.itemText(0)} & others:
                    continue
                refused = [box.itemText(index) for index in range(box.count()) if " (" in box.itemText(index)]
                assert any(text.startswith(("flat labels (", "colors (", "five axes (")) for text in refused), refused
            assert box.layer is None
