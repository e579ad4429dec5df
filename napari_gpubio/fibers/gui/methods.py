"""The forms of directions and tracking: only the methods of what is tracked in, and the directions that they take."""

import contextlib
from dataclasses import dataclass
from typing import Any

from qtpy.QtCore import QObject, QSignalBlocker, Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.settings import Settings, field_names, kind_of, part
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.gui.source import Trackable
from napari_gpubio.fibers.directions import Cone, Directions, Fan, FromFod
from napari_gpubio.fibers.settings import (
    IFOD2,
    AmplitudeMethod,
    FixelGeodesic,
    Hamiltonian,
    InFods,
    InTensors,
    Method,
)
from napari_gpubio.gui.forms import ParamForm, fill_column

_IN_TENSORS = Cone(count=10, half_angle_deg=15.0)
_TENSOR_STEP_VOXELS = 0.2
_HELP = "How fibers are traced."


@dataclass(frozen=True, kw_only=True)
class _Directions(Settings):
    directions: Directions = part("Directions", "In which directions fibers leave a seed.", default=_IN_TENSORS)


@dataclass(frozen=True, kw_only=True)
class _InTensors(Settings):
    method: InTensors = part(
        "Method", f"{_HELP} Geodesics, or classic streamlines along the principal direction.", default=Hamiltonian()
    )


@dataclass(frozen=True, kw_only=True)
class _InFods(Settings):
    method: InFods = part(
        "Method", f"{_HELP} Probabilistic or deterministic streamlines, or geodesics, which leave bundles early.",
        default=IFOD2(),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _InFixels(Settings):
    method: FixelGeodesic = part("Method", f"{_HELP} Geodesics in the metric of the fixels.", default=FixelGeodesic())


class ChoiceForm(QWidget):
    """Settings of one of several classes; the classes to choose from are those of one of several sets.

    Parameters
    ----------
    sets
        By name, settings with one field, of the same name in all, whose type tells the classes.
    """

    changed = Signal()

    def __init__(self, sets: dict[str, Any], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._forms = {name: ParamForm(one, parent=self) for name, one in sets.items()}
        self._holders = {name: type(one) for name, one in sets.items()}
        self._name, first = next(iter(sets.items()))
        (self._field,) = field_names(type(first))
        fill_column(self, *self._forms.values())
        for form in self._forms.values():
            form.changed.connect(self.changed)
        self.offer(self._name)

    @property
    def offered(self) -> str:
        """Name of the set."""
        return self._name

    def offer(self, name: str) -> None:
        """Show the form of a set."""
        self._name = name
        for other, form in self._forms.items():
            form.setVisible(other == name)

    def value(self) -> Any:
        """Return the settings; InvalidInput if they are refused."""
        return getattr(self._forms[self._name].value(), self._field)

    def set_value(self, settings: Any) -> None:
        """Show settings, which are of a class of the set."""
        self._forms[self._name].set_value(self._holders[self._name](**{self._field: settings}))

    def widget(self, name: str) -> Any:
        """The input of a setting, or of the choice."""
        return self._forms[self._name].widget(name)

    def set_row_visible(self, name: str, *, visible: bool) -> None:
        """Hide a row, or show it again."""
        self._forms[self._name].set_row_visible(name, visible=visible)


class MethodForms(QObject):
    """Two forms that follow what is tracked in, and each other."""

    changed = Signal()

    def __init__(self, parent: Any, directions: Directions = _IN_TENSORS, tracking: InTensors | None = None) -> None:
        super().__init__(parent)
        in_tensors = _InTensors(method=tracking or Hamiltonian())
        self.directions = ChoiceForm({"": _Directions(directions=directions)}, parent)
        self.tracking = ChoiceForm({"tensors": in_tensors, "FODs": _InFods(), "fixels": _InFixels()}, parent)
        self._usual: dict[str, Directions] = {
            "tensors": directions,
            "FODs": FromFod(count=10),
            "fixels": Cone(count=10, half_angle_deg=10.0),
        }
        self._kept: dict[tuple[str, tuple[type[Fan], ...]], Directions] = {}  # for what takes the same ones
        self._place: tuple[str, tuple[type[Fan], ...]] | None = None
        self._edge = 0.0  # of the voxels that the step was chosen for
        self._shown: type[Method] | None = None
        for form in (self.directions, self.tracking):
            form.changed.connect(self._on_change)
        self._follow_method()

    def launched(self) -> Directions:
        """Return the directions as the form shows them."""
        directions: Directions = self.directions.value()
        return directions

    def show(self, directions: Directions, tracking: Method) -> None:
        """Show settings that fibers were traced with."""
        self._shown = type(tracking)
        self.tracking.offer(tracking.works_in)
        self.tracking.set_value(tracking)
        self.directions.set_value(tracking.directions(directions))

    def offer(self, source: Trackable | None) -> None:
        """List the methods of what is tracked in; in tensors the step follows the voxels. Nobody has edited these."""
        what = "FODs" if isinstance(source, FodField) else "fixels" if isinstance(source, FixelField) else "tensors"
        with QSignalBlocker(self):
            if what != self.tracking.offered:
                self.tracking.offer(what)
                self._edge = 0.0
            if source is not None and what == "tensors":
                edge = float(voxel_sizes_mm(source.affine).min())
                if edge != self._edge:  # another grid; on the same one the user's own step stays
                    self._edge = edge
                    self.tracking.widget("step_mm").value = max(round(_TENSOR_STEP_VOXELS * edge, 2), 0.01)
            self._follow_method()

    def _on_change(self) -> None:
        with contextlib.suppress(InvalidInput):  # what the form holds may be no settings; a run says why
            self._follow_method()
        self.changed.emit()

    def _follow_method(self) -> None:
        """Offer the directions that the method takes, and hide the seed of random numbers that nothing draws."""
        method = self.tracking.value()
        if type(method) is not self._shown:
            self._shown = type(method)
            if isinstance(method, AmplitudeMethod):  # with its own usual numbers
                method = self._shown()
                with QSignalBlocker(self.tracking):
                    self.tracking.set_value(method)
        place = method.works_in, method.takes
        if place != self._place:
            box = self.directions.widget("directions")
            if self._place is not None:
                self._kept[self._place] = self.directions.value()
            self._place = place
            with box.changed.blocked():
                box.choices = []  # it would keep those that are among the new ones in front
                box.choices = [kind_of(one) for one in method.takes]
            self.directions.set_value(self._kept.get(place) or method.directions(None, self._usual[method.works_in]))
        if isinstance(method, AmplitudeMethod):
            self.tracking.set_row_visible("random_seed", visible=method.draws_in(self.launched()))
