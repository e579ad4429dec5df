"""The tracing alone, on buffers made beforehand: the Numba call, or the CUDA kernel by its own clock."""

from typing import Any

from common import Array, Row, Timing, limited_threads, row, timed, timed_by_events

from napari_gpubio.core.device import Device
from napari_gpubio.core.settings import kind_of
from napari_gpubio.fibers.kernels.rays import cpu
from napari_gpubio.fibers.kernels.rays.problem import RayProblem
from napari_gpubio.fibers.settings import InTensors
from napari_gpubio.tractograms.model import StopReason

RECORDED = ("interpolation", "integrator", "step_mm", "fa_stop", "max_steps", "precision", "texture")


def recorded(settings: InTensors, **more: Any) -> dict[str, Any]:
    """The settings that matter here, as JSON can hold them."""
    known = {name: getattr(settings, name) for name in RECORDED if hasattr(settings, name)}
    return {"method": kind_of(settings)} | known | more


class CpuTrace:
    """The Numba tracing call alone, on buffers made beforehand."""

    def __init__(self, problem: RayProblem) -> None:
        self._run = cpu.Run(problem)
        self._rays, self._output = self._run.allocate(problem.rays(0, len(problem.launch)))

    def timing(self, repeats: int) -> Timing:
        """Seconds of the call."""
        return timed(lambda: self._run.launch(self._rays, self._output), repeats)

    def outcome(self) -> tuple[Array, Array]:
        """Points written and stop reason of each ray."""
        return self._output.written, self._output.reasons


class GpuTrace:
    """The tracing kernel alone, on resident buffers, by CUDA events."""

    def __init__(self, problem: RayProblem, device: Device) -> None:
        import cupy

        from napari_gpubio.fibers.kernels.rays import gpu

        self._device = device
        with cupy.cuda.Device(device.indices[0]):
            self._run = gpu.Run(problem, device=device)
            self._rays, self._output = self._run.allocate(problem.rays(0, len(problem.launch)))

    def timing(self, repeats: int) -> Timing:
        """Seconds of the kernel."""
        return timed_by_events(self._device, lambda: self._run.launch(self._rays, self._output), repeats)

    def outcome(self) -> tuple[Array, Array]:
        """Points written and stop reason of each ray."""
        import cupy

        return cupy.asnumpy(self._output.written), cupy.asnumpy(self._output.reasons)


def trace_row(name: str, problem: RayProblem, device: Device, repeats: int, threads: int = 0, **more: Any) -> Row:
    """Time the tracing of a problem; ``threads`` limits Numba (0 = all cores)."""
    with limited_threads(threads) as used:
        tracing = GpuTrace(problem, device) if device.is_gpu else CpuTrace(problem)
        timing = tracing.timing(repeats)
    written, reasons = tracing.outcome()
    early = int((reasons != StopReason.STEPS).sum())
    return row(
        name, device, timing, int(written.sum()) * problem.settings.points_every, "steps",
        fibers=len(problem.launch), mean_steps=float(written.mean()), ended_early=early,
        threads=None if device.is_gpu else used,
        settings=recorded(problem.settings, measure=problem.measure), **more,
    )  # fmt: skip
