"""The single plots of a layered result: each with its choice, its curves and its empty state."""

from typing import Any

import numpy as np
from qtpy.QtWidgets import QWidget

from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.summary import (
    Curve,
    angle_curves,
    broad_beam_curve,
    depth_curve,
    escape_curves,
    radial_curve,
)
from napari_gpubio.light.gui.displayed import Displayed
from napari_gpubio.light.gui.plots_axes import Pane
from napari_gpubio.optics.estimates import MAX_ERROR

EMPTY = "No result yet: press Run."
NO_MAP = "This result has no absorption map: tick it under Run, and run again."
NOTHING = "Nothing escaped on any side."
TOO_FEW = f"seen by too few photons (error above {MAX_ERROR:.0%})"
BROAD, AT_RADIUS = "broad beam", "at radius"
Curves = tuple[Curve, ...]
LayerDisplay = Displayed[LayeredResult]


class LayerPane(Pane):
    """A plot of a layered result; a subclass gives its title and the curves."""

    empty = EMPTY
    needs_map = False
    curves: Curves = ()

    def read(self, displayed: LayerDisplay) -> tuple[Curves, str]:
        """Return the curves of a result and a remark on them; `InvalidInput` if it has none."""
        raise NotImplementedError

    def draw_more(self, displayed: LayerDisplay) -> None:
        """Draw what belongs to the curves."""

    def draw(self, displayed: LayerDisplay) -> str:
        """Draw the curves and what belongs to them."""
        if self.needs_map and displayed.result.A_rz is None:
            return NO_MAP
        self.curves, remark = self.read(displayed)
        first = self.curves[0]
        alike = len({curve.quantity for curve in self.curves}) == 1
        self.plot.name_axes(first.coordinate_text, first.quantity_text if alike else f"Escaping ({first.unit})")
        self.draw_more(displayed)
        for curve, color in zip(self.curves, theme.CURVES, strict=False):  # few curves, more colors
            if (curve.value > 0).any():
                self._draw_curve(curve, color)
        self.plot.frame(np.append(first.at, 0.0), min(map(_lowest, self.curves)))
        return remark

    def _draw_curve(self, curve: Curve, color: str) -> None:
        """Draw what is known as a line with a band, and what is no more than noise dashed and without one."""
        doubtful = curve.doubtful
        name, known = f"{curve.name} ± standard error", np.where(doubtful, np.nan, curve.value)
        self.plot.add_curve(curve.at, known, error=curve.error, color=color, name=name)
        if doubtful.any():
            with_ends = doubtful | np.append(doubtful[1:], False) | np.append(False, doubtful[:-1])
            noise = np.where(with_ends, curve.value, np.nan)
            self.plot.add_curve(curve.at, noise, color=color, name=f"{curve.name}, {TOO_FEW}", dashed=True)


class DepthPane(LayerPane):
    """Fluence or absorption in depth: of a broad beam, or at a radius."""

    title = "Depth profile"
    needs_map = True

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        tip = "For an infinitely broad beam, or at a distance from the beam axis"
        self._choice = ElidedComboBox(self, entries=(BROAD, AT_RADIUS), tip=tip)
        self.radius = _millimeters("Which radial bin is shown", self)
        for widget in (self._choice, self.radius):
            self.add_choice(widget)
        self.radius.hide()
        self._choice.activated.connect(self._on_chosen)
        self.radius.edited.connect(self._draw_again)

    def choose(self, which: str, r_mm: float = 0.0) -> None:
        """Show a broad beam's profile (`BROAD`), or that at a radius (`AT_RADIUS`)."""
        self._choice.setCurrentText(which)
        self.radius.show_value(r_mm)
        self._on_chosen()

    def draw_more(self, displayed: LayerDisplay) -> None:
        """Mark the layers."""
        medium, depths = displayed.result.medium, self.curves[0].at
        layers = medium.layers_at(depths)
        names = {i: layer.name or f"layer {i + 1}" for i, layer in enumerate(medium.layers)}
        self.plot.add_tissues(depths, layers, names)

    def read(self, displayed: LayerDisplay) -> tuple[Curves, str]:
        """The profile, without a remark."""
        result, options = displayed.result, displayed.options
        if self._choice.currentText() == BROAD:
            return (broad_beam_curve(result, options.quantity),), ""
        return (depth_curve(result, self.radius.value(), options.quantity, options.unit),), ""

    def _on_chosen(self, *_: Any) -> None:
        self.radius.setVisible(self._choice.currentText() != BROAD)
        self._draw_again()


class RadialPane(LayerPane):
    """Fluence or absorption along the radius, at a depth."""

    title = "Radial profile at depth"
    needs_map = True

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.depth = _millimeters("Which depth bin is shown", self)
        self.add_choice(self.depth)
        self.depth.edited.connect(self._draw_again)

    def read(self, displayed: LayerDisplay) -> tuple[Curves, str]:
        """The profile, and in which layer the depth lies."""
        medium, depth = displayed.result.medium, self.depth.value()
        curve = radial_curve(displayed.result, depth, displayed.options.quantity, displayed.options.unit)
        return (curve,), medium.layers[medium.layer_at(depth)].name


class EscapePane(LayerPane):
    """Reflectance and transmittance along the radius."""

    title = "Escaping light by radius"

    def read(self, displayed: LayerDisplay) -> tuple[Curves, str]:
        """The curves, and a remark if nothing escaped."""
        return _with_remark(escape_curves(displayed.result, displayed.options.unit))


class AnglePane(LayerPane):
    """Reflectance and transmittance by angle, beside a surface that reflects as much by the cosine law."""

    title = "Escaping light by angle"

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.plot.legend.setOffset((8, -8))  # where the curves are not: they fall toward 90°

    def read(self, displayed: LayerDisplay) -> tuple[Curves, str]:
        """The curves, and a remark if nothing escaped."""
        return _with_remark(angle_curves(displayed.result))

    def draw_more(self, displayed: LayerDisplay) -> None:
        """Draw the cosine law."""
        at = self.curves[0].at
        lambertian = displayed.result.diffuse_reflectance.value / np.pi * np.cos(np.deg2rad(at))
        if (lambertian > 0).any():
            self.plot.add_curve(at, lambertian, color=theme.CURVES[3], name="Lambertian of the same Rd", dashed=True)


def _millimeters(tip: str, parent: QWidget) -> NumberBox:
    return NumberBox(0.0, 1e6, 0.0, 6, parent, step=0.1, unit="mm", arrows=True, toolTip=tip)


def _lowest(curve: Curve) -> float:
    """The smallest value of a curve that is more than noise."""
    known = (curve.value > 0) & ~curve.doubtful
    return float(np.min(curve.value, where=known, initial=np.inf))


def _with_remark(curves: Curves) -> tuple[Curves, str]:
    """Curves of what escapes, and a sentence if nothing does."""
    return curves, "" if any((curve.value > 0).any() for curve in curves) else NOTHING
