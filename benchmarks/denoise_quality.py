"""Quality of the denoise engine on Monte Carlo fluence and on a scan, beside peers; see `benchmarks/README.md`.

Run from anywhere::

    python benchmarks/denoise_quality.py --data folder                 # runs that were stored before
    python benchmarks/denoise_quality.py --device cuda:0 --store folder   # trace them here, and keep them
    python benchmarks/denoise_quality.py --parts mri --mni crop.npz    # the scan alone
    python benchmarks/denoise_quality.py --draw planes.npz             # a picture alone, from an earlier run's file

A GPU machine needs NumPy, SciPy, Numba and CuPy only; DIPY, ANTs and BM4D take part where they can be imported, and
pictures need Pillow.
"""

import argparse
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import speed
from common import Array, Report, compact, ends_after, header, result_path, table, versions
from denoise import mri, peers, picture
from denoise.domains import DOMAINS, Runs, SimulatedRuns, StoredRuns, store, tissue_of
from denoise.filters import Filter, make_filters
from denoise.metrics import COLUMNS, FEWEST_RUNS, Comparison, equivalent_photons, quality_line

from napari_gpubio.core.device import choose_device

PARTS = ("fluence", "mri", "pictures")
TRUTH_PHOTONS = {"cpu": 10**7, "cuda": 10**9}
HOW_TO_READ = (
    "Each cell: gain of signal / noise, bias, and gain of the relative mean squared error, dB, pooled over the voxels "
    "whose raw signal / noise is in that bin; the last columns: median over voxels of their own gains (over those "
    "above 3 dB). Noise is the spread over independent runs. The first line is the raw mean beside the truth: biases "
    "as small as its own mean nothing. *Anscombe*: on stabilized fluence. Peers run on the CPU."
)
SHOWN = ("B1", 10**6)
PICTURED_FILTERS = ("anlm", "fluence")
MRI_PICTURED = "the same, mean of both patches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(speed.Plan):
    """What to run, where, and until when."""

    runs: Runs
    count: int
    photons: tuple[int, ...]
    domains: tuple[str, ...]
    only: tuple[str, ...]
    mni: Path | None
    realizations: int

    def chosen(self, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Filters whose names hold one of the words that were given."""
        return {name: made for name, made in filters.items() if not self.only or any(w in name for w in self.only)}


# ------------------------------------------------------------------------------------------------------------- fluence
def run_fluence(report: Report, plan: Plan) -> None:
    filters = plan.chosen(make_filters(plan.device))
    report.add("how", "Fluence", {"columns": COLUMNS}, HOW_TO_READ)
    for domain in plan.domains:
        for photons in plan.photons:
            if not plan.time_is_up:
                _compare(report, plan, filters, domain, photons)


def _compare(report: Report, plan: Plan, filters: Mapping[str, Filter], domain: str, photons: int) -> None:
    count = min(plan.count, plan.runs.available(domain, photons))
    name, title = f"{domain} {photons:.0e}", f"{domain}, {photons:,} photons: {DOMAINS[domain]}"
    if count < FEWEST_RUNS:
        report.add(name, title, None, "No runs of these.")
        return
    comparison = Comparison(filters, plan.runs.truth(domain))
    for index in range(count):
        comparison.run(plan.runs, domain, photons, index)
        if plan.time_is_up and index + 1 >= FEWEST_RUNS:
            break
    rows = comparison.rows()
    equivalent = equivalent_photons(rows[1:], photons)
    listed = ", ".join(f"{filter_} {compact(number)}".strip() for filter_, number in equivalent.items())
    found = {"runs": comparison.raw.count, "rows": rows, "equivalent_photons": equivalent}
    report.add(
        name, title, found, f"{comparison.raw.count} runs.", "", *table(COLUMNS, [quality_line(r) for r in rows]), "",
        f"Photons that an unfiltered run needs for the same squared error: {listed}.",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- scan
def run_mri(report: Report, plan: Plan) -> None:
    scan = _scan(plan)
    if scan is None:
        report.add("mri", "Scan", None, "No template: --mni, or pip install nilearn.")
        return
    rows = list(mri.rows(scan, plan.chosen(mri.make_filters(plan.device)), plan.realizations))
    sentence = (
        f"MNI152 T1, 60^3 voxels of 1 mm, at 5/6 of its brightness, peak 255, Rician noise with sigma "
        f"{scan.sigma.min():.1f} to {scan.sigma.max():.1f} (mean {scan.sigma.mean():.1f}), {plan.realizations} "
        "realizations. PSNR in dB; halves by the median of sigma. *Reference*: measured elsewhere in a like setting; "
        f"target {mri.TARGET} there."
    )
    report.add("mri", "Scan", rows, sentence, "", *table(mri.COLUMNS, [mri.mri_line(r) for r in rows]))


def _scan(plan: Plan) -> mri.Scan | None:
    path = plan.mni or mri.find_template()
    return None if path is None or not path.is_file() else mri.read_scan(path)


# ------------------------------------------------------------------------------------------------------------ pictures
def run_pictures(report: Report, plan: Plan) -> None:
    """Planes of one run and of one realization, and pictures of them where Pillow is."""
    written = [_written(report.path, kind, found) for kind, found in _planes(plan)]
    report.add("pictures", "Pictures", written, f"Planes: {', '.join(written) or 'none'}.")


def _planes(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    domain, photons = SHOWN
    if plan.runs.available(domain, photons):
        yield "fluence", fluence_planes(plan, domain, photons)
    if (scan := _scan(plan)) is not None:
        yield "mri", scan_planes(plan, scan)


def fluence_planes(plan: Plan, domain: str, photons: int) -> dict[str, Any]:
    """The plane through the beam: raw, filtered, and the truth."""
    pair = plan.runs.run(domain, photons, 0)
    volumes: dict[str, Array] = {"raw": pair.whole}
    filters = make_filters(plan.device)
    for name in PICTURED_FILTERS:
        if not filters[name].missing:
            volumes[name] = filters[name].apply(pair, tissue_of(domain))
    volumes["truth"] = plan.runs.truth(domain)
    middle = pair.first.shape[1] // 2
    planes = np.stack([volume[:, middle] for volume in volumes.values()]).astype(np.float32)
    return {"heading": f"{domain}, {photons:,} photons", "titles": list(volumes), "planes": planes}


def scan_planes(plan: Plan, scan: mri.Scan) -> dict[str, Any]:
    """An axial plane: the scan, its noisy self, the filtered one, and what was taken off."""
    noisy, apply = scan.realization(0), mri.make_filters(plan.device)[MRI_PICTURED]
    assert not isinstance(apply, str)
    found = apply(noisy, scan.sigma)
    volumes = {"noisy": noisy, "filtered": found, "removed: noisy - filtered": noisy - found, "truth": scan.truth}
    planes = np.stack([volume[:, :, volume.shape[2] // 2] for volume in volumes.values()]).astype(np.float32)
    return {"heading": f"MNI152 T1, Rician noise; {MRI_PICTURED}", "titles": list(volumes), "planes": planes}


def _written(path: Path, kind: str, found: dict[str, Any]) -> str:
    npz = path.with_name(f"{path.stem.replace('quality', kind)}.npz")
    npz.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(npz, **found)
    return npz.name if importlib.util.find_spec("PIL") is None else draw_again(npz).name


def draw_again(path: Path) -> Path:
    """Draw the picture of a file of planes, and return where it is."""
    draw = picture.draw_scan if "_mri_" in path.name else picture.draw_fluence
    with np.load(path) as found:
        draw(dict(found), path.with_suffix(".png"))
    return path.with_suffix(".png")


# ---------------------------------------------------------------------------------------------------------------- main
def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0 or cuda:all; of ours")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--domains", nargs="+", choices=tuple(DOMAINS), default=tuple(DOMAINS))
    parser.add_argument("--photons", nargs="+", type=float, default=(1e6, 1e5, 1e7), help="of a run")
    parser.add_argument("--runs", type=int, default=20, help="of each domain and number of photons, at most")
    parser.add_argument("--realizations", type=int, default=8, help="of the scan's noise")
    parser.add_argument("--only", nargs="+", default=(), metavar="WORD", help="filters whose names hold such a word")
    parser.add_argument("--data", type=Path, help="folder of stored runs; without, they are traced on the device")
    parser.add_argument("--store", type=Path, help="folder to write the traced runs to; nothing else is done")
    parser.add_argument("--truth-photons", type=float, help="of the run that is compared with; 1e7, on a GPU 1e9")
    parser.add_argument("--mni", type=Path, help="the template (.nii.gz) or a crop of it (.npz)")
    parser.add_argument("--write-crop", type=Path, metavar="NPZ", help="write the template's crop and do nothing else")
    parser.add_argument("--minutes", type=float, help="begin nothing more after that many minutes")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    parser.add_argument("--draw", type=Path, metavar="NPZ", help="draw the planes of an earlier run, nothing else")
    return parser.parse_args()


def make_plan(arguments: argparse.Namespace) -> Plan:
    device = choose_device(arguments.device)
    truth_photons = int(arguments.truth_photons or TRUTH_PHOTONS[device.kind])
    return Plan(
        device=device,
        runs=StoredRuns(arguments.data) if arguments.data else SimulatedRuns(device, truth_photons),
        count=arguments.runs,
        photons=tuple(map(int, arguments.photons)),
        domains=tuple(arguments.domains),
        only=tuple(arguments.only),
        mni=arguments.mni,
        realizations=arguments.realizations,
        ends=ends_after(arguments.minutes),
    )


def main() -> None:
    arguments = parsed()
    plan = make_plan(arguments)
    if arguments.draw:
        print(f"written: {draw_again(arguments.draw)}")
    elif arguments.write_crop:
        scan = _scan(plan)
        assert scan is not None, "no template: --mni FILE"
        mri.write_crop(scan, arguments.write_crop)
    elif arguments.store:
        for domain in plan.domains:
            print(f"written: {store(plan.runs, domain, plan.photons, plan.count, arguments.store)}", flush=True)
    else:
        facts = header(quick=False) | {"device": plan.device.describe(), "peers": versions(peers.PACKAGES)}
        path = result_path(arguments.json, "denoise_quality", facts["date"], plan.device)
        listed = ", ".join(f"{name} {version}" for name, version in facts["peers"].items())
        ours = f"Device: {facts['device']}. Peers: {listed or 'none is installed'}."
        report = Report(path, "Quality of the denoise engine", facts, ours)
        works = {"fluence": run_fluence, "mri": run_mri, "pictures": run_pictures}
        report.run({part: partial(works[part], report, plan) for part in arguments.parts})


if __name__ == "__main__":
    main()
