"""napari opens and saves tractograms."""

import logging

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.tracts import napari_io as for_napari
from napari_gpubio.tracts.io import read_tractogram, write_tractogram
from tests.tracts.tractogram_samples import AFFINES, assert_same_fibers, make


def test_napari_reader(tmp_path):
    from napari.layers import Layer

    made = make(affine=AFFINES["oblique"])
    write_tractogram(tmp_path / "a.b.trx", made)
    assert for_napari.get_tractogram_reader(str(tmp_path / "a.txt")) is None
    assert for_napari.get_tractogram_reader([]) is None
    reader = for_napari.get_tractogram_reader([str(tmp_path / "a.b.trx")])
    ((data, keywords, kind),) = reader([str(tmp_path / "a.b.trx")])
    layer = Layer.create(data, keywords, kind)
    assert layer.name == "a.b"
    assert_same_fibers(layer.metadata["napari_gpubio"]["tractogram"], made)
    np.testing.assert_array_equal(layer.data[:, 0], made.fiber_of_point())
    center = layer.data_to_world(np.append(0, apply_affine(made.affine, [20, 25, 15])[::-1]))
    np.testing.assert_allclose(center[1:], apply_affine(made.affine, [20, 25, 15])[::-1], atol=2.0)
    assert len(np.unique(for_napari.tracks_data(make((2,) * 50), 10)[:, 0])) == 10
    write_tractogram(tmp_path / "none.trk", make(()))
    with pytest.raises(InvalidInput, match="holds no fibers"):
        for_napari.read_tractogram_layers(tmp_path / "none.trk")


@pytest.mark.parametrize("d", [3, 4])
def test_napari_writer(tmp_path, d, caplog):
    from napari.layers import Tracks

    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(0)
    data = np.column_stack([[4, 2, 2, 4, 2, 9], [1, 2, 1, 0, 0, 0], rng.uniform(0, 9, (6, d - 1))])
    affine = np.eye(d + 1)
    affine[-3:-1, -3:] = [[0.5, 2, -3], [2, 0.1, 7]]
    turn = np.eye(d)
    turn[-2:, -2:] = [[0.8, -0.6], [0.6, 0.8]]
    shear = np.arange(d * (d - 1) // 2) / 10
    layer = Tracks(data, affine=affine, scale=range(1, d + 1), translate=range(d), rotate=turn, shear=shear)
    world = np.array([layer.data_to_world(row) for row in layer.data[:, 1:]])
    assert for_napari.write_tracks(str(tmp_path / "a.trk"), *layer.as_layer_data_tuple()[:2]) == [
        str(tmp_path / "a.trk")
    ]
    read = read_tractogram(tmp_path / "a.trk")
    assert read.counts.tolist() == [3, 2, 1]
    np.testing.assert_allclose(read.points[:, : d - 1], world[:, :0:-1], atol=1e-4)
    if d == 3:
        assert not read.points[:, 2].any()
    made = make()
    for_napari.write_tracks(
        str(tmp_path / "b.trx"), data, {"metadata": {"napari_gpubio": {"tractogram": made}}, "affine": affine}
    )
    assert_same_fibers(read_tractogram(tmp_path / "b.trx"), made)
    with pytest.raises(InvalidInput, match="tracks have shape"):
        for_napari.write_tracks(str(tmp_path / "c.trx"), np.zeros((3, 2)), {})
