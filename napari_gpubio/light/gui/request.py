"""Requests to the light engine, read in the GUI thread, and how a worker answers them: results with their layers."""

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, LayerData, volume_layer
from napari_gpubio.core.numbers import memory_text
from napari_gpubio.core.operations import graph
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.core.steps import Step
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.gui.domains import Domains, Volume, tissue_of
from napari_gpubio.light.gui.labels import vector
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.io.volumes import MOST_ERROR
from napari_gpubio.light.jacobians.reciprocity import check_same
from napari_gpubio.light.jacobians.sensitivity import Sensitivity
from napari_gpubio.light.jacobians.sensitivity import sensitivity as combine
from napari_gpubio.light.layers.beams import AnyBeam, convolved
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.napari_io import picture_layer
from napari_gpubio.light.layers.operations import AddLayerPhotons, SimulateLayers, UnderBeam
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.run import simulate_steps as simulate_layer_steps
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.light.model import Domain
from napari_gpubio.light.napari_io import DECADES, decade_limits, error_layer, fluence_layer, log_name
from napari_gpubio.light.operations import AddPhotons, Fluence, Simulate
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import needed_memory, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.sources import AnySource, Pencil, Source, all_sources
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit
from napari_gpubio.light.surface import inward_normal

VOXEL_QUICK_PHOTONS, LAYER_QUICK_PHOTONS = 100_000, 10_000
PREVIEW_SECONDS = 0.2  # between two previews of a run
_PREVIEW_SHARE = 4.0  # and at least so many times as long as it takes to make one
Result = TypeVar("Result")
Preview = TypeVar("Preview")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DisplayOptions:
    """How a result is displayed.

    ``hide_uncertain`` hides voxels or bins with a relative standard error above 50 %. ``show_error`` adds the error as
    a layer (voxels only). ``quantity`` is ``fluence`` or ``absorbed``, ``beam`` the profile that the response to a
    pencil beam is convolved with (layers only).
    """

    unit: FluenceUnit = PER_PHOTON
    decades: int = DECADES
    hide_uncertain: bool = False
    show_error: bool = False
    quantity: str = "fluence"
    beam: AnyBeam | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Displayed(Generic[Result]):
    """A result with its layers, made in a worker so that the GUI thread only hands arrays over.

    ``traced`` was simulated; ``result`` is displayed: the same, or convolved with a beam. ``layers`` are by part
    (``fluence``, ``error``), none where the run kept no map. ``problem``: why it could not be displayed as requested.
    """

    traced: Result
    result: Result
    options: DisplayOptions
    layers: Mapping[str, LayerData]
    problem: str = ""
    operation: Operation | None = None  # that makes ``traced``
    later: Callable[[], Operation] | None = None  # finds it, where that takes too long for a quick run


# -- voxels -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoxelRequest:
    """Everything that a run in voxels needs."""

    volume: Volume
    source: AnySource
    detectors: tuple[Detector, ...]
    settings: LightSettings
    device: str

    def quick(self) -> "VoxelRequest":
        """Return the same with few photons."""
        photons = min(VOXEL_QUICK_PHOTONS, self.settings.photons)
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, photons=photons))


def display_voxels(
    result: LightResult, options: DisplayOptions, operation: Operation | None = None
) -> Displayed[LightResult]:
    """Make the layers of a result, which carry the operation that made it if it is whole; takes a moment."""
    fluence = fluence_layer(
        result,
        "",  # a short name can be read in napari's list of layers
        unit=options.unit,
        gates=result.settings.gate_count > 1,
        hide_uncertain=options.hide_uncertain,
        decades=options.decades,
    )
    layers = {"fluence": fluence} | ({"error": error_layer(result, "")} if options.show_error else {})
    if operation is not None and result.complete:
        shown = fluence_of(operation, result.settings.gate_count, options)
        fluence[1]["metadata"][KEY][RECORD] = {**graph(shown), "output": "fluence"}
    return Displayed(traced=result, result=result, options=options, layers=layers, operation=operation)


def fluence_of(operation: Operation, gates: int, options: DisplayOptions) -> Fluence:
    """Return the operation of a fluence as it is displayed."""
    return Fluence(
        run=operation,
        unit=options.unit.name,
        factor=options.unit.factor,
        gates=gates > 1,
        hide_uncertain=options.hide_uncertain,
    )


def voxel_steps(
    request: VoxelRequest,
    domains: Domains,
    stop: threading.Event,
    options: Callable[[], DisplayOptions],
    *,
    outdated: Callable[[], bool] | None = None,
) -> Generator[Step, None, Displayed[LightResult]]:
    """Simulate in voxels; Stop makes what was done the result.

    ``options`` is called for each preview, because the user may change them during a run. ``outdated`` tells whether a
    newer request waits; the run then ends with its first preview. Any other run that was not stopped ends with the
    guide of a denoiser, if there are halves for it.
    """
    yield Step(0, request.settings.photons, "reading the labels …")
    domain = domains.of(request.volume)
    later = functools.cache(functools.partial(operation_of, request, domain))
    operation = later() if outdated is None else None

    def display(result: LightResult) -> Displayed[LightResult]:
        return dataclasses.replace(display_voxels(result, options(), operation), later=later)

    steps = simulate_steps(
        domain, request.source, request.settings, detectors=request.detectors, device=request.device, stop=stop
    )
    if outdated is None:
        steps = guided_steps(steps, device=request.device)
    return (yield from with_previews(steps, display, outdated))


def operation_of(request: VoxelRequest, domain: Domain) -> Operation:
    """Return the operation of a run in voxels."""
    tissue = tissue_of(request.volume, domain)
    return Simulate.of(tissue, all_sources(request.source), request.settings, request.detectors)


def continue_voxel_steps(
    shown: Displayed[LightResult],
    photons: int,
    device: str,
    stop: threading.Event,
    options: Callable[[], DisplayOptions],
) -> Generator[Step, None, Displayed[LightResult]]:
    """Continue a result with its own inputs until it has so many photons."""
    result, operation = shown.traced, shown.operation or (shown.later and shown.later())
    if operation is not None and result.complete:
        operation = AddPhotons(run=operation, photons=photons)
    settings = dataclasses.replace(result.settings, photons=photons)
    steps = simulate_steps(
        result.domain, result.source, settings, detectors=result.detectors, device=device, resume=result, stop=stop
    )
    steps = guided_steps(steps, device=device)
    return (yield from with_previews(steps, lambda more: display_voxels(more, options(), operation)))


def needed_memory_steps(
    volume: Volume, domains: Domains, settings: LightSettings, device: str
) -> Generator[Step, None, str]:
    """Estimate how much memory a run needs; returns a sentence."""
    yield Step(0, 1, "reading the labels …")
    memory = needed_memory(domains.of(volume), settings, device, previews=True)
    return f"Needs about {memory_text(memory.total)} of memory."


# -- layers -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LayerRequest:
    """Everything that a run in layers needs: arguments of `napari_gpubio.light.layers.simulate_steps`."""

    medium: LayeredMedium
    settings: LayeredSettings
    device: str
    resume: Displayed[LayeredResult] | None = None

    @classmethod
    def continuing(cls, shown: Displayed[LayeredResult], photons: int, device: str) -> "LayerRequest":
        """Return what continues a result with its own inputs until it has so many photons."""
        settings = dataclasses.replace(shown.traced.settings, photons=photons)
        return cls(medium=shown.traced.medium, settings=settings, device=device, resume=shown)

    def operation(self) -> Operation:
        """Return the operation of the run."""
        if self.resume is not None and self.resume.operation is not None and self.resume.traced.complete:
            return AddLayerPhotons(run=self.resume.operation, photons=self.settings.photons)
        return SimulateLayers(medium=self.medium, settings=self.settings)

    def quick(self) -> "LayerRequest":
        """Return the same with few photons."""
        photons = min(LAYER_QUICK_PHOTONS, self.settings.photons)
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, photons=photons))


def display_layers(
    traced: LayeredResult, options: DisplayOptions, operation: Operation | None = None
) -> Displayed[LayeredResult]:
    """Make the layers of a result; a beam that does not fit the grid is a problem that keeps what was traced."""
    result, problem = traced, ""
    if options.beam is not None:
        try:
            result = convolved(traced, options.beam)
        except InvalidInput as error:
            problem = f"shown for a pencil beam, because {error}"
    layers: dict[str, LayerData] = {}
    if result.A_rz is not None:
        layers["fluence"] = picture_layer(
            result,
            "",
            quantity=options.quantity,
            unit=options.unit,
            hide_uncertain=options.hide_uncertain,
            decades=options.decades,
        )
        if operation is not None and result.complete:
            shown = under_beam(operation, dataclasses.replace(options, beam=None) if problem else options)
            layers["fluence"][1]["metadata"][KEY][RECORD] = {**graph(shown), "output": "picture"}
    return Displayed(traced=traced, result=result, options=options, layers=layers, problem=problem, operation=operation)


def under_beam(operation: Operation, options: DisplayOptions) -> UnderBeam:
    """Return the operation of a run in layers as it is displayed."""
    return UnderBeam(
        run=operation, beam=options.beam, unit=options.unit.name, factor=options.unit.factor,
        quantity=options.quantity, hide_uncertain=options.hide_uncertain,
    )  # fmt: skip


def layered_steps(
    request: LayerRequest,
    stop: threading.Event,
    options: Callable[[], DisplayOptions],
    *,
    outdated: Callable[[], bool] | None = None,
) -> Generator[Step, None, Displayed[LayeredResult]]:
    """Simulate in layers; arguments as `voxel_steps`."""
    resume, operation = None if request.resume is None else request.resume.traced, request.operation()
    steps = simulate_layer_steps(request.medium, request.settings, device=request.device, resume=resume, stop=stop)
    return (yield from with_previews(steps, lambda result: display_layers(result, options(), operation), outdated))


# -- both -------------------------------------------------------------------------------------------------------------


def total_photons(result: LightResult | LayeredResult, photons: int) -> int:
    """Photons of a result that is continued: to its end if it was stopped, else so many more."""
    return result.launched + photons if result.complete else result.settings.photons


def display_steps(display: Callable[[], Preview]) -> Generator[Step, None, Preview]:
    """Make layers in a worker."""
    yield Step(0, 1, "drawing")
    return display()


def with_previews(
    steps: Generator[Step, None, Any],
    display: Callable[[Any], Preview],
    outdated: Callable[[], bool] | None = None,
) -> Generator[Step, None, Preview]:
    """Replace the results of a simulation by displayed ones, as often as making their layers (``display``) allows."""
    shown, cost = -math.inf, 0.0
    try:
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return display(end.value)
            made: list[tuple[Preview, float]] = []  # the preview, if it was asked for, and the seconds that it took
            if step.make_preview is None or time.monotonic() - shown <= max(PREVIEW_SECONDS, _PREVIEW_SHARE * cost):
                yield dataclasses.replace(step, make_preview=None)
                continue
            yield dataclasses.replace(step, make_preview=functools.partial(_make_displayed, step, display, made))
            if made:
                (preview, cost), shown = made[0], time.monotonic()
                if outdated is not None and outdated():
                    return preview
    finally:
        steps.close()


def _make_displayed(step: Step, display: Callable[[Any], Preview], made: list[tuple[Preview, float]]) -> Preview | None:
    """Make the layers of what a step has so far."""
    begun = time.monotonic()
    if step.preview is None:
        return None
    preview = display(step.preview)
    made.append((preview, time.monotonic() - begun))
    return preview


# -- sensitivity ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SensitivityMap:
    """The sensitivity to one detector as a layer, with the source's result that it belongs to."""

    source_run: LightResult
    detector: str
    sensitivity: Sensitivity
    layer: LayerData


def adjoint_source(result: LightResult, detector: Detector) -> Source:
    """Return the source at a detector's place: a pencil along the inward normal."""
    domain = result.domain
    normal = inward_normal(domain.labels, domain.affine, detector.position_mm)
    return Pencil(position_mm=detector.position_mm, direction=vector(normal))


def sensitivity_steps(
    result: LightResult, detector: Detector, name: str, device: str, stop: threading.Event, options: DisplayOptions
) -> Generator[Step, None, SensitivityMap]:
    """Simulate light from a detector with as many photons as a result has, and combine both.

    `InvalidInput` at once if the scattering is not reciprocal.
    """
    check_same(result.domain, result.domain)  # or it would be refused after all photons of the detector
    # other photons than the source's, because the errors of both runs are taken as independent
    seed = (result.settings.seed + 1) % 2**64
    settings = dataclasses.replace(result.settings, photons=result.launched, seed=seed, halves=False, exit_map=False)
    steps = simulate_steps(result.domain, adjoint_source(result, detector), settings, device=device, stop=stop)
    try:
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                found = combine(result, end.value)
                return SensitivityMap(result, name, found, sensitivity_layer(found, name, options))
            yield dataclasses.replace(step, message=f"photons from {name}", make_preview=None)
    finally:
        steps.close()


def sensitivity_layer(found: Sensitivity, name: str, options: DisplayOptions) -> LayerData:
    """Return the image layer of log10 of a sensitivity's size, mm; voxels without light are NaN."""
    values = -(found.masked_mm(MOST_ERROR) if options.hide_uncertain else found.jacobian_mm)
    shown = np.full(values.shape, np.nan, np.float32)
    np.log10(values, out=shown, where=values > 0)
    metadata = quantity_metadata(Quantity("sensitivity", "mm", "log10"))
    return volume_layer(
        shown,
        found.domain.affine,
        log_name("", f"sensitivity to {name}", "mm"),
        metadata=metadata,
        contrast_limits=decade_limits(shown, options.decades),
    )
