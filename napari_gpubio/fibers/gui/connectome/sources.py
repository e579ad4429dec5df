"""What a connectome is made of: fibers of a layer, or geodesics that are shot through tensors."""

import dataclasses
import threading
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtWidgets import QFormLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step, silent
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.gui.records import (
    field_of_layer,
    field_output,
    output_of,
    remember,
    show_fods,
    tensor_steps,
)
from napari_gpubio.diffusion.gui.source import HINT, NO_TENSORS, FodsBox, Source, source_in, why_no_source
from napari_gpubio.diffusion.layer_regions import atlas_of
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.fibers import GeodesicSettings, geodesic_connectome_steps
from napari_gpubio.fibers.crossings import ONE_DIRECTION
from napari_gpubio.fibers.directions import Directions
from napari_gpubio.fibers.geodesics import FAN, TRACKING
from napari_gpubio.fibers.gui.methods import MethodForms
from napari_gpubio.fibers.operations.geodesics import Geodesics, ShootGeodesics
from napari_gpubio.fibers.settings import InTensors
from napari_gpubio.gui.forms import Folded, ParamForm, fill_column, muted_label
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.lines import Lines
from napari_gpubio.tractograms.connectome import Connectome, ConnectomeSettings, connectome_steps
from napari_gpubio.tractograms.gui.fibers import (
    NO_FIBERS,
    fiber_output,
    fibers_of,
    pack_fibers,
    shown_fibers,
    turned_to_last,
    why_no_fibers,
)
from napari_gpubio.tractograms.gui.region_box import AtlasSource
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations.connectome import MakeConnectome

Matrices = MakeConnectome | ShootGeodesics
CELL = "connectome"  # name of the filter that leaves the fibers of a cell


@dataclasses.dataclass(slots=True, eq=False)
class Counted(ShortRepr):
    """Result of a run.

    Parameters
    ----------
    labels
        The layer of the atlas.
    source
        The layer that was counted, or that geodesics were shot through.
    fibers
        Those of the layer that shows them.
    index
        Their indices in the connectome, shape (F,); -1 of those that were hidden, which are not counted.
    found
        The connectome.
    operation
        What makes it.
    layer
        That of the fibers; None until it is made.
    lines
        The fibers for a layer that is to be made.
    fitted
        Tensors that were fitted on the way, and the layer of their scan.
    """

    labels: Any
    source: Any
    fibers: Tractogram
    index: npt.NDArray[np.int64]
    found: Connectome
    operation: Matrices
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
        self.box = LayerBox(
            viewer, why_no_fibers, empty="open a tractogram, or track fibers",
            prefers=lambda: turned_to_last(viewer.layers), parent=self,
        )  # fmt: skip
        self.form = ParamForm(ConnectomeSettings(), parent=self)
        _stack(self, {"Fibers": self.box}, self.form)

    def steps(self, labels: Any, _device: str, stop: threading.Event) -> Steps:
        """Read the inputs and return the search for the regions of every fiber."""
        layer = self.box.needed(NO_FIBERS)
        fibers, counted = fibers_of(layer), shown_fibers(layer, but=CELL)
        if fibers is None or counted is None:
            raise InvalidInput(NO_FIBERS)
        if not len(counted):
            raise InvalidInput(f"all fibers of {layer.name!r} are hidden by a filter; show some to count them")
        settings = self.form.value()
        counting = connectome_steps(counted, atlas_of(labels), settings, stop=stop)
        draft, shown = self.draft(labels), layer.passing(but=CELL)
        index = np.where(shown, np.cumsum(shown) - 1, -1)

        def steps() -> Steps:
            found = yield from silent(counting)
            return Counted(labels, layer, fibers, index, found, draft(), layer)

        return steps()

    def draft(self, labels: Any) -> Callable[[], MakeConnectome]:
        """Read the inputs, and return what makes an operation of them; files are looked through in that."""
        layer, settings, atlas = self.box.needed(NO_FIBERS), self.form.value(), AtlasSource(labels)
        fibers = shown_fibers(layer, but=CELL)
        return lambda: MakeConnectome(fibers=fiber_output(layer, fibers), atlas=atlas.output(), settings=settings)

    def show_draft(self, operation: MakeConnectome) -> bool:
        """Show an operation, if a layer has its fibers."""
        self.form.set_value(operation.settings)
        return self.box.choose_where(
            lambda layer: fiber_output(layer, shown_fibers(layer, but=CELL)) == operation.fibers
        )


class GeodesicSource(QWidget):
    """Geodesics from each region to the others."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.box = LayerBox(viewer, why_no_source, empty=HINT, parent=self)
        self.fods_box = FodsBox(viewer, self.box, self)
        self.form = ParamForm(GeodesicSettings(), parent=self)
        self.methods = MethodForms(self, FAN, TRACKING)
        self.directions_form, self.tracking_form = self.methods.directions, self.methods.tracking
        folded = []
        for title, form in (("Fan of directions", self.directions_form), ("Tracking", self.tracking_form)):
            folded.append(Folded(title, self))
            folded[-1].fold(form)
        _stack(self, {"Tensors": self.box, "FODs": self.fods_box}, muted_label(self, ONE_DIRECTION), self.form, *folded)

    def steps(self, labels: Any, device: str, stop: threading.Event) -> Steps:
        """Read the inputs and return the search for geodesics; it returns None if the fit was stopped."""
        return self._shooting(labels).steps(labels, atlas_of(labels), device, stop)

    def draft(self, labels: Any) -> Callable[[], ShootGeodesics]:
        """Read the inputs, and return what makes an operation of them; files are looked through in that."""
        return self._shooting(labels).operation

    def show_draft(self, operation: ShootGeodesics) -> bool:
        """Show an operation, if a layer has its tensors."""
        self.form.set_value(operation.settings)
        self.methods.show(operation.directions, operation.method)
        has_tensors = self.box.choose_where(lambda layer: field_of_layer(layer) == operation.tensors)
        return show_fods(self.fods_box, operation.fods) and has_tensors

    def _shooting(self, labels: Any) -> "_Shooting":
        layer = self.box.needed(NO_TENSORS)
        return _Shooting(
            layer=layer,
            source=source_in(layer),
            density=self.form.value(),
            directions=self.methods.launched(),
            tracking=self.tracking_form.value(),
            atlas=AtlasSource(labels),
            fods=self.fods_box.fods,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shooting:
    """What a run of geodesics needs, read from the controls in the GUI thread."""

    layer: Any
    source: Source
    density: GeodesicSettings
    directions: Directions
    tracking: InTensors
    atlas: AtlasSource
    fods: FodField | None

    def steps(self, labels: Any, atlas: Atlas, device: str, stop: threading.Event) -> Steps:
        field = yield from tensor_steps(self.source, device, stop)
        if not field.complete:
            return None
        settings = self.density, self.directions, self.tracking
        steps = geodesic_connectome_steps(field, atlas, *settings, fods=self.fods, device=device, stop=stop)
        found = yield from silent(steps)
        best = found.best
        if best is None:
            raise InvalidInput(f"no region of {labels.name!r} has tensors; is the atlas of the same space?")
        fitted, made = None if isinstance(self.source, TensorField) else (field, self.layer), self.operation()
        remember(made.output("best"), Geodesics(found, made.matrix), device, is_kept=False)
        return Counted(labels, self.layer, best, best.per_fiber["fiber"], found, made, None, pack_fibers(best), fitted)

    def operation(self) -> ShootGeodesics:
        """Return it as an operation; files are looked through, which a worker does."""
        return ShootGeodesics(
            tensors=field_output(self.source),
            atlas=self.atlas.output(),
            fods=None if self.fods is None else output_of(self.fods),
            settings=self.density,
            directions=self.directions,
            method=self.tracking,
        )


def _stack(part: QWidget, boxes: dict[str, QWidget], *others: QWidget) -> None:
    """Lay out a source: its layers, and its settings below."""
    top = QFormLayout()
    for title, box in boxes.items():
        top.addRow(title, box)
    fill_column(part, top, *others)
