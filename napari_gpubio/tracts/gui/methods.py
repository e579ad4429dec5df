"""The forms of directions and tracking: only the methods of what is tracked in, and the directions that they take."""

from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.parameters import replaced
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
_USUAL_IN_TENSORS = TrackSettings()
_IN_FODS = Directions(kind="fod", count=10)
_IN_FIXELS = Directions(count=10, cone_half_angle_deg=10.0)
_STEP = 0.2  # voxels, in tensors


class MethodForms(QObject):
    """Two forms that follow what is tracked in, and each other."""

    changed = Signal()

    def __init__(
        self, parent: Any, directions: Directions = _IN_TENSORS, tracking: TrackSettings = _USUAL_IN_TENSORS
    ) -> None:
        super().__init__(parent)
        self._in_tensors = directions, tracking
        self.directions = ParamForm(directions, parent=parent)
        self.tracking = ParamForm(tracking, parent=parent)
        self._source: Trackable | None = None
        self._edge = 0.0  # of the voxels that the step was chosen for
        self.offer(None)
        self.tracking.widget("method").changed.connect(self._on_method)
        for form in (self.directions, self.tracking):
            form.changed.connect(self._on_change)

    def launched(self) -> Directions:
        """Return the directions as the form shows them; EuDX has the principal one."""
        directions: Directions = self.directions.value()
        return replaced(directions, kind="principal") if self._is_eudx else directions

    @property
    def _is_eudx(self) -> bool:
        return bool(self.tracking.widget("method").value == "eudx")

    def offer(self, source: Trackable | None) -> None:
        """List the methods of what is tracked in; with those of FODs and fixels come their usual steps and lengths."""
        self._source = source
        box, (methods, directions) = self.tracking.widget("method"), self._methods_in(source)
        if tuple(box.choices) != methods:
            box.choices = methods
            if methods is TENSOR_METHODS:
                self.tracking.set_value(self._in_tensors[1])
            self.directions.set_value(directions)
            self._edge = 0.0
        if source is not None:
            edge = float(voxel_sizes_mm(source.affine).min())
            if edge != self._edge:  # another grid; on the same one the user's own step stays
                self._edge = edge
                self._on_method(box.value)
                if methods is TENSOR_METHODS:
                    self.tracking.widget("step_mm").value = max(round(_STEP * edge, 2), 0.01)
        self._show_fitting_rows()

    def _on_method(self, method: str) -> None:
        """Show the usual settings of a method of FODs or fixels."""
        if isinstance(self._source, FodField | FixelField) and method not in TENSOR_METHODS:
            self.tracking.set_value(TrackSettings.usual(method, voxel_sizes_mm(self._source.affine)))

    def _on_change(self) -> None:
        self._show_fitting_rows()
        self.changed.emit()

    def _show_fitting_rows(self) -> None:
        """Show only what matters of the directions, of which EuDX has one and others are drawn, and their seed."""
        is_free = not self._is_eudx
        is_chosen = is_free and self.tracking.widget("method").value not in FOD_METHODS
        for name, visible in (("kind", is_chosen), ("count", is_free), ("cone_half_angle_deg", is_free)):
            self.directions.set_row_visible(name, visible=visible)
        is_drawn = not is_chosen or self.directions.widget("kind").value == "fod"
        self.tracking.set_row_visible("random_seed", visible=is_drawn)

    def _methods_in(self, source: Trackable | None) -> tuple[tuple[str, ...], Directions]:
        """The methods for what is tracked in, and the directions to begin with."""
        if isinstance(source, FodField):
            return FOD_METHODS + LIFTED_METHODS, _IN_FODS
        if isinstance(source, FixelField):
            return FIXEL_METHODS, _IN_FIXELS
        return TENSOR_METHODS, self._in_tensors[0]
