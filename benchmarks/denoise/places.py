"""Domains with strong absorbers and clear layers, and how a filter does in each of their places.

Noise and truth are known voxel by voxel from one run of very many photons; nothing is assumed symmetric.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import Array, Row
from scipy import ndimage

from denoise.domains import CROP, Pair, make_case
from napari_gpubio.core.device import Device
from napari_gpubio.light.benchmarks import benchmark_settings
from napari_gpubio.light.guide import diffusion_guide
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Pencil, Source

CUBES = ("B1", "B2", "B3", "B4")
SCENES = {
    "head": "60 x 60 x 44 mm: scalp and skull, cerebrospinal fluid, gray matter with gyri, white matter, a vessel of "
    "3 mm with .45/mm; two sources",
    "absorbers": "64 x 64 x 56 mm in voxels of 1 x 1 x 2 mm: a ball, a sheet and a wire of 1/mm, a clear ball",
}
GATES_NS = {"head, 0-0.2 ns": (0.0, 0.2), "head, 0.2-0.5 ns": (0.2, 0.5), "head, 1-5 ns": (1.0, 5.0)}
BINS = ((0, 10), (10, 20), (20, 30), (30, 60))  # dB of the raw fluence
WHOLE = (0, 60)
FEWEST_VOXELS = 100
AROUND_VOXELS = 2
KNOWN = 0.1  # the truth's relative standard error where a voxel counts, at most
_SEEDS = 1000


class Scene(NamedTuple):
    """A domain, its sources of equal power, and the voxels that are looked at."""

    domain: Domain
    sources: tuple[Source, ...]
    settings: LightSettings
    crop: tuple[slice, ...]
    strong: tuple[int, ...]  # labels around which errors are looked at, too


class Truth(NamedTuple):
    """What runs tend to, shape (X, Y, Z)."""

    fluence: Array
    error: Array  # standard error
    photons: int

    def raw_db(self, photons: int) -> Array:
        """Signal / noise of a run of so many photons, dB; -99 where the truth is not known."""
        known = (self.fluence > 0) & (self.error > 0) & (self.error < KNOWN * self.fluence)
        ratio = np.where(known, self.fluence / np.where(known, self.error, 1.0), 1.0)
        return np.where(known, 20 * np.log10(ratio) - 10 * np.log10(self.photons / photons), -99.0)


@cache
def make_scene(name: str) -> Scene:
    """One of `CUBES`, `SCENES` or `GATES_NS`."""
    if name in CUBES:
        case = make_case(name)
        strong = (2,) if name in ("B2", "B3") else ()
        return Scene(case.domain, (case.source,), case.settings, CROP, strong)
    if name in GATES_NS:
        head = _head()
        return head._replace(settings=dataclasses.replace(head.settings, time_gates_ns=GATES_NS[name]))
    return _head() if name == "head" else _absorbers()


def _head() -> Scene:
    x, y, z = np.indices((60, 60, 44))
    gyri = 15 + 1.5 * np.sin(x / 3.0) * np.cos(y / 4.0)  # depth of the gray matter, mm
    labels = np.select([z < 9, z < gyri - 2, z < gyri + 3], [1, 2, 3], 4).astype(np.uint8)
    labels[(y - 30.0) ** 2 + (z - 13.0) ** 2 <= 1.6**2] = 5
    media = _media((0.019, 0.86), (0.004, 0.01), (0.02, 0.99), (0.08, 4.0), (0.45, 2.0))
    sources = tuple(Pencil(position_mm=(x, 29.5, -1), direction=(0, 0, 1)) for x in (19.5, 40.5))
    return Scene(_domain(labels, media), sources, benchmark_settings(), (slice(None),) * 3, (5,))


def _absorbers() -> Scene:
    x, y, z = np.indices((64, 64, 28)) * np.array([1, 1, 2]).reshape(3, 1, 1, 1)
    labels = np.ones(x.shape, np.uint8)
    labels[(x > 20) & (x < 44) & (z >= 30) & (z < 34)] = 3
    labels[(x - 16) ** 2 + (y - 32) ** 2 + (z - 14) ** 2 <= 16] = 2
    labels[(x - 50) ** 2 + (z - 14) ** 2 <= 2] = 4
    labels[(x - 32) ** 2 + (y - 14) ** 2 + (z - 14) ** 2 <= 36] = 5
    media = _media((0.02, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (0.002, 0.05))
    source = Pencil(position_mm=(31.5, 31.5, -2), direction=(0, 0, 1))
    domain = _domain(labels, media, (1.0, 1.0, 2.0))
    return Scene(domain, (source,), benchmark_settings(), (slice(None),) * 3, (2, 3, 4))


def _media(*rows: tuple[float, float]) -> tuple[Medium, ...]:
    """Media of absorption and reduced scattering, 1/mm."""
    return tuple(
        Medium(label=label, mua_per_mm=mua, mus_per_mm=reduced / 0.1, g=0.9, n=1.37)
        for label, (mua, reduced) in enumerate(rows, 1)
    )


def _domain(labels: Array, media: tuple[Medium, ...], sizes: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Domain:
    return Domain(labels=labels, affine=np.diag([*sizes, 1.0]), media=media)


def trace(scene: Scene, photons: int, seed: int, device: Device) -> Pair:
    """The halves of a run, whose photons the sources share."""
    halves = []
    for number, source in enumerate(scene.sources):
        share = {"photons": photons // len(scene.sources), "seed": _SEEDS * seed + number, "halves": True}
        found = simulate(scene.domain, source, dataclasses.replace(scene.settings, **share), device=device)
        assert found.half_fluences is not None
        halves.append(found.half_fluences.sum(axis=-1))
    first, second = np.mean(halves, axis=0)
    return Pair(first, second)


def _trace_truth(scene: Scene, photons: int, device: Device) -> Truth:
    """A run of very many photons, with its standard error."""
    found = [
        simulate(
            scene.domain,
            source,
            dataclasses.replace(scene.settings, photons=photons // len(scene.sources), seed=number + 1),
            device=device,
        )
        for number, source in enumerate(scene.sources)
    ]
    fluence = np.mean([one.fluence for one in found], axis=0, dtype=np.float64)
    variances = [np.square(one.fluence_error, dtype=np.float64) for one in found]
    return Truth(fluence, np.sqrt(np.mean(variances, axis=0) / len(found)), photons)


def truth_of(name: str, photons: int, device: Device, folder: Path | None) -> Truth:
    """The truth of a scene; with a folder, one that is stored there, if need be after it was traced."""
    if folder is None:
        return _trace_truth(make_scene(name), photons, device)
    path = folder / f"truth_{name}_{photons}.npz"
    if not path.is_file():
        truth = _trace_truth(make_scene(name), photons, device)
        np.savez(path, fluence=truth.fluence, error=truth.error)
    with np.load(path) as arrays:
        return Truth(arrays["fluence"], arrays["error"], photons)


def guide_of(scene: Scene, device: Device) -> Array:
    """The guide of a filter: the mean of those of the sources."""
    guides = [diffusion_guide(scene.domain, source, scene.settings, device=device) for source in scene.sources]
    return np.mean(guides, axis=0)


def places(scene: Scene, raw_db: Array) -> dict[str, Array]:
    """Which voxels belong to each place, by its name: bins of signal / noise, labels, and what is near absorbers."""
    seen = (raw_db >= WHOLE[0]) & (raw_db < WHOLE[1])
    found = {"all": seen}
    found |= {f"{low}-{high} dB": (raw_db >= low) & (raw_db < high) for low, high in BINS}
    labels = scene.domain.labels
    found |= {f"label {label}": seen & (labels == label) for label in scene.domain.labels_present}
    if scene.strong:
        strong = np.isin(labels, scene.strong)
        found["around"] = seen & ndimage.binary_dilation(strong, iterations=AROUND_VOXELS) & ~strong
    inside = np.zeros(labels.shape, bool)
    inside[scene.crop] = True
    return {name: where & inside for name, where in found.items() if (where & inside).sum() >= FEWEST_VOXELS}


class Tally:
    """Sums over runs of what a filter finds, by voxel."""

    def __init__(self, truth: Truth) -> None:
        self.count, self._truth = 0, truth
        self._sum, self._squares, self._errors, self._reported = (np.zeros(truth.fluence.shape) for _ in range(4))

    def add(self, values: Array, reported: Array | None = None) -> None:
        """Take in a run, and the error that it comes with."""
        self.count += 1
        self._sum += values
        self._squares += np.square(values, dtype=np.float64)
        self._errors += np.square(values - self._truth.fluence)
        if reported is not None:
            self._reported += np.square(reported, dtype=np.float64)

    def figures(self, raw: "Tally", where: Array) -> Row:
        """Gain of relative squared error (the truth's own taken off), bias, and gain of signal / noise, dB."""
        truth, own = self._truth.fluence[where], np.square(self._truth.error[where])
        error, before = (one.relative_error(where, truth, own) for one in (self, raw))
        spread, spread_before = (one.relative_variance(where) for one in (self, raw))
        row = {
            "voxels": int(where.sum()),
            "error_gain": _db(before / error),
            "bias": 2 * _db(float(np.mean(self._sum[where] / self.count / truth))),
            "snr_gain": _db(spread_before / spread) if spread > 0 else float("nan"),  # of a single run
        }
        if self._reported.any():
            row["error_reported_over_true"] = float(
                np.sqrt(np.mean(self._reported[where] / self.count / truth**2) / error)
            )
        return row

    def relative_error(self, where: Array, truth: Array, own: Array) -> float:
        """Mean squared error over the squared truth, without the share of the truth's own variance."""
        return float(np.mean((self._errors[where] / self.count - own) / truth**2))

    def relative_variance(self, where: Array) -> float:
        """Mean variance over the squared mean of the runs."""
        mean = self._sum[where] / self.count
        variance = (self._squares[where] / self.count - mean**2) * self.count / max(1, self.count - 1)
        return float(np.mean(variance / np.maximum(mean, 1e-150) ** 2))


def _db(ratio: float) -> float:
    return float(10 * np.log10(ratio)) if ratio > 0 else float("nan")


Apply = Callable[[Scene, Pair, Array], tuple[Array, Array | None]]  # (scene, halves, guide) -> values, error or None
