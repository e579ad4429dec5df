"""The adaptive metric: a factor on g for which geodesics follow curved fibers (Hao, Whitaker and Fletcher 2014).

Geodesics of g = D^-1 cut corners: they leave the principal direction wherever it curves. Under ``exp(alpha) g`` the
integral curves of the unit principal field V are geodesics if ``grad alpha = 2 nabla_V V``. Alpha fulfills this in the
least-squares sense: it minimizes the integral of ``w |grad alpha - 2 nabla_V V|^2`` over the mask, which is a Poisson
equation with Neumann's boundary condition. Volume and length are those of g, with two differences to the paper:

- Along V the norm counts as little as across it (eigenvalues l2, l2, l3 instead of l1, l2, l3), since that part of
  grad alpha does not bend a geodesic.
- The weight w is the linear anisotropy ``1 - l2 / l1`` of the voxel times the geometric mean of its neighbors', so
  alpha is continued smoothly where there is no principal direction.

As p = g V is a one-form, ``2 nabla_V V`` is the vector of the one-form ``beta = 2 i_V dp``. It does not change with the
sign of V, and is computed from products of two principal directions only. Derivatives are differences between
neighbors in each of the eight octants around a voxel, so the equations do not depend on how the volume is stored.
"""

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.diffusion.tensors.gradient_fit import Equations, Octant

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


def log_factor(values: Array, vectors: Array, mask: npt.NDArray[np.bool_], affine: Floats) -> Floats:
    """Alpha of the adaptive metric ``exp(alpha) D^-1``, whose dual is ``exp(-alpha) D``.

    Parameters
    ----------
    values, vectors
        Eigenvalues (X, Y, Z, 3), descending and positive, in any unit, and eigenvectors (X, Y, Z, 3, 3) as `Eigen` has
        them.
    mask
        Where alpha is computed, shape (X, Y, Z).
    affine
        Voxel to world, mm.

    Returns
    -------
    ndarray
        Shape (X, Y, Z), mean 0 over each connected part of the mask, and 0 outside of it.
    """
    equations = Equations(mask)
    field = _principal(values[mask].astype(np.float64), vectors[mask].astype(np.float64), affine[:3, :3])
    ways = itertools.product(range(3), (-1, 1))
    changes = {way: _change(field, *way, equations.neighbors(*way)) for way in ways}
    for x, y, z in itertools.product((-1, 1), repeat=3):
        _add(equations, field, changes, (x, y, z))
    alpha = np.zeros(mask.shape)
    alpha[mask] = equations.solution()
    return alpha


@dataclass(frozen=True, eq=False, slots=True)
class _Principal(ShortRepr):
    """The principal direction v and what belongs to it, one row for each voxel of the mask.

    ``largest`` eigenvalue, ``linear`` anisotropy, ``world``: v in world axes, ``vector``: in voxels per mm, ``form``:
    as a one-form on voxels, ``weight``: of the differences between grad alpha and its aim, shape (N, 3, 3).
    """

    largest: Floats
    linear: Floats
    world: Floats
    vector: Floats
    form: Floats
    weight: Floats


def _principal(values: Floats, vectors: Floats, to_world: Floats) -> _Principal:
    axes = vectors @ np.linalg.inv(to_world).T
    linear, across = 1.0 - values[:, 1] / values[:, 0], values[:, [1, 1, 2]]
    sizes = across * (linear / np.sqrt(values.prod(axis=1)))[:, np.newaxis]
    weight = (sizes[:, :, np.newaxis] * axes).transpose(0, 2, 1) @ axes
    return _Principal(values[:, 0], linear, vectors[:, 0], axes[:, 0], vectors[:, 0] @ to_world, weight)


class _Change(NamedTuple):
    """From voxels to their neighbors on one side, for Q = p p^T: v v dQ / 2 and its share of v dQ, times l1."""

    speed: Floats
    turn: Floats
    linear: Floats  # anisotropy of the neighbors


def _change(field: _Principal, axis: int, sign: int, there: Array) -> _Change:
    """Differences to the neighbors ``there``; what is computed where there is none (-1) is not used."""
    cosine = (field.world * field.world[there]).sum(axis=1)
    ratio = field.largest / field.largest[there] * cosine
    turned = ratio[:, np.newaxis] * field.form[there] - field.form
    return _Change(
        speed=0.5 * sign * (ratio * cosine - 1.0),
        turn=sign * field.vector[:, axis, np.newaxis] * turned,
        linear=field.linear[there],
    )


def _add(equations: Equations, field: _Principal, changes: dict[tuple[int, int], _Change], octant: Octant) -> None:
    """Add what the differences in one octant of every voxel contribute.

    With Q = p p^T and M = V V^T, free of V's sign: ``(i_V dp)_k = M^ij d_j Q_ki - M^ij d_k Q_ij / 2 - p_k c``, where
    ``c = V^l M^ij d_l Q_ij / 2``.
    """
    rows = equations.rows(octant)
    sides = [changes[axis, sign] for axis, sign in enumerate(octant)]
    speed = np.stack([side.speed[rows] for side in sides], axis=1)
    along = (field.vector[rows] * speed).sum(axis=1, keepdims=True)
    turn = sides[0].turn[rows] + sides[1].turn[rows] + sides[2].turn[rows]
    beta = 2.0 * (turn - speed - field.form[rows] * along)
    neighbors = np.cbrt(sides[0].linear[rows] * sides[1].linear[rows] * sides[2].linear[rows])
    equations.add(rows, octant, neighbors[:, np.newaxis, np.newaxis] * field.weight[rows], beta)
