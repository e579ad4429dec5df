"""How layers look, as plain values: kept in sessions, written into scripts, and given to layers again."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels, Layer
from napari.utils.colormaps import ALL_COLORMAPS

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import json_of
from napari_gpubio.core.layer_files import (
    MEDIA,
    OUTSIDE_N,
    STRUCTURES,
    is_colormap,
    label_colors,
    plain_colormap,
    plain_label_colors,
)
from napari_gpubio.core.named_layers import label_names
from napari_gpubio.core.napari_io import KEY, carried, grid_of, volume_of
from napari_gpubio.core.operations.layer_sources import PART, PLANE, record_of, shown_as
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.operations.volumes import HeldVolume, Volume
from napari_gpubio.core.quantity import Quantity, is_unit
from napari_gpubio.gui.lines.sampling import LineImage

LINES: dict[str, Any] = {  # how a layer of lines looks at first
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
# How another layer looks, as far as plain values say it; the names are napari's. The values are those at first.
_IMAGES: dict[str, Any] = {
    "visible": True,
    "opacity": 1.0,
    "blending": None,
    "gamma": 1.0,
    "contrast_limits": None,
    "colormap": None,
    "rendering": "mip",
    "interpolation2d": "nearest",
    "interpolation3d": "linear",
    "iso_threshold": None,
    "attenuation": 0.05,
    "contour": 0,
}
NUMBERS = "numbers"  # name of the filter by a range
_TYPE, _LABELS, _IMAGE, _SHOWN, _NAMES, _ABOUT = "type", "labels", "image", "shown", "names", "about"
_COLORS, _COLORMAP = "colors", "colormap"
_PLAIN = (bool, int, float, str)
_SHOWN_CHARACTERS = 120


def options_of(layer: Any) -> dict[str, Any]:
    """Return the display settings of a streamlines layer, by the names of its arguments.

    An image that colors the lines is not among them: hand the layer's ``color_image`` to `Streamlines.color_by_image`.
    """
    options = {name: getattr(layer, name) for name in LINES if name != "contrast_limits"}
    options |= {"color": tuple(map(float, layer.color)), "contrast_limits": layer.own_limits}
    if layer.color_image is not None:
        options |= {name: LINES[name] for name in ("color_by", "contrast_limits")}
    return options


# -- filters ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangeFilter:
    """The fibers whose number lies in a range, its ends included.

    Parameters
    ----------
    measure
        Name of the number, one of the layer's ``per_fiber``.
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


def filter_of(layer: Any) -> RangeFilter | None:
    """Return the filter that a panel gave a layer of fibers, or None."""
    found = layer.filters.get(NUMBERS)
    return found if isinstance(found, RangeFilter) else None


def set_filter(layer: Any, chosen: RangeFilter) -> None:
    """Filter the fibers of a layer, now and when others are put into it."""
    layer.set_filter(NUMBERS, chosen)


# -- looks ------------------------------------------------------------------------------------------------------------


def display_of(layer: Any) -> tuple[tuple[str, Any], ...]:
    """Return how a layer looks as names and plain values."""
    if _has_lines(layer):
        found = {name: value for name, value in options_of(layer).items() if value is not None}
        if layer.color_image is not None:
            found[_IMAGE], limits = layer.color_image.name, layer.own_limits
            found |= {} if limits is None else {"contrast_limits": limits}
        if not layer.shown.all():
            found[_SHOWN] = _shown_of(layer)
    else:
        found = {n: _plain(getattr(getattr(layer, n, None), "name", getattr(layer, n, None))) for n in _IMAGES}
        found[_TYPE] = _LABELS if isinstance(layer, Labels) else "image"
        found[_NAMES] = tuple(label_names(layer).items()) if isinstance(layer, Labels) else None
        found[_ABOUT] = _about(layer)
    found[PART] = carried(layer, PART) or _plane_of(layer)
    return tuple((name, value) for name, value in found.items() if value is not None)


def _about(layer: Any) -> str | None:
    """What no plain value says, as JSON: colors of a layer's own, and the optical properties of its labels."""
    found = dict[str, Any]()
    if isinstance(layer, Labels):
        found = {name: one for name in (MEDIA, OUTSIDE_N) if (one := carried(layer, name)) is not None}
        found |= {_COLORS: colors} if (colors := plain_label_colors(layer.colormap)) else {}
    elif isinstance(layer, Image) and layer.colormap.name not in ALL_COLORMAPS:
        found = {_COLORMAP: plain_colormap(layer.colormap)}
    return json.dumps(found) if found else None


def _show_about(layer: Any, text: Any) -> None:
    """Show what `_about` said, as far as it is that."""
    try:
        found = json_of(str(text), layer.name)
    except InvalidInput:
        return
    if not isinstance(found, dict):
        return
    if isinstance(layer, Labels):
        own = {name: found[name] for name in (MEDIA, OUTSIDE_N) if name in found}
        layer.metadata[KEY] = {**layer.metadata.get(KEY, {}), **own}
        set_each(layer, label_colors(found.get(_COLORS)))
    elif is_colormap(found.get(_COLORMAP)):
        set_each(layer, {_COLORMAP: found[_COLORMAP]})


def _plane_of(layer: Any) -> str | None:
    """What sessions know a plane by whose values are those of a volume."""
    if layer.ndim != 2 or not isinstance(layer, Image | Labels):
        return None
    record = record_of(layer)
    return PLANE if record is None or issubclass(record.kind, Volume) else None


def _has_lines(layer: Any) -> bool:
    return hasattr(layer, "color_by_image")


def _shown_of(layer: Any) -> tuple[Any, ...]:
    """Which fibers are shown: a number and the ends of its range, or their places."""
    chosen = filter_of(layer)
    if chosen is not None and len(layer.filters) == 1:
        return chosen.measure, chosen.low, chosen.high
    return tuple(np.flatnonzero(layer.shown).tolist())


def _plain(value: Any) -> Any:
    """A value as a session holds it; None of others."""
    value = getattr(value, "value", value)  # of an enumeration
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (tuple, list)):
        values = tuple(map(_plain, value))
        return None if None in values else values
    is_number = not isinstance(value, float) or math.isfinite(value)
    return value if isinstance(value, _PLAIN) and is_number else None


def plain_values(target: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return attributes as names and plain values; those that are of another kind are left out."""
    found = {name: _plain(getattr(target, name)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def set_each(target: Any, values: Mapping[str, Any]) -> None:
    """Set what can be set; a session of another program may name what this napari does not have."""
    for name, value in values.items():
        if hasattr(target, name):
            with suppress(ValueError, TypeError, KeyError, AttributeError, IndexError):
                setattr(target, name, value)


# -- layers of results ------------------------------------------------------------------------------------------------


def show_layers(viewer: Any, shown: Shown, value: Any) -> list[Any]:
    """Add the layers of a result to a viewer as they looked when they were saved; returns them."""
    look, made = dict(shown.display), list[Any]()
    for data, keywords, kind in shown_as(value, shown.output, shown.name, look.get(PART)):
        kind = str(look[_TYPE]) if kind in ("image", _LABELS) and look.get(_TYPE) in ("image", _LABELS) else kind
        if kind == _LABELS:
            keywords = {name: one for name, one in keywords.items() if name not in ("colormap", "contrast_limits")}
            data = data if np.asarray(data).dtype.kind in "iu" else np.asarray(data).astype(np.uint8)
        made.append(data if isinstance(data, Layer) else _created(data, {**keywords, "name": shown.name}, kind))
    for layer in made:  # which is drawn once if it looks as it should before it is added
        if _has_lines(layer):
            _show_lines(viewer, layer, look)
        set_each(layer, {name: look[name] for name in (LINES if _has_lines(layer) else _IMAGES) if name in look})
        if isinstance(layer, Labels) and look.get(_NAMES):
            _name_labels(layer, look[_NAMES])
        if look.get(_ABOUT):
            _show_about(layer, look[_ABOUT])
        viewer.add_layer(layer)
    return made


def _created(data: Any, keywords: dict[str, Any], kind: str) -> Layer:
    """A layer as a session describes it, which may be of another napari; InvalidInput if this one cannot show it."""
    try:
        return Layer.create(data, keywords, kind)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise InvalidInput(
            f"napari cannot show these {kind} ({str(error)[:_SHOWN_CHARACTERS]}); save it again"
        ) from error


def _name_labels(layer: Labels, names: Any) -> None:
    """Let labels have the names that a session has for them, if it has any."""
    with suppress(ValueError, TypeError):
        found = {int(number): str(name) for number, name in names}
        layer.metadata[KEY][STRUCTURES] = found
        layer.features = {"index": [*found], "name": [*found.values()]}


def _show_lines(viewer: Any, layer: Any, look: Mapping[str, Any]) -> None:
    """Color lines by an image, and show some of them."""
    image = look.get(_IMAGE)
    if isinstance(image, str):
        image = next((one for one in viewer.layers if one.name == image), None)
    if image is not None:
        layer.color_by_image(image)
    shown = look.get(_SHOWN)
    if shown is not None and isinstance((*shown, None)[0], str):
        set_filter(layer, RangeFilter(*shown))
    elif shown is not None:
        layer.shown = np.isin(np.arange(len(layer.lines)), shown)


def show_result(
    viewer: Any, output: Operation | Output[Any], name: str, *, device: str = "auto", **look: Any
) -> list[Any]:
    """Make a result, and add its layers to a viewer, as copied scripts do.

    Parameters
    ----------
    viewer
        The napari viewer.
    output
        The result; it is made if it is not kept.
    name
        Of the layer.
    device
        To make it on.
    **look
        How the layer looks: settings of napari, and where a result is shown in several ways, ``picture``. For lines
        also ``shown``, the places of those that are, or a number of theirs with the ends of its range, and ``image``,
        which colors them: a layer by its name, or a result.

    Returns
    -------
    The layers.
    """
    wanted = output if isinstance(output, Output) else output.output()
    if isinstance(image := look.get(_IMAGE), Operation | Output):
        look[_IMAGE] = _line_image(run(image if isinstance(image, Output) else image.output(), device=device))
    shown = Shown(wanted, name, device, "", display=tuple(look.items()))
    return show_layers(viewer, shown, run(wanted, device=device))


def _line_image(volume: Volume) -> LineImage:
    unit = "" if volume.quantity is None else volume.quantity.unit
    return LineImage(name=volume.name, array=volume.array, affine=volume.affine, unit=unit)


def pictures_of(shown: Sequence[tuple[Any, Output[Any]]]) -> list[Shown]:
    """Return layers and what they show as a script has them, with what is unusual of their looks."""
    found, images = list[Shown](), [layer for layer, _ in shown if isinstance(layer, Image)]
    for layer, output in shown:
        usual, look = LINES if _has_lines(layer) else _IMAGES, dict(display_of(layer))
        of_colors = ("contrast_limits", "colormap") if getattr(layer, "rgb", False) else ()
        unused = ("iso_threshold", _TYPE, _NAMES, *of_colors, *((_ABOUT,) if isinstance(layer, Labels) else ()))
        look = {n: v for n, v in look.items() if n not in unused and v != usual.get(n, _UNKNOWN)}
        if _IMAGE in look and not any(one.name == look[_IMAGE] and _holds(one, layer.color_image) for one in images):
            look[_IMAGE] = _held(layer.color_image)
        found.append(Shown(output, layer.name, display=tuple(look.items())))
    return found


_UNKNOWN = object()


def _holds(layer: Any, image: LineImage) -> bool:
    is_one = layer.ndim == 3 and not layer.rgb
    return is_one and np.array_equal(volume_of(layer), image.array) and np.array_equal(grid_of(layer)[0], image.affine)


def _held(image: LineImage) -> Output[Any]:
    """An image as it colors lines, which is copied."""
    quantity = Quantity(image.name, image.unit) if image.unit and is_unit(image.unit) else None
    volume = Volume(array=np.asarray(image.array), affine=image.affine, name=image.name, quantity=quantity)
    return HeldVolume.of(volume).output()
