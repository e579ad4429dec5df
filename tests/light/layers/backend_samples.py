"""Layers, variants and runs that both backends are compared by."""

import functools

import numpy as np
import pytest

from napari_gpubio.core.device import Device
from napari_gpubio.light.kernels.layers import cpu, gpu
from napari_gpubio.light.kernels.layers.gpu import Variant
from napari_gpubio.light.layers.run import simulate
from napari_gpubio.light.layers.settings import LayeredSettings
from tests.light.layers.samples import ENDLESS_MM, GLASS, TISSUE, check_same_bits, medium

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
