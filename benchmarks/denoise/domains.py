"""Monte Carlo fluence with its noise: four domains, many independent runs of each, and what they tend to.

Volumes are crops of 60^3 voxels around the beam, from the surface on; all of a domain's symmetry is kept.
"""

import dataclasses
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from common import Array

from napari_gpubio.core.device import Device
from napari_gpubio.light import benchmarks
from napari_gpubio.light.benchmarks import Case
from napari_gpubio.light.run import simulate
from napari_gpubio.optics.model import Domain, Medium

DOMAINS = {
    "B1": "homogeneous cube",
    "B2": "cube with an absorbing inclusion",
    "B3": "cube with a refracting inclusion (n 6.85)",
    "B4": "layers of a head: skull 10 mm, liquor 3 mm, gray matter 4 mm, white matter",
}
CROP = (slice(20, 80), slice(20, 80), slice(0, 60))
TRUTH_SEED = 1_000_003  # none of the runs'
_LAYERS = (  # of B4: first voxel, mu_a, mu_s (1 - g) in 1/mm
    (0, 0.019, 0.858),
    (10, 0.004, 0.009),
    (13, 0.02, 0.99),
    (17, 0.08, 3.9),
)
_G, _N = 0.9, 1.37
_KEPT_BITS = 12  # of mantissas that are stored: 1e-4 relative, far below the noise


class Pair(NamedTuple):
    """Fluence of even and of odd photons of one run, each per photon of its half, shape (X, Y, Z)."""

    first: Array
    second: Array

    @property
    def whole(self) -> Array:
        """Fluence of all photons."""
        return (self.first + self.second) / 2


class Tissue(NamedTuple):
    """Labels of a crop, shape (X, Y, Z), and each voxel's effective attenuation, 1/mm."""

    labels: Array
    mueff_per_mm: Array


class Runs(Protocol):
    """Where runs come from."""

    def available(self, domain: str, photons: int) -> int:
        """How many runs there can be."""

    def run(self, domain: str, photons: int, index: int) -> Pair:
        """One run."""

    def truth(self, domain: str) -> Array:
        """What runs tend to."""


@cache
def make_case(name: str) -> Case:
    """One of the four domains, with its beam."""
    if name != "B4":
        return benchmarks.benchmark(name)
    b1 = benchmarks.benchmark("B1")
    labels = np.empty(b1.domain.shape, np.uint8)
    for label, (first, _, _) in enumerate(_LAYERS, 1):
        labels[:, :, first:] = label
    media = tuple(
        Medium(label=label, mua_per_mm=mua, mus_per_mm=reduced / (1 - _G), g=_G, n=_N)
        for label, (_, mua, reduced) in enumerate(_LAYERS, 1)
    )
    domain = Domain(labels=labels, affine=b1.domain.affine, media=media, outside_n=b1.domain.outside_n)
    return dataclasses.replace(b1, name=name, domain=domain, reference=None)


@cache
def tissue_of(name: str) -> Tissue:
    """Labels and sqrt(3 mu_a (mu_a + mu_s (1 - g))) of a crop."""
    domain = make_case(name).domain
    attenuation = np.zeros(256, np.float32)
    for medium in domain.media:
        reduced = medium.mus_per_mm * (1 - medium.g)
        attenuation[medium.label] = np.sqrt(3 * medium.mua_per_mm * (medium.mua_per_mm + reduced))
    labels = np.asarray(domain.labels)[CROP]
    return Tissue(labels, attenuation[labels])


def symmetrised(volume: Array) -> Array:
    """Mean over the eight mirrorings and swaps of the first two axes, under which the domains do not change."""
    volume = (volume + volume[::-1]) / 2
    volume = (volume + volume[:, ::-1]) / 2
    return (volume + np.swapaxes(volume, 0, 1)) / 2


class SimulatedRuns:
    """Runs traced here and now."""

    def __init__(self, device: Device, truth_photons: int) -> None:
        self._device, self._truth_photons = device, truth_photons
        self._truths: dict[str, Array] = {}

    def available(self, domain: str, photons: int) -> int:  # noqa: ARG002 - others have an end
        """As many as one likes."""
        return 10**6

    def run(self, domain: str, photons: int, index: int) -> Pair:
        """Trace a run; its index is its seed."""
        return self._traced(domain, photons, index + 1)

    def truth(self, domain: str) -> Array:
        """Trace many photons, once."""
        if domain not in self._truths:
            whole = self._traced(domain, self._truth_photons, TRUTH_SEED).whole
            self._truths[domain] = symmetrised(whole.astype(np.float64))
        return self._truths[domain]

    def _traced(self, domain: str, photons: int, seed: int) -> Pair:
        made = make_case(domain)
        settings = dataclasses.replace(made.settings, photons=photons, seed=seed, halves=True)
        halves = simulate(made.domain, made.source, settings, device=self._device).half_fluences
        assert halves is not None
        first, second = halves.sum(axis=-1)[(slice(None), *CROP)]
        return Pair(first, second)


class StoredRuns:
    """Runs in the files ``B1.npz`` to ``B4.npz`` of a folder, see `store`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def available(self, domain: str, photons: int) -> int:
        """How many were stored."""
        path = self._folder / f"{domain}.npz"
        if not path.is_file():
            return 0
        with np.load(path) as found:
            return sum(name.startswith(f"{photons:.0e}_") and name.endswith("_a") for name in found.files)

    def run(self, domain: str, photons: int, index: int) -> Pair:
        """Read a run."""
        with np.load(self._folder / f"{domain}.npz") as found:
            return Pair(*(found[f"{photons:.0e}_{index}_{half}"] for half in "ab"))

    def truth(self, domain: str) -> Array:
        """Read what runs tend to."""
        with np.load(self._folder / f"{domain}.npz") as found:
            return found["truth"].astype(np.float64)


def store(runs: Runs, domain: str, photons: tuple[int, ...], count: int, folder: Path) -> Path:
    """Write runs of a domain, for machines that trace slowly or have other filters; 4 to 40 MB."""
    found = {"truth": rounded(runs.truth(domain)), "labels": tissue_of(domain).labels}
    for number in photons:
        for index in range(min(count, runs.available(domain, number))):
            pair = runs.run(domain, number, index)
            for half, values in zip("ab", pair, strict=True):
                found[f"{number:.0e}_{index}_{half}"] = rounded(values)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{domain}.npz"
    np.savez_compressed(path, **found)
    return path


def rounded(values: Array) -> Array:
    """Values with so few bits that they can be packed."""
    mantissa, exponent = np.frexp(values.astype(np.float32))
    return np.ldexp(np.round(mantissa * 2**_KEPT_BITS) / 2**_KEPT_BITS, exponent).astype(np.float32)
