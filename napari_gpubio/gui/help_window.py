"""What each dock widget is for, in a window of its own, without a network: pages in ``help``. The site has them."""

from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import Qt, QUrl
from qtpy.QtGui import QDesktopServices, QTextCursor
from qtpy.QtWidgets import QDialog, QTextBrowser, QToolButton, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui import theme
from napari_gpubio.gui.forms import row_of, text_button
from napari_gpubio.gui.preferences import open_preferences
from napari_gpubio.gui.switcher import name_of
from napari_gpubio.gui.tour import start_tour

PAGES = Path(__file__).with_name("help")
SITE = "https://napari-gpubio.github.io/napari-gpubio"
_SIZE = 620, 680


def page_of(name: str) -> str | None:
    """Return the page of the dock widget of a name, as Markdown; None if it has none."""
    path = PAGES / f"{slug_of(name)}.md"
    return path.read_text(encoding="utf-8") if path.exists() else None


def slug_of(name: str) -> str:
    """Return the name of a page, as in its file and its address."""
    return name.lower().replace("-", "_").replace(" ", "_")


class HelpButton(QToolButton):
    """Opens the page of a panel; so does F1 in it."""

    def __init__(self, viewer: Any, panel: QWidget) -> None:
        super().__init__(panel)
        self._viewer, self._panel = viewer, panel
        self.setText("?")
        self.setToolTip("What this panel is for, and what its numbers mean (F1)")
        self.setAccessibleName("Help")
        self.clicked.connect(self.open)

    def open(self, *_: Any) -> "HelpWindow":
        """Show the page, in the one window of help that a window of napari has."""
        parent = self._panel.window()
        window = parent.findChild(HelpWindow) or HelpWindow(self._viewer, parent)
        window.show_page(name_of(self._panel))
        window.show()
        window.raise_()
        return window


class HelpWindow(QDialog):
    """Shows pages of help, and leads to the tour, to napari's preferences, and to the site."""

    def __init__(self, viewer: Any, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._viewer = viewer
        self.text = QTextBrowser(self)
        self.text.setOpenLinks(False)
        self.text.anchorClicked.connect(self._follow)
        self.text.setAccessibleName("Help")
        tour = text_button("Tour", "What to click first, step by step", self, self._tour)
        preferences = text_button(
            "Preferences…", "Device, left and right, units, cache", self, partial(open_preferences, viewer)
        )
        close = text_button("Close", "Close this window (Escape)", self, self.close)
        layout = QVBoxLayout(self)
        layout.addWidget(self.text)
        layout.addLayout(row_of(tour, preferences, close, stretch=(1, 1, 1)))
        self.resize(*_SIZE)
        self.setWindowFlag(Qt.WindowType.WindowContextHelpButtonHint, on=False)

    def show_page(self, name: str) -> None:
        """Show the page of the dock widget of a name."""
        slug = slug_of(name)
        address = f"{SITE}/generated/window/{slug}.html"
        page = page_of(name) or f"# {name}\n\nThere is no page about this panel.\n"
        self.text.setMarkdown(page)
        link = f'<a href="{address}" style="{theme.NOTE_STYLE}">{address}</a>'  # Markdown's are blue on any ground
        self.text.append(f"<br>More, with pictures: {link}")
        self.text.moveCursor(QTextCursor.MoveOperation.Start)
        self.setWindowTitle(f"{name}: help")

    def _follow(self, address: QUrl) -> None:
        """Open an address in the browser, where there is one."""
        if not QDesktopServices.openUrl(address):
            self.text.append("<br>No browser could be opened. Select the address above and copy it (Ctrl+C).")
            self.text.moveCursor(QTextCursor.MoveOperation.End)

    def _tour(self) -> None:
        try:
            start_tour(self._viewer)
        except InvalidInput as error:
            self.text.setPlainText(f"{error}.")
        else:
            self.close()
