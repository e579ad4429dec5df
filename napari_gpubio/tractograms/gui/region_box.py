"""A choice of a region: a layer of labels, shapes or points, and one of the regions that it holds."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer, Points, Shapes
from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import holds_labels, label_volume
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.kinds import digest
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.operations.runs import value_of
from napari_gpubio.diffusion.gui.records import path_of
from napari_gpubio.diffusion.layer_regions import atlas_of, mm_of_size, region_layer, region_names, region_of
from napari_gpubio.diffusion.operations.regions import atlas_source, region_source
from napari_gpubio.diffusion.regions import AnyRegion, Atlas, Region, Sphere, label_counts
from napari_gpubio.gui.connections import Debouncer
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox
from napari_gpubio.gui.forms import row_of
from napari_gpubio.gui.layers import VOLUME, LayerBox, LayerListener, why_not_array

DRAWN = (Labels, Shapes, Points)
_MARKERS = ("seeds", "optodes", "probe")  # what points of this package are that mark places and no regions


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRegion:
    """A region that a panel uses, and where it is from: a layer, and which of its regions."""

    layer: Any
    key: int | str
    region: AnyRegion

    def output(self) -> Output[Any]:
        """Return the operation that makes it: of its numbers, a label of a file, or its voxels, which are copied."""
        return region_source(self.region, path_of(self.layer), self.key)


class AtlasSource:
    """The atlas of a layer as it was when it was read, and the file that may hold it."""

    def __init__(self, layer: Any) -> None:
        atlas = atlas_of(layer)
        self.atlas = replace(atlas, labels=np.array(atlas.labels))
        self._name, self._path = layer.name, path_of(layer)

    def output(self) -> Output[Atlas]:
        """Return where it comes from; files are read, which a worker does."""
        return atlas_source(self.atlas, self._name, self._path)


def why_no_regions(layer: Any, kinds: tuple[type, ...] = DRAWN) -> str | None:
    """Why a layer holds no regions; ``kinds``: the classes of layers that may, besides images of labels."""
    if isinstance(layer, Image):
        return None if holds_labels(layer) else ""
    if not isinstance(layer, kinds) or any(carried(layer, what) is not None for what in _MARKERS):
        return ""
    if isinstance(layer, Shapes | Points):
        return None if layer.ndim >= len("xyz") else f"{layer.ndim}-D; draw it over a volume"
    return why_not_array(layer, Labels, VOLUME)


def layer_with_region(
    viewer: Any, output: Output[Any], *, kinds: tuple[type, ...] = DRAWN, thickness_mm: float = 1.0
) -> tuple[Any, int | str]:
    """Return the layer of a viewer that has the region of an operation, and which it is; a new one if none has it.

    ``kinds``: of layers, besides images of labels; ``thickness_mm``: of drawn shapes. InvalidInput if the region cannot
    be read, or is a box, which no layer holds.
    """
    region = value_of(output)
    for layer in viewer.layers:
        for key in _keys_of_size(layer, region) if why_no_regions(layer, kinds) is None else ():
            with suppress(InvalidInput):  # it has none there
                if digest(region_of(layer, key, thickness_mm=thickness_mm)) == digest(region):
                    return layer, key
    if not isinstance(region, Region | Sphere):
        raise InvalidInput(f"the box {region.name!r} is shown in no layer")
    layer = viewer.add_layer(Layer.create(*region_layer(region)))
    return layer, next(iter(region_names(layer)))


def _keys_of_size(layer: Any, region: AnyRegion) -> list[int | str]:
    """Which regions of a layer may be the same, as counting tells."""
    if isinstance(layer, Labels | Image) and isinstance(region, Region):
        counts, wanted = label_counts(label_volume(layer)), np.count_nonzero(region.voxels)
        return [label for label, count in counts.items() if count == wanted]
    return [*region_names(layer)] if isinstance(layer, Points) == isinstance(region, Sphere) else []


class RegionBox(QWidget):
    """Choose a region of the viewer's layers.

    ``nothing``: the text that stands for no region, None where one must be chosen; ``kinds``: of layers.
    """

    changed = Signal()  # another region, or the same one drawn otherwise

    def __init__(
        self,
        viewer: Any,
        *,
        kinds: tuple[type, ...] = DRAWN,
        nothing: str | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._kinds = viewer, kinds
        hint = "open an atlas, or paint Labels"
        self.layer_box = LayerBox(
            viewer, partial(why_no_regions, kinds=kinds), nothing=nothing, empty=hint, parent=self
        )
        self.layer_box.setToolTip("Labels (painted, or an atlas), shapes drawn in a slice, or points of some size")
        self.name_box = ElidedComboBox(self, tip="Which region of the layer")
        self.size_box = NumberBox(0.1, 500.0, 10.0, 1, self, unit="mm")
        self.size_box.edited.connect(self._on_size)
        self._redrawn = Debouncer(self._on_redrawn, self)
        self._listener = LayerListener(
            viewer, lambda layer: layer == self.layer, data_changed=self._on_drawn, place_changed=self._on_drawn
        )
        self.layer_box.currentIndexChanged.connect(self._on_layer)
        self.name_box.currentIndexChanged.connect(self._on_name)
        self.setLayout(row_of(self.layer_box, self.name_box, self.size_box, stretch=(2, 2, 1)))

    @property
    def layer(self) -> Any | None:
        """The chosen layer, or None."""
        return self.layer_box.layer

    @property
    def key(self) -> int | str | None:
        """Which of the layer's regions is chosen, or None while it has none."""
        return None if self.layer is None else self.name_box.currentData()

    def region(self, what: str) -> AnyRegion:
        """Return the chosen region; ``what``: what it is for, as in "choose where fibers start".

        InvalidInput if there is none.
        """
        self._redrawn.cancel()
        self._list_names()
        layer = self.layer_box.needed(f"choose {what}: open an atlas, or paint a Labels layer")
        if self.key is None:
            raise InvalidInput(f"the layer {layer.name!r} holds no region yet; paint or draw in it to choose {what}")
        return region_of(layer, self.key, thickness_mm=self.size_box.value())

    def chosen(self, what: str) -> ChosenRegion:
        """Return the chosen region and where it is from; see `region`."""
        region = self.region(what)
        return ChosenRegion(self.layer, "" if self.key is None else self.key, region)

    def _slice_mm(self) -> float:
        """Distance of the slices of the viewer's volumes: how thick a drawn shape is, unless the user says more."""
        axis = self._viewer.dims.order[-3] - self._viewer.dims.ndim if self._viewer.dims.ndim >= len("xyz") else -1
        volumes = [layer for layer in self._viewer.layers if isinstance(layer, Image | Labels) and layer.ndim >= -axis]
        return min((float(layer.extent.step[axis]) for layer in volumes), default=1.0)

    def choose(self, layer: Any, key: int | str) -> None:
        """Choose a region, if it is there; nothing else is suggested from now on."""
        self.layer_box.choose(layer)
        self.layer_box.settle()
        self._list_names()
        index = self.name_box.findData(key)
        if self.layer == layer and index >= 0:
            self.name_box.setCurrentIndex(index)

    def choose_output(self, output: Output[Any]) -> bool:
        """Choose the region that an operation makes, as `layer_with_region` finds it; returns whether there is one."""
        thickness = self.size_box.value()
        try:
            found = layer_with_region(self._viewer, output, kinds=self._kinds, thickness_mm=thickness)
        except InvalidInput:
            return False
        self.choose(*found)
        if isinstance(self.layer, Shapes):
            self.size_box.show_value(thickness)
        return self.layer == found[0]

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.layer_box.attach()
        self._listener.attach()
        self._list_names()

    def detach(self) -> None:
        """Stop following the viewer; ``changed`` is not emitted."""
        with QSignalBlocker(self):
            self._redrawn.cancel()
            self._listener.detach()
            self.layer_box.detach()

    def _on_layer(self, *_: Any) -> None:
        self._listener.refresh()
        if isinstance(self.layer, Shapes):
            self.size_box.show_value(self._slice_mm())
        self._list_names()
        self.changed.emit()

    def _on_name(self, *_: Any) -> None:
        self._show_size()
        self.changed.emit()

    def _on_size(self, size: float) -> None:
        if isinstance(self.layer, Points) and self.key is not None:
            sizes = np.array(self.layer.size, np.float64)
            sizes[int(self.key)] = size / mm_of_size(self.layer)
            self.layer.size = sizes
        self.changed.emit()

    def _show_size(self) -> None:
        """Show the diameter of a sphere, or how thick drawn shapes are."""
        layer = self.layer
        self.size_box.setVisible(isinstance(layer, Points | Shapes))
        is_point = isinstance(layer, Points)
        self.size_box.setToolTip("Diameter of the sphere" if is_point else "Thickness across the plane of the shape")
        if layer is not None and is_point and self.key is not None:
            self.size_box.show_value(float(np.asarray(layer.size)[int(self.key)]) * mm_of_size(layer))

    def _on_drawn(self, *_: Any) -> None:
        self._redrawn.request()

    def _on_redrawn(self) -> None:
        self._list_names()
        self.changed.emit()

    def _list_names(self) -> None:
        """List the regions of the layer; the chosen one stays chosen if it is still there."""
        names, chosen = {} if self.layer is None else region_names(self.layer), self.name_box.currentData()
        numbered = isinstance(self.layer, Labels | Image)
        with QSignalBlocker(self.name_box):
            self.name_box.clear()
            for key, name in names.items():
                self.name_box.addItem(f"{key}: {name}" if numbered and name != str(key) else name, key)
            self.name_box.setCurrentIndex(max(self.name_box.findData(chosen), 0) if names else -1)
        self.name_box.setVisible(numbered or len(names) > 1)
        self._show_size()
