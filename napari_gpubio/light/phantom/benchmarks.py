"""Benchmark cases with published or independently computed absorption: those of MCX, of GPU-ANLM, and a layered skin.

A grid position (mm from the outer corner of the first voxel) is the world position, so that sources are where MCX puts
them with an origin of 0. As in MCX, no light is lost where it enters, and what is older than the last gate is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.phantom.head import CSF, GREY, SCALP, SKULL, WHITE, head_labels
from napari_gpubio.light.phantom.optodes import default_source
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source

Labels = npt.NDArray[np.uint8]
Row = tuple[float, float, float, float]  # mu_a and mu_s in 1/mm, g, n

MEDIUM_A: Row = (0.005, 1.0, 0.01, 1.37)  # of MCX's cubes
MEDIUM_B: Row = (0.002, 5.0, 0.9, 1.0)
ANLM_BACKGROUND: Row = (0.02, 10.0, 0.9, 1.37)
SKIN_LAYERS = {  # name: mu_a and mu_s in 1/cm, g, n, voxels of 20 um; Meglinski & Matcher 2001 at 600 nm
    "stratum corneum": (0.2, 1000.0, 0.9, 1.53, 1),
    "living epidermis": (0.15, 400.0, 0.85, 1.34, 4),
    "papillary dermis": (0.7, 300.0, 0.8, 1.4, 5),
    "upper blood net dermis": (1.0, 350.0, 0.9, 1.39, 4),
    "dermis": (0.7, 200.0, 0.76, 1.4, 81),
    "deep blood net dermis": (1.0, 350.0, 0.95, 1.39, 10),
    "subcutaneous fat": (0.3, 150.0, 0.8, 1.44, 295),
}
SKIN_SPECULAR = 0.0438845  # of the layered reference, per launched photon
SKIN_ABSORBED = (0.00252812, 0.00588612, 0.0350800, 0.0363525, 0.2500125, 0.01588625, 0.0445363)  # per launched photon
_USC_ATLAS: dict[int, Row] = {
    SCALP: (0.019, 7.8, 0.89, 1.37),
    SKULL: (0.019, 7.8, 0.89, 1.37),
    CSF: (0.0004, 0.009, 0.89, 1.37),
    GREY: (0.02, 9.0, 0.89, 1.37),
    WHITE: (0.08, 40.9, 0.84, 1.37),
}
_PMCXCL = "pmcxcl 0.7.5, 1e6 photons, without roulette"
_SCALAR = "an independent scalar program in double precision, without roulette"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a benchmark should absorb.

    Parameters
    ----------
    absorbed
        Fraction of the energy that entered, up to the last time gate.
    error
        Its standard error.
    source
        Where it comes from.
    by_label
        The same for each label, where it is known.
    by_label_error
        Their standard errors.
    """

    absorbed: float
    error: float
    source: str
    by_label: Mapping[int, float] = field(default_factory=dict)
    by_label_error: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A benchmark, ready for ``simulate(case.domain, case.source, case.settings, detectors=case.detectors)``.

    Parameters
    ----------
    name
        Its name, one of `BENCHMARKS`.
    domain, source, settings, detectors
        What is simulated.
    reference
        What should come out, or None where nothing is published.
    """

    name: str
    domain: Domain
    source: Source
    settings: Settings
    detectors: tuple[Detector, ...] = ()
    reference: Reference | None = None


def benchmark(name: str) -> Case:
    """Make a benchmark.

    Parameters
    ----------
    name
        One of `BENCHMARKS`:

        * ``cube60``, ``cube60b``, ``cube60planar``, ``cubesph60b``, ``spherebox``, ``sphshells``, ``skinvessel``,
          ``onecube``, ``twocube``: MCX's own of these names.
        * ``diffusion60``: cube60b in 50 time gates, to be held against diffusion theory.
        * ``B1``, ``B2``, ``B3``: homogeneous, with an absorbing and with a refracting inclusion (Yuan et al., J.
          Biomed. Opt. 23, 121618, 2018).
        * ``skin7``: seven layers of skin (Alerstam et al., Biomed. Opt. Express 1, 658, 2010), periodic in i and j.
        * ``head``: the head phantom in voxels of 1 mm, with the properties of MCX's USC 19.5 atlas example.

    Raises
    ------
    InvalidInput
        If there is no such benchmark.
    """
    if name not in _CASES:
        raise InvalidInput(f"there is no benchmark {name!r}; choose one of {', '.join(BENCHMARKS)}")
    return Case(name=name, **_CASES[name]())


def _cube60() -> dict[str, Any]:
    reference = Reference(absorbed=0.17675, error=2.8e-4, source=f"{_PMCXCL}; MCX's own test expects 17.69 % ± 0.5 %")
    return _mcx_cube(_block(60), [MEDIUM_A], _pencil(29, 29), reference, refraction=False)


def _cube60b() -> dict[str, Any]:
    reference = Reference(absorbed=0.2719, error=3.2e-4, source=f"{_PMCXCL}; MCX's own test expects 27.x %")
    return _mcx_cube(_block(60), [MEDIUM_A], _pencil(29, 29), reference)


def _diffusion60() -> dict[str, Any]:
    gates = tuple(float(edge) for edge in np.arange(51) / 10)
    return _cube60b() | {"settings": _settings(time_gates_ns=gates)}


def _cube60planar() -> dict[str, Any]:
    source = Source(kind="planar", position_mm=(30, 30, -10), width_mm=40.0, height_mm=40.0, width_axis=(1, 0, 0))
    reference = Reference(absorbed=0.2546, error=3.0e-4, source=f"{_PMCXCL}; MCX's own test expects 25.51 % ± 0.5 %")
    return _mcx_cube(_block(60), [MEDIUM_A], source, reference)


def _cubesph60b() -> dict[str, Any]:
    labels = _with_ball(_block(60), 15.0, 2)
    reference = Reference(absorbed=0.2698, error=3.2e-4, source=f"{_PMCXCL}; MCX's own test expects 27.01 % ± 0.5 %")
    return _mcx_cube(labels, [MEDIUM_A, MEDIUM_B], _pencil(29, 29), reference)


def _spherebox() -> dict[str, Any]:
    rows = [(0.002, 1.0, 0.01, 1.37), (0.05, 5.0, 0.9, 1.37)]
    reference = Reference(absorbed=0.0, error=1.0, source=f"{_SCALAR}, 2e6 photons; MCX's own test expects 10 to 12 %")
    gates = tuple(float(edge) for edge in np.arange(51) / 10)
    return _mcx_cube(
        _with_ball(_block(60), 10.0, 2), rows, _pencil(29.5, 29.5), reference, refraction=False, time_gates_ns=gates
    )


def _sphshells() -> dict[str, Any]:
    labels = _with_ball(_with_ball(_with_ball(_block(60), 25.0, 2), 23.0, 3), 10.0, 4)
    rows = [(0.02, 7.0, 0.89, 1.37), (0.004, 0.009, 0.89, 1.37), (0.02, 9.0, 0.89, 1.37), (0.05, 0.0, 1.0, 1.37)]
    return {
        "domain": _domain(labels, rows),
        "source": _pencil(30.0, 30.1),
        "settings": _settings(),
        "reference": Reference(absorbed=0.0, error=1.0, source=f"{_SCALAR}, 1e6 photons"),
    }


def _skinvessel() -> dict[str, Any]:
    rows = [  # water, blood, dermis, epidermis
        (3.564e-5, 1.0, 1.0, 1.37),
        (23.05426549, 9.398496241, 0.9, 1.37),
        (0.04584957865, 35.65405549, 0.9, 1.37),
        (1.657237447, 37.59398496, 0.9, 1.37),
    ]
    labels = np.full((200, 200, 200), 3, np.uint8)
    labels[:, :, :20], labels[:, :, 20:32] = 1, 4
    middle = np.arange(200) + 0.5
    labels[:, np.hypot(middle[:, None] - 100.5, middle - 100.5) <= 20.0] = 2
    return {
        "domain": _domain(labels, rows, voxel_mm=0.005, outside_n=1.37),
        "source": Source(kind="disk", position_mm=(0.5, 0.5, 0.1), radius_mm=0.3),
        "settings": _settings(refraction=False, time_gates_ns=(0.0, 50.0)),
        "reference": Reference(
            absorbed=0.0, error=1.0, source=f"{_SCALAR}, 1e6 photons; MCX's own test expects 39.x %"
        ),
    }


def _coarse_cube(count: int, reference: Reference) -> dict[str, Any]:
    """MCX's cubes of 60 mm in one and eight voxels."""
    return {
        "domain": _domain(_block(count), [(0.005, 1.0, 0.0, 1.37)], voxel_mm=60.0 / count),
        "source": _pencil(30, 30),
        "settings": _settings(refraction=False),
        "detectors": (Detector(position_mm=(30, 27, 0), radius_mm=1.0),),
        "reference": reference,
    }


def _onecube() -> dict[str, Any]:
    return _coarse_cube(1, Reference(absorbed=0.0, error=1.0, source=f"{_SCALAR}, 2e6 photons"))


def _twocube() -> dict[str, Any]:
    return _coarse_cube(2, Reference(absorbed=0.0, error=1.0, source=f"{_SCALAR}, 2e6 photons"))


def _anlm(absorbed: float, inclusion: Row | None) -> dict[str, Any]:
    labels, rows = _block(100), [ANLM_BACKGROUND]
    if inclusion is not None:
        labels[30:70, 30:70, 10:50] = 2
        rows.append(inclusion)
    return {
        "domain": _domain(labels, rows),
        "source": _pencil(50, 50),
        "settings": _settings(),
        "reference": Reference(absorbed=absorbed, error=3.7e-4, source=_PMCXCL),
    }


def _skin7() -> dict[str, Any]:
    layers = SKIN_LAYERS.values()
    labels = np.repeat(np.arange(1, len(layers) + 1, dtype=np.uint8), [layer[4] for layer in layers])
    rows = [(mua / 10, mus / 10, g, n) for mua, mus, g, n, _ in layers]
    sides = ("cyclic",) * 4 + ("default",) * 2
    return {
        "domain": _domain(np.tile(labels, (8, 8, 1)), rows, voxel_mm=0.02, names=tuple(SKIN_LAYERS)),
        "source": _pencil(0.08, 0.08),
        "settings": _settings(faces=sides),
        "reference": _skin_reference(),
    }


def _skin_reference() -> Reference:
    entered = 1.0 - SKIN_SPECULAR
    errors = (1.3e-7, 1.3e-7, 1.9e-6, 1.6e-6, 1.25e-5, 1.8e-6, 4.2e-6)
    return Reference(
        absorbed=0.390300 / entered,
        error=1.5e-5 / entered,
        source="CPU-MCML with a Mersenne Twister, 8e8 photons, of GPU-MCML's authors; divided by what entered",
        by_label={label: value / entered for label, value in enumerate(SKIN_ABSORBED, 1)},
        by_label_error={label: error / entered for label, error in enumerate(errors, 1)},
    )


def _head() -> dict[str, Any]:
    labels, affine = head_labels(1.0)
    source = "MCX's USC 19.5 atlas example"
    names = ("scalp", "skull", "CSF", "grey matter", "white matter")
    media = tuple(
        _medium(label, row, name, source) for (label, row), name in zip(_USC_ATLAS.items(), names, strict=True)
    )
    domain = Domain(labels=labels, affine=affine, media=media)
    return {"domain": domain, "source": default_source(domain), "settings": _settings(photons=100_000_000)}


def _mcx_cube(
    labels: Labels, rows: Sequence[Row], source: Source, reference: Reference, **settings: Any
) -> dict[str, Any]:
    """A cube of MCX with its ring of four detectors."""
    places = ((29, 19, 0), (29, 39, 0), (19, 29, 0), (39, 29, 0))
    return {
        "domain": _domain(labels, rows),
        "source": source,
        "settings": _settings(**settings),
        "detectors": tuple(Detector(position_mm=place, radius_mm=1.0) for place in places),
        "reference": reference,
    }


def _settings(**changes: Any) -> Settings:
    return Settings(**{"specular": False, **changes})


def _pencil(x: float, y: float) -> Source:
    """A pencil beam down the third axis, from its lower face."""
    return Source(kind="pencil", position_mm=(x, y, 0.0), direction=(0, 0, 1))


def _block(count: int) -> Labels:
    return np.ones((count,) * 3, np.uint8)


def _with_ball(labels: Labels, radius: float, label: int) -> Labels:
    """Labels with a ball in their middle: the voxels whose centres lie in it."""
    offsets = [np.arange(count) + 0.5 - count / 2 for count in labels.shape]
    x, y, z = np.meshgrid(*offsets, indexing="ij", sparse=True)
    return np.where(x**2 + y**2 + z**2 <= radius**2, np.uint8(label), labels)


def _domain(
    labels: Labels, rows: Sequence[Row], *, voxel_mm: float = 1.0, names: Sequence[str] = (), outside_n: float = 1.0
) -> Domain:
    """Labels whose grid positions are world positions, with the properties of labels 1, 2, ..."""
    affine = np.diag([voxel_mm] * 3 + [1.0])
    affine[:3, 3] = voxel_mm / 2
    named = list(names) or [""] * len(rows)
    media = tuple(_medium(label, row, name) for label, (row, name) in enumerate(zip(rows, named, strict=True), 1))
    return Domain(labels=labels, affine=affine, media=media, outside_n=outside_n)


def _medium(label: int, row: Row, name: str = "", source: str = "") -> Medium:
    mua, mus, g, n = row
    return Medium(label=label, name=name, mua_per_mm=mua, mus_per_mm=mus, g=g, n=n, source=source)


_CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "cube60": _cube60,
    "cube60b": _cube60b,
    "cube60planar": _cube60planar,
    "cubesph60b": _cubesph60b,
    "diffusion60": _diffusion60,
    "spherebox": _spherebox,
    "sphshells": _sphshells,
    "skinvessel": _skinvessel,
    "onecube": _onecube,
    "twocube": _twocube,
    "B1": lambda: _anlm(0.4705, None),
    "B2": lambda: _anlm(0.4723, (0.1, 10.0, 0.9, 1.37)),
    "B3": lambda: _anlm(0.4713, (0.02, 10.0, 0.9, 6.85)),
    "skin7": _skin7,
    "head": _head,
}
BENCHMARKS = tuple(_CASES)
