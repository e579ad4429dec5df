"""Colors on napari's themes: every label and every axis of every dock widget can be read, also after a change."""

import re

import pytest
from napari.settings import get_settings
from napari.utils.theme import get_theme
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QLabel

from napari_gpubio.gui import theme
from napari_gpubio.gui.number_table import Number, NumberTable
from napari_gpubio.gui.plots import ThemedPlot
from tests import panel_walk
from tests.dock_widgets import docked
from tests.gui.counting_panel import CountingPanel

TEXTS = ("ERROR", "WARNING", "MISSING", "NOTE", "GOOD", "MUTED", "TEXT", "ACCENT")
LEAST = 4.5  # contrast of text, as WCAG 2 asks for


@pytest.fixture(autouse=True)
def _dark_again():
    yield
    theme.use("dark")


@pytest.mark.parametrize("name", ["dark", "light", "system"])
def test_texts_can_be_read_on_the_window_and_on_inputs(name):
    theme.use(name)
    colors = get_theme("dark" if name == "system" else name)
    for ground in (colors.background, colors.foreground):
        for text in TEXTS:
            assert theme.contrast(getattr(theme, text), QColor(ground.as_hex()).name()) >= LEAST, text
    assert len({getattr(theme, text) for text in TEXTS}) == len(TEXTS)
    assert theme.STATUS_COLORS["error"] == theme.ERROR
    assert theme.ERROR in theme.ERROR_STYLE


@pytest.mark.parametrize("name", ["dark", "light"])
def test_curves_stand_out_from_the_window(name):
    theme.use(name)
    ground = QColor(get_theme(name).background.as_hex()).name()
    assert all(theme.contrast(color, ground) > 3 for color in theme.CURVES)


def test_contrast_is_that_of_wcag():
    assert theme.contrast("#ffffff", "#000000") == pytest.approx(21)
    assert theme.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_an_unknown_color_is_an_attribute_error():
    with pytest.raises(AttributeError, match="GRUE"):
        theme.GRUE  # noqa: B018 - the access is the test


@pytest.mark.display
@pytest.mark.parametrize("name", panel_walk.PANELS)
def test_every_label_and_axis_can_be_read(window_with_layers, name):
    viewer = window_with_layers
    viewer.theme = "dark"
    with panel_walk.shown_panel(viewer, name) as panel:
        for look, whole in (("dark", True), ("light", True), ("system", False)):
            viewer.theme = look
            pages = panel_walk.pages(panel) if whole else ("as it was left",)
            read = [(page, *one) for page in pages for one in panel_walk.text_contrasts(viewer, panel)]
            panel.show_error("there is no seed")
            read += [("an error", *one) for one in panel_walk.text_contrasts(viewer, panel)]
            assert len(read) > 5
            assert [one for one in read if one[-1] < LEAST] == []


@pytest.mark.display
def test_a_panel_follows_the_theme_of_its_window(viewer, qtbot):
    viewer.theme = "light"
    panel = CountingPanel(viewer)
    rich = QLabel(f"<span style='color:{theme.WARNING}'>●</span> few photons", panel)
    plot, numbers = ThemedPlot(panel), NumberTable(panel)
    legend = plot.addLegend()
    curve = plot.plot([0, 1], [0, 1], pen=theme.CURVES[1], name="a")
    numbers.show_rows([Number(group="g", name="n", text="1", status="error")])
    for part in (rich, plot, numbers):
        panel.inputs.addWidget(part)
    docked(viewer, panel, "counting")
    panel.show_error("there is no seed")
    shown = next(label for label in panel.findChildren(QLabel) if label.text() == "there is no seed")
    light = theme.ERROR
    assert shown.palette().color(shown.foregroundRole()).name() == light
    for now in ("dark", "light", "dark"):
        viewer.theme = now
        assert shown.palette().color(shown.foregroundRole()).name() == theme.ERROR
        assert theme.WARNING in re.findall("#[0-9a-f]{6}", rich.text())
        assert plot.getAxis("left").textPen().color().name() == theme.TEXT
        assert curve.opts["pen"].color().name() == theme.CURVES[1]
        assert f"color:{theme.TEXT};" in legend.items[0][1].item.toHtml()
        assert numbers.topLevelItem(0).child(0).foreground(0).color().name() == theme.ERROR
    assert light != theme.ERROR
    panel.teardown()
    dark = theme.ERROR
    viewer.theme = "light"
    assert dark == theme.ERROR, "a panel that is gone follows no more"


@pytest.mark.display
def test_a_panel_follows_the_settings(viewer, qtbot):
    panel = CountingPanel(viewer)
    docked(viewer, panel, "counting")
    plot = ThemedPlot(panel)
    panel.inputs.addWidget(plot)
    get_settings().appearance.theme = "light"
    assert theme.is_light(viewer.theme)
    assert plot.getAxis("left").textPen().color().name() == QColor(get_theme("light").text.as_hex()).name()
    panel.teardown()
