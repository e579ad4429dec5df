"""What a run of light gives: fluence in a unit, and numbers."""

import functools
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.layer_files import RECORD, described_files
from napari_gpubio.core.operations.kinds import MadeOf, register_kind
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.quantity import GUIDE, HALVES, Quantity
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.layered.operations import NumberTable
from napari_gpubio.light.io.volumes import fluence_arrays, fluence_values, write_fluence_steps
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.summary import number_rows
from napari_gpubio.light.trust import findings
from napari_gpubio.optics.estimates import FluenceUnit
from napari_gpubio.optics.numbers import table_lines
from napari_gpubio.optics.pictures import fluence_word


@dataclass(frozen=True, eq=False, kw_only=True)
class FluenceVolume(Volume):
    """Fluence of a run in a unit, with the run, which is written beside it.

    Parameters
    ----------
    run, unit, gates, hide_uncertain
        As of `napari_gpubio.light.io.write_fluence`.
    """

    run: LightResult
    unit: FluenceUnit
    gates: bool
    hide_uncertain: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Lit(MadeOf, main="run"):
    """What a run gives in a unit.

    Parameters
    ----------
    run, unit, gates, hide_uncertain
        As of `FluenceVolume`.
    threshold
        Fluence above which the volume of each label is counted; None: it is not.
    about
        What is to be known of the source, in sentences.
    """

    run: LightResult
    unit: FluenceUnit
    gates: bool = False
    hide_uncertain: bool = False
    threshold: float | None = None
    about: tuple[str, ...] = ()

    @functools.cached_property
    def fluence(self) -> FluenceVolume:
        """Fluence by voxel."""
        return fluence_volume(self.run, self.unit, gates=self.gates, hide_uncertain=self.hide_uncertain)

    @functools.cached_property
    def numbers(self) -> NumberTable:
        """Where the energy went, what is detected, fluence by label, and their errors."""
        return NumberTable(number_rows(self.run, unit=self.unit, threshold=self.threshold))

    @functools.cached_property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the run, in sentences."""
        return (*self.about, *(f"{one.status}: {one.sentence}" for one in findings(self.run)))

    def summary(self) -> Summary:
        """The numbers."""
        rows = [{name: getattr(row, name) for name in _COLUMNS} for row in self.numbers.rows]
        return Summary(tuple(table_lines(self.numbers.rows)), {"results": [rows]})


_COLUMNS = ("group", "name", "label", "value", "error", "unit", "note")
TABLES = {"numbers": NumberTable}


@dataclass(frozen=True, kw_only=True)
class Fluence(Operation, verb="fluence", makes={"fluence": FluenceVolume, **TABLES}):
    """Take the fluence of a run, in a unit, and its numbers."""

    examples = ("fluence head.npz --out fluence.nii.gz",)
    needs_no_file = True

    run: Ref[LightResult] = given("Run", "A simulation.")
    unit: str = param("1/mm²", "Unit", "Per launched photon, or of a source's power or energy.")
    factor: float = param(1.0, "Factor", "The unit's number for 1/mm² and photon.", above=0.0)
    gates: bool = param(False, "Time gates", "A volume for each, instead of all of them together.")
    hide_uncertain: bool = param(False, "Hide uncertain", "NaN where the relative standard error is more than 50 %.")

    def check(self) -> None:
        """Raise InvalidInput if there is no such unit."""
        FluenceUnit(self.unit, self.factor)

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Lit]:
        """Take it."""
        yield Step(0, 1, "fluence")
        unit = FluenceUnit(self.unit, self.factor)
        return Lit(run=data.run, unit=unit, gates=self.gates, hide_uncertain=self.hide_uncertain)

    def summary(self, made: Lit) -> Summary:
        """The numbers."""
        return made.summary()


def fluence_volume(result: LightResult, unit: FluenceUnit, *, gates: bool, hide_uncertain: bool) -> FluenceVolume:
    """Return the fluence of a run on the linear scale, with its halves and guide; as of `write_fluence_steps`."""
    known = fluence_arrays(result, unit, gates=gates)
    word = fluence_word(unit)
    return FluenceVolume(
        array=fluence_values(result, unit, gates=gates, hide_uncertain=hide_uncertain),
        affine=result.domain.affine, name=word, halves=known[HALVES], guide=known[GUIDE],
        quantity=Quantity(word, unit.name, source=f"light, {result.launched:,} photons"),
        run=result, unit=unit, gates=gates, hide_uncertain=hide_uncertain,
    )  # fmt: skip


def _write_fluence(volume: FluenceVolume, path: Path, record: Mapping[str, Any]) -> Generator[Step, None, Any]:
    how = {"gates": volume.gates, "hide_uncertain": volume.hide_uncertain}
    return write_fluence_steps(path, volume.run, unit=volume.unit, about={RECORD: record}, **how)


register_kind(
    FluenceVolume,
    counts=lambda one: (one.array, one.affine, one.quantity, one.halves, one.guide),
    endings=NIFTI_SUFFIXES,
    write=_write_fluence,
    beside=lambda path: {what: one for what, one in described_files(path).items() if one != path},
    shows="napari_gpubio.core.operations.layer_sources:layers_of_volume",
)
