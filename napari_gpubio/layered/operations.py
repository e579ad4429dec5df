"""The verbs of light in layers as records: a simulation, and its numbers, curves and map under a beam."""

import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import Writing
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Gridded, Tabular
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.numbers import number_text
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Operation, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.quantity import QUANTITY
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step, with_step
from napari_gpubio.layered.beams import FlatBeam, GaussianBeam, convolved
from napari_gpubio.layered.io.mci import read_mci
from napari_gpubio.layered.io.mco import write_mco
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.napari_io import picture_layer
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.run import simulate_steps
from napari_gpubio.layered.settings import ABSORPTION, LayeredSettings
from napari_gpubio.layered.summary import Curve, every_curve, layered_rows, write_curves
from napari_gpubio.optics.estimates import FluenceUnit
from napari_gpubio.optics.io.foreign import MCX_SUFFIXES
from napari_gpubio.optics.numbers import NumberRow, write_csv

_ROWS_OF_SPEED = ("Time", "Speed")


@dataclass(frozen=True, kw_only=True)
class SimulateLayers(Operation, verb="simulate-layers", makes={"run": LayeredResult}):
    """Trace photons of a pencil beam through planar layers."""

    examples = ("simulate-layers --layers 1.37 0.1 10 0.9 1 --layers 1.4 0.02 5 0.9 inf --photons 1e6 --out skin.mco",)

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

    examples = ("add-layer-photons run.json --photons 1e7 --out more.mco",)

    run: Ref[LayeredResult] = given("Run", "A simulation in layers.")
    photons: int = param(2_000_000, "Photons", "Of both together.", minimum=1)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, LayeredResult]:
        """Trace those that it lacks."""
        settings = dataclasses.replace(data.run.settings, photons=self.photons)
        return simulate_steps(data.run.medium, settings, resume=data.run, **run)


@dataclass(frozen=True, eq=False)
class LayeredRuns:
    """Results of the runs of an input file, by the names that it gives their files.

    Parameters
    ----------
    results
        Those that were begun, in its order; the last one may have been stopped.
    complete
        Whether all were done.
    """

    results: Mapping[str, LayeredResult]
    complete: bool


@dataclass(frozen=True, kw_only=True)
class RunMci(Operation, verb="mcml", makes={"runs": LayeredRuns}):
    """Run an MCML input file: trace photons through planar layers, once for each of its runs.

    A new folder gets MCML's output files, by the names that the input file gives them. Ctrl-C ends the work early: what
    the current run has done is written.
    """

    examples = ("mcml skin.mci --out results", "mcml skin.mci --photons 1e7 --absorption off --out results")

    file: File = part("File", "Input file of MCML (.mci).")
    photons: int | None = param(None, "Photons", "Of each run; by default those of the file.", minimum=1)
    seed: int = param(1, "Seed", "Of the first run; each further one has the next.", minimum=0, maximum=2**63)
    absorption: str = param(
        "collect", "Absorption",
        "Beyond the grid: in the outermost bins, as MCML has it, or dropped, as GPU-MCML does; off: none at all, which "
        "is faster.",
        choices=ABSORPTION,
    )  # fmt: skip

    def check(self) -> None:
        """Raise InvalidInput if it is an input file of another program."""
        path = Path(self.file.path)
        if path.suffix.lower() in MCX_SUFFIXES:
            raise InvalidInput(f"{path.name} is named like an input file of MCX; run it with napari-gpubio mcx")

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, LayeredRuns]:
        """Simulate all runs."""
        return self._each(data.file, lambda *_: None, **run)

    def steps_into(self, data: Any, files: Mapping[str, Path], **run: Any) -> Generator[Step, None, LayeredRuns]:
        """Simulate run after run, and write the result of each when it is there."""
        (folder,) = files.values()
        writing = Writing()  # if one cannot be written, the others are still worth their time

        def write(name: str, result: LayeredResult) -> None:
            with writing.attempt():
                folder.mkdir(exist_ok=True)
                write_mco(folder / name, result)

        found = yield from self._each(data.file, write, **run)
        writing.finish()
        return found

    def _each(
        self, path: Path, keep: Callable[[str, LayeredResult], None], **how: Any
    ) -> Generator[Step, None, LayeredRuns]:
        runs, results = read_mci(path), dict[str, LayeredResult]()
        names = [PureWindowsPath(one.output).name for one in runs]  # it takes paths of any system apart
        if twice := next((name for n, name in enumerate(names) if name in names[:n]), ""):
            raise InvalidInput(f"two runs would write {twice}; rename one of their output files in {path.name}")
        photons = {} if self.photons is None else {"photons": self.photons}
        for number, (name, one) in enumerate(zip(names, runs, strict=True)):
            # two runs of the same layers are made to see how they vary
            settings = dataclasses.replace(one.settings, seed=self.seed + number, absorption=self.absorption, **photons)
            tell = functools.partial(_step_of, f"run {number + 1} of {len(runs)}: ")
            result = yield from with_step(simulate_steps(one.medium, settings, **how), tell)
            if result.launched:
                results[name] = result
                keep(name, result)
            if not result.complete:
                return LayeredRuns(results, complete=False)
        return LayeredRuns(results, complete=True)

    def summary(self, made: LayeredRuns) -> Summary:
        """The fractions of the launched light, with their standard errors."""
        lines, rows = [], []
        for name, one in made.results.items():
            lines += [*_lines(name, one)]
            numbers = {part_: getattr(one, part_) for part_ in _FRACTIONS}
            each = {part_: {"value": value, "error": error} for part_, (value, error) in numbers.items()}
            rows.append({"output": name, "photons": one.launched, "specular_reflectance": one.specular, **each})
        return Summary(tuple(lines), {"runs": rows})


def _step_of(run: str, step: Step) -> Step:
    return dataclasses.replace(step, message=run + step.message)


_FRACTIONS = {"diffuse_reflectance": "Rd", "absorbed": "A", "transmittance": "T"}


def _lines(name: str, result: LayeredResult) -> Iterator[str]:
    photons = f"{result.launched:,}" + ("" if result.complete else f" of {result.settings.photons:,}")
    yield f"{name}: {photons} photons in {result.parameters['seconds']:.2f} s on {result.parameters['device']}"
    yield f"  Rsp  {'specular reflectance':22}{result.specular:.6g}"
    for part_, symbol in _FRACTIONS.items():
        yield f"  {symbol:4} {part_.replace('_', ' '):22}{number_text(*getattr(result, part_))}"


@dataclass(frozen=True, eq=False)
class NumberTable(Tabular):
    """Numbers of a result, row by row."""

    rows: tuple[NumberRow, ...]


@dataclass(frozen=True, eq=False)
class CurveTable(Tabular, Gridded):
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

    examples = ("under-beam run.json --beam gaussian --radius-mm 0.5 --out numbers.csv --curves-out curves.csv",)

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
        return self.view_of(data.run if self.beam is None else convolved(data.run, self.beam))

    def view_of(self, result: LayeredResult) -> BeamView:
        """Return what a result gives that is convolved."""
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


def _counted(one: LayeredResult) -> tuple[Any, ...]:
    return one.specular, one.launched, *one.Rd_ra, *one.Tt_ra, *one.A_l, *(one.A_rz or ())


def _write_runs(runs: LayeredRuns, folder: Path, _: Any) -> None:
    folder.mkdir(exist_ok=True)
    for name, one in runs.results.items():
        write_mco(folder / name, one)


register_kind(
    LayeredRuns,
    counts=lambda runs: ({name: _counted(one) for name, one in runs.results.items()},),
    endings=("",),
    is_folder=True,
    write=_write_runs,
)
register_kind(LayeredResult, counts=_counted, endings=(".mco",), write=lambda run, path, _: write_mco(path, run))
register_kind(
    NumberTable,
    counts=lambda one: tuple((row.name, row.value, row.error) for row in one.rows if row.name not in _ROWS_OF_SPEED),
    endings=(".csv",),
    write=lambda table, path, _: write_csv(path, table.rows),
)
register_kind(
    CurveTable,
    counts=lambda one: tuple((curve.name, curve.value, curve.error) for curve in one.curves),
    endings=(".csv",),
    write=lambda table, path, _: write_curves(path, table.curves),
)
