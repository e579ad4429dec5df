"""How right Jacobians by replay are, and what they cost: a published ring, finite differences, errors, speed, MCX.

Run from anywhere::

    python benchmarks/light_jacobians.py                     # this machine's CPU
    python benchmarks/light_jacobians.py --device cuda:0     # a GPU: a hundred times as many photons; beside pmcx
    python benchmarks/light_jacobians.py --parts ring speed

A GPU machine needs NumPy, SciPy, Numba and CuPy only.
"""

import dataclasses
import time
from functools import partial
from typing import Any

import numpy as np
from common import Report, argument_parser, ends_after, header, line, result_path, table
from light import jacobians as cases

from napari_gpubio.core.device import choose_device
from napari_gpubio.probes.jacobians.model import Jacobians
from napari_gpubio.probes.jacobians.replay import replay
from napari_gpubio.probes.trajectories import trajectories

PARTS = ("ring", "differences", "scattering", "spread", "speed", "pmcx")
GPU_TIMES = 100


def run_ring(report: Report, device: str, photons: int) -> None:
    case = cases.ring()
    begun = time.perf_counter()
    result = cases.run(case, photons, device, seed=8)
    between = time.perf_counter()
    found = replay(result, detectors=["ring"], device=device)
    ended = time.perf_counter()
    rows = []
    for coefficient, reference in cases.RING.items():
        part = found.of(coefficient)
        for layer, (expected, error) in enumerate(reference):
            value, own = part.label_sums[0, layer], part.label_errors[0, layer]
            z = (value - expected) / np.hypot(own, error)
            rows.append({"coefficient": coefficient, "layer": layer + 1, "value": value, "error": own,
                         "reference": expected, "reference_error": error, "z": z})  # fmt: skip
    intensity = found.of()
    sentence = (
        f"{photons:,} photons in {between - begun:.2f} s, {len(result.detected.of(1)):,} on the ring, replayed in "
        f"{ended - between:.2f} s. Intensity {intensity.measured[0]:.5e} ± {intensity.measured_error[0]:.1e}; an "
        "independent program 1.3836e-2 ± 1.2e-5."
    )
    lines = [
        line(r["coefficient"], r["layer"], f"{r['value']:.3f} ± {r['error']:.3f}",
             f"{r['reference']:.3f} ± {r['reference_error']:.3f}", f"{r['z']:+.2f}")
        for r in rows
    ]  # fmt: skip
    columns = ("by", "layer", "replay, mm", "other program, mm", "z")
    report.add("ring", "A ring on a half-space of three layers", rows, sentence, "", *table(columns, lines))


def run_differences(report: Report, device: str, photons: int) -> None:
    """Absorption of a tissue, a little more and a little less; without roulette photons keep their paths."""
    rows = []
    for name, case, labels in cases.differences():
        base, *others = (cases.run(cases.absorbing(case, labels, step), photons, device) for step in (0.0, -1, 1))
        reached = [d for d in range(len(case.detectors)) if len(base.detected.of(d)) >= 50]
        found = replay(base, of=("mua",), mean_time=True, detectors=reached, device=device)
        for measure in ("ln_intensity", "mean_time"):
            part = found.of("mua", measure)
            for d, estimate in zip(reached, found.region(part, labels), strict=True):
                low, high = (cases.measured(other.detected.of(d), measure) for other in others)
                difference = (high - low) / (2 * cases.STEP_PER_MM)
                rows.append({"case": name, "detector": d, "measure": measure, "replay": estimate.value,
                             "error": estimate.error, "difference": difference})  # fmt: skip
    lines = []
    for name in dict.fromkeys(r["case"] for r in rows):
        for measure in ("ln_intensity", "mean_time"):
            own = [r for r in rows if (r["case"], r["measure"]) == (name, measure)]
            relative = max(abs(r["replay"] / r["difference"] - 1.0) for r in own)
            z = max(abs(r["replay"] - r["difference"]) / r["error"] for r in own)
            lines.append(line(name, measure, len(own), f"{relative:.1e}", f"{z:.3f}"))
    sentence = (
        f"{photons:,} photons a run; mu_a of the tissue ± {cases.STEP_PER_MM:g} per mm, the same photons on the same "
        "ways. The largest relative difference of all pairs, and the largest in standard errors of the Jacobian."
    )
    columns = ("case", "of", "pairs", "largest relative difference", "largest |z|")
    report.add("differences", "Absorption: finite differences", rows, sentence, "", *table(columns, lines))


def run_scattering(report: Report, device: str, photons: int) -> None:
    """Other photons with other scattering: independent runs, 5 % less and more."""
    factor, rows = 1.05, []
    for number, (name, case, label) in enumerate(cases.scattering()):
        base = replay(cases.run(case, photons, device), of=("mus",), mean_time=True, device=device)
        low, high = (
            replay(
                cases.run(cases.scattered(case, label, scale), photons, device, seed=10 * number + seed),
                of=("mus",), mean_time=True, device=device,
            )
            for seed, scale in ((11, 1 / factor), (12, factor))
        )  # fmt: skip
        step = case.domain.medium(label).mus_per_mm * (factor - 1 / factor)
        for measure in ("ln_intensity", "mean_time"):
            rows += difference_rows(name, (base, low, high), measure, label, step)
    lines = [
        line(r["case"], r["channel"], r["measure"], f"{r['expected']:+.4f} ± {r['expected_error']:.4f}",
             f"{r['found']:+.4f} ± {r['found_error']:.4f}", f"{r['z']:+.2f}")
        for r in rows
    ]  # fmt: skip
    z = np.array([r["z"] for r in rows])
    sentence = f"{photons:,} photons a run. {len(z)} comparisons: mean z {z.mean():+.2f}, sd {z.std(ddof=1):.2f}."
    columns = ("case", "pair", "of", "first order", "independent runs", "z")
    report.add("scattering", "Scattering: independent runs", rows, sentence, "", *table(columns, lines))


def difference_rows(
    name: str, runs: tuple[Jacobians, Jacobians, Jacobians], measure: str, label: int, step: float
) -> list[dict[str, Any]]:
    base, low, high = (one.of("mus", measure) for one in runs)
    column, rows = runs[0].labels.index(label), []
    for index, channel in enumerate(runs[0].channels):
        values = [part.measured[index] for part in (low, high)]
        errors = [part.measured_error[index] for part in (low, high)]
        if measure == "ln_intensity":
            values, errors = list(np.log(values)), [e / v for e, v in zip(errors, values, strict=True)]
        expected = base.label_sums[index, column] * step
        expected_error = base.label_errors[index, column] * step
        found, found_error = values[1] - values[0], float(np.hypot(*errors))
        z = (found - expected) / np.hypot(found_error, expected_error)
        rows.append({"case": name, "channel": channel.name, "measure": measure, "expected": expected,
                     "expected_error": expected_error, "found": found, "found_error": found_error, "z": z})  # fmt: skip
    return rows


def run_spread(report: Report, device: str, photons: int, seeds: int) -> None:
    case = cases.slab()
    case = dataclasses.replace(case, detectors=case.detectors[:3])
    runs = [
        replay(cases.run(case, photons, device, seed=100 + seed), mean_time=True, gates_ns=(0.0, 0.05, 0.3),
               frequency_mhz=300.0, device=device)
        for seed in range(seeds)
    ]  # fmt: skip
    rows = [cases.spread_row(runs, number) for number in range(len(runs[0].parts))]
    lines = [
        line(r["part"], r["voxels"], *(f"{r[name]:.3f}" for name in ("voxel_ratio", "label_ratio", "measured_ratio")))
        for r in rows
    ]
    sentence = (
        f"{seeds} seeds of {photons:,} photons, three detectors: spread over claimed error (root mean squares), of "
        "voxels that are known within a third, of sums over labels, and of the measurement itself."
    )
    columns = ("part", "voxels", "of voxels", "of labels", "of the measurement")
    report.add("spread", "What the errors are worth", rows, sentence, "", *table(columns, lines))


def run_speed(report: Report, device: str, photons: int) -> None:
    case = cases.head()
    cases.run(case, photons // 100, device)
    begun = time.perf_counter()
    result = cases.run(case, photons, device)
    forward = time.perf_counter() - begun
    detectors = sorted(set(result.detected.detector.tolist()))
    rows: list[dict[str, Any]] = [{"what": "forward run", "seconds": forward, "photons": photons}]
    works: dict[str, Any] = {
        "intensity by mua": partial(replay, of=("mua",)),
        "intensity by mua and mus": replay,
        "intensity, mean time, amplitude, phase by mua and mus": partial(replay, mean_time=True, frequency_mhz=100.0),
        "intensity in ten gates by mua": partial(replay, of=("mua",), gates_ns=tuple(np.linspace(0, 2, 11))),
    }
    for name, work in works.items():
        work(result, detectors=detectors[:1], device=device)
        begun = time.perf_counter()
        work(result, detectors=detectors, device=device)
        rows.append({"what": name, "seconds": time.perf_counter() - begun, "photons": len(result.detected)})
    trajectories(result, most_photons=10, device=device)
    begun = time.perf_counter()
    found = trajectories(result, device=device)
    rows.append({"what": "trajectories", "seconds": time.perf_counter() - begun, "photons": len(found)})
    lines = [line(r["what"], f"{r['photons']:,}", f"{r['seconds']:.3f}", f"{r['seconds'] / forward:.2e}") for r in rows]
    sentence = f"Head, {len(detectors)} detectors with {len(result.detected):,} photons; whole calls after a warm-up."
    columns = ("what", "photons", "s", "of the forward run")
    report.add("speed", "What it costs", rows, sentence, "", *table(columns, lines))


def run_pmcx(report: Report, device: str, photons: int) -> None:
    if not choose_device(device).is_gpu:
        report.add("pmcx", "Beside MCX's replay", None, "pmcx needs a GPU; so does the comparison (--device cuda:0).")
        return
    try:
        import pmcx
    except ImportError as error:
        report.add("pmcx", "Beside MCX's replay", None, f"pmcx cannot be imported ({error}).")
        return
    case, repeats = cases.cube(), 8
    ours = replay(cases.run(case, photons, device), device=device)
    peers = [cases.mcx_replay(pmcx, case, photons, seed) for seed in range(1, repeats + 1)]
    rows = []
    for coefficient in ("mua", "mus"):
        part = ours.of(coefficient)
        theirs = np.array([peer[coefficient] for peer in peers])
        for column, label in enumerate(ours.labels):
            mean, error = theirs[:, column].mean(), theirs[:, column].std(ddof=1) / np.sqrt(repeats)
            own, own_error = part.label_sums[0, column], part.label_errors[0, column]
            rows.append({"coefficient": coefficient, "label": label, "ours": own, "ours_error": own_error, "mcx": mean,
                         "mcx_error": error, "z": (own - mean) / np.hypot(own_error, error)})  # fmt: skip
    voxels = np.array([peer["voxels"] for peer in peers])
    joint = np.hypot(ours.of("mua").errors[0], voxels.std(axis=0, ddof=1) / np.sqrt(repeats))
    enough = voxels.mean(axis=0) < -5 * voxels.std(axis=0, ddof=1)
    z = ((ours.of("mua").values[0] - voxels.mean(axis=0)) / joint)[enough]
    lines = [
        line(r["coefficient"], r["label"], f"{r['ours']:.3f} ± {r['ours_error']:.3f}",
             f"{r['mcx']:.3f} ± {r['mcx_error']:.3f}", f"{r['z']:+.2f}")
        for r in rows
    ]  # fmt: skip
    sentence = (
        f"{photons:,} photons; {repeats} runs of MCX. Its P counts events only: by mu_s it is P / mu_s less J. Voxels "
        f"by mu_a that MCX knows within a fifth ({enough.sum():,}): mean z {z.mean():+.3f}, sd {z.std(ddof=1):.3f}."
    )
    columns = ("by", "layer", "ours, mm", "MCX, mm", "z")
    report.add("pmcx", "Beside MCX's replay", rows, sentence, "", *table(columns, lines))


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true", help="a tenth of the photons")
    parser.add_argument("--minutes", type=float, help="begin no further part after so many")
    arguments = parser.parse_args()
    chosen = choose_device(arguments.device)
    many = (GPU_TIMES if chosen.is_gpu else 1) / (10 if arguments.quick else 1)
    facts, over = header(arguments.quick), ends_after(arguments.minutes)
    report = Report(
        result_path(arguments.json, "light_jacobians", facts["date"], chosen),
        "Jacobians by replay",
        facts,
        f"On {chosen.describe()}.",
    )
    works = {
        "ring": partial(run_ring, report, arguments.device, int(1_000_000 * many)),
        "differences": partial(run_differences, report, arguments.device, int(100_000 * many)),
        "scattering": partial(run_scattering, report, arguments.device, int(300_000 * many)),
        "spread": partial(run_spread, report, arguments.device, int(10_000 * many), 24 if arguments.quick else 100),
        "speed": partial(run_speed, report, arguments.device, int(1_000_000 * many)),
        "pmcx": partial(run_pmcx, report, arguments.device, int(1_000_000 * many)),
    }
    report.run({name: works[name] for name in arguments.parts}, lambda: time.monotonic() > over)
