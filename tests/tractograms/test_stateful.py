"""DIPY's StatefulTractogram: fibers there and back, from any of its spaces and origins."""

import numpy as np
import pytest
from dipy.io.stateful_tractogram import Origin, Space

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import noted
from napari_gpubio.tractograms import Tractogram
from napari_gpubio.tractograms.io import from_stateful, to_stateful

AFFINE = np.array([[-2.0, 0, 0, 20], [0, 2.5, 0.1, -20], [0, -0.1, 3.0, -10], [0, 0, 0, 1]])


def some_fibers():
    random = np.random.default_rng(0)
    return Tractogram(
        points=random.uniform(-8, 8, (9, 3)), offsets=np.array([0, 4, 6, 9]), affine=AFFINE, shape=(20, 18, 16),
        per_fiber={"fa": np.array([0.5, 0.6, 0.7]), "ends": np.arange(6.0).reshape(3, 2)},
        per_point={"md": np.arange(9.0), "color": np.arange(27.0).reshape(9, 3)},
    )  # fmt: skip


@pytest.mark.parametrize("space", [*Space])
@pytest.mark.parametrize("origin", [*Origin])
def test_fibers_come_back_from_every_space(space, origin):
    given = some_fibers()
    stateful = to_stateful(given)
    np.testing.assert_allclose(stateful.streamlines[2], given[2])
    stateful.to_space(space)
    stateful.to_origin(origin)
    found = from_stateful(stateful)
    assert (stateful.space, stateful.origin) == (space, origin)
    np.testing.assert_allclose(found.points, given.points, atol=1e-5)
    np.testing.assert_array_equal(found.offsets, given.offsets)
    np.testing.assert_allclose(found.affine, AFFINE)
    assert found.shape == given.shape
    for table, expected in ((found.per_fiber, given.per_fiber), (found.per_point, given.per_point)):
        assert table.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(table[name], values)


def test_no_fibers_and_something_else():
    with noted() as notes:
        one = to_stateful(
            Tractogram(points=np.ones((2, 3)), offsets=np.array([0, 0, 2]), affine=AFFINE, shape=(9, 9, 9))
        )
    assert len(one.streamlines) == 1
    assert "1 of 2 fibers have no points" in notes[0]
    none = from_stateful(to_stateful(some_fibers().select([])))
    assert len(none) == 0
    with pytest.raises(InvalidInput, match="this is a list; give a StatefulTractogram"):
        from_stateful([])
