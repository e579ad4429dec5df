"""Tractograms on every kind of affine for the tests of their files, and what it means that two are the same."""

import numpy as np

from napari_gpubio.core.space import apply_affine
from napari_gpubio.tractograms.model import Tractogram

SHAPE = (40, 50, 30)
WRITTEN = [".trk", ".tck", ".trx", ".vtk"]
TURN = np.array([[0.96, -0.28, 0.0], [0.26880, 0.9216, -0.28], [0.0784, 0.2688, 0.96]])


def affine_of(matrix, origin=(-30.0, 20.0, 11.5)):
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = matrix, origin
    return affine


AFFINES = {
    "identity": np.eye(4),
    "anisotropic": affine_of(np.diag([0.7, 2.5, 3.1])),
    "LAS": affine_of(np.diag([-2.0, 2.0, 2.2]), (90, -126, -72)),
    "oblique": affine_of(TURN @ np.diag([1.25, 2.5, 2.0])),
    "oblique PIR": affine_of(TURN @ np.diag([1.25, 2.5, 2.0]) @ np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])),
    "sheared": affine_of(np.array([[2.0, 0.6, 0.0], [0.0, 1.5, -0.4], [0.3, 0.0, 2.5]])),
}
FAR = affine_of(TURN @ np.diag([1.25, 2.5, 2.0]), (-990.0, 940.0, 960.0))  # a meter away


def make(counts=(5, 1, 12, 3), affine=AFFINES["sheared"], *, columns=True, **kwargs):
    rng = np.random.default_rng(7)
    points = apply_affine(affine, rng.uniform(0, np.array(SHAPE) - 1, (sum(counts), 3))).astype(np.float32)
    fibers = len(counts)
    per_point = {"fa": rng.random(len(points), np.float32), "dir": rng.random((len(points), 3)).astype(np.float32)}
    per_fiber = {"seed": np.arange(fibers, dtype=np.int32), "score": rng.random((fibers, 2))}
    return Tractogram(
        points=points,
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        affine=affine,
        shape=SHAPE,
        per_point=per_point if columns else {},
        per_fiber=per_fiber if columns else {},
        **kwargs,
    )


def check_same_fibers(found, expected):
    """Two tractograms of runs are the same to the last bit."""
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.points, expected.points)
    for table in ("per_fiber", "per_point"):
        assert set(getattr(found, table)) == set(getattr(expected, table))
        for name, values in getattr(expected, table).items():
            np.testing.assert_array_equal(getattr(found, table)[name], values)


def assert_same_fibers(read, made, tolerance=1e-4):
    np.testing.assert_array_equal(read.offsets, made.offsets)
    np.testing.assert_allclose(read.points, made.points, rtol=0, atol=tolerance)
    assert read.points.dtype == np.float32
    assert read.points.flags.writeable


def assert_same_columns(read, made):
    for kind in ("per_point", "per_fiber"):
        ours, theirs = getattr(read, kind), getattr(made, kind)
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert ours[name].shape == theirs[name].shape
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6)
