"""Reference cases of scattering that depends on direction: diffusion, a slab, and source and detector that swap places.

Lengths are chosen for speed: what counts is their ratio to the mean free paths.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.checks import Check, Finding, z_score_finding
from napari_gpubio.core.device import Device
from napari_gpubio.layered.checks import photons_on
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.anisotropy.theory import SlabLight, diffusion_tensor_mm, slab_light
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.scattering_tensors import FREE, MIXTURE, PRODUCT
from napari_gpubio.optics.sources import Isotropic, Pencil
from napari_gpubio.optics.theory import SPEED_OF_LIGHT_MM_PER_NS

Floats = npt.NDArray[np.float64]
MEAN_FREE_PATHS = (0.030, 0.010, 0.020)  # mm, along x, y, z: those of Pini et al. 2024
THEORY_ERROR = 0.03  # of diffusion theory, for a slab of 50 mean free paths
_GROUPS = 16
_EDGE, _BOX = 0.04, 41  # mm and voxels, about as long as a mean free path; no light reaches the sides within the gates
_PATHS_MM = (0.3, 0.9, 1.5, 1.6)  # edges of time gates: directions are forgotten after the first, the last is not used


def block(shape: tuple[int, int, int], edges_mm: npt.ArrayLike, medium: Medium, tensor: npt.ArrayLike, model: str,
          *, outside_n: float = 1.0) -> Domain:  # fmt: skip
    """Make a block of one medium with one scattering tensor (six components or three); its corner is the origin."""
    edges, six = np.broadcast_to(np.asarray(edges_mm, np.float64), 3), np.zeros(6)
    six[: np.size(tensor)] = tensor
    affine = np.diag([*edges, 1.0])
    affine[:3, 3] = edges / 2
    return Domain(
        labels=np.full(shape, medium.label, np.uint8), affine=affine, media=(medium,), outside_n=outside_n,
        mus_tensor_per_mm=np.broadcast_to(six, (*shape, 6)), scattering_model=model,
    )  # fmt: skip


# -- diffusion --------------------------------------------------------------------------------------------------------


def spread_mm(
    device: Device, tensor: npt.ArrayLike, model: str, photons: int, *, g: float = 0.0
) -> tuple[Floats, Floats]:
    """Diffusion tensor over the speed of light along x, y, z, mm, and its standard error, of a traced point source.

    Half of what the mean squares of displacement grow by from one time gate to the next, per path. Each of 16 groups of
    photons is traced alone.
    """
    domain = block((_BOX,) * 3, _EDGE, Medium(label=1, g=g, n=1.0), tensor, model)
    middle = np.full(3, _EDGE * _BOX / 2)
    source = Isotropic(position_mm=(middle[0], middle[1], middle[2]))
    offsets = (np.arange(_BOX) + 0.5) * _EDGE - middle[0]
    ends_ns = tuple(path / SPEED_OF_LIGHT_MM_PER_NS for path in _PATHS_MM)
    found = np.empty((_GROUPS, 3))
    for group in range(_GROUPS):
        settings = LightSettings(photons=photons // _GROUPS, seed=group, batches=2, time_gates_ns=(0.0, *ends_ns))
        gates = simulate(domain, source, settings, device=device).gates.astype(np.float64)[..., 1:3]
        for axis in range(3):
            along = gates.sum(axis=tuple({0, 1, 2} - {axis}))  # shape (N, gates)
            first, second = offsets**2 @ (along / along.sum(axis=0))
            found[group, axis] = (second - first) / (_PATHS_MM[2] - _PATHS_MM[0])
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(_GROUPS)


def _diffusion(model: str, photons: int) -> Callable[[Device], list[Finding]]:
    def run(device: Device) -> list[Finding]:
        tensor = 1.0 / np.array(MEAN_FREE_PATHS)
        expected = np.diag(diffusion_tensor_mm(tensor, model))
        found, error = spread_mm(device, tensor, model, photons_on(device, photons))
        return [
            z_score_finding(f"D/v along {axis} (mm)", *numbers)
            for axis, *numbers in zip("xyz", expected, found, error, strict=True)
        ]

    return run


# -- a slab -----------------------------------------------------------------------------------------------------------


class TracedSlab(NamedTuple):
    """What a slab does with a pencil beam, traced; shares of what was launched, and the mean time, ns."""

    reflected: Estimate
    transmitted: Estimate
    mean_time_ns: Estimate


def trace_slab(device: Device, photons: int, *, length_mm: float = 1.0) -> tuple[TracedSlab, SlabLight]:
    """Trace the slab of Pini et al. 2024 (n 1.3 in air, mu_a 0.03 1/mm), and return what theory says of it."""
    n, mua, layers = 1.3, 0.03, 5
    tensor = 1.0 / np.array(MEAN_FREE_PATHS)
    width = 10 * length_mm
    domain = block(
        (1, 1, layers), (width, width, length_mm / layers), Medium(label=1, mua_per_mm=mua, n=n), tensor, FREE
    )
    ends = [
        Detector(position_mm=(width / 2, width / 2, z), radius_mm=width, normal=(0, 0, 1))
        for z in (-width / 2, length_mm)
    ]  # of which the first, half a radius before the slab, counts what is reflected
    settings = LightSettings(
        photons=photons, faces=("cyclic",) * 4 + ("default",) * 2, specular=False, time_gates_ns=(0.0, 10.0),
        max_detected=10**8,
    )  # fmt: skip
    source = Pencil(position_mm=(width / 2, width / 2, 0.0))
    detected = simulate(domain, source, settings, detectors=ends, device=device).detected
    is_through = detected.position_mm[:, 2] > length_mm / 2
    weight, time = detected.weight.astype(np.float64), detected.time_ns
    group = (detected.photon % np.uint64(_GROUPS)).astype(np.int64)

    def sums(values: Floats) -> Floats:
        return np.bincount(group, values, minlength=_GROUPS).astype(np.float64)

    per_group = photons / _GROUPS
    back, through, late = sums(weight * ~is_through), sums(weight * is_through), sums(weight * time * is_through)
    traced = TracedSlab(_mean(back / per_group), _mean(through / per_group), _mean(late / through))
    theory = slab_light(length_mm, tensor, mua_per_mm=mua, n=n, source_mm=MEAN_FREE_PATHS[2], model=FREE)
    return traced, theory


def _mean(groups: Floats) -> Estimate:
    return Estimate(float(groups.mean()), float(groups.std(ddof=1) / np.sqrt(groups.size)))


def _slab(device: Device) -> list[Finding]:
    traced, theory = trace_slab(device, photons_on(device, 60_000))
    pairs = zip(("reflected", "transmitted", "mean time (ns)"), traced, theory, strict=True)
    return [
        Finding(
            quantity=f"{name} (error: over {THEORY_ERROR:.0%} and 3 standard errors)", reference=expected, result=value,
            error=(value - expected) / (THEORY_ERROR * expected + 3 * error), tolerance=1.0,
        )
        for name, (value, error), expected in pairs
    ]  # fmt: skip


# -- reciprocity ------------------------------------------------------------------------------------------------------


def swapped(device: Device, photons: int, model: str) -> tuple[Estimate, Estimate]:
    """Fluence at B of a point source at A, and at A of one at B: equal where light is reciprocal.

    A lies in fibers along x, and B in an isotropic medium beside them. The points are single voxels, and light starts
    at their centers; the index is the same everywhere.
    """
    size, half = 9, 4
    domain = block((size,) * 3, 1.0, Medium(label=1, mua_per_mm=0.05, mus_per_mm=1.0, n=1.0), (0.05, 2.0, 2.0), model)
    labels = domain.labels.copy()
    labels[:, half:] = 2
    tensors = np.array(domain.mus_tensor_per_mm)
    tensors[:, half:] = 0.0
    media = (domain.media[0], Medium(label=2, mua_per_mm=0.05, mus_per_mm=1.0, n=1.0))
    tissue = Domain(labels=labels, affine=domain.affine, media=media, mus_tensor_per_mm=tensors, scattering_model=model)
    places = (half, half - 2, half), (half, half + 2, half)

    def fluence(start: int) -> Estimate:
        x, y, z = (float(i) + 0.5 for i in places[start])
        source = Isotropic(position_mm=(x, y, z))
        settings = LightSettings(photons=photons, seed=1 + start, time_gates_ns=(0.0, 50.0))
        result = simulate(tissue, source, settings, device=device)
        at = places[1 - start]
        return Estimate(float(result.fluence[at]), float(result.fluence_error[at]))

    return fluence(0), fluence(1)


def _reciprocity(model: str) -> Callable[[Device], list[Finding]]:
    def run(device: Device) -> list[Finding]:
        there, back = swapped(device, photons_on(device, 100_000), model)
        return [z_score_finding("fluence, swapped (1/mm²)", there.value, back.value, back.error, there.error)]

    return run


CHECKS = (
    *(
        Check(
            name=f"anisotropic diffusion, {model}",
            source="closed form of the diffusion tensor (free: Pini et al. 2024)",
            run=_diffusion(model, 16_000),
        )
        for model in (PRODUCT, FREE, MIXTURE)
    ),
    Check(name="anisotropic slab", source="anisotropic diffusion, Pini et al. 2024", run=_slab),
    *(
        Check(name=f"reciprocity, {model}", source="detailed balance", run=_reciprocity(model))
        for model in (PRODUCT, MIXTURE)
    ),
)
