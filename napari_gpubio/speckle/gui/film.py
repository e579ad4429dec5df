"""From a layer of maps to a video of it."""

from pathlib import Path
from typing import Any

import numpy as np
from qtpy.QtWidgets import QFileDialog, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.speckle.gui.offline import Done
from napari_gpubio.speckle.gui.video import Film, has_mp4
from napari_gpubio.speckle.gui.words import LIVE_MAP, PANEL

NO_MAP = "there is no map yet; run the stack first"
NOT_A_FILM = (
    "the live map is a single picture; record the frames, open the recording, run the stack, and make the video of its "
    "maps"
)
ONE_PICTURE = "{} is a single picture; choose the maps of a stack, which follow each other"
_COLORS = 254
_KINDS = ("Animated GIF (*.gif)", "Pictures, PNG (*.png)")
_MP4 = "Video, mp4 (*.mp4)"


def film_of(layer: Any | None, done: Done | None, rate_hz: float) -> Film:
    """Take down the video of a layer of maps, with the limits and colors that it has.

    Parameters
    ----------
    layer
        The maps, or None.
    done
        The last run, which knows the times of its maps.
    rate_hz
        Maps per second of the video.

    Raises
    ------
    InvalidInput
        If there is no map, or but a single one.
    """
    if layer is None or layer.ndim < 3:
        raise InvalidInput(_why_not(layer))
    is_of_run = done is not None and done.request.name == carried(layer, "source") and len(done.maps) == len(layer.data)
    return Film(
        maps=layer.data,
        limits=tuple(float(limit) for limit in layer.contrast_limits),
        colors=np.asarray(layer.colormap.map(np.linspace(0, 1, _COLORS)))[:, :3],
        title=str(carried(layer, "title")),
        times_s=done.times_s if done is not None and is_of_run else None,
        rate_hz=rate_hz,
    )


def _why_not(layer: Any | None) -> str:
    if layer is None:
        return NO_MAP
    return NOT_A_FILM if carried(layer, PANEL) == LIVE_MAP else ONE_PICTURE.format(repr(layer.name))


def ask_for_path(parent: QWidget) -> Path | None:
    """Ask where a video is to be written, and as what."""
    kinds = (_MP4, *_KINDS) if has_mp4() else (*_KINDS, _MP4)  # without its package mp4 is told how to get it
    chosen, kind = QFileDialog.getSaveFileName(parent, "Write a video of the map", "speckle", ";;".join(kinds))
    if not chosen:
        return None
    path = Path(chosen)
    return path if path.suffix else path.with_suffix("." + kind.split("*.")[1][:-1])
