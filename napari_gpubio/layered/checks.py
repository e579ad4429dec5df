"""Reference and speed cases of light in layers.

Photons are fewer on the CPU, so that a check takes seconds there; the z-scores take that into account.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core.checks import Check, Finding, Speed, WarmUp, z_score_finding
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.presets import ENDLESS_MM, INTRALIPID, SKIN, VAN_DE_HULST, slab
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.run import simulate
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.estimates import Estimate

_GPU_FACTOR = 100
MAX_IMBALANCE = 1e-6
GIOVANELLI = slab(1.0, 9.0, 0.0, 1.5, ENDLESS_MM)
SKIN_FRACTIONS = (Estimate(0.562552, 1.5e-5), Estimate(0.390300, 1.5e-5), Estimate(0.0032640, 7e-7))  # Rd, A, T
SKIN_BY_LAYER = (0.00252812, 0.00588612, 0.0350800, 0.0363525, 0.2500125, 0.01588625, 0.04453625)
SKIN_BY_LAYER_ERRORS = (1.3e-7, 1.3e-7, 1.9e-6, 1.6e-6, 1.25e-5, 1.8e-6, 4.2e-6)


class Slab(NamedTuple):
    """A slab with its total reflectance (specular included) and transmittance by adding-doubling."""

    albedo: float
    depth: float
    g: float
    n: float
    reflectance: float
    transmittance: float


# Prahl's iadpython with 16 quadrature points; against 32 they differ by up to 3e-4 where n is not 1.
ADDING_DOUBLING = (
    Slab(0.5, 1.0, 0.0, 1.0, 0.099119, 0.446058),
    Slab(0.99, 2.0, 0.0, 1.0, 0.497489, 0.465699),
    Slab(0.9, 1.0, 0.9, 1.4, 0.064280, 0.794641),
    Slab(0.99, 5.0, 0.8, 1.4, 0.307455, 0.532599),
    Slab(0.95, 8.0, 0.9, 1.33, 0.102836, 0.329515),
    Slab(0.8, 0.5, 0.5, 1.5, 0.103675, 0.697153),
)
ADDING_DOUBLING_ERROR = 2e-4
# Per sr, in bins of 3 degrees; 1e7 photons of MCML's method with another generator.
ANGULAR = {0: (0.019587, np.nan), 1: (0.019553, 0.69695), 5: (0.019999, 0.35687), 13: (0.021024, 0.10203)}
DECAY_PER_MM = {1.0: 0.1734, 1.37: 0.1731}  # of the fluence in depth, mu_a .01, mu_s 10 per mm, g .9


def photons_on(device: Device, photons: int) -> int:
    """That many photons, or more on a GPU."""
    return photons * (_GPU_FACTOR if device.is_gpu else 1)


def run_case(medium: LayeredMedium, device: Device, photons: int, **settings: Any) -> LayeredResult:
    """Simulate with that many photons, or more on a GPU."""
    return simulate(medium, LayeredSettings(photons=photons_on(device, photons), **settings), device=device)


def z_finding(quantity: str, estimate: Estimate, reference: float, reference_error: float = 0.0) -> Finding:
    """Compare an estimate with a reference by standard errors of both."""
    return z_score_finding(quantity, reference, estimate.value, estimate.error, reference_error)


def balance(total: float, roulette: Estimate) -> list[Finding]:
    """Compare the sum of all fractions with 1, and what Russian roulette took with 0."""
    found = [
        Finding(quantity="energy balance", reference=1.0, result=total, error=total - 1.0, tolerance=MAX_IMBALANCE)
    ]
    return [*found, z_finding("roulette's share", roulette, 0.0)] if roulette.error > 0 else found


# -- checks -----------------------------------------------------------------------------------------------------------


def _van_de_hulst(device: Device) -> list[Finding]:
    result = run_case(VAN_DE_HULST, device, 500_000, depth_bins=10)
    found = [
        z_finding("Rd", result.diffuse_reflectance, 0.09739, 5e-6),
        z_finding("T", result.transmittance, 0.66096, 5e-6),
    ]
    for bin_, values in ANGULAR.items():
        for name, estimates, value in (("Rd", result.Rd_a, values[0]), ("T", result.Tt_a, values[1])):
            if np.isfinite(value):
                estimate = Estimate(float(estimates.value[bin_]), float(estimates.error[bin_]))
                found.append(z_finding(f"{name} at {3 * bin_ + 1.5:g}° (1/sr)", estimate, value, value * 3e-3))
    return found + balance(result.total, result.roulette)


def _giovanelli(device: Device) -> list[Finding]:
    result = run_case(GIOVANELLI, device, 200_000, depth_bins=10)
    diffuse = result.diffuse_reflectance
    total = Estimate(diffuse.value + result.specular, diffuse.error)
    return [z_finding("R, specular included", total, 0.2600, 5e-5), *balance(result.total, result.roulette)]


def _adding_doubling(device: Device) -> list[Finding]:
    found = []
    for case in ADDING_DOUBLING:
        mut = case.depth  # in a slab of 1 mm
        medium = slab((1 - case.albedo) * mut, case.albedo * mut, case.g, case.n, 1.0)
        result = run_case(medium, device, 200_000, absorption="off")
        diffuse = result.diffuse_reflectance
        name = f"a {case.albedo:g}, b {case.depth:g}, g {case.g:g}, n {case.n:g}"
        error = ADDING_DOUBLING_ERROR if case.n != 1 else 5e-6
        total = Estimate(diffuse.value + result.specular, diffuse.error)
        found += [
            z_finding(f"R of {name}", total, case.reflectance, error),
            z_finding(f"T of {name}", result.transmittance, case.transmittance, error),
        ]
    return found


def _skin(device: Device) -> list[Finding]:
    result = run_case(SKIN, device, 50_000)
    fractions = (result.diffuse_reflectance, result.absorbed, result.transmittance)
    found = [
        z_finding(name, mine, reference.value, reference.error)
        for name, mine, reference in zip(("Rd", "A", "T"), fractions, SKIN_FRACTIONS, strict=True)
    ]
    for i, layer in enumerate(SKIN.layers):
        mine = Estimate(float(result.A_l.value[i]), float(result.A_l.error[i]))
        found.append(z_finding(f"A of {layer.name}", mine, SKIN_BY_LAYER[i], SKIN_BY_LAYER_ERRORS[i]))
    return found + balance(result.total, result.roulette)


def _decay(device: Device) -> list[Finding]:
    """Slope of the logarithm of the fluence between 2 and 8 mm."""
    found = []
    for n, reference in DECAY_PER_MM.items():
        medium = slab(0.01, 10.0, 0.9, n, ENDLESS_MM)
        result = run_case(medium, device, 20_000, dz_mm=0.25, depth_bins=60, radial_bins=1, dr_mm=1e4)
        depths = (result.z_mm > 2.0) & (result.z_mm < 8.0)
        fluence = result.fluence_z()
        slope = -float(np.polyfit(result.z_mm[depths], np.log(fluence.value[depths]), 1)[0])
        found.append(
            Finding(
                quantity=f"decay at n {n:g} (1/mm)",
                reference=reference,
                result=slope,
                error=slope - reference,
                tolerance=0.05 * reference if not device.is_gpu else 0.01 * reference,
            )
        )
    return found


CHECKS = (
    Check(
        name="van de Hulst slab", source="van de Hulst 1980; by angle: MCML's method, 1e7 photons", run=_van_de_hulst
    ),
    Check(name="Giovanelli", source="Giovanelli 1955", run=_giovanelli),
    Check(name="adding-doubling", source="iadpython", run=_adding_doubling),
    Check(name="seven-layer skin", source="CPU-MCML with a Mersenne Twister, 8e8 photons", run=_skin),
    Check(name="fluence in depth", source="MCML manual and its method, 1e6 photons", run=_decay),
)


# -- speeds -----------------------------------------------------------------------------------------------------------


def _speed(name: str, medium: LayeredMedium, photons: int, **settings: object) -> Speed:
    def prepare(device: Device) -> Callable[[], float]:
        return lambda: float(run_case(medium, device, photons, **settings).launched)

    return Speed(name=name, unit="photons", prepare=prepare)


SPEEDS = (
    _speed("seven-layer skin", SKIN, 100_000),
    _speed("seven-layer skin, reflectance and transmittance only", SKIN, 100_000, absorption="off"),
    _speed("10 % intralipid", INTRALIPID, 5_000, dr_mm=0.1, dz_mm=0.1, radial_bins=100, depth_bins=100),
)


def _simulate_layers() -> None:
    run_case(VAN_DE_HULST, CPU, 16)


WARMUPS = (WarmUp(name="light in layers", run=_simulate_layers, functions=25),)
