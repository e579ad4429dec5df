"""What a connectome is made of: fibers of a layer, or geodesics that are shot through tensors."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtWidgets import QFormLayout, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.forms import Folded, ParamForm
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.script import call_text
from napari_gpubio.tracts.connectome import (
    Connectome,
    ConnectomeSettings,
    GeodesicSettings,
    connectome_steps,
    geodesic_connectome_steps,
)
from napari_gpubio.tracts.connectome.geodesic import FAN, TRACKING
from napari_gpubio.tracts.directions import Directions
from napari_gpubio.tracts.fods.model import FodField
from napari_gpubio.tracts.gui.fibers import NO_FIBERS, fibers_of, pack_fibers, why_no_fibers
from napari_gpubio.tracts.gui.methods import MethodForms
from napari_gpubio.tracts.gui.script import Recipe, checked, fiber_lines, source_recipe
from napari_gpubio.tracts.gui.source import (
    HINT,
    NO_TENSORS,
    Source,
    fods_beside,
    source_of,
    tensor_steps,
    why_no_source,
)
from napari_gpubio.tracts.layer_regions import atlas_of
from napari_gpubio.tracts.model import TensorField, Tractogram
from napari_gpubio.tracts.regions import Atlas
from napari_gpubio.tracts.settings import InTensors

Code = Callable[[Iterable[Any]], list[str]]


@dataclasses.dataclass(slots=True, eq=False)
class Counted:
    """Result of a run.

    Parameters
    ----------
    labels
        The layer of the atlas.
    fibers
        Those that can be shown.
    index
        Their indices in the connectome, shape (F,).
    found
        The connectome.
    code
        Given all layers of the viewer, returns the lines of a script that make ``found``, ``fibers`` and ``layer``
        from ``atlas``.
    layer
        That of the fibers; None until it is made.
    lines
        The fibers for a layer that is to be made.
    fitted
        Tensors that were fitted on the way, and the layer of their scan.
    """

    labels: Any
    fibers: Tractogram
    index: npt.NDArray[np.int64]
    found: Connectome
    code: Code
    layer: Any = None
    lines: Lines | None = None
    fitted: tuple[TensorField, Any] | None = None

    @property
    def name(self) -> str:
        """Name of the layer of the fibers."""
        return f"{self.labels.name} geodesics" if self.layer is None else str(self.layer.name)


Steps = Generator[Step, None, Counted | None]


class FiberSource(QWidget):
    """The fibers of a layer."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.box = LayerBox(viewer, why_no_fibers, empty="open a tractogram, or track fibers", parent=self)
        self.form = ParamForm(ConnectomeSettings(), parent=self)
        _stack(self, "Fibers", self.box, self.form)

    def steps(self, labels: Any, _device: str, stop: threading.Event) -> Steps:
        """Read the inputs and return the search for the regions of every fiber."""
        layer = self.box.needed(NO_FIBERS)
        fibers = fibers_of(layer)
        if fibers is None:
            raise InvalidInput(NO_FIBERS)
        settings = self.form.value()
        counting = connectome_steps(fibers, atlas_of(labels), settings, stop=stop)
        code = self._code_of(layer, settings)

        def steps() -> Steps:
            found = yield from _silent(counting)
            return Counted(labels, fibers, np.arange(len(fibers)), found, code, layer)

        return steps()

    def code(self, _device: str) -> Code:
        """Return what `Counted.code` is, of the inputs as they stand."""
        return self._code_of(self.box.needed(NO_FIBERS), self.form.value())

    def _code_of(self, layer: Any, settings: ConnectomeSettings) -> Code:
        def lines(layers: Iterable[Any]) -> list[str]:
            return [
                *checked(carried(layer, "recipe") or ()),
                *fiber_lines(layer, layers, filtered=False),
                f"settings = {call_text('tracts.connectome', settings)}",
                "found = tracts.connectome.connectome(fibers, atlas, settings)",
            ]

        return lines


class GeodesicSource(QWidget):
    """Geodesics from each region to the others."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self.box = LayerBox(viewer, why_no_source, empty=HINT, parent=self)
        self.form = ParamForm(GeodesicSettings(), parent=self)
        self.methods = MethodForms(self, FAN, TRACKING)
        self.directions_form, self.tracking_form = self.methods.directions, self.methods.tracking
        folded = []
        for title, form in (("Fan of directions", self.directions_form), ("Tracking", self.tracking_form)):
            folded.append(Folded(title, self))
            folded[-1].fold(form)
        _stack(self, "Tensors", self.box, self.form, *folded)

    def steps(self, labels: Any, device: str, stop: threading.Event) -> Steps:
        """Read the inputs and return the search for geodesics; it returns None if the fit was stopped."""
        return self._shooting(device).steps(labels, atlas_of(labels), stop)

    def code(self, device: str) -> Code:
        """Return what `Counted.code` is, of the inputs as they stand."""
        return self._shooting(device).lines

    def _shooting(self, device: str) -> "_Shooting":
        layer = self.box.needed(NO_TENSORS)
        source = source_of(layer)
        if source is None:
            raise InvalidInput(NO_TENSORS)
        return _Shooting(
            layer=layer,
            source=source,
            density=self.form.value(),
            directions=self.methods.launched(),
            tracking=self.tracking_form.value(),
            device=device,
            recipe=source_recipe(source, layer, device),
            fods=fods_beside(self._viewer, source),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shooting:
    """What a run of geodesics needs, read from the controls in the GUI thread."""

    layer: Any
    source: Source
    density: GeodesicSettings
    directions: Directions
    tracking: InTensors
    device: str
    recipe: Recipe
    fods: FodField | None

    def steps(self, labels: Any, atlas: Atlas, stop: threading.Event) -> Steps:
        field = yield from tensor_steps(self.source, self.device, stop)
        if not field.complete:
            return None
        settings = self.density, self.directions, self.tracking
        steps = geodesic_connectome_steps(field, atlas, *settings, fods=self.fods, device=self.device, stop=stop)
        found = yield from _silent(steps)
        best = found.best
        if best is None:
            raise InvalidInput(f"no region of {labels.name!r} has tensors; is the atlas of the same space?")
        fitted = None if isinstance(self.source, TensorField) else (field, self.layer)
        return Counted(labels, best, best.per_fiber["fiber"], found, self.lines, None, pack_fibers(best), fitted)

    def lines(self, _layers: Iterable[Any]) -> list[str]:
        return [
            *checked(self.recipe),
            f"settings = {call_text('tracts.connectome', self.density)}",
            f"directions = {call_text('tracts', self.directions)}",
            f"tracking = {call_text('tracts', self.tracking)}",
            "found = tracts.connectome.geodesic_connectome(",
            f"    field, atlas, settings, directions, tracking, device={self.device!r}",
            ")",
            "fibers = found.best",
            "layer = tracts.show(viewer, fibers, 'geodesics', color_by='alignment_fa')",
        ]


def _stack(part: QWidget, title: str, box: QWidget, *others: QWidget) -> None:
    """Lay out a source: its layer, and its settings below."""
    layout, top = QVBoxLayout(part), QFormLayout()
    layout.setContentsMargins(0, 0, 0, 0)
    top.addRow(title, box)
    layout.addLayout(top)
    for other in others:
        layout.addWidget(other)


def _silent(steps: Generator[Step, None, Connectome]) -> Generator[Step, None, Connectome]:
    """The same steps without previews."""
    with contextlib.closing(steps):
        while True:
            try:
                yield dataclasses.replace(next(steps), make_preview=None)
            except StopIteration as end:
                found: Connectome = end.value
                return found
