"""Lines, layers and pictures of them for the tests of the streamlines layer."""

import numpy as np

from napari_gpubio.gui.lines.paint import unpack_rgb
from napari_gpubio.gui.streamlines import Streamlines

RED, GREEN, BLUE = [255, 0, 0], [0, 255, 0], [0, 0, 255]


def cross(**options):
    """Three fibers of 21 points through (10, 10, 10): along x (red), y (green) and z (blue)."""
    points = np.full((3, 21, 3), 10.0)
    for fiber, axis in enumerate((2, 1, 0)):
        points[fiber, :, axis] = np.arange(21)
    options.setdefault("per_fiber", {"number": [0.0, 1.0, 2.0]})
    options.setdefault("per_point", {"place": np.tile(np.arange(21), 3)})
    return Streamlines(points.reshape(-1, 3), [0, 21, 42, 63], **options)


def colors(layer):
    return unpack_rgb(layer.lines.vertices[:, 3])


def calls(emitter):
    events = []
    emitter.connect(events.append)
    return events


def seen(viewer, *, legends=False):
    """The picture on the canvas, without what the corner says about the colors."""
    for layer in viewer.layers:
        if isinstance(layer, Streamlines):
            layer.legend = legends
    return viewer.screenshot(flash=False)[..., :3].astype(int)


def count(picture, rgb):
    """Pixels in which only the channels of ``rgb`` are lit."""
    lit = picture > 40
    return int((lit == (np.array(rgb) > 0)).all(axis=-1).sum())
