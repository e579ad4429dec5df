"""What the tests of light in layers share: a panel, layers for it, and what a user does."""

from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtWidgets import QCheckBox, QComboBox

from napari_gpubio.core.napari_io import carried
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.gui import LightPanel
from napari_gpubio.optics.model import Layer
from tests.dock_widgets import docked

FEW = 2000  # photons of a run
MEDIUM = LayeredMedium(
    name="two layers",
    layers=(
        Layer(name="top", n=1.4, mua_per_mm=1.0, mus_per_mm=4.0, g=0.5, thickness_mm=0.4),
        Layer(name="bottom", n=1.5, mua_per_mm=0.5, mus_per_mm=2.0, g=0.8, thickness_mm=0.6),
    ),
    n_below=1.33,
)
N, MUA = 1, 2  # columns of the table
SETTINGS = LayeredSettings(photons=FEW, dr_mm=0.05, dz_mm=0.05, radial_bins=40, depth_bins=20, angle_bins=10)


def add_panel(viewer):
    panel = docked(viewer, LightPanel(PublicOnlyProxy(viewer), mode="layers"), "Light transport")
    panel.choose_device("cpu")
    panel.layers.grid_box.set_settings(SETTINGS)
    panel.layers.run_box.set_settings(SETTINGS)
    panel.layers.table.set_medium(MEDIUM)
    panel.show_status("")
    return panel


def picture(viewer):
    """The panel's picture layer."""
    return next((layer for layer in viewer.layers if carried(layer, "panel") == "layered fluence"), None)


def result(viewer):
    layer = picture(viewer)
    return None if layer is None else carried(layer, "result")


def change(panel, column, text):
    """Type into the first layer."""
    panel.layers.table.model.type_in({(0, column): text})


def set_beam(panel, beam):
    """Choose a profile with its radius, or a pencil beam."""
    box = panel.layers.beam_box
    kinds = box.findChild(QComboBox)
    if beam is not None:
        box.radius_box.show_value(beam.radius_mm)
    kinds.setCurrentIndex(kinds.findData("pencil" if beam is None else beam.kind))
    kinds.activated.emit(kinds.currentIndex())


def set_sizes(panel, height_mm, across_mm, width_mm, *, cyclic=False):
    """Type the sizes of a voxel phantom."""
    box = panel.layers.phantom_box
    box.findChild(QCheckBox).setChecked(cyclic)
    for field, value in ((box.height_box, height_mm), (box.across_box, across_mm), (box.width_box, width_mm)):
        field.setValue(value)


def held_run(qtbot, panel, held):
    """Begin a run that is held."""
    panel.run_button.click()
    held.wait(qtbot)
