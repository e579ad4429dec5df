"""Layered light transport on any device: layers and settings in, MCML's quantities with their errors out."""

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from napari_gpubio import __version__
from napari_gpubio.core.chunks import open_run
from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.light.layered import cpu
from napari_gpubio.light.layered.assemble import assemble
from napari_gpubio.light.layered.model import LayeredMedium
from napari_gpubio.light.layered.partial import LayeredPartial
from napari_gpubio.light.layered.problem import LayeredProblem
from napari_gpubio.light.layered.result import LayeredResult
from napari_gpubio.light.layered.settings import LayeredSettings
from napari_gpubio.light.work import Previews, check_resumed, traced, traced_by_workers


def simulate_layers(
    medium: LayeredMedium,
    settings: LayeredSettings | None = None,
    *,
    device: str | Device = "auto",
    resume: LayeredResult | None = None,
    client: Any = None,
    progress: Callable[[Step], object] | None = None,
) -> LayeredResult:
    """Trace photons of a pencil beam through layers; see `layer_steps`, whose end this returns.

    Examples
    --------
    >>> from napari_gpubio import light
    >>> slab = light.LayeredMedium(layers=(light.Layer(n=1.0, mua_per_mm=1, mus_per_mm=9, g=0.75, thickness_mm=0.2),))
    >>> result = light.simulate_layers(slab, light.LayeredSettings(photons=10_000), device="cpu")
    >>> abs(result.diffuse_reflectance.value - 0.0974) < 0.02
    True
    """
    return drive(layer_steps(medium, settings, device=device, resume=resume, client=client), progress)


def layer_steps(
    medium: LayeredMedium,
    settings: LayeredSettings | None = None,
    *,
    device: str | Device = "auto",
    resume: LayeredResult | None = None,
    client: Any = None,
    stop: threading.Event | None = None,
) -> Generator[Step, None, LayeredResult]:
    """Trace photons of a pencil beam through layers, step by step; a step's preview is the result so far.

    Parameters
    ----------
    medium
        The layers.
    settings
        Photons and grid; see `LayeredSettings`.
    device
        See `napari_gpubio.core.device.choose_device`; ``"cuda:all"`` shares the photons among all GPUs.
    resume
        A result of the same layers and settings (stopped, or with fewer photons): only what it lacks is traced.
    client
        A ``dask.distributed.Client`` whose workers share the batches.
    stop
        Set it to stop early; the result then holds what was done, with its own error, and ``complete`` is False.

    Raises
    ------
    InvalidInput
        If ``resume`` belongs to another simulation.
    """
    problem = LayeredProblem(medium, settings or LayeredSettings())
    partial = LayeredPartial.empty(problem)
    if resume is not None:
        problem, partial = _resumed(problem, resume)
    chosen = choose_device(device if client is None else "cpu")
    describe = _description(problem, chosen.describe() if client is None else "workers of a Dask cluster")
    already, total = partial.photons, problem.settings.photons
    if client is None:
        progress = traced(problem, partial, make_runs, chosen, stop)
    else:
        progress = traced_by_workers(problem, partial, make_runs, client, str(device), stop)
    previews = Previews()
    for done, so_far in progress:
        preview = None
        if previews.due() and already + done < total:
            preview = previews.make(functools.partial(_assembled, problem, so_far, describe))
        yield Step(already + done, total, "photons", preview=preview)
    return assemble(problem, partial, describe())


def _assembled(
    problem: LayeredProblem, so_far: Callable[[], LayeredPartial], describe: Callable[[], dict[str, Any]]
) -> LayeredResult:
    return assemble(problem, so_far(), describe())


def _resumed(problem: LayeredProblem, earlier: LayeredResult) -> tuple[LayeredProblem, LayeredPartial]:
    state = earlier.state
    if not isinstance(state, LayeredPartial):
        raise InvalidInput("the result to resume has no saved state; save results with it to resume them")
    problem = dataclasses.replace(problem, batch_size=state.batch_size)
    check_resumed(state, problem, problem.settings.photons)
    return problem, state.copy()


def _description(problem: LayeredProblem, device: str) -> Callable[[], dict[str, Any]]:
    """Everything needed to do a run again, and how it went so far, as JSON can hold it."""
    begun = time.perf_counter()

    def describe() -> dict[str, Any]:
        return {
            "software": f"napari-gpubio {__version__}",
            "settings": dataclasses.asdict(problem.settings),
            "medium": dataclasses.asdict(problem.medium),
            "device": device,
            "seconds": round(time.perf_counter() - begun, 4),
        }

    return describe


def make_runs(problem: LayeredProblem, device: Device) -> list[Any]:
    """One `Run` of the right twin for each processor."""
    if not device.is_gpu:
        return [cpu.Run(problem, device=CPU)]
    from napari_gpubio.light.layered import gpu

    def opened(index: int) -> Any:
        one = Device("cuda", (index,))
        make = functools.partial(gpu.Run, problem, device=one, sharers=len(device.indices))
        return open_run(make, one, problem.resident_bytes, "light transport in these layers")

    return [opened(index) for index in device.indices]
