"""Benchmark cases: what a case consists of, those of GPU-ANLM, a head, and a layered skin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.phantom.head import CSF, GRAY, SCALP, SKULL, WHITE, default_source, head_labels
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.source import Source
from napari_gpubio.light.tissue import HEAD_LAYERS

Labels = npt.NDArray[np.uint8]
Row = tuple[float, float, float, float]  # mu_a and mu_s in 1/mm, g, n


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
    by_label, by_label_error
        The same for each label, where it is known.
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
        Its name.
    domain, source, settings, detectors
        What is simulated.
    reference
        What should come out, or None where nothing is known.
    """

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
    return Source(kind="pencil", position_mm=(x, y, 0.0), direction=(0.0, 0.0, 1.0))


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
    """Labels whose grid positions are the world positions.

    Parameters
    ----------
    labels
        Shape (X, Y, Z).
    rows, names
        Properties of the labels 1, 2, ..., and what they are.
    voxel_mm
        Edge of the voxels.
    outside_n
        Refractive index outside.
    """
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
SKIN_LAYERS = {  # mu_a and mu_s in 1/cm, g, n, voxels of 20 um; Meglinski & Matcher 2001, at 600 nm
    "stratum corneum": (0.2, 1000.0, 0.9, 1.53, 1),
    "living epidermis": (0.15, 400.0, 0.85, 1.34, 4),
    "papillary dermis": (0.7, 300.0, 0.8, 1.4, 5),
    "upper blood net dermis": (1.0, 350.0, 0.9, 1.39, 4),
    "dermis": (0.7, 200.0, 0.76, 1.4, 81),
    "deep blood net dermis": (1.0, 350.0, 0.95, 1.39, 10),
    "subcutaneous fat": (0.3, 150.0, 0.8, 1.44, 295),
}
# CPU-MCML with a Mersenne Twister, 8e8 photons, by the authors of GPU-MCML; per launched photon
SKIN_SPECULAR = 0.0438845
SKIN_ABSORBED, SKIN_ABSORBED_ERROR = 0.390300, 1.5e-5
SKIN_BY_LAYER = (0.00252812, 0.00588612, 0.0350800, 0.0363525, 0.2500125, 0.01588625, 0.04453625)
SKIN_BY_LAYER_ERROR = (1.3e-7, 1.3e-7, 1.9e-6, 1.6e-6, 1.25e-5, 1.8e-6, 4.2e-6)


def b1() -> Case:
    """A homogeneous cube of 100 mm."""
    return _anlm("B1", 0.4705, None)


def b2() -> Case:
    """The cube with an absorbing inclusion."""
    return _anlm("B2", 0.4723, (0.1, 10.0, 0.9, 1.37))


def b3() -> Case:
    """The cube with a refracting inclusion."""
    return _anlm("B3", 0.4713, (0.02, 10.0, 0.9, 6.85))


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
    """Seven layers of skin, 8 mm deep, periodic in i and j."""
    layers = SKIN_LAYERS.values()
    labels = np.repeat(np.arange(1, len(layers) + 1, dtype=np.uint8), [layer[4] for layer in layers])
    rows = [(mua / 10, mus / 10, g, n) for mua, mus, g, n, _ in layers]
    return Case(
        name="skin7",
        domain=grid_domain(np.tile(labels, (8, 8, 1)), rows, voxel_mm=0.02, names=tuple(SKIN_LAYERS)),
        source=pencil(0.08, 0.08),
        settings=benchmark_settings(faces=("cyclic",) * 4 + ("default",) * 2),
        reference=_skin_reference(),
    )


def _anlm(name: str, absorbed: float, inclusion: Row | None) -> Case:
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


def _skin_reference() -> Reference:
    entered = 1.0 - SKIN_SPECULAR
    return Reference(
        absorbed=SKIN_ABSORBED / entered,
        error=SKIN_ABSORBED_ERROR / entered,
        source="CPU-MCML with a Mersenne Twister, 8e8 photons, by the authors of GPU-MCML; over what entered",
        by_label={label: value / entered for label, value in enumerate(SKIN_BY_LAYER, 1)},
        by_label_error={label: error / entered for label, error in enumerate(SKIN_BY_LAYER_ERROR, 1)},
    )
