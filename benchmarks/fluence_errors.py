"""What the error that the cleaned fluence tells is worth: near sources, at absorbers, gaps, the outside, and elsewhere.

Run from anywhere::

    python benchmarks/fluence_errors.py                                # this machine's CPU, a quarter of an hour
    python benchmarks/fluence_errors.py --domains two --data runs      # and keep what was traced for the next call
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from common import Report, argument_parser, header, line, result_path, table
from denoise.error_scenes import DOMAINS, Data, Scene, Tally, data_of, make_scene, places

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.denoise.fluence import FluenceResult, denoise_fluence

COUNTS = {100_000: 8, 1_000_000: 6}  # runs of so many photons
MODES = ("guided", "one buffer", "without guide")
COLUMNS = ("place", "voxels", *(f"{mode}: gain, reported / true" for mode in MODES))
HOW_TO_READ = (
    "Voxels with more signal than noise. Gain of relative mean squared error in dB; reported over true error, "
    "both root mean squares, relative to the fluence and absolute. *One buffer*: split by the standard error of the "
    "batches. *Without guide*: cut at labels only. The truth's own variance is taken off."
)


def clean(device: Device, scene: Scene, data: Data, photons: int, index: int, mode: str) -> FluenceResult:
    """A run cleaned with what its run knows."""
    domain, halves = scene.domain, data.halves[photons][index]
    table_of_n = np.array([domain.outside_n, *(domain.medium(label).n for label in domain.labels_present)], np.float32)
    known = {"labels": domain.labels, "mask": domain.labels > 0, "voxel_size_mm": tuple(domain.voxel_sizes_mm)}
    if mode != "without guide":
        known |= {"guide": data.guide, "refractive_index": table_of_n[domain.ranks]}
    if mode == "one buffer":
        known["noise"] = data.errors[photons][index]
        return denoise_fluence(halves.mean(axis=0), device=device, **known)
    return denoise_fluence(*halves, device=device, **known)


def run_domain(report: Report, arguments: argparse.Namespace, device: Device, name: str) -> None:
    scene, data = make_scene(name), data_of(name, COUNTS, int(arguments.truth_photons), device, arguments.data)
    for photons, halves in data.halves.items():
        tallies = {mode: Tally(data) for mode in MODES}
        for mode, tally in tallies.items():
            for index, pair in enumerate(halves):
                found = clean(device, scene, data, photons, index, mode)
                tally.add(pair.mean(axis=0), found.image, found.noise)
        rows = {
            place: {mode: tally.figures(where) for mode, tally in tallies.items()}
            for place, where in places(scene, data, photons).items()
        }
        title = f"{name}, {photons:,} photons, {len(halves)} runs, truth of {data.truth_photons:,}"
        lines = [line(place, row[MODES[0]]["voxels"], *map(_cell, row.values())) for place, row in rows.items()]
        report.add(f"{name} {photons:.0e}", title, rows, f"{DOMAINS[name]}.", "", *table(COLUMNS, lines))


def _cell(row: dict[str, float]) -> str:
    return f"{row['gain']:.1f}, {row['reported_over_true']:.2f}, {row['reported_over_true_absolute']:.2f}"


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=list(DOMAINS), metavar="DOMAIN")
    parser.add_argument("--truth-photons", type=float, default=1.5e7)
    parser.add_argument("--data", type=Path, help="folder in which runs are kept from one call to the next")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    device = choose_device(arguments.device)
    facts = header(quick=False) | {"device": device.describe()}
    path = result_path(arguments.json, "fluence_errors", facts["date"], device)
    report = Report(
        path, "The error that the cleaned fluence tells", facts, f"Device: {facts['device']}. {HOW_TO_READ}"
    )
    report.run({name: partial(run_domain, report, arguments, device, name) for name in arguments.domains})


if __name__ == "__main__":
    main()
