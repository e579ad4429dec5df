"""Buttons that join engines: the actions that panels offer on their results."""

import os
import threading
from collections.abc import Generator
from typing import Any

from napari_gpubio.core import warmup
from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, LayerData, carried
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.actions import FLUENCE, MADE_OF, ResultAction, ResultContext
from napari_gpubio.gui.processors import DISABLED
from napari_gpubio.light.gui.views import SENSITIVITY_STYLE, fading
from napari_gpubio.workflows.fluence import clean_fluence_steps, cleaned_layer

_PLUGIN, _DOSE = "napari-gpubio", "Dose-volume histogram"
_STYLE = SENSITIVITY_STYLE | {"colormap": fading("inferno")}
_WITHOUT_HALVES = (
    "Cleaned with the standard error alone. Check Half buffers among the settings of the run and press Run again: two "
    "halves of the photons are cleaned better."
)


# -- clean ------------------------------------------------------------------------------------------------------------


def clean(context: ResultContext) -> None:
    """Clean the fluence of a result, and show it in a layer above."""
    context.panel.run_other(lambda stop: _cleaning_steps(context, stop), lambda made: _show_cleaned(context, made))


def _cleaning_steps(context: ResultContext, stop: threading.Event) -> Generator[Step, None, LayerData]:
    result, options, device = context.result, context.options, context.panel.device
    yield from _warm_up_steps("denoise", device)
    cleaned = yield from clean_fluence_steps(result, device=device, stop=stop)
    return cleaned_layer(result, cleaned, unit=options.unit, decades=options.decades)


def _warm_up_steps(engine: str, device: str) -> Generator[Step, None, None]:
    """Compile the CPU backend of an engine in a process of its own, once for a machine."""
    is_cpu = choose_device(device).kind == "cpu"
    if is_cpu and os.environ.get(DISABLED) != "1" and not warmup.is_warm(engine):
        yield Step(0, 1, f"preparing the CPU engine ({engine}), once for this machine;")
        warmup.warm_engines((engine,), lambda *_: None)


def _show_cleaned(context: ResultContext, made: LayerData) -> None:
    """Show the cleaned fluence in place of that of an older run; what was displayed is hidden below it."""
    viewer, (data, keywords, _) = context.panel.viewer, made
    before = _cleaned_of(viewer, None)
    if before is not None:
        viewer.layers.remove(before.name)
    active, below = viewer.layers.selection.active, context.layers.get("fluence")
    layer = viewer.add_image(data, **{**keywords, **_STYLE})
    if below is not None and below in viewer.layers:  # and not above the source and the detectors
        viewer.layers.move(viewer.layers.index(layer), viewer.layers.index(below) + 1)
    if active is not None and active in viewer.layers:
        viewer.layers.selection.active = active
    layer.metadata[KEY][MADE_OF] = context.result
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
    viewer = context.panel.viewer
    fluence = _cleaned_of(viewer, context.result) or context.layers.get("fluence")
    labels = context.layers.get("labels")
    if fluence is None or labels is None:
        gone = "fluence" if fluence is None else "labels"
        raise InvalidInput(f"the layer of the {gone} was removed; press Run again")
    if hidden := carried(fluence, "hidden"):
        raise InvalidInput(
            f"{hidden} are hidden in {fluence.name!r} and would count as no light; uncheck 'hide uncertain' first"
        )
    _, panel = viewer.window.add_plugin_dock_widget(_PLUGIN, _DOSE, tabify=True)
    panel.inputs_box.dose_box.choose(fluence)
    if panel.inputs_box.dose_box.layer != fluence:
        raise InvalidInput(f"{fluence.name!r} is not offered as a dose; choose a dose in the panel {_DOSE!r}")
    panel.inputs_box.structures.choose(labels)
    panel.run()


ACTIONS = (
    ResultAction(
        kind=FLUENCE,
        text="Clean",
        tip="Denoise the fluence; halves, labels and optical properties of the run are used",
        start=clean,
    ),
    ResultAction(
        kind=FLUENCE,
        text="Dose by region",
        tip="Open histograms of the fluence (the cleaned one, if there is one) in every label, and count them",
        start=dose_by_region,
    ),
)
