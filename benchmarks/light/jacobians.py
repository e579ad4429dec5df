"""Cases of ``light_jacobians.py``: what is simulated, other coefficients, and MCX's replay of the same."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import DetectedPhotons, Detector
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.phantom.head import default_source, load_head_phantom
from napari_gpubio.optics.sources import Pencil, Source
from napari_gpubio.optics.surface import nearest_surface
from napari_gpubio.probes.jacobians.model import Jacobians

LIGHT_MM_PER_NS = 299.792458
STEP_PER_MM = 1e-4
# d ln intensity of a ring at 9 to 11 mm by layers of 0-2, 2-6 and 6- mm, with errors, mm: an independent program.
RING = {
    "mua": ((-15.68, 0.06), (-31.27, 0.16), (-11.84, 0.14)),
    "mus": ((-0.829, 0.033), (-0.570, 0.043), (0.111, 0.021)),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class JacobianCase:
    """What is simulated, but for photons and seed."""

    domain: Domain
    source: Source
    detectors: tuple[Detector, ...]
    end_ns: float = 5.0
    roulette: float = 1e-4


def run(case: JacobianCase, photons: int, device: str, seed: int = 1) -> LightResult:
    settings = LightSettings(
        photons=photons, seed=seed, time_gates_ns=(0.0, case.end_ns), roulette_threshold=case.roulette,
        max_detected=50_000_000,
    )  # fmt: skip
    return simulate(case.domain, case.source, settings, detectors=case.detectors, device=device)


def _block(labels: np.ndarray, media: Sequence[Medium]) -> Domain:
    affine = np.eye(4)
    affine[:3, 3] = 0.5  # the world begins at the corner of the first voxel
    return Domain(labels=labels, affine=affine, media=tuple(media))


def ring() -> JacobianCase:
    labels = np.full((121, 121, 61), 3, np.uint8)
    labels[:, :, :2], labels[:, :, 2:6] = 1, 2
    media = [Medium(label=label, mua_per_mm=0.01, mus_per_mm=1.0, g=0.0, n=1.0) for label in (1, 2, 3)]
    middle = (60.5, 60.5, 0.0)
    detectors = [
        Detector(position_mm=middle, radius_mm=radius, normal=(0, 0, 1), name=name)
        for name, radius in (("inside", 9.0), ("ring", 11.0))
    ]
    source = Pencil(position_mm=(60.5, 60.5, -1.0))
    return JacobianCase(
        domain=_block(labels, media), source=source, detectors=tuple(detectors), end_ns=400 / LIGHT_MM_PER_NS
    )


def slab() -> JacobianCase:
    """Two scattering layers with a clear one between them, and 20 detectors on both sides."""
    labels = np.ones((12, 12, 8), np.uint8)
    labels[:, :, 3], labels[:, :, 4:] = 2, 3
    media = (
        Medium(label=1, mua_per_mm=0.02, mus_per_mm=4.0, g=0.7, n=1.4),
        Medium(label=2, mua_per_mm=0.004, mus_per_mm=0.05, g=0.7, n=1.33),
        Medium(label=3, mua_per_mm=0.03, mus_per_mm=6.0, g=0.8, n=1.4),
    )
    detectors = tuple(
        Detector(position_mm=(x, y, z), radius_mm=1.2)
        for z in (0.0, 8.0)
        for x in (5.0, 3.0, 7.0, 9.0, 11.0)
        for y in (6.0, 9.0)
    )
    return JacobianCase(
        domain=_block(labels, media), source=Pencil(position_mm=(3.0, 6.0, -0.5)), detectors=detectors, roulette=0.0
    )


def head(shift_mm: float = 0.0) -> JacobianCase:
    """The sample head: a source, and five detectors in a row from it."""
    domain = load_head_phantom()
    source = default_source(domain)
    top, ahead = np.array(source.position_mm), np.array(source.direction)
    across = np.cross(ahead, np.eye(3)[np.argmin(np.abs(ahead))])
    across /= np.linalg.norm(across)

    def at(distance_mm: float) -> tuple[float, float, float]:
        x, y, z = nearest_surface(domain.labels, domain.affine, top + distance_mm * across)
        return float(x), float(y), float(z)

    detectors = tuple(Detector(position_mm=at(shift_mm + d), radius_mm=3.0) for d in (8.0, 12.0, 16.0, 20.0, 24.0))
    return JacobianCase(
        domain=domain, source=dataclasses.replace(source, position_mm=at(shift_mm)), detectors=detectors, roulette=0.0
    )


def cube() -> JacobianCase:
    """For MCX: cubic voxels of 1 mm, spheres as detectors, no specular loss, nothing that it lacks."""
    labels = np.full((60, 60, 40), 3, np.uint8)
    labels[:, :, :2], labels[:, :, 2:6] = 1, 2
    media = [Medium(label=label, mua_per_mm=0.01, mus_per_mm=1.0, g=0.0, n=1.0) for label in (1, 2, 3)]
    detectors = (Detector(position_mm=(40.0, 30.0, 0.0), radius_mm=2.0),)
    return JacobianCase(
        domain=_block(labels, media), source=Pencil(position_mm=(30.0, 30.0, 0.0)), detectors=detectors, roulette=0.0
    )


def differences() -> Iterator[tuple[str, JacobianCase, tuple[int, ...]]]:
    """Cases, and the labels whose absorption changes."""
    yield "slab, all of it", slab(), (1, 2, 3)
    yield "slab, clear layer", slab(), (2,)
    for shift in (-9.0, 0.0, 9.0, 18.0):
        case = head(shift)
        names = {case.domain.medium(label).name: label for label in case.domain.labels_present}
        yield f"head, CSF and gray matter, {shift:+g} mm", case, (names["CSF"], names["gray matter"])


def scattering() -> Iterator[tuple[str, JacobianCase, int]]:
    """Cases, and the label whose scattering changes."""
    case = slab()
    wide = (
        Detector(position_mm=(6.0, 6.0, 0.0), radius_mm=5.0, name="near"),
        Detector(position_mm=(6.0, 6.0, 8.0), radius_mm=6.0, name="far"),
    )
    for label in (1, 2, 3):
        yield f"slab, layer {label}", dataclasses.replace(case, detectors=wide), label


def absorbing(case: JacobianCase, labels: Sequence[int], times: float) -> JacobianCase:
    """The case with more absorption in some labels, by so many steps."""
    media = [
        dataclasses.replace(m, mua_per_mm=m.mua_per_mm + times * STEP_PER_MM) if m.label in labels else m
        for m in case.domain.media
    ]
    return dataclasses.replace(case, domain=case.domain.with_optics(media))


def scattered(case: JacobianCase, label: int, factor: float) -> JacobianCase:
    """The case with other scattering in a label."""
    media = [
        dataclasses.replace(m, mus_per_mm=m.mus_per_mm * factor) if m.label == label else m for m in case.domain.media
    ]
    return dataclasses.replace(case, domain=case.domain.with_optics(media))


def measured(photons: DetectedPhotons, measure: str) -> float:
    return float(np.log(photons.weight.sum(dtype=float))) if measure == "ln_intensity" else photons.mean_time_ns()


def spread_row(runs: Sequence[Jacobians], number: int) -> dict[str, Any]:
    """Spread over seeds over the claimed error of one part, as root mean squares."""
    parts = [one.parts[number] for one in runs]

    def ratio(name: str, error: str, kept: Any = ...) -> float:
        values = np.array([getattr(part, name) for part in parts], float)[:, kept]
        errors = np.array([getattr(part, error) for part in parts], float)[:, kept]
        squared = values.var(axis=0, ddof=1) / np.square(errors).mean(axis=0)
        return float(np.sqrt(np.mean(squared[np.isfinite(squared)])))

    values = np.array([part.values for part in parts], float)
    enough = np.abs(values.mean(axis=0)) > 3 * values.std(axis=0, ddof=1)
    return {
        "part": parts[0].name,
        "voxels": int(enough.sum()),
        "voxel_ratio": ratio("values", "errors", enough) if enough.any() else float("nan"),
        "label_ratio": ratio("label_sums", "label_errors"),
        "measured_ratio": ratio("measured", "measured_error"),
    }


def mcx_replay(pmcx: Any, case: JacobianCase, photons: int, seed: int) -> dict[str, Any]:
    """MCX's derivatives of ln intensity of the first detector: by label and, by mu_a, by voxel; mm."""
    media = case.domain.media
    prop = np.zeros((1 + max(m.label for m in media), 4))
    prop[:, 2:] = 1.0
    for m in media:
        prop[m.label] = m.mua_per_mm, m.mus_per_mm, m.g, m.n
    end = case.end_ns * 1e-9
    detectors = [[*detector.position_mm, detector.radius_mm] for detector in case.detectors]
    config = {
        "nphoton": photons, "seed": seed, "vol": case.domain.labels, "prop": prop, "srctype": "pencil",
        "srcpos": list(case.source.position_mm), "srcdir": [0, 0, 1], "issrcfrom0": 1, "tstart": 0.0, "tend": end,
        "tstep": end, "isreflect": 0, "isspecular": 0, "issavedet": 1, "issaveseed": 1, "autopilot": 1, "gpuid": 1,
        "minenergy": 0.0, "unitinmm": 1.0, "detpos": detectors, "maxdetphoton": 20_000_000, "savedetflag": "DP",
    }  # fmt: skip
    first = pmcx.run(config)
    detected = first["detp"]["data"] if isinstance(first["detp"], dict) else first["detp"]
    again = config | {"seed": first["seeds"], "detphotons": detected, "replaydet": 1}
    path = np.squeeze(pmcx.run(again | {"outputtype": "jacobian"})["flux"]).astype(float)
    events = np.squeeze(pmcx.run(again | {"outputtype": "wp"})["flux"]).astype(float)
    labels = case.domain.labels
    present = case.domain.labels_present
    mus = {label: case.domain.medium(label).mus_per_mm for label in present}
    return {
        "mua": [-path[labels == label].sum() for label in present],
        "mus": [events[labels == label].sum() / mus[label] - path[labels == label].sum() for label in present],
        "voxels": -path,
    }
