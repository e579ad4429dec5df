"""Layered light transport on any device: layers and settings in, MCML's quantities with their errors out."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Generator
from typing import Any

from napari_gpubio import __version__
from napari_gpubio.core.chunks import open_run
from napari_gpubio.core.device import CPU, Device, choose_device, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.light.kernels.layers import cpu
from napari_gpubio.light.kernels.layers.problem import LayeredProblem
from napari_gpubio.light.kernels.layers.tally import LayeredPartial
from napari_gpubio.light.layers.assemble import assemble
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.light.scheduling import Way, photon_steps, resumed, seconds_of


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
        problem, partial = resumed(problem, resume.state, LayeredPartial)
    if client is None:
        _check_memory(problem, choose_device(device))
    way = Way(make_runs=make_runs, assemble=assemble)
    describe = functools.partial(_description, problem)
    earlier = seconds_of(resume)
    steps = photon_steps(way, problem, partial, describe, device=device, client=client, stop=stop, seconds=earlier)
    return (yield from steps)


def _description(problem: LayeredProblem, device: str, seconds: float) -> dict[str, Any]:
    """Everything needed to do a run again, and how it went so far, as JSON can hold it.

    The seconds are those of all legs of a resumed run; the device is that of the last.
    """
    return {
        "software": f"napari-gpubio {__version__}",
        "settings": dataclasses.asdict(problem.settings),
        "medium": _medium_as_json(problem.medium),
        "device": device,
        "seconds": seconds,
    }


def _medium_as_json(medium: LayeredMedium) -> dict[str, Any]:
    """The layers as JSON can hold them, which has no infinity: an endless layer's thickness is None."""
    told = dataclasses.asdict(medium)
    for row, layer in zip(told["layers"], medium.layers, strict=True):
        row["thickness_mm"] = None if layer.is_endless else layer.thickness_mm
    return told


def _check_memory(problem: LayeredProblem, device: Device) -> None:
    """Raise InvalidInput if the tallies do not fit into the computer's memory; a GPU is asked when it is used."""
    if device.is_gpu:
        return
    needed, free = problem.resident_bytes + cpu.tally_bytes(problem), free_memory_bytes(device)
    if needed > free:
        raise InvalidInput(
            f"the simulation needs about {needed / 2**20:.0f} MB and {free / 2**20:.0f} MB are free; take fewer bins "
            "or batches"
        )


def make_runs(problem: LayeredProblem, device: Device) -> list[Any]:
    """One `Run` of the right backend for each processor."""
    if not device.is_gpu:
        return [cpu.Run(problem, device=CPU)]
    from napari_gpubio.light.kernels.layers import gpu

    def opened(index: int) -> Any:
        one = Device("cuda", (index,))
        make = functools.partial(gpu.Run, problem, device=one, sharers=len(device.indices))
        return open_run(make, one, problem.gpu_bytes, "light transport in these layers")

    return [opened(index) for index in device.indices]
