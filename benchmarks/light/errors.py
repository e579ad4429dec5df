"""What standard errors are worth: the spread of many seeds beside the errors that they claim, for every tally."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from common import Array, Row, line

from napari_gpubio.core.device import Device
from napari_gpubio.layered.presets import SKIN
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.run import simulate as simulate_layers
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.fluorescence import FluorescenceResult, Fluorophore, fluorescence
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.spectrum import spectrum
from napari_gpubio.light.statistics import detector_numbers, label_fluence, pooled_error
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Pencil

COLUMNS = ("tally", "things", "spread / error", "±", "beyond 4 errors")
GOAL = (0.95, 1.05)
CLAIMS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0)  # relative errors, as claimed in all runs together
BANDS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # of the highest fluence
ABSORPTION = (1.0, 1.5, 2.5, 5.0)  # of wavelengths, over the run's
_BOOTSTRAPS = 200
_MIN_OF_ONE = 1 / np.sqrt(2)  # uncertainty of the spread of a single thing, times sqrt(seeds - 1)
_MIDDLE = 15.0  # mm, of the cube


# ---------------------------------------------------------------------------------------------------------------- rows
def row(tally: str, values: Array, errors: Array, use: Array | None = None) -> Row | None:
    """One tally: shape (seeds, things), and which of them count, of the same shape.

    Spread and error are relative to each thing's mean, and root mean squares over all of them. The uncertainty is that
    of redrawing seeds. A thing is beyond 4 errors of the mean of the other seeds.
    """
    seeds = len(values)
    values, errors = (np.reshape(part, (seeds, -1)).astype(np.float64) for part in (values, errors))
    mean = values.mean(axis=0)
    chosen = np.isfinite(errors) & (mean != 0) & (errors > 0)
    chosen &= True if use is None else np.reshape(use, chosen.shape)
    if chosen.sum() < seeds:
        return None
    scale = np.where(mean != 0, mean, 1.0)
    others = (values.sum(axis=0) - values) / (seeds - 1)
    off = np.where(chosen, (values - others) / scale, 0.0) ** 2 * (seeds - 1) / seeds
    claimed = np.where(chosen, errors / scale, 0.0) ** 2
    by_seed = off.sum(axis=1), claimed.sum(axis=1)
    redrawn = np.random.default_rng(1).integers(0, seeds, (_BOOTSTRAPS, seeds))
    ratios = np.sqrt(by_seed[0][redrawn].sum(axis=1) / by_seed[1][redrawn].sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (values - others) / (errors * np.sqrt(seeds / (seeds - 1)))
    return {
        "tally": tally,
        "things": int(chosen.sum() / seeds),
        "ratio": float(np.sqrt(by_seed[0].sum() / by_seed[1].sum())),
        "ratio_error": max(float(ratios.std()), _MIN_OF_ONE / np.sqrt(seeds - 1) if chosen.sum() < 8 * seeds else 0.0),
        "beyond": float((np.abs(z[chosen]) > 4).mean()),
    }


def row_line(r: Row) -> str:
    return line(
        r["tally"], f"{r['things']:,}", f"{r['ratio']:.3f}", f"{r['ratio_error']:.3f}", f"{100 * r['beyond']:.3f} %"
    )


def _stack(results: Sequence[Any], read: Callable[[Any], Any]) -> tuple[Array, Array]:
    """Values and errors of what is read, an `Estimate` or several."""
    found = np.array([np.reshape(read(result), (-1, 2)) for result in results], np.float64)
    return found[:, :, 0], found[:, :, 1]


def _some(rows: Iterator[Row | None]) -> list[Row]:
    return [r for r in rows if r is not None]


def _by_claim(name: str, values: Array, errors: Array) -> Iterator[Row | None]:
    """Bins or voxels by the relative error that they claim in all runs together.

    By that of each run, those would be chosen as well known that claim too little by chance.
    """
    mean, claimed = values.mean(axis=0), np.sqrt(np.square(errors).mean(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        claim = np.where(mean > 0, claimed / mean, np.inf)
    for low, high in itertools.pairwise(CLAIMS):
        label = f"{name}, claiming {100 * low:g} to {100 * high:g} %"
        yield row(label, values, errors, np.broadcast_to((claim >= low) & (claim < high), values.shape))


def _by_brightness(name: str, values: Array, errors: Array) -> Iterator[Row | None]:
    mean = values.mean(axis=0)
    for high, low in itertools.pairwise(BANDS):
        inside = (mean > low * mean.max()) & (mean <= high * mean.max())
        yield row(f"{name}, {high:g} to {low:g} of the highest", values[:, inside], errors[:, inside])


# --------------------------------------------------------------------------------------------------------------- cases
def cube(absorption: float = 1.0) -> Domain:
    """Two layers of 4 mm and 26 mm, 30 x 30 x 30 mm."""
    labels = np.full((30, 30, 30), 2, np.uint8)
    labels[:, :, :4] = 1
    affine = np.eye(4)
    affine[:3, 3] = 0.5
    return Domain(labels=labels, affine=affine, media=_media(absorption))


def _media(absorption: float) -> tuple[Medium, ...]:
    return (
        Medium(label=1, mua_per_mm=0.015 * absorption, mus_per_mm=4.0, g=0.8, n=1.37),
        Medium(label=2, mua_per_mm=0.03 * absorption, mus_per_mm=8.0, g=0.85, n=1.4),
    )


SOURCE = Pencil(position_mm=(_MIDDLE, _MIDDLE, 0.0))
DETECTORS = tuple(Detector(position_mm=(_MIDDLE + d, _MIDDLE, 0.0), radius_mm=2.0, name=f"{d} mm") for d in (4.0, 8.0))


def voxel_rows(device: Device, photons: int, seeds: Sequence[int]) -> list[Row]:
    """Voxels, labels, energy, detectors, and wavelengths from the same runs."""
    domain = cube()
    results = [
        simulate(domain, SOURCE, LightSettings(photons=photons, seed=seed), detectors=DETECTORS, device=device)
        for seed in seeds
    ]
    return _some(_of_voxels(results))


def _of_voxels(results: Sequence[LightResult]) -> Iterator[Row | None]:
    fluence = np.array([result.fluence.ravel() for result in results], np.float64)
    errors = np.array([result.fluence_error.ravel() for result in results], np.float64)
    yield from _by_brightness("fluence", fluence, errors)
    yield from _by_claim("fluence", fluence, errors)
    helped = np.array([pooled_error(result).ravel() for result in results], np.float64)
    yield from _by_claim("fluence, neighbors helping", fluence, helped)
    for part in ("absorbed", "escaped", "roulette", "specular"):
        yield row(f"energy: {part}", *_stack(results, lambda r, part=part: getattr(r.energy, part)))
    yield row("absorbed by label", *_stack(results, lambda r: list(r.absorbed.values())))
    yield row("mean fluence by label", *_stack(results, lambda r: [part.mean for part in label_fluence(r).values()]))
    yield row("detected weight", *_stack(results, lambda r: [d.weight for d in detector_numbers(r)]))
    paths = _stack(results, lambda r: [path for d in detector_numbers(r) for path in d.path_mm.values()])
    yield row("mean partial paths", *paths)
    yield row("DPF", *_stack(results, lambda r: [d.dpf for d in detector_numbers(r)]))
    yield row("mean time of flight", *_stack(results, lambda r: [d.time_ns for d in detector_numbers(r)]))
    spectra = [spectrum(result, {factor: _media(factor) for factor in ABSORPTION}) for result in results]
    for i, factor in enumerate(ABSORPTION[1:], 1):
        for name in ("weight", "path_mm", "time_ns", "time_sd_ns"):
            both = [getattr(found, name) for found in spectra]
            values, claimed = (np.array([part[k][:, i].ravel() for part in both]) for k in (0, 1))
            yield row(f"mu_a x {factor:g}: {name}", values, claimed)


def layer_rows(device: Device, photons: int, seeds: Sequence[int]) -> list[Row]:
    """Bins of seven layers of skin."""
    settings = {"dr_mm": 0.5, "dz_mm": 0.2, "radial_bins": 40, "depth_bins": 50, "absorption": "drop"}
    results = [
        simulate_layers(SKIN, LayeredSettings(photons=photons, seed=seed, **settings), device=device) for seed in seeds
    ]
    return _some(_of_layers(results))


def _of_layers(results: Sequence[LayeredResult]) -> Iterator[Row | None]:
    def both(name: str) -> tuple[Array, Array]:
        found = [getattr(result, name) for result in results]
        return np.array([part.value for part in found]), np.array([part.error for part in found])

    yield from _by_claim("A(r, z)", *both("A_rz"))
    yield from _by_claim("Rd(r)", *both("Rd_r"))
    yield from _by_claim("Rd(r, angle)", *both("Rd_ra"))
    for name in ("A_z", "A_l", "Rd_a"):
        yield row(name.replace("_", " by "), *both(name))
    for part in ("diffuse_reflectance", "transmittance", "absorbed"):
        yield row(part.replace("_", " "), *_stack(results, lambda r, part=part: getattr(r, part)))


def fluorescence_rows(device: Device, photons: int, seeds: Sequence[int]) -> list[Row]:
    """Excitation and emission in the two layers, with a fluorophore in the lower one."""
    dye = Fluorophore(mua_per_mm={2: 0.01}, quantum_yield=0.5)
    excitation, emission = cube(2.0), cube(1.0)
    results = [
        fluorescence(
            excitation, emission, SOURCE, dye, LightSettings(photons=photons, seed=seed), detectors=DETECTORS,
            device=device,
        )
        for seed in seeds
    ]  # fmt: skip
    return _some(_of_fluorescence(results))


def _of_fluorescence(results: Sequence[FluorescenceResult]) -> Iterator[Row | None]:
    for name, error in (("fluence", "fluence_error"), ("excitation_fluence", "excitation_error")):
        values = np.array([getattr(result, name).ravel() for result in results], np.float64)
        errors = np.array([getattr(result, error).ravel() for result in results], np.float64)
        yield from _by_brightness(name.replace("_", " "), values, errors)
    yield row("emitted", *_stack(results, lambda r: r.emitted))
    yield row("emission: absorbed, escaped", *_stack(results, lambda r: [r.energy[n] for n in ("absorbed", "escaped")]))
    yield row("emission: mean fluence of labels", *_stack(results, lambda r: list(r.mean_fluence.values())))
    yield row("emission: detected", *_stack(results, lambda r: r.detected))
    yield row("excitation: detected", *_stack(results, lambda r: r.excitation_detected))
