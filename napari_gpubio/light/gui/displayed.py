"""Results with their layers, made in a worker, with the operations that made them; and previews of a run."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, TypeVar

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, LayerData
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import keep_shown
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.operations.volumes import LogOf
from napari_gpubio.core.parameters import param
from napari_gpubio.core.steps import Step
from napari_gpubio.layered.beams import AnyBeam, convolved
from napari_gpubio.layered.napari_io import picture_layer
from napari_gpubio.layered.operations import UnderBeam
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.light.napari_io import error_layer, fluence_layer
from napari_gpubio.light.operations import Fluence
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.estimates import PER_PHOTON, FluenceUnit
from napari_gpubio.optics.pictures import DECADES

PREVIEW_SECONDS = 0.2  # between two previews of a run
_PREVIEW_SHARE = 4.0  # and at least so many times as long as it takes to make one
Result = TypeVar("Result")
Preview = TypeVar("Preview")
MadeBy = Operation | Callable[[], Operation] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DisplaySettings:
    """How a result is displayed: what a form sets; ``show_error`` of voxels only, ``quantity`` of layers only."""

    decades: int = param(
        DECADES, "Colors", "Powers of ten that the colors span, down from the brightest voxel or bin.", unit="decades",
        minimum=1, maximum=15,
    )  # fmt: skip
    hide_uncertain: bool = param(
        False, "Hide error > 50 %", "Standard error relative to the value, from the spread between photon batches."
    )
    show_error: bool = param(False, "Error as a layer", "Relative standard error, in percent.")
    quantity: str = param(
        "fluence", "Show", "Fluence, or absorbed energy per volume; fluence is undefined where nothing absorbs.",
        choices=("fluence", "absorbed"),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class DisplayOptions(DisplaySettings):
    """How a result is displayed, in a unit; ``beam``: what the response to a pencil beam is convolved with (layers)."""

    unit: FluenceUnit = PER_PHOTON
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
    made_by: MadeBy = None  # what makes ``traced``, or finds it, where that takes too long for a quick run
    inputs: Any = None  # what the panel described when it was made, if it was
    is_quick: bool = False

    @property
    def operation(self) -> Operation | None:
        """The operation that makes what was traced, if it is known; it may have to be found."""
        return self.made_by() if callable(self.made_by) else self.made_by


def display_voxels(result: LightResult, options: DisplayOptions, made_by: MadeBy = None) -> Displayed[LightResult]:
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
    if isinstance(made_by, Operation) and result.complete:
        shown = LogOf(volume=fluence_of(made_by, result.settings.gate_count, options))
        keep_shown(fluence, shown.output(), kind_of_device(result))
    return Displayed(traced=result, result=result, options=options, layers=layers, made_by=made_by)


def fluence_of(operation: Operation, gates: int, options: DisplayOptions) -> Fluence:
    """Return the operation of a fluence as it is displayed."""
    return Fluence(run=operation, gates=gates > 1, **_shared(options))


def display_layers(traced: LayeredResult, options: DisplayOptions, made_by: MadeBy = None) -> Displayed[LayeredResult]:
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
        if isinstance(made_by, Operation) and result.complete:
            shown = under_beam(made_by, dataclasses.replace(options, beam=None) if problem else options)
            layers["fluence"][1]["metadata"][KEY][RECORD] = record_of_output(shown.output("picture"))
            STORE.keep(shown, kind_of_device(result), shown.view_of(result))
    return Displayed(traced=traced, result=result, options=options, layers=layers, problem=problem, made_by=made_by)


def kind_of_device(result: LightResult | LayeredResult) -> str:
    """Return the kind of device that a result was made on."""
    return "cpu" if str(result.parameters.get("device", "cpu")).startswith("cpu") else "cuda"


def under_beam(operation: Operation, options: DisplayOptions) -> UnderBeam:
    """Return the operation of a run in layers as it is displayed."""
    return UnderBeam(run=operation, beam=options.beam, quantity=options.quantity, **_shared(options))


def _shared(options: DisplayOptions) -> dict[str, Any]:
    """What both have."""
    return {"unit": options.unit.name, "factor": options.unit.factor, "hide_uncertain": options.hide_uncertain}


def with_previews(
    steps: Generator[Step, None, Any],
    display: Callable[[Any], Preview],
    outdated: Callable[[], bool] | None = None,
) -> Generator[Step, None, Preview]:
    """Replace the results of a simulation by displayed ones, as often as making their layers (``display``) allows.

    ``outdated`` tells whether a newer run waits; this one then ends with its first preview.
    """
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
