import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.core.errors import InvalidInput
from tests.gui.streamline_samples import calls, cross


def test_it_shares_a_viewer_of_four_axes():
    viewer = ViewerModel()
    viewer.add_image(np.zeros((5, 21, 21, 21)))
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 3)
    assert layer.get_value((3, 10, 10, 3.2), dims_displayed=[2, 3], world=True) == 0
    assert layer.pick((3, 10, 3.2, 10), None, [2, 3], 0.5) == 1
    assert layer.pick((3, 10, 3.2, 10), (0, 0, 0, 1), [1, 2, 3], 0.5) == 1


def test_selection():
    layer = cross()
    heard = calls(layer.events.picked)
    layer.select_fiber(1)
    layer.select_fiber(1)
    layer.select_fiber(None)
    assert [event.fiber for event in heard] == [1, None]
    for wrong in (3, -1):
        with pytest.raises(InvalidInput, match="there is no fiber"):
            layer.select_fiber(wrong)


def test_picking_in_slices():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross(affine=np.diag([2.0, -1.0, 1.0, 1.0]), slab_mm=3))
    viewer.dims.set_point(0, 22)  # 2 mm from the fibers along x and y
    assert layer.pick((22, -10, 3), None, [1, 2], 0.5) == 0
    assert layer.pick((22, -3, 10), None, [1, 2], 0.5) == 1
    assert layer.pick((22, -10, 10), None, [1, 2], 0.5) == 2, "the one that crosses the slice"
    assert layer.pick((22, -3, 3), None, [1, 2], 0.5) is None
    assert layer.pick((24, -10, 3), None, [1, 2], 0.5) is None, "outside the slab"
    assert layer.pick((30, 0, 10), None, [0, 2], 0.5) is None
    assert layer.pick((30, -10, 10), None, [0, 2], 0.5) == 2
    layer.slab_mm = 0
    assert layer.pick((99, -10, 3), None, [1, 2], 0.5) == 0
    layer.shown = [False, True, True]
    assert layer.pick((22, -10, 3), None, [1, 2], 0.5) is None


def test_napari_asks_for_the_value_under_the_cursor():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross(affine=np.diag([2.0, 1.0, 1.0, 1.0])))
    viewer.dims.set_point(0, 20)
    assert layer.get_value((20, 10, 3), view_direction=None, dims_displayed=[1, 2], world=True) == 0
    assert layer.get_status((20, 10, 3), dims_displayed=[1, 2], world=True)["value"] == "0"
    viewer.dims.ndisplay = 3
    ray = {"view_direction": np.array([1.0, 0, 0]), "dims_displayed": [0, 1, 2], "world": True}
    assert layer.get_value((20, 5, 10), **ray) == 1
    assert layer.get_value((20, 99, 99), **ray) is None
    assert layer.get_value((20, 10, 3)) is None, "a point in space without a ray"
    layer.visible = False
    assert layer.get_value((20, 5, 10), **ray) is None


def test_the_tolerance_grows_as_the_camera_moves_away():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 10)
    layer.scale_factor = 0.1
    assert layer.get_value((10, 13, 3)) is None
    layer.scale_factor = 1.0
    assert layer.get_value((10, 13, 3)) == 0
