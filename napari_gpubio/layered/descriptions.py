"""What simulations in layers say of themselves."""

from collections.abc import Iterator

import numpy as np

from napari_gpubio.core.describe import Fact, Item, Slices, describes, description
from napari_gpubio.layered.operations import CurveTable, LayeredRuns, NumberTable
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.summary import every_curve, layered_rows
from napari_gpubio.optics.descriptions import curve_items, rows_of_numbers


@describes(LayeredResult)
def _run(one: LayeredResult) -> Iterator[Item]:
    yield Fact("layers", ", ".join(layer.name or "unnamed" for layer in one.medium.layers))
    yield Fact("photons", one.launched)
    yield Fact("specular reflectance", one.specular)
    for name in ("diffuse_reflectance", "absorbed", "transmittance"):
        yield Fact(name.replace("_", " "), *(getattr(one, name).value, "", getattr(one, name).error))
    yield from curve_items(every_curve(one))
    yield rows_of_numbers("numbers", layered_rows(one))
    if one.A_rz is not None:
        found, s = one.fluence_rz(), one.settings
        affine = np.diag([s.dr_mm, -s.dz_mm, 1.0, 1.0])
        affine[:2, 3] = s.dr_mm / 2, -s.dz_mm / 2
        yield Slices("fluence", found.value, affine, "1/mm²", ("x", "y"), "log", error=found.error,
                     shown_as="fluence over radius (across) and depth (down)")  # fmt: skip


@describes(LayeredRuns)
def _runs(one: LayeredRuns) -> Iterator[Item]:
    for name, run in one.results.items():
        yield Fact("run", name)
        yield from description(run)


@describes(NumberTable)
def _numbers(one: NumberTable) -> Iterator[Item]:
    yield rows_of_numbers("numbers", one.rows)


@describes(CurveTable)
def _curves(one: CurveTable) -> Iterator[Item]:
    yield from curve_items(one.curves)
