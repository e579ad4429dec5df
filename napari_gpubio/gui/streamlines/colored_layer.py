"""The part of a streamlines layer that is about colors: its settings, and what happens when one changes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.gui.lines import DIRECTION, Lines, Paint, painted
from napari_gpubio.gui.lines.paint import unpack_rgb
from napari_gpubio.gui.streamlines.coloring import Coloring


class ColoredLayer:
    """Color properties of a layer that has lines, a `Coloring`, events and a transform."""

    lines: Lines
    _coloring: Coloring
    _ready: bool

    @property
    def color_choices(self) -> list[str]:
        """What `color_by` can be."""
        return self._coloring.choices(self.lines)

    @property
    def properties_to_color_by(self) -> list[str]:
        """Same as `color_choices`; napari's own controls ask for it."""
        return self.color_choices if self._ready else ["track_id"]

    @property
    def color_by(self) -> str:
        """What colors the lines: ``'direction'``, ``'uniform'``, or the name of a number."""
        return self._coloring.color_by if self._ready else self._color_by

    @color_by.setter
    def color_by(self, choice: str) -> None:
        if self._ready:
            self._coloring.choose(choice, self.lines)
            self._recolor_tracks()

    @property
    def color(self) -> npt.NDArray[np.float32]:
        """Color for ``'uniform'``, RGB from 0 to 1; any napari color can be set."""
        return self._coloring.color

    @color.setter
    def color(self, color: Any) -> None:
        self._coloring.color = color
        self._recolor_tracks()

    @property
    def colormap(self) -> str:
        """Name of the colormap for numbers; any napari colormap can be set."""
        return self._coloring.colormap.name if self._ready else self._colormap

    @colormap.setter
    def colormap(self, colormap: Any) -> None:
        if self._ready:
            self._coloring.colormap = colormap
            self._recolor_tracks()
            self.events.colormap()

    @property
    def contrast_limits(self) -> tuple[float, float] | None:
        """Values at the ends of the colormap, None if no number colors the lines; None sets automatic limits."""
        return self._coloring.limits(self.lines)

    @contrast_limits.setter
    def contrast_limits(self, limits: tuple[float, float] | None) -> None:
        self._coloring.set_limits(limits, self.lines)
        self._recolor_tracks()

    @property
    def color_bar_limits(self) -> tuple[float, float] | None:
        """Values at the ends of a color bar, None if no number colors the lines."""
        return self.contrast_limits

    def color_bar_image(self, height: int, width: int) -> npt.NDArray[np.uint8] | None:
        """Picture of the color bar, shape (height, width, 4), RGBA; None if no number colors the lines.

        The lower limit is at the bottom of an upright bar and at the left of a lying one.
        """
        return None if self.contrast_limits is None else self._coloring.bar(height, width)

    @property
    def track_colors(self) -> npt.NDArray[np.float32]:
        """RGBA of each point, 0 to 1, shape (P, 4); a copy."""
        rgb = unpack_rgb(self.lines.vertices[:, 3]) / np.float32(255)
        return np.column_stack([rgb, np.ones(len(rgb), np.float32)])

    @property
    def paint(self) -> Paint:
        """How the lines are colored, for `pack_lines` in a worker thread."""
        return self._coloring.paint(self.data_to_world_matrix()[0])

    def _paint(self) -> None:
        self._manager.lines = painted(self.lines, self.paint)

    def _recolor_tracks(self) -> None:
        if self._ready:
            self._paint()
            self.events.coloring()
            self.events.color_by()
            self._update_thumbnail()

    def _on_transform_change(self) -> None:
        if self.color_by == DIRECTION:
            self._recolor_tracks()
