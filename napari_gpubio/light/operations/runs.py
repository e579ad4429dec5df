"""Runs of light in voxels: they are simulated, go on, and are opened."""

import dataclasses
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Held, Operation, Output, Reading, Ref, given
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.results import load_result, load_unfinished, save_result_steps
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import AnyDetector, Detector, FaceDetector
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import (
    EmittingBox,
    EmittingVolume,
    Pattern,
    PatternArea,
    Patterned,
    PlacedSource,
    Source,
    one_or_all,
)


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
        source = one_or_all(self.whole_sources(data.patterns or ()))
        steps = simulate_steps(data.tissue, source, self.settings, detectors=self.detectors, **run)
        return (yield from guided_steps(steps, device=run["device"]))

    def whole_sources(self, patterns: Iterable[Any]) -> tuple[Source, ...]:
        """Return the sources with the arrays of their patterns."""
        arrays = iter(patterns)
        sources: list[Source] = []
        for one in self.sources:
            whole: Any = {PatternArea: Pattern, EmittingBox: EmittingVolume}.get(type(one))
            sources.append(one if whole is None else one.changed_to(whole, pattern=next(arrays)))
        return tuple(sources)


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


def _write(run: LightResult, path: Path, record: Mapping[str, Any]) -> Generator[Step, None, None]:
    own = dataclasses.replace(run, parameters={**run.parameters, RECORD: dict(record)})
    return save_result_steps(path, own)


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
    write=_write,
    opens=OpenRun,
    unfinished=load_unfinished,
)
