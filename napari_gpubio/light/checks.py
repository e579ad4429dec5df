"""Reference cases, speed cases and warm-ups of light in voxels.

Photons are fewer on the CPU, so that a check takes seconds there; the z-scores take that into account.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from napari_gpubio.core.checks import Check, Finding, Speed, WarmUp
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.layered import checks as layered
from napari_gpubio.light import anisotropy_checks as anisotropic_checks
from napari_gpubio.light.benchmarks import Case, benchmark
from napari_gpubio.light.kernels.voxels.problem import LIGHT_MM_PER_NS
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Isotropic, Pencil
from napari_gpubio.optics.theory import fluence_semi_infinite

DIFFUSION_TOLERANCE = 0.04
_ABSORBED = {  # benchmark: photons on the CPU; a GPU traces a hundred times as many
    "cube60": 200_000,
    "cube60b": 200_000,
    "cube60planar": 200_000,
    "cubesph60b": 100_000,
    "B1": 50_000,
    "B2": 50_000,
    "B3": 50_000,
    "skin7": 50_000,
}


def run_case(case: Case, device: Device, photons: int) -> LightResult:
    """Simulate a benchmark with that many photons, or more on a GPU."""
    settings = dataclasses.replace(case.settings, photons=layered.photons_on(device, photons))
    return simulate(case.domain, case.source, settings, detectors=case.detectors, device=device)


# -- checks -----------------------------------------------------------------------------------------------------------


def _absorption(name: str, photons: int) -> Check:
    """Absorbed fraction of the light that entered, in all and by label, and the energy balance."""

    def run(device: Device) -> list[Finding]:
        case = benchmark(name)
        result, reference = run_case(case, device, photons), case.reference
        assert reference is not None
        entered = result.energy.entered
        absorbed = Estimate(result.energy.absorbed.value / entered, result.energy.absorbed.error / entered)
        findings = [layered.z_finding("absorbed fraction", absorbed, reference.absorbed, reference.error)]
        for label, value in reference.by_label.items():
            part = Estimate(result.absorbed[label].value / entered, result.absorbed[label].error / entered)
            layer = case.domain.medium(label).name or f"label {label}"
            findings.append(layered.z_finding(f"absorbed in {layer}", part, value, reference.by_label_error[label]))
        return findings + layered.balance(result.energy.total, result.energy.roulette)

    reference = benchmark(name).reference
    assert reference is not None
    return Check(name=name, source=reference.source, run=run)


def _diffusion(device: Device) -> list[Finding]:
    """Mean ratio of the fluence to diffusion theory, 8 < rho < 14 mm and 2 < z < 15 mm."""
    case = benchmark("cube60b")
    result = run_case(case, device, 400_000)
    x, y, z = np.meshgrid(*[np.arange(n) + 0.5 for n in case.domain.shape], indexing="ij")
    rho = np.hypot(x - case.source.position_mm[0], y - case.source.position_mm[1])
    there = (rho > 8) & (rho < 14) & (z > 2) & (z < 15)
    expected = fluence_semi_infinite(rho[there], z[there], case.domain.media[0])
    ratio = float((result.fluence[there] / expected).mean())
    return [
        Finding(
            quantity="mean fluence / theory", reference=1.0, result=ratio, error=ratio - 1.0,
            tolerance=DIFFUSION_TOLERANCE,
        )
    ]  # fmt: skip


def slab(depth: int, media: tuple[Medium, ...], *, outside_n: float = 1.0) -> Domain:
    """Make layers of 1 mm voxels, equally thick, across k; a grid position is the world position."""
    labels = np.repeat(np.arange(1, len(media) + 1), depth // len(media))
    affine = np.eye(4)
    affine[:3, 3] = 0.5
    return Domain(labels=np.tile(labels, (9, 9, 1)), affine=affine, media=media, outside_n=outside_n)


def _beer_lambert(device: Device) -> list[Finding]:
    """Without scattering the fluence falls exactly as exp(-mu_a z)."""
    mua = 0.3
    domain = slab(20, (Medium(label=1, mua_per_mm=mua, n=1.0),))
    result = simulate(domain, Pencil(position_mm=(4.5, 4.5, 0.0)), LightSettings(photons=1000), device=device)
    edges = np.exp(-mua * np.arange(21.0))
    expected = -np.diff(edges) / mua
    worst = float(np.abs(result.fluence[4, 4] / expected - 1.0).max())
    return [Finding(quantity="fluence (relative)", reference=0.0, result=worst, error=worst, tolerance=1e-5)]


def _path_length(device: Device) -> list[Finding]:
    """Where nothing absorbs, a ballistic beam has a fluence of one photon per mm^2."""
    domain = slab(20, (Medium(label=1, n=1.0),))
    result = simulate(domain, Pencil(position_mm=(4.5, 4.5, 0.0)), LightSettings(photons=1000), device=device)
    worst = float(np.abs(result.fluence[4, 4] - 1.0).max())
    return [Finding(quantity="fluence (relative)", reference=0.0, result=worst, error=worst, tolerance=1e-5)]


def _time_gates(device: Device) -> list[Finding]:
    """In a closed box of mirrors without absorption light goes (c / n) dt in each gate."""
    n, gates = 1.37, (0.0, 0.05, 0.07, 0.2)
    domain = Domain(labels=np.ones((4,) * 3), affine=2.0 * np.eye(4), media=(Medium(label=1, mus_per_mm=0.5, n=n),))
    settings = LightSettings(photons=1000, faces=("mirror",) * 6, time_gates_ns=gates)
    result = simulate(domain, Isotropic(position_mm=(3.0, 3.1, 2.9)), settings, device=device)
    path = result.gates.sum(axis=(0, 1, 2), dtype=np.float64) * domain.voxel_volume_mm3
    worst = float(np.abs(path * n / (LIGHT_MM_PER_NS * np.diff(gates)) - 1.0).max())
    return [Finding(quantity="path in a gate (relative)", reference=0.0, result=worst, error=worst, tolerance=1e-4)]


def _entry(device: Device) -> list[Finding]:
    """Light onto a ball of voxels is reflected as by a sphere, whichever step it meets."""
    n, radius, center = 1.37, 15.0, np.full(3, 16.5)
    labels = np.linalg.norm(np.moveaxis(np.indices((34,) * 3), 0, -1) - center, axis=-1) <= radius
    domain = Domain(labels=labels, affine=np.eye(4), media=(Medium(label=1, mua_per_mm=1.0, n=n),))
    random, found = np.random.default_rng(1), []
    for angle, tolerance in ((0.0, 1e-4), (45.0, 5e-3)):
        cosine, worst = np.cos(np.deg2rad(angle)), 0.0
        behind = np.sqrt(1.0 - (1.0 - cosine**2) / n**2)
        across, along = (cosine - n * behind) / (cosine + n * behind), (behind - n * cosine) / (behind + n * cosine)
        expected = float(across**2 + along**2) / 2
        for outward, side in random.normal(size=(12, 2, 3)):
            outward /= np.linalg.norm(outward)
            side = np.cross(outward, side)
            direction = np.sin(np.deg2rad(angle)) * side / np.linalg.norm(side) - cosine * outward
            start = center + radius * outward - 5.0 * direction
            source = Pencil(position_mm=tuple(start), direction=tuple(direction), entry="smooth")
            lost = simulate(domain, source, LightSettings(photons=100), device=device).energy.specular.value
            worst = max(worst, lost - expected, key=abs)
        found.append(
            Finding(
                quantity=f"reflected at {angle:g} degrees", reference=expected, result=expected + worst, error=worst,
                tolerance=tolerance,
            )
        )  # fmt: skip
    return found


def _snell(device: Device) -> list[Finding]:
    """An oblique ray through an interface obeys Snell's law."""
    n1, n2, sine = 1.2, 1.6, 0.5
    domain = slab(20, (Medium(label=1, n=n1), Medium(label=2, n=n2)), outside_n=n2)
    source = Pencil(position_mm=(0.3, 4.5, 0.5), direction=(sine, 0.0, np.sqrt(1 - sine**2)))
    detected = simulate(
        domain, source, LightSettings(photons=1000, faces=("cyclic",) * 4 + ("default",) * 2),
        detectors=[Detector(position_mm=(4.5, 4.5, 20.0), radius_mm=9.0, normal=(0, 0, 1))], device=device,
    ).detected  # fmt: skip
    behind = sine * n1 / n2
    along = 9.5 * sine / np.sqrt(1 - sine**2) + 10.0 * behind / np.sqrt(1 - behind**2)
    x = (source.position_mm[0] + along) % 9.0
    direction, place = float(detected.direction[0, 0]), float(detected.position_mm[0, 0])
    return [
        Finding(quantity="sine behind", reference=behind, result=direction, error=direction - behind, tolerance=1e-6),
        Finding(quantity="exit (mm)", reference=x, result=place, error=place - x, tolerance=1e-4),
    ]


CHECKS = (
    Check(name="Beer-Lambert", source="closed form", run=_beer_lambert),
    Check(name="mu_a = 0", source="closed form", run=_path_length),
    Check(name="time gates", source="closed form", run=_time_gates),
    Check(name="entry", source="Fresnel's equations", run=_entry),
    Check(name="refraction", source="Snell's law", run=_snell),
    Check(name="diffusion", source="diffusion theory, image source, Reff of Haskell et al. 1994", run=_diffusion),
    *(_absorption(name, photons) for name, photons in _ABSORBED.items()),
    *anisotropic_checks.CHECKS,
)


# -- speeds -----------------------------------------------------------------------------------------------------------


def _speed(name: str, photons: int, *, roulette: bool = True) -> Speed:
    def prepare(device: Device) -> Callable[[], float]:
        case = benchmark(name)
        if not roulette:
            case = dataclasses.replace(case, settings=dataclasses.replace(case.settings, roulette_threshold=0.0))
        case = dataclasses.replace(case, detectors=())
        return lambda: float(run_case(case, device, photons).launched)

    return Speed(name=name if roulette else f"{name} without roulette", unit="photons", prepare=prepare)


SPEEDS = (
    _speed("cube60", 400_000),
    _speed("cube60b", 200_000),
    _speed("B1", 40_000),
    _speed("B1", 40_000, roulette=False),
    _speed("B2", 40_000),
    _speed("skin7", 20_000),
)


# -- warm-ups ---------------------------------------------------------------------------------------------------------


def _simulate_little(labels: int = 1, gates: Sequence[tuple[float, ...]] = ((0.0, 5.0),)) -> None:
    """Trace a few photons with every option that compiles something of its own."""
    numbers = np.arange(512).reshape(8, 8, 8) % labels + 1
    media = tuple(Medium(label=label, mua_per_mm=0.02, mus_per_mm=2.0, n=1.37) for label in range(1, labels + 1))
    domain = Domain(labels=numbers, affine=np.eye(4), media=media)
    source, detector = Pencil(position_mm=(4.0, 4.0, -1.0)), Detector(position_mm=(4.0, 4.0, 0.0), radius_mm=3.0)
    for edges in gates:
        few, more = (LightSettings(photons=photons, time_gates_ns=edges) for photons in (17, 33))
        first = simulate(domain, source, few, detectors=[detector], device=CPU)
        simulate(domain, source, more, detectors=[detector], device=CPU, resume=first)


WARMUPS = (
    WarmUp(name="light in voxels", run=lambda: _simulate_little(gates=((0.0, 5.0), (0.0, 0.1, 0.2))), functions=114),
    WarmUp(name="volumes of more than 254 labels", run=lambda: _simulate_little(300), functions=21),
)
