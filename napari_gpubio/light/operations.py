"""The verbs of light in voxels as records: tissue of a file or held, a simulation, its fluence."""

import dataclasses
import functools
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD, described_files
from napari_gpubio.core.operations.records import File, Held, Operation, Output, Reading, Ref, Told, Words, given
from napari_gpubio.core.operations.stores import STORE, Store, register_kind
from napari_gpubio.core.operations.volumes import Row, Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.quantity import GUIDE, HALVES, Quantity
from napari_gpubio.core.report import WARNING
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.space import checked_affine
from napari_gpubio.core.steps import Step
from napari_gpubio.core.tensor_components import PLACES
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, read_volume
from napari_gpubio.light.anisotropy.calibration import FiberCalibration, with_fibers
from napari_gpubio.light.detectors import FACES, AnyDetector, Detector, FaceDetector
from napari_gpubio.light.findings import findings
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.foreign import check_labels_file
from napari_gpubio.light.io.results import load_result, load_unfinished, save_result_steps
from napari_gpubio.light.io.table import read_table
from napari_gpubio.light.io.volumes import (
    fluence_arrays,
    fluence_values,
    fluence_word,
    read_diffusion_tensors,
    read_domain,
    read_irradiance,
    write_fluence_steps,
)
from napari_gpubio.light.layers.operations import NumberTable
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.phase import TabulatedPhaseFunction
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.scattering_tensors import PRODUCT, SCATTERING_MODELS
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.sources import (
    Directed,
    EmittingBox,
    EmittingVolume,
    Pattern,
    PatternArea,
    Patterned,
    Pencil,
    PlacedSource,
    Source,
    emitting_volume,
    one_or_all,
)
from napari_gpubio.light.spectrum import DetectedSpectrum, spectrum, spectrum_media
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit, fluence_units
from napari_gpubio.light.summary import number_rows, table_lines, write_spectrum
from napari_gpubio.light.surface import inward_normal, source_problem
from napari_gpubio.light.tissue import media_at_wavelengths

Affine = tuple[Row, Row, Row, Row]
MOST_WAVELENGTHS = 10_000
Presets = tuple[tuple[int, str], ...]
_VOXELS = ("mua_per_mm", "mus_per_mm", "g", "n")

# -- tissue -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Tissue(Reading):
    """What both ways to give a tissue have."""

    media: tuple[Medium, ...] = part("Optical properties", "Those of each label.")
    outside_n: float = param(1.0, "n outside", "Refractive index of what surrounds the labels.", minimum=1.0)


def _table(rows: list[list[str]]) -> tuple[Medium, ...]:
    if len(rows) > 1:
        raise InvalidInput("there are several tables of optical properties; give one, with a row for each label")
    return tuple(read_table(rows[0][0]))


def _affine(rows: list[list[str]]) -> Affine:
    try:
        matrix: Any = tuple(map(tuple, np.array(rows[-1][0].split(), np.float64).reshape(4, 4).tolist()))
    except ValueError:
        raise InvalidInput(f"the affine is {rows[-1][0]!r}; give 16 numbers, row by row, in quotes") from None
    return matrix


def _presets(rows: list[list[str]]) -> Presets:
    if odd := [label for label, _ in rows if not label.isdecimal()]:
        raise InvalidInput(f"a preset is of the label {odd[0]!r}; give the number of a label, then its preset")
    return tuple((int(label), name) for label, name in rows)


@dataclass(frozen=True, kw_only=True)
class _AtWavelengths(Settings):
    """Tissues at several wavelengths."""

    are_parts = False
    words: ClassVar[Any] = {"presets": Words(("LABEL", "PRESET"), _presets)}

    presets: Presets = part(
        "Presets", "Of labels, at wavelengths, such as 1 'skin (Cassano 2019)'.", default=(), advanced=True
    )
    wavelengths_nm: tuple[float, float, float] | None = part(
        "Wavelengths", "The first, the last, and the step between.", unit="nm", default=None, advanced=True
    )

    def media_by_wavelength(self) -> dict[float, tuple[Medium, ...]]:
        """Return the media of the presets at each wavelength, nm; InvalidInput if there is no such preset."""
        return media_at_wavelengths(dict(self.presets), self._wavelengths())

    def _wavelengths(self) -> list[float]:
        """All of them; InvalidInput if there are none, or too many, or presets that do not fit."""
        if not self.presets or self.wavelengths_nm is None:
            raise InvalidInput("presets and wavelengths belong together; give both")
        (first, last, step), labels = self.wavelengths_nm, [label for label, _ in self.presets]
        count = math.floor((last - first) / step + 1e-9) + 1 if step else 0
        if not 1 <= count <= MOST_WAVELENGTHS:
            raise InvalidInput(
                f"the wavelengths are {self.wavelengths_nm} nm; give the first, the last and the step, such as 650 950 "
                f"6, and {MOST_WAVELENGTHS:,} at most"
            )
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise InvalidInput(f"there are two presets of label {twice}; leave one of them out")
        return [first + index * step for index in range(count)]


@dataclass(frozen=True, kw_only=True)
class OpenDomain(_Tissue, _AtWavelengths, verb="open-tissue", makes={"domain": Domain}):
    """Open a label volume, and give it optical properties: those of a table, or of presets for many wavelengths.

    For many wavelengths, it has the least absorption of all, and a scattering in the middle; see the verb spectrum.
    """

    words: ClassVar[Any] = {
        **_AtWavelengths.words,
        "media": Words(("TABLE",), _table),
        "affine": Words(("ROWS",), _affine),
    }

    file: File = part("File", "NIfTI volume of labels; 0 is outside.")
    media: tuple[Medium, ...] = part(
        "Optical properties", "Table of them, .csv or .json: label, mua_per_mm, ...", default=()
    )
    mua: File | None = part("µa", "Volume of absorption coefficients.", default=None, unit="1/mm", advanced=True)
    mus: File | None = part("µs", "Volume of scattering coefficients.", default=None, unit="1/mm", advanced=True)
    g: File | None = part("g", "Volume of the anisotropy g instead.", default=None, advanced=True)
    n: File | None = part("n", "Volume of the refractive index instead.", default=None, advanced=True)
    air_in_cavities: bool = param(
        False, "Air in cavities", "Light crosses voxels of label 0 that tissue encloses, as air.", advanced=True
    )
    affine: Affine | None = part(
        "Affine", "Voxel to world, row by row, in the digits that a file has not.", default=None, unit="mm",
        advanced=True,
    )  # fmt: skip

    def check(self) -> None:
        """Raise InvalidInput if there are no optical properties, or twice, or it is no volume of labels."""
        check_labels_file(self.file.path)
        has_presets = bool(self.presets) or self.wavelengths_nm is not None
        if bool(self.media) == has_presets:
            raise InvalidInput(
                f"{Path(self.file.path).name} has {'two kinds of' if has_presets else 'no'} optical properties; give a "
                "table (--media), or presets at wavelengths"
            )
        if has_presets:
            self._wavelengths()
        if has_presets and self.mua is not None:
            raise InvalidInput("mua gives absorption voxel by voxel, and presets by label; leave one of them out")

    def read(self, data: Any) -> Domain:
        """Read it."""
        maps = {f"{name}_path": getattr(data, name) for name in ("mua", "mus", "g", "n")}
        media = self.media or spectrum_media(self.media_by_wavelength())
        domain = read_domain(data.file, media, outside_n=self.outside_n, affine=self.affine, **maps)
        return domain.with_air_in_cavities() if self.air_in_cavities else domain


@dataclass(frozen=True, kw_only=True)
class HeldDomain(_Tissue, verb="held-tissue", makes={"domain": Domain}):
    """A label volume that no file holds, such as a painted one, with optical properties by label or by voxel."""

    labels: Held = part("Labels", "0 is outside.")
    affine: Affine = part("Affine", "Voxel to world, row by row.", unit="mm")
    name: str = param("labels", "Name", "As people know it.", compare=False)
    mua_per_mm: Held | None = part("µa", "Absorption coefficient of each voxel.", default=None, unit="1/mm")
    mus_per_mm: Held | None = part("µs", "Scattering coefficient of each voxel.", default=None, unit="1/mm")
    g: Held | None = part("g", "Mean cosine of the scattering angle of each voxel.", default=None)
    n: Held | None = part("n", "Refractive index of each voxel.", default=None)
    cosines: Held | None = part("Phase function", "Its inverse distribution, instead of g.", default=None)
    mus_tensor_per_mm: Held | None = part("Tensors", "Scattering tensor of each voxel.", default=None, unit="1/mm")
    scattering_model: str = param(
        PRODUCT, "Model", "How light scatters where there is a tensor.", choices=SCATTERING_MODELS
    )

    @classmethod
    def of(cls, domain: Domain, name: str = "labels", store: Store = STORE) -> "HeldDomain":
        """Return the operation of a tissue as it is, whose arrays are copied."""
        arrays = {one: getattr(domain, one) for one in (*_VOXELS, "mus_tensor_per_mm")}
        arrays["cosines"] = None if domain.phase_function is None else domain.phase_function.cosines
        held: dict[str, Any] = {one: store.hold(array) for one, array in arrays.items() if array is not None}
        if domain.is_anisotropic:
            held["scattering_model"] = domain.scattering_model
        rows: Any = np.asarray(domain.affine, np.float64)
        return cls(
            labels=store.hold(domain.labels), affine=rows, name=name, media=domain.media, outside_n=domain.outside_n,
            **held,
        )  # fmt: skip

    def check(self) -> None:
        """Raise InvalidInput if the affine is none, or there is a model without tensors."""
        checked_affine(self.affine)
        if self.mus_tensor_per_mm is None and self.scattering_model != PRODUCT:
            raise InvalidInput(f"the model is {self.scattering_model!r} without scattering tensors; leave it out")

    def read(self, data: Any) -> Domain:
        """Take it from where it is held."""
        by_voxel = {name: getattr(data, name) for name in (*_VOXELS, "mus_tensor_per_mm")}
        table = None if data.cosines is None else TabulatedPhaseFunction(cosines=data.cosines)
        return Domain(
            labels=data.labels, affine=np.array(self.affine), media=self.media, outside_n=self.outside_n,
            phase_function=table, scattering_model=self.scattering_model, **by_voxel,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class DiffusionTensors:
    """Diffusion tensors in world axes, shape (X, Y, Z, 6), and where they lie."""

    tensors: Any
    affine: Any


@dataclass(frozen=True, kw_only=True)
class OpenDiffusionTensors(Reading, verb="open-diffusion-tensors", makes={"tensors": DiffusionTensors}):
    """Open an image of diffusion tensors, along which light is scattered."""

    file: File = part("File", "NIfTI image.")
    order: str = param(
        "mrtrix", "Order",
        "Of components: mrtrix (xx yy zz xy xz yz), fsl (xx xy xz yy yz zz), dipy (xx xy yy xz yz zz), full (3 x 3).",
        choices=tuple(PLACES),
    )  # fmt: skip
    axes: str = param(
        "auto", "Axes", "That they refer to: world for mrtrix and full, FSL's for the others.",
        choices=("auto", "world", "voxel", "fsl"),
    )  # fmt: skip

    def read(self, data: Any) -> DiffusionTensors:
        """Read it."""
        axes = None if self.axes == "auto" else self.axes
        return DiffusionTensors(*read_diffusion_tensors(data.file, self.order, axes=axes))


@dataclass(frozen=True, kw_only=True)
class HeldDiffusionTensors(Reading, verb="held-diffusion-tensors", makes={"tensors": DiffusionTensors}):
    """Diffusion tensors that no file holds."""

    tensors: Held = part("Tensors", "In world axes, shape (X, Y, Z, 6).")
    affine: Affine = part("Affine", "Voxel of the tensors to world, row by row.", unit="mm")

    def read(self, data: Any) -> DiffusionTensors:
        """Take them from where they are held."""
        return DiffusionTensors(data.tensors, np.array(self.affine))


register_kind(DiffusionTensors, counts=lambda one: (one.tensors, one.affine), opens=OpenDiffusionTensors)


@dataclass(frozen=True, kw_only=True)
class WithFibers(Operation, verb="fibers-in-tissue", makes={"domain": Domain}):
    """Let light scatter less along fibers than across them, whose directions diffusion tensors have.

    Its record is a tissue for light.
    """

    examples = (
        "fibers-in-tissue labels.nii.gz --media tissues.csv --tensors dti.nii.gz --order fsl --record tissue.json",
    )

    tissue: Ref[Domain] = given("Tissue", "Labels with optical properties.")
    tensors: Ref[DiffusionTensors] = given("Tensors", "Image of diffusion tensors.")
    labels: tuple[int, ...] | None = part("Labels", "Those that have fibers; all by default.", default=None)
    calibration: FiberCalibration = part("Calibration", "How much fibers scatter.", default=FiberCalibration())
    model: str = param(
        PRODUCT, "Model", "How light scatters: product is reciprocal, free as in other programs is not.",
        choices=SCATTERING_MODELS,
    )  # fmt: skip

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Domain]:
        """Find them."""
        yield Step(0, 1, "fibers of the tissue")
        given_ = data.tensors
        how: dict[str, Any] = {"labels": self.labels, "calibration": self.calibration, "model": self.model}
        return with_fibers(data.tissue, given_.tensors, given_.affine, **how)


# -- a run ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Simulate(Operation, verb="simulate-light", makes={"run": LightResult}):
    """Trace photons through tissue: fluence, where the energy goes, and what is detected, with errors."""

    tissue: Ref[Domain] = given("Tissue", "Labels with optical properties.")
    sources: tuple[PlacedSource | EmittingBox, ...] = part("Sources", "One, or several with their weights.")
    patterns: tuple[Held, ...] = part(
        "Patterns", "Irradiance of patterns, emission of volumes, in the order of these sources.", default=()
    )
    detectors: tuple[Detector | FaceDetector, ...] = part("Detectors", "On the surface, or whole faces.", default=())
    settings: LightSettings = part("Settings", "Photons, and what is tallied.", default=LightSettings())

    @classmethod
    def of(
        cls,
        tissue: Operation | Output[Domain],
        sources: Sequence[Source],
        settings: LightSettings,
        detectors: Sequence[AnyDetector] = (),
        store: Store = STORE,
    ) -> "Simulate":
        """Return the operation of a run with sources as they are, whose arrays are copied."""
        whole = [one for one in sources if isinstance(one, Patterned)]
        blank: Any = tuple(one.changed_to(_AREA[type(one)]) if isinstance(one, Patterned) else one for one in sources)
        held = tuple(store.hold(one.pattern) for one in whole)
        given_: Any = tissue
        return cls(tissue=given_, sources=blank, patterns=held, settings=settings, detectors=tuple(detectors))

    def check(self) -> None:
        """Raise InvalidInput if there is no source, or there are more or fewer patterns than sources that need one."""
        needed = sum(isinstance(one, (PatternArea, EmittingBox)) for one in self.sources)
        if not self.sources or needed != len(self.patterns):
            raise InvalidInput(
                f"there are {len(self.sources)} sources, {needed} with patterns, and {len(self.patterns)} patterns; "
                "give one source or more, and a pattern for each that has one"
            )

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, LightResult]:
        """Simulate it; where there are halves, with the guide of a denoiser."""
        patterns = iter(data.patterns or ())
        sources: list[Source] = []
        for one in self.sources:
            whole: Any = {PatternArea: Pattern, EmittingBox: EmittingVolume}.get(type(one))
            sources.append(one if whole is None else one.changed_to(whole, pattern=next(patterns)))
        steps = simulate_steps(data.tissue, one_or_all(tuple(sources)), self.settings, detectors=self.detectors, **run)
        return (yield from guided_steps(steps, device=run["device"]))


_AREA: dict[type[Source], type[Source]] = {Pattern: PatternArea, EmittingVolume: EmittingBox}


@dataclass(frozen=True, kw_only=True)
class AddPhotons(Operation, verb="add-photons", makes={"run": LightResult}):
    """Go on with a run of light until it has so many photons."""

    examples = ("add-photons head.npz --photons 1e8 --out more.npz",)

    run: Ref[LightResult] = given("Run", "A simulation.")
    photons: int | None = param(None, "Photons", "Of both together; by default those that it was to have.", minimum=1)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, LightResult]:
        """Trace those that it lacks."""
        earlier: LightResult = data.run
        settings = dataclasses.replace(earlier.settings, photons=self.photons or earlier.settings.photons)
        steps = simulate_steps(
            earlier.domain, earlier.source, settings, detectors=earlier.detectors, resume=earlier, **run
        )
        return (yield from guided_steps(steps, device=run["device"]))


@dataclass(frozen=True, kw_only=True)
class OpenRun(Reading, verb="open-light", makes={"run": LightResult}):
    """Open a run of light as it was saved."""

    file: File = part("File", "Result file (.npz).")

    def read(self, data: Any) -> LightResult:
        """Read it."""
        return load_result(data.file)


# -- fluence ----------------------------------------------------------------------------------------------------------


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
class Lit:
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

    @property
    def complete(self) -> bool:
        """Whether all photons were traced."""
        return self.run.complete

    def told(self) -> Told:
        """The numbers."""
        rows = [{name: getattr(row, name) for name in _COLUMNS} for row in self.numbers.rows]
        return Told(tuple(table_lines(self.numbers.rows)), {"results": [rows]})


_COLUMNS = ("group", "name", "label", "value", "error", "unit", "note")
_TABLES = {"numbers": NumberTable}


@dataclass(frozen=True, kw_only=True)
class Fluence(Operation, verb="fluence", makes={"fluence": FluenceVolume, **_TABLES}):
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

    def told(self, made: Lit) -> Told:
        """The numbers."""
        return made.told()


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
)
register_kind(
    LightResult,
    counts=lambda one: (
        one.gates,
        one.gates_error,
        one.fluence_error,
        one.half_fluences,
        one.escaped_weight,
        one.launched,
        one.energy,
        one.absorbed,
        one.detected,
        one.guide,
    ),
    endings=(".npz",),
    write=lambda run, path, _: save_result_steps(path, run),
    opens=OpenRun,
    unfinished=load_unfinished,
)
register_kind(
    Domain,
    counts=lambda one: (
        one.labels,
        one.affine,
        one.media,
        one.outside_n,
        *(getattr(one, name) for name in _VOXELS),
        None if one.phase_function is None else one.phase_function.cosines,
        one.mus_tensor_per_mm,
        one.scattering_model,
    ),
    opens=OpenDomain,
)


# -- all of it at once ------------------------------------------------------------------------------------------------

Point = tuple[float, float, float]


def _spheres(rows: list[list[str]]) -> tuple[Detector, ...]:
    try:
        numbers = [[float(one) for one in row] for row in rows]
    except ValueError:
        raise InvalidInput(f"a detector is {' '.join(rows[-1])!r}; give its center and radius, mm") from None
    return tuple(
        Detector(position_mm=(x, y, z), radius_mm=radius, name=f"D{n}")
        for n, (x, y, z, radius) in enumerate(numbers, 1)
    )


@dataclass(frozen=True, kw_only=True)
class Light(Operation, verb="light", makes={"fluence": FluenceVolume, "run": LightResult, **_TABLES}):
    """Trace photons through a label volume: fluence, where the energy went, and what is detected.

    Without a direction the source looks straight into the tissue. Ctrl-C ends a run early: what was done is written.
    With --run-out it is kept every 8 s, and the same command goes on with it; with more photons: add-photons. An input
    file of MCX: mcx.
    """

    examples = (
        "light head.nii.gz --media head.csv --source fiber --radius-mm 0.2 --position-mm 0 0 80 --out fluence.nii.gz",
        "light head.nii.gz --media head.csv --position-mm 0 0 80 --detector 30 0 75 1.5 --photons 1e7 --run-out r.npz",
    )
    needs_no_file = True
    continues = "run"
    words: ClassVar[Any] = {
        "detector": Words(("X", "Y", "Z", "RADIUS"), _spheres),
        "detector_face": Words(("FACE",), lambda rows: tuple(face for (face,) in rows)),
    }

    tissue: Ref[Domain] = given("Tissue", "Label volume (NIfTI), 0 is outside, or the record of a tissue.")
    source: PlacedSource = part("Source", "Shape of the source.", default=Pencil())
    straight_in: bool | None = param(
        None, "Straight in", "Look normally into the tissue; by default where the direction is the usual one.",
        advanced=True,
    )  # fmt: skip
    pattern: File | None = part(
        "Pattern", "Image whose gray values are the irradiance of a pattern.", default=None, advanced=True
    )
    emission: File | None = part(
        "Emission", "Volume of what voxels emit, instead of a source.", default=None, advanced=True
    )
    detector: tuple[Detector, ...] = part("Detectors", "Spheres, mm; may be given several times.", default=())
    detector_face: tuple[str, ...] = part(
        "Faces that detect", f"Whole faces of the grid, such as -k: {', '.join(FACES)}.", default=(), advanced=True
    )
    settings: LightSettings = part("Simulation", "Photons, and what is tallied.", default=LightSettings())
    power_mw: float | None = param(None, "Power", "Of the source: fluence rate in mW/mm².", unit="mW", above=0.0)
    energy_j: float | None = param(None, "Energy", "Of the source: fluence in J/cm².", unit="J", above=0.0)
    gates: bool = param(False, "Time gates", "A volume of fluence for each.", advanced=True)
    threshold: float | None = param(
        None, "Threshold", "Fluence above which the volume of each label is counted.", minimum=0.0, advanced=True
    )

    def check(self) -> None:
        """Raise InvalidInput if there are two units, or a source lacks something or has too much."""
        if self.power_mw is not None and self.energy_j is not None:
            raise InvalidInput("both power_mw and energy_j are given; fluence has one unit, so give one of them")
        if self.emission is not None and (self.source != Pencil() or self.straight_in is not None):
            raise InvalidInput("emission says where light starts; leave the source out")
        if (self.pattern is not None) != isinstance(self.source, PatternArea):
            raise InvalidInput("a pattern's image and a source of the kind pattern belong together; give both, or none")
        for face in self.detector_face:
            FaceDetector(face=face)

    def steps(self, data: Any, *, known: Any = None, **run: Any) -> Generator[Step, None, Lit]:
        """Simulate it."""
        tissue, (source, about) = data.tissue, self._source(data)
        if problem := source_problem(tissue.labels, tissue.affine, source):
            about = (*about, f"{WARNING}{problem}")
        faces = (FaceDetector(face=face, name=f"face {face}") for face in self.detector_face)
        how: dict[str, Any] = {"detectors": (*self.detector, *faces), "resume": known, **run}
        steps = simulate_steps(tissue, source, self.settings, **how)
        found = yield from guided_steps(steps, device=run["device"])
        return Lit(run=found, unit=self._unit(), gates=self.gates, threshold=self.threshold, about=about)

    def _source(self, data: Any) -> tuple[Source, tuple[str, ...]]:
        """The source, and what was assumed of it."""
        if data.emission is not None:
            return emitting_volume(*read_volume(data.emission)), ()
        source, more, about = self.source, dict[str, Any](), tuple[str, ...]()
        is_usual = source.direction == Pencil().direction
        if isinstance(source, Directed) and (is_usual if self.straight_in is None else self.straight_in):
            inward = tuple(map(float, inward_normal(data.tissue.labels, data.tissue.affine, source.position_mm)))
            more["direction"] = inward
            shown = ", ".join(f"{one:.3g}" for one in inward)
            about = (f"the source looks straight into the tissue, along ({shown})",)
        if isinstance(source, PatternArea):
            return source.changed_to(Pattern, pattern=read_irradiance(data.pattern), **more), about
        return dataclasses.replace(source, **more), about

    def _unit(self) -> FluenceUnit:
        if self.power_mw is None and self.energy_j is None:
            return PER_PHOTON
        return fluence_units(power_mw=self.power_mw, energy_j=self.energy_j)[-1]

    def told(self, made: Lit) -> Told:
        """The numbers."""
        return made.told()


# -- detected light at other wavelengths ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Spectrum(Operation, _AtWavelengths, verb="spectrum", makes={"spectrum": DetectedSpectrum}):
    """Tell what detectors would have detected at other wavelengths, of one run.

    The run has the same presets and wavelengths; its scattering is that of one of these, and is kept.
    """

    examples = ("spectrum r.npz --wavelengths-nm 690 830 10 --presets 1 'scalp (Strangman 2003)' --out light.csv",)

    words = _AtWavelengths.words

    run: Ref[LightResult] = given("Run", "A simulation with detectors.")

    def check(self) -> None:
        """Raise InvalidInput if presets and wavelengths do not fit."""
        self._wavelengths()

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, DetectedSpectrum]:
        """Weigh the detected photons."""
        yield Step(0, 1, "wavelengths")
        return spectrum(data.run, self.media_by_wavelength(), keep_scattering=True)

    def told(self, made: DetectedSpectrum) -> Told:
        """The rows of its table."""
        return Told((), {"spectrum": list(made.rows())})


register_kind(
    DetectedSpectrum,
    counts=lambda one: (*one.weight, *one.wavelengths_nm),
    endings=(".csv",),
    write=lambda found, path, _: write_spectrum(path, found),
)
