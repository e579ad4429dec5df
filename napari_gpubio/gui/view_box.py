"""Left and right: choose how the viewer shows them."""

from typing import Any

from qtpy.QtWidgets import QComboBox, QFormLayout, QWidget

from napari_gpubio.gui.orientation import VIEW_HELP, VIEWS, camera_of, set_view, view_of

_MIRRORED = "mirrored (napari's default)"


class ViewBox(QWidget):
    """Shows whether the view is neurological, radiological or mirrored, and changes it."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._box = QComboBox(self)
        self._box.addItem(_MIRRORED, None)
        for name in VIEWS:
            self._box.addItem(name, name)
        self._box.setToolTip("\n".join(f"{name}: {text}" for name, text in VIEW_HELP.items()))
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Left–right", self._box)
        self._box.activated.connect(self._on_chosen)

    def attach(self) -> None:
        """Follow the viewer's camera."""
        camera_of(self._viewer).events.orientation.connect(self._show)
        self._show()

    def detach(self) -> None:
        """Hear no more of the camera."""
        camera_of(self._viewer).events.orientation.disconnect(self._show)

    def _show(self, *_: Any) -> None:
        self._box.setCurrentIndex(self._box.findData(view_of(self._viewer)))

    def _on_chosen(self, *_: Any) -> None:
        name = self._box.currentData()
        if name is not None:
            set_view(self._viewer, name)
        self._show()
