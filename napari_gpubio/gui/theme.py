"""Every color of the dock widgets. Those that lie on the window are made from the colors of napari's theme."""

import functools
import re
from collections.abc import Mapping
from typing import Any

from qtpy.QtGui import QColor
from qtpy.QtWidgets import QLabel, QWidget  # noqa: TID251 - also those of others

# -- on the window: `theme.ERROR` is the color on the theme in use -----------------------------------------------------

_READABLE = 4.6  # contrast of text with what it lies on; WCAG 2 asks for 4.5
_TEXT_SHARE_STEP = 0.04
# What a color begins with, a name in napari's themes or a color; as much of the text's is mixed in as it needs.
_TEXTS = {
    "ERROR": "error",
    "WARNING": "warning",
    "MISSING": "#d6942a",  # an input that is still needed
    "NOTE": "current",
    "GOOD": "#2fb868",
    "MUTED": "background",  # what is secondary: hints, units, empty states
    "ACCENT": "#2aa5d0",  # a single curve, a bar, a line that the user draws
}
_MIN_TEXT = {"ERROR": 0.25, "NOTE": 0.3, "MUTED": 0.7}  # the least share of text
_LABEL_OPACITY = "99"  # behind labels and legends that lie on curves
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
    colors = _colors(_in_use())
    if name in colors:
        return colors[name]
    if name in _STYLES:
        return text_style(colors[_STYLES[name]], bold=name == "ERROR_STYLE")
    if name == "STATUS_COLORS":
        return {"ok": colors["GOOD"], "warning": colors["WARNING"], "error": colors["ERROR"]}
    if name == "CURVES":
        return _CURVES[is_light(_in_use())]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_chosen: list[str] = []  # the theme of the window in front, or with the newest panel; none: that of the settings


def use(name: str) -> None:
    """Take the colors for one of napari's themes."""
    _chosen[:] = [name]


def _in_use() -> str:
    if not _chosen:
        from napari.settings import get_settings

        return str(get_settings().appearance.theme)
    return _chosen[0]


def is_light(name: str) -> bool:
    """Whether a theme of napari has a light background."""
    return QColor(*_napari_colors(name, ("background",))[0]).lightness() > 127


def _napari_colors(name: str, which: tuple[str, ...]) -> list[tuple[int, ...]]:
    from napari.utils.theme import get_system_theme, get_theme

    theme = get_theme(get_system_theme() if name == "system" else name)
    return [getattr(theme, color).as_rgb_tuple()[:3] for color in which]


_BASES = ("text", "background", "foreground", "error", "current", "warning")


def _colors(name: str) -> dict[str, str]:
    """Return the colors on a theme, which the user may have edited."""
    return _made_from(name, tuple(_napari_colors(name, _BASES)))


@functools.lru_cache(maxsize=16)
def _made_from(_name: str, bases: tuple[tuple[int, ...], ...]) -> dict[str, str]:
    named = {base: QColor(*color).name() for base, color in zip(_BASES, bases, strict=True)}
    text, grounds = named["text"], (named["background"], named["foreground"])
    colors = {
        name: readable(named.get(base, base), text, grounds, least=_MIN_TEXT.get(name, 0.0))
        for name, base in _TEXTS.items()
    }
    return colors | {"TEXT": text, "PLOT_BACKGROUND": named["background"] + _LABEL_OPACITY}


def readable(color: str, text: str, grounds: tuple[str, ...], *, least: float = 0.0) -> str:
    """Mix as much of a theme's text color into a color as makes it readable on every one of some grounds."""
    share = least
    while share < 1.0 and min(contrast(mixed(color, text, share), ground) for ground in grounds) < _READABLE:
        share += _TEXT_SHARE_STEP
    return mixed(color, text, min(share, 1.0))


def mixed(color: str, other: str, share: float) -> str:
    """Return a color with a share (0 to 1) of another one."""
    first, second = (QColor(one).getRgb()[:3] for one in (color, other))
    return QColor(*(round(a + (b - a) * share) for a, b in zip(first, second, strict=True))).name()


def contrast(color: str, ground: str) -> float:
    """Return the contrast of two colors as WCAG 2 defines it, 1 to 21."""
    low, high = sorted(map(_luminance, (color, ground)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    shares = [share / 255 for share in QColor(color).getRgb()[:3]]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def restyle(part: QWidget, before: str) -> None:
    """Give a part, and all in it, the colors of the theme in use instead of those of another theme.

    Colors in style sheets and in texts of labels are exchanged; a widget that keeps colors elsewhere has a method
    ``recolor``, which takes the new colors by the old ones.
    """
    old, new = ([*_colors(name).values(), *_CURVES[is_light(name)]] for name in (before, _in_use()))
    swap = dict(zip(old, new, strict=True))
    colors = re.compile("|".join(sorted(swap, key=len, reverse=True)))
    for widget in (part, *part.findChildren(QWidget)):
        sheet = swapped(colors, swap, widget.styleSheet())
        if sheet != widget.styleSheet():
            widget.setStyleSheet(sheet)
        if isinstance(widget, QLabel) and colors.search(widget.text()):
            widget.setText(swapped(colors, swap, widget.text()))
        if hasattr(widget, "recolor"):
            widget.recolor(swap)


def swapped(colors: re.Pattern[str], swap: Mapping[str, str], text: str) -> str:
    """Exchange colors in a text."""
    return colors.sub(lambda found: swap[found.group()], text)


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
