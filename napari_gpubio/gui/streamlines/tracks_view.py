"""What napari's own Tracks code needs, from packed lines.

A `Streamlines` layer is a Tracks layer to napari. `TracksView` stands where Tracks keeps its track manager, so that
its controls and its visual still work; `tracks_of` and `streamlines_of` turn a layer into ordinary tracks and back.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import STREAMLINES_KEY
from napari_gpubio.gui.lines import Lines

Array = npt.NDArray[Any]
LayerData = tuple[Array, dict[str, Any], str]


class TracksView:
    """What `Tracks` and its visual need of their track manager."""

    graph: Mapping[int, list[int]] | None = None
    graph_vertices = graph_connex = graph_times = None
    hide_completed_tracks = False
    current_time: float | None = None
    max_time = 0
    ndim = 3

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.graph = {}

    @property
    def data(self) -> npt.NDArray[np.float32]:
        """Points in layer axes z, y, x."""
        return self.lines.points

    @property
    def properties(self) -> dict[str, Array]:
        """None: numbers have their own tables."""
        return {}

    @property
    def track_vertices(self) -> npt.NDArray[np.float32]:
        """Points in layer axes z, y, x."""
        return self.lines.points

    @property
    def track_times(self) -> npt.NDArray[np.float32]:
        """What the first slider goes through: z."""
        return self.lines.vertices[:, 2]

    @property
    def track_connex(self) -> npt.NDArray[np.bool_]:
        """Whether a point is joined to the next one."""
        connected = np.repeat(self.lines.shown, self.lines.counts)
        connected[self.lines.offsets[1:][self.lines.counts > 0] - 1] = False
        return connected

    def track_labels(self, _time: float) -> tuple[None, None]:
        """Nothing: fibers have no labels."""
        return None, None

    def build_graph(self) -> None:
        """Nothing: fibers have no graph."""


def tracks_of(layer: Any) -> LayerData:
    """Return what `Streamlines.as_layer_data_tuple` promises."""
    data = _tracks_data(layer.lines)
    by_point = {name: np.repeat(values, layer.lines.counts) for name, values in layer.per_fiber.items()}
    by_point.update(layer.per_point)
    if not len(data):
        data = np.zeros((1, 5))
        by_point = {name: np.zeros(1) for name in by_point}
    state = {
        **layer._get_base_state(),
        "affine": _tracks_affine(layer),
        "axis_labels": ("t", *layer.axis_labels),
        "units": ("pixel", *layer.units),
        "metadata": {**layer.metadata, STREAMLINES_KEY: _settings(layer)},
        "properties": by_point,
        "color_by": "track_id" if layer.contrast_limits is None else layer.color_by,
        "colormap": layer.colormap,
        "tail_width": layer.tail_width,
    }
    for part in ("scale", "translate", "rotate", "shear"):
        del state[part]
    return data, state, layer._type_string


def streamlines_of(cls: Callable[..., Any], data: npt.ArrayLike, state: Mapping[str, Any]) -> Any:
    """Return what `Streamlines.from_layer_data` promises."""
    metadata = dict(state.get("metadata", {}))
    settings = dict(metadata.pop(STREAMLINES_KEY, {}))
    offsets = settings.pop("offsets", np.zeros(0, np.int64))
    rows = np.asarray(data)
    if not len(offsets) or len(rows) < offsets[-1]:
        raise InvalidInput("these tracks were not made from streamlines; give points and offsets instead")
    shown = settings.pop("shown")
    columns = {name: np.asarray(values)[: offsets[-1]] for name, values in state["properties"].items()}
    layer = cls(
        rows[: offsets[-1], -3:],
        offsets,
        per_point={name: columns[name] for name in settings.pop("per_point")},
        affine=np.asarray(state["affine"])[-4:, -4:],
        metadata=metadata,
        **settings,
        **{key: state[key] for key in ("name", "opacity", "blending", "visible")},
        **{key: state[key][-3:] for key in ("axis_labels", "units")},
    )
    layer.shown = shown
    return layer


def _tracks_data(lines: Lines) -> Array:
    """Return fiber, time (0), z, y, x of every point."""
    data = np.zeros((len(lines.vertices), 5))
    data[:, 0] = np.repeat(np.arange(len(lines)), lines.counts)
    data[:, 2:] = lines.points
    return data


def _tracks_affine(layer: Any) -> Array:
    affine = np.eye(5)
    affine[1:4, 1:4], affine[1:4, 4] = layer.data_to_world_matrix()
    return affine


def _settings(layer: Any) -> dict[str, Any]:
    return {
        "offsets": layer.offsets,
        "per_fiber": dict(layer.per_fiber),
        "per_point": list(layer.per_point),
        "color_by": layer.color_by,
        "color": layer.color.tolist(),
        "colormap": layer.colormap,
        "contrast_limits": layer.own_limits,
        "slab_mm": layer.slab_mm,
        "line_width": layer.line_width,
        "line_style": layer.line_style,
        "shown": layer.shown,
        "saves": layer.saves,
        "legend": layer.legend,
    }
