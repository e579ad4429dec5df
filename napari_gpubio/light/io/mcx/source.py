"""The source of an MCX file as a `Source`.

MCX describes a source by ``Type``, ``Pos``, ``Dir``, ``Param1`` and ``Param2``; the fourth number of ``Dir`` is how
it launches: 0 along the direction, another number focused, NaN to every side, minus infinity by the cosine law. Lengths
are in voxels, angles in radians.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.mcx.domain import McxFrame
from napari_gpubio.light.io.mcx.jdata import Section, decode_array, is_array
from napari_gpubio.light.model import Domain
from napari_gpubio.light.source import Source

Array = npt.NDArray[Any]
_RIGHT = 1e-4  # cosine of an angle that still counts as a right angle
_UNKNOWN = {
    "arcsine": "a point that shines more to its poles",
    "zgaussian": "a point with a Gaussian spread of angles",
    "fourier": "a modulated rectangle",
    "fourierx": "a modulated rectangle",
    "fourierx2d": "a modulated rectangle",
    "hyperboloid": "a focused Gaussian beam",
    "pencilarray": "an array of pencil beams",
    "pattern3d": "a pattern in a volume",
    "ring": "a ring",
    "line": "a line that shines across itself",
    "slit": "a collimated line",
}


def read_source(optode: Section, frame: McxFrame) -> tuple[Source, tuple[str, ...]]:
    """Read the source from the section Optode, and notes about it; what this engine lacks is refused."""
    if optode.get("Source") is None:
        raise InvalidInput("Optode.Source is missing; add it")
    section = _single(optode.section("Source"))
    if section.get("AngleInverseCDF") is not None:
        raise InvalidInput("Optode.Source.AngleInverseCDF gives launch angles of its own; this engine cannot have them")
    kind, launch = section.text("Type", "pencil").lower(), _launch(section)
    reader = _READERS.get((kind, launch)) or _READERS.get((kind, None))
    if reader is None:
        raise _no_counterpart(kind, launch)
    return reader(section, frame), _notes(section)


def _single(section: Section) -> Section:
    """The source, where it is written as a list of one."""
    fields = dict(section.fields)
    for key in ("Pos", "Dir", "Param1", "Param2"):
        rows = section.get(key)
        if not (isinstance(rows, list) and rows and isinstance(rows[0], list)):
            continue
        if len(rows) > 1:
            raise InvalidInput(
                f"Optode.Source.{key} has {len(rows)} sources; write one file for each and add the results"
            )
        fields[key] = rows[0]
    return Section(section.name, fields, section.root)


def _launch(section: Section) -> str:
    """How light leaves, by the fourth number of Dir."""
    focus = (*section.any_numbers("Dir", 3, 4), 0.0)[3]
    if focus == 0.0:
        return "along"
    if math.isnan(focus):
        return "every side"
    return "cosine law" if focus == -math.inf else "focused"


def _no_counterpart(kind: str, launch: str) -> InvalidInput:
    what = f" ({_UNKNOWN[kind]})" if kind in _UNKNOWN else ""
    how = "" if launch == "along" else f", launched {launch} by the fourth number of Dir"
    known = ", ".join(dict.fromkeys(kind for kind, _ in _READERS if kind not in _UNKNOWN))
    hint = "; a line that shines to every side has _NaN_ there" if kind in ("line", "slit") else ""
    return InvalidInput(
        f"Optode.Source is of the type {kind[:40]!r}{what}{how}, which this engine does not have; use {known}{hint}"
    )


def _notes(section: Section) -> tuple[str, ...]:
    notes = []
    weight = section.number("Weight", (*section.numbers("Pos", 3, 4), 1.0)[3])
    if weight != 1.0:
        notes.append(f"The source's weight {weight:g} is not used: results are per launched photon.")
    if section.number("Frequency", 0.0) != 0.0:
        notes.append("The source's Frequency is not used: results are those of a pulse or of steady light.")
    if is_array(section.get("Pattern")):
        notes.append("The pattern's array is taken as [x, y], row-major, as JData has it.")
    return tuple(notes)


def _place(section: Section, frame: McxFrame) -> npt.NDArray[np.float64]:
    return frame.position_mm(section.numbers("Pos", 3, 4)[:3])


def _common(section: Section, frame: McxFrame) -> dict[str, Any]:
    return {"position_mm": tuple(_place(section, frame)), "direction": section.any_numbers("Dir", 3, 4)[:3]}


def _parameters(section: Section, key: str) -> tuple[float, ...]:
    return (*section.numbers(key, 1, 4, (0.0,)), 0.0, 0.0, 0.0)[:4]


def _point(section: Section, frame: McxFrame, kind: str) -> Source:
    return Source(kind=kind, **_common(section, frame))


def _cone(section: Section, frame: McxFrame) -> Source:
    angle, by_angle, *_ = _parameters(section, "Param1")
    if by_angle > 0:
        raise InvalidInput(
            f"Optode.Source.Param1[1] is {by_angle:g}, a cone even in angle; ours is even in solid angle"
        )
    return Source(kind="cone", half_angle_deg=math.degrees(min(angle, math.pi)), **_common(section, frame))


def _gaussian(section: Section, frame: McxFrame) -> Source:
    waist = _parameters(section, "Param1")[0]
    return Source(kind="gaussian", radius_mm=waist * frame.unit_mm, **_common(section, frame))


def _disk(section: Section, frame: McxFrame, kind: str) -> Source:
    radius, inner, *sector = _parameters(section, "Param1")
    if inner or any(sector):
        raise InvalidInput(
            f"Optode.Source.Param1 is {[radius, inner, *sector]}, a ring or a sector; this engine has full disks only"
        )
    return Source(kind=kind, radius_mm=radius * frame.unit_mm, **_common(section, frame))


def _line(section: Section, frame: McxFrame) -> Source:
    along = np.array(_parameters(section, "Param1")[:3])
    length = float(np.linalg.norm(along)) * frame.unit_mm
    center = _place(section, frame) + along * frame.unit_mm / 2
    if not 0 < length < math.inf:
        raise InvalidInput(f"Optode.Source.Param1 is {list(along)}; give the line as a vector in voxels")
    return Source(kind="line", position_mm=tuple(center), direction=tuple(along), length_mm=length)


def _planar(section: Section, frame: McxFrame) -> Source:
    return Source(kind="planar", **_rectangle(section, frame)[0])


def _pattern(section: Section, frame: McxFrame) -> Source:
    rectangle, is_mirrored = _rectangle(section, frame)
    columns, rows = (int(_parameters(section, key)[3]) for key in ("Param1", "Param2"))
    image = _image(section, columns, rows)
    return Source(kind="pattern", pattern=image[::-1] if is_mirrored else image, **rectangle)


def _rectangle(section: Section, frame: McxFrame) -> tuple[dict[str, Any], bool]:
    """What a rectangle is made of, and whether its second edge runs against our height."""
    common = _common(section, frame)
    edges = [np.array(_parameters(section, key)[:3]) for key in ("Param1", "Param2")]
    lengths = [float(np.linalg.norm(edge)) for edge in edges]
    normal = np.array(common["direction"])
    scale = lengths[0] * lengths[1] * float(np.linalg.norm(normal))
    if not 0 < scale < math.inf:
        raise InvalidInput(
            "Optode.Source.Param1, Param2 or Dir is zero or too long; give edges and direction of a rectangle"
        )
    u, v, w = edges[0] / lengths[0], edges[1] / lengths[1], normal / np.linalg.norm(normal)
    if max(abs(u @ v), abs(u @ w), abs(v @ w)) > _RIGHT:
        raise InvalidInput(
            "Optode.Source.Param1, Param2 and Dir are not at right angles; this engine has upright rectangles only"
        )
    center = np.array(common["position_mm"]) + (edges[0] + edges[1]) * frame.unit_mm / 2
    rectangle = common | {
        "position_mm": tuple(center),
        "width_mm": lengths[0] * frame.unit_mm,
        "height_mm": lengths[1] * frame.unit_mm,
        "width_axis": tuple(u),
    }
    return rectangle, bool(np.cross(w, u) @ v < 0)


def _image(section: Section, columns: int, rows: int) -> Array:
    """The pattern as (rows, columns): rows along the second edge, columns along the first."""
    if section.whole("SrcNum", 1) != 1:
        raise InvalidInput("Optode.Source.SrcNum requests several patterns at once; write one file for each")
    node = section.get("Pattern")
    if is_array(node):
        return _sized(decode_array(node, "Optode.Source.Pattern"), (columns, rows)).T
    pattern = section.section("Pattern")
    sizes, data = (pattern.whole("Nx"), pattern.whole("Ny")), pattern.get("Data")
    if isinstance(data, str):
        raise InvalidInput(f"the pattern is in the file {data[:60]!r}; put its numbers into Optode.Source.Pattern.Data")
    count = sizes[0] * sizes[1]
    if sizes != (columns, rows) or pattern.whole("Nz", 1) != 1:
        raise InvalidInput(
            f"Optode.Source.Pattern has Nx, Ny = {sizes}, and Param1[3], Param2[3] are {(columns, rows)}; make them "
            "the same"
        )
    return np.array(pattern.numbers("Data", count, count)).reshape(rows, columns)


def _sized(array: Array, shape: tuple[int, int]) -> Array:
    if array.size != shape[0] * shape[1] or [n for n in array.shape if n > 1] != [n for n in shape if n > 1]:
        raise InvalidInput(
            f"Optode.Source.Pattern has shape {array.shape}, and Param1[3], Param2[3] are {shape}; make them the same"
        )
    return array.reshape(shape)


# By type and launch; None: the launch does not matter to it.
_READERS: Mapping[tuple[str, str | None], Callable[[Section, McxFrame], Source]] = {
    ("pencil", "along"): partial(_point, kind="pencil"),
    ("pencil", "focused"): partial(_point, kind="pencil"),
    ("pencil", "every side"): partial(_point, kind="isotropic"),
    ("isotropic", None): partial(_point, kind="isotropic"),
    ("cone", None): _cone,
    ("gaussian", "along"): _gaussian,
    ("disk", "along"): partial(_disk, kind="disk"),
    ("disk", "cosine law"): partial(_disk, kind="lambertian"),
    ("planar", "along"): _planar,
    ("pattern", "along"): _pattern,
    ("slit", "every side"): _line,
    ("line", "every side"): _line,
}


_EVERY_SIDE, _COSINE_LAW = "_NaN_", "-_Inf_"  # the fourth number of Dir
_WRITTEN = ("pencil", "isotropic", "cone", "gaussian", "disk", "planar", "pattern", "line", "lambertian")


def write_source(source: Source, domain: Domain, frame: McxFrame) -> dict[str, Any]:
    """Return Optode.Source: positions and directions along the axes of the volume, in voxels."""
    if source.kind not in _WRITTEN:
        raise InvalidInput(f"MCX has no source like {source.kind!r}; it has {', '.join(_WRITTEN)}")
    unit = frame.unit_mm
    width, height, direction = domain.direction_to_grid(source.frame())
    center = domain.world_to_grid(source.position_mm) / unit
    fields: dict[str, Any] = {"Type": source.kind, "Pos": center, "Dir": direction}
    if source.kind == "cone":
        fields["Param1"] = [math.radians(source.half_angle_deg), 0.0, 0.0, 0.0]
    elif source.kind in ("gaussian", "disk", "lambertian"):
        fields["Param1"] = [source.radius_mm / unit, 0.0, 0.0, 0.0]
        if source.kind == "lambertian":
            fields |= {"Type": "disk", "Dir": [*direction.tolist(), _COSINE_LAW]}
    elif source.kind == "line":
        along = direction * source.length_mm / unit
        fields |= {"Type": "slit", "Pos": center - along / 2, "Dir": [*direction.tolist(), _EVERY_SIDE]}
        fields["Param1"] = [*along.tolist(), 0.0]
    elif source.kind in ("planar", "pattern"):
        fields |= _written_rectangle(source, center, width * source.width_mm / unit, height * source.height_mm / unit)
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in fields.items()}


def _written_rectangle(source: Source, center: Array, width: Array, height: Array) -> dict[str, Any]:
    """Corner and edges of a rectangle, and its pattern."""
    rows, columns = (0, 0) if source.pattern is None else source.pattern.shape
    fields = {
        "Pos": center - (width + height) / 2,
        "Param1": [*width.tolist(), columns],
        "Param2": [*height.tolist(), rows],
    }
    if source.pattern is None:
        return fields
    return fields | {"Pattern": {"Nx": columns, "Ny": rows, "Data": np.asarray(source.pattern).ravel().tolist()}}
