"""How much light of one optode another detects, from the fluence of both around one of them.

In diffusion the balance of every voxel is ``A x = q`` with a symmetric matrix A, the sources q and x, the fluence over
the square of the refractive index (see `napari_gpubio.light.guide`). With w = 1 around the optode d, 0 around the
optode s, and W the diagonal matrix of w, ::

    N = x_s . q_d = x_s . (W A - A W) x_d = sum over faces ij of c_ij (w_i - w_j) (x_s,j x_d,i - x_s,i x_d,j)

because q_d lies where w is 1, and A x_s = q_s where it is 0. Only the faces across which w falls count: a shell around
an optode through which all light between both must pass. N is what the detector d detects of the light of s, in units
of the detector's own source, and by symmetry as much the other way round; every voxel of the shell takes part in it, so
it is known far better than the fluence of the one voxel at the detector. Nothing of the sources enters but their
fluence: no depth at which they become diffuse, no specular loss. Absorption, time and boundary conditions drop out.

The shell must lie where light is diffuse: some transport mean free paths from the optode, and before the first clear
tissue (CSF). At the surface the fluence of real light goes on as if it vanished on the extrapolated boundary outside;
what a shell carries in that layer is added to its faces at the surface, which otherwise would lack 2 to 5 % of N.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import position_text
from napari_gpubio.core.space import apply_affine, same_grid
from napari_gpubio.light.guide import conductances
from napari_gpubio.light.profile import entry_point
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.kernels.diffusion.solver import along
from napari_gpubio.optics.model import OUTSIDE, VOXEL_LIMITS, Domain
from napari_gpubio.optics.scattering_tensors import FREE, NOT_RECIPROCAL
from napari_gpubio.optics.sources import AllRound, Round, Source
from napari_gpubio.optics.theory import extrapolated_boundary_mm, transport_mean_free_path_mm

Array = npt.NDArray[Any]
_VOXEL_PROPERTIES = (*VOXEL_LIMITS, "mus_tensor_per_mm")
Floats = npt.NDArray[np.float64]
INNER, OUTERS = 2.5, (5.0, 10.0)  # radii of shells, transport mean free paths
MIN_VOXELS = 2.0  # of the inner radius, and between both: differences of means of voxels stand for gradients
CLEAR_PER_MM = 0.1  # reduced scattering below which light is not diffuse over the width of a shell
_AXES = range(3)
_INWARD_MM = 1e-6  # so far inside, a point of the surface is surely in tissue


class Shell(NamedTuple):
    """Faces of a shell around an optode, and the voxels at them.

    Parameters
    ----------
    voxels
        Flat indices of the voxels in the domain, shape (M,), in order.
    lower, upper
        Places in ``voxels`` of the two voxels of each face, shape (F,).
    weights
        c_ij (w_i - w_j) over the squares of both refractive indices, mm, shape (F,).
    outer_mm
        Radius within which the shell lies.
    """

    voxels: npt.NDArray[np.int64]
    lower: npt.NDArray[np.int64]
    upper: npt.NDArray[np.int64]
    weights: Floats
    outer_mm: float

    def detected(self, own: Array) -> Array:
        """Return what the fluence of any other optode at ``voxels`` is multiplied by and added up, to be N.

        Parameters
        ----------
        own
            Fluence of the shell's own optode at ``voxels``, shape (M, ...).
        """
        found = np.zeros(own.shape, np.result_type(own, np.float64))
        weights = self.weights.reshape(-1, *[1] * (own.ndim - 1))
        np.add.at(found, self.upper, weights * own[self.lower])
        np.add.at(found, self.lower, -weights * own[self.upper])
        return found


def shells_around(
    domain: Domain, settings: LightSettings, place_mm: npt.ArrayLike, core_mm: float = 0.0
) -> tuple[Shell, ...]:
    """Shells around a place, from the narrowest to the widest, as far as light is diffuse there.

    Parameters
    ----------
    domain, settings
        The tissue.
    place_mm
        The optode: where it touches the tissue, or where it is inside, world.
    core_mm
        Radius of its source.

    Returns
    -------
    tuple
        One at least. Where clear tissue comes closer than the narrowest shell reaches, it lies there nevertheless.
    """
    free_path = _transport_path_mm(domain, place_mm)
    least = MIN_VOXELS * float(domain.voxel_sizes_mm.max())
    inner = core_mm + max(INNER * free_path, least)
    outers = sorted({max(core_mm + reach * free_path, inner + least) for reach in OUTERS})
    part, first, distance, tissue = _around(domain, place_mm, outers[-1])
    clear = _distance_to_clear_mm(part, distance) - float(domain.voxel_sizes_mm.max())
    chosen = [outer for outer in outers if outer <= clear]
    if len(chosen) < len(outers) and clear > (chosen[-1] if chosen else inner + least):
        chosen.append(clear)  # as far as it goes
    squares, inner_faces = conductances(part, settings)
    medium = part.medium_at(place_mm)
    layer = extrapolated_boundary_mm(medium, part.outside_n if settings.refraction else medium.n)
    faces = tuple(face * (1.0 + _beyond(part, tissue, layer, axis)) for axis, face in enumerate(inner_faces))
    places = np.arange(part.labels.size).reshape(part.shape)
    whole = np.ravel_multi_index(tuple(np.indices(part.shape).reshape(3, -1) + first[:, None]), domain.shape)
    return tuple(_shell(squares, faces, places, whole, distance, inner, outer) for outer in chosen or outers[:1])


def widest_between(shells: tuple[Shell, ...], apart_mm: float) -> Shell:
    """Return the widest shell that lies within half of the way to another optode; else the narrowest."""
    fitting = [shell for shell in shells if shell.outer_mm <= apart_mm / 2]
    return fitting[-1] if fitting else shells[0]


def _shell(
    squares: Array,
    faces: Sequence[Array],
    places: Array,
    whole: Array,
    distance: Array,
    inner: float,
    outer: float,
) -> Shell:  # fmt: skip
    """The faces across which a smooth step from ``inner`` to ``outer`` falls."""
    depth = np.clip((distance - inner) / (outer - inner), 0.0, 1.0)
    inside = 1.0 - depth**2 * (3.0 - 2.0 * depth)
    lower, upper, weights = [], [], []
    for axis, conductance in enumerate(faces):
        low, high = along(axis, slice(-1)), along(axis, slice(1, None))
        weight = conductance[low] * (inside[low] - inside[high]) / (squares[low] * squares[high])
        counts = weight != 0
        lower.append(places[low][counts])
        upper.append(places[high][counts])
        weights.append(weight[counts])
    ends = np.stack([np.concatenate(lower), np.concatenate(upper)])
    voxels, position = np.unique(ends, return_inverse=True)
    position = position.reshape(ends.shape)
    return Shell(whole[voxels], position[0], position[1], np.concatenate(weights).astype(np.float64), outer)


def _beyond(part: Domain, tissue: Array, layer_mm: float, along: int) -> Array:
    """What the layer outside of the surface carries, over what a face along an axis carries; shape (X, Y, Z).

    Fluence falls linearly to zero across the layer, so that the product of two falls as the square. ``tissue`` has a
    border of one voxel.
    """
    found = np.zeros(part.shape)
    for axis in _AXES:
        if axis == along:
            continue
        edge = float(part.voxel_sizes_mm[axis])
        share = layer_mm / 3.0 / edge * (layer_mm / (layer_mm + edge / 2)) ** 2
        for shift in (1, -1):
            exposed = tissue & ~np.roll(tissue, shift, axis)
            both = exposed & np.roll(exposed, -1, along)
            found += share * both[1:-1, 1:-1, 1:-1]
    return found


def _around(domain: Domain, place_mm: npt.ArrayLike, reach_mm: float) -> tuple[Domain, Array, Array, Array]:
    """The box of a domain around a place, its first voxel, and the distance of its voxels to the place, mm.

    The last is where tissue is, with a border of one voxel more.
    """
    center = apply_affine(np.linalg.inv(domain.affine), place_mm)
    reach = reach_mm / domain.voxel_sizes_mm + 1.0
    first = np.clip(np.floor(center - reach), 0, np.array(domain.shape) - 1).astype(int)
    last = np.clip(np.ceil(center + reach), 0, np.array(domain.shape) - 1).astype(int)
    box = tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))
    affine = domain.affine.copy()
    affine[:3, 3] = apply_affine(domain.affine, first)
    given = {name: getattr(domain, name) for name in _VOXEL_PROPERTIES}
    cut: dict[str, Any] = {name: None if values is None else values[box] for name, values in given.items()}
    part = dataclasses.replace(domain, labels=domain.labels[box], affine=affine, path=None, notes=(), **cut)
    voxels = np.stack(np.meshgrid(*map(np.arange, part.shape), indexing="ij"), -1)
    distance = np.linalg.norm((voxels + first - center) * domain.voxel_sizes_mm, axis=-1)
    outer = tuple(slice(max(a - 1, 0), b + 2) for a, b in zip(first, last, strict=True))
    missing = [(int(a == 0), int(b == n - 1)) for a, b, n in zip(first, last, domain.shape, strict=True)]
    return part, first, distance, np.pad(domain.labels[outer] != OUTSIDE, missing)


def _distance_to_clear_mm(part: Domain, distance: Array) -> float:
    """Distance from the place to the nearest voxel of clear tissue; infinite where there is none."""
    reduced = part.property_volume("mus_per_mm") * (1.0 - part.property_volume("g"))
    clear = (reduced < CLEAR_PER_MM) & (part.labels != OUTSIDE)
    return float(distance[clear].min()) if clear.any() else np.inf


def _transport_path_mm(domain: Domain, place_mm: npt.ArrayLike) -> float:
    """Transport mean free path where an optode is, mm."""
    medium = domain.medium_at(place_mm)
    if medium.musp_per_mm < CLEAR_PER_MM:
        raise InvalidInput(
            f"the optode at {position_text(np.asarray(place_mm))} is at label {medium.label}, whose reduced scattering "
            f"is {medium.musp_per_mm:g} 1/mm; an adjoint Jacobian needs tissue that scatters there: move the optode"
        )
    return transport_mean_free_path_mm(medium)


# -- two runs ---------------------------------------------------------------------------------------------------------


def optode_place(run: LightResult) -> Floats:
    """Where a run's source enters the tissue, or is inside of it, world mm.

    Raises
    ------
    InvalidInput
        If its axis meets no tissue.
    """
    source = run.single_source("an adjoint sensitivity")
    if isinstance(source, AllRound):
        return np.asarray(source.position_mm, np.float64)
    return np.asarray(entry_point(run) + _INWARD_MM * source.frame()[2])


def shells_between(source_run: LightResult, detector_run: LightResult) -> tuple[Shell, Shell]:
    """Shells around both optodes, each as wide as goes between them."""
    runs = source_run, detector_run
    places = [optode_place(run) for run in runs]
    apart = float(np.linalg.norm(places[0] - places[1]))
    first, second = (
        widest_between(
            shells_around(run.domain, run.settings, place, core_of(run.single_source("an adjoint sensitivity"))), apart
        )
        for run, place in zip(runs, places, strict=True)
    )
    return first, second


def core_of(source: Source) -> float:
    """Radius of a source, mm; 0 of a point."""
    return source.outer_radius_mm if isinstance(source, Round) else 0.0


def detected(
    source: Array, detector: Array, shells: tuple[Shell, Shell], product: Callable[[Array, Array], Array]
) -> Array:
    """N, the mean of what the shells around source and detector give.

    Parameters
    ----------
    source, detector
        Fluence of both runs, shape (X, Y, Z, ...).
    shells
        Around source and detector.
    product
        Bilinear: what the light of both gives together, from shapes (M, ...) to (M, ...).
    """
    values = []
    for shell, own, other in ((shells[0], source, detector), (shells[1], detector, source)):
        near, far = (volume.reshape(-1, *volume.shape[3:])[shell.voxels] for volume in (own, other))
        values.append(product(shell.detected(near), far).sum(axis=0))
    return np.asarray((values[0] + values[1]) / 2)


def shell_error(source_run: LightResult, detector_run: LightResult, shells: tuple[Shell, Shell]) -> float:
    """Relative standard error of N by those of voxels: an upper bound, as if all of a shell varied together."""
    found = []
    for shell in shells:
        weights = np.zeros(len(shell.voxels))
        np.add.at(weights, shell.lower, np.abs(shell.weights))
        np.add.at(weights, shell.upper, np.abs(shell.weights))
        squares = np.zeros(len(weights))
        for run in (source_run, detector_run):
            weights *= run.fluence.ravel()[shell.voxels]
            squares += np.square(run.relative_error.ravel()[shell.voxels], dtype=np.float64)
        lit = weights > 0
        mean = (weights[lit] * squares[lit]).sum() / weights[lit].sum() if lit.any() else np.inf
        found.append(float(np.sqrt(mean)))
    return float(np.mean(found))


def check_same(a: Domain, b: Domain) -> None:
    """Raise InvalidInput if the runs of source and detector are in different tissue."""
    if not same_grid(a.shape, a.affine, b.shape, b.affine):
        raise InvalidInput(
            f"the runs of source and detector have grids of {a.shape} and {b.shape} voxels or lie elsewhere; simulate "
            "both in the same volume"
        )
    if not np.array_equal(a.labels, b.labels):
        raise InvalidInput("the runs of source and detector have different labels; simulate both in the same volume")
    same = all(_equal(getattr(a, name), getattr(b, name)) for name in _VOXEL_PROPERTIES)
    if _optics(a) != _optics(b) or not (same and _equal(_cosines(a), _cosines(b))):
        raise InvalidInput(
            "the runs of source and detector have different optical properties; simulate one of them again"
        )
    if a.is_anisotropic and a.scattering_model == FREE:
        raise InvalidInput(f"{NOT_RECIPROCAL}, which adjoint sensitivities need; simulate both with model 'product'")


def _optics(domain: Domain) -> tuple[Any, ...]:
    """What makes the light of two domains differ, apart from labels and coefficients voxel by voxel."""
    media = (domain.medium(label) for label in domain.labels_present)
    model = domain.scattering_model if domain.is_anisotropic else ""
    return domain.outside_n, model, *((m.label, m.mua_per_mm, m.mus_per_mm, m.g, m.n) for m in media)


def _cosines(domain: Domain) -> Array | None:
    return None if domain.phase_function is None else domain.phase_function.cosines


def _equal(a: Array | None, b: Array | None) -> bool:
    return (a is None) == (b is None) and (a is None or np.array_equal(a, np.asarray(b)))
