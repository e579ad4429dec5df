import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer, Tracks
from napari.layers._layer_actions import _duplicate_layer

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.streamlines import Streamlines
from tests.gui.streamline_samples import colors, cross


def test_ordinary_tracks_can_be_made_and_turned_back():
    layer = cross(
        color_by="number", colormap="gray", slab_mm=3, scale=(2, 1, 1), translate=(5, 0, 0), metadata={"a": 1}, name="c"
    )
    tracks = Layer.create(*layer.as_layer_data_tuple())
    assert type(tracks) is Tracks
    assert np.array_equal(tracks.extent.world[:, 1:], layer.extent.world)
    assert np.array_equal(tracks.data[:, 2:], layer.points)
    assert tracks.color_by == "number"
    data, state, _ = tracks.as_layer_data_tuple()
    back = Streamlines.from_layer_data(data, state)
    assert np.array_equal(back.points, layer.points)
    assert np.array_equal(back.extent.world, layer.extent.world)
    assert back.per_fiber["number"].tolist() == [0, 1, 2]
    assert np.array_equal(back.per_point["place"], layer.per_point["place"])
    assert (back.color_by, back.colormap, back.slab_mm, back.metadata) == ("number", "gray", 3, {"a": 1})
    assert np.array_equal(colors(back), colors(layer))


def test_no_lines_can_be_made_tracks_and_turned_back():
    layer = Streamlines(np.empty((0, 3)), [0, 0], per_fiber={"length": [1.0]}, per_point={"fa": []})
    tracks = Layer.create(*layer.as_layer_data_tuple())
    back = Streamlines.from_layer_data(*tracks.as_layer_data_tuple()[:2])
    assert (len(back.points), len(back.lines)) == (0, 1)


def test_foreign_tracks_are_refused():
    data, state, _ = Tracks(np.zeros((2, 5))).as_layer_data_tuple()
    with pytest.raises(InvalidInput, match="not made from streamlines"):
        Streamlines.from_layer_data(data, state)


def test_duplicate_in_the_layer_list():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross())
    viewer.layers.selection = {layer}
    _duplicate_layer(viewer.layers)
    assert len(viewer.layers) == 2
    assert len(viewer.layers[1].data) == 63


def test_saving_without_a_writer_writes_nothing(tmp_path):
    viewer = ViewerModel()
    viewer.add_layer(cross())
    with pytest.warns(UserWarning, match="No data written"):
        assert viewer.layers.save(str(tmp_path / "lines.nosuch")) == []


def test_the_stock_visual_finds_what_it_asks_for():
    layer = cross(slab_mm=3, affine=np.diag([2.0, 1, 1, 1]))
    layer.shown = [True, False, True]
    expected = np.ones(63, bool)
    expected[[20, 62]] = False
    expected[21:42] = False
    assert np.array_equal(layer.track_connex, expected)
    assert layer.track_times.tolist() == layer.points[:, 0].tolist()
    assert (layer.head_length, layer.tail_length) == (2, 2), "3 mm in steps of 2 mm"
    layer.slab_mm = 0
    assert layer.tail_length > 1e5
    layer.display_id = True
    assert layer.track_labels == (None, (None, None))
