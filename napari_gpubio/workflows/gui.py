"""Buttons that join engines: the actions that panels offer on their results."""

import threading
from collections.abc import Generator
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, LayerData, carried
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.dose.gui.histograms import frame_at
from napari_gpubio.gui.actions import FLUENCE, MADE_OF, ResultAction, ResultContext, ScriptStep
from napari_gpubio.light.gui.views import SENSITIVITY_STYLE, fading
from napari_gpubio.workflows.fluence import clean_fluence_steps, cleaned_layer

_IN_PART = "in_part"  # under which a cleaned layer says that Clean was stopped
_PLUGIN, _DOSE = "napari-gpubio", "Dose-volume histogram"
_STYLE = SENSITIVITY_STYLE | {"colormap": fading("inferno")}
_WITHOUT_HALVES = (
    "Cleaned with the standard error alone. Two halves of the photons are cleaned better: check Half buffers in the "
    "settings of the run, then press Run and Clean again."
)


# -- clean ------------------------------------------------------------------------------------------------------------


def clean(context: ResultContext) -> None:
    """Clean the fluence of a result, and show it in a layer above."""
    context.panel.run_other(
        lambda stop: _cleaning_steps(context, stop), lambda made: _show_cleaned(context, made), warms=("denoise",)
    )


def _cleaning_steps(
    context: ResultContext, stop: threading.Event
) -> Generator[Step, None, tuple[LayerData, ScriptStep | None]]:
    result, options, device = context.result, context.options, context.panel.device
    cleaned = yield from clean_fluence_steps(result, device=device, stop=stop)
    layer = cleaned_layer(result, cleaned, unit=options.unit, decades=options.decades)
    return layer, _cleaning_code(context, device) if cleaned.complete else None


def _cleaning_code(context: ResultContext, device: str) -> ScriptStep:
    """Code that writes the cleaned fluence with the bits of its layer, named ``layer`` for what follows."""
    return ScriptStep(
        ("from napari_gpubio import workflows", "from napari_gpubio.core.layer_files import write_image"),
        (
            f"cleaned = workflows.clean_fluence(result, device={device!r})",
            f"layer = workflows.cleaned_layer(result, cleaned, unit={_unit_code(context)})",
            f"write_image({_file_beside(context, 'cleaned.nii.gz')!r}, *layer[:2])",
        ),
    )


def _file_beside(context: ResultContext, ending: str) -> str:
    """Name of a file that a script writes, after the labels."""
    labels = context.layers.get("labels")
    return f"{file_name('light' if labels is None else labels.name)} {ending}"


def _unit_code(context: ResultContext) -> str:
    """Code of the unit on display, which may be another one when the script is copied."""
    unit = context.options.unit
    return f"FluenceUnit({unit.name!r}, {unit.factor!r})"


def _show_cleaned(context: ResultContext, made: tuple[LayerData, ScriptStep | None]) -> None:
    """Show the cleaned fluence in place of that of an older run; what was displayed is hidden below it."""
    viewer, ((data, keywords, _), code) = context.panel.viewer, made
    if code is None:
        context.panel.show_status("stopped; wider windows were not tried")
    else:
        context.record(code)
    before = _cleaned_of(viewer, None)
    if before is not None:
        viewer.layers.remove(before.name)
    active, below = viewer.layers.selection.active, context.layers.get("fluence")
    layer = viewer.add_image(data, **{**keywords, **_STYLE})
    if below is not None and below in viewer.layers:  # and not above the source and the detectors
        viewer.layers.move(viewer.layers.index(layer), viewer.layers.index(below) + 1)
    if active is not None and active in viewer.layers:
        viewer.layers.selection.active = active
    layer.metadata[KEY] |= {MADE_OF: context.result, _IN_PART: code is None}
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
        raise InvalidInput(f"the {gone} layer was removed; press Run again")
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
    if not carried(fluence, _IN_PART):  # which no script makes again
        context.record(_counting_code(context, fluence))


def _counting_code(context: ResultContext, counted: Any) -> ScriptStep:
    """Code that counts what a layer shows and writes the curves."""
    volume = frame_at(counted, context.panel.viewer.dims.point)
    gate = "" if volume is None else f", gate={volume}"
    shown = (
        f"light.napari_io.fluence_layer(result, '', unit={_unit_code(context)}{', gates=True' * (counted.ndim > 3)})"
    )
    own = () if carried(counted, MADE_OF) is context.result else (f"layer = {shown}",)  # else it has been cleaned
    return ScriptStep(
        ("from napari_gpubio import workflows", "from napari_gpubio.dose.io import write_curves_csv"),
        (
            *own,
            f"curves = workflows.dose_by_region(result, layer{gate}, device={context.panel.device!r})",
            f"write_curves_csv({_file_beside(context, 'curves.csv')!r}, curves)",
        ),
    )


ACTIONS = (
    ResultAction(
        kind=FLUENCE,
        text="Clean",
        tip="Denoise the fluence with the half buffers, labels, and optical properties of its run",
        start=clean,
    ),
    ResultAction(
        kind=FLUENCE,
        text="Dose by region",
        tip="Open the dose panel and make histograms of the fluence, cleaned if it has been, for every label",
        start=dose_by_region,
    ),
)
