"""What a benchmark is made of, and the pieces that the benchmarks share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source

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
    settings: Settings
    detectors: tuple[Detector, ...] = ()
    reference: Reference | None = None


def benchmark_settings(**changes: Any) -> Settings:
    """Settings as MCX runs its benchmarks: refraction, no specular loss, 0 to 5 ns; but with Russian roulette."""
    return Settings(**{"specular": False, **changes})


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
