"""Photons through a label volume: from a domain, a source and settings to fluence with its standard error."""

import dataclasses
import functools
import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.numbers import position_text, short_number
from napari_gpubio.core.steps import Step, driven, with_step
from napari_gpubio.light.kernels.voxels.memory import memory_of
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import VoxelTally, assemble_parts
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.batches import photon_steps, resumed
from napari_gpubio.optics.detectors import AnyDetector, Detector
from napari_gpubio.optics.model import OUTSIDE, Domain
from napari_gpubio.optics.sources import AllRound, EmittingVolume, Pencil, Source, all_sources
from napari_gpubio.optics.surface import first_tissue, label_at, nearest_surface, source_problem


def simulate_steps(
    domain: Domain,
    source: Source | Sequence[Source],
    settings: LightSettings | None = None,
    *,
    detectors: Sequence[AnyDetector] = (),
    device: str | Device = "auto",
    resume: LightResult | None = None,
    client: Any = None,
    stop: threading.Event | None = None,
) -> Generator[Step, None, LightResult]:
    """Trace photons through a label volume, step by step; now and then a step's preview is the result so far.

    Parameters
    ----------
    domain
        Labels with optical properties.
    source
        The light source, or several: each photon then starts at one of them, drawn by their weights, and all results
        are per launched photon of all of them. `simulate_each` gives a result for each.
    settings
        Photons, boundaries, time gates and tallies; see `LightSettings`.
    detectors
        Where escaping photons are detected.
    device
        See `napari_gpubio.core.device.choose_device`; ``"cuda:all"`` shares the photons among all GPUs.
    resume
        A result (stopped, or complete with fewer photons) of the same domain, source, detectors and settings: only the
        photons that it lacks are traced.
    client
        A ``dask.distributed.Client``: the batches are shared among its workers, each of which uses ``device``.
    stop
        Set it to stop early; the result then holds what was done, with its own error, and ``complete`` is False.

    Returns
    -------
    LightResult
        Photon i depends on the seed and i only, and tallies are integers, so the result does not depend on chunks,
        threads, GPUs, workers or interruptions.

    Raises
    ------
    InvalidInput
        If the source misses the tissue, a detector is not at the surface, ``resume`` belongs to another simulation, or
        there is too little memory.

    Examples
    --------
    >>> from napari_gpubio import light, optics
    >>> head = optics.phantom.load_head_phantom()
    >>> source = optics.phantom.default_source(head)
    >>> result = light.simulate(head, source, light.LightSettings(photons=1000), device="cpu")
    >>> result.fluence.shape == head.shape
    True
    """
    settings = settings or LightSettings()
    sources = check_sources(domain, source)
    check_detectors(domain, detectors)
    problem = VoxelProblem(domain, sources[0], settings, tuple(detectors), others=sources[1:])
    problem = resumed(problem, resume, VoxelTally)
    if client is None:
        chosen = choose_device(device)
        advice = "take fewer time gates, larger voxels, or close other programs"
        problem.memory(CPU).check("the simulation", advice)  # of a GPU's run, most comes to the host in the end
        needed = f"{problem.memory(chosen).megabytes:.0f} MB on {chosen.describe()}"
        yield Step(0 if resume is None else resume.launched, settings.photons, f"photons ({needed})")
    nothing, how = VoxelTally.none(problem), described(problem)
    steps = photon_steps(problem, nothing, assemble_parts, how, device=device, resume=resume, client=client, stop=stop)
    return (yield from steps)


simulate = driven(simulate_steps)


def simulate_each_steps(
    domain: Domain,
    sources: Sequence[Source],
    settings: LightSettings | None = None,
    *,
    detectors: Sequence[Detector] = (),
    device: str | Device = "auto",
    resume: Sequence[LightResult | None] = (),
    client: Any = None,
    stop: threading.Event | None = None,
) -> Generator[Step, None, tuple[LightResult, ...]]:
    """Simulate each of some sources alone, step by step; a preview has None for each source that is not begun.

    Parameters
    ----------
    domain, settings, detectors, device, client, stop
        As of `simulate_steps`; every source has as many photons as the settings say.
    sources
        The sources; their weights do not matter.
    resume
        An earlier result of each source, or None: only the photons that they lack are traced.

    Returns
    -------
    tuple of LightResult
        One for each source, per photon launched by it. Source i has the seed of the settings plus i, so that errors of
        the results are independent; `simulate` with that seed gives the same bits.

    Raises
    ------
    InvalidInput
        As of `simulate_steps`, before any photon is traced where it is about a source.

    Examples
    --------
    >>> from napari_gpubio import light, optics
    >>> head = optics.phantom.load_head_phantom()
    >>> source = optics.phantom.default_source(head)
    >>> both = light.simulate_each(head, [source, source], light.LightSettings(photons=1000), device="cpu")
    >>> [result.settings.seed for result in both]
    [1, 2]
    """
    settings, sources = settings or LightSettings(), check_sources(domain, sources)
    results: list[LightResult | None] = [*resume] or [None] * len(sources)
    owns = [dataclasses.replace(settings, seed=(settings.seed + n) % 2**64) for n in range(len(sources))]
    for one, own, earlier in zip(sources, owns, results, strict=True):  # before photons of others are traced
        resumed(VoxelProblem(domain, one, own, tuple(detectors)), earlier, VoxelTally)
    for number, (one, own) in enumerate(zip(sources, owns, strict=True)):
        how: dict[str, Any] = {"detectors": detectors, "device": device, "resume": results[number]}
        steps = simulate_steps(domain, one, own, **how, client=client, stop=stop)
        results[number] = yield from _among(steps, number, results, settings.photons)
    return tuple(result for result in results if result is not None)


simulate_each = driven(simulate_each_steps)


def _among(
    steps: Generator[Step, None, LightResult], number: int, results: Sequence[LightResult | None], photons: int
) -> Generator[Step, None, LightResult]:
    """The steps of one of several simulations, counted from the beginning of the first; previews have all results."""
    count = len(results)

    def preview(step: Step) -> Generator[Step, None, tuple[LightResult | None, ...]]:
        return (*results[:number], (yield from step.preview_steps()), *results[number + 1 :])

    def counted(step: Step) -> Step:
        make = None if step.make_preview is None else functools.partial(preview, step)
        message = f"{step.message}, source {number + 1} of {count}"
        return Step(number * photons + step.done, count * photons, message, make)

    return with_step(steps, counted)


def needed_memory(
    domain: Domain, settings: LightSettings, device: str | Device = "auto", *, previews: bool = False
) -> Memory:
    """Memory that a simulation takes on each device that works on it, part by part.

    Parameters
    ----------
    domain, settings, device
        See `simulate`.
    previews
        Whether partial results are shown, as in napari: each is one more set of tallies and volumes.

    Returns
    -------
    Memory
        Besides the domain and lists of detected photons. Most where light comes to all of the volume: the memory of
        tallies that it does not come near is never used. Of a GPU, what one with memory enough uses; one that has less
        traces fewer batches together.

    Examples
    --------
    >>> from napari_gpubio import light, optics
    >>> head = optics.phantom.load_head_phantom()
    >>> memory = light.needed_memory(head, light.LightSettings(), "cpu")
    >>> memory.tallies > 32 * head.labels.size  # of a batch, of all of them, and of their squares
    True
    """
    return memory_of(VoxelProblem(domain, Pencil(), settings), choose_device(device), previews=previews)


def needed_memory_mb(domain: Domain, settings: LightSettings, device: str | Device = "auto") -> float:
    """Memory (MiB) that a simulation takes on each device that works on it; see `needed_memory`."""
    return needed_memory(domain, settings, device).megabytes


def check_sources(domain: Domain, source: Source | Sequence[Source]) -> tuple[Source, ...]:
    """Return one or several sources as a tuple, or raise InvalidInput if one of them cannot light the tissue."""
    sources = all_sources(source)
    for number, one in enumerate(sources, 1):
        try:
            check_source(domain, one)
        except InvalidInput as error:
            if len(sources) == 1:
                raise
            raise InvalidInput(f"source {number} of {len(sources)}: {error}") from error
    return sources


def check_source(domain: Domain, source: Source) -> None:
    """Raise InvalidInput if a source cannot light the tissue."""
    position = np.asarray(source.position_mm)
    shown = position_text(position)
    if isinstance(source, EmittingVolume):
        if problem := source_problem(domain.labels, domain.affine, source):
            raise InvalidInput(f"{problem} It is at {shown}; move it, or check its affine.")
    elif label_at(domain.labels, domain.affine, position) == OUTSIDE:
        if isinstance(source, AllRound):
            return  # some of its light meets the tissue; what misses it is in the energy balance
        if first_tissue(domain.labels, domain.affine, position, source.direction) is None:
            raise InvalidInput(f"{source_problem(domain.labels, domain.affine, source)} It is at {shown}.")
    elif not isinstance(source, AllRound):
        ahead = source.frame()[2] * domain.voxel_sizes_mm.min() / 2
        if label_at(domain.labels, domain.affine, position + ahead) == OUTSIDE:
            raise InvalidInput(
                f"the source at {shown} points out of the tissue: less than half a voxel of it lies ahead; reverse "
                "its direction"
            )


def check_detectors(domain: Domain, detectors: Sequence[AnyDetector]) -> None:
    """Raise InvalidInput if a detector is nowhere near the surface, where it would detect nothing."""
    for number, detector in enumerate(detectors, 1):
        if not isinstance(detector, Detector):
            continue
        nearest = nearest_surface(domain.labels, domain.affine, detector.position_mm)
        distance = float(np.linalg.norm(nearest - detector.position_mm))
        if distance > 1.2 * detector.radius_mm:
            raise InvalidInput(
                f"detector {detector.name or number} is {short_number(distance, 3)} mm from the nearest surface and "
                f"has a radius of {detector.radius_mm:g} mm, so it would detect nothing; move it to the surface"
            )


def described(problem: VoxelProblem) -> dict[str, Any]:
    """What a run was, as JSON can hold it."""
    sources = [source.described() for source in all_sources(problem.sources)]
    return {
        "source": sources if problem.others else sources[0],
        "detectors": [dataclasses.asdict(detector) for detector in problem.detectors],
        "media": [dataclasses.asdict(medium) for medium in problem.domain.media],
        "outside_n": problem.domain.outside_n,
        **({"scattering_model": problem.domain.scattering_model} if problem.domain.is_anisotropic else {}),
    }
