"""How often the intervals of a bootstrap hold the numbers of the scan without noise, and how wide they are.

Run from anywhere; the data are the brain phantom's, or the tensors of a scan of your own taken as the truth::

    python benchmarks/fibers_intervals.py [--quick] [--device cuda:0] [--noises 20] [--scan dwi.nii.gz --at X Y Z]

`benchmarks/README.md` says what is measured.
"""

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Array, Report, argument_parser, header, line, result_path, table

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.kernels.tensors.problem import design_matrix
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.phantom.brain import rician
from napari_gpubio.diffusion.phantom.sample import S0_WHITE, brain_phantom
from napari_gpubio.diffusion.tensors.run import fit_tensors
from napari_gpubio.fibers.directions import Cone, Directions, Principal
from napari_gpubio.fibers.run import track
from napari_gpubio.fibers.seeds import ball
from napari_gpubio.fibers.uncertainty.fod_repeats import affine_of
from napari_gpubio.fibers.uncertainty.model import Bootstrap, fiber_numbers
from napari_gpubio.fibers.uncertainty.run import bootstrap
from napari_gpubio.fibers.uncertainty.settings import BootstrapSettings

PLACES = {"corticospinal tract": (22.0, -18.0, 12.0), "fronto-occipital fasciculus": (-33.0, -20.0, -4.0)}
HALF = 8  # voxels of the cube around a place, so that a repeat is quick; fibers end at its sides
NUMBERS = ("length_mm", "riemannian_length_mm", "drift", "mean_fa", "alignment", "alignment_fa", "speed")
PRINCIPAL, CONE = Principal(), Cone(count=5, half_angle_deg=15)
METHODS = ("percentiles", "intervals")
COLUMNS = (("share", 1), ("contains", 0), ("mean_error", 1), ("median_width", 1))
LEVEL = 0.95


class Scene(NamedTuple):
    """A scan without noise, where it has signals, the signal of white matter at b = 0, and where seeds are."""

    name: str
    scan: DiffusionScan
    mask: Array
    s0: float
    place: Array


def scenes(options: argparse.Namespace) -> list[Scene]:
    if options.scan is None:
        scan = brain_phantom(snr=np.inf).scan
        mask, s0, places = scan.data[..., 0] > 0, S0_WHITE, PLACES
    else:
        from napari_gpubio.diffusion.io.dwi import read_dwi

        noisy = read_dwi(options.scan)
        field = fit_tensors(noisy, device="cpu")
        mask, places = field.mask, {options.scan.name: tuple(options.at)}
        logs = np.log(np.maximum(field.s0, 1e-9))[..., None]
        design = design_matrix(noisy.bvals, noisy.directions)
        signals = np.exp(np.concatenate([1e3 * field.tensors, logs], axis=-1) @ design.T) * mask[..., None]
        scan, s0 = dataclasses.replace(noisy, data=signals.astype(np.float32)), float(np.median(field.s0[mask]))
    return [_cut_out(Scene(name, scan, mask, s0, np.array(place))) for name, place in places.items()]


def _cut_out(scene: Scene) -> Scene:
    at = np.rint(apply_affine(np.linalg.inv(scene.scan.affine), scene.place)).astype(int)
    x, y, z = (slice(max(int(c) - HALF, 0), int(c) + HALF) for c in at)
    data, affine = scene.scan.data[x, y, z].astype(np.float32), affine_of((x, y, z), scene.scan.affine)
    scan = dataclasses.replace(scene.scan, data=data, affine=affine)
    return scene._replace(scan=scan, mask=scene.mask[x, y, z])


def bundles(place: Array) -> dict[str, tuple[Array, Directions]]:
    """Seeds and directions by name."""
    some = ball(place, 3.0, 8)
    return {"8 cones of 5": (some, CONE), "8 fibers": (some, PRINCIPAL), "1 fiber": (place[None], PRINCIPAL)}


def found(scene: Scene, snr: float, noises: int, repeats: int, device: Device) -> Iterator[dict[str, Any]]:
    """Whether the intervals of each number hold the truth, for each bundle and noise."""
    truth, cases = fit_tensors(scene.scan, scene.mask, device="cpu"), bundles(scene.place)
    expected = {name: fiber_numbers(track(truth, *case, device="cpu")) for name, case in cases.items()}
    shape = scene.scan.data.shape
    for noise in range(noises):
        data = rician(scene.scan.data.reshape(-1, shape[-1]), scene.s0 / snr, 7000 + noise).reshape(shape)
        scan = dataclasses.replace(scene.scan, data=data.astype(np.float32))
        field = fit_tensors(scan, scene.mask, device="cpu")
        for name, case in cases.items():
            how = BootstrapSettings(repeats=repeats, kept_repeats=0, random_seed=noise)
            result = bootstrap(scan, *case, resampling=how, field=field, device=device)
            where = {"place": scene.name, "snr": snr, "bundle": name}
            for number in NUMBERS:
                yield from _checked(result, number, expected[name].get(number, np.nan), where)


def _checked(result: Bootstrap, number: str, truth: float, where: dict[str, Any]) -> Iterator[dict[str, Any]]:
    interval, fit = result.interval(number, LEVEL), result.of_fit(number)
    if not np.isfinite([truth, *interval]).all():
        return
    low, high = np.nanquantile(result.numbers[number], [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    for method, estimate, ends in zip(METHODS, (fit, interval.estimate), ((low, high), interval[1:]), strict=True):
        yield {
            **where, "number": number, "method": method, "holds": bool(ends[0] <= truth <= ends[1]),
            "contains": bool(ends[0] <= estimate <= ends[1]), "width": (ends[1] - ends[0]) / abs(truth),
            "error": (estimate - truth) / abs(truth),
        }  # fmt: skip


def summary(rows: list[dict[str, Any]], key: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Shares, biases and widths by number, place and so on."""
    groups = []
    for value in dict.fromkeys(row[key] for row in rows):
        one: dict[str, Any] = {key: value}
        for method in METHODS:
            some = [row for row in rows if row[key] == value and row["method"] == method]
            share = float(np.mean([row["holds"] for row in some]))
            one[method] = {
                "count": len(some), "share": share, "standard_error": float(np.sqrt(share * (1 - share) / len(some))),
                "contains": float(np.mean([row["contains"] for row in some])),
                "median_width": float(np.median([row["width"] for row in some])),
                "mean_error": float(np.mean([row["error"] for row in some])),
            }  # fmt: skip
        groups.append(one)
    lines = [line(one[key], one["intervals"]["count"], *(_both(one, *column) for column in COLUMNS)) for one in groups]
    heads = ("holds the truth, %", "contains its estimate, %", "estimate - truth, %", "width, %")
    return groups, table((key, "intervals", *heads), lines)


def _both(one: dict[str, Any], what: str, digits: int) -> str:
    return " / ".join(f"{100 * one[method][what]:.{digits}f}" for method in METHODS)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="few noises")
    parser.add_argument("--noises", type=int, default=20, help="for each place and signal / noise")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--snr", type=float, nargs="+", default=[10.0, 20.0, 40.0])
    parser.add_argument("--scan", type=Path, help="whose tensors are the truth, instead of the phantom")
    parser.add_argument("--at", type=float, nargs=3, default=(0.0, -30.0, 18.0), help="seeds in it, world mm")
    options = parser.parse_args()
    device, head = choose_device(options.device), header(options.quick)
    noises = 3 if options.quick else options.noises
    rows = []
    for scene in scenes(options):
        for snr in options.snr:
            rows += found(scene, snr, noises, options.repeats, device)
            print(f"{scene.name}, signal / noise {snr:g}: done", flush=True)
    path = result_path(options.json, "fibers_intervals", head["date"], device)
    report = Report(path, f"Intervals of a bootstrap, {noises} noises, {options.repeats} repeats", head)
    for key in ("number", "snr", "bundle", "place"):
        groups, lines = summary(rows, key)
        report.add(
            key, f"By {key} (percentiles about the fit / intervals about the estimate without bias)", groups, *lines
        )


if __name__ == "__main__":
    main()
