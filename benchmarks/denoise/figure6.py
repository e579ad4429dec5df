"""The steps of optimization of Yuan et al. 2018 (figure 6) on today's chip, and the displaced-difference form.

Every variant gives the same image; its difference to the engine's is part of its row. As in the paper, the time of the
filter's kernels is kept apart from what is done before and after (local moments, padding, transfers, mixing).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Array, Row, Stopwatch, Timing

from denoise.speed_rows import scaled_problem
from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import kernel, struct, struct_layout
from napari_gpubio.denoise.kernels.anlm import cpu, gpu, tally
from napari_gpubio.denoise.kernels.anlm.problem import Problem

SOURCE = Path(__file__).with_suffix(".cu")
ENGINE_SOURCE = Path(gpu.__file__).with_name("anlm.cu")
FRAME = struct_layout({"nx": np.int32, "ny": np.int32, "nz": np.int32, "maximum": np.float32})
SEARCH = 3
FLAT, CUBE = (1, 16, 16), (8, 8, 8)  # voxels of a block along x, y, z
PATCHES = (1, 2)
ROUNDING = 1e-5
PAPER = {  # seconds of a 980 Ti, 100^3, from the text: 2.5 s to 1.0 s in all
    "baseline": "2.5 s in all",
    "shared memory": "kernels 11 % less than the baseline",
    "3-D blocks": "kernels half the baseline",
    "preprocessing on the GPU": "before and after: 53 % less",
    "streamlined": "1.0 s in all",
}


class Variant(NamedTuple):
    """A way to filter."""

    name: str  # what it adds to the one before
    block: tuple[int, int, int]  # voxels of a block
    shared: bool = True  # whether a block keeps its surroundings in shared memory
    gpu_before: bool = False  # whether moments are computed, and patches mixed, on the GPU
    gpu_after: bool = False
    at_once: bool = False  # whether one launch does both patch radii


VARIANTS = (
    Variant("baseline", FLAT, shared=False),
    Variant("shared memory", FLAT),
    Variant("3-D blocks", CUBE),
    Variant("preprocessing on the GPU", CUBE, gpu_before=True),
    Variant("streamlined", CUBE, gpu_before=True, gpu_after=True),
    Variant("both patches at once", CUBE, gpu_before=True, gpu_after=True, at_once=True),
)
DISPLACED = "displaced differences (the engine)"


class Parts:
    """Seconds before, in, and after the kernels."""

    def __init__(self) -> None:
        self.before, self.kernels, self.after = Stopwatch(), Stopwatch(), Stopwatch()

    def seconds_by_part(self) -> dict[str, float]:
        """Best of each."""
        return {name: min(getattr(self, name).wall) for name in ("before", "kernels", "after")}

    def timing(self) -> Timing:
        """All together."""
        parts = (self.before, self.kernels, self.after)
        whole = [sum(times) for times in zip(*(part.wall for part in parts), strict=True)]
        return Timing(min(whole), sorted(whole)[len(whole) // 2])


def measured(volume: Array, device: Device, variant: Variant | None, expected: Array, repeats: int) -> Row:
    """Time a variant (None: the engine's own form), and compare it with the engine's result."""
    problem = scaled_problem(volume)
    filtered = engine_form if variant is None else made(variant)
    filtered(problem, device, Parts())  # compiles
    parts = Parts()
    for _ in range(repeats):
        image = filtered(problem, device, parts)
    errors = np.abs(image - expected) / np.abs(expected)
    timing = parts.timing()
    return {
        "seconds": timing.seconds,
        "median_seconds": timing.median,
        "parts": parts.seconds_by_part(),
        "share_beyond_rounding": float((errors > ROUNDING).mean()),
        "largest_difference": float(errors.max()),
    }


def engine_form(problem: Problem, device: Device, parts: Parts) -> Array:
    import cupy

    here = cupy.cuda.Device(device.indices[0])
    with here:
        with parts.before.running():
            run = gpu.Run(problem, device=device)
            here.synchronize()
        with parts.kernels.running():
            run.advance(0, problem.items)
        with parts.after.running():
            image = run.finish().values
        run.close()
    return np.asarray(image)


def made(variant: Variant) -> Callable[[Problem, Device, Parts], Array]:
    def filtered(problem: Problem, device: Device, parts: Parts) -> Array:
        import cupy

        here = cupy.cuda.Device(device.indices[0])
        with here:
            with parts.before.running():
                inputs = (moments_on_gpu if variant.gpu_before else moments_on_cpu)(problem)
                here.synchronize()
            with parts.kernels.running():
                estimates = launch(variant, problem, inputs)
                here.synchronize()
            with parts.after.running():
                return mixed(variant, device, estimates)

    return filtered


Inputs = tuple[Any, Any, Any]  # values and residuals, padded; moments (X, Y, Z, 2)


def moments_on_cpu(problem: Problem) -> Inputs:
    """Local moments on the CPU, padding there, and everything brought to the GPU."""
    import cupy

    values, (mean, variance) = problem.values, cpu.measure_moments(problem)
    wide = [np.pad(volume, SEARCH + max(PATCHES), mode="symmetric") for volume in (values, values - mean)]
    return cupy.asarray(wide[0]), cupy.asarray(wide[1]), cupy.asarray(np.stack([mean, variance], axis=-1))


def moments_on_gpu(problem: Problem) -> Inputs:
    """Values brought to the GPU, and the rest made of them there, by the engine's kernel."""
    import cupy

    values, usable = cupy.asarray(problem.values), cupy.asarray(problem.usable)
    moments = cupy.empty((*problem.shape, 2), np.float32)
    chosen = {"values": values, "usable": usable, "moments": moments, "shape": problem.shape, "box": (1, 1, 1)}
    chosen["search"] = (0, 0, 0)
    rest = dict.fromkeys(("weights", "chosen", "sums", "estimates")) | dict.fromkeys(gpu.SLAB.names[7:], 0)
    slab = struct(gpu.SLAB, **{**rest, **chosen, "planes": problem.shape[0]})
    kernel(ENGINE_SOURCE, "local_moments")((-(-values.size // 256),), (256,), (slab,))
    places = [cupy.asarray(mirrored(n, SEARCH + max(PATCHES))) for n in problem.shape]
    x, y, z = places[0][:, None, None], places[1][:, None], places[2]
    wide = [cupy.ascontiguousarray(volume[x, y, z]) for volume in (values, values - moments[..., 0])]
    return wide[0], wide[1], moments


def mirrored(n: int, halo: int) -> Array:
    """Indices of a padded line: 1, 0 | 0, 1 ... n - 1 | n - 1, n - 2."""
    return np.pad(np.arange(n), halo, mode="symmetric")


def launch(variant: Variant, problem: Problem, inputs: Inputs) -> tuple[Any, Any]:
    """Estimates with the small and with the large patch."""
    import cupy

    estimates = cupy.empty(problem.shape, np.float32), cupy.empty(problem.shape, np.float32)
    if variant.at_once:
        _launch_once(variant, PATCHES, problem, inputs, estimates)
    else:
        for radius, estimate in zip(PATCHES, estimates, strict=True):
            _launch_once(variant, (radius, radius), problem, inputs, (estimate, estimate))
    return estimates


def _launch_once(
    variant: Variant, radii: tuple[int, int], problem: Problem, inputs: Inputs, estimates: tuple[Any, Any]
) -> None:
    halo, most = SEARCH + radii[1], SEARCH + max(PATCHES)
    values, residuals, moments = (_trimmed(inputs[0], most - halo), _trimmed(inputs[1], most - halo), inputs[2])
    filter_voxels = kernel(SOURCE, "filter_voxels", defines=defines_of(variant, radii))
    shared = shared_bytes(variant, halo)
    if shared > filter_voxels.max_dynamic_shared_size_bytes:
        filter_voxels.max_dynamic_shared_size_bytes = shared
    frame = struct(FRAME, **dict(zip(("nx", "ny", "nz"), problem.shape, strict=True)), maximum=problem.maximum)
    arguments = values, residuals, moments, frame, *estimates
    grid = tuple(-(-n // size) for n, size in zip(problem.shape[::-1], variant.block[::-1], strict=True))
    filter_voxels(grid, variant.block[::-1], arguments, shared_mem=shared)


def _trimmed(padded: Any, width: int) -> Any:
    """Without so many voxels on every side."""
    import cupy

    return padded if width == 0 else cupy.ascontiguousarray(padded[(slice(width, -width),) * 3])


def defines_of(variant: Variant, radii: tuple[int, int]) -> tuple[str, ...]:
    """What the kernels of a variant are compiled with."""
    block = (f"BLOCK_{axis}={n}" for axis, n in zip("XYZ", variant.block, strict=True))
    return (*block, f"SHARED={int(variant.shared)}", f"SMALL={radii[0]}", f"LARGE={radii[1]}", f"SEARCH={SEARCH}")


def shared_bytes(variant: Variant, halo: int) -> int:
    """Shared memory of a block: its values and residuals and those around it."""
    return 8 * int(np.prod([n + 2 * halo for n in variant.block])) if variant.shared else 0


def mixed(variant: Variant, device: Device, estimates: tuple[Any, Any]) -> Array:
    """Both estimates in one image on the host."""
    import cupy

    if not variant.gpu_after:
        return np.asarray(tally.mix(*map(cupy.asnumpy, estimates), cpu.filter_axis))
    filter_axis = filter_axis_on_gpu()
    with cupy.cuda.Device(device.indices[0]):
        return np.asarray(cupy.asnumpy(tally.mix(*estimates, filter_axis, cupy)))


def filter_axis_on_gpu() -> tally.FilterAxis:
    """The engine's kernel that filters along lines of one axis."""
    import cupy

    filter_lines = kernel(ENGINE_SOURCE, "filter_lines")

    def filter_axis(array: Any, axis: int, taps: Array) -> Any:
        out, i = cupy.empty(array.shape, np.float32), np.int32
        lines = (int(np.prod(array.shape[:axis])), array.shape[axis], int(np.prod(array.shape[axis + 1 :])))
        arguments = (array, *map(i, lines), cupy.asarray(taps), i(taps.shape[1] // 2), out)
        filter_lines((-(-array.size // 256),), (256,), arguments)
        return out

    return filter_axis
