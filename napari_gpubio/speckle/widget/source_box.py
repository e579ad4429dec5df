"""The part of the panel that says where frames come from."""

from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.widget.source_pages import PAGES, Page, SimulatedPage, StackPage
from napari_gpubio.viewer.forms import aligned_form, row_label

NOT_A_STACK = "a whole stack is run from an open layer; choose 'open image stack' as the source"


class SourceBox(QWidget):
    """A list of kinds of sources, and below it what the chosen kind needs.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    changed = Signal()

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
        self.changed.emit()
