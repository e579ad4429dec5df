"""The color bars of images on the canvas: what the numbers mean, their unit, the limits, and one bar at a time."""

import numpy as np
import pytest

from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.gui.color_bars import TitledColorBarOverlay, color_title
from napari_gpubio.gui.scans import follow_scans
from tests.gui.streamline_samples import cross
from tests.volume_samples import AFFINES, VOLUME

FA, DOSE = Quantity("FA"), Quantity("absorbed dose", "Gy")
LOG_FLUENCE = Quantity("fluence", "1/mm2", "log10")

pytestmark = pytest.mark.display


@pytest.fixture
def viewer(viewer):
    follow_scans(viewer)
    return viewer


def add(viewer, quantity=None, name="volume", **keywords):
    metadata = {} if quantity is None else quantity_metadata(quantity)
    data, keywords, _ = volume_layer(VOLUME.astype(np.float32), AFFINES["cubic"], name, metadata=metadata, **keywords)
    return viewer.add_image(data, **keywords)


def bars(viewer):
    """The bars on the canvas by layer; none of them is napari's own."""
    found = {
        layer.name: visual
        for layer, visuals in viewer.window._qt_viewer.canvas._layer_overlay_to_visual.items()
        for overlay, visual in visuals.items()
        if "colorbar" in type(visual).__module__.lower() or isinstance(overlay, TitledColorBarOverlay)
        if visual.node.visible
    }
    assert all(isinstance(visual.overlay, TitledColorBarOverlay) for visual in found.values())
    return found


def ticks(bar):
    return [text for text in bar.node.ticks._text.text if text]


def test_an_image_of_a_known_quantity_has_a_bar_with_unit_and_limits(viewer):
    layer = add(viewer, DOSE, contrast_limits=(0, 60))
    bar = bars(viewer)["volume"]
    assert bar._title.text == "absorbed dose (Gy)"
    assert bar.node.img.clim == (0.0, 60.0)
    layer.contrast_limits = (10, 20)
    assert bar.node.img.clim == (10.0, 20.0)
    assert {"10", "20"} <= set(ticks(bar))
    layer.contrast_limits = (0.125, 61.3)
    assert {"0.125", "61.3"} <= set(ticks(bar)), "the limits themselves"


def test_ticks_of_a_logarithm_are_the_numbers_themselves(viewer):
    layer = add(viewer, LOG_FLUENCE, contrast_limits=(-6, 0))
    bar = bars(viewer)["volume"]
    assert bar._title.text == "fluence (1/mm²)"
    assert {"10⁻⁶", "10⁰"} <= set(ticks(bar))
    layer.contrast_limits = (-2.5, -2.1)
    assert {"0.0032", "0.0079"} <= set(ticks(bar)), "within a decade"


def test_other_images_have_one_on_request_in_naparis_own_way(viewer):
    layer = add(viewer, name="T1")
    assert not bars(viewer)
    layer.colorbar.visible = True
    assert bars(viewer)["T1"]._title.text == "T1"
    layer.name = "T1 of today"
    assert bars(viewer)["T1 of today"]._title.text == "T1 of today"


def test_of_several_images_the_active_or_the_topmost_visible_one_has_the_bar(viewer):
    first, second = add(viewer, FA, "first"), add(viewer, DOSE, "second")
    assert set(bars(viewer)) == {"second"}
    viewer.layers.selection.active = first
    assert set(bars(viewer)) == {"first"}
    viewer.layers.selection.active = add(viewer, name="T1", opacity=0.5)
    assert set(bars(viewer)) == {"second"}, "the active one has none"
    second.visible = False
    assert set(bars(viewer)) == {"first"}
    viewer.layers.remove(first)
    assert not bars(viewer)
    second.visible = True
    viewer.add_layer(cross(color_by="place"))
    assert set(bars(viewer)) == {"second", "Streamlines"}, "fibers have their own"


def test_an_image_that_another_one_covers_has_no_bar_unless_it_is_active(viewer):
    shown = add(viewer, FA, "FA")
    colors = viewer.add_image(np.ones((*VOLUME.T.shape, 3)), rgb=True, name="colors")
    assert not bars(viewer)
    colors.opacity = 0.5
    assert set(bars(viewer)) == {"FA"}
    colors.opacity, colors.blending = 1, "additive"
    assert set(bars(viewer)) == {"FA"}
    colors.blending = "translucent"
    assert not bars(viewer)
    viewer.layers.selection.active = shown
    assert set(bars(viewer)) == {"FA"}


def test_in_a_grid_each_image_has_its_own(viewer):
    add(viewer, FA, "first"), add(viewer, DOSE, "second")
    viewer.canvas.grid.enabled = True
    assert set(bars(viewer)) == {"first", "second"}
    viewer.canvas.grid.enabled = False
    assert set(bars(viewer)) == {"second"}


def right_end(viewer, visual):
    """Pixels between a legend and the right border of the canvas."""
    viewer.screenshot(flash=False)
    return viewer.canvas.size[1] - visual.node.transform.translate[0] - visual.x_size


def test_legends_that_are_not_drawn_take_no_place(viewer):
    first, second = add(viewer, FA, "first"), add(viewer, DOSE, "second")
    (gap, _) = viewer.canvas.overlay_tiling.padding
    for active in (first, second):
        viewer.layers.selection.active = active
        assert right_end(viewer, bars(viewer)[active.name]) == pytest.approx(gap, abs=1)
    viewer.layers.remove(second)
    assert right_end(viewer, bars(viewer)["first"]) == pytest.approx(gap, abs=1)


def test_the_spheres_of_several_bundles_take_the_place_of_one(viewer):
    for name in ("a", "b", "c"):
        viewer.add_layer(cross(name=name))
    visuals = viewer.window._qt_viewer.canvas._layer_overlay_to_visual.values()
    (sphere,) = [
        one for held in visuals for one in held.values() if "Sphere" in type(one).__name__ and one.node.visible
    ]
    (gap, _) = viewer.canvas.overlay_tiling.padding
    assert right_end(viewer, sphere) == pytest.approx(gap, abs=1)


def test_the_unit_follows_the_layer(viewer):
    layer = add(viewer, LOG_FLUENCE, "fluence")
    assert color_title(layer) == "fluence (1/mm²)"
    layer.metadata["napari_gpubio"]["quantity"] = Quantity("radiant exposure", "J/cm2", "log10")
    layer.name = "exposure"
    assert bars(viewer)["exposure"]._title.text == "radiant exposure\n(J/cm²)"
