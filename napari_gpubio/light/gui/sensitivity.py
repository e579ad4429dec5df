"""Sensitivity of a measurement: the run from the detector's place, and what it gives as a layer."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np

from napari_gpubio.core.napari_io import KEY, LayerData, carried, volume_layer
from napari_gpubio.core.steps import Step
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.gui.labels import vector
from napari_gpubio.light.gui.request import DisplayOptions
from napari_gpubio.light.gui.views import fading
from napari_gpubio.light.napari_io import decade_limits, log_name
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.sensitivity import Sensitivity
from napari_gpubio.light.sensitivity import sensitivity as combine
from napari_gpubio.light.source import Source
from napari_gpubio.light.surface import inward_normal

PART = "sensitivity"


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
    return Source(position_mm=detector.position_mm, direction=vector(normal))


def sensitivity_steps(
    result: LightResult, detector: Detector, name: str, device: str, stop: threading.Event, options: DisplayOptions
) -> Generator[Step, None, SensitivityMap]:
    """Simulate light from a detector with as many photons as a result has, and combine both."""
    # other photons than the source's, because the errors of both runs are taken as independent
    settings = dataclasses.replace(
        result.settings, photons=result.launched, seed=result.settings.seed + 1, halves=False, exit_map=False
    )
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
    values = -(found.masked_mm() if options.hide_uncertain else found.jacobian_mm)
    shown = np.full(values.shape, np.nan, np.float32)
    np.log10(values, out=shown, where=values > 0)
    metadata = {"quantity": "log10 sensitivity", "unit": "mm", "panel": f"{PART} {name}"}
    return volume_layer(
        shown,
        found.domain.affine,
        log_name("", f"sensitivity to {name}", "mm"),
        metadata=metadata,
        contrast_limits=decade_limits(shown, options.decades),
        colormap=fading("viridis"),
        blending="translucent_no_depth",
        opacity=0.85,
    )


def show_sensitivity(viewer: Any, found: SensitivityMap) -> None:
    """Show a sensitivity in place of the one to the same detector."""
    data, keywords, _ = found.layer
    mark = keywords["metadata"][KEY]["panel"]
    for layer in [layer for layer in viewer.layers if carried(layer, "panel") == mark]:
        viewer.layers.remove(layer.name)
    active = viewer.layers.selection.active
    layer = viewer.add_image(data, **keywords)
    layer.colorbar.visible = True
    if active is not None and active in viewer.layers:
        viewer.layers.selection.active = active
