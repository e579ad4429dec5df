"""What simulations of light say of themselves."""

from collections.abc import Iterator

import numpy as np

from napari_gpubio.core.describe import Curves, Fact, Item, Line, Rows, Slices, describes, grid_facts, hottest
from napari_gpubio.light.depth_radius import DepthRadius
from napari_gpubio.light.operations.fluence import FluenceVolume
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.spectrum import DetectedSpectrum
from napari_gpubio.light.summary import energy_rows, number_rows
from napari_gpubio.optics.descriptions import rows_of_numbers


@describes(LightResult)
def _run(one: LightResult) -> Iterator[Item]:
    yield from grid_facts(one.domain.shape, one.domain.affine)
    yield Fact("photons", one.launched)
    yield from (Fact(row.name, row.value, row.unit, row.error) for row in energy_rows(one))
    at, affine = hottest(one.fluence), one.domain.affine
    yield Slices("fluence", one.fluence, affine, "1/mm²", style="log", at=at, error=one.fluence_error)
    if one.gates.shape[3] > 1:
        edges = np.asarray(one.settings.time_gates_ns)
        along = {"gate_start_ns": ("gate", edges[:-1]), "gate_end_ns": ("gate", edges[1:])}
        yield Slices("fluence of time gates", one.gates, affine, "1/mm²", (*"xyz", "gate"), "log", at=at, along=along)
    yield Slices("label", one.domain.labels, affine, style="labels", at=at)
    yield rows_of_numbers("numbers", number_rows(one))


@describes(FluenceVolume)
def _fluence(one: FluenceVolume) -> Iterator[Item]:
    yield Fact("photons", one.run.launched)
    yield Fact("unit", one.unit.name)
    axes = (*"xyz", "gate")[: one.array.ndim]
    yield Slices(one.name, one.array, one.affine, one.unit.name, axes, "log", at=hottest(one.run.fluence))
    yield rows_of_numbers("numbers", number_rows(one.run, unit=one.unit))


@describes(DetectedSpectrum)
def _spectrum(one: DetectedSpectrum) -> Iterator[Item]:
    yield Fact("detectors", len(one.detectors))
    yield Rows.of("spectrum", [*one.rows()])
    each = zip(one.detectors, one.weight.value, one.weight.error, strict=True)
    lines = tuple(Line(name, one.wavelengths_nm, value, error) for name, value, error in each)
    yield Curves("detected light", ("wavelength", "nm"), ("detected weight per launched photon", ""), lines)


@describes(DepthRadius)
def _depth_radius(one: DepthRadius) -> Iterator[Item]:
    yield Rows("fluence by depth and radius", one.columns)
    lines = tuple(Line(f"{nm:g} nm", one.z_mm, value[:, 0], error[:, 0])
                  for nm, value, error in zip(one.wavelengths_nm, one.fluence, one.error, strict=True))  # fmt: skip
    yield Curves("fluence on the axis", ("depth", "mm"), ("fluence", one.unit), lines, log=True)
