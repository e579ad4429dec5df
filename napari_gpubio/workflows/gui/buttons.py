"""Buttons that join engines: the actions that panels offer on their results."""

import threading
from collections.abc import Generator
from functools import partial
from typing import Any

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, LayerData, carried, volume_layer
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.operations.volumes import LogOf, Volume, log10_volume
from napari_gpubio.core.quantity import quantity_metadata
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.gui.actions import MADE_OF, ResultAction, ResultContext
from napari_gpubio.gui.switcher import open_panel
from napari_gpubio.light.gui.displayed import fluence_of, kind_of_device
from napari_gpubio.light.gui.views import SENSITIVITY_STYLE, fading
from napari_gpubio.light.guide import guided_steps
from napari_gpubio.light.napari_io import label_properties
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.pictures import decade_limits, log_name
from napari_gpubio.workflows.fluence import clean_volume_steps
from napari_gpubio.workflows.operations import CleanFluence

_DOSE = "Dose-volume histogram"
_STYLE = SENSITIVITY_STYLE | {"colormap": fading("inferno")}
_WITHOUT_HALVES = (
    "Cleaned with the standard error alone. Two halves of the photons are cleaned better: check Half buffers in the "
    "settings of the run, then press Run and Clean again."
)


_Cleaned = tuple[LayerData, CleanFluence | None] | None  # a layer, and what made it if that was not stopped


def _run_steps(context: ResultContext) -> Generator[Step, None, Operation | None]:
    """The operation of a result, which is kept for what is made of it; None of a result that was stopped."""
    operation = context.operation() if context.result.complete else None
    device = _device(context)
    if operation is not None and STORE.result(operation, device.kind) is None:  # as after a quick run
        STORE.keep(operation, device.kind, (yield from guided_steps(_made(context.result), device=device)))
    return operation


def _device(context: ResultContext) -> Device:
    """The device that is chosen, if it is of the kind that the result was made on, which else would be made again."""
    chosen, kind = choose_device(context.panel.device), kind_of_device(context.result)
    return chosen if chosen.kind == kind else choose_device(kind)


def _made(result: LightResult) -> Generator[Step, None, LightResult]:
    """A simulation that has been done."""
    yield Step(0, 1, "reading the result")
    return result


def _file_beside(context: ResultContext, ending: str) -> str:
    """Name of a file that a script writes, after the labels."""
    labels = context.layers.get("labels")
    return f"{file_name('light' if labels is None else labels.name)} {ending}"


# -- clean ------------------------------------------------------------------------------------------------------------


def clean(context: ResultContext) -> None:
    """Clean the fluence of a result, and show it in a layer above."""
    context.panel.run_other(
        partial(_cleaning_steps, context), partial(_show_cleaned, context), warms=("denoise/fluence",)
    )


def _cleaning_steps(context: ResultContext, stop: threading.Event) -> Generator[Step, None, _Cleaned]:
    unit, device, run = context.options.unit, _device(context), (yield from _run_steps(context))
    operation = None if run is None else CleanFluence(run=run, unit=unit.name, factor=unit.factor)
    if operation is None:
        made = yield from clean_volume_steps(context.result, unit=unit, device=device, stop=stop)
    else:
        made = yield from run_steps(operation, device=device, stop=stop)
    if made is None:
        return None
    operation = operation if made.complete else None
    shown = None if operation is None else LogOf(volume=operation)
    volume = log10_volume(made.cleaned) if shown is None else (yield from run_steps(shown, device=device))
    error = None if context.result.half_fluences is None else made.noise.array
    return _layer_of(context, volume, error, shown), operation


def _layer_of(context: ResultContext, volume: Volume, error: Any, shown: LogOf | None) -> LayerData:
    assert volume.quantity is not None
    metadata = {**quantity_metadata(volume.quantity, standard_error=error), **label_properties(context.result.domain)}
    metadata |= {MADE_OF: context.result} | ({} if shown is None else {RECORD: record_of_output(shown.output())})
    limits = decade_limits(volume.array, context.options.decades)
    name = log_name("cleaned", volume.quantity.name, volume.quantity.unit)
    return volume_layer(volume.array, volume.affine, name, metadata=metadata, contrast_limits=limits, **_STYLE)


def _show_cleaned(context: ResultContext, made: _Cleaned) -> None:
    """Show the cleaned fluence in place of that of an older run; what was displayed is hidden below it."""
    if made is None:
        context.panel.show_status("stopped")
        return
    viewer, ((data, keywords, _), operation) = context.panel.viewer, made
    if operation is None:
        context.panel.show_status("stopped; wider windows were not tried")
    else:
        context.record(_file_beside(context, "cleaned.nii.gz"), operation.output)
    before = _cleaned_of(viewer, None)
    if before is not None:
        viewer.layers.remove(before.name)
    active, below = viewer.layers.selection.active, context.layers.get("fluence")
    layer = viewer.add_image(data, **keywords)
    if below is not None and below in viewer.layers:  # and not above the source and the detectors
        viewer.layers.move(viewer.layers.index(layer), viewer.layers.index(below) + 1)
    if active is not None and active in viewer.layers:
        viewer.layers.selection.active = active
    context.set_aside()
    if context.result.half_fluences is None:
        context.panel.show_note(_WITHOUT_HALVES)


def _cleaned_of(viewer: Any, result: Any | None) -> Any | None:
    """The layer of a cleaned fluence: of a result, or of any."""
    for layer in reversed(viewer.layers):
        made_of = carried(layer, MADE_OF)
        if made_of is not None and (result is None or made_of is result):
            return layer
    return None


# -- dose by region ---------------------------------------------------------------------------------------------------


def dose_by_region(context: ResultContext) -> None:
    """Open the panel of histograms with the fluence, cleaned if it was, and the labels of a result, and run it.

    Raises
    ------
    InvalidInput
        If a layer is gone, or voxels of the fluence are hidden.
    """
    cleaned = _cleaned_of(context.panel.viewer, context.result)
    fluence, labels = cleaned or context.layers.get("fluence"), context.layers.get("labels")
    if fluence is None or labels is None:
        gone = "fluence" if fluence is None else "labels"
        raise InvalidInput(f"the {gone} layer was removed; press Run again")
    if hidden := carried(fluence, "hidden"):
        raise InvalidInput(
            f"{hidden} are hidden in {fluence.name!r} and would count as no light; uncheck 'hide uncertain' first"
        )
    is_known = cleaned is not None or record_of(fluence) is not None
    if is_known or context.panel.running or not context.result.complete:
        _count(context, fluence, labels)
    else:
        context.panel.run_other(lambda _: _shown_steps(context), partial(_count_shown, context, fluence, labels))


def _shown_steps(context: ResultContext) -> Generator[Step, None, LogOf | None]:
    """What makes what the layer of a fluence shows."""
    if (run := (yield from _run_steps(context))) is None:
        return None
    shown = LogOf(volume=fluence_of(run, context.result.settings.gate_count, context.options))
    yield from run_steps(shown, device=_device(context))
    return shown


def _count_shown(context: ResultContext, fluence: Any, labels: Any, shown: LogOf | None) -> None:
    if shown is not None:
        fluence.metadata[KEY] |= {RECORD: record_of_output(shown.output())}
    try:
        _count(context, fluence, labels)
    except InvalidInput as error:
        context.panel.show_error(str(error))


def _count(context: ResultContext, fluence: Any, labels: Any) -> None:
    panel = open_panel(context.panel.viewer, _DOSE)
    panel.inputs_box.dose_box.choose(fluence)
    if panel.inputs_box.dose_box.layer != fluence:
        raise InvalidInput(f"{fluence.name!r} is not offered as a dose; choose a dose in the panel {_DOSE!r}")
    panel.inputs_box.structures.choose(labels)
    panel.run()
    if record_of(fluence) is not None:  # else no script makes it again
        context.record(_file_beside(context, "curves.csv"), partial(_curves_of, panel, fluence))


def _curves_of(panel: Any, fluence: Any) -> Output[Any] | None:
    """The curves that a panel shows, if they are of a layer."""
    live = panel.controller.live
    return panel.operation().output("curves") if live is not None and live.request.plans[0].layer == fluence else None


ACTIONS = (
    ResultAction(
        text="Clean",
        tip="Denoise the fluence with the half buffers, labels, and optical properties of its run",
        start=clean,
    ),
    ResultAction(
        text="Dose by region",
        tip="Open the dose panel and make histograms of the fluence, cleaned if it has been, for every label",
        start=dose_by_region,
    ),
)
