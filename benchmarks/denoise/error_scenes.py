"""Small domains in which the error that the cleaned fluence tells is compared with the error that it has, by place.

Truth and runs are from one Monte Carlo program with different seeds; the truth's own variance is taken off.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import Array, Row
from scipy import ndimage

from napari_gpubio.core.device import Device
from napari_gpubio.light.guide import diffusion_guide
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Disk, Isotropic, Pencil, Source

DOMAINS = {
    "vessel": "a pencil beside a vessel of 1/mm, above cerebrospinal fluid",
    "vesselgate": "the same from 0.1 to 0.4 ns",
    "black": "an isotropic source beside a cube of 2/mm and a clear ball",
    "disk": "a disk on layers of n 1.4 and 1.33, above a vessel across",
    "diskgate": "the same from 0.05 to 0.25 ns",
    "sheet": "an oblique pencil beside a sheet of 1.5/mm and a wire of 3/mm, in voxels of 1 x 1 x 2 mm",
    "two": "an isotropic source in a head-like ball, beside a vessel of 0.8/mm",
}
GATES_NS = {"vesselgate": (0.1, 0.4), "diskgate": (0.05, 0.25)}
TRUTH_SEED, TRUTH_PARTS = 900, 5
FEWEST_VOXELS = 4
KNOWN = 0.15  # the truth's relative standard error where a voxel counts, at most


class Scene(NamedTuple):
    """A domain, its source, its strong absorbers, and its clear tissue."""

    domain: Domain
    source: Source
    strong: tuple[int, ...]
    clear: tuple[int, ...]


class Data(NamedTuple):
    """Halves (runs, 2, X, Y, Z) and standard errors (runs, X, Y, Z) by the number of photons, the guide, the truth."""

    halves: Mapping[int, Array]
    errors: Mapping[int, Array]
    guide: Array
    truth: Array
    truth_error: Array
    truth_photons: int


@cache
def make_scene(name: str) -> Scene:
    """One of `DOMAINS`."""
    scenes: dict[str, Callable[[], Scene]] = {"vessel": _vessel, "black": _black, "disk": _disk, "sheet": _sheet}
    return scenes.get(name.removesuffix("gate"), _two)()


def _vessel() -> Scene:
    _, y, z = np.indices((40, 40, 32))
    labels = np.select([z < 14, z < 17], [1, 2], 3).astype(np.uint8)
    labels[(y - 23) ** 2 + (z - 5) ** 2 <= 1.6**2] = 4
    media = _media((0.02, 1.0), (0.004, 0.01), (0.02, 1.5), (1.0, 1.0))
    return Scene(_domain(labels, media), Pencil(position_mm=(19.5, 19.5, -1), direction=(0, 0, 1)), (4,), (2,))


def _black() -> Scene:
    x, y, z = np.indices((36, 36, 36))
    labels = np.ones(x.shape, np.uint8)
    labels[22:27, 16:21, 16:21] = 2
    labels[(x - 18) ** 2 + (y - 9) ** 2 + (z - 18) ** 2 <= 14] = 3
    source = Isotropic(position_mm=(17.5, 18, 18), direction=(0, 0, 1))
    return Scene(_domain(labels, _media((0.02, 1.0), (2.0, 1.0), (0.002, 0.02))), source, (2,), (3,))


def _disk() -> Scene:
    x, y, z = np.indices((40, 36, 34))
    labels = np.select([z < 6, z < 12, z < 14], [1, 2, 3], 4).astype(np.uint8)
    labels[np.abs((x - y) - 6) ** 2 / 2 + (z - 8) ** 2 <= 2.0**2] = 5
    media = _media((0.018, 1.3, 1.4), (0.015, 1.1, 1.4), (0.003, 0.03, 1.33), (0.03, 1.1, 1.4), (0.3, 1.2, 1.4))
    source = Disk(position_mm=(20, 17, -1), direction=(0, 0, 1), radius_mm=3.0)
    return Scene(_domain(labels, media), source, (5,), (3,))


def _sheet() -> Scene:
    x, y, z = np.indices((40, 40, 18)) * np.array([1, 1, 2]).reshape(3, 1, 1, 1)
    labels = np.ones(x.shape, np.uint8)
    labels[(x > 24) & (x < 32) & (z >= 8) & (z < 10)] = 2
    labels[(x - 14) ** 2 + (z - 10) ** 2 <= 2] = 3
    labels[(x - 20) ** 2 + (y - 30) ** 2 + (z - 12) ** 2 <= 25] = 4
    source = Pencil(position_mm=(16.2, 19.7, -1), direction=(0.5, 0, 0.866))
    media = _media((0.03, 1.2), (1.5, 1.0), (3.0, 1.0), (0.003, 0.05))
    return Scene(_domain(labels, media, (1.0, 1.0, 2.0)), source, (2, 3), (4,))


def _two() -> Scene:
    x, y, z = np.indices((38, 38, 38))
    radius = np.sqrt((x - 18.5) ** 2 + (y - 18.5) ** 2 + (z - 18.5) ** 2)
    labels = np.select([radius < 13, radius < 14.5, radius < 17.5], [1, 3, 2], 0).astype(np.uint8)
    labels[((x - 24) ** 2 + (z - 19) ** 2 <= 2.5**2) & (radius < 13)] = 4
    source = Isotropic(position_mm=(18.3, 19.1, 17.6), direction=(0, 0, 1))
    media = _media((0.04, 2.0), (0.012, 1.2), (0.004, 0.02), (0.8, 1.5))
    return Scene(_domain(labels, media), source, (4,), (3,))


def _media(*rows: Sequence[float]) -> tuple[Medium, ...]:
    """Media of absorption and reduced scattering, 1/mm, and maybe n."""
    return tuple(
        Medium(label=label, mua_per_mm=mua, mus_per_mm=mus, g=0.0, n=index[0] if index else 1.37)
        for label, (mua, mus, *index) in enumerate(rows, 1)
    )


def _domain(labels: Array, media: tuple[Medium, ...], sizes: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Domain:
    return Domain(labels=labels, affine=np.diag([*sizes, 1.0]), media=media)


def data_of(name: str, counts: Mapping[int, int], truth_photons: int, device: Device, folder: Path | None) -> Data:
    """Runs (so many of each number of photons) and the truth of a domain; with a folder, those stored there."""
    path = None if folder is None else folder / f"{name}.npz"
    if path is not None and path.is_file():
        with np.load(path) as arrays:
            found = dict(arrays)
    else:
        found = _traced(name, counts, truth_photons, device)
        if path is not None:
            np.savez(path, **found)
    photons = [count for count in counts if f"h{count}" in found]
    halves, errors = ({count: found[f"{letter}{count}"] for count in photons} for letter in "he")
    return Data(halves, errors, found["guide"], found["truth"], found["terr"], int(found["nt"]))


def _traced(name: str, counts: Mapping[int, int], truth_photons: int, device: Device) -> dict[str, Array]:
    scene, found, truths = make_scene(name), {}, []
    gates = {"time_gates_ns": GATES_NS[name]} if name in GATES_NS else {}

    def run(photons: int, seed: int, *, halves: bool) -> Array:
        settings = LightSettings(photons=photons, seed=seed, halves=halves, **gates)
        return simulate(scene.domain, scene.source, settings, device=device)

    for photons, runs in counts.items():
        results = [run(photons, seed, halves=True) for seed in range(1, runs + 1)]
        found[f"h{photons}"] = np.array([one.half_fluences.sum(axis=-1) for one in results], np.float32)
        found[f"e{photons}"] = np.array([one.fluence_error for one in results])
    for part in range(TRUTH_PARTS):
        one = run(truth_photons // TRUTH_PARTS, TRUTH_SEED + part, halves=False)
        truths.append((one.fluence.astype(float), one.fluence_error.astype(float)))
    found["guide"] = diffusion_guide(scene.domain, scene.source, one.settings, device=device)
    found["truth"] = np.mean([fluence for fluence, _ in truths], axis=0)
    found["terr"] = np.sqrt(np.sum([error**2 for _, error in truths], axis=0)) / TRUTH_PARTS
    return {**found, "nt": np.array(truth_photons)}


def places(scene: Scene, data: Data, photons: int) -> dict[str, Array]:
    """Which voxels with more signal than noise belong to each place."""
    labels, sizes = scene.domain.labels, scene.domain.voxel_sizes_mm
    error = data.truth_error * np.sqrt(data.truth_photons / photons)
    seen = (error > 0) & (error < data.truth) & (data.truth_error < KNOWN * data.truth) & (labels > 0)
    away = _distance(scene, np.indices(labels.shape) * sizes.reshape(3, 1, 1, 1))
    strong, clear = (np.isin(labels, which) for which in (scene.strong, scene.clear))
    one, two = (ndimage.binary_dilation(strong, iterations=n) & ~strong for n in (1, 2))
    gap = ndimage.binary_dilation(clear) & ~clear
    outside = np.pad(labels == 0, 1, constant_values=True)
    edge = ndimage.binary_dilation(outside)[1:-1, 1:-1, 1:-1] & (away > 3.5)
    found = {
        "source, within 1.5 mm": away <= 1.5,
        "within 2.5 mm": away <= 2.5,
        "within 3.5 mm": away <= 3.5,
        "in absorbers": strong,
        "1 voxel from absorbers": one,
        "within 2 voxels": two,
        "in clear tissue": clear,
        "beside it": gap,
        "at the outside": edge,
        "the rest": ~(strong | two | clear | gap | edge | (away <= 3.5)),
        "all": np.ones(labels.shape, bool),
    }
    return {name: where & seen for name, where in found.items() if (where & seen).sum() >= FEWEST_VOXELS}


def _distance(scene: Scene, place_mm: Array) -> Array:
    """Distance to where light enters, mm."""
    source = scene.source
    start, direction = np.array(source.position_mm, float), np.array(source.direction, float)
    if source.kind != "isotropic":
        start = start - direction * start[2] / direction[2]  # on the face z = 0
    x, y, z = place_mm - start.reshape(3, 1, 1, 1)
    across = np.hypot(x, y) if source.kind != "disk" else np.maximum(np.hypot(x, y) - source.radius_mm, 0)
    return np.sqrt(across**2 + z**2)


class Tally:
    """Sums over runs, by voxel."""

    def __init__(self, data: Data) -> None:
        self._data, self.count = data, 0
        self._raw, self._left, self._reported = (np.zeros(data.truth.shape) for _ in range(3))

    def add(self, whole: Array, clean: Array, reported: Array) -> None:
        """Take in a run: its fluence, the cleaned one and the error that is reported of it."""
        self.count += 1
        self._raw += np.square(whole - self._data.truth)
        self._left += np.square(clean - self._data.truth)
        self._reported += np.square(reported, dtype=float)

    def figures(self, where: Array) -> Row:
        """Gain of relative squared error, and reported over true error, relative to the fluence and absolute."""
        own, truth = np.square(self._data.truth_error[where]), self._data.truth[where]
        raw, left = (sums[where] / self.count - own for sums in (self._raw, self._left))
        reported = self._reported[where] / self.count
        weight = 1 / truth**2
        return {
            "voxels": int(where.sum()),
            "gain": float(10 * np.log10(np.mean(raw * weight) / np.mean(left * weight))),
            "reported_over_true": float(np.sqrt(np.mean(reported * weight) / np.mean(left * weight))),
            "reported_over_true_absolute": float(np.sqrt(np.mean(reported) / np.mean(left))),
        }
