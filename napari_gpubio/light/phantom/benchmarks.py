"""Benchmarks by name: those of MCX, and those of `napari_gpubio.light.phantom.cases`."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.phantom import cases
from napari_gpubio.light.phantom.cases import (
    Case,
    Labels,
    Reference,
    Row,
    benchmark_settings,
    block,
    grid_domain,
    pencil,
    with_ball,
)
from napari_gpubio.light.source import Source

MEDIUM_A: Row = (0.005, 1.0, 0.01, 1.37)
MEDIUM_B: Row = (0.002, 5.0, 0.9, 1.0)
_TENTHS_NS = tuple(float(edge) for edge in np.arange(51) / 10)
_RING = ((29, 19, 0), (29, 39, 0), (19, 29, 0), (39, 29, 0))
_PMCXCL = "pmcxcl 0.7.5, 1e6 photons, without roulette; MCX's own test expects"
_SCALAR = "an independent program in double precision, without roulette"


def cube60() -> Case:
    """A cube of 60 mm without refraction."""
    reference = Reference(absorbed=0.17675, error=2.8e-4, source=f"{_PMCXCL} 17.69 % ± 0.5 %")
    return _cube("cube60", block(60), [MEDIUM_A], reference, refraction=False)


def cube60b() -> Case:
    """The same with refraction at its faces."""
    reference = Reference(absorbed=0.2719, error=3.2e-4, source=f"{_PMCXCL} 27 to 28 %")
    return _cube("cube60b", block(60), [MEDIUM_A], reference)


def diffusion60() -> Case:
    """The same in 50 time gates, to be held against diffusion theory."""
    return dataclasses.replace(
        cube60b(), name="diffusion60", settings=benchmark_settings(time_gates_ns=_TENTHS_NS), detectors=()
    )


def cube60planar() -> Case:
    """The same under a square of parallel light that starts 10 mm outside."""
    reference = Reference(absorbed=0.2546, error=3.0e-4, source=f"{_PMCXCL} 25.51 % ± 0.5 %")
    source = Source(kind="planar", position_mm=(30, 30, -10), width_mm=40.0, height_mm=40.0, width_axis=(1, 0, 0))
    return dataclasses.replace(_cube("cube60planar", block(60), [MEDIUM_A], reference), source=source)


def cubesph60b() -> Case:
    """A cube with a ball of a clearer medium, with refraction."""
    reference = Reference(absorbed=0.2698, error=3.2e-4, source=f"{_PMCXCL} 27.01 % ± 0.5 %")
    return _cube("cubesph60b", with_ball(block(60), 15.0, 2), [MEDIUM_A, MEDIUM_B], reference)


def spherebox() -> Case:
    """A cube with an absorbing ball, without refraction, in 50 time gates."""
    rows = [(0.002, 1.0, 0.01, 1.37), (0.05, 5.0, 0.9, 1.37)]
    source = f"{_SCALAR}, 2e6 photons; MCX's own test expects 10 to 12 %"
    reference = Reference(absorbed=0.10943, error=3e-4, source=source)
    case = _cube(
        "spherebox", with_ball(block(60), 10.0, 2), rows, reference, refraction=False, time_gates_ns=_TENTHS_NS
    )
    return dataclasses.replace(case, source=pencil(29.5, 29.5))


def sphshells() -> Case:
    """Shells like a head's, with refraction."""
    labels = block(60)
    for label, radius in ((2, 25.0), (3, 23.0), (4, 10.0)):
        labels = with_ball(labels, radius, label)
    rows = [(0.02, 7.0, 0.89, 1.37), (0.004, 0.009, 0.89, 1.37), (0.02, 9.0, 0.89, 1.37), (0.05, 0.0, 1.0, 1.37)]
    return Case(
        name="sphshells",
        domain=grid_domain(labels, rows),
        source=pencil(30.0, 30.1),
        settings=benchmark_settings(),
        reference=Reference(absorbed=0.5162, error=6e-4, source=f"{_SCALAR}, 1e6 photons"),
    )


def skinvessel() -> Case:
    """A blood vessel in skin under a disk of light, in voxels of 5 um."""
    rows = {
        "water": (3.564e-5, 1.0, 1.0, 1.37),
        "blood": (23.05426549, 9.398496241, 0.9, 1.37),
        "dermis": (0.04584957865, 35.65405549, 0.9, 1.37),
        "epidermis": (1.657237447, 37.59398496, 0.9, 1.37),
    }
    source = f"{_SCALAR}, 1e6 photons; MCX's own test expects 39 to 40 %"
    return Case(
        name="skinvessel",
        domain=grid_domain(_skin_with_vessel(), list(rows.values()), voxel_mm=0.005, names=tuple(rows), outside_n=1.37),
        source=Source(kind="disk", position_mm=(0.5, 0.5, 0.1), radius_mm=0.3),
        settings=benchmark_settings(refraction=False, time_gates_ns=(0.0, 50.0)),
        reference=Reference(absorbed=0.3973, error=6e-4, source=source),
    )


def onecube() -> Case:
    """A cube of 60 mm in one voxel, with refraction."""
    return _coarse("onecube", 1)


def twocube() -> Case:
    """A cube of 60 mm in eight voxels, with refraction."""
    return _coarse("twocube", 2)


def _coarse(name: str, count: int) -> Case:
    return Case(
        name=name,
        domain=grid_domain(block(count), [(0.005, 1.0, 0.0, 1.37)], voxel_mm=60.0 / count),
        source=pencil(30, 30),
        settings=benchmark_settings(),
        detectors=(Detector(position_mm=(30, 27, 0), radius_mm=1.0),),
        reference=Reference(absorbed=0.27168, error=1.0e-4, source=f"{_SCALAR} that knows no voxels, 1e7 photons"),
    )


def _cube(name: str, labels: Labels, rows: Sequence[Row], reference: Reference, **settings: Any) -> Case:
    """A cube under a pencil beam with a ring of four detectors."""
    return Case(
        name=name,
        domain=grid_domain(labels, rows),
        source=pencil(29, 29),
        settings=benchmark_settings(**settings),
        detectors=tuple(Detector(position_mm=place, radius_mm=1.0) for place in _RING),
        reference=reference,
    )


def _skin_with_vessel() -> Labels:
    labels = np.full((200, 200, 200), 3, np.uint8)
    labels[:, :, :20], labels[:, :, 20:32] = 1, 4
    middle = np.arange(200) + 0.5
    labels[:, np.hypot(middle[:, None] - 100.5, middle - 100.5) <= 20.0] = 2
    return labels


_MAKERS: dict[str, Callable[[], Case]] = {
    "cube60": cube60,
    "cube60b": cube60b,
    "cube60planar": cube60planar,
    "cubesph60b": cubesph60b,
    "diffusion60": diffusion60,
    "spherebox": spherebox,
    "sphshells": sphshells,
    "skinvessel": skinvessel,
    "onecube": onecube,
    "twocube": twocube,
    "B1": cases.b1,
    "B2": cases.b2,
    "B3": cases.b3,
    "skin7": cases.skin7,
    "head": cases.head,
}
BENCHMARKS = tuple(_MAKERS)


def benchmark(name: str) -> Case:
    """Make a benchmark.

    Parameters
    ----------
    name
        One of `BENCHMARKS`.

    Raises
    ------
    InvalidInput
        If there is no such benchmark.
    """
    if name not in _MAKERS:
        raise InvalidInput(f"there is no benchmark {name!r}; choose one of {', '.join(BENCHMARKS)}")
    return _MAKERS[name]()
