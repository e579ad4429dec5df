"""The part of the panel that says where frames come from."""

from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.speckle.gui.places import Place
from napari_gpubio.speckle.gui.source_pages import PAGES, Page, SimulatedPage, StackPage

NOT_A_STACK = "a whole stack is run from an open layer; choose 'open image stack' as the source"


class SourceBox(QWidget):
    """A list of kinds of sources, and below it what the chosen kind needs.

    ``changed`` says that another source is meant, ``placed`` that its pixels have another size.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    changed = Signal()
    placed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.pages: list[Page] = [page(viewer, self) for page in PAGES]
        self.kind = QComboBox(self)
        self.kind.addItems([page.title for page in self.pages])
        form = aligned_form(None)
        form.addRow(row_label("Source", "Where raw speckle frames come from", self), self.kind)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(form)
        for page in self.pages:
            layout.addWidget(page)
            page.changed.connect(self.changed)
        self.pixel = NumberBox(0.0, 1e5, 0.0, 3, self, arrows=True)
        self.pixel.setSpecialValueText("not known")
        self._sizes = QWidget(self)
        tip = "Edge of a pixel in the object, for the scale bar. A camera that is calibrated in Micro-Manager tells it"
        aligned_form(self._sizes).addRow(row_label("Pixel size (µm)", tip, self), self.pixel)
        layout.addWidget(self._sizes)
        self.pixel.valueChanged.connect(lambda *_: self.placed.emit())
        self.kind.currentIndexChanged.connect(self._on_kind)
        self._on_kind()

    @property
    def page(self) -> Page:
        """The chosen kind."""
        return self.pages[self.kind.currentIndex()]

    @property
    def stack(self) -> StackPage:
        """The chosen kind, if it is an open stack.

        Raises
        ------
        InvalidInput
            If it is another one.
        """
        if not isinstance(self.page, StackPage):
            raise InvalidInput(NOT_A_STACK)
        return self.page

    @property
    def simulated(self) -> SimulatedPage:
        """The page of the simulated camera."""
        return next(page for page in self.pages if isinstance(page, SimulatedPage))

    def place(self) -> Place:
        """Return scale and units of live maps, as far as they are known."""
        size = self.pixel.value()
        typed = {"scale": (size, size), "units": ("um", "um")} if size > 0 else {}
        return self.page.place() or typed

    def choose(self, kind: type[Page]) -> None:
        """Choose a kind of source."""
        self.kind.setCurrentText(kind.title)

    def attach(self) -> None:
        """Follow the viewer's layers."""
        for page in self.pages:
            page.attach()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        for page in self.pages:
            page.detach()

    def _on_kind(self, *_: Any) -> None:
        for page in self.pages:
            page.setVisible(page is self.page)
        self._sizes.setVisible(not isinstance(self.page, StackPage))  # a layer has its own
        self.changed.emit()
