"""Overlays of our own on napari's canvas; their visuals go into a table that napari keeps private."""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

logger = logging.getLogger(__name__)
Visuals = Callable[[], Mapping[type[Any], type[Any]]]


@functools.cache
def can_draw(what: str, make_visuals: Visuals) -> bool:
    """Let napari draw overlays; returns whether it can, and logs once why not.

    Parameters
    ----------
    what
        The overlays in words, for the log: "the letters".
    make_visuals
        Returns the visual of each class of overlays. It imports classes of napari's that other versions may not have.
    """
    try:
        from napari._vispy.utils.visual import overlay_to_visual

        overlay_to_visual.update(make_visuals())
    except (ImportError, AttributeError, TypeError) as error:  # what comes where napari's internals are others
        logger.warning("%s cannot be drawn: %s", what, error)
        return False
    return True
