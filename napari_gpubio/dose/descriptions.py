"""What doses, structures and dose-volume histograms say of themselves."""

from collections.abc import Iterator, Sequence

import numpy as np

from napari_gpubio.core.describe import (
    Curves,
    Fact,
    Item,
    Line,
    Lines,
    Rows,
    Slices,
    Style,
    describes,
    grid_facts,
    hottest,
)
from napari_gpubio.core.space import apply_affine
from napari_gpubio.dose.io.rtstruct import StructureSet
from napari_gpubio.dose.metrics.curve import Dvh, DvhResult
from napari_gpubio.dose.metrics.metric import MetricTable
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.operations import Surfaces
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures


@describes(Dose)
def _dose(one: Dose) -> Iterator[Item]:
    yield from grid_facts(one.values.shape, one.affine)
    yield Fact("quantity", one.word)
    yield Fact("largest", one.largest, one.unit)
    style: Style = "log" if one.is_light else "heat"
    at, error = hottest(one.values), one.standard_error
    yield Slices(one.word, one.values, one.affine, one.unit, style=style, at=at, error=error)


@describes(LabelStructures)
def _labels(one: LabelStructures) -> Iterator[Item]:
    yield from grid_facts(one.labels.shape, one.affine)
    volumes = [one.voxels[value] * one.voxel_mm3 / 1e3 for value in one.values]
    yield Rows("structures", {"label": one.values, "structure": one.names, "volume_cc": volumes})
    yield Slices("label", one.labels, one.affine, style="labels")


@describes(StructureSet, ContourStructure)
def _contours(one: StructureSet | ContourStructure) -> Iterator[Item]:
    every = [*one] if isinstance(one, StructureSet) else [one]
    planes = [len(structure.planes) for structure in every]
    yield Rows("structures", {"structure": [structure.name for structure in every], "planes": planes})
    loops = [
        apply_affine(structure.frame, np.insert(loop[[*range(len(loop)), 0]], 2, plane.position_mm, axis=1))
        for structure in every
        for plane in structure.planes
        for loop in plane.loops
    ]
    points = np.concatenate([np.zeros((0, 3)), *loops])
    yield Lines("contours, colored by direction", points, np.cumsum([0, *map(len, loops)]))


@describes(Surfaces)
def _surfaces(one: Surfaces) -> Iterator[Item]:
    each = one.histograms
    yield Rows("surfaces", {name: [getattr(h, name) for h in each] for name in ("name", "mean", "unit")})
    curves = tuple(Line(h.name, h.doses, h.areas_cm2) for h in each)
    yield Curves("curves", ("dose", each[0].unit if each else ""), ("area", "cm²"), curves)


def _items(dvhs: Sequence[Dvh]) -> Iterator[Item]:
    rows = [
        {"structure": one.name, "volume_cc": one.volume_cc, "mean": one.mean, "least": one.least,
         "largest": one.largest, "unit": one.unit, **{f"D{n}%": float(one.dose_at_percent(n)) for n in (98, 95, 50, 2)}}
        for one in dvhs
    ]  # fmt: skip
    yield Rows.of("metrics", rows)
    curves = tuple(Line(dvh.name, *dvh.curve()) for dvh in dvhs if not dvh.is_empty)
    yield Curves("curves", ("dose", dvhs[0].unit if dvhs else ""), ("volume", "%"), curves)


@describes(DvhResult)
def _result(one: DvhResult) -> Iterator[Item]:
    yield Fact("structures", len(one))
    yield from _items(one.dvhs)


@describes(Dvh)
def _dvh(one: Dvh) -> Iterator[Item]:
    yield from _items([one])


@describes(MetricTable)
def _metrics(one: MetricTable) -> Iterator[Item]:
    names, values = [name for name, _ in one.rows], [row for _, row in one.rows]
    columns = {str(metric): [row[n].value for row in values] for n, metric in enumerate(one.metrics)}
    yield Rows("metrics", {"structure": names, **columns})
    reasons = {f"{name}, {metric}": row[n].reason for name, row in one.rows for n, metric in enumerate(one.metrics)}
    yield from (Fact(what, f"not evaluated: {why}") for what, why in reasons.items() if why)
