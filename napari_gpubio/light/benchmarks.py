"""Benchmarks by name: those of MCX and of GPU-ANLM, a head, and a layered skin."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered import checks
from napari_gpubio.layered.presets import SKIN
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.phantom.head import CSF, GRAY, SCALP, SKULL, WHITE, default_source, head_labels
from napari_gpubio.optics.sources import Disk, Pencil, Planar, Source
from napari_gpubio.optics.tissue import HEAD_LAYERS

Labels = npt.NDArray[np.uint8]
Row = tuple[float, float, float, float]  # mu_a and mu_s in 1/mm, g, n


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Fraction of the energy that entered that is absorbed up to the last time gate, its standard error, its source."""

    absorbed: float
    error: float
    source: str
    by_label: Mapping[int, float] = field(default_factory=dict)
    by_label_error: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A benchmark, ready for ``simulate(case.domain, case.source, case.settings, detectors=case.detectors)``."""

    name: str
    domain: Domain
    source: Source
    settings: LightSettings
    detectors: tuple[Detector, ...] = ()
    reference: Reference | None = None


def benchmark_settings(**changes: Any) -> LightSettings:
    """Settings as MCX runs its benchmarks: refraction, no specular loss, 0 to 5 ns; but with Russian roulette."""
    return LightSettings(**{"specular": False, **changes})


def pencil(x: float, y: float) -> Source:
    """A pencil beam down the third axis, from the lower face of the grid."""
    return Pencil(position_mm=(x, y, 0.0), direction=(0.0, 0.0, 1.0))


def block(count: int) -> Labels:
    """A cube of voxels, all of label 1."""
    return np.ones((count,) * 3, np.uint8)


def with_ball(labels: Labels, radius: float, label: int) -> Labels:
    """Labels with a ball in their middle: the voxels whose centers lie in it; the radius in voxels."""
    offsets = [np.arange(count) + 0.5 - count / 2 for count in labels.shape]
    x, y, z = np.meshgrid(*offsets, indexing="ij", sparse=True)
    return np.where(x**2 + y**2 + z**2 <= radius**2, np.uint8(label), labels)


def grid_domain(
    labels: Labels, rows: Sequence[Row], *, voxel_mm: float = 1.0, names: Sequence[str] = (), outside_n: float = 1.0
) -> Domain:
    """Labels whose grid positions are the world positions; ``rows`` and ``names`` are those of labels 1, 2, ..."""
    affine = np.diag([voxel_mm] * 3 + [1.0])
    affine[:3, 3] = voxel_mm / 2
    named = list(names) or [""] * len(rows)
    media = tuple(medium(label, row, name) for label, (row, name) in enumerate(zip(rows, named, strict=True), 1))
    return Domain(labels=labels, affine=affine, media=media, outside_n=outside_n)


def medium(label: int, row: Row, name: str = "", source: str = "") -> Medium:
    """Properties of a label from a row of a table."""
    mua, mus, g, n = row
    return Medium(label=label, name=name, mua_per_mm=mua, mus_per_mm=mus, g=g, n=n, source=source)


BACKGROUND: Row = (0.02, 10.0, 0.9, 1.37)
USC_ATLAS: dict[int, Row] = {
    SCALP: (0.019, 7.8, 0.89, 1.37),
    SKULL: (0.019, 7.8, 0.89, 1.37),
    CSF: (0.0004, 0.009, 0.89, 1.37),
    GRAY: (0.02, 9.0, 0.89, 1.37),
    WHITE: (0.08, 40.9, 0.84, 1.37),
}


def head() -> Case:
    """The head phantom in voxels of 1 mm, with the properties of MCX's USC 19.5 atlas example and its 1e8 photons."""
    labels, affine = head_labels(1.0)
    media = tuple(
        medium(label, row, name, "MCX's USC 19.5 atlas example")
        for (label, row), name in zip(USC_ATLAS.items(), HEAD_LAYERS, strict=True)
    )
    domain = Domain(labels=labels, affine=affine, media=media)
    return Case(
        name="head", domain=domain, source=default_source(domain), settings=benchmark_settings(photons=100_000_000)
    )


def skin7() -> Case:
    """Seven layers of skin, 8 mm deep in voxels of 20 um, periodic in i and j."""
    layers = SKIN.layers
    labels = np.repeat(np.arange(1, 8, dtype=np.uint8), [round(layer.thickness_mm / 0.02) for layer in layers])
    rows = [(layer.mua_per_mm, layer.mus_per_mm, layer.g, layer.n) for layer in layers]
    entered = 1.0 - SKIN.specular_reflectance()
    absorbed = checks.SKIN_FRACTIONS[1]
    reference = Reference(
        absorbed=absorbed.value / entered,
        error=absorbed.error / entered,
        source="CPU-MCML with a Mersenne Twister, 8e8 photons, by the authors of GPU-MCML; over what entered",
        by_label={label: value / entered for label, value in enumerate(checks.SKIN_BY_LAYER, 1)},
        by_label_error={label: error / entered for label, error in enumerate(checks.SKIN_BY_LAYER_ERRORS, 1)},
    )
    return Case(
        name="skin7",
        domain=grid_domain(np.tile(labels, (8, 8, 1)), rows, voxel_mm=0.02, names=[layer.name for layer in layers]),
        source=pencil(0.08, 0.08),
        settings=benchmark_settings(faces=("cyclic",) * 4 + ("default",) * 2),
        reference=reference,
    )


def _anlm(name: str, absorbed: float, inclusion: Row | None) -> Case:
    """A cube of 100 mm, homogeneous or with an inclusion that absorbs or refracts."""
    labels, rows = block(100), [BACKGROUND]
    if inclusion is not None:
        labels[30:70, 30:70, 10:50] = 2
        rows.append(inclusion)
    return Case(
        name=name,
        domain=grid_domain(labels, rows),
        source=pencil(50, 50),
        settings=benchmark_settings(),
        reference=Reference(
            absorbed=absorbed, error=3.7e-4, source="pmcxcl 0.7.5, 1e6 photons, without roulette"
        ),
    )  # fmt: skip


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
    source = Planar(position_mm=(30, 30, -10), width_mm=40.0, height_mm=40.0, width_axis=(1, 0, 0))
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
        source=Disk(position_mm=(0.5, 0.5, 0.1), radius_mm=0.3),
        settings=benchmark_settings(refraction=False, time_gates_ns=(0.0, 50.0)),
        reference=Reference(absorbed=0.3973, error=6e-4, source=source),
    )


def _coarse(name: str, count: int) -> Case:
    """A cube of 60 mm in few voxels, with refraction."""
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
    **{
        maker.__name__: maker
        for maker in (cube60, cube60b, cube60planar, cubesph60b, diffusion60, spherebox, sphshells, skinvessel)
    },
    "onecube": partial(_coarse, "onecube", 1),
    "twocube": partial(_coarse, "twocube", 2),
    "B1": partial(_anlm, "B1", 0.4705, None),
    "B2": partial(_anlm, "B2", 0.4723, (0.1, 10.0, 0.9, 1.37)),
    "B3": partial(_anlm, "B3", 0.4713, (0.02, 10.0, 0.9, 6.85)),
    "skin7": skin7,
    "head": head,
}
BENCHMARKS = tuple(_MAKERS)


def benchmark(name: str) -> Case:
    """Make one of `BENCHMARKS`.

    Raises
    ------
    InvalidInput
        If there is no such benchmark.
    """
    if name not in _MAKERS:
        raise InvalidInput(f"there is no benchmark {name!r}; choose one of {', '.join(BENCHMARKS)}")
    return _MAKERS[name]()
