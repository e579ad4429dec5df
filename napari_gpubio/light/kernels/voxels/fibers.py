"""Scattering that depends on direction. Counterpart: ``fibers.cuh``.

Where a voxel has a tensor, its medium has another mu_s and mean free path after each scattering event, reflection and
refraction. What that needs is compiled for those runs only that have tensors; see `begin` in ``start.py``.
"""

import numpy as np

from napari_gpubio.core.fastmath import turn
from napari_gpubio.core.jit import leaf, pruned
from napari_gpubio.core.xoshiro import next_bits, uniform
from napari_gpubio.light.kernels.physics import HALF, ONE, ZERO, scattering_cosine, turned
from napari_gpubio.light.kernels.voxels.problem import BY_MIXTURE, BY_PHASE_FUNCTION, BY_PRODUCT

_F = np.float32


@leaf
def projected(numbers, place, ux, uy, uz):
    """u.M.u, 1/mm."""
    return (
        ux * (numbers[place, 0] * ux + numbers[place, 3] * uy + numbers[place, 4] * uz)
        + uy * (numbers[place, 1] * uy + numbers[place, 5] * uz)
        + uz * (numbers[place, 2] * uz)
    )


@leaf
def total_scattering(fibers, place, g, along):
    """mu_s of a direction for which u.M.u is ``along``, 1/mm."""
    if fibers.model == BY_MIXTURE:
        return HALF * (along + (g * g * along + (ONE - g * g) * fibers.numbers[place, 7]))
    return along


@pruned
def along_fibers(fibers, cell, direction, g, mus, free_path):
    """Anisotropy g, mu_s and mean free path of a voxel in a direction, given those of its label."""
    if fibers is not None:
        place = fibers.places[cell]
        if place > 0:
            ux, uy, uz = direction
            g = ZERO if fibers.model == BY_PRODUCT else g
            mus = total_scattering(fibers, place, g, projected(fibers.numbers, place, ux, uy, uz))
            free_path = ONE / max(mus, _F(1e-20))
    return g, mus, free_path


@pruned
def beside_fibers(fibers, cell, before, after, g, mus, free_path, state):
    """Direction of a scattered photon, with mu_s and mean free path, where ``after`` was drawn from ``before``.

    By phase function that is the one. By product, it is drawn again until it is accepted with a chance in proportion to
    mu(after), from directions that are all alike because g is 0 there. By mixture it is the one with the chance
    mu(before) over both terms of the rate, and else is drawn so among those of the phase function.
    """
    ux, uy, uz = after
    if fibers is not None:
        place = fibers.places[cell]
        if place > 0:
            numbers, model = fibers.numbers, fibers.model
            along = projected(numbers, place, ux, uy, uz)
            again = model != BY_PHASE_FUNCTION
            if model == BY_MIXTURE:
                chance, state = uniform(state)
                again = chance * (mus + mus) >= projected(numbers, place, before[0], before[1], before[2])
            if again:
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
