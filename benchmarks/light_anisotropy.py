"""Light where scattering depends on direction: how right, at what cost, and what fibers change in a brain.

Run from anywhere::

    python benchmarks/light_anisotropy.py                        # this machine's CPU
    python benchmarks/light_anisotropy.py --device cuda:0        # a GPU: some hundred times as many photons
    python benchmarks/light_anisotropy.py --draw brain.npz       # the picture alone, from an earlier run's file

A GPU machine needs NumPy, SciPy, Numba and CuPy only; the picture needs Matplotlib.
"""

import argparse
import dataclasses
import importlib.util
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, Row, ends_after, header, line, result_path, row, table, timed_on

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.diffusion.phantom.brain import brain_anatomy, grid
from napari_gpubio.diffusion.phantom.sample import brain_phantom
from napari_gpubio.diffusion.tensors.run import fit_tensors
from napari_gpubio.light import anisotropy_checks as checks
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.anisotropy import FiberCalibration, scattering_of, with_fibers
from napari_gpubio.optics.anisotropy.theory import diffusion_tensor_mm
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.scattering_tensors import SCATTERING_MODELS
from napari_gpubio.optics.sources import Isotropic, Pencil
from napari_gpubio.optics.tissue.presets import head_media

PARTS = ("diffusion", "slab", "reciprocity", "cost", "brain")
GPU_TIMES = 400  # as many photons as on a CPU
CSF, GRAY, WHITE = 3, 4, 5  # labels of head_media
VOXEL_MM, SCAN_MM = {False: 2.0, True: 1.0}, 2.0  # of the light, on a CPU and a GPU; of the scan
PER_PS = 1e3 * 299.792458 / 1.3  # D/v in mm to D in um^2/ps where n is 1.3
MAX_ERROR = 10.0  # %, relative, of the ratio of fluences whose difference is drawn


def run_diffusion(report: Report, device: Device, photons: int) -> None:
    tensor, found = 1 / np.array(checks.MEAN_FREE_PATHS), []
    for model in SCATTERING_MODELS:
        traced, errors = checks.spread_mm(device, tensor, model, photons)
        for axis, *numbers in zip("xyz", np.diag(diffusion_tensor_mm(tensor, model)), traced, errors, strict=True):
            expected, value, error = (PER_PS * float(number) for number in numbers)
            found.append({"model": model, "axis": axis, "theory": expected, "traced": value, "error": error})
    sentence = (
        f"Mean squares of displacement of {photons:,} photons each; mean free paths 30, 10, 20 µm along x, y, z, g 0, "
        "n 1.3; µm²/ps."
    )
    columns = ("model", "axis", "theory", "traced", "difference, %", "z")
    lines = [
        line(r["model"], r["axis"], f"{r['theory']:.1f}", f"{r['traced']:.1f} ± {r['error']:.1f}", *_apart(r))
        for r in found
    ]
    report.add("diffusion", "Diffusion tensors", found, sentence, "", *table(columns, lines))


def _apart(r: Row) -> tuple[str, str]:
    """Difference from theory in %, and in standard errors."""
    apart = r["traced"] - r["theory"]
    return f"{100 * apart / r['theory']:+.2f}", f"{apart / r['error']:+.1f}"


def run_slab(report: Report, device: Device, photons: int) -> None:
    found = []
    for length in (1.0, 0.1):
        traced, theory = checks.trace_slab(device, photons, length_mm=length)
        for name, (value, error), expected in zip(traced._fields, traced, theory, strict=True):
            found.append({"mm": length, "quantity": name, "theory": expected, "traced": value, "error": error})
    sentence = (
        f"{photons:,} photons, model free, the medium above with mu_a 0.03/mm in air, normal along z, beside "
        "anisotropic diffusion (Pini et al. 2024), whose own error is some percent, and more at 0.1 mm."
    )
    columns = ("slab, mm", "quantity", "theory", "traced", "difference, %", "z")
    lines = [
        line(r["mm"], r["quantity"], f"{r['theory']:.6f}", f"{r['traced']:.6f} ± {r['error']:.6f}", *_apart(r))
        for r in found
    ]
    report.add("slab", "A slab", found, sentence, "", *table(columns, lines))


def run_reciprocity(report: Report, device: Device, photons: int) -> None:
    found = []
    for model in SCATTERING_MODELS:
        there, back = checks.swapped(device, photons, model)
        z = (there.value - back.value) / np.hypot(there.error, back.error)
        found.append({"model": model, "there": there, "back": back, "z": float(z)})
    sentence = (
        f"{photons:,} photons each way, from fibers into an isotropic medium and back; fluence, 1/mm² per photon. "
        "Product and mixture are reciprocal; free is not."
    )
    lines = [
        line(r["model"], *(f"{value:.6f} ± {error:.6f}" for value, error in (r["there"], r["back"])), f"{r['z']:+.1f}")
        for r in found
    ]
    columns = ("model", "from the fibers", "into the fibers", "z")
    report.add("reciprocity", "Source and detector change places", found, sentence, "", *table(columns, lines))


# -- cost -------------------------------------------------------------------------------------------------------------


def run_cost(report: Report, device: Device, photons: int, repeats: int) -> None:
    found = list(_cost_rows(device, photons, repeats))
    sentence = (
        f"Whole calls, {photons:,} photons, 30 x 30 x 30 voxels of 2 mm that all have a tensor (white matter: mu_s' 4, "
        "FA 0.7), best of several. Beside each the isotropic medium with the tensor's mean as mu_s, and so about as "
        "many scattering events; g is 0 for product and 0.9 for the others."
    )
    columns = ("model", "s", "isotropic, s", "ratio")
    lines = [
        line(r["name"], f"{r['seconds']:.3f}", f"{r['isotropic_seconds']:.3f}", f"{r['ratio']:.2f}") for r in found
    ]
    report.add("cost", "Cost", found, sentence, "", *table(columns, lines))


def _cost_rows(device: Device, photons: int, repeats: int) -> Iterator[Row]:
    white = Medium(label=1, mua_per_mm=0.01, mus_per_mm=40.0, g=0.9, n=1.37)
    axis = np.array([0.6, 0.0, 0.8])
    outer = axis[[0, 1, 2, 0, 0, 1]] * axis[[0, 1, 2, 1, 2, 2]]
    for model in SCATTERING_MODELS:
        across, along = (float(v) for v in scattering_of(1.0, white, FiberCalibration(), "product"))
        if model != "product":
            across, along = 10 * across, 10 * along  # of mu_s, not of mu_s'
        mean = (2 * across + along) / 3
        medium = dataclasses.replace(white, mus_per_mm=mean, g=0.0 if model == "product" else white.g)
        tensor = across * np.array([1, 1, 1, 0, 0, 0]) + (along - across) * outer
        fibrous = checks.block((30, 30, 30), 2.0, medium, tensor, model)
        seconds = [
            timed_on(device, partial(_trace, domain, device, photons), repeats)
            for domain in (fibrous.with_tensors(None), fibrous)
        ]
        ratio = seconds[1].seconds / seconds[0].seconds
        yield row(model, device, seconds[1], photons, "photons", isotropic_seconds=seconds[0].seconds, ratio=ratio)


def _trace(domain: Domain, device: Device, photons: int) -> Any:
    source = Pencil(position_mm=(30.0, 30.0, 0.0))
    return simulate(domain, source, LightSettings(photons=photons), device=device)


# -- a brain ----------------------------------------------------------------------------------------------------------


def run_brain(report: Report, device: Device, photons: int) -> None:
    """Light of a point in the corpus callosum, with and without the fibers of a scan of the same brain."""
    isotropic, fibrous, callosum = brain(device)
    place = np.unravel_index(int(np.argmax(callosum)), callosum.shape)
    position = isotropic.affine[:3, :3] @ place + isotropic.affine[:3, 3]
    source = Isotropic(position_mm=(float(position[0]), float(position[1]), float(position[2])))
    results = []
    for seed, domain in enumerate((isotropic, fibrous), 1):
        settings = LightSettings(photons=photons, seed=seed)
        results.append(simulate(domain, source, settings, device=device))
    plain, along = results
    planes = _planes(plain, along, place)
    figures = _brain_figures(plain, along, planes)
    path = report.path.with_name(report.path.stem + "_brain.npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **planes)
    if importlib.util.find_spec("matplotlib") is not None:
        draw(planes, path.with_suffix(".png"))
    sentence = (
        f"{photons:,} photons each from a point in the corpus callosum of the brain phantom at 690 nm, "
        f"{np.count_nonzero(fibrous.mus_tensor_per_mm[..., 0]):,} voxels with fibers, model product, mean diffusion "
        f"coefficients kept. Seconds: {figures['seconds'][0]:.2f} isotropic, {figures['seconds'][1]:.2f} with fibers. "
        f"Planes: {path.name} and its picture."
    )
    lines = [
        line(f"{mm:g}", *(f"{figures[name][str(mm)]:+.1f}" for name in ("left_right", "front_back", "up_down")))
        for mm in figures["distances_mm"]
    ]
    columns = ("mm from the source", "left-right (along the fibers), %", "front-back, %", "up-down, %")
    sentences = (sentence, "", "Change of the fluence by the fibers, mean of both directions:")
    report.add("brain", "A brain", figures, *sentences, "", *table(columns, lines))


def brain(device: Device) -> tuple[Domain, Domain, np.ndarray]:
    """The brain phantom with one scattering coefficient for each tissue, with fibers too, and where the callosum is.

    The last is by how much more light scatters across x than along it, 1/mm; 0 elsewhere.
    """
    voxel_mm = VOXEL_MM[device.is_gpu]
    affine, shape = grid(voxel_mm)
    anatomy = brain_anatomy(affine, shape)
    tissues = np.stack([anatomy.fluid, anatomy.cortex + anatomy.nuclei, anatomy.white])
    labels = np.where(anatomy.inside > 0.5, np.argmax(tissues, axis=0) + CSF, 0)
    media = tuple(medium for medium in head_media(690.0) if medium.label >= CSF)
    isotropic = Domain(labels=labels, affine=affine, media=media)
    scan = brain_phantom(snr=np.inf, voxel_mm=SCAN_MM).scan
    field = fit_tensors(scan, device="cpu")
    fibrous = with_fibers(isotropic, field.tensors, field.affine, labels=[WHITE])
    values = fibrous.mus_tensor_per_mm
    x, y, z = np.moveaxis(np.moveaxis(np.indices(shape), 0, -1) @ affine[:3, :3].T + affine[:3, 3], -1, 0)
    is_callosum = (np.abs(x) < 3) & (np.abs(y + 4) < 8) & (z > 15) & (z < 32)
    across = np.where(is_callosum, values[..., 1] - values[..., 0], 0)  # least scattering along x
    return isotropic, fibrous, across


def _planes(plain: Any, along: Any, place: tuple[Any, ...]) -> dict[str, np.ndarray]:
    """Coronal and axial planes through the source: fluence of both, their difference in % and its error, and labels."""
    found: dict[str, np.ndarray] = {"affine": plain.domain.affine, "place": np.array(place)}
    lit = (plain.fluence > 0) & (along.fluence > 0)
    ratio = np.divide(along.fluence, plain.fluence, out=np.ones_like(plain.fluence), where=lit)
    errors = np.hypot(along.relative_error, plain.relative_error, where=lit, out=np.full_like(plain.fluence, np.inf))
    for name, axis in (("coronal", 1), ("axial", 2)):
        for what, values in (
            ("isotropic", plain.fluence), ("fibers", along.fluence), ("difference", 100 * (ratio - 1)),
            ("error", 100 * errors), ("labels", plain.domain.labels),
        ):  # fmt: skip
            found[f"{name}_{what}"] = np.take(values, place[axis], axis)
    return found


def _brain_figures(plain: Any, along: Any, planes: dict[str, np.ndarray]) -> dict[str, Any]:
    voxel = float(plain.domain.voxel_sizes_mm[0])
    distances = (4.0, 8.0, 12.0, 16.0)
    figures: dict[str, Any] = {"seconds": [r.parameters["seconds"] for r in (plain, along)], "distances_mm": distances}
    for axis, name in enumerate(("left_right", "front_back", "up_down")):
        figures[name] = {}
        for mm in distances:
            places = np.array([planes["place"], planes["place"]])
            places[:, axis] += np.array([-1, 1]) * round(mm / voxel)
            a, b = (sum(float(r.fluence[tuple(p)]) for p in places) for r in (plain, along))
            figures[name][str(mm)] = 100 * (b / a - 1) if a > 0 else float("nan")
    return figures


def draw(planes: dict[str, np.ndarray], path: Path) -> None:
    """Draw fluence without and with fibers, and the difference, in both planes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(13, 8.2), layout="constrained", facecolor="white")
    for line_of_axes, name in zip(axes, ("coronal", "axial"), strict=True):
        is_tissue = planes[f"{name}_labels"].T > 0
        voxel = float(np.linalg.norm(planes["affine"][:3, 0]))
        ny, nx = is_tissue.shape
        extent = (-nx * voxel / 2, nx * voxel / 2, -ny * voxel / 2, ny * voxel / 2)
        for column, (what, title) in enumerate((("isotropic", "isotropic"), ("fibers", "along fibers"))):
            with np.errstate(divide="ignore"):
                shown = np.where(is_tissue, np.log10(planes[f"{name}_{what}"].T), np.nan)
            image = line_of_axes[column].imshow(
                shown[:, ::-1], origin="lower", extent=extent, cmap="inferno", vmin=-6, vmax=-1
            )
            line_of_axes[column].set_title(f"{name}: fluence, {title}")
        figure.colorbar(image, ax=line_of_axes[:2], label="log10 fluence (1/mm² per photon)", shrink=0.85)
        known = is_tissue & (planes[f"{name}_error"].T < MAX_ERROR)
        shown = np.where(known, planes[f"{name}_difference"].T, np.nan)
        last = line_of_axes[2]
        image = last.imshow(shown[:, ::-1], origin="lower", extent=extent, cmap="RdBu_r", vmin=-60, vmax=60)
        last.contour(
            (planes[f"{name}_labels"].T == WHITE)[:, ::-1], levels=[0.5], colors="0.4", linewidths=0.5, extent=extent
        )
        last.set_title("difference")
        figure.colorbar(image, ax=last, label=f"% (error below {MAX_ERROR:g} %; line: white matter)", shrink=0.85)
        for one in line_of_axes:
            one.set_xlabel("left   ←   mm   →   right")  # the first axis of the grid runs to the left
    figure.savefig(path, dpi=120)
    plt.close(figure)


# -- the script -------------------------------------------------------------------------------------------------------


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--quick", action="store_true", help="a tenth of the photons")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--minutes", type=float, help="begin no further part after that many minutes")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    parser.add_argument("--draw", type=Path, metavar="NPZ", help="draw the picture of an earlier run and no more")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    if arguments.draw is not None:
        with np.load(arguments.draw) as planes:
            draw(dict(planes), arguments.draw.with_suffix(".png"))
        return
    device, end = choose_device(arguments.device), ends_after(arguments.minutes)
    times = (GPU_TIMES if device.is_gpu else 1) / (10 if arguments.quick else 1)
    facts = header(arguments.quick) | {"device": device.describe()}
    path = result_path(arguments.json, "light_anisotropy", facts["date"], device)
    report = Report(path, "Light where scattering depends on direction", facts, f"Device: {facts['device']}.")
    works = {
        "diffusion": partial(run_diffusion, report, device, int(160_000 * times)),
        "slab": partial(run_slab, report, device, int(300_000 * times)),
        "reciprocity": partial(run_reciprocity, report, device, int(300_000 * times)),
        "cost": partial(run_cost, report, device, max(20_000, int(20_000 * times)), 3),
        "brain": partial(run_brain, report, device, int(400_000 * times)),
    }

    report.run({part: works[part] for part in arguments.parts}, lambda: time.monotonic() > end)


if __name__ == "__main__":
    main()
