"""Forward models of probes: how fast, how large, and how right beside the paths of detected photons.

Run from anywhere::

    python benchmarks/light_forward.py --device cuda:0
    python benchmarks/light_forward.py --parts probe --optodes 16 --voxel-mm 2 --photons 2e4      # a CPU

A GPU machine needs NumPy, SciPy, Numba and CuPy; h5py for the size of the files, xarray to read them again.
"""

import argparse
import importlib.util
import resource
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Array, PoolBytes, Report, argument_parser, header, line, result_path, table

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.space import apply_affine
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.phantom.head import head_labels
from napari_gpubio.optics.sources import Pencil, Source
from napari_gpubio.optics.surface import above_surface, first_tissue, inward_normal
from napari_gpubio.probes.forward.io import write_adot, write_npz
from napari_gpubio.probes.forward.model import Head, Pair, Probe, head_names, head_tissues
from napari_gpubio.probes.forward.result import ForwardModel
from napari_gpubio.probes.forward.run import forward_model, forward_model_steps
from napari_gpubio.probes.forward.settings import PHOTONS, ForwardSettings
from napari_gpubio.probes.jacobians.replay import replay

WAVELENGTHS_NM = (760.0, 830.0)
LOWEST_MM = 10.0  # height over the ears from which on a probe covers the head
SLAB = Medium(label=1, name="slab", mua_per_mm=0.01, mus_per_mm=1.0, n=1.37)
DEPTHS_MM = ((0.0, 3.0), (3.0, 6.0), (6.0, 10.0), (10.0, 45.0))
SEPARATIONS_MM = (8.0, 11.0, 15.0, 20.0, 26.0)
EXACT_PHOTONS = {"cpu": 400_000, "cuda": 400_000_000}
HOW_TO_READ = (
    "Exact: mean partial paths of detected photons (`DetectedPhotons.mean_path_mm`), from runs of their own. Ratio: "
    "adjoint over exact, with the standard error of both."
)


def head(voxel_mm: float) -> Head:
    labels, affine = head_labels(voxel_mm)
    return Head(labels=labels, affine=affine, tissues=head_tissues(), names=head_names())


def spread_probe(model_head: Head, sources: int, detectors: int) -> Probe:
    """Optodes evenly over the upper head, sources and detectors in turn."""
    labels, affine = model_head.labels, np.asarray(model_head.affine)
    center = apply_affine(affine, np.argwhere(labels > 0).mean(axis=0))
    center[2] = LOWEST_MM
    count = sources + detectors
    turns = np.arange(count) * np.pi * (3.0 - np.sqrt(5.0))
    height = 1.0 - (np.arange(count) + 0.5) / count
    across = np.sqrt(1.0 - height**2)
    directions = np.stack([across * np.cos(turns), across * np.sin(turns), height], axis=1)
    far = 300.0
    places = np.array([first_tissue(labels, affine, center + far * one, -one) for one in directions])
    order = np.argsort(np.arange(count) % 2 if sources == detectors else np.arange(count) >= sources, kind="stable")
    return Probe(
        sources=tuple(f"S{n + 1}" for n in range(sources)),
        source_positions_mm=places[order[:sources]],
        detectors=tuple(f"D{n + 1}" for n in range(detectors)),
        detector_positions_mm=places[order[sources:]],
        wavelengths_nm=WAVELENGTHS_NM,
    )


# -- speed ------------------------------------------------------------------------------------------------------------


def run_probe(report: Report, arguments: argparse.Namespace, device: Device) -> None:
    """All pairs of a probe on the head, from the labels to sparse rows, and files."""
    begun = time.perf_counter()
    model_head = head(arguments.voxel_mm)
    probe = spread_probe(model_head, arguments.optodes, arguments.optodes)
    made = time.perf_counter() - begun
    settings = ForwardSettings(
        photons=int(arguments.photons or 0), longest_mm=arguments.longest_mm, threshold=arguments.threshold
    )
    brain = ("gray matter", "white matter")
    if device.is_gpu:  # so that no row has the compilation
        few = Probe(**{**vars(probe), "pairs": (Pair(0, 0),)})
        forward_model(model_head, few, ForwardSettings(photons=10_000), labels=brain, device=device)
    pool = PoolBytes(device) if device.is_gpu else None
    begun = time.perf_counter()
    stages: dict[str, float] = {}
    steps = forward_model_steps(model_head, probe, settings, labels=brain, device=device)
    model: ForwardModel
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            model = end.value
            break
        stages[step.message] = time.perf_counter() - begun
    seconds = time.perf_counter() - begun
    grown = pool.used_and_grown()[1] if pool is not None else 0
    host_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    values = sum(len(part.values) for part in model.parts)
    reached = [int(part.reached.sum()) for part in model.parts]
    kept = [float(np.median(part.kept[part.reached])) if part.reached.any() else 0.0 for part in model.parts]
    shape = " x ".join(map(str, np.shape(model_head.labels)))
    found: dict[str, Any] = {
        "shape": shape,
        "pairs": len(model.pairs),
        "photons": model.parameters["photons"],
        "seconds": seconds,
        "seconds_at": stages,
        "making_the_head_seconds": made,
        "reached": reached,
        "values": values,
        "median_kept": kept,
        "gpu_pool_mb": grown / 2**20,
        "host_peak_mb": host_mb,
        **files(model),
    }
    lines = [
        line("head", f"{shape} voxels of {arguments.voxel_mm:g} mm, {np.count_nonzero(model_head.labels):,} tissue"),
        line("pairs", f"{len(model.pairs):,}, reached {reached} at {list(WAVELENGTHS_NM)} nm"),
        line("photons", f"{model.parameters['photons']:,} of each of {model.parameters['optodes']} optodes"),
        line("whole call", f"{seconds:.1f} s"),
        *(line(f"until: {message}", f"{at:.1f} s") for message, at in stages.items()),
        line("values kept", f"{values:,}, median share of a row's sum {', '.join(f'{one:.3f}' for one in kept)}"),
        line("memory", f"GPU pool {grown / 2**20:,.0f} MB, host at most {host_mb:,.0f} MB"),
        *(line(name, f"{found[name]:,.2f}") for name in found if name.startswith("file ")),
    ]
    report.add("probe", f"{arguments.optodes} x {arguments.optodes} optodes", found, *table(("what", "figure"), lines))


def files(model: ForwardModel) -> dict[str, float]:
    """Seconds and megabytes of files, and how far the sums that are read again are from the model's."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.npz")
        begun = time.perf_counter()
        write_npz(path, model)
        found |= {"file npz, s": time.perf_counter() - begun, "file npz, MB": path.stat().st_size / 2**20}
        if importlib.util.find_spec("h5py") is None or len(model.pairs) > 1000:
            return found
        path = Path(folder, "model.nc")
        begun = time.perf_counter()
        write_adot(path, model)
        found |= {"file nc, s": time.perf_counter() - begun, "file nc, MB": path.stat().st_size / 2**20}
        if importlib.util.find_spec("xarray") is not None and importlib.util.find_spec("h5netcdf") is not None:
            import xarray

            sums = xarray.load_dataarray(path).sum("vertex").values
            own = np.array([model.matrix(nm).sum(axis=1) for nm in model.wavelengths_nm]).T
            found["file nc, largest relative difference of a sum"] = float(
                np.max(np.abs(sums / np.maximum(own, 1e-9) - 1))
            )
    return found


# -- accuracy ---------------------------------------------------------------------------------------------------------


def exact_paths(
    model_head: Head, wavelength: float, source: Source, detectors: Sequence[Detector], photons: int, device: Device
) -> list[tuple[Array, Array, int]]:
    """Mean paths in each label with their standard errors, and detected photons, for each detector."""
    light = LightSettings(photons=photons, seed=99, time_gates_ns=(0.0, 8.0), max_detected=10**8)
    detected = simulate(model_head.at(wavelength), source, light, detectors=detectors, device=device).detected
    found = []
    for index in range(len(detectors)):
        one = detected.of(index)
        mean, weight = one.mean_path_mm(), one.weight.astype(np.float64)
        spread = np.square(weight) @ np.square(one.path_mm - mean) if len(one) else np.full(len(mean), np.nan)
        found.append((mean, np.sqrt(spread) / max(float(weight.sum()), 1e-30), len(one)))
    return found


def run_slab(report: Report, arguments: argparse.Namespace, device: Device) -> None:
    """A homogeneous block of two labels: sums by separation."""
    labels = np.ones((100, 71, 45), np.uint8)
    labels[:, :, 6:] = 2
    affine = np.eye(4)
    affine[:3, 3] = 0.5
    slab = Head(labels=labels, affine=affine, tissues={1: SLAB, 2: SLAB}, names={1: "top", 2: "below 6 mm"})
    start, row = 36.0, 35.5
    places = [(start + apart, row, 0.0) for apart in SEPARATIONS_MM]
    probe = Probe(
        sources=("S1",), source_positions_mm=[(start, row, 0.0)], detectors=tuple(f"D{n}" for n in range(len(places))),
        detector_positions_mm=places, wavelengths_nm=(760.0,),
    )  # fmt: skip
    photons = int(arguments.exact_photons or EXACT_PHOTONS[device.kind])
    model = forward_model(slab, probe, ForwardSettings(photons=photons // 10, threshold=0.0), device=device)
    detectors = [Detector(position_mm=place, radius_mm=1.0, normal=(0, 0, -1)) for place in places]
    source = Pencil(position_mm=(start, row, -1e-3))
    compare(report, "slab", "Homogeneous block, mu_a 0.01, mu_s' 1 /mm", model, [(source, detectors)], photons, device)
    voxel_by_voxel(report, model, source, detectors, photons, device)


def voxel_by_voxel(
    report: Report, model: ForwardModel, source: Source, detectors: Sequence[Detector], photons: int, device: Device
) -> None:
    """Adjoint against replay, which is exact, in voxels beyond three transport mean free paths of both optodes."""
    domain = model.head.at(760.0)
    light = LightSettings(photons=photons, seed=77, time_gates_ns=(0.0, 8.0), max_detected=10**8)
    exact = replay(simulate(domain, source, light, detectors=detectors, device=device), of=("mua",), device=device)
    part = exact.of("mua")
    middles = np.stack(np.meshgrid(*map(np.arange, domain.shape), indexing="ij"), -1) + 0.5
    near = 3.0 / (SLAB.mua_per_mm + SLAB.musp_per_mm)
    from_source = np.linalg.norm(middles - source.position_mm, axis=-1)
    lines, rows = [], []
    for index, detector in enumerate(detectors):
        from_detector = np.linalg.norm(middles - detector.position_mm, axis=-1)
        far = (from_source > near) & (from_detector > near)
        ours, truth = model.volume(index, 760.0), -part.values[index]
        error = float(np.hypot.reduce(part.label_errors[index]) / np.abs(part.label_sums[index]).sum())
        bands = [far & (middles[..., 2] > low) & (middles[..., 2] <= high) for low, high in DEPTHS_MM]
        ratios = [float(ours[band].sum() / truth[band].sum()) for band in (far, *bands)]
        rows.append({"pair": model.channels[index], "ratios": ratios, "error": error})
        apart = f"{model.separations_mm[index]:.1f}"
        lines.append(line(model.channels[index], apart, *(f"{ratio:.3f}" for ratio in ratios), f"{error:.3f}"))
    depths = (f"{low:g} to {high:g} mm deep" for low, high in DEPTHS_MM)
    columns = ("pair", "mm apart", "all depths", *depths, "relative error of replay")
    title = "The same block, voxels beyond three transport mean free paths: adjoint over replay"
    report.add("voxels", title, {"pairs": rows}, *table(columns, lines))


def run_head(report: Report, arguments: argparse.Namespace, device: Device) -> None:
    """Twenty pairs on the head with CSF: five sources, each with four detectors 20 to 35 mm away."""
    model_head = head(arguments.accuracy_voxel_mm)
    probe = spread_probe(model_head, 5, 60)
    pairs = []
    for index, place in enumerate(probe.source_positions_mm):
        apart = np.linalg.norm(probe.detector_positions_mm - place, axis=1)
        pairs += [Pair(index, int(number)) for number in np.argsort(np.where(apart > 15.0, apart, np.inf))[:4]]
    probe = Probe(**{**vars(probe), "pairs": tuple(pairs), "wavelengths_nm": (760.0,)})
    photons = int(arguments.exact_photons or EXACT_PHOTONS[device.kind])
    model = forward_model(model_head, probe, ForwardSettings(photons=photons // 10), device=device)
    affine, labels = np.asarray(model_head.affine), model_head.labels
    cases = []
    for index, place in enumerate(model.placement.probe.source_positions_mm):
        normal = inward_normal(labels, affine, place)
        spots = [model.placement.probe.detector_positions_mm[pair.detector] for pair in pairs if pair.source == index]
        detectors = [Detector(position_mm=tuple(spot), radius_mm=2.0) for spot in spots]
        cases.append(
            (Pencil(position_mm=tuple(above_surface(affine, place, normal)), direction=tuple(normal)), detectors)
        )
    title = f"Head with CSF, {np.shape(labels)} voxels of {arguments.accuracy_voxel_mm:g} mm, 760 nm"
    compare(report, "head", title, model, cases, photons, device)


def compare(
    report: Report,
    name: str,
    title: str,
    model: ForwardModel,
    cases: Sequence[tuple[Source, Sequence[Detector]]],
    photons: int,
    device: Device,
) -> None:  # fmt: skip
    """Ratios by label of each pair, and of the sums of all pairs."""
    part, row, lines, rows = model.parts[0], 0, [], []
    adjoint: list[Array] = []
    truth: list[Array] = []
    variances: list[Array] = []
    for source, detectors in cases:
        for exact, error, count in exact_paths(model.head, 760.0, source, detectors, photons, device):
            paths, own = part.label_paths_mm[row], part.label_errors_mm[row]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = paths / exact
                spread = ratio * np.hypot(error / exact, own / paths)
            whole, exact_whole = paths.sum(), exact.sum()
            rows.append({"pair": model.channels[row], "apart_mm": model.separations_mm[row], "detected": count,
                         "ratio": ratio.tolist(), "error": spread.tolist(), "whole": whole / exact_whole})  # fmt: skip
            cells = [f"{a:.3f} ± {b:.3f}" for a, b in zip(ratio, spread, strict=True)]
            lines.append(line(model.channels[row], f"{model.separations_mm[row]:.1f}", count, f"{exact_whole:.1f}",
                              f"{whole / exact_whole:.3f}", *cells))  # fmt: skip
            adjoint.append(paths)
            truth.append(exact)
            variances.append(np.square(error) + np.square(own))
            row += 1
    sums, exact_sums = np.sum(adjoint, axis=0), np.sum(truth, axis=0)
    mean = sums / exact_sums  # of sums: a mean of ratios that are weighted by their errors would favor small ones
    error = np.sqrt(np.sum(variances, axis=0)) / exact_sums
    lines.append(line("all", "", "", "", "", *(f"{a:.3f} ± {b:.3f}" for a, b in zip(mean, error, strict=True))))
    columns = ("pair", "mm apart", "detected", "exact path, mm", "ratio of all", *model.label_names)
    found = {"pairs": rows, "labels": model.label_names, "mean_ratio": mean.tolist(), "error": error.tolist()}
    report.add(name, title, found, *table(columns, lines))


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0, cuda:all")
    parser.add_argument("--parts", nargs="+", choices=("probe", "slab", "head"), default=("probe", "slab", "head"))
    parser.add_argument("--optodes", type=int, default=100, help="sources, and as many detectors")
    parser.add_argument("--voxel-mm", type=float, default=1.0)
    parser.add_argument("--photons", type=float, help=f"of an optode and wavelength; default: {PHOTONS}")
    parser.add_argument("--longest-mm", type=float, default=0.0, help="leave out pairs farther apart; 0: none")
    parser.add_argument("--threshold", type=float, default=ForwardSettings().threshold)
    parser.add_argument("--exact-photons", type=float, help="of each source, for exact paths")
    parser.add_argument("--accuracy-voxel-mm", type=float, default=1.0)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    device = choose_device(arguments.device)
    facts = header(quick=False) | {"device": device.describe()}
    path = result_path(arguments.json, "light_forward", facts["date"], device)
    report = Report(path, "Forward models of probes", facts, f"Device: {facts['device']}. {HOW_TO_READ}")
    parts = {"probe": run_probe, "slab": run_slab, "head": run_head}
    report.run({name: partial(parts[name], report, arguments, device) for name in arguments.parts})


if __name__ == "__main__":
    main()
