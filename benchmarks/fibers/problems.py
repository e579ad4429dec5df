"""What is traced: synthetic volumes, and the corpus callosum of the real brain, with settings and seeds."""

from dataclasses import replace

import numpy as np

from fibers.brain import callosum_box
from napari_gpubio.core.philox import uniform
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.fibers.directions import Principal
from napari_gpubio.fibers.kernels.rays.problem import RayProblem
from napari_gpubio.fibers.seeds import Launch
from napari_gpubio.fibers.settings import Hamiltonian, InTensors, VanAart2011, as_method

SEED_SHAPE = (1024, 64, 64)  # van Aart et al. 2011, section 5
SEED_FIBERS, SEED_STEPS, STEP_VOXELS = 2048, 4096, 0.2
STEP_SIZES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # voxels, its figure 6
FREE = VanAart2011(
    integrator="rk2", step_mm=STEP_VOXELS, fa_stop=0.0, max_length_mm=100_000.0, min_length_mm=0.0, max_steps=SEED_STEPS
)
LINEAR_RK2 = replace(as_method(Hamiltonian, FREE), interpolation="linear")
CUBIC_RK4 = replace(as_method(Hamiltonian, FREE), integrator="rk4")
ONE_WAY = Principal(both_ways=False)


def seed_volume() -> TensorField:
    """The paper's benchmark volume: anisotropic along x, slightly modulated, weakly focusing so that no ray leaves."""
    nx, ny, nz = SEED_SHAPE
    x, y, z = np.meshgrid(np.arange(nx), np.arange(ny) - (ny - 1) / 2, np.arange(nz) - (nz - 1) / 2, indexing="ij")
    wave = 1 + 0.01 * np.sin(2 * np.pi * x / 96) * np.cos(2 * np.pi * y / 48)
    tensors = np.zeros((*SEED_SHAPE, 6))
    tensors[..., 0] = 1.7e-3 * wave * (1 + 0.05 * (y**2 + z**2) / (ny / 2) ** 2)  # rays bend to where D is low
    tensors[..., 1] = 0.3e-3 * wave
    tensors[..., 2] = 0.3e-3 * (2 - wave)
    return TensorField(tensors=tensors, mask=np.ones(SEED_SHAPE, bool), affine=np.eye(4))


def random_field(shape: tuple[int, int, int]) -> TensorField:
    """Tensors of a brain's size of eigenvalues, each voxel its own."""
    u = uniform(1, 0, int(np.prod(shape)), 6).astype(np.float64).reshape(*shape, 6)
    tensors = np.concatenate([0.4 + 1.2 * u[..., :3], 0.5 * (u[..., 3:] - 0.5)], axis=-1) * 1e-3
    return TensorField(tensors=tensors, mask=np.ones(shape, bool), affine=np.eye(4))


def seed_problem(field: TensorField, settings: InTensors, fibers: int) -> RayProblem:
    """Random seeds near the left end, around the axis, all launched along +x."""
    room = field.shape[0] - 6 - 1.05 * settings.step_mm * settings.max_steps
    u = uniform(7, 0, fibers, 3).astype(np.float64)
    points = np.array([3.0, 22.0, 22.0]) + u * np.array([room, 19.0, 19.0])
    return RayProblem(field, Launch(points, np.tile([1.0, 0.0, 0.0], (fibers, 1)), ONE_WAY), settings, measure=False)


def random_box() -> TensorField:
    """A 48^3 volume of gently turning tensors."""
    x, y, _ = np.meshgrid(*[np.arange(48.0)] * 3, indexing="ij")
    turn = 0.2 * np.sin(2 * np.pi * y / 48)
    tensors = np.zeros((48, 48, 48, 6))
    tensors[..., 0] = 0.3 + 1.4 * np.cos(turn) ** 2
    tensors[..., 1] = 0.3 + 1.4 * np.sin(turn) ** 2
    tensors[..., 2] = 0.3 + 0.02 * np.sin(2 * np.pi * x / 48)
    tensors[..., 3] = 1.4 * np.cos(turn) * np.sin(turn)
    return TensorField(tensors=tensors * 1e-3, mask=np.ones((48, 48, 48), bool), affine=np.eye(4))


def box_problem(field: TensorField, settings: InTensors, fibers: int) -> RayProblem:
    """Seeds in a small box near the left face, along +x."""
    u = uniform(3, 0, fibers, 3).astype(np.float64)
    points = np.array([2.0, 20.0, 20.0]) + u * np.array([3.0, 8.0, 8.0])
    return RayProblem(field, Launch(points, np.tile([1.0, 0.0, 0.0], (fibers, 1)), ONE_WAY), settings, measure=False)


def callosum_problem(field: TensorField, settings: InTensors, fibers: int) -> RayProblem:
    """Random points of the callosal region, each with one random direction of the sphere."""
    first, extent = callosum_box(field)
    u = uniform(11, 0, fibers, 5).astype(np.float64)
    points = apply_affine(field.affine, first - 0.5 + u[:, :3] * extent)
    cos, turn = 2 * u[:, 3] - 1, 2 * np.pi * u[:, 4]
    sin = np.sqrt(1 - cos**2)
    directions = np.stack([sin * np.cos(turn), sin * np.sin(turn), cos], axis=1)
    return RayProblem(field, Launch(points, directions, ONE_WAY), settings, measure=False)
