"""Results of light simulations made by hand, with physically plausible numbers, for tests that need no engine."""

from collections.abc import Sequence

import numpy as np

from napari_gpubio.light.result import EnergyBalance, LightResult
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import DetectedPhotons, Detector
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Pencil

MEDIA = (
    Medium(label=1, name="scalp", mua_per_mm=0.0191, mus_per_mm=8.25, g=0.92, n=1.37),
    Medium(label=2, name="skull", mua_per_mm=0.0136, mus_per_mm=10.75, g=0.92, n=1.37),
    Medium(label=3, name="CSF", mua_per_mm=0.0026, mus_per_mm=0.125, g=0.92, n=1.37),
    Medium(label=4, name="gray matter", mua_per_mm=0.0186, mus_per_mm=13.9, g=0.92, n=1.37),
    Medium(label=5, name="white matter", mua_per_mm=0.0186, mus_per_mm=15.0, g=0.92, n=1.37),
)
THICKNESS_MM = (4.0, 5.0, 2.0, 4.0)
SPECULAR = 0.0243728  # ((1.37 - 1) / (1.37 + 1))^2
LIGHT_MM_PER_NS = 299.792458 / 1.37


def layered_domain(shape=(60, 60, 40), voxel_mm=1.0, media=MEDIA) -> Domain:
    """Head-like layers across the last axis; the world origin is in the middle of the top face, z points up."""
    depth = (np.arange(shape[2]) + 0.5) * voxel_mm
    layer = np.searchsorted(np.cumsum(THICKNESS_MM), depth).clip(0, len(media) - 1)
    labels = np.broadcast_to(np.array([medium.label for medium in media], np.uint8)[layer], shape).copy()
    affine = np.diag([voxel_mm, voxel_mm, -voxel_mm, 1.0])
    affine[:3, 3] = (0.5 - shape[0] / 2) * voxel_mm, (0.5 - shape[1] / 2) * voxel_mm, -0.5 * voxel_mm
    return Domain(labels=labels, affine=affine, media=media)


def sample_result(
    shape: tuple[int, int, int] = (60, 60, 40),
    gates: Sequence[float] = (0.0, 5.0),
    detectors: Sequence[float] = (15.0, 30.0),
    *,
    photons: int = 1_000_000,
    voxel_mm: float = 1.0,
    truncated: float = 0.002,
    lost: float = 0.0,
    complete: bool = True,
    seed: int = 1,
) -> LightResult:
    """Make the result of a pencil beam into a layered head.

    Parameters
    ----------
    shape
        Dimensions of the grid, whose voxels are cubes of ``voxel_mm``.
    gates
        Edges of the time gates, ns.
    detectors
        Distance of each detector from the source along x, mm.
    truncated
        Fraction of the light still under way at the end.
    lost
        Fraction by which the energy balance is broken.
    """
    random = np.random.default_rng(seed)
    domain = layered_domain(shape, voxel_mm)
    fluence = _fluence(domain)
    done = photons if complete else photons // 3
    relative = 1 / np.sqrt(np.maximum(done * fluence * 0.5, 1e-3))
    noisy = (fluence * (1 + relative.clip(max=0.6) * random.standard_normal(shape, np.float32)).clip(0)).astype("f4")
    shares = _gate_shares(gates)
    absorbed = _absorbed(domain, noisy, done)
    source = Pencil(position_mm=(0.0, 0.0, 0.0), direction=(0.0, 0.0, -1.0))
    return LightResult(
        domain=domain,
        source=source,
        settings=LightSettings(photons=photons, time_gates_ns=tuple(gates)),
        detectors=tuple(Detector(position_mm=(x, 0.0, 0.0), name=f"D{i + 1}") for i, x in enumerate(detectors)),
        gates=noisy[..., None] * shares.astype(np.float32),
        gates_error=(noisy * relative)[..., None] * np.sqrt(shares).astype(np.float32),
        fluence_error=(noisy * relative).astype(np.float32),
        half_fluences=None,
        escaped_weight=None,
        energy=_energy(absorbed, truncated, lost, done),
        absorbed=absorbed,
        detected=_detected(domain, source, detectors, done, random),
        launched=done,
        complete=complete,
        parameters={"device": "cpu (2 cores)", "seconds": 3.21},
    )


def detected_photons(weight, path_mm, *, labels=(1, 2), launched=1000, **columns) -> DetectedPhotons:
    """Photons listed by hand; what is left out of the columns is photon 0, 1, ... at detector 0 and time 0."""
    count = len(weight)
    found = {
        "photon": np.arange(count, dtype=np.uint64),
        "detector": np.zeros(count, np.int32),
        "scatterings": np.ones(count, np.int32),
        "position_mm": np.zeros((count, 3)),
        "direction": np.tile([0.0, 0.0, 1.0], (count, 1)),
        "time_ns": np.zeros(count),
        "weight": np.asarray(weight, np.float32),
        "path_mm": np.asarray(path_mm, np.float32).reshape(count, len(labels)),
    }
    found |= {name: np.asarray(values, found[name].dtype) for name, values in columns.items()}
    return DetectedPhotons(labels=labels, launched=launched, **found)


def _fluence(domain):
    """Two exponentials over distance: the shape, not the truth."""
    x, y, z = (np.asarray(axis, np.float32) for axis in _axes(domain))
    mu_eff = np.sqrt(3 * 0.018 * 1.0)
    far = np.sqrt(x[:, None, None] ** 2 + y[None, :, None] ** 2 + (z[None, None, :] + 1.0) ** 2) + np.float32(0.5)
    return (3 / (4 * np.pi)) * np.exp(-mu_eff * far) / far


def _axes(domain):
    return [domain.affine[a, a] * np.arange(domain.shape[a]) + domain.affine[a, 3] for a in range(3)]


def _absorbed(domain, fluence, photons):
    """What each label absorbs of this fluence: the sum of mu_a times fluence times volume."""
    sums = np.bincount(domain.labels.ravel(), weights=fluence.ravel(), minlength=len(MEDIA) + 1)
    fractions = {label: domain.medium(label).mua_per_mm * sums[label] for label in domain.labels_present}
    fractions = {label: part * domain.voxel_volume_mm3 for label, part in fractions.items()}
    return {label: Estimate(float(part), float(np.sqrt(part / photons))) for label, part in fractions.items()}


def _energy(absorbed, truncated, lost, photons):
    inside = sum(part.value for part in absorbed.values())
    roulette = 2.1e-7
    escaped = 1 - SPECULAR - inside - truncated - roulette - lost
    values = {"specular": SPECULAR, "missed": 0.0, "absorbed": inside, "escaped": escaped, "truncated": truncated}
    parts = {name: Estimate(value, float(np.sqrt(value * (1 - value) / photons))) for name, value in values.items()}
    parts["specular"] = Estimate(SPECULAR, 0.0)
    return EnergyBalance(**parts, roulette=Estimate(roulette, 3.4e-7))


def _gate_shares(gates):
    """Share of each gate, for light that decays with 0.4 ns."""
    edges = np.asarray(gates)
    shares = np.exp(-edges[:-1] / 0.4) - np.exp(-edges[1:] / 0.4)
    return shares / shares.sum()


def _detected(domain, source, separations, photons, random):
    """Photons whose paths are spread log-normally around six times the separation."""
    counts = [int(photons * 0.02 * np.exp(-0.25 * x)) for x in separations]
    total = sum(counts)
    detector = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    separation = np.asarray(separations, float)[detector]
    length = 6 * separation * np.exp(0.35 * random.standard_normal(total))
    share = random.dirichlet((4, 3, 0.5, 2, 0.3), total)[:, : len(domain.labels_present)]
    share = share / share.sum(axis=1, keepdims=True)
    path = share * length[:, None]
    mua = np.array([domain.medium(label).mua_per_mm for label in domain.labels_present])
    order = np.sort(random.permutation(photons)[:total]) if photons < 10**7 else np.arange(total)
    shuffled = random.permutation(total)
    return detected_photons(
        np.exp(-path @ mua)[shuffled],
        path[shuffled],
        photon=order,
        detector=detector[shuffled],
        scatterings=length[shuffled] * 9,
        position_mm=np.column_stack([separation[shuffled], np.zeros(total), np.zeros(total)]),
        time_ns=length[shuffled] / LIGHT_MM_PER_NS,
        labels=domain.labels_present,
        launched=photons,
    )
