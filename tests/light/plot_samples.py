"""What the tests of plots share: what is drawn, and a line that is drawn by hand."""

import numpy as np
import pyqtgraph

from napari_gpubio.core.space import world_to_viewer


def drawn_curves(plot):
    """Curves by their legend: x and y as drawn, back from the logarithm."""
    items = [item for item in plot.getPlotItem().items if isinstance(item, pyqtgraph.PlotDataItem)]
    return {item.name(): (item.xData, 10.0**item.yData) for item in items}


def close(found, expected):
    """Whether a curve is as expected, with gaps where it is not positive."""
    return np.allclose(found, np.where(expected > 0, expected, np.nan), rtol=1e-6, equal_nan=True)


def axis_texts(plot):
    return [plot.getAxis(side).label.toolTip() for side in ("bottom", "left")]


def draw(viewer, result, start_mm, end_mm):
    """What drawing with the mouse does: a line in the layer, given in world mm."""
    layer = viewer.layers["profile line"]
    ends = world_to_viewer([start_mm, end_mm])
    layer.add_lines(np.array([[layer.world_to_data(end) for end in ends]]))
    return layer
