"""What the canvas says about colors: a color bar with unit and limits, and the sphere of directions."""

import functools
import sys

import numpy as np
import pytest
from napari.components import ViewerModel

import napari_gpubio.tractograms.gui.fibers  # noqa: F401 - which knows the reasons to stop
from napari_gpubio.gui.streamlines import coloring, legends
from napari_gpubio.gui.streamlines.legends import canvas_axes, sphere_image
from napari_gpubio.gui.views import set_view
from napari_gpubio.tractograms.model import StopReason
from tests.gui.streamline_samples import cross, seen


def drawn(viewer):
    """The legends that are drawn, by layer and kind."""
    visuals = viewer.window._qt_viewer.canvas._layer_overlay_to_visual
    return {
        (layer.name, "bar" if "Bar" in type(overlay).__name__ else "sphere")
        for layer, found in visuals.items()
        for overlay, visual in found.items()
        if type(overlay).__module__.startswith("napari_gpubio") and visual.node.visible
    }


def bar_of(viewer, layer):
    visuals = viewer.window._qt_viewer.canvas._layer_overlay_to_visual[layer]
    return next(visual for overlay, visual in visuals.items() if "Bar" in type(overlay).__name__)


def test_points_of_the_sphere_have_the_colors_of_lines_along_them():
    picture = sphere_image(np.array([(0, 1, 0), (0, 0, 1), (1, 0, 0)]), 51)  # right is x, up is z, y to the eye
    assert picture.shape == (51, 51, 4)
    strongest = picture[..., :3].argmax(axis=-1)
    assert strongest[25, 25] == 1
    assert strongest[25, 48] == strongest[25, 2] == 0
    assert strongest[2, 25] == strongest[48, 25] == 2
    assert picture[0, 0, 3] == 0
    assert picture[25, 25, 3] == 255


@pytest.mark.parametrize(("view", "right"), [("neurological", 1), ("radiological", -1)])
def test_axes_of_slices_follow_the_view(view, right):
    model = ViewerModel()
    assert canvas_axes(model) is None, "two dimensions"
    model.add_layer(cross())
    set_view(model, view)
    np.testing.assert_array_equal(canvas_axes(model), [(0, 0, 1), (0, 1, 0), (right, 0, 0)])
    model.dims.order = (1, 0, 2)
    np.testing.assert_array_equal(canvas_axes(model), [(0, 1, 0), (0, 0, 1), (right, 0, 0)])
    model.dims.ndisplay = 3
    axes = canvas_axes(model)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-9)


def test_without_naparis_internals_there_is_no_legend_and_no_harm(monkeypatch, caplog):
    monkeypatch.setattr(legends, "can_draw", functools.cache(legends.can_draw.__wrapped__))
    monkeypatch.setitem(sys.modules, "napari._vispy.utils.visual", None)
    first, second = cross(), cross()
    assert caplog.text.count("cannot be drawn") == 1, "said once"
    for layer in (first, second):
        assert not [one for one in layer._overlays.values() if type(one).__module__.startswith("napari_gpubio")]
        layer.color_by, layer.legend = "place", False


@pytest.mark.display
def test_the_legend_says_what_the_colors_mean(viewer):
    layer = viewer.add_layer(cross(name="a"))
    assert drawn(viewer) == {("a", "sphere")}
    layer.color_by = "place"
    assert drawn(viewer) == {("a", "bar")}
    layer.color_by = "uniform"
    assert drawn(viewer) == set()
    layer.color_by = "direction"
    layer.visible = False
    assert drawn(viewer) == set()
    layer.visible = True
    layer.legend = False
    assert drawn(viewer) == set()
    layer.legend = True
    viewer.dims.ndisplay = 3
    assert drawn(viewer) == {("a", "sphere")}
    viewer.layers.remove(layer)
    assert drawn(viewer) == set()


@pytest.mark.display
def test_layers_whose_colors_mean_the_same_share_a_legend(viewer):
    first, second = viewer.add_layer(cross(name="a")), viewer.add_layer(cross(name="b"))
    assert drawn(viewer) == {("b", "sphere")}
    second.visible = False
    assert drawn(viewer) == {("a", "sphere")}
    second.visible = True
    viewer.layers.selection.active = first
    assert drawn(viewer) == {("a", "sphere")}
    first.color_by = "place"
    assert drawn(viewer) == {("a", "bar"), ("b", "sphere")}
    second.color_by = "place"
    assert drawn(viewer) == {("a", "bar")}
    second.contrast_limits = (3, 4)
    assert drawn(viewer) == {("a", "bar"), ("b", "bar")}
    viewer.layers.remove(first)
    assert drawn(viewer) == {("b", "bar")}


@pytest.mark.display
def test_the_bar_has_a_title_with_the_unit_and_the_limits(viewer):
    layer = viewer.add_layer(cross(per_fiber={"length_mm": [10.0, 20.0, 30.0]}, color_by="length_mm"))
    bar = bar_of(viewer, layer)
    assert bar._title.text == "length (mm)"
    layer.contrast_limits = (0, 40)
    assert bar.node.img.clim == (0.0, 40.0)
    layer.color_by = "place"
    assert bar._title.text == "place"
    layer.colormap = "magma"
    picture = seen(viewer, legends=True)[:250, -250:]
    assert (picture.max(axis=-1) > 100).sum() > 1000, "it is on the canvas"


@pytest.mark.display
def test_limits_legend_and_what_is_saved_are_set_in_the_controls(viewer):
    layer = viewer.add_layer(cross())
    controls = viewer.window._qt_viewer.controls.widgets[layer]
    assert not controls.limits.isEnabled()
    layer.color_by = "place"
    assert controls.limits.isEnabled()
    controls.limits.low.setValue(4)
    controls.limits.high.setValue(12.5)
    assert layer.contrast_limits == (4, 12.5)
    controls.limits.low.setValue(13)
    assert layer.contrast_limits == (4, 12.5), "the lower limit is not above the upper one"
    assert controls.limits.low.value() == 4
    layer.contrast_limits = (1, 2)
    assert (controls.limits.low.value(), controls.limits.high.value()) == (1, 2)
    controls.limits.auto.click()
    assert layer.own_limits is None
    controls.legend.setChecked(False)
    assert not layer.legend
    assert controls.saves.currentText() == "shown fibers (3)"
    layer.shown = [True, False, False]
    assert controls.saves.currentText() == "shown fibers (1)"
    controls.saves.setCurrentIndex(1)
    assert (layer.saves, controls.saves.currentText()) == ("all", "all fibers (3)")
    assert not controls.show_all.isHidden()
    controls.show_all.click()
    assert layer.shown.all()
    assert controls.show_all.isHidden()


@pytest.mark.display
def test_the_uniform_color_is_set_in_the_controls(viewer):
    layer = viewer.add_layer(cross())
    color = viewer.window._qt_viewer.controls.widgets[layer].color
    assert not color.isEnabled()
    layer.color_by = "uniform"
    assert color.isEnabled()
    color.setColor("red")
    assert layer.color.tolist() == [1, 0, 0]
    layer.color = "blue"
    assert color.color[:3].tolist() == [0, 0, 1]


@pytest.mark.display
def test_the_controls_offer_the_images_of_the_viewer(viewer):
    viewer.add_image(np.random.default_rng(0).random((21, 21, 21)), name="T1")
    layer = viewer.add_layer(cross())
    box = viewer.window._qt_viewer.controls.widgets[layer].color_by
    box.fill()
    box.setCurrentIndex(box.findText("image: T1"))
    assert (layer.color_by, box.currentText()) == ("T1", "T1")
    assert drawn(viewer) == {("Streamlines", "bar")}


def codes(**options):
    reasons = np.array([StopReason.TARGET, StopReason.MASK, StopReason.TARGET])
    return cross(per_fiber={"stop_reason": reasons}, color_by="stop_reason", **options)


def test_a_code_has_the_same_color_whatever_else_occurs():
    layer, other = codes(), cross(per_fiber={"stop_reason": np.full(3, StopReason.MASK)}, color_by="stop_reason")
    assert layer.contrast_limits == (StopReason.VOLUME, StopReason.FOD)
    assert layer.code_names == {StopReason.MASK: "left the mask", StopReason.TARGET: "reached the target"}
    mask = np.repeat([False, True, False], layer.lines.counts)
    np.testing.assert_array_equal(layer.track_colors[mask], other.track_colors[mask])
    layer.color_by = "place"
    assert layer.code_names is None


@pytest.mark.display
def test_the_bar_of_a_code_names_what_occurs(viewer):
    layer = viewer.add_layer(codes())
    bar = bar_of(viewer, layer)
    places, _, names = bar.node.ticks.ticker._get_tick_frac_labels()
    assert names == ["left the mask", "reached the target"]
    assert places.tolist() == [0.25, 0.75]
    steps = np.asarray(bar.node.img._data)[:, 0]
    assert set(steps.tolist()) == {StopReason.MASK, StopReason.TARGET}
    assert steps[0] == StopReason.TARGET, "on top, as the largest value is"
    assert bar.node.img.clim == (StopReason.VOLUME, StopReason.FOD)
    layer.color_by = "place"
    assert len(set(np.asarray(bar.node.img._data)[:, 0].tolist())) > 100
    assert bar.node.ticks.ticker._get_tick_frac_labels()[2] != names


def test_limits_are_looked_for_once(monkeypatch):
    layer, looks = cross(), []
    monkeypatch.setattr(coloring, "limits_of", lambda *given: looks.append(given) or (0.0, 1.0))
    layer.color_by = "place"
    assert [layer.contrast_limits for _ in range(5)] == [(0.0, 1.0)] * 5
    assert len(looks) == 1
    layer.color_by = "number"
    assert layer.contrast_limits == (0.0, 1.0)
    assert len(looks) == 2, "of another number"
