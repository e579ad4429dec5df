"""How long a bootstrap of a click takes, and how often percentiles of its draws hold the FA of voxels.

Run from anywhere; the data are the brain phantom's::

    python benchmarks/fibers_bootstrap.py [--quick] [--device cuda:0] [--parts speed steps coverage]

`benchmarks/README.md` says what is measured.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import Array, Report, argument_parser, header, line, result_path, table

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.drivers import open_run
from napari_gpubio.core.tensor_components import fractional_anisotropy
from napari_gpubio.diffusion.kernels.tensors.cpu import eigen_decompose
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.phantom.sample import brain_phantom
from napari_gpubio.diffusion.tensors.repair import repair_rows
from napari_gpubio.diffusion.tensors.run import fit_tensors
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.diffusion.tensors.settings import FitSettings
from napari_gpubio.fibers.directions import Principal
from napari_gpubio.fibers.kernels.bootstrap import cpu
from napari_gpubio.fibers.kernels.rays.problem import RayProblem
from napari_gpubio.fibers.run import trace_problem
from napari_gpubio.fibers.seeds import ball, make_launch
from napari_gpubio.fibers.settings import EuDX, Hamiltonian, InTensors
from napari_gpubio.fibers.uncertainty.repeats import Margin
from napari_gpubio.fibers.uncertainty.residuals import draw_problem
from napari_gpubio.fibers.uncertainty.run import bootstrap
from napari_gpubio.fibers.uncertainty.settings import BootstrapSettings
from napari_gpubio.tractograms import maps

CLICKS = {"corpus callosum": (0.0, -5.0, 22.0), "corticospinal tract": (-22.0, -18.0, 20.0)}
METHODS = {"geodesics": Hamiltonian(), "streamlines": EuDX()}
PRINCIPAL = Principal()
SNR, LEVEL, MIN_FA = 28.0, 0.95, 0.3


def fitted(scan: DiffusionScan) -> TensorField:
    """The tensors, in the voxels where the phantom has a signal."""
    return fit_tensors(scan, np.asarray(scan.b0_mean() > 0), device="cpu")


def speed(report: Report, device: Device, repeats: int) -> None:
    """Seconds of a whole call, for two places, two methods, 1 and 100 seed points."""
    scan = brain_phantom(snr=SNR).scan
    field, lines, rows = fitted(scan), [], []
    for place, center in CLICKS.items():
        for method, settings in METHODS.items():
            for seeds in (1, 100):
                points = ball(center, 3.0, seeds) if seeds > 1 else np.array([center])

                def call(count: int, points: Array = points, settings: InTensors = settings) -> Any:
                    how = BootstrapSettings(repeats=count)
                    return bootstrap(scan, points, PRINCIPAL, settings, how, field=field, device=device)

                call(4)
                begun = time.perf_counter()
                result = call(repeats)
                seconds = time.perf_counter() - begun
                fibers, per_repeat = float(np.mean(result.numbers["fibers"])), 1e3 * seconds / repeats
                rows.append({
                    "place": place, "method": method, "seeds": seeds, "repeats": repeats, "seconds": seconds,
                    "ms_per_repeat": per_repeat, "fibers_per_repeat": fibers, "notes": result.notes,
                })  # fmt: skip
                lines.append(
                    line(place, method, seeds, f"{fibers:.1f}", repeats, f"{seconds:.2f}", f"{per_repeat:.2f}")
                )
    columns = ("click", "method", "seed points", "fibers a repeat", "repeats", "seconds", "ms a repeat")
    report.add("speed", f"A click on {device.describe()}", rows, *table(columns, lines))


def steps(report: Report, device: Device, repeats: int) -> None:
    """Milliseconds of the parts of a repeat, one after the other on one thread."""
    scan, points = brain_phantom(snr=SNR).scan, ball(CLICKS["corpus callosum"], 3.0, 100)
    field, box = fitted(scan), (slice(5, 55), slice(10, 60), slice(15, 50))
    problem, inside = draw_problem(scan, field.mask, box, FitSettings(), leverage="hc2", seed=1)
    draws, margin, spent = _draws(problem, device), Margin(inside), dict[str, float]()

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        found = work()
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - begun
        return found

    for number in range(-3, repeats):
        if number == 0:
            spent.clear()
        tensors = timed("draw", lambda: draws.draw(max(number, 0)))  # noqa: B023 - called at once
        timed("repair", lambda: repair_rows(tensors, 1e-6))  # noqa: B023
        volume = np.zeros((*inside.shape, 6))
        volume[inside] = tensors
        one = TensorField(tensors=volume, mask=inside, affine=field.affine)
        seeds = timed("seeds", lambda: make_launch(one, points, PRINCIPAL))  # noqa: B023
        rays = RayProblem(one, seeds, Hamiltonian())
        beyond = lambda: rays.prepared("tensors", lambda: margin.continued(volume) * 1e3, metric=False)  # noqa: B023, E731
        timed("tensors beyond the mask", beyond)
        if device.is_gpu:
            timed("guide and field", lambda: _prepare(rays, device))  # noqa: B023
        else:
            timed("guide", lambda: rays.guide)  # noqa: B023
        timed("field", lambda: open_run(rays, device))  # noqa: B023
        fibers = timed("tracking", lambda: trace_problem(rays, device))  # noqa: B023
        timed("visits", lambda: maps.mask(fibers, device=CPU))  # noqa: B023
    draws.close()
    parts = {name: 1e3 * seconds / repeats for name, seconds in spent.items()}
    lines = [line(name, f"{value:.2f}") for name, value in parts.items()]
    lines.append(line("sum", f"{sum(parts.values()):.2f}"))
    title = f"Parts of a repeat, one thread, {len(problem.tensors)} voxels, 100 seed points"
    report.add("steps", title, parts, *table(("part", "ms"), lines))


def _draws(problem: Any, device: Device) -> Any:
    if not device.is_gpu:
        return cpu.Run(problem)
    from napari_gpubio.fibers.kernels.bootstrap import gpu

    return gpu.Run(problem, device=device)


def _prepare(rays: RayProblem, device: Device) -> None:
    import cupy

    from napari_gpubio.fibers.kernels.bootstrap.gpu import prepare

    prepare(rays, device)
    cupy.cuda.Device(device.indices[0]).synchronize()


def coverage(report: Report, repeats: int) -> None:
    """How often percentiles of FA hold the FA of the fit without noise, in voxels."""
    truth = fitted(brain_phantom(snr=np.inf).scan)
    true_fa, lines, rows = fa_map(truth), [], []
    for snr in (SNR, SNR / 2):
        scan = brain_phantom(snr=snr).scan
        white = fitted(scan).mask & truth.mask & (true_fa > MIN_FA)
        white &= (np.indices(white.shape).sum(axis=0) % 3) == 0  # a third of them is enough
        whole = (slice(0, None),) * 3
        for leverage in ("hc2", "hc3"):
            problem, inside = draw_problem(scan, white, whole, FitSettings(), leverage=leverage, seed=1)
            draws = cpu.Run(problem)
            drawn = np.stack([fractional_anisotropy(eigen_decompose(draws.draw(n))[0]) for n in range(repeats)])
            low, high = np.quantile(drawn, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
            share = float(np.mean((low <= true_fa[inside]) & (true_fa[inside] <= high)))
            error = float(np.sqrt(share * (1 - share) / len(low)))
            rows.append({"snr": snr, "leverage": leverage, "voxels": len(low), "share": share, "standard_error": error})
            lines.append(line(f"{snr:g}", leverage, len(low), f"{100 * share:.1f} ± {100 * error:.1f}"))
    title = f"Share of the {100 * LEVEL:.0f} % intervals of FA that hold the FA without noise, {repeats} repeats"
    report.add("coverage", title, rows, *table(("signal / noise", "residuals", "voxels", "%"), lines))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--parts", nargs="*", default=["speed", "steps", "coverage"])
    options = parser.parse_args()
    device, head = choose_device(options.device), header(options.quick)
    report = Report(result_path(options.json, "fibers_bootstrap", head["date"], device), "Bootstrap of fibers", head)
    quick = options.quick
    parts = {
        "speed": lambda: speed(report, device, 100 if quick else 1000),
        "steps": lambda: steps(report, device, 20 if quick else 100),
        "coverage": lambda: coverage(report, 100 if quick else 400),
    }
    report.run({name: parts[name] for name in options.parts})


if __name__ == "__main__":
    main()
