"""A small run of every engine, the same for the same version, and all numbers of its result.

It needs NumPy, SciPy, and Numba only, so that it can run on a bare GPU machine.
"""

import hashlib
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

Steps = Generator[Any, None, Any]


@dataclass(frozen=True, slots=True)
class Engine:
    """A run of an engine.

    Parameters
    ----------
    steps
        Takes a device and the event that stops it.
    arrays
        All numbers of a result that must be the same again.
    """

    steps: Callable[[str, threading.Event], Steps]
    arrays: Callable[[Any], tuple[Any, ...]]

    def result(self, device: str = "cpu") -> Any:
        """Run it to its end."""
        steps = self.steps(device, threading.Event())
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value

    def fingerprint(self, result: Any) -> str:
        """A short text that differs for other numbers."""
        digest = hashlib.sha256()
        for array in self.arrays(result):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:12]


@cache
def _field() -> Any:
    from napari_gpubio.diffusion.phantom.closed_forms import ring

    return ring().sample()


@cache
def _scan() -> Any:
    from napari_gpubio.diffusion.model import DiffusionScan

    random = np.random.default_rng(1)
    vectors = random.standard_normal((30, 3))
    bvals = np.r_[np.zeros(3), np.full(27, 1000.0)]
    data = (1000.0 * np.exp(-bvals * 7e-4) * random.uniform(0.8, 1.2, (20, 20, 20, 30))).astype(np.float32)
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * (bvals > 0)[:, None]
    return DiffusionScan(data=data, bvals=bvals, directions=directions, affine=np.eye(4))


@cache
def _noisy() -> Any:
    x = np.indices((20, 20, 20)).sum(axis=0) / 12.0
    clean = 50.0 + 40.0 * np.sin(x)
    return np.random.default_rng(2).normal(clean, 3.0, (2, *clean.shape)).clip(0.1).astype(np.float32)


def _fit(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.diffusion.tensors.run import fit_tensors_steps

    return fit_tensors_steps(_scan(), np.ones(_scan().shape, bool), device=device, stop=stop)


def _track(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.fibers.directions import Cone
    from napari_gpubio.fibers.run import track_steps

    seeds = np.random.default_rng(3).uniform(-15.0, 15.0, (5, 3))
    return track_steps(_field(), seeds, Cone(count=20), device=device, stop=stop)


def _light(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.light.benchmarks import benchmark
    from napari_gpubio.light.run import simulate_steps
    from napari_gpubio.light.settings import LightSettings

    case = benchmark("cube60")
    return simulate_steps(case.domain, case.source, LightSettings(photons=2000, halves=True), device=device, stop=stop)


def _guided(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.light.guide import guided_steps

    return guided_steps(_light(device, stop), device=device)


def _layers(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.layered.presets import SKIN
    from napari_gpubio.layered.run import simulate_steps
    from napari_gpubio.layered.settings import LayeredSettings

    return simulate_steps(SKIN, LayeredSettings(photons=2000), device=device, stop=stop)


def _estimates(found: Any) -> tuple[Any, ...]:
    """Every estimate of light in layers, with its error."""
    held = [found.diffuse_reflectance, found.transmittance, found.absorbed, found.Rd_ra, found.Tt_ra, found.A_rz]
    return tuple(part for one in held for part in (one.value, one.error))


def _denoise(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.denoise.run import denoise_steps

    return denoise_steps(_noisy()[0], device=device, stop=stop)


def _fluence(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.denoise.fluence.run import denoise_fluence_steps

    return denoise_fluence_steps(*_noisy(), device=device, stop=stop)


def _guided_fluence(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.denoise.fluence.run import denoise_fluence_steps

    known = {"guide": np.exp(-np.indices((20, 20, 20))[2] / 9.0), "labels": np.indices((20, 20, 20))[0] // 8}
    return denoise_fluence_steps(*_noisy(), **known, device=device, stop=stop)


def _dose(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.dose.run import dvh_steps
    from napari_gpubio.dose.samples import treatment_dose, treatment_structures

    return dvh_steps(treatment_dose(), treatment_structures(), device=device, stop=stop)


def _speckle(device: str, stop: threading.Event) -> Steps:
    from napari_gpubio.speckle.run import contrast_steps

    frames = np.random.default_rng(4).integers(100, 4000, (20, 200, 200)).astype(np.uint16)
    return contrast_steps(frames, device=device, stop=stop)


def _mesi(_: str, stop: threading.Event) -> Steps:
    from napari_gpubio.speckle.mesi.run import fit_mesi_steps

    exposures = np.geomspace(0.1, 80.0, 15)
    contrast = np.sqrt(0.1 + 0.8 / (1.0 + exposures / np.linspace(0.3, 3.0, 20 * 20)[:, None])).T
    return fit_mesi_steps(contrast.reshape(15, 20, 20), exposures, stop=stop)


ENGINES: dict[str, Engine] = {
    "tensor fit": Engine(_fit, lambda found: (found.tensors, found.mask)),
    "fiber tracking": Engine(_track, lambda found: (found.points, found.offsets)),
    "light in voxels": Engine(_light, lambda found: (found.fluence, found.fluence_error, found.half_fluences)),
    "light and guide": Engine(_guided, lambda found: (found.fluence, 0 if found.guide is None else found.guide)),
    "light in layers": Engine(_layers, _estimates),
    "denoise": Engine(_denoise, lambda found: (found.image,)),
    "denoise fluence": Engine(_fluence, lambda found: (found.image,)),
    "guided fluence": Engine(_guided_fluence, lambda found: (found.image, found.noise)),
    "dose": Engine(_dose, lambda found: tuple(a for one in found for a in (one.doses, one.volumes_cc))),
    "speckle": Engine(_speckle, lambda found: (found.contrast, found.index, found.mask)),
    "multi-exposure fit": Engine(_mesi, lambda found: (found.tau_ms, found.rho)),
}
