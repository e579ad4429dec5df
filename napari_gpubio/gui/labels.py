"""Labels and tips that show names as they are; those of layers and files may look like markup, which Qt follows."""

import html
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel  # noqa: TID251 - this is the place


class Label(QLabel):
    """A label whose text is shown letter by letter; arguments as of Qt's."""

    def __init__(self, *arguments: Any, **properties: Any) -> None:
        super().__init__(*arguments, **properties)
        self.setTextFormat(Qt.TextFormat.PlainText)


class RichLabel(QLabel):
    """A label of markup: names in it go through `html.escape`."""

    def __init__(self, *arguments: Any, **properties: Any) -> None:
        super().__init__(*arguments, **properties)
        self.setTextFormat(Qt.TextFormat.RichText)


def tip_of(text: str) -> str:
    """Return a tip that shows a text with names letter by letter; Qt has no plain ones, it guesses."""
    return f"<p style='white-space: pre-wrap'>{html.escape(text)}</p>" if Qt.mightBeRichText(text) else text
