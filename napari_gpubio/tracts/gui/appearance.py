"""How a layer of fibers looks: which ones it shows, their colors, their lines; to copy it, and to write it as code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import KEY, carried

DEFAULTS: dict[str, Any] = {
    "color_by": "direction",
    "color": (1.0, 1.0, 1.0),
    "colormap": "viridis",
    "contrast_limits": None,
    "slab_mm": 5.0,
    "line_style": "auto",
    "line_width": 1.0,
    "saves": "shown",
    "opacity": 1.0,
    "blending": "translucent",
    "visible": True,
}
MEASURES = ("length_mm", "mean_fa", "mean_fod", "alignment", "alignment_fa", "speed", "drift")


def options_of(layer: Any) -> dict[str, Any]:
    """Return the display settings of a streamlines layer, as `napari_gpubio.tracts.show` takes them.

    An image that colors the lines is not among them: hand the layer's ``color_image`` to `Streamlines.color_by_image`.
    """
    options = {name: getattr(layer, name) for name in DEFAULTS if name != "contrast_limits"}
    options |= {"color": tuple(map(float, layer.color)), "contrast_limits": layer.own_limits}
    if layer.color_image is not None:
        options |= {name: DEFAULTS[name] for name in ("color_by", "contrast_limits")}
    return options


@dataclass(frozen=True, slots=True)
class RangeFilter:
    """The fibers whose number lies in a range, its ends included.

    Parameters
    ----------
    measure
        Name of the number, one of `MEASURES`.
    low, high
        Ends of the range, None where there is none.
    """

    measure: str
    low: float | None = None
    high: float | None = None

    @property
    def lets_all_pass(self) -> bool:
        """Whether the range has no ends."""
        return self.low is None and self.high is None

    def passes(self, per_fiber: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_] | None:
        """Which fibers pass, shape (F,); None if all do, or they do not have the number."""
        values = per_fiber.get(self.measure)
        if values is None or self.lets_all_pass:
            return None
        passing = np.ones(len(values), bool)
        if self.low is not None:
            passing &= values >= self.low
        if self.high is not None:
            passing &= values <= self.high
        return passing

    def code(self) -> str:
        """Return the Python expression of `passes` for an array ``values``."""
        parts = [] if self.low is None else [f"(values >= {self.low!r})"]
        parts += [] if self.high is None else [f"(values <= {self.high!r})"]
        return " & ".join(parts)


def filter_of(layer: Any) -> RangeFilter | None:
    """Return the filter that the panel gave a layer of fibers, or None."""
    found = carried(layer, "filter")
    return found if isinstance(found, RangeFilter) else None


def set_filter(layer: Any, chosen: RangeFilter) -> None:
    """Filter the fibers of a layer, now and when others are put into it."""
    layer.metadata[KEY]["filter"] = chosen
    layer.shown = chosen.passes(layer.per_fiber)


def apply_filter(layer: Any) -> None:
    """Filter the fibers that were just put into a layer."""
    if (chosen := filter_of(layer)) is not None and not chosen.lets_all_pass:
        layer.shown = chosen.passes(layer.per_fiber)
