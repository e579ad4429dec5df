"""Every color of the dock widgets, chosen to be readable on napari's dark and light themes."""

from qtpy.QtGui import QColor

ERROR = "#ff6b5e"
WARNING = "#ffb347"
MISSING = "#d6942a"  # an input that is still needed
NOTE = "#8fb3d9"
GOOD = "#3ddc84"
MUTED = "#9a9da5"  # what is secondary: hints, units, empty states
TEXT = "#a8adb3"  # text and axes of plots on screen
PRINT_TEXT = "#222222"  # text and axes of figures on white
PLOT_BACKGROUND = "#26293099"  # behind labels and legends that lie on curves
ACCENT = "#4cc9f0"  # a single curve, a bar, a line that the user draws
SOURCE = "#ffd23f"
DETECTOR = "#35d0ff"
SELECTED = "#2dffb2"  # what a plot highlights in the image, and the line in the plot that does
EVENT = "#fff176"
WHITE = "#ffffff"
MARKER_BORDER = "#000000"
INVALID_INPUT = "#8a3a34"  # the background of an input that holds nonsense
STATUS_COLORS = {"ok": GOOD, "warning": WARNING, "error": ERROR}
TRANSPARENT = "#00000000"
TABLE_LINE, TABLE_HEADER = "rgba(128, 128, 128, 60)", "rgba(128, 128, 128, 45)"

# Curves that color-blind people can distinguish (Okabe and Ito, lighter where the ground is dark).
CURVES = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#9f9fff")
# Bundles and regions, which lie on gray images.
REGIONS = ("#ffd166", "#06d6a0", "#ef476f", "#4cc9f0", "#f78c6b", "#b388eb", "#c0ca33", "#ffffff")


def text_style(color: str, *, bold: bool = False) -> str:
    """Return a style sheet for a label."""
    return f"color: {color};" + (" font-weight: 600;" if bold else "")


def translucent(color: str, alpha: int) -> QColor:
    """Return a color that lets the ground through; ``alpha`` is 0 to 255."""
    shade = QColor(color)
    shade.setAlpha(alpha)
    return shade


ERROR_STYLE = text_style(ERROR, bold=True)
NOTE_STYLE = text_style(NOTE)
MUTED_STYLE = text_style(MUTED)
MISSING_STYLE = text_style(MISSING)


def border_style(color: str) -> str:
    """Return a style sheet that draws a border around a line edit."""
    return f"QLineEdit {{ border: 1px solid {color}; }}"
