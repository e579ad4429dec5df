"""Layers that users draw, on an oblique grid, with tables, texts, and looks."""

import numpy as np
from napari.layers import Image, Points, Shapes, Surface, Tracks, Vectors

from napari_gpubio.core.napari_io import KEY
from tests.volume_samples import AFFINES

TABLE = {"name": ["a", None, "c"], "x": [1.0, np.nan, 3.0], "n": [1, 2, 3]}


class PluginPoints(Points):
    """As other plugins have them."""

    _type_string = "points"


def drawn_layers():
    """One of each type, and empty ones."""
    rng = np.random.default_rng(1)
    place = {
        "affine": AFFINES["oblique"], "units": "mm", "axis_labels": ("z", "y", "x"), "scale": (2.0, 1.0, 0.5),
        "translate": (1.0, 2.0, 3.0), "rotate": (10.0, 20.0, 30.0),
    }  # fmt: skip
    corners = [rng.random((n, 3)) for n in (4, 5, 2)]
    faces = np.arange(30).reshape(10, 3)
    return [
        PluginPoints(
            rng.random((3, 3)), name="points", features=TABLE, text="{name} {x:.2f}", size=[1, 2, 3],
            symbol=["o", "x", "s"], face_color=["r", "g", "b"], shown=[True, False, True], opacity=0.25,
            metadata={KEY: {"seeds": True, "object": object(), "thickness_mm": {"a": 1.5}}, "other": [1, "two"]},
            **place,
        ),
        Points(ndim=3, name="no points", **place),
        Shapes(
            corners, name="shapes", shape_type=["polygon", "polygon", "line"], features=TABLE, visible=False,
            edge_color=["r", "g", "b"], text={"string": "{name}", "size": 9, "color": "red"}, **place,
        ),
        Shapes(ndim=3, name="no shapes", **place),
        Surface((rng.random((30, 3)), faces, np.arange(30.0)), name="surface", colormap="turbo", **place),
        Surface((rng.random((30, 3)), faces), name="colored", vertex_colors=rng.random((30, 4)), **place),
        Vectors(rng.random((3, 2, 3)), name="vectors", edge_color=["r", "g", "b"], features=TABLE, **place),
        Tracks([[0, 0, 1, 1.5, 1], [0, 1, 2, 2, 2], [1, 2, 3, 3, 3]], name="tracks", features={"w": [1.0, 2, 3]},
               color_by="w", graph={1: [0]}),
        Image(np.full((4, 5, 3), 7, np.uint8), rgb=True, name="photo"),
    ]  # fmt: skip


def corners(layer):
    """The data of a layer in the world, in parts of one shape."""
    data = layer.data
    if isinstance(layer, Image | Tracks):
        return [data]
    if isinstance(layer, Surface):
        return [layer.data_to_world(data[0][3]), *data[1:]]
    if isinstance(layer, Vectors):
        return [layer.data_to_world(one[0]) for one in data] + [data]
    points = data if isinstance(layer, Points) else [corner for one in data for corner in one]
    return [layer.data_to_world(one) for one in points]
