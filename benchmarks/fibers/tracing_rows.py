"""Rows a, b and f: the tracing alone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from common import Row, skipped, thread_counts, threads_text

from fibers.brain import Plan, callosum_click
from fibers.problems import (
    CUBIC_RK4,
    FREE,
    LINEAR_RK2,
    SEED_FIBERS,
    SEED_STEPS,
    STEP_SIZES,
    STEP_VOXELS,
    box_problem,
    callosum_problem,
    random_box,
    seed_problem,
    seed_volume,
)
from fibers.tracing import trace_row
from napari_gpubio.core.device import CPU
from napari_gpubio.fibers.directions import Cone
from napari_gpubio.fibers.kernels.rays.problem import RayProblem
from napari_gpubio.fibers.seeds import make_launch
from napari_gpubio.fibers.settings import EuDX, InTensors, as_method


def seed_benchmark(plan: Plan) -> Iterator[Row]:
    """Rows a: the paper's synthetic benchmark, figures 6 and 7, and section 5.2."""
    field = seed_volume()
    gpu = plan.device.is_gpu
    small = plan.quick and not gpu
    fibers, steps = (256, 512) if small else (SEED_FIBERS, SEED_STEPS)

    def one(name: str, settings: InTensors, count: int = fibers, threads: int = 0, **more: Any) -> Row:
        limited = replace(settings, max_steps=min(settings.max_steps, steps))
        return trace_row(name, seed_problem(field, limited, count), plan.device, plan.repeats, threads, **more)

    yield one("a1 seed's scheme, RK2", FREE, paper="GTX 260: 0.165 s for 2048 x 4096 steps")
    yield one("a2 seed's scheme, Euler", replace(FREE, integrator="euler"), paper="section 5.2: as long as RK2")
    if gpu:
        yield one("a3 seed's scheme, RK2, hardware texture", replace(FREE, texture=True))
        yield one("a4 seed's scheme, Euler, texture", replace(FREE, integrator="euler", texture=True))
    for size in STEP_SIZES:
        settings = replace(FREE, step_mm=size, max_steps=1900)  # 1900 x 0.5 voxel still ends inside
        yield one(f"a5 step {size} voxel, in the kernel", settings, paper="figure 6")
        if gpu:
            yield one(f"a6 step {size} voxel, texture", replace(settings, texture=True), paper="figure 6")
    many = 16_384 if gpu else fibers
    yield one("a7 hamiltonian, linear, RK2", LINEAR_RK2, many, target="6e9 steps/s on an H200" if gpu else "")
    yield one("a8 hamiltonian, cubic, RK4", replace(CUBIC_RK4, max_steps=4096 if gpu else 512), many)
    if gpu:
        yield one("a9 seed's scheme, RK2", FREE, many)
        yield one("a9 seed's scheme, RK2, hardware texture", replace(FREE, texture=True), many)
    else:
        for threads in thread_counts():
            yield one(f"a10 seed's scheme, RK2, {threads_text(threads)}", FREE, threads=threads, paper="figure 7")


def corpus_callosum(plan: Plan) -> Iterator[Row]:
    """Rows b: the paper's table 3 on the real brain, CPU against GPU."""
    if isinstance(plan.brain, str):
        yield skipped("b table 3: corpus callosum", plan.brain)
        return
    field = plan.brain.field
    step = STEP_VOXELS * float(field.voxel_sizes_mm.min())
    for fibers in (1024, 4096) if plan.quick else (1024, 2048, 3072, 4096):
        for device in plan.devices:
            for label, settings in (("seed's scheme, RK2", FREE), ("hamiltonian, cubic, RK4", CUBIC_RK4)):
                problem = callosum_problem(field, replace(settings, step_mm=step), fibers)
                name = f"b table 3: {fibers} seeds, {label}"
                yield trace_row(name, problem, device, plan.repeats, paper="table 3: GPU 2 to 40 times a 4-core CPU")


def one_core(plan: Plan) -> Iterator[Row]:
    """Rows f: steps per second of one CPU core, in a small volume that stays in the cache and on the real brain."""
    fibers = 128 if plan.quick else 512
    cases = (
        ("seed's scheme, RK2", FREE, "3e6 steps/s"),
        ("hamiltonian, linear, RK2", LINEAR_RK2, ""),
        ("hamiltonian, cubic, RK2", replace(CUBIC_RK4, integrator="rk2"), ""),
        ("hamiltonian, cubic, RK4", CUBIC_RK4, "0.5e6 steps/s"),
        ("hamiltonian, cubic, RK4, double", replace(CUBIC_RK4, precision="double"), ""),
        ("EuDX, Euler", replace(as_method(EuDX, FREE), integrator="euler"), ""),
    )
    small = random_box()
    for label, settings, target in cases:
        problem = box_problem(small, replace(settings, max_steps=200), fibers)
        yield trace_row(f"f one core, {label}, 48^3", problem, CPU, plan.repeats, 1, target=target)
        if not isinstance(plan.brain, str):
            real = replace(settings, step_mm=0.5, fa_stop=0.1)
            launch = make_launch(plan.brain.field, callosum_click(plan.brain.field), Cone(count=fibers))
            problem = RayProblem(plan.brain.field, launch, real)
            yield trace_row(f"f one core, {label}, brain, measured", problem, CPU, plan.repeats, 1, target=target)
