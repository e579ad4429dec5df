"""Light transport on any device: a domain, a source and settings in, fluence with its error out."""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np

from napari_gpubio import __version__
from napari_gpubio.core.chunks import advance_in_pieces, open_run
from napari_gpubio.core.device import CPU, Device, choose_device, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import OUTSIDE, Domain
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source
from napari_gpubio.light.surface import ALL_ROUND, first_tissue, label_at, source_problem
from napari_gpubio.light.voxels import cpu
from napari_gpubio.light.voxels.assemble import assemble
from napari_gpubio.light.voxels.partial import Partial
from napari_gpubio.light.voxels.problem import VoxelProblem

logger = logging.getLogger(__name__)
PREVIEW_SECONDS = 0.1
FIRST_CHUNK = {"cpu": 256, "cuda": 1 << 18}


def simulate(
    domain: Domain,
    source: Source,
    settings: Settings | None = None,
    *,
    detectors: Sequence[Detector] = (),
    device: str | Device = "auto",
    resume: LightResult | None = None,
    client: Any = None,
    progress: Callable[[Step], object] | None = None,
) -> LightResult:
    """Trace photons through a label volume; see `simulate_steps`, whose end this returns.

    Examples
    --------
    >>> from napari_gpubio import light
    >>> head = light.load_head_phantom()
    >>> result = light.simulate(head, light.default_source(head), light.Settings(photons=1000), device="cpu")
    >>> result.fluence.shape == head.shape
    True
    """
    steps = simulate_steps(domain, source, settings, detectors=detectors, device=device, resume=resume, client=client)
    return drive(steps, progress)


def simulate_steps(
    domain: Domain,
    source: Source,
    settings: Settings | None = None,
    *,
    detectors: Sequence[Detector] = (),
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
        The light source.
    settings
        Photons, boundaries, time gates and tallies; see `Settings`.
    detectors
        Where escaping photons are caught.
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
        Photon i depends on the seed and i only, and tallies are whole numbers, so the result does not depend on chunks,
        threads, GPUs, workers or interruptions.

    Raises
    ------
    InvalidInput
        If the source shines past the tissue, a detector lies elsewhere, ``resume`` belongs to another simulation, or
        there is too little memory.
    """
    settings = settings or Settings()
    check_source(domain, source)
    problem = VoxelProblem(domain, source, settings, tuple(detectors))
    partial = Partial.empty(problem)
    if resume is not None:
        problem, partial = _resumed(problem, resume)
    chosen = choose_device(device) if client is None else Device("dask", note=str(device))
    if client is None:
        _check_memory(problem, chosen)
    describe = _Description(problem, "a Dask cluster" if client is not None else chosen.describe())
    already, total = partial.photons, settings.photons
    yield Step(already, total, f"photons ({needed_memory_mb(domain, settings, chosen):.0f} MB on {describe.device})")
    parts = (
        _on_dask(problem, partial, client, device, stop)
        if client is not None
        else _on_device(problem, partial, chosen, stop)
    )
    previews = _Previews()
    for done, part in parts:
        preview = None
        if previews.due() and already + done < total:
            preview = previews.make(part, problem, describe())
        yield Step(already + done, total, "photons", preview=preview)
    return assemble(problem, partial, describe())


def needed_memory_mb(domain: Domain, settings: Settings, device: str | Device = "auto") -> float:
    """Memory (MiB) that a simulation keeps on each device that works on it; `resident_bytes` and lists of photons."""
    _ = device
    problem = VoxelProblem(domain, Source(), settings)
    return problem.resident_bytes / 2**20


def check_source(domain: Domain, source: Source) -> None:
    """Raise InvalidInput if a source cannot light the tissue."""
    position = np.asarray(source.position_mm)
    shown = "(" + ", ".join(f"{v:g}" for v in position) + ") mm"
    if label_at(domain.labels, domain.affine, position) == OUTSIDE:
        all_round = source.kind in ALL_ROUND
        if all_round or first_tissue(domain.labels, domain.affine, position, source.direction) is None:
            raise InvalidInput(f"{source_problem(domain.labels, domain.affine, source)} It is at {shown}.")
    elif source.kind not in ALL_ROUND:
        ahead = source.frame()[2] * domain.voxel_sizes_mm.min()
        if label_at(domain.labels, domain.affine, position + ahead) == OUTSIDE:
            raise InvalidInput(
                f"the source at {shown} points out of the tissue: less than a voxel of it lies ahead; turn it round"
            )


def _check_memory(problem: VoxelProblem, device: Device) -> None:
    if device.is_gpu:
        return  # the GPU itself is asked when the run is opened
    results = 4 * problem.cells * (2 * problem.gates + 2)
    needed, free = problem.resident_bytes + results, free_memory_bytes(device)
    if needed > free:
        raise InvalidInput(
            f"the simulation needs about {needed / 2**20:.0f} MB and {free / 2**20:.0f} MB are free; "
            "take fewer time gates, larger voxels, or close other programs"
        )


def _resumed(problem: VoxelProblem, earlier: LightResult) -> tuple[VoxelProblem, Partial]:
    state = earlier.state
    if not isinstance(state, Partial):
        raise InvalidInput("the result to resume has no saved state; it was not made by this program")
    problem = dataclasses.replace(problem, batch_size=state.batch_size)
    if state.key != problem.key:
        raise InvalidInput(
            "the result to resume is of another simulation (domain, source, detectors, seed or settings differ); only "
            "the number of photons may be raised"
        )
    if state.photons_up_to > problem.settings.photons:
        raise InvalidInput(
            f"the result to resume has traced photons up to number {state.photons_up_to:,}; ask for at least that many"
        )
    return problem, state.copy()


class _Description:
    """Everything needed to do a run again, and how it went so far, as JSON can hold it."""

    def __init__(self, problem: VoxelProblem, device: str) -> None:
        self.device = device
        self._problem = problem
        self._begun = time.perf_counter()

    def __call__(self) -> dict[str, Any]:
        settings, source = self._problem.settings, self._problem.source
        shown = {f.name: getattr(source, f.name) for f in dataclasses.fields(source) if f.name != "pattern"}
        return {
            "software": f"napari-gpubio {__version__}",
            "settings": dataclasses.asdict(settings),
            "source": shown,
            "detectors": [dataclasses.asdict(detector) for detector in self._problem.detectors],
            "media": [dataclasses.asdict(medium) for medium in self._problem.domain.media],
            "outside_n": self._problem.domain.outside_n,
            "device": self.device,
            "seconds": round(time.perf_counter() - self._begun, 4),
        }


class _Previews:
    """Says when a preview is due: ten times a second at most, and never more than a tenth of the time."""

    def __init__(self) -> None:
        self._next = time.perf_counter() + PREVIEW_SECONDS

    def due(self) -> bool:
        return time.perf_counter() >= self._next

    def make(self, part: Callable[[], Partial], problem: VoxelProblem, parameters: dict[str, Any]) -> LightResult:
        begun = time.perf_counter()
        result = assemble(problem, part(), parameters)
        ended = time.perf_counter()
        self._next = ended + min(max(PREVIEW_SECONDS, 9.0 * (ended - begun)), 2.0)
        return result


# -- one machine ------------------------------------------------------------------------------------------------------


def _on_device(
    problem: VoxelProblem, partial: Partial, device: Device, stop: threading.Event | None
) -> Iterator[tuple[int, Callable[[], Partial]]]:
    """Trace what is missing; yield photons done and a function that gives the tallies so far. At the end, add them."""
    runs = _make_runs(problem, device)

    def so_far() -> Partial:
        together = partial.copy()
        for run in runs:
            together.add(run.snapshot(), problem)
        return together

    try:
        pieces = _joined(partial.missing(problem), runs[0].span)
        for done in advance_in_pieces(runs, pieces, stop=stop, first_chunk=FIRST_CHUNK[device.kind]):
            yield done, so_far
        for run in runs:
            partial.add(run.snapshot(), problem)
    finally:
        for run in runs:
            run.close()


def _make_runs(problem: VoxelProblem, device: Device) -> list[Any]:
    """One `Run` of the right twin for each processor."""
    if not device.is_gpu:
        return [cpu.Run(problem, device=CPU)]
    from napari_gpubio.light.voxels import gpu

    def opened(index: int) -> Any:
        one = Device("cuda", (index,))
        make = lambda: gpu.Run(problem, device=one, sharers=len(device.indices))  # noqa: E731
        return open_run(make, one, problem.resident_bytes, "light transport in this volume")

    return [opened(index) for index in device.indices]


def _joined(ranges: Sequence[tuple[int, int]], span: int) -> list[tuple[int, int]]:
    """Join neighbouring ranges as far as they lie in the same span."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined and joined[-1][1] == start and joined[-1][0] // span == (stop - 1) // span:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined


# -- several machines -------------------------------------------------------------------------------------------------


def _on_dask(
    problem: VoxelProblem, partial: Partial, client: Any, device: str | Device, stop: threading.Event | None
) -> Iterator[tuple[int, Callable[[], Partial]]]:
    """Share the missing ranges among the workers of a cluster; a task whose worker dies is done again by another."""
    from distributed import as_completed

    ranges = partial.missing(problem)
    shared = client.scatter(problem, broadcast=True)
    tasks = [client.submit(_trace_ranges, shared, [one], str(device), pure=False, retries=5) for one in ranges]
    done = 0
    try:
        for task in as_completed(tasks):
            part = task.result()
            done += part.photons
            partial.add(part, problem)
            yield done, partial.copy
            if stop is not None and stop.is_set():
                break
    finally:
        client.cancel(tasks)


def _trace_ranges(problem: VoxelProblem, ranges: list[tuple[int, int]], device: str) -> Partial:
    """Trace some ranges of photons on a worker and return their tallies."""
    runs = _make_runs(problem, choose_device(device))
    try:
        for _ in advance_in_pieces(runs, ranges, first_chunk=FIRST_CHUNK[runs[0].device.kind]):
            pass
        whole = runs[0].snapshot()
        for run in runs[1:]:
            whole.add(run.snapshot(), problem)
        return whole
    finally:
        for run in runs:
            run.close()
