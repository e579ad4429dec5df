"""The forms of directions and tracking: only the methods of what is tracked in, and only the inputs that matter."""

import dataclasses
from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.tracts.fods.model import FixelField, FodField
from napari_gpubio.tracts.gui.source import Trackable
from napari_gpubio.tracts.settings import (
    FIXEL_METHODS,
    FOD_METHODS,
    LIFTED_METHODS,
    TENSOR_METHODS,
    Directions,
    TrackSettings,
)

_IN_TENSORS = Directions(count=10, cone_half_angle_deg=15.0)
_IN_FODS = Directions(kind="fod", count=10)
_IN_FIXELS = Directions(count=10, cone_half_angle_deg=10.0)
_STEP = 0.2  # voxels, in tensors


class MethodForms(QObject):
    """Two forms that follow what is tracked in, and each other."""

    changed = Signal()

    def __init__(self, parent: Any) -> None:
        super().__init__(parent)
        self.directions = ParamForm(_IN_TENSORS, parent=parent)
        self.tracking = ParamForm(TrackSettings(), parent=parent)
        self._source: Trackable | None = None
        self._edge = 0.0  # of the voxels that the step was chosen for
        self.offer(None)
        self.tracking.widget("method").changed.connect(self._on_method)
        for form in (self.directions, self.tracking):
            form.changed.connect(self._on_change)

    def offer(self, source: Trackable | None) -> None:
        """List the methods of what is tracked in; with those of FODs and fixels come their usual steps and lengths."""
        self._source = source
        box, (methods, directions) = self.tracking.widget("method"), _methods_in(source)
        if tuple(box.choices) != methods:
            box.choices = methods
            if methods is TENSOR_METHODS:
                self.tracking.set_value(TrackSettings())
            self.directions.set_value(directions)
            self._edge = 0.0
        if source is not None:
            edge = float(voxel_sizes_mm(source.affine).min())
            if edge != self._edge:  # another grid; on the same one the user's own step stays
                self._edge = edge
                self._on_method(box.value)
                if methods is TENSOR_METHODS:
                    self.tracking.widget("step_mm").value = max(round(_STEP * edge, 2), 0.01)
        self.show_fitting_rows()

    def _on_method(self, method: str) -> None:
        """Show the usual settings of a method of FODs or fixels."""
        if isinstance(self._source, FodField | FixelField) and method not in TENSOR_METHODS:
            self.tracking.set_value(TrackSettings.usual(method, voxel_sizes_mm(self._source.affine)))

    def _on_change(self) -> None:
        self.show_fitting_rows()
        self.changed.emit()

    def show_fitting_rows(self) -> None:
        """Show only the inputs that matter for the chosen method and directions."""
        form, method = self.tracking, self.tracking.widget("method").value
        in_tensors, drawn = method in TENSOR_METHODS, method in FOD_METHODS
        geodesic = method in ("hamiltonian", "vanaart2011")
        for name, visible in (
            ("metric", geodesic),
            ("sharpening", geodesic and form.widget("metric").value == "sharpened"),
            ("max_drift", not drawn and method != "eudx"),
            ("interpolation", method == "hamiltonian"),
            ("texture", method == "vanaart2011"),
            ("corner_angle_deg", method == "eudx"),
            ("corner_weight", method == "eudx"),
            *((name, in_tensors) for name in ("integrator", "fa_stop")),
            ("min_radius_mm", not drawn),
            *((f"eigenvalue_{end}_mm2_per_s", in_tensors) for end in ("floor", "ceiling")),
            ("fod_stop", not in_tensors),
            *((name, drawn) for name in ("max_angle_deg", "random_seed", "trials")),
            *((name, method in FIXEL_METHODS) for name in _named("fixel_")),
            *((name, method in LIFTED_METHODS) for name in _named("lifted_")),
        ):
            form.set_row_visible(name, visible=visible)
        kind = self.directions.widget("kind").value if method != "eudx" else "principal"
        self.directions.set_row_visible("kind", visible=not drawn and method != "eudx")
        self.directions.set_row_visible("count", visible=kind != "principal" or drawn)
        self.directions.set_row_visible("cone_half_angle_deg", visible=kind == "cone" and not drawn)


def _methods_in(source: Trackable | None) -> tuple[tuple[str, ...], Directions]:
    """The methods for what is tracked in, and the directions to begin with."""
    if isinstance(source, FodField):
        return FOD_METHODS + LIFTED_METHODS, _IN_FODS
    return (FIXEL_METHODS, _IN_FIXELS) if isinstance(source, FixelField) else (TENSOR_METHODS, _IN_TENSORS)


def _named(prefix: str) -> list[str]:
    return [field.name for field in dataclasses.fields(TrackSettings) if field.name.startswith(prefix)]
