"""How right the voxel light engine is: checks with more photons, skin, diffusion theory, errors, time gates, a head.

Run from anywhere::

    python benchmarks/light_accuracy.py                               # this machine's CPU
    python benchmarks/light_accuracy.py --device cuda:0               # a GPU: a hundred times as many photons
    python benchmarks/light_accuracy.py --parts head --head-photons 1000000
    python benchmarks/light_accuracy.py --draw planes.npz             # the picture alone, from an earlier run's file

A GPU machine needs NumPy, SciPy, Numba and CuPy only; the picture needs Pillow.
"""

import argparse
import importlib.util
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, ends_after, header, result_path, table
from light import checks, estimates, gates, head, picture
from light.plan import Plan

from napari_gpubio.core.device import choose_device

PARTS = ("checks", "skin", "spread", "scaling", "energy", "gates", "head")
GPU_TIMES = 200  # as many photons as on a CPU


@dataclass(frozen=True, slots=True)
class Amounts:
    """How many photons each part traces."""

    factor: int
    seeds: int
    repeats: int
    skin: int
    spread: dict[str, int]
    scaling: tuple[int, ...]
    energy: int
    head: int


def amounts(arguments: argparse.Namespace, *, is_gpu: bool) -> Amounts:
    """Photons by device; quick is a tenth."""
    less = 10 if arguments.quick else 1
    more = (GPU_TIMES if is_gpu else 1) / less
    top = (9 if is_gpu else 6) - (1 if arguments.quick else 0)
    return Amounts(
        factor=arguments.photons_factor or max(1, (10 if is_gpu else 2) // less),
        seeds=arguments.seeds,
        repeats=6 if arguments.quick else 16,
        skin=int(300_000 * more),
        spread={"cube60b": int(40_000 * more), "B1": int(10_000 * more)},
        scaling=tuple(10**power for power in range(top - (4 if is_gpu else 3), top + 1)),
        energy=int(20_000 * more),
        head=arguments.head_photons or int((100_000_000 if is_gpu else 500_000) / less),
    )


def run_checks(report: Report, plan: Plan, chosen: Amounts) -> None:
    found = list(checks.check_rows(plan, chosen.factor, range(1, chosen.seeds + 1)))
    failed = sum(not r["passed"] for r in found)
    sentence = (
        f"{chosen.factor} times the photons of `napari-gpubio check`; {len(found) - failed} of {len(found)} pass."
    )
    report.add("checks", "Checks", found, sentence, "", *table(checks.COLUMNS, [checks.check_line(r) for r in found]))


def run_skin(report: Report, plan: Plan, chosen: Amounts) -> None:
    results = estimates.repeated("skin7", plan, chosen.skin, range(1, chosen.seeds + 1))
    found = list(estimates.skin_rows(results))
    sentence = (
        f"Absorbed per photon that entered; {chosen.seeds} seeds of {chosen.skin:,} photons beside 8e8 of CPU-MCML."
    )
    lines = table(estimates.SKIN_COLUMNS, [estimates.skin_line(r) for r in found])
    report.add("skin", "Seven layers of skin", found, sentence, "", *lines)


def run_spread(report: Report, plan: Plan, chosen: Amounts) -> None:
    found: list[dict[str, Any]] = []
    for name, photons in chosen.spread.items():
        results = estimates.repeated(name, plan, photons, range(1, chosen.repeats + 1))
        found += estimates.spread_rows(name, results)
        if name == "cube60b":
            diffusion = estimates.diffusion_table(results)
    counts = ", ".join(f"{name} {photons:,}" for name, photons in chosen.spread.items())
    sentence = (
        f"{chosen.repeats} seeds ({counts} photons each), 16 batches. Ratio: root mean square of the reported error "
        "over that of the spread; 1 is right."
    )
    lines = table(estimates.SPREAD_COLUMNS, [estimates.spread_line(r) for r in found])
    report.add("spread", "Reported errors and the spread over seeds", found, sentence, "", *lines)
    ratio, error = diffusion["region"]["ratio_and_error"]
    sentence = (
        f"cube60b, {diffusion['photons']:,} photons, mean ratio of the voxels in each bin ± its error over the seeds. "
        f"For 8 < rho < 14 mm and 2 < z < 15 mm: {ratio:.4f} ± {error:.4f}."
    )
    lines = table(*estimates.diffusion_lines(diffusion))
    report.add("diffusion", "Fluence over diffusion theory", diffusion, sentence, "", *lines)


def run_scaling(report: Report, plan: Plan, chosen: Amounts) -> None:
    found = estimates.scaling_rows(plan, chosen.scaling)
    exponent = estimates.scaling_exponent(found)
    sentence = (
        f"cube60b. The error falls as N^{exponent:.3f} (expected -0.5); the voxel under the beam keeps its fluence per "
        "photon, so its sum grows in proportion to N."
    )
    lines = table(estimates.SCALING_COLUMNS, [estimates.scaling_line(r) for r in found])
    report.add("scaling", "Error by the number of photons", {"rows": found, "exponent": exponent}, sentence, "", *lines)


def run_energy(report: Report, plan: Plan, chosen: Amounts) -> None:
    found = list(estimates.energy_rows(plan, chosen.energy))
    sentence = f"{chosen.energy:,} photons each, fractions of what was launched."
    lines = table(estimates.ENERGY_COLUMNS, [estimates.energy_line(r) for r in found])
    report.add("energy", "Where the energy goes", found, sentence, "", *lines)


def run_gates(report: Report, plan: Plan, chosen: Amounts) -> None:
    found = list(gates.box_rows(plan.device, chosen.energy))
    sentence = (
        f"A closed box of mirrors, 8 mm, without absorption, {chosen.energy:,} photons: every gate holds (c/n) dt."
    )
    lines = table(gates.BOX_COLUMNS, [gates.box_line(r) for r in found])
    report.add("gates", "Path of light in time gates", found, sentence, "", *lines)
    photons = 100 * chosen.energy
    phases = list(gates.phase_rows(plan.device, photons))
    sentence = f"15 mm of tissue around a source, {photons:,} photons, against the same photons in gates of 1 ps."
    lines = table(gates.PHASE_COLUMNS, [gates.phase_line(r) for r in phases])
    report.add("phases", "Phase of modulated light", phases, sentence, "", *lines)


def run_head(report: Report, plan: Plan, chosen: Amounts, volume: Path | None) -> None:
    result = head.trace_head(plan, chosen.head)
    found, figures = head.planes(result), head.figures(result)
    npz = report.path.with_name(report.path.stem.replace("accuracy", "head") + ".npz")
    npz.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(npz, **found)
    if volume is not None:
        head.write_volume(result, volume)
    files = [npz.name]
    if importlib.util.find_spec("PIL") is not None:
        picture.draw(found, npz.with_suffix(".png"))
        files.append(npz.with_suffix(".png").name)
    known = [f"{name} {100 * share['below_0.1']:.0f} %" for name, share in _known(figures)]
    sentence = (
        f"{figures['photons']:,} photons in {figures['seconds']:.1f} s on {figures['device']}; absorbed "
        f"{figures['energy']['absorbed'][0]:.5f}, sum of the balance less one {figures['imbalance']:+.1e}. Voxels with "
        f"a relative error below 10 %: {', '.join(known)}. Planes: {', '.join(files)}."
    )
    report.add("head", "The head", figures, sentence)


def _known(figures: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    return list(figures["share_of_voxels_by_relative_error"].items())


def draw_again(path: Path) -> None:
    with np.load(path) as found:
        picture.draw(dict(found), path.with_suffix(".png"))
    print(f"written: {path.with_suffix('.png')}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--quick", action="store_true", help="a tenth of the photons")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--photons-factor", type=int, help="of the checks' photons; default 2, on a GPU 10")
    parser.add_argument("--seeds", type=int, default=2, help="of the checks and the skin")
    parser.add_argument("--head-photons", type=int, help="default 5e5, on a GPU 1e8")
    parser.add_argument(
        "--head-volume", type=Path, metavar="NPZ", help="write the head's whole volumes too (tens of MB)"
    )
    parser.add_argument("--minutes", type=float, help="begin no further part after that many minutes")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    parser.add_argument(
        "--draw", type=Path, metavar="NPZ", help="draw the picture of an earlier run and do nothing else"
    )
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    if arguments.draw is not None:
        draw_again(arguments.draw)
        return
    plan = Plan(choose_device(arguments.device), arguments.quick, ends_after(arguments.minutes))
    chosen = amounts(arguments, is_gpu=plan.device.is_gpu)
    facts = header(arguments.quick) | {"device": plan.device.describe()}
    path = result_path(arguments.json, "light_accuracy", facts["date"], plan.device)
    report = Report(path, "Accuracy of the light engine", facts, f"Device: {facts['device']}.")
    works = {
        "checks": run_checks, "skin": run_skin, "spread": run_spread, "scaling": run_scaling, "energy": run_energy,
        "gates": run_gates,
        "head": partial(run_head, volume=arguments.head_volume),
    }  # fmt: skip
    report.run({part: partial(works[part], report, plan, chosen) for part in arguments.parts}, lambda: plan.time_is_up)


if __name__ == "__main__":
    main()
