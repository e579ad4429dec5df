"""Layers, settings and runs for tests of the layered engine, and what its numbers are compared with."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import pytest

from napari_gpubio.core.device import Device
from napari_gpubio.layered.kernels.layers import cpu, gpu
from napari_gpubio.layered.kernels.layers.gpu import Variant
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.run import simulate
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.estimates import Estimate, Estimates
from napari_gpubio.optics.model import Layer
from tests.light.voxel_samples import check_z

ENDLESS_MM = math.inf
GPU_FACTOR = 100  # a GPU traces that many times the photons of a statistical test, in less time
NUMBERS = ("diffuse_reflectance", "transmittance", "absorbed", "roulette")
ARRAYS = ("A_l", "A_rz", "A_z", "Rd_ra", "Rd_r", "Rd_a", "Tt_ra", "Tt_r", "Tt_a")


def layer(n: float, mua: float, mus: float, g: float, thickness_mm: float) -> Layer:
    """A layer from n, mu_a and mu_s (1/mm), g and its thickness."""
    return Layer(n=n, mua_per_mm=mua, mus_per_mm=mus, g=g, thickness_mm=thickness_mm)


def medium(*rows: tuple[float, float, float, float, float], **more: Any) -> LayeredMedium:
    """Layers from rows as of `layer`."""
    return LayeredMedium(layers=tuple(layer(*row) for row in rows), **more)


GLASS = (1.5, 0.0, 0.0, 0.0, 1.0)
TISSUE = (1.4, 0.05, 2.0, 0.8, 3.0)
VAN_DE_HULST = medium((1.0, 1.0, 9.0, 0.75, 0.2))
GIOVANELLI = medium((1.5, 1.0, 9.0, 0.0, ENDLESS_MM))
# Meglinski & Matcher (2001) at 600 nm, as Alerstam et al. (2010) took it: n, mu_a and mu_s (1/cm), g, d (cm).
SKIN_IN_CM = (
    (1.53, 0.2, 1000.0, 0.9, 0.002),
    (1.34, 0.15, 400.0, 0.85, 0.008),
    (1.4, 0.7, 300.0, 0.8, 0.01),
    (1.39, 1.0, 350.0, 0.9, 0.008),
    (1.4, 0.7, 200.0, 0.76, 0.162),
    (1.39, 1.0, 350.0, 0.95, 0.02),
    (1.44, 0.3, 150.0, 0.8, 0.59),
)
SKIN = medium(*((n, mua / 10, mus / 10, g, 10 * d) for n, mua, mus, g, d in SKIN_IN_CM))


def run(device: str, layers: LayeredMedium, photons: int, **settings: Any) -> LayeredResult:
    """Trace that many photons, or `GPU_FACTOR` times as many on a GPU."""
    count = photons * (GPU_FACTOR if device.startswith("cuda") else 1)
    return simulate(layers, LayeredSettings(photons=count, **settings), device=device)


def at(estimates: Estimates, *index: int) -> Estimate:
    """One number of an array."""
    return Estimate(float(estimates.value[index]), float(estimates.error[index]))


def check_same_bits(found: LayeredResult, expected: LayeredResult) -> None:
    """Everything that was simulated is the same to the last bit."""
    mine, theirs = found.state.to_arrays(), expected.state.to_arrays()
    assert set(mine) == set(theirs)
    for name, array in theirs.items():
        np.testing.assert_array_equal(mine[name], array, err_msg=name)
    for name in ARRAYS:
        a, b = getattr(found, name), getattr(expected, name)
        assert (a is None) == (b is None), name
        if b is not None:
            np.testing.assert_array_equal(a, b, err_msg=name)
    assert [repr(getattr(found, name)) for name in NUMBERS] == [repr(getattr(expected, name)) for name in NUMBERS]
    assert (found.specular, found.launched, found.complete) == (expected.specular, expected.launched, expected.complete)


def with_layer(base: LayeredMedium, index: int, **changes: Any) -> LayeredMedium:
    """The medium with a changed layer."""
    layers = list(base.layers)
    layers[index] = dataclasses.replace(layers[index], **changes)
    return dataclasses.replace(base, layers=tuple(layers))


COARSE = {"radial_bins": 20, "depth_bins": 20}


def check_within(estimate, reference, reference_error=0.0):
    """A number is so many standard errors from a reference, at most."""
    check_z(estimate.z_score(reference, reference_error), 1.0)


def adding_doubling(points, albedo, depth, g, n, slide):
    """Total reflectance and transmittance of a slab between two glass slides; without them where their n is 1."""
    iadpython = pytest.importorskip("iadpython", reason="no iadpython: python -m pip install iadpython")
    sample = iadpython.Sample(a=albedo, b=depth, g=g, n=n, n_above=slide, n_below=slide, quad_pts=points)
    return np.array(sample.rt()[:2])


GPU = Device("cuda", (0,))
BACKWARD = (1.33, 0.1, 3.0, -0.5, 0.7)
FORWARD = (1.45, 0.02, 20.0, 0.9, 0.4)
ISOTROPIC = (1.4, 0.3, 1.0, 0.0, 0.5)
ABSORBER = (1.5, 0.5, 0.0, 0.0, 0.6)
SCATTERER = (1.38, 0.0, 5.0, 0.3, 0.3)
ENDLESS = (*TISSUE[:4], ENDLESS_MM)
MEDIA = {
    "one layer": medium(TISSUE),
    "many kinds": medium(FORWARD, BACKWARD, ISOTROPIC, ABSORBER, SCATTERER),
    "glass on top": medium(GLASS, TISSUE),
    "much glass": medium(GLASS, (1.6, *GLASS[1:]), FORWARD, GLASS, ISOTROPIC, GLASS, n_below=1.33),
    "other indices around": medium(FORWARD, ISOTROPIC, n_above=1.6, n_below=1.2),
    "one index": medium(*((1.0, *row[1:]) for row in (FORWARD, ISOTROPIC, BACKWARD))),
    "endless": medium(ISOTROPIC, ENDLESS),
    "100 layers": medium(*(FORWARD, ISOTROPIC, BACKWARD, SCATTERER) * 25),
}
ALL_MEDIA = pytest.mark.parametrize("name", MEDIA)
GRID = {"dr_mm": 0.1, "dz_mm": 0.05, "radial_bins": 12, "depth_bins": 20, "angle_bins": 9}  # less than the layers
VARIANTS = {
    "default": Variant(),
    "simple": Variant(simple=True),
    "chosen shape": Variant(cache=True),
    "given shape": Variant(cache=True, shape=(5, 7)),
    "one bin": Variant(cache=True, shape=(1, 1)),
    "everything": Variant(cache=True, shape=(12, 20)),
    "small": Variant(cache=True, cache_bytes=800),
    "no history": Variant(history=False),
    "cache, no history": Variant(cache=True, history=False),
}


def settings(photons=600, **changes):
    return LayeredSettings(photons=photons, **{"batches": 4, "seed": 11, **GRID, **changes})


def on(device, photons=1000, *, layers=MEDIA["many kinds"], **changes):
    return simulate(layers, settings(photons, **{"batches": 8, **changes}), device=device)


@functools.cache
def by_cpu(photons=1000):
    """All tallies of many kinds of layers, on the CPU in one go."""
    return on("cpu", photons)


def check_backends(layers, chosen):
    """Both backends give the same tallies; returns the result."""
    expected = simulate(layers, chosen, device="cpu")
    found = simulate(layers, chosen, device="cuda")
    check_same_bits(found, expected)
    assert found.launched == chosen.photons
    assert found.total == pytest.approx(1.0, abs=1e-6)
    return found


def tallies(problem, pieces, variant=None):
    """Trace pieces (start, count) with the backend on the CPU, or with a variant on a GPU, and hand over the arrays."""
    run = cpu.Run(problem) if variant is None else gpu.Run(problem, device=GPU, variant=variant)
    for start, count in pieces:
        run.advance(start, count)
    part = run.snapshot().to_arrays()
    run.close()
    return part


def check_same_arrays(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
