"""Colors on napari's dark and light themes."""

import pytest
from napari.utils.theme import get_theme
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QLabel

from napari_gpubio.gui import theme
from tests.dock_widgets import docked
from tests.gui.counting_panel import CountingPanel

ON_THE_WINDOW = ("ERROR", "WARNING", "MISSING", "NOTE", "GOOD", "MUTED", "TEXT", "ACCENT")


@pytest.fixture(autouse=True)
def _dark_again():
    yield
    theme.use("dark")


def luminance(color):
    """Relative luminance as WCAG 2 defines it."""
    shares = [getattr(QColor(color), f"{name}F")() for name in ("red", "green", "blue")]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["dark", "light"])
def test_colors_stand_out_from_the_window(name):
    theme.use(name)
    ground = luminance(get_theme(name).background.as_hex())
    for color in (*(getattr(theme, one) for one in ON_THE_WINDOW), *theme.CURVES):
        high, low = sorted((luminance(color), ground), reverse=True)
        assert (high + 0.05) / (low + 0.05) > 3.7, color
    assert theme.STATUS_COLORS["error"] == theme.ERROR
    assert theme.ERROR in theme.ERROR_STYLE


def test_an_unknown_color_is_an_attribute_error():
    with pytest.raises(AttributeError, match="GRUE"):
        theme.GRUE  # noqa: B018 - the access is the test


@pytest.mark.display
def test_a_panel_follows_the_theme_of_its_window(viewer, qtbot):
    viewer.theme = "light"
    panel = CountingPanel(viewer)
    rich = QLabel(f"<span style='color:{theme.WARNING}'>●</span> few photons", panel)
    panel.inputs.addWidget(rich)
    docked(viewer, panel, "counting")
    panel.show_error("there is no seed")
    shown = next(label for label in panel.findChildren(QLabel) if label.text() == "there is no seed")
    light = theme.ERROR
    assert shown.palette().color(shown.foregroundRole()).name() == light
    viewer.theme = "dark"
    assert light != theme.ERROR
    assert shown.palette().color(shown.foregroundRole()).name() == theme.ERROR
    assert theme.WARNING in rich.text()
    panel.teardown()
    viewer.theme = "light"
    assert light != theme.ERROR, "a panel that is gone follows no more"
