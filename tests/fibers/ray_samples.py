"""Fields, settings and rays for the tests of ray tracing."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.device import choose_device
from napari_gpubio.diffusion import TensorField, fit_tensors
from napari_gpubio.diffusion.model import Cache
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.phantom.analytic import DIFFUSIVITY
from napari_gpubio.diffusion.phantom.brain import voxel_centers
from napari_gpubio.diffusion.phantom.closed_forms import pull_back
from napari_gpubio.fibers import Cone, Hamiltonian, Principal, track
from napari_gpubio.fibers.checks import EXACT, SEED_SCHEME, shoot
from napari_gpubio.fibers.kernels.rays.problem import RayProblem
from napari_gpubio.fibers.run import trace_problem
from napari_gpubio.fibers.seeds import Launch, ball, make_launch
from napari_gpubio.fibers.settings import EuDX, VanAart2011, as_method

DOUBLE = dataclasses.replace(EXACT, precision="double")
SEED_DOUBLE = dataclasses.replace(SEED_SCHEME, precision="double")
EUDX = as_method(EuDX, EXACT)
FORWARDS = Principal(both_ways=False)
METHODS = {"hamiltonian": DOUBLE, "vanaart2011": SEED_DOUBLE, "eudx": dataclasses.replace(EUDX, precision="double")}
ROD = dataclasses.replace(EXACT, step_mm=0.25, max_length_mm=100)
START, AHEAD = (10.0, 5.0, 8.0), (-0.7, -0.6, 0.2)
TURN = Rotation.from_euler("xyz", [12, -18, 25], degrees=True).as_matrix()
GRIDS = {
    "anisotropic": np.diag([1.3, 0.9, 1.6]),
    "sheared": np.array([[1.2, 0.3, 0.0], [0.0, 1.2, -0.2], [0.1, 0.0, 1.2]]),
    "rotated": TURN @ np.diag([1.2, 1.2, 1.2]),
    "left-handed": np.diag([-1.2, 1.2, 1.2]),
    "everything": TURN @ np.array([[-1.3, 0.2, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.5]]),
}
ALL_METHODS = pytest.mark.parametrize(
    "changes",
    [{}, {"interpolation": "linear"}, {"method": VanAart2011}, {"method": EuDX}],
    ids=["cubic", "linear", "vanaart2011", "eudx"],
)


@functools.cache
def sampled(make, *arguments):
    """One sampled copy of an analytic field for all tests, so that its volumes are prepared once."""
    return make(*arguments).sample()


def changed(settings, method=None, **changes):
    """Settings with changes, perhaps of another method, as far as that has them."""
    return dataclasses.replace(settings if method is None else as_method(method, settings), **changes)


def one_ray(field, start, direction, settings, device="cpu"):
    return shoot(field, start, direction, settings, choose_device(device))


def launched(field, settings, points, axes, device, directions=FORWARDS):
    launch = Launch(np.asarray(points, float), np.asarray(axes, float), directions)
    return trace_problem(RayProblem(field, launch, settings), choose_device(device))


def passing(field, start, direction, target, settings, device="cpu"):
    """Distance (mm) at which a ray passes a point, and its Riemannian length there."""
    path = one_ray(field, start, direction, settings, device)[0].astype(float)
    steps, away = np.diff(path, axis=0), np.asarray(target, float) - path[:-1]
    share = ((away * steps).sum(axis=1) / (steps**2).sum(axis=1)).clip(0, 1)
    distances = np.linalg.norm(away - share[:, None] * steps, axis=1)
    n = int(np.argmin(distances))
    lengths = [0.0, 0.0]
    for m in (n, n + 1):
        if m:
            some = one_ray(field, start, direction, changed(settings, max_steps=m), device)
            lengths[m - n] = float(some.per_fiber["riemannian_length_mm"][0])
    return distances[n], lengths[0] + share[n] * (lengths[1] - lengths[0])


def on_grid(tensor_at, matrix, extent_mm):
    """A field sampled around the world's origin; every side is at least ``extent_mm`` away."""
    shape = tuple(2 * int(np.ceil(extent_mm * np.linalg.norm(row))) + 1 for row in np.linalg.inv(matrix))
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = matrix, -matrix @ (np.array(shape) // 2)
    tensors = DIFFUSIVITY * tensor_at(voxel_centers(affine, shape))
    return TensorField(tensors=tensors, mask=np.ones(shape, bool), affine=affine)


def rod(shape=(40, 12, 12), *, isotropic_from=None, masked_to=None):
    """Fibers along x on 1 mm voxels; perhaps round tensors from some voxel on, perhaps a mask that ends at one."""
    tensors = np.zeros((*shape, 6))
    tensors[..., :3] = 1.7e-3, 0.3e-3, 0.3e-3
    if isotropic_from is not None:
        tensors[isotropic_from:, ..., :3] = 0.7e-3
    mask = np.ones(shape, bool)
    if masked_to is not None:
        mask[masked_to + 1 :] = False
    return TensorField(tensors=np.where(mask[..., None], tensors, 0), mask=mask, affine=np.eye(4))


KINDS = {
    "cubic": {"interpolation": "smoothing"},
    "linear": {"interpolation": "linear"},
    "vanaart2011": {"method": VanAart2011},
    "eudx": {"method": EuDX},
    "eudx of near neighbors": {"method": EuDX, "corner_angle_deg": 60.0, "corner_weight": 0.5},
}
CALLOSUM = (0.0, -5.0, 22.0)
BOTH_KINDS = pytest.mark.parametrize("kind", KINDS)
BOTH_REALS = pytest.mark.parametrize("precision", ["single", "double"])
SEEDS = ball(CALLOSUM, 4.0, 12, seed=5)
FAN = Cone(count=15)
TRACK = Hamiltonian(max_length_mm=40.0)


@functools.cache
def brain():
    """The tensors of a box around the phantom's callosum, its mask not everywhere."""
    whole = fit_tensors(load_brain_phantom(), device="cpu")
    box = (slice(10, 42), slice(20, 52), slice(14, 44))
    affine = whole.affine.copy()
    affine[:3, 3] += affine[:3, :3] @ [s.start for s in box]
    return dataclasses.replace(whole, tensors=whole.tensors[box], mask=whole.mask[box], affine=affine, cache=Cache())


@functools.cache
def waves():
    """T10, smaller."""
    return dataclasses.replace(pull_back(), shape=(32, 32, 32), origin=(-16.0, -16.0, -16.0)).sample()


FIELDS = {"brain": (brain, ball(CALLOSUM, 4.0, 5, seed=2)), "waves": (waves, ball((0.5, 0.2, -0.3), 9.0, 5))}


def fresh(field):
    """The same tensors with nothing prepared from them."""
    return dataclasses.replace(field, cache=Cache())


def problem(field, seeds, settings, directions=None, **more):
    return RayProblem(field, make_launch(field, seeds, directions or Cone(count=8)), settings, **more)


def settings_of(kind, precision="single", **changes):
    """Settings of a kind with changes, as far as it has them."""
    wanted = {"precision": precision, "max_length_mm": 60.0, "step_mm": 0.4, "fa_stop": 0.0} | KINDS[kind] | changes
    return known_of(wanted.pop("method", Hamiltonian), wanted)


def known_of(method, wanted):
    """Settings of a method with those of some values that it has."""
    return method(**{name: value for name, value in wanted.items() if name in method.__dataclass_fields__})


@functools.cache
def tracked_on_the_cpu():
    return track(brain(), SEEDS, FAN, TRACK, device="cpu")
