"""The verbs of light in layers as records: a simulation, and its numbers, curves and map under a beam."""

import dataclasses
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.records import Operation, Ref, given
from napari_gpubio.core.operations.stores import Kind, register_kind
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.quantity import QUANTITY
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.light.io.mco import write_mco
from napari_gpubio.light.layers.beams import FlatBeam, GaussianBeam, convolved
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.napari_io import picture_layer
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.run import simulate_steps
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.light.layers.summary import Curve, every_curve, layered_rows, write_curves
from napari_gpubio.light.statistics import FluenceUnit
from napari_gpubio.light.summary import NumberRow, write_csv

_TIMES = ("Time", "Speed")  # rows that differ from run to run


@dataclass(frozen=True, kw_only=True)
class SimulateLayers(Operation, verb="simulate-layers", makes={"run": LayeredResult}):
    """Trace photons of a pencil beam through planar layers."""

    medium: LayeredMedium = part("Layers", "From the top.")
    settings: LayeredSettings = part("Settings", "Photons, and the grid of the tallies.", default=LayeredSettings())

    @property
    def title(self) -> str:
        """Name of the layers."""
        return self.medium.name or "layers"

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, LayeredResult]:  # noqa: ARG002 - no inputs
        """Simulate it."""
        return simulate_steps(self.medium, self.settings, **run)


@dataclass(frozen=True, kw_only=True)
class AddLayerPhotons(Operation, verb="add-layer-photons", makes={"run": LayeredResult}):
    """Go on with a run in layers until it has so many photons."""

    run: Ref[LayeredResult] = given("Run", "A simulation in layers.")
    photons: int = param(2_000_000, "Photons", "Of both together.", minimum=1)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, LayeredResult]:
        """Trace those that it lacks."""
        settings = dataclasses.replace(data.run.settings, photons=self.photons)
        return simulate_steps(data.run.medium, settings, resume=data.run, **run)


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Numbers of a result, row by row."""

    rows: tuple[NumberRow, ...]


@dataclass(frozen=True, eq=False)
class CurveTable:
    """Curves of a result."""

    curves: tuple[Curve, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class BeamView:
    """What a run in layers gives under a beam.

    Parameters
    ----------
    numbers, curves
        Tables.
    picture
        Decimal logarithm of a quantity over depth and radius, shape (2 radial, depth); None without absorption map.
    """

    numbers: NumberTable
    curves: CurveTable
    picture: Volume | None


@dataclass(frozen=True, kw_only=True)
class UnderBeam(Operation, verb="under-beam", makes={"numbers": NumberTable, "curves": CurveTable, "picture": Volume}):
    """Take numbers, curves and the picture of a run in layers, convolved with a beam."""

    run: Ref[LayeredResult] = given("Run", "A simulation in layers.")
    beam: GaussianBeam | FlatBeam | None = part("Beam", "Its profile; a pencil beam by default.", default=None)
    unit: str = param("1/mm²", "Unit", "Of fluence, per launched photon, or of a source's power or energy.")
    factor: float = param(1.0, "Factor", "The unit's number for 1/mm² and photon.", above=0.0)
    quantity: str = param("fluence", "Quantity", "Of the picture.", choices=("fluence", "absorbed"))
    hide_uncertain: bool = param(False, "Hide uncertain", "NaN where the relative standard error is more than 50 %.")

    def check(self) -> None:
        """Raise InvalidInput if there is no such unit."""
        FluenceUnit(self.unit, self.factor)

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, BeamView]:
        """Take it."""
        yield Step(0, 1, "numbers and curves")
        result: LayeredResult = data.run if self.beam is None else convolved(data.run, self.beam)
        unit = FluenceUnit(self.unit, self.factor)
        return BeamView(
            numbers=NumberTable(layered_rows(result)),
            curves=CurveTable(every_curve(result, unit=unit)),
            picture=None if result.A_rz is None else self._picture(result, unit),
        )

    def _picture(self, result: LayeredResult, unit: FluenceUnit) -> Volume:
        shown, about, _ = picture_layer(
            result, "", quantity=self.quantity, unit=unit, hide_uncertain=self.hide_uncertain
        )
        affine = np.diag([result.settings.dr_mm, result.settings.dz_mm, 1.0, 1.0])
        affine[0, 3] = (0.5 - result.settings.radial_bins) * result.settings.dr_mm
        affine[1, 3] = result.settings.dz_mm / 2
        carried = about["metadata"][KEY]
        return Volume(array=shown.T, affine=affine, name=about["name"], quantity=carried[QUANTITY])


register_kind(
    Kind(
        LayeredResult,
        counts=lambda one: (one.specular, one.launched, *one.Rd_ra, *one.Tt_ra, *one.A_l, *(one.A_rz or ())),
        endings=(".mco",),
        write=lambda run, path, _: write_mco(path, run),
    )
)
register_kind(
    Kind(
        NumberTable,
        counts=lambda one: tuple((row.name, row.value, row.error) for row in one.rows if row.name not in _TIMES),
        endings=(".csv",),
        write=lambda table, path, _: write_csv(path, table.rows),
    )
)
register_kind(
    Kind(
        CurveTable,
        counts=lambda one: tuple((curve.name, curve.value, curve.error) for curve in one.curves),
        endings=(".csv",),
        write=lambda table, path, _: write_curves(path, table.curves),
    )
)
