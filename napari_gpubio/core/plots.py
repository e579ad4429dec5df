"""Figures of matplotlib of what results say of themselves."""

from functools import singledispatch
from typing import Any

import numpy as np

from napari_gpubio.core.describe import Curves, Lines, Matrix, Slices, items_of
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.pictures import (
    COLORS,
    VIEWS,
    few_lines,
    has_picture,
    label_colors,
    limits_of,
    planes_of,
    scaled,
)
from napari_gpubio.core.submodules import extra
from napari_gpubio.core.text import words_of

_AXES = "xyz"
_PANEL_INCHES = 3.4


def plotted(value: Any) -> Any:
    """Return a figure of a result, a row for each picture of its description; see `Described.plot`."""
    pyplot = extra("matplotlib.pyplot", "plot", "plot")
    items: list[Any] = [one for one in items_of(value) if has_picture(one)]
    if not items:
        raise InvalidInput(f"nothing of the {words_of(type(value))} can be drawn")
    size = 3 * _PANEL_INCHES, _PANEL_INCHES * len(items)
    figure = pyplot.figure(figsize=size, layout="constrained")
    for part, item in zip(figure.subfigures(len(items), 1, squeeze=False)[:, 0], items, strict=True):
        part.suptitle(item.name)
        draw(item, part)
    return figure


def _labeled(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


@singledispatch
def draw(item: Any, part: Any) -> None:  # noqa: ARG001 - of those that can be drawn
    """Draw an item of a description in a part of a figure."""
    raise TypeError(f"there is no picture of {type(item).__name__}")


@draw.register
def _(item: Slices, part: Any) -> None:
    planes = [*planes_of(item)]
    is_plain = item.style in ("labels", "color")
    low, high = (0.0, 1.0) if item.style == "labels" else limits_of(planes, item.style)
    shown = None
    for axes, plane in zip(np.ravel(part.subplots(1, len(planes), squeeze=False)), planes, strict=True):
        values = label_colors(plane.values) if item.style == "labels" else scaled(plane.values, item.style)
        values = np.clip(values / high, 0, 1) if item.style == "color" else values
        how = {"vmin": low, "vmax": high, "cmap": "gray" if item.style == "gray" else "inferno"}
        shown = axes.imshow(values, extent=plane.extent, **how)
        axes.set(xlabel=f"{_AXES[plane.axes[0]]} (mm)", ylabel=f"{_AXES[plane.axes[1]]} (mm)")
    if not is_plain:
        what = f"log10 {item.name}" if item.style == "log" else item.shown_as or item.name
        part.colorbar(shown, ax=part.axes, label=_labeled(what, item.unit))


@draw.register
def _(item: Lines, part: Any) -> None:
    from matplotlib.collections import LineCollection

    lines = [*few_lines(item)]
    ways = [np.abs(line[-1] - line[0]) for line in lines]
    colors = [way / max(float(way.max()), 1e-9) for way in ways]
    for axes, view in zip(part.subplots(1, len(VIEWS)), VIEWS, strict=True):
        across, up = view
        axes.add_collection(LineCollection([line[:, view] for line in lines], colors=colors, linewidths=0.5))
        axes.autoscale()
        axes.set(xlabel=f"{_AXES[across]} (mm)", ylabel=f"{_AXES[up]} (mm)", aspect="equal")


@draw.register
def _(item: Curves, part: Any) -> None:
    axes = part.subplots()
    for n, line in enumerate(item.lines):
        y, color = np.asarray(line.y, float), COLORS[n % len(COLORS)]
        axes.plot(line.x, y, color=color, label=line.name)
        if line.error is not None:
            axes.fill_between(line.x, y - line.error, y + line.error, color=color, alpha=0.25, lw=0)
    axes.set(xlabel=_labeled(*item.x), ylabel=_labeled(*item.y), yscale="log" if item.log else "linear")
    axes.legend()


@draw.register
def _(item: Matrix, part: Any) -> None:
    axes = part.subplots()
    shown = axes.imshow(item.values, cmap="inferno")
    axes.set_xticks(range(len(item.columns)), item.columns, rotation=90, fontsize="xx-small")
    axes.set_yticks(range(len(item.rows)), item.rows, fontsize="xx-small")
    part.colorbar(shown, ax=axes, label=_labeled(item.name, item.unit))
