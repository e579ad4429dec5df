"""Photons through planar layers: from layers and settings to MCML's quantities with their standard errors."""

import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Generator
from typing import Any

from napari_gpubio.core.chunks import open_run
from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.light.batches import Backend, check_memory, photon_steps, resumed
from napari_gpubio.light.kernels.layers.problem import LayeredProblem
from napari_gpubio.light.kernels.layers.tally import LayerTally
from napari_gpubio.light.layers.assemble import assemble
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.settings import LayeredSettings


def simulate(
    medium: LayeredMedium,
    settings: LayeredSettings | None = None,
    *,
    device: str | Device = "auto",
    resume: LayeredResult | None = None,
    client: Any = None,
    progress: Callable[[Step], object] | None = None,
) -> LayeredResult:
    """Trace photons of a pencil beam through layers; see `simulate_steps`, whose end this returns.

    Examples
    --------
    >>> from napari_gpubio.light import layers
    >>> slab = layers.LayeredMedium(layers=(layers.Layer(n=1.0, mua_per_mm=1, mus_per_mm=9, g=0.75, thickness_mm=0.2),))
    >>> result = layers.simulate(slab, layers.LayeredSettings(photons=10_000), device="cpu")
    >>> abs(result.diffuse_reflectance.value - 0.0974) < 0.02
    True
    """
    return drive(simulate_steps(medium, settings, device=device, resume=resume, client=client), progress)


def simulate_steps(
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
    problem = resumed(LayeredProblem(medium, settings or LayeredSettings()), resume, LayerTally)
    if client is None:
        needed = problem.resident_bytes + 8 * problem.tally_size * problem.tallies(os.cpu_count() or 1)
        check_memory(needed, choose_device(device), "take fewer bins or batches")
    backend = Backend(make_runs=make_runs, assemble=assemble, empty=LayerTally.empty)
    described = {"medium": _medium_as_json(problem.medium)}
    return (
        yield from photon_steps(backend, problem, described, device=device, resume=resume, client=client, stop=stop)
    )


def _medium_as_json(medium: LayeredMedium) -> dict[str, Any]:
    """The layers as JSON can hold them, which has no infinity: an endless layer's thickness is None."""
    described = dataclasses.asdict(medium)
    for row, layer in zip(described["layers"], medium.layers, strict=True):
        row["thickness_mm"] = None if layer.is_endless else layer.thickness_mm
    return described


def make_runs(problem: LayeredProblem, device: Device) -> list[Any]:
    """One `Run` of the right backend for each processor."""
    if not device.is_gpu:
        from napari_gpubio.light.kernels.layers import cpu

        return [cpu.Run(problem, device=CPU)]
    from napari_gpubio.light.kernels.layers import gpu

    def opened(index: int) -> Any:
        one = Device("cuda", (index,))
        make = functools.partial(gpu.Run, problem, device=one, sharers=len(device.indices))
        return open_run(make, one, problem.gpu_bytes, "light transport in these layers")

    return [opened(index) for index in device.indices]
