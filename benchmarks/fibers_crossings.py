"""Geodesics where fibers cross and where they bend: how many keep to their bundle, by model, beside streamlines.

Two straight bundles of FODs, and rings; formulas make both, so the truth is known::

    python benchmarks/fibers_crossings.py [--rays 1000]
"""

import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np
from common import Array, Report, argument_parser, header, limited_threads, line, result_path, table

from napari_gpubio.diffusion.fods.run import find_peaks
from napari_gpubio.diffusion.phantom.crossings import Crossing, Ring, crossing, radius_after, ring_bundle
from napari_gpubio.fibers import Hamiltonian
from napari_gpubio.fibers.metrics import Sharpened
from napari_gpubio.fibers.settings import METHODS, TrackMethod
from tests.fibers.fods.crossing_samples import fan, shares, shoot

ANGLES = (90, 60, 45, 30)
JITTERS_DEG = (0.0, 5.0, 10.0, 15.0)  # standard deviation, in each voxel
RADII = (8, 12, 20, 40)  # of rings, voxels


class Way(NamedTuple):
    """A way of tracing: its name, which field of a sample it reads, and settings."""

    name: str
    field: str
    settings: TrackMethod


def usual(method: str, **changes: Any) -> TrackMethod:
    return METHODS[method](min_length_mm=0.0, **changes)


TENSORS = Hamiltonian(step_mm=0.25, fa_stop=0.1, min_length_mm=0.0)
WAYS = (
    Way("tensor geodesic, D^-1", "tensors", TENSORS),
    Way("tensor geodesic, D^-3", "tensors", dataclasses.replace(TENSORS, metric=Sharpened(power=3.0))),
    Way("fixel geodesic, true fixels", "fixels", usual("fixel_geodesic")),
    Way("fixel geodesic, peaks of the FODs", "peaks", usual("fixel_geodesic")),
    Way("lifted geodesic, guiding cost", "fods", usual("lifted_geodesic")),
    Way("lifted geodesic, shortest, xi 0.2 per mm", "fods", usual("lifted_geodesic", cost="shortest")),
    Way(
        "lifted geodesic, shortest, xi 0.003 per mm, delta 0.1",
        "fods",
        usual("lifted_geodesic", cost="shortest", stiffness_per_mm=0.003, delta=0.1),
    ),
    Way("SD_STREAM", "fods", usual("sd_stream", precision="double")),
    Way("iFOD2", "fods", usual("ifod2")),
)


def field_of(sample: Crossing | Ring, name: str) -> Any:
    return find_peaks(sample.fods, device="cpu") if name == "peaks" else getattr(sample, name)


def crossings(report: Report, count: int) -> None:
    """Shares of a fan of 10 degrees from the end of A that leave by its far end, and that end in B."""
    found, lines = [], []
    for method in WAYS:
        cells = []
        for angle in ANGLES:
            fibers = fan(field_of(crossing(angle), method.field), count, method.settings)
            far, other = shares(fibers, count, angle)
            drift = fibers.per_fiber.get("drift", np.zeros(1))
            found.append(
                {
                    "method": method.name, "angle_deg": angle, "far_end": far, "other_bundle": other,
                    "median_drift": float(np.median(drift)), "largest_drift": float(drift.max(initial=0.0)),
                }
            )  # fmt: skip
            cells.append(f"{100 * far:.1f} / {100 * other:.1f}")
        lines.append(line(method.name, *cells, f"{found[-4]['largest_drift']:.1e}"))
    columns = ["method", *(f"{angle}°" for angle in ANGLES), "largest drift at 90°"]
    title = "Straight bundles that cross: % that leave by the far end of A / that end in B"
    report.add("crossings", title, found, *table(columns, lines))


def jitters(report: Report, count: int) -> None:
    """The same at 60 degrees, where the directions of each voxel are wrong by some degrees."""
    found, lines = [], []
    for method in WAYS:
        cells = []
        for jitter in JITTERS_DEG:
            field = field_of(crossing(60, jitter_deg=jitter), method.field)
            far, other = shares(fan(field, count, method.settings), count, 60)
            along, beside = shares(along_a(field, method.settings, count), count, 60)
            found.append(
                {
                    "method": method.name, "jitter_deg": jitter, "far_end": far, "other_bundle": other,
                    "along_far_end": along, "along_other_bundle": beside,
                }
            )  # fmt: skip
            cells.append(f"{100 * far:.0f} / {100 * other:.0f}; {100 * along:.0f} / {100 * beside:.0f}")
        lines.append(line(method.name, *cells))
    columns = ["method", *(f"{jitter:g}°" for jitter in JITTERS_DEG)]
    title = "Crossing at 60°, errors of directions in each voxel: % by the far end of A / in B; of rays sent along A"
    report.add("jitters", title, found, *table(columns, lines))


def others(report: Report, count: int) -> None:
    """Bundles on which no setting was chosen: other angles, radii, errors and sharper FODs."""
    found, lines = [], []
    for method in WAYS:
        if method.field == "tensors":
            continue
        row: dict[str, Any] = {"method": method.name}
        for angle in (75, 50):
            field = field_of(crossing(angle, jitter_deg=4.0, seed=1, apodized=0.035), method.field)
            row[f"far_end_{angle}"] = shares(fan(field, count, method.settings), count, angle)[0]
            row[f"along_far_end_{angle}"] = shares(along_a(field, method.settings, count), count, angle)[0]
        for radius in (16, 28):
            size = 2 * (radius + 7) + 1
            torus = ring_bundle(float(radius), (size, size, 13), 4.0, round_section=True, apodized=0.035)
            radii = quarter_around(field_of(torus, method.field), radius, method.settings, max(20, count // 5))
            row[f"around_{radius}"] = float(np.isfinite(radii).mean())
        broad = ring_bundle(28.0, (76, 76, 9), 7.0, apodized=0.035)
        fibers = shoot(field_of(broad, method.field), (28, 0, 0), (0, 1, 0), method.settings)
        row["tangential_error"] = radius_after(fibers[0], 90) / 28 - 1
        found.append(row)
        lines.append(line(method.name, *(f"{100 * value:.1f}" for value in list(row.values())[1:])))
    columns = [
        "method",
        "75°, fan",
        "75°, along A",
        "50°, fan",
        "50°, along A",
        "around 16",
        "around 28",
        "error at 28",
    ]
    title = "Held out: sharper FODs, errors of 4°, thinner tori, a broad ring of radius 28; all in %"
    report.add("others", title, found, *table(columns, lines))


def along_a(field: Any, settings: TrackMethod, count: int) -> Any:
    """Rays along A from within 2 voxels of the middle of its end."""
    starts = np.insert(np.random.default_rng(0).uniform(-2, 2, (count, 2)), 0, -14.0, axis=1)
    return shoot(field, starts, np.tile([1.0, 0.0, 0.0], (count, 1)), settings)


def slips(report: Report, count: int) -> None:
    """How the results of the guiding cost depend on slip and stiffness."""
    found, lines = [], []
    torus = ring_bundle(20.0, (57, 57, 15), 5.0, round_section=True).fods
    for stiffness in (0.1, 0.2, 0.4):
        for epsilon in (0.2, 0.3, 0.4):
            settings = usual("lifted_geodesic", stiffness_per_mm=stiffness, epsilon=epsilon)
            tangential = radius_after(shoot(ring_bundle().fods, (20, 0, 0), (0, 1, 0), settings)[0], 90) / 20 - 1
            radii = quarter_around(torus, 20.0, settings, count)
            far, _ = shares(fan(crossing(60).fods, count, settings), count, 60)
            row = {
                "stiffness_per_mm": stiffness, "epsilon": epsilon, "tangential_error": tangential, "far_end": far,
                "around": float(np.isfinite(radii).mean()), "mean_error": float(np.nanmean(radii) - 20),
            }  # fmt: skip
            found.append(row)
            lines.append(
                line(
                    stiffness, epsilon, f"{100 * far:.1f}", f"{100 * tangential:+.1f} %",
                    f"{100 * row['around']:.0f} %, {row['mean_error']:+.2f}",
                )
            )  # fmt: skip
    columns = [
        "xi (1/mm)",
        "eps",
        "far end at 60°, %",
        "tangential ray, broad ring",
        "torus: a quarter around, mean r - r0",
    ]
    report.add(
        "slips", "Lifted geodesics, guiding cost: dependence on the settings, r0 = 20", found, *table(columns, lines)
    )


def bends(report: Report, count: int) -> None:
    """Rays of any direction near the fibers, from anywhere near the middle of a torus, a quarter around."""
    found, lines = [], []
    for method in WAYS:
        if method.field == "tensors":
            continue
        cells = []
        for radius in RADII:
            size = 2 * (radius + 8) + 1
            sample = ring_bundle(float(radius), (size, size, 15), 5.0, round_section=True)
            radii = quarter_around(field_of(sample, method.field), radius, method.settings, count)
            there = np.isfinite(radii)
            row = {"method": method.name, "radius": radius, "around": float(there.mean())}
            if there.any():
                away = radii[there] - radius
                row |= {"mean_error": float(away.mean()), "spread": float(away.std())}
            found.append(row)
            error = f", {row['mean_error']:+.2f} ± {row['spread']:.2f}" if there.any() else ""
            cells.append(f"{100 * row['around']:.0f} %{error}")
        lines.append(line(method.name, *cells))
    columns = ["method", *(f"r0 = {radius}" for radius in RADII)]
    title = "Rings of radius r0 (voxels): % that go a quarter around, and r - r0 there (starts within 2 voxels)"
    report.add("bends", title, found, *table(columns, lines))


def quarter_around(field: Any, radius: float, settings: TrackMethod, count: int) -> Array:
    """Radii where rays have gone a quarter around."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(count, 3)) * np.deg2rad(5.0) + [0, 1, 0]
    fibers = shoot(field, np.array([radius, 0, 0]) + rng.uniform(-2, 2, (count, 3)), directions, settings)
    radii = np.full(count, np.nan)
    for number, fiber in zip(fibers.per_fiber["seed"], fibers, strict=True):
        radii[number] = radius_after(fiber, 90)
    return radii


def tangents(report: Report, _count: int) -> None:
    """One ray along the fibers of a broad ring of radius 20."""
    found, lines = [], []
    sample = ring_bundle()
    cases = [
        *((f"fixel geodesic, p = {power:g}", "fixels", usual("fixel_geodesic", power=power)) for power in (1, 2, 3, 4)),
        *(case for case in WAYS if case.field == "fods" and case.name != "iFOD2"),
    ]
    for name, field, settings in cases:
        fibers = shoot(getattr(sample, field), (20, 0, 0), (0, 1, 0), dataclasses.replace(settings, precision="double"))
        radius, drift = radius_after(fibers[0], 90), float(fibers.per_fiber.get("drift", [0.0])[0])
        found.append({"method": name, "error": radius / 20 - 1, "drift": drift})
        lines.append(line(name, "leaves" if np.isnan(radius) else f"{100 * (radius / 20 - 1):+.2f} %", f"{drift:.1e}"))
    title = "A tangential ray on a ring of radius 20, 14 voxels broad: error of the radius after 90° (D^-1: 26.6 %)"
    report.add("tangents", title, found, *table(["method", "error", "drift"], lines))


def speeds(report: Report, count: int) -> None:
    """Fibers per second on one core, through the crossing at 60 degrees."""
    found, lines = [], []
    with limited_threads(1):
        for method in WAYS:
            field = field_of(crossing(60), method.field)
            fan(field, 20, method.settings)
            begun, used = time.perf_counter(), time.process_time()
            fibers = fan(field, count, method.settings)
            seconds, busy = time.perf_counter() - begun, time.process_time() - used
            points = len(fibers.points)
            found.append(
                {"method": method.name, "fibers": count, "points": points, "seconds": seconds, "cpu_seconds": busy}
            )
            lines.append(line(method.name, f"{count / busy:.0f}", f"{points / busy / 1e3:.0f}"))
    report.add("speeds", "Speed per core, 28 mm", found, *table(["method", "fibers/s", "1000 points/s"], lines))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rays", type=int, default=1000, help="rays of a fan")
    given = parser.parse_args()
    facts = header(given.rays < 1000)
    path = result_path(given.json, "fibers_crossings", facts["date"])
    chosen = (
        "The usual settings of lifted geodesics, and the angle and the smoothing of fixel geodesics, were chosen by "
        "these tables, but for the one that is held out."
    )
    report = Report(path, "Geodesics and streamlines where fibers cross and bend", facts, "", chosen)
    parts = {
        "crossings": crossings,
        "jitters": jitters,
        "bends": bends,
        "slips": slips,
        "others": others,
        "tangents": tangents,
        "speeds": speeds,
    }
    counts = dict.fromkeys(("bends", "slips"), max(20, given.rays // 5))
    report.run({name: lambda w=work, n=name: w(report, counts.get(n, given.rays)) for name, work in parts.items()})


if __name__ == "__main__":
    main()
