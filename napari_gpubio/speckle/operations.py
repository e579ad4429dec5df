"""The verbs of speckle imaging."""

from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.kinds import Conversion, register_conversion, register_kind
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.parameters import check_unused, param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle.io import MapFile, Regions
from napari_gpubio.speckle.mesi import MesiRecipe, MesiResult
from napari_gpubio.speckle.mesi.files import UNITS
from napari_gpubio.speckle.mesi.model import GivenBeta
from napari_gpubio.speckle.mesi.recording import FrameFit, fit_frames_steps
from napari_gpubio.speckle.model import ContrastMaps, Recording
from napari_gpubio.speckle.opening import HeldFrames, HeldRegions, OpenFrames, OpenRegions
from napari_gpubio.speckle.pulsatility import PulsatilitySettings, region_pulsatility
from napari_gpubio.speckle.regions import CurveTaker
from napari_gpubio.speckle.registration import Registered, register_steps
from napari_gpubio.speckle.results import (
    BeatTable,
    CurveTable,
    FitMap,
    PulseTable,
    SpeckleMap,
)
from napari_gpubio.speckle.run import contrast_steps
from napari_gpubio.speckle.settings import (
    ContrastSettings,
    DarkNoise,
    FlowIndex,
    InverseCorrelationTime,
    NoIndex,
    Noise,
    NoiseModel,
    NoMask,
    Spatial,
    Validity,
    WindowSettings,
    measure_dark,
)

__all__ = [
    "Contrast",
    "HeldFrames",
    "HeldRegions",
    "MeasureDark",
    "Mesi",
    "OpenFrames",
    "OpenRegions",
    "Pulsatility",
    "RegionCurves",
    "Register",
]

# -- frames -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Register(Operation, verb="register-frames", makes={"recording": Registered}):
    """Shift frames by whole pixels onto the first one, to correct for motion.

    Interpolation would change the contrast. Frames are shifted when they are read: give the record to another verb,
    which finds the shifts; with --json they are printed.
    """

    examples = ("register-frames frames.tif --record moved.json",)
    recording: Ref[Recording] = given("Frames", "Raw frames.")

    def steps(self, data: Any, *, stop: Any, **_: Any) -> Generator[Step, None, Registered]:
        """Find the shifts."""
        return register_steps(data.recording, stop=stop)

    def summary(self, result: Registered) -> Summary:
        """How far frames were moved."""
        moved = int(np.count_nonzero(result.shifts.any(axis=1)))
        line = f"{moved} of {len(result.shifts)} frames are shifted, by up to {np.abs(result.shifts).max()} pixels"
        return Summary((line,), {"shifts_pixels": result.shifts, "unmatched": result.unmatched})


@dataclass(frozen=True, kw_only=True)
class MeasureDark(Operation, verb="measure-dark", makes={"noise": DarkNoise}):
    """Measure dark level and noise of each pixel of a camera on frames taken with the light off."""

    examples = ("measure-dark dark.tif --json",)
    recording: Ref[Recording] = given("Dark frames", "Same exposure and camera region as the frames they are for.")

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, DarkNoise]:
        """Average them."""
        yield Step(0, 1, "dark frames")
        return measure_dark(data.recording.frames)

    def summary(self, result: DarkNoise) -> Summary:
        """Level and noise."""
        assert result.variance_map is not None
        level, noise = float(result.dark_map.mean()), float(np.sqrt(result.variance_map.mean()))
        return Summary((f"dark level {level:.5g} ADU, noise {noise:.4g} ADU",), {"dark_adu": level, "noise_adu": noise})


register_kind(DarkNoise, counts=lambda one: (one.dark_map, one.variance_map, one.gain))
register_conversion(Conversion(MeasureDark, "recording", lambda _: True))


@dataclass(frozen=True, kw_only=True)
class _OfFrames(Operation):
    """What all verbs take that compute contrast."""

    recording: Ref[Recording] = given(
        "Frames", "Raw frames: a TIFF stack, a folder of TIFF files, a video, or a raw file .00000 of UT Austin."
    )
    dark: Ref[DarkNoise] | None = given(
        "Dark frames",
        "Frames taken in the dark: level and noise of each pixel are measured on them. They are read at the channel of "
        "the frames; to take another one, give a record of measure-dark.",
        optional=True,
    )
    noise: NoiseModel = part("Camera noise", "What is subtracted from the variance.", default=NoiseModel())

    def check(self) -> None:
        """Raise InvalidInput if the dark level is given and measured."""
        if self.dark is not None:
            names = ("dark_adu", "read_noise_adu", "quantization")
            check_unused(self.noise, names, "the dark frames say it for each pixel")

    def _noise(self, data: Any) -> Noise:
        return self.noise if data.dark is None else data.dark.with_gain(self.noise.gain)


# -- maps -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Contrast(_OfFrames, verb="speckle", makes=dict.fromkeys(("contrast", "index", "mask"), SpeckleMap)):
    """Compute laser speckle contrast and an index of flow of a stack of frames.

    Frames are read, and maps written, a few at a time: a stack may be larger than the memory. Ctrl-C ends a run early:
    the files have the maps that were finished.
    """

    examples = (
        "speckle frames.tif --out k.tif --index-out sfi.tif --window 7 --exposure-ms 5",
        "speckle run.00000 --mode temporal --frames 25 --blocks --out k.tif",
        "speckle frames.tif --index relative --baseline 0 50 --index-out flow.tif",
        "speckle moved.json --out k.tif",
    )
    settings: ContrastSettings = part("Contrast", "Window, index and mask.", default=ContrastSettings())

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, ContrastMaps]:
        """Compute the maps."""
        return contrast_steps(data.recording, self.settings, noise=self._noise(data), **run)

    def has(self, name: str) -> bool:
        """Whether there is such a map with these settings."""
        return {"contrast": True, "index": self.settings.has_index, "mask": self.settings.has_mask}[name]

    def result(self, made: ContrastMaps, name: str) -> SpeckleMap | None:
        """Return one of the maps, if the settings have it."""
        return None if getattr(made, name) is None else SpeckleMap(made, name)

    def steps_into(self, data: Any, files: Mapping[str, Path], **run: Any) -> Generator[Step, None, ContrastMaps]:
        """Compute maps into files."""
        with ExitStack() as opened:
            into = [
                opened.enter_context(MapFile(path, name, record=record_of_output(self.output(name))))
                for name, path in files.items()
            ]
            return (yield from self.steps(data, into=into, **run))


# -- regions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _OfRegions(_OfFrames):
    """What is measured in regions, whose maps are not kept."""

    regions: Ref[Regions] = given("Regions", "Labels, or shapes: .tif, .nii, or the .csv of napari in pixels.")
    rate_hz: float | None = param(None, "Rate", "Frames per second of the camera.", unit="Hz", above=0.0, maximum=1e6)
    flow: FlowIndex | InverseCorrelationTime = part(
        "Flow", "Index of flow: by the mean of K², SFI or 1/τ by the full model.", default=FlowIndex()
    )
    windows: WindowSettings = part("Contrast", "Window and mask.", default=WindowSettings())

    def _curves(self, data: Any, **run: Any) -> Generator[Step, None, CurveTable]:
        shape = data.recording.frames.shape[-2:]
        taker = CurveTaker(data.regions.on(shape), flow=self.flow)
        settings = ContrastSettings(mode=self.windows.mode, mask=self.windows.mask, index=NoIndex())
        maps = yield from contrast_steps(data.recording, settings, noise=self._noise(data), into=[taker], **run)
        return CurveTable(curves=taker.curves, rate_hz=self.rate_hz, notes=maps.notes, complete=maps.complete)


@dataclass(frozen=True, kw_only=True)
class RegionCurves(_OfRegions, verb="region-curves", makes={"curves": CurveTable}):
    """Average K² over regions of frames, and compute flow from the means.

    Maps are not kept, so a stack may be larger than the memory. Ctrl-C ends a run early: the table has the maps that
    were finished.
    """

    examples = ("region-curves frames.tif --regions labels.tif --exposure-ms 5 --rate-hz 120 --out curves.csv",)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, CurveTable]:
        """Average it."""
        return self._curves(data, **run)

    def summary(self, result: CurveTable) -> Summary:
        """The time courses."""
        return Summary((), result.numbers)


@dataclass(frozen=True, kw_only=True)
class Pulsatility(
    _OfRegions, verb="pulsatility", makes={"pulsatility": PulseTable, "beats": BeatTable, "curves": CurveTable}
):
    """Measure rate and pulsatility of the beat of flow in regions of frames.

    Humans: 40 to 200 beats per minute, rats: 200 to 500, mice: 300 to 800.
    """

    examples = ("pulsatility frames.tif --regions labels.tif --rate-hz 120 --out pulse.csv --beats-out beats.csv",)
    settings: PulsatilitySettings = part("Beat", "Where a beat is looked for.", default=PulsatilitySettings())

    def check(self) -> None:
        """Raise InvalidInput if the rate of the frames is not known."""
        super().check()
        if self.rate_hz is None:
            raise InvalidInput("rate_hz is not given; give the frames per second of the camera")

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, PulseTable]:
        """Average flow, and find the beat."""
        curves = yield from self._curves(data, **run)
        assert self.rate_hz is not None
        pulses = tuple(region_pulsatility(curve, self.rate_hz, self.settings) for curve in curves.curves)
        return PulseTable(curves, pulses)

    def result(self, made: PulseTable, name: str) -> PulseTable | CurveTable:
        """Return one of the tables."""
        tables: dict[str, PulseTable | CurveTable] = {
            "pulsatility": made,
            "beats": BeatTable(made.curves, made.pulses),
            "curves": made.curves,
        }
        return tables[name]

    def summary(self, result: PulseTable) -> Summary:
        """What was found in each region."""
        return Summary(tuple(pulse.summary for pulse in result.pulses), result.numbers)


# -- multi-exposure fits ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Mesi(_OfFrames, verb="mesi", makes={"fit": MesiResult, **dict.fromkeys(UNITS, FitMap)}):
    """Fit correlation time, moving fraction and β to speckle contrast at several exposures.

    The file of the fit holds 1/τ; those of the other maps are written beside it, as fit_tau_ms.tif and so on. Notes say
    what the exposures cannot tell. Ctrl-C ends a run early: pixels that were not reached are NaN.
    """

    examples = (
        "mesi frames.tif --exposures-ms 0.05 0.1 0.5 1 5 10 50 --out fit.tif",
        "mesi frames.tif --exposures-ms 0.05 0.1 0.5 1 5 10 50 --static-target paper.tif --out fit.tif",
    )
    static_target: Ref[Recording] | None = given(
        "Static target", "Frames of a static target: β is measured there, as on paper.", optional=True
    )
    within: Ref[Regions] | None = given("Within", "Regions of the static target; all by default.", optional=True)
    recipe: MesiRecipe = part("Exposures", "Of the frames, and the fit.")
    mode: Spatial = part("Window", "Over which contrast is taken.", default=Spatial())
    mask: Validity | NoMask = part(
        "Validity mask", "Leave out where contrast does not mean flow.", default=Validity(), advanced=True
    )

    def check(self) -> None:
        """Raise InvalidInput if β is given and measured, or there is a part of no target."""
        super().check()
        if self.static_target is not None and isinstance(self.recipe.settings.beta, GivenBeta):
            raise InvalidInput("β is given and there is a static target to measure it on, too; give one of them")
        if self.within is not None and self.static_target is None:
            raise InvalidInput("there are regions of a static target and no target; give its frames, too")

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, FrameFit]:
        """Fit them."""
        target, region = data.static_target, None
        if data.within is not None:
            region = np.any([*data.within.on(tuple(target.frames.shape[-2:])).values()], axis=0)
        windows, noise = WindowSettings(mode=self.mode, mask=self.mask), self._noise(data)
        more = {"noise": noise, "target": target, "region": region}
        return fit_frames_steps(data.recording, self.recipe, windows, **more, **run)

    def result(self, made: FrameFit, name: str) -> MesiResult | FitMap:
        """Return the fit, or one of its maps."""
        return made.fit if name == "fit" else FitMap(made.fit, name)

    def summary(self, result: FrameFit) -> Summary:
        """Medians, and β if it was measured."""
        maps = {part: np.asarray(getattr(result.fit, part)) for part in UNITS if part != "mask"}
        medians = {part: float(np.nanmedian(one)) for part, one in maps.items() if np.isfinite(one).any()}
        about = {"median": medians, "units": {part: UNITS[part] for part in maps}}
        beta = {} if result.beta is None else {"beta": {"value": result.beta.beta, "error": result.beta.error}}
        return Summary((), {**about, "exposures_ms": self.recipe.exposures_ms, **beta})
