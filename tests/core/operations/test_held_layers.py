"""Layers that are held: what may stand in them, and what is refused before napari sees it."""

import json

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import HeldLayer, Store, digest, from_graph, graph, run
from napari_gpubio.core.operations.held_layers import LayerParts, layer_data

POINTS, CORNERS, FACES = np.arange(12.0).reshape(4, 3), np.arange(18.0).reshape(6, 3), np.arange(6).reshape(2, 3)
TEXT = {"map": [["string", {"map": [["format", "{name}"]]}]]}


def held(kind="points", *arrays, **values):
    """An operation of a layer, and the store that has its arrays."""
    store, arrays = Store(), arrays or (POINTS,)
    values = {"data": {"array": 0}, **values}
    return HeldLayer.of(LayerParts(kind=kind, values=values, arrays=arrays), store), store


def test_a_layer_comes_back_as_it_was():
    operation, store = held(units=["millimeter"] * 3, opacity=0.5, text=TEXT)
    (again,) = from_graph(graph(operation)).values()
    assert again == operation
    parts = run(again, device="cpu", store=store)
    data, keywords, kind = layer_data(parts)
    np.testing.assert_array_equal(data, POINTS)
    assert data.flags.writeable, "users move points"
    assert (kind, keywords["opacity"], keywords["text"]) == ("points", 0.5, {"string": {"format": "{name}"}})
    other, store = held(units=["millimeter"] * 3, opacity=0.75, text=TEXT)
    assert digest(run(other, device="cpu", store=store)) != digest(parts)


def test_shapes_and_surfaces_have_several_arrays():
    operation, store = held("shapes", CORNERS, np.array([4, 2]), data=[{"array": 0}, {"array": 1}])
    data, _, _ = layer_data(run(operation, device="cpu", store=store))
    assert [one.tolist() for one in data] == [CORNERS[:4].tolist(), CORNERS[4:].tolist()]
    operation, store = held("surface", CORNERS, FACES, data=[{"array": 0}, {"array": 1}])
    data, _, _ = layer_data(run(operation, device="cpu", store=store))
    assert isinstance(data, tuple)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"path": "x"}, "points has no 'path'"),
        ({"size": {"array": 1}}, "one of 1 arrays"),
        ({"size": {"array": True}}, "one of 1 arrays"),
        ({"size": {"call": "eval"}}, "must be a map"),
        ({"size": {"map": [["a"]]}}, "must be a map"),
        ({"units": ["9**9**9**9"]}, "name of a unit"),
        ({"units": "mm"}, "name of a unit"),
        ({"text": {"map": [["format", "{name:999999999}"]]}}, "columns in braces"),
        ({"text": {"map": [["format", "{name.__class__}"]]}}, "columns in braces"),
        ({"features": float("nan")}, "finite number"),
    ],
)
def test_what_no_layer_has_is_refused(values, match):
    with pytest.raises(InvalidInput, match=match):
        held(**values)


def test_nested_values_and_other_texts_are_refused():
    deep = json.dumps({"data": [], "text": []}).replace("[]", "[" * 40 + "]" * 40)
    for text, match in (
        (deep, "too deep"),
        ("[" * 100_000, "text of a layer"),
        ("[]", "object of JSON"),
        ("{}", "no data"),
    ):
        with pytest.raises(InvalidInput, match=match):
            HeldLayer(kind="points", values=text, arrays=())
    with pytest.raises(InvalidInput, match="up to"):
        HeldLayer(kind="points", values=" " * (9 << 20), arrays=())
    surface = {"name": "x", "colors": [[0, 0, 0, 2]], "controls": [0, 1], "interpolation": "linear"}
    with pytest.raises(InvalidInput, match="colormap"):
        held("surface", colormap=surface)


@pytest.mark.parametrize(
    ("kind", "arrays"),
    [
        ("points", (np.zeros(3),)),
        ("points", (np.array(["a", "b"]),)),
        ("shapes", (CORNERS, np.array([4, 3]))),
        ("shapes", (CORNERS, np.array([-1, 7]))),
        ("surface", (POINTS, FACES)),
        ("surface", (CORNERS, FACES.astype(float))),
        ("vectors", (CORNERS,)),
        ("tracks", (POINTS,)),
    ],
)
def test_data_that_do_not_fit_are_refused(kind, arrays):
    data = [{"array": n} for n in range(len(arrays))]
    operation, store = held(kind, *arrays, data=data if len(data) > 1 else data[0])
    with pytest.raises(InvalidInput, match="save it again"):
        run(operation, device="cpu", store=store)
