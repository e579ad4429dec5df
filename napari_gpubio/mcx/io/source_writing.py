"""A `Source` as Optode.Source of an MCX file; `source` reads them and says what the fields mean."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.domain import McxFrame
from napari_gpubio.mcx.io.source_reading import RIGHT_ANGLE, zero_azimuth
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import Source, base, kinds

Array = npt.NDArray[Any]
_ISOTROPIC, _COSINE_LAW = "_NaN_", "-_Inf_"  # the fourth number of Dir
_TYPES: dict[type[Source], str] = {  # of MCX, where it has the kind
    kinds.Pencil: "pencil",
    kinds.Isotropic: "isotropic",
    kinds.Cone: "cone",
    kinds.EvenCone: "cone",
    kinds.ZGaussian: "zgaussian",
    kinds.Gaussian: "gaussian",
    kinds.Hyperboloid: "hyperboloid",
    kinds.Disk: "disk",
    kinds.Lambertian: "disk",
    kinds.Line: "slit",
    kinds.Slit: "slit",
    kinds.Planar: "planar",
    kinds.Pattern: "pattern",
    kinds.EmittingVolume: "pattern3d",
    kinds.PencilArray: "pencilarray",
    kinds.Fourier: "fourier",
    kinds.Fourier2D: "fourierx2d",
    kinds.RadialLine: "line",
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
    if type(source) not in _TYPES:
        known = ", ".join(one.kind for one in _TYPES)
        raise InvalidInput(f"MCX has no source like {source.kind!r}; it has {known}")
    unit = frame.unit_mm
    direction = domain.direction_to_grid(source.frame())[2]
    fields: dict[str, Any] = {
        "Type": _TYPES[type(source)], "Pos": domain.world_to_grid(source.position_mm) / unit, "Dir": direction,
    }  # fmt: skip
    fields |= _written_shape(source, domain, unit)
    if isinstance(source, base.Ring) and source.sector_deg is not None:
        fields["Type"] = "ring"
    if isinstance(source, base.Collimated) and source.launch_angles_deg is not None:
        fields["AngleInverseCDF"] = [angle / 180.0 for angle in source.launch_angles_deg]
    if launch := _written_launch(source, unit):
        fields["Dir"] = [*direction.tolist(), launch]
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in fields.items()}


def _written_shape(source: Source, domain: Domain, unit: float) -> dict[str, Any]:
    """What MCX has of where light starts, and of its angles."""
    width, height, direction = domain.direction_to_grid(source.frame())
    center = domain.world_to_grid(source.position_mm) / unit
    match source:
        case kinds.EmittingVolume():
            return _written_volume(source, center, domain, unit)
        case kinds.Slit():
            spread = {"Param2": [source.spread_across, source.spread_along, 0.0, 0.0]} if source.spreads else {}
            return _written_segment(center, width * source.width_mm / unit) | spread
        case kinds.Fourier2D():
            return _written_fringes(source, domain, unit)
        case kinds.Fourier() if source.cycles_across % 1 or source.cycles_up % 1:
            return _written_fringes(source, domain, unit)
        case base.High():
            return _written_rectangle(source, center, width * source.width_mm / unit, height * source.height_mm / unit)
        case kinds.Line():
            return _written_segment(center, direction * source.length_mm / unit)
        case kinds.RadialLine():
            segment = _written_segment(center, direction * source.length_mm / unit)
            return segment | _written_wedge(source, width, height)
    sizes = _written_sizes(source, domain, unit)
    return {"Param1": [*sizes, 0.0, 0.0, 0.0][:4]} if sizes else {}


def _written_segment(center: Array, along: Array) -> dict[str, Any]:
    return {"Pos": center - along / 2, "Param1": [*along.tolist(), 0.0]}


def _written_wedge(source: kinds.RadialLine, width: Array, height: Array) -> dict[str, Any]:
    """The middle of the sector into which a line shines, and half of the sector, radians; 0 for all around."""
    start, stop = (math.radians(angle) for angle in source.sector_deg or (0.0, 0.0))
    middle = (start + stop) / 2
    return {"Dir": width * math.cos(middle) + height * math.sin(middle), "Param2": [(stop - start) / 2, 0.0, 0.0, 0.0]}


def _written_sizes(source: Source, domain: Domain, unit_mm: float) -> tuple[float, ...]:
    """What MCX has in Param1 of a point or a disk."""
    match source:
        case base.Opening():
            return math.radians(source.half_angle_deg), float(isinstance(source, kinds.EvenCone))
        case base.Scattered():
            return (math.radians(source.angle_sd_deg),)
        case kinds.Gaussian():
            return (source.radius_mm / unit_mm,)
        case kinds.Hyperboloid():
            return source.radius_mm / unit_mm, source.focus_mm / unit_mm, source.rayleigh_mm / unit_mm
        case base.Ring():
            return source.radius_mm / unit_mm, source.inner_radius_mm / unit_mm, *_written_sector(source, domain)
    return ()


def _written_launch(source: Source, unit_mm: float) -> str | float:
    """The fourth number of Dir; 0 along the direction."""
    match source:
        case kinds.Line() | kinds.EmittingVolume():
            return _ISOTROPIC
        case kinds.Lambertian():
            return _COSINE_LAW
        case base.Collimated(launch_angles_are_discrete=True):
            return 1.0
        case base.Focusable():
            return source.focus_mm / unit_mm
    return 0.0


def _written_sector(source: base.Ring, domain: Domain) -> tuple[float, float]:
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


def _written_rectangle(source: base.High, center: Array, width: Array, height: Array) -> dict[str, Any]:
    """Corner and edges of a rectangle, and what is on it."""
    across, up = 0.0, 0.0
    match source:
        case kinds.Pattern():
            up, across = source.pattern.shape
        case kinds.PencilArray():
            across, up = source.columns, source.rows
        case kinds.Fourier():
            across, up = _written_modulation(source)
    fields = {
        "Pos": center - (width + height) / 2,
        "Param1": [*width.tolist(), across],
        "Param2": [*height.tolist(), up],
    }
    if not isinstance(source, kinds.Pattern):
        return fields
    return fields | {"Pattern": {"Nx": across, "Ny": up, "Data": source.pattern.ravel().tolist()}}


def _written_volume(source: kinds.EmittingVolume, center: Array, domain: Domain, unit_mm: float) -> dict[str, Any]:
    """Corner, cells and pattern of a volume, whose cells have to lie like voxels."""
    emission, frame = source.pattern, domain.direction_to_grid(source.frame())
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


def _written_fringes(source: base.Modulated, domain: Domain, unit_mm: float) -> dict[str, Any]:
    """Any cycles along both edges; the second edge is the one across the first and the direction."""
    width, height, direction = domain.direction_to_grid(source.frame())
    first, second = width * source.width_mm / unit_mm, np.cross(direction, width) * source.height_mm / unit_mm
    up, phase = source.cycles_up, source.phase_deg / 360.0
    phase_up = source.phase_up_deg / 360.0 if isinstance(source, kinds.Fourier2D) else 0.0
    if abs(width @ direction) > RIGHT_ANGLE or abs(np.cross(direction, width) @ height) < 1.0 - RIGHT_ANGLE:
        raise InvalidInput("the source's width, height and direction are not at right angles, as MCX needs them here")
    if np.cross(direction, width) @ height < 0:  # it runs against our height: from the other end of it
        phase, phase_up, up = phase + up * isinstance(source, kinds.Fourier), phase_up + up, -up
    corner = domain.world_to_grid(source.position_mm) / unit_mm - (first + second) / 2
    fields = {"Pos": corner, "Param1": [*first.tolist(), source.height_mm / unit_mm]}
    if isinstance(source, kinds.Fourier):
        numbers = [source.cycles_across, up, phase % 1.0, 1.0 - source.modulation]
        return fields | {"Type": "fourierx", "Param2": numbers}
    if source.modulation != 1.0:
        raise InvalidInput(f"the source's modulation is {source.modulation:g}; MCX has 1 only where both edges have it")
    return fields | {"Type": "fourierx2d", "Param2": [source.cycles_across, up, phase % 1.0, phase_up % 1.0]}


def _written_modulation(source: kinds.Fourier) -> tuple[float, float]:
    """Cycles and phase of a modulated rectangle in one number, and cycles and lack of modulation in another."""
    if not source.modulation > 0:
        raise InvalidInput("the source's modulation is 0; write it as Planar")
    return source.cycles_across + source.phase_deg / 360.0 % 1.0, source.cycles_up + 1.0 - source.modulation
