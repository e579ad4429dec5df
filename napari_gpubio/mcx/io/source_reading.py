"""The source of an MCX file as a `Source`.

MCX describes a source by ``Type``, ``Pos``, ``Dir``, ``Param1`` and ``Param2``; the fourth number of ``Dir`` is how
it launches: 0 along the direction, another number focused, NaN isotropically, minus infinity by the cosine law. Lengths
are in voxels, angles in radians.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.domain import McxFrame
from napari_gpubio.mcx.io.jdata import Section, decode_array, is_array
from napari_gpubio.mcx.io.source_patterns import read_cells, read_image, read_stack
from napari_gpubio.optics.sources import Source, base, kinds

Array = npt.NDArray[Any]
RIGHT_ANGLE = 1e-4  # cosine of an angle that still counts as a right angle
_TURNING = ("pencil", "isotropic", "cone", "arcsine", "zgaussian")  # points, which a table of angles makes alike


def read_source(optode: Section, frame: McxFrame) -> tuple[Source, tuple[str, ...]]:
    """Read a single source.

    Parameters
    ----------
    optode
        The section Optode.
    frame
        Unit and origin of positions.

    Returns
    -------
    source
        Position in world mm, direction along the axes of the volume.
    notes
        Messages to the user.

    Raises
    ------
    InvalidInput
        If the source is missing, a value is missing or wrong, or this engine has no such source.
    """
    section = _source_section(optode)
    return _read(section, frame, _READERS), _notes(section)


def read_patterns(optode: Section, frame: McxFrame) -> tuple[Source, Array, tuple[str, ...]]:
    """Read a source whose patterns share photons.

    Parameters
    ----------
    optode
        The section Optode. Numbers of a pixel stand side by side for all patterns.
    frame
        Unit and origin of positions.

    Returns
    -------
    rectangle
        A `Planar` source, on which the patterns are; it has their focus and their launch angles.
    patterns
        Shape (K, rows, columns), as `napari_gpubio.light.simulate_patterns` takes them.
    notes
        Messages to the user.

    Raises
    ------
    InvalidInput
        As of `read_source`, or if the size of the patterns is not the one that the source declares.
    """
    section = _source_section(optode)
    rectangle = _read(section, frame, {**_READERS, ("pattern", "along"): _planar})
    stack = read_stack(section, *_pixels(section))
    return rectangle, stack[:, ::-1] if _rectangle(section, frame)[1] else stack, _notes(section)


def _source_section(optode: Section) -> Section:
    if optode.get("Source") is None:
        raise InvalidInput("Optode.Source is missing; add it")
    return optode.section("Source")


def _read(section: Section, frame: McxFrame, readers: "_Readers") -> Source:
    kind, focus = section.text("Type", "pencil").lower(), _focus(section)
    if section.get("AngleInverseCDF") is not None:
        return _with_angles(section, frame, readers)
    launch = _launch(focus)
    reader = readers.get((kind, launch)) or readers.get((kind, None))
    if reader is None:
        raise _no_counterpart(kind, launch)
    source = reader(section, frame)
    if launch == "along" and isinstance(source, base.Focusable):
        source = dataclasses.replace(source, focus_mm=focus * frame.unit_mm)
    return dataclasses.replace(source, entry="faces") if isinstance(source, base.Directed) else source


def _with_angles(section: Section, frame: McxFrame, readers: "_Readers") -> Source:
    """A source with a table of launch angles over pi; only these occur where the fourth number of Dir is positive.

    MCX counts the angles from the direction if that number is from 0 to 1.5, and else from where the kind launches.
    """
    kind, focus = section.text("Type", "pencil").lower(), _focus(section)
    node = section.get("AngleInverseCDF")
    table = decode_array(node, "Optode.Source.AngleInverseCDF").ravel() if is_array(node) else None
    shares = section.numbers("AngleInverseCDF", 1, base.MAX_ANGLES) if table is None else table.tolist()
    if not 0.0 <= focus < 1.5 and kind in _TURNING:
        raise InvalidInput(
            f"Optode.Source has AngleInverseCDF with {focus:g} as fourth number of Dir, which counts angles from where "
            f"a source of the type {kind!r} launches; give 0 there, or 1 where no other angles than these occur"
        )
    kind = "pencil" if kind in _TURNING else kind
    reader = readers.get((kind, "along"))
    if reader is None:
        raise _no_counterpart(kind, "along")
    angles = tuple(180.0 * share for share in shares)
    source = reader(section, frame)
    assert isinstance(source, base.Collimated)
    return dataclasses.replace(
        source, entry="faces", launch_angles_deg=angles, launch_angles_are_discrete=bool(focus > 0)
    )


def _focus(section: Section) -> float:
    """The fourth number of Dir."""
    return float((*section.any_numbers("Dir", 3, 4), 0.0)[3])


def _launch(focus: float) -> str:
    """How light leaves: along the direction (to a focus on it, where one is given), or otherwise."""
    if math.isnan(focus):
        return "isotropically"
    return "by the cosine law" if focus == -math.inf else "along"


def _no_counterpart(kind: str, launch: str) -> InvalidInput:
    if kind == "pattern3d":
        how = "along Dir" if launch == "along" else launch
        return InvalidInput(
            f"Optode.Source is of the type 'pattern3d', a volume, launched {how}, which this engine does not have; "
            "give _NaN_ as the fourth number of Dir, for a volume that emits isotropically"
        )
    how = "" if launch == "along" else f", launched {launch} (the fourth number of Dir)"
    known = ", ".join(dict.fromkeys(kind for kind, _ in _READERS))
    return InvalidInput(
        f"Optode.Source is of the type {kind[:40]!r}{how}, which this engine does not have; use {known}"
    )


def _notes(section: Section) -> tuple[str, ...]:
    notes = []
    weight = section.number("Weight", (*section.numbers("Pos", 3, 4), 1.0)[3])
    if weight != 1.0:
        notes.append(f"The source's weight {weight:g} is not used: results are per photon that enters the tissue.")
    if is_array(section.get("Pattern")):
        notes.append("The pattern's array is taken as row-major, as JData has it.")
    return tuple(notes)


def _place(section: Section, frame: McxFrame) -> npt.NDArray[np.float64]:
    return frame.position_mm(section.numbers("Pos", 3, 4)[:3])


def _common(section: Section, frame: McxFrame) -> dict[str, Any]:
    return {"position_mm": tuple(_place(section, frame)), "direction": section.any_numbers("Dir", 3, 4)[:3]}


def _parameters(section: Section, key: str) -> tuple[float, ...]:
    return (*section.numbers(key, 1, 4, (0.0,)), 0.0, 0.0, 0.0)[:4]


def _pixels(section: Section) -> tuple[int, int]:
    """Columns and rows of a pattern."""
    return int(_parameters(section, "Param1")[3]), int(_parameters(section, "Param2")[3])


def _point(section: Section, frame: McxFrame, kind: type[Source]) -> Source:
    return kind(**_common(section, frame))


def _cone(section: Section, frame: McxFrame) -> Source:
    angle, by_angle, *_ = _parameters(section, "Param1")
    kind = kinds.EvenCone if by_angle > 0 else kinds.Cone
    return kind(half_angle_deg=math.degrees(min(angle, math.pi)), **_common(section, frame))


def _arcsine(section: Section, frame: McxFrame) -> Source:
    return kinds.EvenCone(half_angle_deg=180.0, **_common(section, frame))


def _zgaussian(section: Section, frame: McxFrame) -> Source:
    spread = math.degrees(_parameters(section, "Param1")[0])
    return kinds.ZGaussian(angle_sd_deg=spread, **_common(section, frame))


def _gaussian(section: Section, frame: McxFrame) -> Source:
    """With a wavelength and a focus, the waist w0 lies there, and the beam is wider where it starts.

    MCX: w(f) = w0 sqrt(1 + (f / zR)^2) with the Rayleigh length zR = pi w0^2 / wavelength.
    """
    waist, wavelength, *_ = _parameters(section, "Param1")
    if waist > 0 and wavelength > 0:
        waist *= math.hypot(1.0, _focus(section) * wavelength / (math.pi * waist**2))
    return kinds.Gaussian(radius_mm=waist * frame.unit_mm, **_common(section, frame))


def _hyperboloid(section: Section, frame: McxFrame) -> Source:
    """A Gaussian beam of straight rays: waist w0, its distance d ahead and the Rayleigh length zR are in Param1.

    MCX, with E exponential of mean 1 and an even azimuth a: r = w0 sqrt(E / 2) and q = -d / zR; a ray starts at
    r (cos a - q sin a, sin a + q cos a) in the direction (-r sin a, r cos a, zR).
    """
    waist, ahead, rayleigh, _ = (length * frame.unit_mm for length in _parameters(section, "Param1"))
    common = _common(section, frame)
    return kinds.Hyperboloid(radius_mm=waist, focus_mm=ahead, rayleigh_mm=rayleigh, **common)


def _disk(section: Section, frame: McxFrame, kind: type[base.Ring]) -> Source:
    radius, inner, *sector = _parameters(section, "Param1")
    sizes: dict[str, Any] = {"radius_mm": radius * frame.unit_mm, "inner_radius_mm": inner * frame.unit_mm}
    common = _common(section, frame)
    if max(sector) > 0:  # or it is a full disk, in MCX too
        start, stop = (math.degrees(angle) for angle in sorted(sector))
        across, is_mirrored = zero_azimuth(common["direction"])
        sizes |= {"sector_deg": (-stop, -start) if is_mirrored else (start, stop), "width_axis": across}
    return kind(**sizes, **common)


def zero_azimuth(direction: tuple[float, ...]) -> tuple[tuple[float, ...], bool]:
    """Where MCX counts the azimuths of a disk from.

    MCX turns z into the direction (x, y, z) by the polar angle about y, and then by the azimuth about z. What was x
    comes to lie along (x z, y z, z^2 - 1). Along z it leaves x and y as they are; so it does along -z, where its angles
    run against ours.

    Parameters
    ----------
    direction
        Of the disk's normal along the axes of the volume, of any length, shape (3,).

    Returns
    -------
    zero
        Direction of the azimuth 0, shape (3,), of any length.
    is_mirrored
        Whether MCX's azimuths run against ours.
    """
    x, y, z = np.array(direction) / (np.linalg.norm(direction) or 1.0)
    if not math.hypot(x, y) > RIGHT_ANGLE:
        return (1.0, 0.0, 0.0), bool(z < 0)
    return (float(x * z), float(y * z), float(z * z - 1.0)), False


def _line(section: Section, frame: McxFrame) -> Source:
    center, along, length = _segment(section, frame)
    return kinds.Line(position_mm=center, direction=along, length_mm=length)


def _radial_line(section: Section, frame: McxFrame) -> Source:
    """Evenly around the line; with Param2[0] into a wedge of as much to both sides of Dir."""
    center, along, length = _segment(section, frame)
    half = math.degrees(_parameters(section, "Param2")[0])
    wedge: dict[str, Any] = {}
    if half > 0:
        wedge = {
            "sector_deg": (-min(half, 180.0), min(half, 180.0)),
            "width_axis": _common(section, frame)["direction"],
        }
    return kinds.RadialLine(position_mm=center, direction=along, length_mm=length, **wedge)


def _slit(section: Section, frame: McxFrame) -> Source:
    """With Param2 the rays spread across the slit and along it."""
    across_slope, along_slope, *_ = (max(slope, 0.0) for slope in _parameters(section, "Param2"))
    center, along, length = _segment(section, frame)
    direction = _common(section, frame)["direction"]
    cosine = np.dot(along, direction) / (np.linalg.norm(along) * np.linalg.norm(direction) or 1.0)
    sizes: dict[str, Any] = {"width_mm": length, "spread_across": across_slope, "spread_along": along_slope}
    if abs(cosine) > RIGHT_ANGLE:  # light at an angle; a slit has no height, but it needs an axis
        sizes["height_axis"] = tuple(np.cross(direction, along).tolist())
    return kinds.Slit(position_mm=center, direction=direction, width_axis=along, **sizes)


def _segment(section: Section, frame: McxFrame) -> tuple[Any, Any, float]:
    """Middle (mm), vector (voxels) and length (mm) of a line."""
    along = np.array(_parameters(section, "Param1")[:3])
    length = float(np.linalg.norm(along)) * frame.unit_mm
    if not 0 < length < math.inf:
        raise InvalidInput(f"Optode.Source.Param1 is {list(along)}; give the line as a vector in voxels")
    return tuple(_place(section, frame) + along * frame.unit_mm / 2), tuple(along), length


def _planar(section: Section, frame: McxFrame) -> Source:
    return kinds.Planar(**_rectangle(section, frame)[0])


def _pattern(section: Section, frame: McxFrame) -> Source:
    rectangle, is_mirrored = _rectangle(section, frame)
    image = read_image(section, *_pixels(section))
    return kinds.Pattern(pattern=image[::-1] if is_mirrored else image, **rectangle)


def _volume(section: Section, frame: McxFrame) -> Source:
    """Cells of MCX's pattern in a volume are as large as voxels; the first of its numbers run along x."""
    size = _parameters(section, "Param1")[:3]
    if min(size) < 1 or any(edge % 1 for edge in size):
        raise InvalidInput(f"Optode.Source.Param1 is {list(size)}; give the cells of the volume along x, y and z")
    shape = (int(size[0]), int(size[1]), int(size[2]))
    width, height, length = (edge * frame.unit_mm for edge in shape)
    center = _place(section, frame) + np.array([width, height, length]) / 2
    return kinds.EmittingVolume(
        position_mm=tuple(center), width_axis=(1.0, 0.0, 0.0), width_mm=width, height_mm=height,
        length_mm=length, pattern=read_cells(section, shape),
    )  # fmt: skip


def _pencil_array(section: Section, frame: McxFrame) -> Source:
    columns, rows = (_parameters(section, key)[3] for key in ("Param1", "Param2"))
    if min(columns, rows) < 2 or columns % 1 or rows % 1:
        raise InvalidInput(
            f"Optode.Source.Param1[3] and Param2[3] are {columns:g} and {rows:g}; give the number "
            "of beams along each edge, at least 2"
        )
    return kinds.PencilArray(columns=int(columns), rows=int(rows), **_rectangle(section, frame)[0])


def _fourier(section: Section, frame: McxFrame) -> Source:
    """Cycles and phase, in turns, are the whole and the fraction of Param1[3]; cycles and 1 - m those of Param2[3]."""
    rectangle, is_mirrored = _rectangle(section, frame)
    numbers = (_parameters(section, key)[3] for key in ("Param1", "Param2"))
    (across, phase), (up, flat) = ((math.floor(number), number - math.floor(number)) for number in numbers)
    return kinds.Fourier(
        cycles_across=float(across), cycles_up=float(-up if is_mirrored else up),
        phase_deg=360.0 * phase, modulation=1.0 - flat, **rectangle,
    )  # fmt: skip


def _fourierx(section: Section, frame: McxFrame) -> Source:
    """Param2 has the cycles along both edges, the phase (turns) and 1 - m."""
    rectangle = _rectangle_on(section, frame)
    across, up, phase, flat = _parameters(section, "Param2")
    return kinds.Fourier(
        cycles_across=across, cycles_up=up, phase_deg=360.0 * (phase % 1.0), modulation=1.0 - flat,
        **rectangle,
    )  # fmt: skip


def _fourierx2d(section: Section, frame: McxFrame) -> Source:
    """As `_fourierx`; Param2 has the cycles and the phases (turns) of both edges."""
    rectangle = _rectangle_on(section, frame)
    across, up, phase, phase_up = _parameters(section, "Param2")
    return kinds.Fourier2D(
        cycles_across=across, cycles_up=up, phase_deg=360.0 * (phase % 1.0),
        phase_up_deg=360.0 * (phase_up % 1.0), **rectangle,
    )  # fmt: skip


def _rectangle_on(section: Section, frame: McxFrame) -> dict[str, Any]:
    """What a rectangle is made of whose first edge is given.

    MCX: the second edge is Param1[3] (d x e) / |e|, with the direction d of length 1 and the first edge e. It is as
    long as Param1[3] where both are at right angles, and else shorter.
    """
    *edge, length = _parameters(section, "Param1")
    if not length > 0:
        raise InvalidInput(f"Optode.Source.Param1[3] is {length:g}; give the length of the second edge in voxels")
    direction = np.array(_common(section, frame)["direction"])
    second = np.cross(direction, edge)
    norm = float(np.linalg.norm(direction) * np.linalg.norm(edge)) or 1.0
    fields = {**section.fields, "Param1": [*edge, 0.0], "Param2": [*(second * (length / norm)).tolist(), 0.0]}
    return _rectangle(Section(section.name, fields, section.root), frame)[0]


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
    center = np.array(common["position_mm"]) + (edges[0] + edges[1]) * frame.unit_mm / 2
    rectangle = common | {
        "position_mm": tuple(center),
        "width_mm": lengths[0] * frame.unit_mm,
        "height_mm": lengths[1] * frame.unit_mm,
        "width_axis": tuple(u),
    }
    if max(abs(u @ v), abs(u @ w), abs(v @ w)) > RIGHT_ANGLE:  # a parallelogram, or light at an angle
        return rectangle | {"height_axis": tuple(v)}, False
    return rectangle, bool(np.cross(w, u) @ v < 0)


_Readers: TypeAlias = Mapping[tuple[str, str | None], Callable[[Section, McxFrame], Source]]
# By type and launch; None: the launch does not matter to it.
_READERS: _Readers = {
    ("pencil", "along"): partial(_point, kind=kinds.Pencil),
    ("pencil", "isotropically"): partial(_point, kind=kinds.Isotropic),
    ("isotropic", None): partial(_point, kind=kinds.Isotropic),
    ("cone", None): _cone,
    ("gaussian", "along"): _gaussian,
    ("disk", "along"): partial(_disk, kind=kinds.Disk),
    ("disk", "by the cosine law"): partial(_disk, kind=kinds.Lambertian),
    ("planar", "along"): _planar,
    ("pattern", "along"): _pattern,
    ("slit", "isotropically"): _line,
    ("line", None): _radial_line,
    ("slit", "along"): _slit,
    ("ring", "along"): partial(_disk, kind=kinds.Disk),
    ("ring", "by the cosine law"): partial(_disk, kind=kinds.Lambertian),
    ("pattern3d", "isotropically"): _volume,
    ("pencilarray", "along"): _pencil_array,
    ("fourier", "along"): _fourier,
    ("fourierx", "along"): _fourierx,
    ("fourierx2d", "along"): _fourierx2d,
    ("hyperboloid", None): _hyperboloid,
    ("arcsine", None): _arcsine,
    ("zgaussian", None): _zgaussian,
}
