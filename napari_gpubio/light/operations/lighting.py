"""The verbs ``light``, from labels to fluence, and ``spectrum``, of detected light at other wavelengths."""

import dataclasses
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Operation, Ref, Summary, Words, given
from napari_gpubio.core.parameters import param
from napari_gpubio.core.report import WARNING
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.volumes import (
    read_irradiance,
)
from napari_gpubio.light.operations.fluence import TABLES, FluenceVolume, Lit
from napari_gpubio.light.operations.tissue import AtWavelengths
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.spectrum import DetectedSpectrum, spectrum
from napari_gpubio.light.summary import write_spectrum
from napari_gpubio.optics.detectors import FACES, Detector, FaceDetector
from napari_gpubio.optics.estimates import PER_PHOTON, FluenceUnit, fluence_units
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import Directed, Pattern, PatternArea, Pencil, PlacedSource, Source, emitting_volume
from napari_gpubio.optics.surface import inward_normal, source_problem

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
class Light(Operation, verb="light", makes={"fluence": FluenceVolume, "run": LightResult, **TABLES}):
    """Trace photons through a label volume: fluence, where the energy went, and what is detected.

    Without a direction the source looks straight into the tissue. Ctrl-C ends a run early: what was done is written.
    With --run-out it is kept every 8 s, and the same command goes on with it; with more photons: add-photons. An input
    file of MCX: mcx. Every subject of a BIDS dataset: light BIDS_DIR OUT participant --help.
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

    def summary(self, made: Lit) -> Summary:
        """The numbers."""
        return made.summary()


# -- detected light at other wavelengths ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Spectrum(Operation, AtWavelengths, verb="spectrum", makes={"spectrum": DetectedSpectrum}):
    """Tell what detectors would have detected at other wavelengths, of one run.

    The run has the same presets and wavelengths; its scattering is that of one of these, and is kept.
    """

    examples = ("spectrum r.npz --wavelengths-nm 690 830 10 --presets 1 'scalp (Strangman 2003)' --out light.csv",)

    words = AtWavelengths.words

    run: Ref[LightResult] = given("Run", "A simulation with detectors.")

    def check(self) -> None:
        """Raise InvalidInput if presets and wavelengths do not fit."""
        self._wavelengths()

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, DetectedSpectrum]:
        """Weigh the detected photons."""
        yield Step(0, 1, "wavelengths")
        return spectrum(data.run, self.media_by_wavelength(), keep_scattering=True)

    def summary(self, made: DetectedSpectrum) -> Summary:
        """The rows of its table."""
        return Summary((), {"spectrum": list(made.rows())})


register_kind(
    DetectedSpectrum,
    counts=lambda one: (*one.weight, *one.wavelengths_nm),
    endings=(".csv",),
    write=lambda found, path, _: write_spectrum(path, found),
)
