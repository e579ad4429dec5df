"""The forms of directions and tracking: only the methods of what is tracked in, and only the inputs that matter."""

from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.tracts.fods.model import FodField
from napari_gpubio.tracts.gui.source import Trackable
from napari_gpubio.tracts.settings import FOD_METHODS, TENSOR_METHODS, Directions, TrackSettings

_IN_TENSORS = Directions(count=10, cone_half_angle_deg=15.0)
_IN_FODS = Directions(kind="fod", count=10)
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
        """List the methods of FODs, or of tensors; with those of FODs come their usual steps and lengths."""
        self._source = source
        box, methods = self.tracking.widget("method"), FOD_METHODS if isinstance(source, FodField) else TENSOR_METHODS
        if tuple(box.choices) != methods:
            box.choices = methods
            if methods is TENSOR_METHODS:
                self.tracking.set_value(TrackSettings())
            self.directions.set_value(_IN_FODS if methods is FOD_METHODS else _IN_TENSORS)
            self._edge = 0.0
        if source is not None:
            edge = float(voxel_sizes_mm(source.affine).min())
            if edge != self._edge:  # another grid; on the same one the user's own step stays
                self._edge = edge
                if methods is FOD_METHODS:
                    self._on_method(box.value)
                else:
                    self.tracking.widget("step_mm").value = max(round(_STEP * edge, 2), 0.01)
        self.show_fitting_rows()

    def _on_method(self, method: str) -> None:
        """Show the usual settings of a method of FODs."""
        if isinstance(self._source, FodField) and method in FOD_METHODS:
            self.tracking.set_value(TrackSettings.usual(method, self._source.voxel_sizes_mm))

    def _on_change(self) -> None:
        self.show_fitting_rows()
        self.changed.emit()

    def show_fitting_rows(self) -> None:
        """Show only the inputs that matter for the chosen method and directions."""
        form, method = self.tracking, self.tracking.widget("method").value
        in_fods, geodesic = method in FOD_METHODS, method in ("hamiltonian", "vanaart2011")
        for name, visible in (
            ("metric", geodesic),
            ("sharpening", geodesic and form.widget("metric").value == "sharpened"),
            ("max_drift", geodesic),
            ("interpolation", method == "hamiltonian"),
            ("texture", method == "vanaart2011"),
            ("corner_angle_deg", method == "eudx"),
            ("corner_weight", method == "eudx"),
            *((name, not in_fods) for name in ("integrator", "fa_stop", "min_radius_mm")),
            *((f"eigenvalue_{end}_mm2_per_s", not in_fods) for end in ("floor", "ceiling")),
            *((name, in_fods) for name in ("fod_stop", "max_angle_deg", "random_seed", "trials")),
        ):
            form.set_row_visible(name, visible=visible)
        kind = self.directions.widget("kind").value if method != "eudx" else "principal"
        self.directions.set_row_visible("kind", visible=geodesic)
        self.directions.set_row_visible("count", visible=kind != "principal" or in_fods)
        self.directions.set_row_visible("cone_half_angle_deg", visible=kind == "cone" and geodesic)
