"""Fixtures of the tests of the dock widget "Light transport": the panel, its table of properties, its plots."""

import pytest

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.light.napari_io import labels_layer
from napari_gpubio.light.settings import LightCase
from napari_gpubio.optics.gui.property_table import PropertyTable
from tests.dock_widgets import until_the_end
from tests.light.gui import panel_samples
from tests.light.gui.panel_samples import LEFT, add_ball, add_panel, ball, go_to, held_in_voxels, settle
from tests.light.gui.property_samples import COLORS, medium
from tests.light.result_samples import sample_result


@pytest.fixture
def empty(viewer, qtbot):
    """A panel in an empty viewer."""
    yield from until_the_end(qtbot, viewer, add_panel(viewer))


@pytest.fixture
def panel(viewer, empty, qtbot):
    """A panel with the labels of a ball."""
    add_ball(viewer)
    settle(qtbot, empty)
    return empty


@pytest.fixture
def shown(panel, qtbot):
    """A panel with the quick run of a source on the left."""
    panel.voxels.place_source(LEFT)
    settle(qtbot, panel)
    return panel


@pytest.fixture
def held(monkeypatch):
    """Holds every run back until ``go`` is set."""
    yield from held_in_voxels(monkeypatch).until_the_end()


@pytest.fixture
def placed(viewer, panel):
    """A source on the left, shown in its slice, and nothing that runs by itself."""
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    go_to(viewer, panel.voxels.controller.optodes.source.position_mm)
    return panel


@pytest.fixture
def empty_table(qtbot):
    """A table of properties by itself, which keeps what it tells."""
    table = PropertyTable()
    qtbot.addWidget(table)
    table.resize(380, 400)
    table.show()
    table.selected, table.heard = [], []
    table.label_selected.connect(table.selected.append)
    table.changed.connect(lambda: table.heard.append(True))
    return table


@pytest.fixture
def table(empty_table):
    """Three labels, of which 1 and 2 are filled."""
    empty_table.set_labels([1, 2, 3], COLORS)
    empty_table.set_media([medium(1, "scalp"), medium(2)])
    empty_table.heard.clear()
    return empty_table


@pytest.fixture(scope="module")
def result():
    """A result with two detectors, for plots."""
    return sample_result((40, 40, 24), detectors=(8.0, 14.0))


@pytest.fixture
def open_mcx(viewer, empty, qtbot):
    """A function that adds labels with a case of MCX, and returns the result of its quick run."""

    def opened(source, settings, detectors=()):
        case = LightCase(
            domain=ball(), source=source, settings=settings, detectors=detectors, notes=("A note.",), name="case"
        )
        data, keywords, _ = labels_layer(case.domain, "case")
        keywords["metadata"][KEY]["case"] = case
        viewer.add_labels(data, **keywords)
        settle(qtbot, empty)
        return panel_samples.result(viewer)

    return opened
