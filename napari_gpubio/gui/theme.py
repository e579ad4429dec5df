"""Every color of the dock widgets. Those that lie on the window are different on napari's dark and light themes."""

import functools
import re
from typing import Any

from qtpy.QtGui import QColor
from qtpy.QtWidgets import QLabel, QWidget

# -- on the window: on a dark theme, on a light one; `theme.ERROR` is the color on the theme in use --------------------

_PAIRS = {
    "ERROR": ("#ff6b5e", "#c0271a"),
    "WARNING": ("#ffb347", "#a05a00"),
    "MISSING": ("#d6942a", "#8a6100"),  # an input that is still needed
    "NOTE": ("#8fb3d9", "#2f6496"),
    "GOOD": ("#3ddc84", "#15803d"),
    "MUTED": ("#9a9da5", "#62666e"),  # what is secondary: hints, units, empty states
    "TEXT": ("#a8adb3", "#4b4f56"),  # text and axes of plots on screen
    "PLOT_BACKGROUND": ("#26293099", "#f4f1f099"),  # behind labels and legends that lie on curves
    "ACCENT": ("#4cc9f0", "#0b7a9e"),  # a single curve, a bar, a line that the user draws
}
# Curves that color-blind people can distinguish (Okabe and Ito, lighter where the ground is dark).
_CURVES = (
    ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#9f9fff"),
    ("#0069a8", "#a86400", "#00795a", "#a8497f", "#7d7500", "#b04900", "#5a4fcf"),
)
_STYLES = {"ERROR_STYLE": "ERROR", "NOTE_STYLE": "NOTE", "MUTED_STYLE": "MUTED", "MISSING_STYLE": "MISSING"}

# -- on images, on paper, or with a ground of their own ----------------------------------------------------------------

PRINT_TEXT = "#222222"  # text and axes of figures on white
SOURCE = "#ffd23f"
DETECTOR = "#35d0ff"
SELECTED = "#2dffb2"  # what a plot highlights in the image, and the line in the plot that does
EVENT = "#fff176"
WHITE = "#ffffff"
MARKER_BORDER = "#000000"
INVALID_INPUT = "#8a3a34"  # the background of an input that holds nonsense
TRANSPARENT = "#00000000"
CROSSHAIR = (1.0, 0.85, 0.2, 0.8)
DIRECTIONS = ((0.35, 0.55, 1.0), (0.2, 0.85, 0.2), (1.0, 0.3, 0.25))  # z, y, x, as fibers are colored, but readable
TABLE_LINE, TABLE_HEADER = "rgba(128, 128, 128, 60)", "rgba(128, 128, 128, 45)"
# Bundles and regions, which lie on gray images.
REGIONS = ("#ffd166", "#06d6a0", "#ef476f", "#4cc9f0", "#f78c6b", "#b388eb", "#c0ca33", "#ffffff")


def __getattr__(name: str) -> Any:
    """Return a color, or what is made from it, on the theme in use."""
    light = _in_use()
    if name in _PAIRS:
        return _PAIRS[name][light]
    if name in _STYLES:
        return text_style(_PAIRS[_STYLES[name]][light], bold=name == "ERROR_STYLE")
    if name == "STATUS_COLORS":
        return {"ok": _PAIRS["GOOD"][light], "warning": _PAIRS["WARNING"][light], "error": _PAIRS["ERROR"][light]}
    if name == "CURVES":
        return _CURVES[light]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_chosen: list[str] = []  # the theme of the viewer with the newest panel; none: that of the settings


def use(name: str) -> None:
    """Take the colors for one of napari's themes."""
    _chosen[:] = [name]


def _in_use() -> bool:
    """Whether the theme in use is a light one."""
    if not _chosen:
        from napari.settings import get_settings

        return is_light(get_settings().appearance.theme)
    return is_light(_chosen[0])


@functools.cache
def is_light(name: str) -> bool:
    """Whether a theme of napari has a light background."""
    from napari.utils.theme import get_system_theme, get_theme

    return bool(
        QColor(get_theme(get_system_theme() if name == "system" else name).background.as_hex()).lightness() > 127
    )


def restyle(part: QWidget) -> None:
    """Give style sheets and texts of a part, and of all in it, the colors of the theme in use."""
    light = _in_use()
    pairs = [*_PAIRS.values(), *zip(*_CURVES, strict=True)]
    swap = {pair[not light]: pair[light] for pair in pairs}
    colors = re.compile("|".join(swap))
    for widget in (part, *part.findChildren(QWidget)):
        sheet = colors.sub(lambda found: swap[found.group()], widget.styleSheet())
        if sheet != widget.styleSheet():
            widget.setStyleSheet(sheet)
        if isinstance(widget, QLabel) and colors.search(widget.text()):
            widget.setText(colors.sub(lambda found: swap[found.group()], widget.text()))


def text_style(color: str, *, bold: bool = False) -> str:
    """Return a style sheet for a label."""
    return f"color: {color};" + (" font-weight: 600;" if bold else "")


def border_style(color: str) -> str:
    """Return a style sheet that draws a border around a line edit."""
    return f"QLineEdit {{ border: 1px solid {color}; }}"


def translucent(color: str, alpha: int) -> QColor:
    """Return a color that lets the ground through; ``alpha`` is 0 to 255."""
    shade = QColor(color)
    shade.setAlpha(alpha)
    return shade
