"""A sixth engine in twenty lines: keep the voxels of an image that are bright; and what is tried with it."""

from dataclasses import dataclass

import numpy as np

from napari_gpubio.core.napari_io import volume_layer, volume_of
from napari_gpubio.core.operations import Operation, Ref, Settings, Volume, given, part
from napari_gpubio.core.parameters import param
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.operation_panel import OperationPanel
from tests.dock_widgets import press_and_wait


@dataclass(frozen=True)
class Absolute(Settings):
    """A value."""

    value: float = param(0.5, "Value", "Voxels above it are kept.", minimum=-1e6, maximum=1e6)


@dataclass(frozen=True)
class Share(Settings):
    """A share of the largest value."""

    percent: float = param(50.0, "Share", "Of the largest value.", unit="%", minimum=0.0, maximum=100.0)


@dataclass(frozen=True, kw_only=True)
class Threshold(Operation, verb="threshold", makes={"kept": Volume, "dropped": Volume}):
    """Keep the voxels of an image that are bright."""

    image: Ref[Volume] = given("Image", "Image to threshold.")
    mask: Ref[Volume] | None = given("Mask", "Where.", optional=True)
    level: Absolute | Share = part("Level", "From where on.", default=Absolute())
    fill: float = param(0.0, "Fill", "Value of the others.")

    def steps(self, data, *, device, stop):
        yield Step(0, 1, "thresholding")
        image, level = data.image.array, self.level
        above = image >= (level.value if isinstance(level, Absolute) else level.percent / 100 * image.max())
        above &= True if data.mask is None else data.mask.array != 0
        kept, dropped = (data.image.like(np.where(one, image, self.fill)) for one in (above, ~above))
        return Kept(kept, dropped)


@dataclass(frozen=True)
class Kept:
    """What threshold makes."""

    kept: Volume
    dropped: Volume


class ThresholdPanel(OperationPanel):
    """Its dock widget."""

    of = Threshold


AFFINE = np.diag([2.0, 1.0, 1.0, 1.0])
VALUES = np.random.default_rng(0).random((6, 5, 4)).astype(np.float32)


def add(viewer, values=VALUES, name="t1", **keywords):
    data, keywords, _ = volume_layer(values, AFFINE, name, **keywords)
    return viewer.add_image(data, **keywords)


def use(panel, **values):
    for name, value in values.items():
        panel.form.settings.widget(name).value = value


def run(qtbot, panel, **values):
    history_of(panel.viewer).note_act()
    use(panel, **values)
    press_and_wait(qtbot, panel, panel.run_button)


def kept(panel):
    return volume_of(panel.layer_of("kept"))
