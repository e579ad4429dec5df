"""Jacobians of a small head in layers with two detectors."""

import functools

from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.sources import Pencil
from napari_gpubio.probes.jacobians.replay import replay
from tests.light.result_samples import layered_domain

HEAD = layered_domain((8, 9, 10), 2.0)
PLACE = Pencil(position_mm=(0, 0, 1), direction=(0, 0, -1))
SPOTS = ((4.0, 0.0, 1.0, 5.0), (-4.0, 2.0, 1.0, 5.0))


@functools.cache
def run():
    detectors = [
        Detector(position_mm=tuple(spot), radius_mm=radius, name=f"D{number}")
        for number, (*spot, radius) in enumerate(SPOTS, 1)
    ]
    return simulate(HEAD, PLACE, LightSettings(photons=2000, batches=4), detectors=detectors, device="cpu")


@functools.cache
def jacobians():
    return replay(run(), of=("mua", "musp"), gates_ns=(0.0, 0.1, 1.0), frequency_mhz=100.0)
