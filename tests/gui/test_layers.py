"""Layers that fit a purpose: which there are, what changes in them (partly in a real window), and a list of them."""

import gc
import weakref

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels, Shapes
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QComboBox, QTabWidget

from napari_gpubio.gui.layers import LayerBox, LayerListener, is_no_recording, why_not_array

SHAPE = (5, 6, 7)


class Recorder:
    """A listener, and what it has reported."""

    def __init__(self, viewer, accepts):
        self.reports = []
        self.listener = LayerListener(
            viewer,
            accepts,
            layers_changed=lambda: self.reports.append([layer.name for layer in self.listener.layers]),
            data_changed=lambda layer, box: self.reports.append((layer.name, box)),
            place_changed=lambda layer: self.reports.append((layer.name, "place")),
            colors_changed=lambda layer: self.reports.append((layer.name, "colors")),
        )
        self.listener.attach()

    def take(self):
        """What was reported since the last time."""
        reports, self.reports = self.reports, []
        return reports


@pytest.fixture
def viewer(request):
    """A viewer, with a window for tests marked ``display``."""
    if request.node.get_closest_marker("display"):
        return request.getfixturevalue("make_window")(show=True)
    return ViewerModel()


def is_labels(layer):
    return isinstance(layer, Labels)


def why_no_labels(layer):
    if isinstance(layer, Image):
        return "an image" if layer.name == "T1" else ""
    return why_not_array(layer, Labels, (3,))


def add_labels(viewer, *names):
    layers = [viewer.add_labels(np.zeros(SHAPE, int), name=name) for name in names]
    return layers if len(layers) > 1 else layers[0]


@pytest.fixture
def recorder(viewer):
    """Follows the labels of a viewer with an image and one layer of labels; napari gives plugins a proxy."""
    viewer.add_image(np.zeros(SHAPE), name="image")
    add_labels(viewer, "brain")
    recorder = Recorder(PublicOnlyProxy(viewer), is_labels)
    assert recorder.take() == [["brain"]]
    yield recorder
    recorder.listener.detach()


def test_layers_that_come_go_move_and_get_names(viewer, recorder):
    viewer.add_image(np.zeros(SHAPE))
    viewer.layers["image"].name = "T1"
    assert recorder.take() == []
    tumor = add_labels(viewer, "tumor")
    assert recorder.take() == [["brain", "tumor"]]
    tumor.name = "GTV"
    viewer.layers.move(viewer.layers.index(tumor), 0)
    assert recorder.take() == [["brain", "GTV"], ["GTV", "brain"]]
    viewer.layers.remove(viewer.layers["brain"])
    assert recorder.take() == [["GTV"]]
    viewer.layers.clear()
    assert recorder.take()[-1] == []


@pytest.mark.display
def test_strokes_come_with_their_box(viewer, recorder):
    brain = viewer.layers["brain"]
    viewer.dims.set_point(0, 2)
    assert recorder.take() == []  # another slice is no change
    brain.brush_size = 1
    brain.paint((2, 3, 4), 1)
    ((name, box),) = recorder.take()
    assert name == "brain"
    outside = brain.data.copy()
    outside[box] = 0
    assert not outside.any()
    assert brain.data[2, 3, 4] == 1


@pytest.mark.parametrize("change", ["undo", "fill", "data"])
def test_changes_anywhere(viewer, recorder, change):
    brain = viewer.layers["brain"]
    brain.paint((0, 3, 4), 1)
    recorder.take()
    if change == "data":
        brain.data = np.ones(SHAPE, int)
    elif change == "undo":
        brain.undo()
    else:
        brain.fill((0, 0, 0), 2)
    reports = recorder.take()
    assert reports
    assert all(name == "brain" for name, _ in reports)


def test_places_and_colors(viewer, recorder):
    brain = viewer.layers["brain"]
    brain.translate = (1, 2, 3)
    assert ("brain", "place") in recorder.take()
    brain.colormap = {1: "red", None: "blue"}
    assert ("brain", "colors") in recorder.take()
    viewer.layers["image"].scale = (2, 2, 2)
    viewer.layers["image"].colormap = "viridis"
    brain.visible = False
    brain.visible = True
    assert recorder.take() == []
    brain.fill((0, 0, 0), 2)
    brain.undo()
    assert ("brain", None) in recorder.take()


def test_layers_that_are_gone_and_listeners_that_were_detached(viewer, recorder):
    brain, tumor = viewer.layers["brain"], add_labels(viewer, "tumor")
    viewer.layers.remove(brain)
    recorder.take()
    brain.data = np.ones(SHAPE, int)
    assert recorder.take() == []
    recorder.listener.detach()
    tumor.data = np.ones(SHAPE, int)
    tumor.translate = (1, 1, 1)
    viewer.add_labels(np.zeros(SHAPE, int))
    assert recorder.take() == []
    recorder.listener.attach()
    assert recorder.take() == [["tumor", "Labels"]]
    tumor.data = np.zeros(SHAPE, int)
    assert set(recorder.take()) == {("tumor", None)}


def test_a_kind_that_depends_on_more_than_the_layer(viewer):
    """As a panel follows the layer that is chosen in it."""
    first, second = (viewer.add_image(np.zeros(SHAPE), name=name) for name in ("first", "second"))
    chosen = [first]
    recorder = Recorder(viewer, lambda layer: layer in chosen)
    chosen[:] = [second]
    assert recorder.take() == [["first"]]
    recorder.listener.refresh()
    assert recorder.take() == [["second"]]
    first.data = second.data = np.ones(SHAPE)
    assert recorder.take() == [("second", None)]
    second.contrast_limits = (0, 2)
    assert set(recorder.take()) == {("second", "colors")}
    recorder.listener.detach()


@pytest.mark.display
def test_a_shape_that_is_dragged_is_reported_as_it_moves(viewer):
    shapes = viewer.add_shapes([[[1, 1], [1, 4]]], shape_type="line", name="line")
    recorder = Recorder(viewer, lambda layer: isinstance(layer, Shapes))
    recorder.take()
    shapes._data_view.shift(0, np.array([1.0, 0.0]))
    shapes.refresh()
    assert set(recorder.take()) == {("line", None)}
    recorder.listener.detach()


def test_only_what_has_a_callback_is_connected(viewer):
    image = viewer.add_image(np.zeros(SHAPE))
    places = []

    def callbacks():
        return np.array([len(getattr(image.events, name).callbacks) for name in ("data", "scale", "colormap")])

    before = callbacks()
    listener = LayerListener(viewer, lambda layer: isinstance(layer, Image), place_changed=places.append)
    listener.attach()
    assert (callbacks() - before).tolist() == [0, 1, 0]
    image.scale = (2, 2, 2)
    assert places == [image]
    gone = weakref.ref(listener)
    listener.detach()
    del listener
    gc.collect()
    assert gone() is None


@pytest.mark.display
def test_a_stroke_with_the_mouse(viewer, recorder, qtbot):
    """The whole way: the canvas, napari's brush, the event."""
    brain = viewer.layers["brain"]
    viewer.layers.selection.active = brain
    brain.mode, brain.brush_size = "paint", 2
    viewer.reset_view()
    qtbot.wait(50)
    recorder.take()
    canvas = viewer.window._qt_viewer.canvas.native
    QTest.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=canvas.rect().center())
    qtbot.waitUntil(lambda: brain.data.any(), timeout=5000)
    boxes = [box for name, box in recorder.take() if name == "brain" and box is not None]
    assert boxes
    touched = np.zeros(SHAPE, bool)
    for box in boxes:
        touched[box] = True
    assert touched[brain.data > 0].all()


# -- the list ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_box(qtbot, viewer):
    """A function that makes a list of labels; ``chosen`` are the layers that it has reported."""

    def make(seen=viewer, **options):
        box = LayerBox(seen, why_no_labels, **options)
        qtbot.addWidget(box)
        box.attach()
        box.chosen = []
        box.currentIndexChanged.connect(lambda *_: box.chosen.append(box.layer))
        return box

    return make


def names(box):
    return [box.itemText(i) for i in range(box.count())]


def test_the_list_has_the_layers_that_fit_and_the_newest_is_chosen(viewer, make_box):
    first, second = add_labels(viewer, "first", "second")
    image = viewer.add_image(np.zeros(SHAPE))
    box = make_box()
    assert names(box) == ["second", "first"]
    assert box.layer is second
    box.choose(image)
    assert box.layer is second
    for layer in (first, PublicOnlyProxy(second), PublicOnlyProxy(first)):
        box.choose(layer)
        assert box.layer == layer
    assert box.layer is first


def test_the_first_layer_that_fits_is_chosen_and_stays_so(viewer, make_box):
    box = make_box(empty="draw a region first")
    viewer.add_image(np.zeros(SHAPE))
    assert (box.layer, box.count(), box.currentIndex(), box.chosen) == (None, 0, -1, [])
    assert box.placeholderText() == "draw a region first"
    first = add_labels(viewer, "first")
    second = add_labels(viewer, "second")
    assert names(box) == ["second", "first"]
    viewer.layers.move(1, 3)
    assert names(box) == ["first", "second"]
    first.name = "x"
    second.name = "first"
    first.name = "second"
    assert names(box) == ["second", "first"]
    assert box.layer is first
    assert box.chosen == [first]


def test_a_list_with_an_entry_for_no_layer(viewer, make_box):
    box = make_box(nothing="the whole volume")
    region = add_labels(viewer, "region")
    assert names(box) == ["the whole volume", "region"]
    assert box.layer is None
    box.choose(region)
    assert box.layer is region
    box.chosen.clear()
    viewer.layers.remove(region)
    assert (box.layer, box.currentText(), box.chosen) == (region, "deleted: region", [])
    box.setCurrentIndex(0)
    assert box.layer is None
    add_labels(viewer, "other")
    assert names(box) == ["the whole volume", "other"]


@pytest.mark.parametrize("seen_as", [lambda viewer: viewer, PublicOnlyProxy])
@pytest.mark.parametrize("renamed", [False, True])
def test_what_was_chosen_stays_when_it_is_removed(viewer, make_box, seen_as, renamed):
    """Qt would choose another row where the text of the chosen one is gone."""
    first, second = add_labels(viewer, "first", "second")
    box = make_box(seen_as(viewer))
    box.choose(first)
    box.settle()
    box.chosen.clear()
    if renamed:
        second.name, first.name = "x", "second"
    viewer.layers.move(0, 2)
    second.visible = first.visible = False
    viewer.layers.remove(first)
    viewer.layers.remove(second)
    third = add_labels(viewer, "third")
    assert (box.layer, box.currentText(), box.chosen) == (first, f"deleted: {first.name}", [])
    box.choose(third)
    add_labels(viewer, "fourth")
    assert (names(box), box.chosen) == (["fourth", "third"], [third])


def test_the_active_layer_is_suggested_first(viewer, make_box):
    first, second = add_labels(viewer, "first", "second")
    viewer.layers.selection.active = first
    assert make_box().layer is first
    viewer.layers.selection.active = None
    assert make_box().layer is second


def test_a_suggestion_gives_way_to_what_is_opened_when_it_is_gone_or_hidden(viewer, make_box):
    box = make_box()
    truth = viewer.add_labels(np.zeros(SHAPE, int), name="truth", visible=False)
    assert box.layer is truth
    noisy = add_labels(viewer, "noisy")
    assert box.layer is noisy
    viewer.layers.remove(noisy)
    assert box.currentText() == "deleted: noisy", "a removal chooses nothing"
    third = add_labels(viewer, "third")
    assert (box.layer, box.chosen) == (third, [truth, noisy, third])


def test_layers_that_do_not_fit_are_listed_with_the_reason_and_cannot_be_chosen(viewer, make_box):
    box = make_box()
    viewer.add_image(np.zeros(SHAPE), name="T1")
    assert (names(box), box.layer, box.currentIndex()) == (["T1 (an image)"], None, -1)
    region = add_labels(viewer, "region")
    flat = viewer.add_labels(np.zeros((4, 4), int), name="flat")
    viewer.add_points(np.zeros((1, 3)), name="seeds")
    assert names(box) == ["region", "flat (2-D; a volume is needed)", "T1 (an image)"]
    QTest.keyClick(box, Qt.Key.Key_End)
    assert box.layer is region
    box.choose(flat)
    assert box.layer is region
    flat.name = "thin"
    assert names(box)[1] == "thin (2-D; a volume is needed)"
    viewer.layers.remove(region)
    assert names(box) == ["deleted: region", "thin (2-D; a volume is needed)", "T1 (an image)"]
    assert box.layer is region


@pytest.mark.parametrize(
    ("data", "keywords", "reason"),
    [
        (np.zeros((4, 5, 6)), {}, None),
        (np.zeros((4, 5)), {}, "2-D; a volume is needed"),
        (np.zeros((4, 5, 6, 3)), {"rgb": True}, "colors; Split RGB makes channels of them"),
        ([np.zeros((4, 6, 6)), np.zeros((2, 3, 3))], {"multiscale": True}, "multiscale"),
    ],
)
def test_why_an_image_is_no_array_of_values(data, keywords, reason):
    assert why_not_array(Image(data, **keywords), Image, (3,)) == reason
    assert why_not_array(Shapes(), Image, (3,)) == "", "nobody would look for it there"


@pytest.mark.parametrize("seen_as", [lambda viewer: viewer, PublicOnlyProxy])
def test_refreshing_without_a_change_emits_nothing(viewer, make_box, seen_as):
    add_labels(viewer, "region")
    box = make_box(seen_as(viewer))
    box.refresh()
    viewer.add_image(np.zeros(SHAPE))
    assert not box.chosen


@pytest.mark.parametrize("attached", [True, False])
def test_a_list_that_is_gone_is_held_by_nothing(qtbot, viewer, attached):
    add_labels(viewer, "region")
    box = LayerBox(viewer, why_no_labels)
    if attached:
        box.attach()
        box.detach()
        add_labels(viewer, "another")
        assert (box.count(), box.layer) == (0, None)
    gone = weakref.ref(box)
    del box
    gc.collect()
    assert gone() is None
    add_labels(viewer, "one more")


def test_what_is_hardly_meant_can_be_chosen_and_is_not_suggested(qtbot):
    """Frames of a camera as a dose, a volume in mm as frames."""
    viewer = ViewerModel()
    box = LayerBox(viewer, lambda layer: why_not_array(layer, Image, (3,)), suggests=is_no_recording)
    qtbot.addWidget(box)
    box.attach()
    frames = viewer.add_image(np.zeros(SHAPE), name="frames", axis_labels=("frame", "y", "x"))
    assert box.layer is None
    assert box.findText("frames") >= 0
    volume = viewer.add_image(np.zeros(SHAPE), name="volume")
    viewer.add_image(np.zeros(SHAPE), name="more frames", axis_labels=("frame", "y", "x"))
    assert box.layer is volume
    box.choose(frames)
    assert box.layer is frames


def test_a_list_that_is_not_on_screen_is_filled_when_it_comes_there_or_is_read(viewer, qtbot):
    pages = QTabWidget()
    qtbot.addWidget(pages)
    boxes = seen, hidden = [LayerBox(viewer, why_no_labels) for _ in range(2)]
    for box in boxes:
        pages.addTab(box, "page")
        box.attach()
    with qtbot.waitExposed(pages):
        pages.show()
    brain = add_labels(viewer, "brain")
    assert seen.layer is hidden.layer is brain, "what is chosen does not wait"
    add_labels(viewer, "tumor")
    assert [QComboBox.count(box) for box in boxes] == [2, 1]
    pages.setCurrentWidget(hidden)
    assert QComboBox.count(hidden) == 2
    add_labels(viewer, "vessel")
    assert [QComboBox.count(box) for box in boxes] == [2, 3]
    assert (seen.count(), seen.currentText()) == (3, "brain")
    for box in boxes:
        box.detach()


def test_what_was_suggested_stays_where_nothing_is_preferred(viewer, qtbot):
    box = LayerBox(viewer, why_no_labels, nothing="none")
    box.attach()
    brain = add_labels(viewer, "brain")
    box.suggest(brain)
    box.suggest_preferred()
    assert box.layer is brain
    box.detach()
