"""Fields for the tests of lifted geodesics, and their equations of motion from any state."""

import numpy as np

from napari_gpubio.core.jit import kernel
from napari_gpubio.diffusion import FodField
from napari_gpubio.diffusion.phantom.crossings import bundle_axes, centered_grid, fiber_fods
from napari_gpubio.fibers.kernels.lifted import cpu
from napari_gpubio.fibers.kernels.lifted.geodesics import advanced, cost, hamiltonian, on_sphere, rates
from napari_gpubio.fibers.kernels.lifted.problem import LiftedProblem
from napari_gpubio.fibers.seeds import Launch
from tests.fibers.fods.crossing_samples import FORWARDS


@kernel
def integrate(volumes, settings, memory, states, step, count):
    """Rows of states (x, n, p, q), each a step after the one before, and 2 H of each in the last column."""
    for row in range(count):
        y = (
            (states[row, 0], states[row, 1], states[row, 2]),
            (states[row, 3], states[row, 4], states[row, 5]),
            (states[row, 6], states[row, 7], states[row, 8]),
            (states[row, 9], states[row, 10], states[row, 11]),
        )
        x, n, _, _ = y
        here = cost(volumes, settings, memory, x, n)
        states[row, 12], _ = hamiltonian(settings, here, y)
        if row + 1 == count:
            break
        k = rates(volumes, settings, here, y)
        sums = k
        for stage in range(1, 4):
            at = on_sphere(advanced(y, step if stage == 3 else 0.5 * step, k))
            x, n, _, _ = at
            k = rates(volumes, settings, cost(volumes, settings, memory, x, n), at)
            if stage < 3:
                sums = advanced(sums, 2.0, k)
        x, n, p, q = on_sphere(advanced(y, step / 6.0, advanced(sums, 1.0, k)))
        states[row + 1, 0], states[row + 1, 1], states[row + 1, 2] = x
        states[row + 1, 3], states[row + 1, 4], states[row + 1, 5] = n
        states[row + 1, 6], states[row + 1, 7], states[row + 1, 8] = p
        states[row + 1, 9], states[row + 1, 10], states[row + 1, 11] = q


@kernel
def derivatives(volumes, settings, memory, states, out):
    """Rates of states, and 2 H of each."""
    for row in range(len(states)):
        y = (
            (states[row, 0], states[row, 1], states[row, 2]),
            (states[row, 3], states[row, 4], states[row, 5]),
            (states[row, 6], states[row, 7], states[row, 8]),
            (states[row, 9], states[row, 10], states[row, 11]),
        )
        x, n, _, _ = y
        here = cost(volumes, settings, memory, x, n)
        out[row, 12], _ = hamiltonian(settings, here, y)
        x, n, p, q = rates(volumes, settings, here, y)
        out[row, 0], out[row, 1], out[row, 2] = x
        out[row, 3], out[row, 4], out[row, 5] = n
        out[row, 6], out[row, 7], out[row, 8] = p
        out[row, 9], out[row, 10], out[row, 11] = q


def run_of(field, settings):
    problem = LiftedProblem(field, Launch(np.zeros((1, 3)), np.eye(3)[:1], FORWARDS), settings)
    run = cpu.Run(problem)
    memory = tuple(np.empty((4, problem.volumes.fods.shape[3]), problem.real))
    return run._volumes, run._settings, memory


def path_of(field, settings, start, step, count):
    states = np.zeros((count, 13))
    states[0, :12] = np.ravel(start)
    integrate(*run_of(field, settings), states, step, count)
    return states


def constant_cost(shape=(33, 33, 33)):
    """FODs that are the same in every direction and voxel, so that C is constant."""
    affine, _ = centered_grid(shape)
    coefficients = np.zeros((*shape, 28), np.float32)
    coefficients[..., 0] = np.sqrt(4 * np.pi)
    return FodField(coefficients=coefficients, mask=np.ones(shape, bool), affine=affine)


def everywhere(shape=(21, 21, 21)):
    """The same FOD of two fibers in every voxel."""
    affine, _ = centered_grid(shape)
    coefficients = np.broadcast_to(fiber_fods(bundle_axes(70)).sum(axis=0), (*shape, 45)).astype(np.float32)
    return FodField(coefficients=coefficients, mask=np.ones(shape, bool), affine=affine)


def wavy(shape=(12, 12, 12), lmax=6):
    """FODs that differ from voxel to voxel."""
    affine = np.array([[1.3, 0.2, 0, -7], [0.1, 0.9, 0, -6], [0, -0.1, 1.1, -6], [0, 0, 0, 1]])
    rng = np.random.default_rng(4)
    directions = rng.normal(size=(*shape, 2, 3)) * 0.25 + [[1, 0, 0], [0.2, 1, 0.3]]
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    coefficients = fiber_fods(directions, lmax).sum(axis=-2).astype(np.float32)
    return FodField(coefficients=coefficients, mask=np.ones(shape, bool), affine=affine)
