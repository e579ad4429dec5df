"""Scattering that depends on direction. Counterpart: ``fibers.cuh``.

Where a voxel has a tensor M, its medium has another mu_s and mean free path after each scattering event, reflection and
refraction. The table has the columns of L in M = L L^T, with which u.M.u is a sum of three squares. A direction with a
density in proportion to it follows one of the columns, drawn with the chance of its square, by the square of the cosine
to it; nothing is rejected.

What all this needs is compiled for those runs only that have tensors; see `begin` in ``start.py``.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import numpy as np

from napari_gpubio.core.fastmath import turn
from napari_gpubio.core.jit import leaf, pruned_leaf
from napari_gpubio.core.philox import unit_float
from napari_gpubio.core.sfc import next_bits, uniform
from napari_gpubio.light.kernels.voxels.start import unit
from napari_gpubio.light.kernels.voxels.tensor_table import BY_MIXTURE, BY_PRODUCT
from napari_gpubio.optics.kernels.physics import HALF, ONE, ZERO, left_over_bits, scattering_cosine, turned

_F = np.float32


@leaf
def projected(numbers, place, ux, uy, uz):
    """u.M.u, 1/mm."""
    p = numbers[place, 0] * ux + numbers[place, 1] * uy + numbers[place, 2] * uz
    q = numbers[place, 3] * uy + numbers[place, 4] * uz
    r = numbers[place, 5] * uz
    return p * p + q * q + r * r


@leaf
def total_scattering(fibers, place, g, along):
    """mu_s of a direction for which u.M.u is ``along``, 1/mm."""
    if fibers.model == BY_MIXTURE:
        return HALF * (along + (g * g * along + (ONE - g * g) * fibers.numbers[place, 7]))
    return along


@leaf
def column_of(numbers, place, chance):
    """Unit vector along a column of L, drawn with the chance of its square."""
    if chance < numbers[place, 6]:
        return unit(numbers[place, 0], numbers[place, 1], numbers[place, 2])
    if chance < numbers[place, 7]:
        return unit(ZERO, numbers[place, 3], numbers[place, 4])
    return ZERO, ZERO, ONE


@leaf
def squared_cosine(a, b, c):
    """A cosine with a density in proportion to its square, of three numbers from 0 to 1: the farthest from a half."""
    cosine, other, last = _F(2.0) * a - ONE, _F(2.0) * b - ONE, _F(2.0) * c - ONE
    cosine = other if abs(other) > abs(cosine) else cosine
    return last if abs(last) > abs(cosine) else cosine


@pruned_leaf
def tensor_row(fibers, cell):
    """Row of a voxel's tensor in the table, 0 for none."""
    if fibers is not None:
        return fibers.places[cell]
    return 0


@pruned_leaf
def along_fibers(fibers, place, direction, g, mus, free_path):
    """mu_s and mean free path of a voxel in a direction, given those of its label, and its g."""
    if fibers is not None and place > 0:
        ux, uy, uz = direction
        mus = total_scattering(fibers, place, g, projected(fibers.numbers, place, ux, uy, uz))
        free_path = ONE / max(mus, _F(1e-20))
    return mus, free_path


@pruned_leaf
def turning_point(fibers, place, direction, cosine, chance, state):
    """What a scattered photon's direction is turned around, and by which cosine: its own, or by product a column of L.

    ``cosine`` is what its phase function makes of ``chance``.
    """
    ux, uy, uz = direction
    if fibers is not None and place > 0 and fibers.model == BY_PRODUCT:
        second, state = next_bits(state)
        third, state = next_bits(state)
        cosine = squared_cosine(chance, unit_float(second), unit_float(third))
        ux, uy, uz = column_of(fibers.numbers, place, unit_float(left_over_bits(second, third)))
    return ux, uy, uz, cosine, state


@pruned_leaf
def beside_fibers(fibers, place, before, after, g, mus, free_path, state):
    """Direction of a scattered photon, with its mu_s and mean free path, where ``after`` was drawn.

    That is the one, but for the mixture: there it is with the chance mu(before) over both terms of the rate, and else
    drawn again until it is accepted with a chance in proportion to mu(after).
    """
    ux, uy, uz = after
    if fibers is not None and place > 0:
        numbers = fibers.numbers
        along = projected(numbers, place, ux, uy, uz)
        if fibers.model == BY_MIXTURE:
            chance, state = uniform(state)
            if chance * (mus + mus) >= projected(numbers, place, before[0], before[1], before[2]):
                chance, state = uniform(state)
                while chance * numbers[place, 6] >= along:
                    chance, state = uniform(state)
                    bits, state = next_bits(state)
                    cp, sp = turn(bits)
                    cosine = scattering_cosine(g, chance)
                    ux, uy, uz = turned(before[0], before[1], before[2], cosine, cp, sp)
                    along = projected(numbers, place, ux, uy, uz)
                    chance, state = uniform(state)
        mus = total_scattering(fibers, place, g, along)
        free_path = ONE / max(mus, _F(1e-20))
    return ux, uy, uz, mus, free_path, state
