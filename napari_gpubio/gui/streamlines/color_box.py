"""A list to choose what colors the fibers of a layer: a color, one of their numbers, or an image of the viewer."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QWidget

from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.lines.sampling import title_of
from napari_gpubio.gui.streamlines.coloring import is_line_image

_CHARACTERS = 12


class ColorByBox(ElidedComboBox):
    """Shows and changes what colors a streamlines layer; the layer is followed by who calls `show_choice`.

    Parameters
    ----------
    images
        Returns the layers that may be images to color by, when the list is opened.
    titles
        Texts for names of numbers; others are made from the name.
    """

    def __init__(
        self,
        images: Callable[[], Iterable[Any]],
        titles: Mapping[str, str] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, characters=_CHARACTERS)
        self._layer: Any | None = None
        self._images, self._titles = images, titles or {}
        self.setToolTip("Direction: red is left-right, green front-back, blue up-down")
        self.currentIndexChanged.connect(self._on_chosen)

    def set_layer(self, layer: Any | None) -> None:
        """Show the choices of a layer, or none."""
        self._layer = layer
        self.fill()

    def fill(self) -> None:
        """List the choices anew."""
        with QSignalBlocker(self):
            self.clear()
            if self._layer is None:
                return
            layer = self._layer
            sampled = [name for name in layer.image_names if name != layer.color_by]
            for name in layer.color_choices:
                if name not in sampled:
                    self.addItem(self._titles.get(name) or title_of(name), name)
            images = [image for image in self._images() if is_line_image(image)]
            if images:
                self.insertSeparator(self.count())
            for image in reversed(images):
                self.addItem(f"image: {image.name}", image)
        self.show_choice()

    def show_choice(self) -> None:
        """Show what colors the layer now."""
        if self._layer is not None:
            with QSignalBlocker(self):
                self.setCurrentIndex(self.findData(self._layer.color_by))

    def showPopup(self) -> None:
        """Qt: the list is opened."""
        self.fill()
        super().showPopup()

    def _on_chosen(self, index: int) -> None:
        choice = self.itemData(index)
        if self._layer is None or choice is None:
            return
        if not isinstance(choice, str):
            self._layer.color_by_image(choice)
        elif choice != self._layer.color_by:
            self._layer.color_by = choice
