"""What the tests of the dock widget share: a dose that rises along x, two organs, and what a user does."""

import numpy as np
import pyqtgraph
from PIL import Image

from napari_gpubio.core.napari_io import series_layer
from napari_gpubio.dose import BySpacing, Dose, DvhSettings, LabelStructures, dvh
from napari_gpubio.dose.gui import DosePanel
from napari_gpubio.dose.napari_io import dose_layer, labels_layer
from napari_gpubio.dose.structures import whole_grid
from tests.dock_widgets import docked, error_after_run, press_and_wait, wait_until

SHAPE = (20, 16, 12)
AFFINE = np.array([[-2.0, 0, 0, 40], [0, 2.0, 0, -10], [0, 0, 3.0, 5], [0, 0, 0, 1]])  # LAS
SAGITTAL = np.array([[0, 0, 2.0, 5], [2.0, 0, 0, -7], [0, -2.0, 0, 9], [0, 0, 0, 1]])  # stored axes: y, -z, x
NAMES = {1: "lung", 2: "heart"}
SETTINGS = DvhSettings(sampling=BySpacing(spacing_mm=0.7))  # not chosen from volumes, which painting changes
COLORS = {1: (255, 0, 0), 2: (0, 128, 255)}


def dose_values(shape=SHAPE, scale=1.0):
    """From 1 to 58 Gy along the first axis, and a little along the others."""
    i, j, k = np.indices(shape)
    return (scale * (3.0 * i + 0.05 * j + 0.01 * k + 1.0)).astype(np.float32)


def label_values(shape=SHAPE):
    labels = np.zeros(shape, np.uint8)
    labels[2:9, 2:14, 2:10] = 1
    labels[10:18, 3:12, 3:9] = 2
    return labels


def a_dose(affine=AFFINE, scale=1.0, unit="Gy"):
    return Dose(values=dose_values(scale=scale), affine=affine, unit=unit, name="dose")


def organs(labels=None, affine=AFFINE):
    labels = label_values() if labels is None else labels
    return LabelStructures(labels=labels, affine=affine, structures=NAMES)


def add_panel(viewer):
    panel = docked(viewer, DosePanel(viewer), "Dose-volume histogram")
    panel.choose_device("cpu")
    panel.form.set_value(SETTINGS)
    return panel


class User:
    """What a user does in a viewer with the panel, and reads there."""

    def __init__(self, viewer, panel, qtbot):
        self.viewer, self.panel, self.qtbot = viewer, panel, qtbot

    def add_dose(self, dose=None, **keywords):
        data, keywords, _ = dose_layer(dose or a_dose(), **keywords)
        return self.viewer.add_image(data, **keywords)

    def add_organs(self, structures=None, name="organs"):
        data, keywords, _ = labels_layer(structures or organs(), name, COLORS)
        return self.viewer.add_labels(data, **keywords)

    def add_case(self, affine=AFFINE):
        return self.add_dose(a_dose(affine)), self.add_organs(organs(affine=affine))

    def add_series(self, scales=(1.0, 0.5, 0.25)):
        array = np.stack([dose_values(scale=scale) for scale in scales], -1)
        data, keywords, _ = series_layer(array, AFFINE, "phases", "phase", metadata={"unit": "Gy"})
        return self.viewer.add_image(data, **keywords)

    def choose_two_plans(self, dose):
        """Add the case and a second dose, and choose both; returns the layer of the organs."""
        first, labels = self.add_case()
        second = self.add_dose(dose, name="B")
        self.panel.inputs_box.dose_box.choose(first)
        self.panel.inputs_box.second_box.choose(second)
        return labels

    def run(self):
        press_and_wait(self.qtbot, self.panel, self.panel.run_button)
        self.settle()

    def settle(self):
        """Wait until nothing is under way."""
        wait_until(self.qtbot, lambda: not self.panel.is_busy)

    def type_unit(self, unit):
        self.panel.inputs_box.unit.setText(unit)
        self.panel.inputs_box.unit.editingFinished.emit()

    def scale_doses(self, factor):
        self.panel.scale_box.scale.box.setValue(factor)
        self.settle()

    def prescribe(self, dose):
        self.panel.scale_box.prescription.box.setValue(dose)
        self.settle()

    def choose_columns(self, text):
        self.panel.table.columns.enter(text)
        self.settle()

    def draw_isodose(self):
        self.panel.tools.dose.setChecked(True)
        self.settle()

    def error_after_run(self):
        """The panel's message after Run."""
        return error_after_run(self.qtbot, self.panel)

    def curve(self, name, *, second=False):
        """The histogram that is shown of a structure."""
        return next(one.dvh for one in self.panel.controller.curves if one.dvh.name == name and one.second == second)

    def cells(self, row):
        """Texts of a row of the metrics."""
        table = self.panel.table.table
        return [table.item(row, column).text() for column in range(table.columnCount())]

    @property
    def names(self):
        return [one.dvh.name for one in self.panel.controller.curves]

    @property
    def readout(self):
        return self.panel.tools.readout.text().replace("&nbsp;", " ")


def expected(dose, structures, name="lung"):
    return dvh(dose, structures, SETTINGS, device="cpu")[name]


def whole_dose_dvh(factor=1.0):
    """The histogram of the whole dose."""
    dose = a_dose(scale=factor)
    return dvh(dose, whole_grid(dose.values.shape, dose.affine), SETTINGS, device="cpu").dvhs[0]


def check_same(found, reference):
    np.testing.assert_allclose(found.doses, reference.doses, rtol=1e-12)
    np.testing.assert_allclose(found.volumes_cc, reference.volumes_cc, rtol=1e-12)


def highlighted(layer):
    """Which voxels of the highlight are drawn."""
    low, high = layer.contrast_limits
    with np.errstate(invalid="ignore"):
        shares = np.clip((layer.data - low) / (high - low), 0, 1)
    return (np.asarray(layer.colormap.map(np.nan_to_num(shares)))[..., 3] > 0).reshape(shares.shape) & np.isfinite(
        layer.data
    )


def colors_in(path, columns=slice(None)):
    """The colors in some columns of an image file, as ``#rrggbb``."""
    red, green, blue = np.moveaxis(np.asarray(Image.open(path).convert("RGB"), np.uint32)[::3, columns], -1, 0)
    return {f"#{code:06x}" for code in np.unique(red << 16 | green << 8 | blue).tolist()}


def drawn_items(plot):
    """pyqtgraph's items of the curves of a plot."""
    return [item for item in plot.plotItem.items if type(item) is pyqtgraph.PlotCurveItem]


def drawn_points(plot):
    """Positions and volumes of each curve as it is drawn, with fewer points than it has."""
    return [item.getData() for item in drawn_items(plot)]


def drawn_bands(plot):
    """Positions and volumes of both borders of each band, or None where none is drawn."""
    bands = [item for item in plot.plotItem.items if isinstance(item, pyqtgraph.FillBetweenItem)]
    return [tuple(side.getData() for side in band.curves) if band.isVisible() else None for band in bands]
