"""Layers of a viewer that fit a purpose: changes in them, and a list to choose one from."""

from collections.abc import Callable, Container, Iterator
from contextlib import nullcontext
from typing import Any

from napari.layers import Image, Labels
from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtGui import QStandardItemModel
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import is_being_lent
from napari_gpubio.gui.connections import Connection, Connections, Follower
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import tip_of

Box = tuple[slice, ...]  # along the axes of a layer's data
_PLACE = ("scale", "translate", "rotate", "shear", "affine", "units")
_COLORS = ("colormap", "contrast_limits", "coloring")
_REFUSED = "refused"  # data of an entry that cannot be chosen


def _ignore(*_: Any) -> None:
    """Stand for a callback that was not given."""


def unwrapped(layer: Any) -> Any:
    """Return the layer that one of napari's proxies stands for, or the layer itself."""
    return getattr(layer, "__wrapped__", layer)


def set_visible(layer: Any, is_visible: bool) -> None:  # noqa: FBT001 - as the attribute
    """Show or hide a layer, if it is not so: napari puts its whole scene together anew at each word of it."""
    if layer.visible != is_visible:
        layer.visible = is_visible


def set_mesh(layer: Any, data: Any, colors: Any) -> None:
    """Put another mesh (vertices, faces; colors of the vertices) into a surface layer, which is cut once.

    The layer is not hidden meanwhile: to switch that takes napari longer. How far the viewer's sliders reach is left to
    the layers around.
    """
    with getattr(layer, "_block_refresh", nullcontext)():
        layer.vertex_colors = None  # they are of another number of vertices
        layer.data = data
        layer.vertex_colors = colors
    layer.refresh()


def list_pairs(viewer: Any, act: Callable[..., Any]) -> list[Connection]:
    """What changes the list of a viewer's layers."""
    events = viewer.layers.events
    return [(event, act) for event in (events.inserted, events.removed, events.reordered, events.renamed)]


def set_marks(layer: Any, data: Any) -> None:
    """Put other points or vectors into a layer; a hidden one, which napari does not cut, would look for those gone."""
    layer.data = data
    if not layer.visible:
        layer.set_view_slice()


class LayerListener:
    """Follows those layers of a viewer that are of a kind, and only as far as a callback is given.

    A panel owns it (`EnginePanel.own`), or the part that it belongs to passes `attach` and `detach` on.

    Parameters
    ----------
    viewer
        The napari viewer.
    accepts
        Whether a layer is of the kind; call `refresh` where the answer depends on more than the layer.
    layers_changed
        Called when other layers are of the kind, or in another order, or under another name, and after attaching.
    layers_added
        Called when a layer has become one of the kind, and after attaching.
    data_changed
        Called with a layer and the box of its array in which values may have changed; None: anywhere. napari reports
        strokes with a box, but not undo, redo and fill; a point or shape that is dragged is reported as it moves. What
        happens to a hidden layer without a word of napari's (undo) is not reported, nor that it is shown again.
    place_changed
        Called with a layer that was moved, scaled, or got other units.
    colors_changed
        Called with a layer whose colors or limits have changed.
    """

    def __init__(
        self,
        viewer: Any,
        accepts: Callable[[Any], bool],
        *,
        layers_changed: Callable[[], Any] = _ignore,
        layers_added: Callable[[], Any] = _ignore,
        data_changed: Callable[[Any, Box | None], Any] = _ignore,
        place_changed: Callable[[Any], Any] = _ignore,
        colors_changed: Callable[[Any], Any] = _ignore,
    ) -> None:
        self.layers: list[Any] = []  # in the viewer's order: the topmost last
        self._viewer, self._accepts = viewer, accepts
        self._layers_changed, self._layers_added, self._data_changed = layers_changed, layers_added, data_changed
        self._place_changed, self._colors_changed = place_changed, colors_changed
        self._names: list[str] | None = None  # None: not attached
        self._slices: dict[Any, object] = {}  # what was on screen when a layer was last redrawn; None: it is hidden
        self._list = Connections(lambda: list_pairs(viewer, self.refresh))
        self._each = Connections(self._layer_pairs)

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self._names = None
        self._list.attach()
        self.refresh()

    def detach(self) -> None:
        """Stop following, and hold no layer."""
        self._list.detach()
        self._each.detach()
        self.layers, self._names = [], None
        self._slices.clear()

    def refresh(self, *_: Any) -> None:
        """Read the viewer's layers again."""
        before, self.layers = self.layers, [layer for layer in self._viewer.layers if self._accepts(layer)]
        names = [layer.name for layer in self.layers]
        is_same = names == self._names and self.layers == before
        is_more = self._names is None or any(layer not in before for layer in self.layers)
        self._names = names
        if not is_same:
            self._each.attach()
            self._layers_changed()
        if is_more:
            self._layers_added()

    def _layer_pairs(self) -> Iterator[Connection]:
        seen = self._slice()
        self._slices = {layer: seen if layer.visible else None for layer in self.layers}
        for layer in self.layers:
            events = layer.events
            if self._data_changed is not _ignore:
                yield events.data, self._on_data
                if not isinstance(layer, Image):  # where it comes with other contrast limits, too
                    yield from ((events.set_data, self._on_redrawn), (events.visible, self._on_visible))
                if isinstance(layer, Labels):
                    yield events.labels_update, self._on_stroke
            if self._place_changed is not _ignore:
                yield from ((getattr(events, name), self._on_place) for name in _PLACE)
            if self._colors_changed is not _ignore:
                yield from ((getattr(events, name), self._on_colors) for name in _COLORS if hasattr(events, name))

    def _layer_of(self, event: Any) -> Any:
        """Return the layer of an event as the viewer gives it, which may be a proxy."""
        return next(layer for layer in self.layers if layer == event.source)

    def _on_data(self, event: Any) -> None:
        self._data_changed(self._layer_of(event), None)

    def _on_redrawn(self, event: Any) -> None:
        """Undo, fill, a drag: napari emits the same event for another slice, and before it tells what is visible."""
        layer = self._layer_of(event)
        before = self._slices[layer]
        if before is None:
            return
        self._slices[layer] = self._slice_of(layer)
        if before == self._slices[layer] and not is_being_lent(layer):
            self._data_changed(layer, None)

    def _on_visible(self, event: Any) -> None:
        layer = self._layer_of(event)
        self._slices[layer] = self._slice_of(layer)

    def _on_stroke(self, event: Any) -> None:
        """A stroke of the brush: the event has its box on the canvas; it may be anywhere along the other axes."""
        layer, dims = self._layer_of(event), self._viewer.dims
        box = [slice(0, length) for length in layer.data.shape]
        displayed = [axis - (dims.ndim - layer.ndim) for axis in dims.displayed]
        for axis, first, length in zip(displayed, event.offset, event.data.shape, strict=False):
            box[axis] = slice(max(int(first), 0), min(int(first) + length, box[axis].stop))
        self._data_changed(layer, tuple(box))

    def _on_place(self, event: Any) -> None:
        layer = self._layer_of(event)
        if not is_being_lent(layer):
            self._place_changed(layer)

    def _on_colors(self, event: Any) -> None:
        self._colors_changed(self._layer_of(event))

    def _slice_of(self, layer: Any) -> object:
        return self._slice() if layer.visible else None

    def _slice(self) -> object:
        dims = self._viewer.dims
        return dims.point, dims.order, dims.ndisplay


VOLUME = range(3, 6)  # axes of labels: those drawn while a series is open have its axes too


def why_not_array(layer: Any, kinds: Any, axes: Container[int], needed: str = "a volume is needed") -> str | None:
    """Why a layer cannot be taken as an array of values, None if it can; see `LayerBox`.

    Parameters
    ----------
    layer
        Any layer.
    kinds
        Classes of layers that can; others are not mentioned.
    axes
        The numbers of axes that the array may have.
    needed
        What to say of another number of axes.
    """
    if not isinstance(layer, kinds):
        return ""
    if layer.multiscale:
        return "multiscale"
    if getattr(layer, "rgb", False):
        return "colors; Split RGB makes channels of them"
    return None if layer.ndim in axes else f"{layer.ndim}-D; {needed}"


def is_no_recording(layer: Any) -> bool:
    """Whether a layer does not say that it holds frames of a camera, which are no volume."""
    return layer.ndim < VOLUME[0] or layer.axis_labels[-VOLUME[0]] != "frame"


class LayerBox(ElidedComboBox, Follower):
    """Choose one of the viewer's layers. What was chosen stays, whatever is renamed, hidden, moved or deleted.

    Each layer is looked at once for all that is listed. In a window, a list that is not on screen (in a panel behind
    another one, in a part that is folded away) is filled when it comes there or is read, since there are dozens.

    ``why_not`` returns None for a layer that can be chosen. Others are listed below with the reason that it returns; an
    empty text leaves a layer out, for which nobody would look here. ``nothing`` is the text of a first entry that
    stands for no layer, None where one must be chosen; ``empty`` is shown while there is no entry.

    Where one must be chosen, the layer that is active in napari is taken as a suggestion, else the newest that is seen.
    As long as the user has neither clicked on a layer nor run anything with it (`settle`), one that is opened later may
    take its place if it is gone or hidden. ``suggests`` returns whether a layer may be taken so: not if it can be
    chosen but hardly means that. ``prefers`` returns a layer that is meant before all others, or None.
    """

    def __init__(
        self,
        viewer: Any,
        why_not: Callable[[Any], str | None],
        *,
        nothing: str | None = None,
        empty: str = "no suitable layer",
        suggests: Callable[[Any], bool] = lambda _: True,
        prefers: Callable[[], Any] = lambda: None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._nothing, self._why_not, self._suggests = viewer, nothing, why_not, suggests
        self._prefers = prefers
        self._chosen: Any = None
        self._is_settled = False
        self._known: list[Any] = []  # the layers that could be chosen when they were listed last
        self._found: list[tuple[Any, str, str | None]] | None = None  # layers to list, with names and why not
        self._is_due = False  # the list is to be filled
        self.followers = (Connections(lambda: list_pairs(viewer, self.refresh), self.refresh),)
        self.setPlaceholderText(empty)
        self.activated.connect(self._on_activated)
        self.currentIndexChanged.connect(self._on_index)

    @property
    def layer(self) -> Any | None:
        """The chosen layer, which the viewer may have no more (see `check_there`), or None."""
        return self._chosen

    def check_there(self) -> None:
        """Raise InvalidInput if the chosen layer was deleted."""
        if self.layer is not None and self.layer not in self._viewer.layers:
            raise InvalidInput(f"{self.layer.name!r} was deleted; choose another layer, or open it again")

    def needed(self, otherwise: str) -> Any:
        """Return the chosen layer.

        Raises
        ------
        InvalidInput
            If there is none: the sentence ``otherwise``, and why layers that are there cannot be chosen.
        """
        if self.layer is None:
            reasons = [f"{name!r} cannot be used ({why})" for _, name, why in self._found or () if why is not None]
            raise InvalidInput("; ".join([otherwise, *reasons]))
        return self.layer

    def refresh(self, *_: Any) -> None:
        """Read the viewer's layers again."""
        before, layers = self._found, [(layer, self._why_not(layer)) for layer in self._viewer.layers]
        self._found = [(layer, layer.name, why) for layer, why in layers if why != ""]
        if self._found != before:
            self._fill()

    def choose(self, layer: Any) -> None:
        """Choose a layer, if it is in the list."""
        index = self._index_of(layer)
        if index >= 0:
            self._chosen = self.itemData(index)  # also while signals are blocked
            self.setCurrentIndex(index)

    def take_back(self, layer: Any | None) -> None:
        """Choose again what was chosen before: a layer of the list, one that was deleted, or none."""
        if layer is None or self._index_of(layer) < 0:
            self._chosen, self._is_settled = layer, self._is_settled or layer is not None
            self._fill()
            self.setCurrentIndex(self._index_of(layer))
            self.currentIndexChanged.emit(self.currentIndex())
        else:
            self.choose(layer)

    def choose_where(self, fits: Callable[[Any], bool]) -> bool:
        """Choose the topmost layer of the list that fits, as the user would; returns whether there is one."""
        found = next((layer for layer in self._fitting() if fits(layer)), None)
        if found is not None:
            self.choose(found)
            self.settle()
        return found is not None

    def suggest_preferred(self) -> None:
        """Choose what is meant now, unless the user has settled for a layer."""
        if (preferred := self._prefers()) is not None:
            self.suggest(preferred)

    def suggest(self, layer: Any) -> None:
        """Choose a layer, unless the user has settled for one."""
        if not self._is_settled:
            self.choose(layer)

    def settle(self, *_: Any) -> None:
        """Take what is chosen as the user's own choice, which nothing but a click changes from now on."""
        self._is_settled = self._is_settled or self._chosen is not None or self._nothing is not None

    def unsettle(self) -> None:
        """Take what is chosen as a suggestion, since the user has turned to something else."""
        self._is_settled = False

    def detach(self) -> None:
        """Stop following the viewer, and hold none of its layers."""
        super().detach()
        self._is_settled, self._chosen, self._known, self._found, self._is_due = False, None, [], None, False
        self.clear()

    def count(self) -> int:
        """Qt: how many entries there are."""
        self._catch_up()
        return int(super().count())

    def currentIndex(self) -> int:
        """Qt: which entry is shown."""
        self._catch_up()
        return int(super().currentIndex())

    def currentText(self) -> str:
        """Qt: the text of the entry that is shown."""
        self._catch_up()
        return str(super().currentText())

    def setCurrentIndex(self, index: int) -> None:
        """Qt: show another entry."""
        self._catch_up()
        super().setCurrentIndex(index)

    def showEvent(self, event: Any) -> None:
        """Qt: the list comes on screen."""
        super().showEvent(event)
        self._catch_up()

    def _on_activated(self, _: int) -> None:
        self._is_settled = True

    def _on_index(self, index: int) -> None:
        self._chosen = self.itemData(index) if index >= 0 else None

    def _index_of(self, layer: Any) -> int:
        """Where a layer is in the list; two proxies of one layer are equal."""
        return next((index for index in range(self.count()) if self.itemData(index) == layer), -1)

    def _fitting(self) -> list[Any]:
        """The layers that can be chosen, the newest first."""
        return [layer for layer, _, why in reversed(self._found or ()) if why is None]

    def _fill(self) -> None:
        """Choose among the layers that there are now, and list them if the list is seen."""
        before, layers = self._chosen, self._fitting()
        self._chosen = self._suggested(layers)
        self._known, self._is_due = layers, True
        if self.isVisible() or not self.window().isVisible():
            self._catch_up()
        if self._chosen != before:
            self.currentIndexChanged.emit(self.currentIndex())

    def _catch_up(self) -> None:
        """List the layers, the newest first; Qt would choose another row where the chosen one has gone or moved."""
        if not self._is_due:
            return
        self._is_due = False
        with QSignalBlocker(self):
            self.clear()
            if self._nothing is not None:
                self.addItem(self._nothing, None)
            for layer in self._known:
                self.addItem(layer.name, layer)
            if self._chosen is not None and self._index_of(self._chosen) < 0:
                self.addItem(self._text_of_unlisted(), self._chosen)
            index = self._index_of(self._chosen) if self.count() else -1
            self._list_refused()
            self.setCurrentIndex(index)

    def _suggested(self, layers: list[Any]) -> Any:
        """What is chosen now that these layers can be: what was, but for a suggestion that does not hold."""
        chosen = self._chosen
        if self._is_settled or self._nothing is not None:
            return chosen
        is_listed, is_new = chosen in layers, any(layer not in self._known for layer in layers)
        is_gone = chosen is not None and chosen not in self._viewer.layers
        if (is_listed and (chosen.visible or not is_new)) or (is_gone and not is_new):
            return chosen
        fitting = [layer for layer in layers if self._suggests(layer)]
        first = [layer for layer in (self._prefers(), self._viewer.layers.selection.active) if layer in fitting]
        seen = [layer for layer in [*first, *fitting] if layer.visible]
        return next(iter(seen or fitting), chosen if is_gone else None) if seen or not is_listed else chosen

    def _name_of(self, chosen: Any) -> str:
        return str(chosen.name)

    def _text_of_unlisted(self) -> str:
        """Text of what is chosen and cannot be chosen any more; of deleted layers in front, since names may be long."""
        name = self._name_of(self._chosen)
        if self._chosen in self._viewer.layers:
            return f"{name} ({self._why_not(self._chosen) or 'other use'})"
        return f"{name} (no layer)" if self.layer is None else f"deleted: {name}"

    def _list_refused(self) -> None:
        """List the layers that cannot be chosen below the others, with the reason."""
        model = self.model()
        for layer, name, why in reversed(self._found or ()):
            if why is None or layer == self._chosen:
                continue
            text = f"{name} ({why})"
            self.addItem(text, _REFUSED)
            self.setItemData(self.count() - 1, tip_of(text), Qt.ItemDataRole.ToolTipRole)
            if isinstance(model, QStandardItemModel):
                model.item(self.count() - 1).setEnabled(False)
