"""Drift of g(v, v) on the real brain by scheme, integrator, step and precision, and single against double precision.

Run::

    python benchmarks/fibers_accuracy.py
    python benchmarks/fibers_accuracy.py --device cuda:0 --brain b.npz     # the GPU's single precision as well

g(v, v) is constant on a geodesic; the drift of a ray is the largest relative change along it. `benchmarks/README.md`
has more.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import Array, Report, Row, header, line, result_path, table, written
from fibers.brain import load_brain, white_matter_seeds

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.diffusion.kernels.tensors.cpu import compose
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.fibers.directions import Principal
from napari_gpubio.fibers.run import track
from napari_gpubio.fibers.settings import Hamiltonian, TensorGeodesic, VanAart2011
from napari_gpubio.tractograms.model import Tractogram

SEEDS = 600
PATH_VOXELS = 60.0  # 300 steps of 0.2 voxel
STEPS_VOXELS = (0.2, 0.1, 0.05)
PRECISIONS = ("double", "single")
FORWARD = Principal(both_ways=False)
SCHEMES = {
    "seed's scheme": VanAart2011(),
    "hamiltonian, linear": Hamiltonian(interpolation="linear"),
    "hamiltonian, cubic": Hamiltonian(interpolation="smoothing"),
}
DRIFT_COLUMNS = (
    "tensors", "scheme", "integrator", "step (voxel)", "precision", "p50", "p99", "max", "reference p50 / p99",
)  # fmt: skip
DEVIATION_COLUMNS = (
    "compared", "scheme", "integrator", "p50", "p99", "max", "within 1e-3 voxel", "same number of steps",
)  # fmt: skip
CEILING = 5e-3  # mm^2/s; free water at body temperature has 3e-3
# tracts.md, section 2.3, last row (real DWI, D^-1, double): p50 and p99 by scheme, integrator, step in voxels
REFERENCE = {
    ("seed's scheme", "rk2", 0.2): (0.68, 4.0),
    ("seed's scheme", "rk4", 0.2): (0.68, 4.0),
    ("seed's scheme", "rk2", 0.05): (0.69, 4.4),
    ("seed's scheme", "rk4", 0.05): (0.69, 4.4),
    ("hamiltonian, linear", "rk4", 0.1): (0.036, 0.28),
    ("hamiltonian, cubic", "rk4", 0.2): (3.9e-5, 2.0e-4),
    ("hamiltonian, cubic", "rk4", 0.05): (5.8e-7, 3.2e-6),
}


def at_step(settings: TensorGeodesic, voxel_mm: float, step_voxels: float, fa_stop: float) -> TensorGeodesic:
    """The same path length with another step."""
    steps = round(PATH_VOXELS / step_voxels)
    return replace(
        settings,
        step_mm=step_voxels * voxel_mm,
        max_steps=steps,
        max_length_mm=2 * PATH_VOXELS * voxel_mm,
        min_length_mm=0.0,
        fa_stop=fa_stop,
        eigenvalue_ceiling_mm2_per_s=1e3,  # off: the rows differ in their tensors, "capped" has the default's ceiling
    )


def capped(field: TensorField) -> TensorField:
    """The same tensors with eigenvalues of at most `CEILING`: a voxel whose b = 0 signal is 0 has no sane tensor."""
    tensors = compose(np.minimum(field.eigen.values, CEILING), field.eigen.vectors)
    return TensorField(tensors=np.where(field.mask[..., None], tensors, 0), mask=field.mask, affine=field.affine)


def drift_rows(
    label: str, field: TensorField, seeds: Array, device: Device, fa_stop: float, precisions: tuple[str, ...]
) -> Iterator[Row]:
    """p50, p99 and the largest drift, one row for each scheme, integrator, step and precision."""
    voxel_mm = float(field.voxel_sizes_mm.min())
    for precision, (name, scheme), integrator, step in itertools.product(
        precisions, SCHEMES.items(), ("rk2", "rk4"), STEPS_VOXELS
    ):
        settings = at_step(replace(scheme, integrator=integrator, precision=precision), voxel_mm, step, fa_stop)
        fibers = track(field, seeds, FORWARD, settings, device=device)
        drift = fibers.per_fiber["drift"].astype(np.float64)
        finite = drift[np.isfinite(drift)]
        p50, p99 = np.percentile(finite, [50, 99])
        reference = REFERENCE.get((name, integrator, step), (None, None)) if precision == "double" else (None, None)
        yield {
            "tensors": label,
            "scheme": name,
            "integrator": integrator,
            "step_voxels": step,
            "precision": precision,
            "fa_stop": fa_stop,
            "device": device.describe(),
            "rays": len(drift),
            "not_finite": len(drift) - len(finite),
            "mean_steps": float(fibers.counts.mean() - 1),
            "p50": float(p50),
            "p99": float(p99),
            "max": float(finite.max()),
            "reference_p50": reference[0],
            "reference_p99": reference[1],
        }


def deviation(one: Tractogram, other: Tractogram, voxel_mm: float) -> dict[str, float]:
    """How far two tracings of the same rays come apart, in voxels, step against step."""
    place = {int(seed): n for n, seed in enumerate(other.per_fiber["seed"])}
    worst, same_end = [], 0
    for n, seed in enumerate(one.per_fiber["seed"]):
        if int(seed) not in place:
            continue
        a, b = one[n], other[place[int(seed)]]
        shared = min(len(a), len(b))
        apart = np.linalg.norm(a[:shared].astype(np.float64) - b[:shared], axis=1)
        worst.append(apart.max() / voxel_mm)
        same_end += len(a) == len(b)
    p50, p99 = np.percentile(worst, [50, 99])
    return {
        "rays": len(worst),
        "p50_voxels": float(p50),
        "p99_voxels": float(p99),
        "max_voxels": float(np.max(worst)),
        "within_1e-3_voxel": float(np.mean(np.array(worst) <= 1e-3)),
        "same_length": same_end / len(worst),
    }


def deviation_rows(field: TensorField, seeds: Array, device: Device, fa_stop: float) -> Iterator[Row]:
    """Single against double precision on the CPU over 300 steps of 0.2 voxel, and a GPU's single against the CPU's."""
    voxel_mm = float(field.voxel_sizes_mm.min())
    for (name, scheme), integrator in itertools.product(SCHEMES.items(), ("rk2", "rk4")):
        single = at_step(replace(scheme, integrator=integrator), voxel_mm, 0.2, fa_stop)
        on_cpu = track(field, seeds, FORWARD, single, device=CPU)
        row = {"scheme": name, "integrator": integrator, "fa_stop": fa_stop}
        exact = track(field, seeds, FORWARD, replace(single, precision="double"), device=CPU)
        yield row | {"compared": "CPU single, CPU double"} | deviation(on_cpu, exact, voxel_mm)
        if device.is_gpu:
            on_gpu = track(field, seeds, FORWARD, single, device=device)
            yield row | {"compared": "GPU single, CPU single"} | deviation(on_gpu, on_cpu, voxel_mm)


def drift_line(r: Row) -> str:
    reference = "" if r["reference_p50"] is None else f"{r['reference_p50']:.2g} / {r['reference_p99']:.2g}"
    settings = (r[name] for name in ("tensors", "scheme", "integrator", "step_voxels", "precision"))
    return line(*settings, f"{r['p50']:.2g}", f"{r['p99']:.2g}", f"{r['max']:.2g}", reference)


def deviation_line(r: Row) -> str:
    distances = (f"{r[name]:.2g}" for name in ("p50_voxels", "p99_voxels", "max_voxels"))
    shares = (f"{100 * r[name]:.1f} %" for name in ("within_1e-3_voxel", "same_length"))
    return line(r["compared"], r["scheme"], r["integrator"], *distances, *shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--fa-stop", type=float, default=0.0)
    parser.add_argument("--brain", type=Path, metavar="NPZ", help="see fibers_speed.py --export-brain")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    arguments = parser.parse_args()
    brain, stop = load_brain(arguments.brain), arguments.fa_stop
    if isinstance(brain, str):
        raise SystemExit(brain)
    device, seeds = choose_device(arguments.device), white_matter_seeds(brain.field, arguments.seeds)
    method = (
        f"Metric D^-1, {len(seeds)} seeds in white matter, along v1, {PATH_VOXELS:g} voxels at most, brain mask, FA "
        f"stop {stop:g}, {device.describe()}. Capped: eigenvalues of at most {CEILING:g} mm^2/s."
    )
    facts = header(quick=False)
    path = result_path(arguments.json, "fibers_accuracy", facts["date"], device)
    report = Report(path, "Accuracy of fibers on the real brain", facts, method)
    fields = {"as fitted": brain.field, "capped": capped(brain.field)}
    drifts = [r for name, field in fields.items() for r in drift_rows(name, field, seeds, device, stop, PRECISIONS)]
    title = "Drift: largest relative change of g(v, v) along a ray, over the rays"
    report.add("drift", title, drifts, *table(DRIFT_COLUMNS, [drift_line(r) for r in drifts]))
    deviations = list(deviation_rows(fields["capped"], seeds, device, stop))
    title = "Deviation over 300 steps of 0.2 voxel, capped tensors: largest distance along a ray in voxels"
    report.add("deviation", title, deviations, *table(DEVIATION_COLUMNS, [deviation_line(r) for r in deviations]))
    print(written(path))


if __name__ == "__main__":
    main()
