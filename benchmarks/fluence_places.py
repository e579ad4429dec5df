"""The fluence filter by place and number of photons, beside the filter without a guide and BM4D.

Run from anywhere::

    python benchmarks/fluence_places.py --device cuda:0

A GPU machine needs NumPy, SciPy, Numba and CuPy only; BM4D takes part where it can be imported, in the first runs.
"""

import argparse
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Array, Report, argument_parser, ends_after, header, line, missing, result_path, table
from denoise import peers
from denoise.domains import Pair
from denoise.filters import on_anscombe
from denoise.places import CUBES, GATES_NS, SCENES, Apply, Scene, Tally, guide_of, make_scene, places, trace, truth_of

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.denoise.fluence import denoise_fluence
from napari_gpubio.denoise.run import denoise

TRUTH_PHOTONS = {"cpu": 10**7, "cuda": 10**9}
PEER = "BM4D, Anscombe"
ALL = (*CUBES, *SCENES, *GATES_NS)
COLUMNS = ("place", "voxels", "raw signal / noise", "filter", "error gain", "bias", "SNR gain", "error reported / true")
HOW_TO_READ = (
    "Voxels whose raw signal / noise is 0 to 60 dB and whose truth is known to 10 %. Gains and bias in dB of 20 log10 "
    "of fluence: of the relative mean squared error (the truth's own error taken off), of the mean, and, as published "
    "for learned filters, of signal / noise, which does not see the bias. *Without guide*: cut at labels, capped by "
    "the effective attenuation."
)


def anlm(device: Device, _: Scene, pair: Pair, __: Array) -> tuple[Array, Array | None]:
    return denoise(pair.whole, device=device).image, None


def without_guide(device: Device, scene: Scene, pair: Pair, _: Array) -> tuple[Array, Array | None]:
    attenuation = np.zeros(256)
    for medium in scene.domain.media:
        mua = medium.mua_per_mm
        attenuation[medium.label] = np.sqrt(3 * mua * (mua + medium.musp_per_mm))
    labels, sizes = scene.domain.labels, tuple(scene.domain.voxel_sizes_mm)
    limit = np.maximum(attenuation[labels], 1e-6)
    found = denoise_fluence(*pair, labels=labels, mueff_per_mm=limit, voxel_size_mm=sizes, device=device)
    return found.image, found.noise


def guided(device: Device, scene: Scene, pair: Pair, guide: Array) -> tuple[Array, Array | None]:
    domain = scene.domain
    index = np.zeros(256)
    for medium in domain.media:
        index[medium.label] = medium.n
    found = denoise_fluence(
        *pair, labels=domain.labels, guide=guide, refractive_index=index[domain.labels],
        voxel_size_mm=tuple(domain.voxel_sizes_mm), device=device,
    )  # fmt: skip
    return found.image, found.noise


def bm4d(scene: Scene, pair: Pair, _: Array) -> tuple[Array, Array | None]:
    """Of the voxels that are looked at only, since it takes half a minute for 100^3."""
    values = pair.whole.copy()
    cropped = Pair(*(half[scene.crop] for half in pair))
    values[scene.crop] = on_anscombe(cropped, lambda volume: peers.bm4d_denoise(volume, 1.0))
    return values, None


def make_filters(device: Device) -> dict[str, Apply]:
    found = {name: partial(apply, device) for name, apply in
             {"anlm": anlm, "without guide": without_guide, "guided": guided}.items()}  # fmt: skip
    return found if missing(peers.PACKAGES, "BM4D") else {**found, PEER: bm4d}


def run_scene(report: Report, arguments: argparse.Namespace, device: Device, name: str) -> None:
    scene, filters = make_scene(name), make_filters(device)
    truth, guide = truth_of(name, int(arguments.truth_photons), device, arguments.truths), guide_of(scene, device)
    for photons in map(int, arguments.photons):
        raw, tallies, seconds = Tally(truth), {one: Tally(truth) for one in filters}, dict.fromkeys(filters, 0.0)
        for index in range(arguments.runs):
            if time.monotonic() > arguments.ends and index >= 2:
                break
            pair = trace(scene, photons, index + 1, device)
            raw.add(pair.whole)
            for one, apply in filters.items():
                if one != PEER or index < arguments.peer_runs:
                    begun = time.perf_counter()
                    tallies[one].add(*apply(scene, pair, guide))
                    seconds[one] += time.perf_counter() - begun
        raw_db = truth.raw_db(photons)
        where = places(scene, raw_db)
        rows = {
            place: {one: tally.figures(raw, inside) for one, tally in tallies.items() if tally.count}
            for place, inside in where.items()
        }
        levels = {place: float(np.median(raw_db[inside])) for place, inside in where.items()}
        each = ", ".join(f"{one} {seconds[one] / max(1, tallies[one].count):.3g} s" for one in filters)
        title = f"{name}, {photons:,} photons, {raw.count} runs"
        found = {"runs": raw.count, "places": rows, "raw_db": levels, "truth_photons": truth.photons}
        lines = [_line(place, levels[place], one, row) for place, each in rows.items() for one, row in each.items()]
        report.add(f"{name} {photons:.0e}", title, found, f"Seconds a call: {each}.", "", *table(COLUMNS, lines))


def _line(place: str, level: float, name: str, row: Mapping[str, Any]) -> str:
    reported = f"{row['error_reported_over_true']:.2f}" if "error_reported_over_true" in row else ""
    gains = (f"{row['error_gain']:.1f}", f"{row['bias']:+.2f}", f"{row['snr_gain']:.1f}")
    return line(place, row["voxels"], f"{level:.0f} dB", name, *gains, reported)


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--scenes", nargs="+", choices=ALL, default=ALL, metavar="SCENE", help=", ".join(ALL))
    parser.add_argument("--photons", nargs="+", type=float, default=(1e5, 1e4, 1e6), help="of a run")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--peer-runs", type=int, default=2, help="in which BM4D takes part")
    parser.add_argument("--truth-photons", type=float, help="1e7, on a GPU 1e9")
    parser.add_argument("--truths", type=Path, help="folder in which truths are kept from one call to the next")
    parser.add_argument("--minutes", type=float, help="begin no further run after that many minutes")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    device = choose_device(arguments.device)
    arguments.truth_photons = arguments.truth_photons or TRUTH_PHOTONS[device.kind]
    arguments.ends = ends_after(arguments.minutes)
    facts = header(quick=False) | {"device": device.describe()}
    path = result_path(arguments.json, "fluence_places", facts["date"], device)
    report = Report(path, "The fluence filter by place", facts, f"Device: {facts['device']}. {HOW_TO_READ}")
    report.run({name: partial(run_scene, report, arguments, device, name) for name in arguments.scenes})


if __name__ == "__main__":
    main()
