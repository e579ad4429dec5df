"""Jacobians and trajectories as napari layers, and their files as layers."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.quantity import STANDARD_ERROR
from napari_gpubio.probes.io import save_jacobians, save_trajectories
from napari_gpubio.probes.napari_io import get_reader, jacobian_layer, trajectories_layer
from napari_gpubio.probes.trajectories import trajectories
from tests.probes.jacobians.samples import jacobians, run


def test_a_jacobian_is_an_image_with_its_error():
    data, keywords, kind = jacobian_layer(jacobians(), "D2", "head", part=jacobians().of("mua", "phase"))
    assert kind == "image"
    np.testing.assert_array_equal(np.asarray(data).T, jacobians().of("mua", "phase").values[1])
    assert "S1-D2 d phase / d mua, 100 MHz (rad mm)" in keywords["name"]
    held = keywords["metadata"]["napari_gpubio"]
    np.testing.assert_array_equal(held[STANDARD_ERROR], jacobians().of("mua", "phase").errors[1])
    assert held["jacobians"] is jacobians()
    low, high = keywords["contrast_limits"]
    assert low == -high < 0


@pytest.mark.parametrize("kind", ["tracks", "shapes"])
def test_trajectories_are_layers_that_napari_takes(kind):
    traced = trajectories(run(), most_photons=20)
    data, keywords, found = trajectories_layer(traced, "paths", kind=kind)
    assert found == kind
    if kind == "shapes":
        assert len(data) == 20
        np.testing.assert_allclose(data[0][-1][::-1], traced.position_mm[traced.vertices(0)][-1])
    else:
        assert data.shape == (len(traced.kind), 5)
        assert set(data[:, 0]) == set(range(20))
        assert (np.diff(data[:, 1])[np.diff(data[:, 0]) == 0] >= 0).all()
    layers = pytest.importorskip("napari.layers")
    layer = getattr(layers, kind.capitalize())(data, **keywords)
    assert layer.name == "paths"


def test_layers_of_nothing_are_refused():
    with pytest.raises(InvalidInput, match="choose 'tracks' or 'shapes'"):
        trajectories_layer(trajectories(run(), most_photons=2), "paths", kind="points")


def test_their_files_open_as_layers(tmp_path):
    save_jacobians(tmp_path / "j.npz", jacobians())
    save_trajectories(tmp_path / "paths.npz", trajectories(run(), most_photons=5))
    for name, kinds in (("j.npz", ["labels", "image", "image"]), ("paths.npz", ["labels", "tracks"])):
        path = str(tmp_path / name)
        reader = get_reader(path)
        assert [kind for *_, kind in reader(path)] == kinds
