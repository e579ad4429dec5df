"""The verbs of light in voxels as records: tissue of a file or held, a simulation, its fluence."""

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD, described_files
from napari_gpubio.core.operations.records import File, Held, Operation, Output, Reading, Ref, given
from napari_gpubio.core.operations.stores import STORE, Store, register_kind
from napari_gpubio.core.operations.volumes import Row, Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.quantity import GUIDE, HALVES, Quantity
from napari_gpubio.core.settings import part
from napari_gpubio.core.space import checked_affine
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.light.anisotropy.calibration import with_fibers
from napari_gpubio.light.detectors import AnyDetector, Detector, FaceDetector
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.io.volumes import (
    fluence_arrays,
    fluence_values,
    fluence_word,
    read_domain,
    write_fluence_steps,
)
from napari_gpubio.light.layers import operations as _of_layers  # noqa: F401 - so that its verbs are known
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.phase import TabulatedPhaseFunction
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.scattering_tensors import PRODUCT, SCATTERING_MODELS
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.sources import (
    EmittingBox,
    EmittingVolume,
    Pattern,
    PatternArea,
    Patterned,
    PlacedSource,
    Source,
    one_or_all,
)
from napari_gpubio.light.statistics import FluenceUnit

Affine = tuple[Row, Row, Row, Row]
_VOXELS = ("mua_per_mm", "mus_per_mm", "g", "n")

# -- tissue -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Tissue(Reading):
    """What both ways to give a tissue have."""

    media: tuple[Medium, ...] = part("Optical properties", "Those of each label.")
    outside_n: float = param(1.0, "n outside", "Refractive index of what surrounds the labels.", minimum=1.0)


@dataclass(frozen=True, kw_only=True)
class OpenDomain(_Tissue, verb="open-tissue", makes={"domain": Domain}):
    """Open a label volume, and give it optical properties."""

    file: File = part("File", "NIfTI volume of labels; 0 is outside.")
    affine: Affine | None = part(
        "Affine", "Voxel to world, row by row, in the digits that a file has not.", default=None, unit="mm"
    )

    def read(self, data: Any) -> Domain:
        """Read it."""
        return read_domain(data.file, self.media, outside_n=self.outside_n, affine=self.affine)


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


@dataclass(frozen=True, kw_only=True)
class WithFibers(Operation, verb="fibers-in-tissue", makes={"domain": Domain}):
    """Let light scatter less along fibers than across them, whose directions diffusion tensors have."""

    tissue: Ref[Domain] = given("Tissue", "Labels with optical properties.")
    tensors: Held = part("Tensors", "Diffusion tensors in world axes, shape (X, Y, Z, 6).")
    affine: Affine = part("Affine", "Voxel of the tensors to world, row by row.", unit="mm")
    labels: tuple[int, ...] | None = part("Labels", "Those that have fibers; all by default.", default=None)
    model: str = param(PRODUCT, "Model", "How light scatters.", choices=SCATTERING_MODELS)

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Domain]:
        """Find them."""
        yield Step(0, 1, "fibers of the tissue")
        return with_fibers(data.tissue, data.tensors, np.array(self.affine), labels=self.labels, model=self.model)


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

    run: Ref[LightResult] = given("Run", "A simulation.")
    photons: int = param(2_000_000, "Photons", "Of both together.", minimum=1)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, LightResult]:
        """Trace those that it lacks."""
        earlier: LightResult = data.run
        settings = dataclasses.replace(earlier.settings, photons=self.photons)
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


@dataclass(frozen=True, kw_only=True)
class Fluence(Operation, verb="fluence", makes={"fluence": FluenceVolume}):
    """Take the fluence of a run, in a unit."""

    run: Ref[LightResult] = given("Run", "A simulation.")
    unit: str = param("1/mm²", "Unit", "Per launched photon, or of a source's power or energy.")
    factor: float = param(1.0, "Factor", "The unit's number for 1/mm² and photon.", above=0.0)
    gates: bool = param(False, "Time gates", "A volume for each, instead of all of them together.")
    hide_uncertain: bool = param(False, "Hide uncertain", "NaN where the relative standard error is more than 50 %.")

    def check(self) -> None:
        """Raise InvalidInput if there is no such unit."""
        FluenceUnit(self.unit, self.factor)

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, FluenceVolume]:
        """Take it."""
        yield Step(0, 1, "fluence")
        return fluence_volume(
            data.run, FluenceUnit(self.unit, self.factor), gates=self.gates, hide_uncertain=self.hide_uncertain
        )


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


def _write_fluence(volume: FluenceVolume, path: Path, record: Mapping[str, Any]) -> None:
    how = {"gates": volume.gates, "hide_uncertain": volume.hide_uncertain}
    drive(write_fluence_steps(path, volume.run, unit=volume.unit, about={RECORD: record}, **how))


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
    write=lambda run, path, _: save_result(path, run),
    opens=OpenRun,
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
)
