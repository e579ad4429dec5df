"""Fluence by diffusion theory, without noise: the guide of a denoiser, which smooths the ratio of a fluence to it.

Wherever diffusion holds, the guide is right up to a factor that varies slowly, also inside strong absorbers: the decay
in every medium is that of the transport equation, not of diffusion, and the grid decays as the medium does.

Unscattered light comes from the Monte Carlo engine itself, in the same domain with scattering counted as absorption; so
all kinds of sources, refraction, boundaries and continuous media are those of the simulation. What it would have
scattered is the source of the diffusion equation, whose finite volumes are the voxels.

The asymptotic decay is that of the one-speed transport equation with isotropic scattering (Case, de Hoffmann and
Placzek 1953), boundaries are partial-current ones (Haskell et al. 1994, J. Opt. Soc. Am. A 11, 2727), and those between
media follow Ripoll and Nieto-Vesperinas (1999, J. Opt. Soc. Am. A 16, 1947).
"""

import dataclasses
import functools
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import slabs_of
from napari_gpubio.core.chunks import within_memory
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.core.reading import note
from napari_gpubio.core.steps import Step, drive, driven, with_step
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import check_sources
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.kernels.diffusion.solver import Solver, along
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import AnySource, Pencil, Source
from napari_gpubio.optics.theory import SPEED_OF_LIGHT_MM_PER_NS, diffuse_transmission

Array = npt.NDArray[Any]
_PHOTONS, _PHOTONS_OF_A_PENCIL = 400_000, 64  # of the unscattered light; those of a pencil are all alike
_MIN_ABSORPTION, _MIN_SCATTERING = 1e-6, 1e-3  # 1/mm: diffusion needs some of both
_LEAST = 1e-15  # of the guide's largest value, which is about what the solver resolves
_STEEPEST = 20.0  # decay across a voxel, beyond which it makes no difference
_DECAYS = 2048
# Of a voxel: what the solver takes with all coarser grids; before that the equations, and what they are made of slab by
# slab, of labels, or of coefficients that vary freely.
_BYTES_SOLVED, _BYTES_SET_UP, _BYTES_BY_LABEL, _BYTES_BY_VOXEL = 73, 21, 61, 108


def diffusion_guide(
    domain: Domain, source: AnySource, settings: LightSettings | None = None, *, device: str | Device = "auto"
) -> npt.NDArray[np.float32]:
    """Return the fluence of a simulation as diffusion theory has it, of all times together.

    Parameters
    ----------
    domain, source, settings
        As of `napari_gpubio.light.simulate`.
    device
        See `napari_gpubio.core.device.choose_device`; of several GPUs the first is used.

    Returns
    -------
    array
        Shape (X, Y, Z), per launched photon, 1/mm^2; positive in tissue, 0 outside.

    Raises
    ------
    InvalidInput
        If the source misses the tissue, or scattering depends on direction, which this theory does not know.

    Examples
    --------
    >>> from napari_gpubio import optics
    >>> head = optics.phantom.load_head_phantom()
    >>> guide = diffusion_guide(head, optics.phantom.default_source(head), device="cpu")
    >>> bool((guide[head.labels > 0] > 0).all())
    True
    """
    return drive(with_step(_parts(domain, source, settings, device), Step(0, 1)))


def _parts(
    domain: Domain, source: AnySource, settings: LightSettings | None, device: str | Device
) -> Generator[float, None, npt.NDArray[np.float32]]:
    """Do `diffusion_guide`; on the CPU the share that is done is yielded after every part."""
    if domain.is_anisotropic:
        raise InvalidInput(
            "the guide of a denoiser takes scattering as alike in all directions, and this tissue has scattering "
            "tensors; denoise without it"
        )
    settings, chosen = settings or LightSettings(), choose_device(device)
    needed, sources = guide_memory(domain, settings, device=chosen), check_sources(domain, source)
    if not chosen.is_gpu:
        needed.check("the simulation", "take larger voxels, or close other programs")
        from napari_gpubio.optics.kernels.diffusion.cpu import CpuSolver

        return np.asarray((yield from _guide(np, CpuSolver, domain, sources, settings, chosen)))
    from napari_gpubio.optics.kernels.diffusion.gpu import on_gpu

    only = chosen.first

    def make(xp: Any, solver: Callable[..., Solver]) -> Any:
        return drive(with_step(_guide(xp, solver, domain, sources, settings, only), Step(0, 1)))

    return within_memory(functools.partial(on_gpu, only, make), only, needed.total, "the guide of a denoiser")


def guide_memory(domain: Domain, settings: LightSettings | None = None, *, device: str | Device = "auto") -> Memory:
    """Memory that the guide of a domain takes on a device; parameters as of `diffusion_guide`.

    Examples
    --------
    >>> from napari_gpubio import optics
    >>> head = optics.phantom.load_head_phantom()
    >>> guide_memory(head, device="cpu").results == 4 * head.labels.size
    True
    """
    chosen = choose_device(device)
    voxels, each = domain.labels.size, _BYTES_BY_VOXEL if domain.is_continuous else _BYTES_BY_LABEL
    slab = domain.labels[: next(slabs_of(domain.shape)).stop + 1].size
    scratch = max(_BYTES_SOLVED * voxels, _BYTES_SET_UP * voxels + each * slab)
    equations = Memory(results=4 * voxels, scratch=scratch)
    if not chosen.is_gpu:
        return equations
    setting_up = _without_scattering(domain, (Pencil(),), settings or LightSettings())
    absorbing, direct = drive(with_step(setting_up, Step(0, 1)))
    problem = VoxelProblem(absorbing, Pencil(), direct)
    unscattered = problem.memory(chosen.first)  # of batches that are traced together
    return fuller(equations, dataclasses.replace(unscattered, results=2 * 8 * problem.tally_size))


def with_guide_steps(result: LightResult, *, device: str | Device = "auto") -> Generator[Step, None, LightResult]:
    """Return a result that has its guide: itself if it has one, else a copy for which the guide is solved.

    Layers and files then keep the guide beside the halves, and a denoiser needs nothing else of the run. The steps say
    what is done, if anything is to do.

    Examples
    --------
    >>> from napari_gpubio import light, optics
    >>> head = optics.phantom.load_head_phantom()
    >>> source, settings = optics.phantom.default_source(head), light.LightSettings(photons=100, halves=True)
    >>> result = light.simulate(head, source, settings, device="cpu")
    >>> with_guide(result, device="cpu").guide.shape == head.shape
    True
    """

    def step(share: float) -> Step:
        return Step(int(100 * share), 100, "solving the diffusion equation, which guides the denoiser;")

    if result.guide is not None:
        return result
    yield step(0.0)
    found = yield from with_step(_parts(result.domain, result.source, result.settings, device), step)
    return dataclasses.replace(result, guide=found)


with_guide = driven(with_guide_steps)


def guided_steps(
    steps: Generator[Step, None, LightResult], *, device: str | Device = "auto"
) -> Generator[Step, None, LightResult]:
    """Take the steps of a simulation, and solve the guide of what it gives if there is one.

    There is none if it was stopped, has no halves, or scattering tensors; nor, with a note, if the memory does not
    suffice, lest the simulation be lost.
    """
    result = yield from steps
    if not result.complete or result.half_fluences is None or result.domain.is_anisotropic:
        return result
    try:
        return (yield from with_guide_steps(result, device=device))
    except GpuBioError as error:
        note(f"the result has no guide for a denoiser: {error}")
        return result


def _guide(
    xp: Any,
    solver: Callable[..., Solver],
    domain: Domain,
    sources: tuple[Source, ...],
    settings: LightSettings,
    device: Device,
) -> Generator[float, None, Any]:
    """The guide with the arrays (NumPy or CuPy) and the solver of a backend."""
    unscattered = yield from _traced(xp, domain, sources, settings, device)
    equations = solver(*(yield from _matrix(xp, domain, settings, np.float32)))
    emission = xp.empty(domain.shape)
    for planes in slabs_of(domain.shape):
        grid = _Grid.of(xp, domain, settings, planes)
        emission[planes] = grid.place(grid.scattering) * unscattered[planes] * domain.voxel_volume_mm3
        yield 0.0
    del grid  # of the last planes
    guide = yield from equations.solve_parts(emission)
    del equations, emission
    largest = 0.0
    for planes in slabs_of(domain.shape):
        grid = _Grid.of(xp, domain, settings, planes)
        guide[planes] = guide[planes] * grid.place(grid.n**2) + unscattered[planes]
        largest = max(largest, float(guide[planes].max()))
        yield 1.0
    for planes in slabs_of(domain.shape):
        is_tissue = xp.asarray(domain.ranks[planes]) > 0
        unscattered[planes] = xp.where(is_tissue, xp.maximum(guide[planes], _LEAST * largest), 0.0)
        yield 1.0
    return unscattered


def _traced(
    xp: Any, domain: Domain, sources: tuple[Source, ...], settings: LightSettings, device: Device
) -> Generator[float, None, Any]:
    """Fluence of unscattered light per launched photon, as an array of the device that it stays on."""
    absorbing, direct = yield from _without_scattering(domain, sources, settings)
    problem = VoxelProblem(absorbing, sources[0], direct, others=sources[1:])
    with Runs(problem, device) as runs:
        (run,) = runs.each
        yield 0.0
        for _ in runs.pieces(problem.pieces(run.span)):
            yield 0.0
        fluence = xp.empty(problem.size, np.float32)
        for planes in slabs_of(problem.size):
            fluence[planes] = run.paths(planes)[0] * problem.fluence_of_quantum(problem.settings.photons)
            yield 0.0
    return fluence


def _without_scattering(
    domain: Domain, sources: tuple[Source, ...], settings: LightSettings
) -> Generator[float, None, tuple[Domain, LightSettings]]:
    """A simulation in which what would be scattered, as far as that turns it, is absorbed."""
    media = tuple(
        dataclasses.replace(medium, mua_per_mm=medium.mua_per_mm + medium.musp_per_mm, mus_per_mm=0.0)
        for medium in (domain.medium(medium.label) for medium in domain.media)
    )
    lost = None
    if domain.is_continuous:
        lost = np.empty(domain.shape, np.float32)
        for planes in slabs_of(domain.shape):
            lost[planes] = sum(_coefficients(np, domain, planes))
            yield 0.0
    absorbing = domain.with_optics(media, mua_per_mm=lost)
    longest = float(np.linalg.norm(domain.voxel_sizes_mm * domain.shape))
    highest = max(medium.n for medium in domain.media) if domain.n is None else float(domain.n.max())
    slowest = highest / SPEED_OF_LIGHT_MM_PER_NS
    are_alike = len(sources) == 1 and isinstance(sources[0], Pencil) and sources[0].launch_angles_deg is None
    return (
        absorbing,
        LightSettings(
            photons=_PHOTONS_OF_A_PENCIL if are_alike else _PHOTONS,
            batches=2,  # as few as there can be, since there is no need of errors
            seed=settings.seed,
            refraction=settings.refraction,
            specular=settings.specular,
            faces=settings.faces,
            time_gates_ns=(0.0, 1.1 * longest * slowest),
        ),
    )


class _Grid(NamedTuple):
    """Optical properties by rank of the label, or by voxel where they are given so; `place` puts them in the grid."""

    ranks: Any  # shape (x, Y, Z), of some planes
    n: Any
    absorption: Any
    scattering: Any  # reduced
    place: Callable[[Any], Any]

    @classmethod
    def of(cls, xp: Any, domain: Domain, settings: LightSettings, planes: slice) -> "_Grid":
        """Planes of the grid of a domain as arrays of a device; rank 0 is the outside."""
        ranks = xp.asarray(domain.ranks[planes])
        media = [domain.medium(label) for label in domain.labels_present]
        n = np.array([domain.outside_n, *(medium.n for medium in media)])
        n = xp.asarray(n if settings.refraction else np.ones_like(n))
        absorption, scattering = _coefficients(xp, domain, planes)
        if domain.is_continuous:
            own = n[ranks]
            if domain.n is not None and settings.refraction:
                own = xp.where(ranks > 0, xp.asarray(domain.n[planes], np.float64), own)
            return cls(ranks, own, absorption, scattering, lambda values: values)
        return cls(ranks, n, absorption, scattering, lambda values: values[ranks])

    def resistance(self, xp: Any, edge_mm: float) -> Any:
        """Half of that of a voxel along an axis, for fluence / n^2, by rank or by voxel.

        The diffusion coefficient is the one with which the grid decays as fast as light does in the medium.
        """
        decay = _asymptotic_decay(xp, self.absorption, self.scattering)
        half_sine = xp.sinh(xp.minimum(decay * edge_mm, _STEEPEST) / 2)
        diffusion = self.absorption * (edge_mm / 2 / half_sine) ** 2
        return edge_mm / 2 / (diffusion * self.n**2)


def _coefficients(xp: Any, domain: Domain, planes: slice) -> tuple[Any, Any]:
    """mu_a and mu_s', 1/mm, by rank of the label, or by voxel of planes in continuous media; never quite 0."""
    media = [domain.medium(label) for label in domain.labels_present]
    absorption, scattering, turned = (
        xp.asarray(np.array([1.0, *values]))
        for values in (
            [medium.mua_per_mm for medium in media],
            [medium.mus_per_mm for medium in media],
            [1.0 - medium.g for medium in media],
        )
    )
    if domain.is_continuous:
        ranks = xp.asarray(domain.ranks[planes])
        volumes = domain.mua_per_mm, domain.mus_per_mm, domain.g
        own = [None if values is None else xp.asarray(values[planes], np.float64) for values in volumes]
        absorption = absorption[ranks] if own[0] is None else own[0]
        scattering = scattering[ranks] if own[1] is None else own[1]
        turned = turned[ranks] if own[2] is None else 1.0 - own[2]
    scattering = scattering * turned
    return xp.maximum(absorption, _MIN_ABSORPTION), xp.maximum(scattering, _MIN_SCATTERING)


def _asymptotic_decay(xp: Any, absorption: Any, scattering: Any) -> Any:
    """kappa of 1 = mu_s' / (2 kappa) ln((mu_t + kappa) / (mu_t - kappa)) with mu_t = mu_a + mu_s', 1/mm."""
    total = absorption + scattering
    roots, shares = (xp.asarray(column) for column in _decays())
    return total * xp.interp(xp.sqrt(absorption / total), roots, shares)


@functools.cache
def _decays() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Roots of 1 - albedo from 0 to 1, and kappa / mu_t at each, which is nearly proportional to them at first."""
    roots = np.linspace(0.0, 1.0, _DECAYS)
    albedo = 1.0 - roots**2
    low, high = np.zeros(_DECAYS), np.full(_DECAYS, 1.0 - 1e-14)
    for _ in range(60):
        middle = (low + high) / 2
        is_less = albedo * np.arctanh(middle) < middle
        low, high = np.where(is_less, middle, low), np.where(is_less, high, middle)
    return roots, np.where(roots > 0, high, 0.0)


def conductances(domain: Domain, settings: LightSettings) -> tuple[Array, tuple[Array, Array, Array]]:
    """What lets the light of a domain diffuse, as the guide has it.

    Returns
    -------
    array
        Square of the refractive index of each voxel, shape (X, Y, Z); 1 without refraction.
    tuple
        Conductances of the faces to the next voxel along i, j and k, mm, shape (X, Y, Z) each: what crosses a face per
        launched photon is the conductance times the step of the fluence over the square of the index. 0 where a voxel
        meets the outside, and for the last one.
    """
    _, found = drive(with_step(_matrix(np, domain, settings, np.float64), Step(0, 1)))
    grid = _Grid.of(np, domain, settings, slice(None))
    return np.asarray(grid.place(grid.n**2)), found


def _matrix(
    xp: Any, domain: Domain, settings: LightSettings, kind: type[np.floating[Any]]
) -> Generator[float, None, tuple[Any, tuple[Any, Any, Any]]]:
    """Sinks and conductances of the diffusion equation for fluence / n^2, times the volume of a voxel; of a kind."""
    steps = yield from _IndexSteps.of(xp, domain, settings)
    sink, x, y, z = (xp.empty(domain.shape, kind) for _ in range(4))
    for planes in slabs_of(domain.shape):
        around = slice(max(planes.start - 1, 0), planes.stop + 1)  # with those that light comes from and goes to
        own = slice(planes.start - around.start, planes.stop - around.start)
        grid = _Grid.of(xp, domain, settings, around)
        kinds = steps.kinds(xp, domain, around)
        found = yield from _matrix_of(xp, grid, kinds, steps, domain, settings)
        for whole, part in zip((sink, x, y, z), found, strict=True):
            whole[planes] = part[own]
    return sink, (x, y, z)


def _matrix_of(
    xp: Any, grid: _Grid, kinds: Any, steps: "_IndexSteps", domain: Domain, settings: LightSettings
) -> Generator[float, None, tuple[Any, Any, Any, Any]]:
    """Sinks and conductances of some planes, as if there were no others."""
    inside = grid.ranks > 0
    area_mm2 = domain.voxel_volume_mm3 / domain.voxel_sizes_mm
    sink = xp.where(inside, grid.place(grid.absorption * grid.n**2), 0.0) * domain.voxel_volume_mm3
    conductances = []
    for axis in range(3):
        yield 0.0
        half, area = grid.place(grid.resistance(xp, domain.voxel_sizes_mm[axis])), area_mm2[axis]
        lower, upper = along(axis, slice(-1)), along(axis, slice(1, None))
        between = half[lower] + half[upper] + steps.between[kinds[lower], kinds[upper]]
        yield 0.0
        conductance = xp.zeros(half.shape)
        conductance[lower] = xp.where(inside[lower] & inside[upper], area / between, 0.0)
        conductances.append(conductance)
        yield 0.0
        to_outside = area / (half + steps.surface[kinds])
        sink[lower] += xp.where(inside[lower] & ~inside[upper], to_outside[lower], 0.0)
        sink[upper] += xp.where(inside[upper] & ~inside[lower], to_outside[upper], 0.0)
        for place, rule in zip((slice(1), slice(-1, None)), settings.faces[2 * axis : 2 * axis + 2], strict=True):
            face = along(axis, place)
            if rule not in ("mirror", "cyclic"):  # through which as much comes back
                surface = steps.open_surface if rule == "escape" else steps.surface
                sink[face] += xp.where(inside[face], area / (half[face] + surface[kinds[face]]), 0.0)
    x, y, z = conductances
    return sink, x, y, z


_MAX_LEVELS = 64  # of the refractive index


class _IndexSteps(NamedTuple):
    """What steps of the refractive index add to resistances, mm."""

    levels: Any  # of the index where it is given by voxel, or None
    kind_of: Any  # by rank, or by number of the level from 1; 0 is outside
    between: Any  # of two kinds, shape (K, K)
    surface: Any  # of a voxel's face to the outside, by kind
    open_surface: Any  # the same where nothing is reflected

    @classmethod
    def of(cls, xp: Any, domain: Domain, settings: LightSettings) -> Generator[float, None, "_IndexSteps"]:
        """Those of a domain."""
        levels, present = None, [domain.outside_n, *(domain.medium(label).n for label in domain.labels_present)]
        if not settings.refraction:
            present = [1.0] * len(present)
        elif domain.n is not None:
            levels = yield from _levels(domain.labels, domain.n)
            present = [domain.outside_n, *levels]
        different, kind_of_rank = np.unique(present, return_inverse=True)
        crossing = np.empty((len(different), len(different)))
        for row, a in zip(crossing, different, strict=True):
            row[:] = [diffuse_transmission(a, b) for b in different]
            yield 0.0
        between = 4 * (1 - (crossing + crossing.T) / 2) / (crossing * different[:, None] ** 2)
        out = crossing[:, kind_of_rank[0]]
        surface, open_surface = (2 * (2 - share) / (share * different**2) for share in (out, np.ones_like(out)))
        return cls(levels, *(xp.asarray(table) for table in (kind_of_rank, between, surface, open_surface)))

    def kinds(self, xp: Any, domain: Domain, planes: slice) -> Any:
        """Number of the index of each voxel of some planes."""
        if self.levels is None or domain.n is None:
            return self.kind_of[xp.asarray(domain.ranks[planes])]
        middles = (self.levels[1:] + self.levels[:-1]) / 2
        level = np.where(domain.labels[planes] > 0, 1 + np.searchsorted(middles, domain.n[planes]), 0)
        return self.kind_of[xp.asarray(level)]


def _levels(labels: Array, n: Array) -> Generator[float, None, npt.NDArray[np.float64]]:
    """Levels of the index in tissue, a few where it varies freely."""
    found, are_many = np.zeros(0), False
    for planes in slabs_of(n.shape):
        found = np.union1d(found, n[planes][labels[planes] > 0])
        if len(found) > _MAX_LEVELS:
            found, are_many = found[[0, -1]], True
        yield 0.0
    return np.linspace(found[0], found[-1], _MAX_LEVELS) if are_many else found
