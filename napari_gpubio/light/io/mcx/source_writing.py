"""A `Source` as Optode.Source of an MCX file; `source` reads them and says what the fields mean."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.mcx.domain import McxFrame
from napari_gpubio.light.io.mcx.source import RIGHT_ANGLE, zero_azimuth
from napari_gpubio.light.model import Domain
from napari_gpubio.light.source import RECTANGLES, Source

Array = npt.NDArray[Any]
_ISOTROPIC, _COSINE_LAW = "_NaN_", "-_Inf_"  # the fourth number of Dir
_TYPES = {  # of MCX, where it has the kind
    "pencil": "pencil",
    "isotropic": "isotropic",
    "cone": "cone",
    "even_cone": "cone",
    "zgaussian": "zgaussian",
    "gaussian": "gaussian",
    "hyperboloid": "hyperboloid",
    "disk": "disk",
    "lambertian": "disk",
    "line": "slit",
    "slit": "slit",
    "planar": "planar",
    "pattern": "pattern",
    "volume": "pattern3d",
    "pencil_array": "pencilarray",
    "fourier": "fourier",
    "fourier_2d": "fourierx2d",
    "radial_line": "line",
}


def write_source(source: Source, domain: Domain, frame: McxFrame) -> dict[str, Any]:
    """Return the object Optode.Source.

    Parameters
    ----------
    source
        In world axes and mm.
    domain
        Where it is; positions and directions are written along its axes.
    frame
        Unit of positions, which are written in voxels from the corner of the first.

    Returns
    -------
    dict
        As JSON can hold it.

    Raises
    ------
    InvalidInput
        If MCX has no such source.
    """
    if source.kind not in _TYPES:
        raise InvalidInput(f"MCX has no source like {source.kind!r}; it has {', '.join(_TYPES)}")
    unit = frame.unit_mm
    width, height, direction = domain.direction_to_grid(source.frame())
    center = domain.world_to_grid(source.position_mm) / unit
    fields: dict[str, Any] = {"Type": _TYPES[source.kind], "Pos": center, "Dir": direction}
    if source.kind == "volume":
        fields |= _written_volume(source, center, domain, unit)
    if source.kind == "fourier_2d" or (source.kind == "fourier" and not _has_whole_cycles(source)):
        fields |= _written_fringes(source, domain, unit)
    elif source.kind in RECTANGLES and source.kind != "slit":
        fields |= _written_rectangle(source, center, width * source.width_mm / unit, height * source.height_mm / unit)
    elif source.kind in ("line", "slit", "radial_line"):
        along = (width * source.width_mm if source.kind == "slit" else direction * source.length_mm) / unit
        fields |= {"Pos": center - along / 2, "Param1": [*along.tolist(), 0.0]}
        if source.kind == "radial_line":
            fields |= _written_wedge(source, width, height)
        elif source.spread_across or source.spread_along:
            fields["Param2"] = [source.spread_across, source.spread_along, 0.0, 0.0]
    elif sizes := _written_sizes(source, domain, unit):
        fields["Param1"] = [*sizes, 0.0, 0.0, 0.0][:4]
    if source.sector_deg is not None and fields["Type"] == "disk":
        fields["Type"] = "ring"
    if source.launch_angles_deg is not None:
        fields["AngleInverseCDF"] = [angle / 180.0 for angle in source.launch_angles_deg]
    if launch := _written_launch(source, unit):
        fields["Dir"] = [*direction.tolist(), launch]
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in fields.items()}


def _written_wedge(source: Source, width: Array, height: Array) -> dict[str, Any]:
    """The middle of the sector into which a line shines, and half of the sector, radians; 0 for all around."""
    start, stop = (math.radians(angle) for angle in source.sector_deg or (0.0, 0.0))
    middle = (start + stop) / 2
    return {"Dir": width * math.cos(middle) + height * math.sin(middle), "Param2": [(stop - start) / 2, 0.0, 0.0, 0.0]}


def _written_sizes(source: Source, domain: Domain, unit_mm: float) -> tuple[float, ...]:
    """What MCX has in Param1 of a point or a disk."""
    radius = source.radius_mm / unit_mm
    match source.kind:
        case "cone" | "even_cone":
            return math.radians(source.half_angle_deg), float(source.kind == "even_cone")
        case "zgaussian":
            return (math.radians(source.angle_sd_deg),)
        case "gaussian":
            return (radius,)
        case "hyperboloid":
            return radius, source.focus_mm / unit_mm, source.rayleigh_mm / unit_mm
        case "disk" | "lambertian":
            return radius, source.inner_radius_mm / unit_mm, *_written_sector(source, domain)
    return ()


def _written_launch(source: Source, unit_mm: float) -> str | float:
    """The fourth number of Dir; 0 along the direction."""
    if source.launch_angles_are_discrete:
        return 1.0
    if source.kind in ("line", "volume"):
        return _ISOTROPIC
    if source.kind == "lambertian":
        return _COSINE_LAW
    return source.focus_mm / unit_mm if source.can_focus else 0.0


def _written_sector(source: Source, domain: Domain) -> tuple[float, float]:
    """Azimuths of a sector as MCX counts them, radians; 0 and 0 for a full disk, as which it takes negative ones."""
    if source.sector_deg is None:
        return 0.0, 0.0
    width, height, direction = domain.direction_to_grid(source.frame())
    start, stop = (math.radians(angle) for angle in source.sector_deg)
    zero, is_mirrored = zero_azimuth(tuple(direction))
    second = np.cross(direction, zero)  # where MCX's azimuth is 90 degrees, unless it counts against ours
    if is_mirrored:
        second = -second
    angles = [
        math.atan2(math.cos(a) * width @ second + math.sin(a) * height @ second,
                   math.cos(a) * width @ zero + math.sin(a) * height @ zero)
        for a in (start, stop)
    ]  # fmt: skip
    turns = np.linalg.det([width, height, direction]) * (-1.0 if is_mirrored else 1.0)  # the same way round?
    first = (angles[0] if turns > 0 else angles[1]) % (2.0 * math.pi)
    return first, first + (stop - start)


def _written_rectangle(source: Source, center: Array, width: Array, height: Array) -> dict[str, Any]:
    """Corner and edges of a rectangle, and what is on it."""
    across, up = 0.0, 0.0
    if source.pattern is not None:
        up, across = source.pattern.shape
    elif source.kind == "pencil_array":
        across, up = source.columns, source.rows
    elif source.kind == "fourier":
        across, up = _written_modulation(source)
    fields = {
        "Pos": center - (width + height) / 2,
        "Param1": [*width.tolist(), across],
        "Param2": [*height.tolist(), up],
    }
    if source.pattern is None:
        return fields
    return fields | {"Pattern": {"Nx": across, "Ny": up, "Data": np.asarray(source.pattern).ravel().tolist()}}


def _written_volume(source: Source, center: Array, domain: Domain, unit_mm: float) -> dict[str, Any]:
    """Corner, cells and pattern of a volume, whose cells have to lie like voxels."""
    emission, frame = np.asarray(source.pattern), domain.direction_to_grid(source.frame())
    axes = np.abs(frame).argmax(axis=1)
    sizes = np.array([source.width_mm, source.height_mm, source.length_mm]) / unit_mm
    if np.abs(frame).max(axis=1).min() < 1.0 - RIGHT_ANGLE or np.abs(sizes / emission.shape - 1.0).max() > RIGHT_ANGLE:
        raise InvalidInput(
            "MCX has cells of one voxel along the axes of the volume; resample the source's pattern to it"
        )
    backwards = tuple(axis for axis in range(3) if frame[axis, axes[axis]] < 0)
    cells = np.flip(emission, backwards).transpose(np.argsort(axes))
    (nx, ny, nz), corner = cells.shape, center - np.array(cells.shape) / 2
    return {
        "Pos": corner,
        "Param1": [nx, ny, nz, 0.0],
        "Pattern": {"Nx": nx, "Ny": ny, "Nz": nz, "Data": cells.ravel(order="F").tolist()},
    }


def _has_whole_cycles(source: Source) -> bool:
    return not (source.cycles_across % 1 or source.cycles_up % 1)


def _written_fringes(source: Source, domain: Domain, unit_mm: float) -> dict[str, Any]:
    """Any cycles along both edges; the second edge is the one across the first and the direction."""
    width, height, direction = domain.direction_to_grid(source.frame())
    first, second = width * source.width_mm / unit_mm, np.cross(direction, width) * source.height_mm / unit_mm
    up, phase, phase_up = source.cycles_up, source.phase_deg / 360.0, source.phase_up_deg / 360.0
    if abs(width @ direction) > RIGHT_ANGLE or abs(np.cross(direction, width) @ height) < 1.0 - RIGHT_ANGLE:
        raise InvalidInput("the source's width, height and direction are not at right angles, as MCX needs them here")
    if np.cross(direction, width) @ height < 0:  # it runs against our height: from the other end of it
        phase, phase_up, up = phase + up * (source.kind == "fourier"), phase_up + up, -up
    corner = domain.world_to_grid(source.position_mm) / unit_mm - (first + second) / 2
    fields = {"Pos": corner, "Param1": [*first.tolist(), source.height_mm / unit_mm]}
    if source.kind == "fourier":
        numbers = [source.cycles_across, up, phase % 1.0, 1.0 - source.modulation]
        return fields | {"Type": "fourierx", "Param2": numbers}
    if source.modulation != 1.0:
        raise InvalidInput(f"the source's modulation is {source.modulation:g}; MCX has 1 only where both edges have it")
    return fields | {"Type": "fourierx2d", "Param2": [source.cycles_across, up, phase % 1.0, phase_up % 1.0]}


def _written_modulation(source: Source) -> tuple[float, float]:
    """Cycles and phase of a modulated rectangle in one number, and cycles and lack of modulation in another."""
    if not source.modulation > 0:
        raise InvalidInput("the source's modulation is 0; write it as kind 'planar'")
    return source.cycles_across + source.phase_deg / 360.0 % 1.0, source.cycles_up + 1.0 - source.modulation
