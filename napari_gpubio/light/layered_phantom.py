"""Layers as labels in voxels, to be simulated by the voxel engine or painted on.

Depth runs along the world's z, as in the layered engine; the axis of the beam is x = y = 0 by default, so
that `napari_gpubio.optics.Pencil()` is where the pencil beam is.
"""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.beams import Beam, FlatBeam, GaussianBeam
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Disk, Gaussian, Pencil, Source

Floats = npt.NDArray[np.float64]
MAX_VOXELS = 1 << 28
CYCLIC_SIDES = ("cyclic",) * 4 + ("default",) * 2
_FEWEST_DEEP, _MAX_DEEP = 50, 1000  # voxels that are proposed in depth
_MAX_WIDE = 101  # and across: few, and odd, so that the beam's axis is in the middle of one
_SAME = 1e-6  # of a voxel: rounding of floating-point numbers is no rounding of a thickness
_AS_SOURCE: dict[type[Beam], type[Gaussian | Disk]] = {GaussianBeam: Gaussian, FlatBeam: Disk}


@dataclass(frozen=True, kw_only=True)
class PhantomPlan:
    """A voxel phantom before its voxels are made.

    ``depths`` are the voxels in depth of each layer, ``columns`` those in x and in y, ``voxel_mm`` and ``across_mm``
    height and width of a voxel; ``notes`` list what had to be changed.
    """

    depths: tuple[int, ...]
    columns: int
    voxel_mm: float
    across_mm: float
    notes: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Dimensions of the grid."""
        return self.columns, self.columns, sum(self.depths)


def voxel_phantom(
    medium: LayeredMedium,
    *,
    voxel_mm: float,
    width_mm: float,
    across_mm: float | None = None,
    depth_mm: float | None = None,
    axis_mm: tuple[float, float] = (0.0, 0.0),
    source: str = "",
) -> Domain:
    """Make labels 1, 2, ... of layers; the domain's notes list what had to be changed.

    Parameters
    ----------
    medium
        The layers.
    voxel_mm
        Height of a voxel. Borders are moved to the nearest boundary of voxels; `common_voxel_mm` moves none.
    width_mm
        Extent in x and in y; rounded to whole voxels.
    across_mm
        Width of a voxel; by default its height.
    depth_mm
        Where an infinite last layer ends; by default as much below its top as the phantom is wide.
    axis_mm
        World x and y of the middle.
    source
        Where the optical properties come from, for the user.

    Raises
    ------
    InvalidInput
        If a size is not positive, a layer is too thin for the voxels, or there were too many voxels.
    """
    plan = plan_phantom(medium, voxel_mm=voxel_mm, width_mm=width_mm, across_mm=across_mm, depth_mm=depth_mm)
    labels = np.repeat(np.arange(1, len(plan.depths) + 1, dtype=np.uint8), plan.depths)
    affine = np.diag([plan.across_mm, plan.across_mm, plan.voxel_mm, 1.0])
    affine[:2, 3] = np.asarray(axis_mm) - plan.across_mm * (plan.columns - 1) / 2
    affine[2, 3] = plan.voxel_mm / 2
    names = ("name", "mua_per_mm", "mus_per_mm", "g", "n")
    media = tuple(
        Medium(label=label, source=source, **{name: getattr(layer, name) for name in names})
        for label, layer in enumerate(medium.layers, start=1)
    )
    return Domain(
        labels=np.broadcast_to(labels, plan.shape), affine=affine, media=media, outside_n=medium.n_above,
        notes=plan.notes,
    )  # fmt: skip


def plan_phantom(
    medium: LayeredMedium,
    *,
    voxel_mm: float,
    width_mm: float,
    across_mm: float | None = None,
    depth_mm: float | None = None,
) -> PhantomPlan:
    """Return what `voxel_phantom` would make, at once; parameters and errors are the same."""
    across_mm = voxel_mm if across_mm is None else across_mm
    for name, value in (("voxel_mm", voxel_mm), ("width_mm", width_mm), ("across_mm", across_mm)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"{name} is {value}; it must be greater than 0 mm")
    borders_mm = _borders(medium, width_mm, depth_mm)
    borders, columns = np.rint(borders_mm / voxel_mm), max(1, round(width_mm / across_mm))
    _check(medium, borders, columns, voxel_mm)
    notes = (
        *_rounding(medium, borders_mm, voxel_mm * borders, voxel_mm),
        *_width_note(width_mm, columns * across_mm),
        *_other_notes(medium, borders[-1] * voxel_mm),
    )
    depths = tuple(int(depth) for depth in np.diff(borders))
    return PhantomPlan(depths=depths, columns=columns, voxel_mm=voxel_mm, across_mm=across_mm, notes=notes)


def voxel_case(
    domain: Domain, *, beam: Beam | None = None, photons: int = 1_000_000, seed: int = 1, cyclic: bool = False,
    axis_mm: tuple[float, float] = (0.0, 0.0), name: str = "layers",
) -> LightCase:  # fmt: skip
    """Everything that the voxel engine needs to simulate a phantom: its domain with a source and settings.

    Parameters
    ----------
    domain
        What `voxel_phantom` made.
    beam
        The beam; None is a pencil beam.
    photons, seed
        As in the settings.
    cyclic
        Whether light that leaves through a side comes in at the other: layers without end, under beams without end.
    axis_mm
        World x and y of the beam.
    name
        What it is called.
    """
    source: Source = Pencil(position_mm=(*axis_mm, 0.0))
    settings = LightSettings(photons=photons, seed=seed, exit_map=True)
    if beam is not None:
        source = source.changed_to(_AS_SOURCE[type(beam)], radius_mm=beam.radius_mm)
    if cyclic:
        settings = dataclasses.replace(settings, faces=CYCLIC_SIDES)
    return LightCase(domain=domain, source=source, settings=settings, detectors=(), notes=domain.notes, name=name)


def common_voxel_mm(medium: LayeredMedium) -> float:
    """The largest height of voxels on whose boundaries all borders lie: the thicknesses' greatest common divisor, mm.

    An infinite last layer has no border below; a single one could have voxels of any size and gets a millimeter.
    """
    thicknesses = [Fraction(repr(layer.thickness_mm)) for layer in medium.layers if not layer.is_endless]
    return float(reduce(_common_divisor, thicknesses)) if thicknesses else 1.0


def proposed_sizes(medium: LayeredMedium, grid: LayeredSettings) -> tuple[float, float, float]:
    """Return height and width of voxels that fit every layer, and the width of a phantom as wide as a grid, mm."""
    depth = grid.depth_bins * grid.dz_mm
    height = common_voxel_mm(medium)
    height /= max(1, math.ceil(_FEWEST_DEEP * height / depth))
    if depth / height > _MAX_DEEP:
        height = grid.dz_mm
    width = 2 * grid.radial_bins * grid.dr_mm
    across = height * max(1, round(width / height / _MAX_WIDE))
    columns = max(1, round(width / across))
    columns += 1 - columns % 2  # odd, so that the beam's axis is in the middle of a voxel
    height, across, width = (float(f"{value:.9g}") for value in (height, across, across * columns))
    return height, across, width


def ended_mm(medium: LayeredMedium, grid: LayeredSettings, voxel_mm: float) -> float | None:
    """Return where an endless last layer ends, which is where a grid does, or None where that leaves it no voxel."""
    depth = grid.depth_bins * grid.dz_mm
    return depth if medium.layers[-1].is_endless and depth > medium.tops_mm[-2] + voxel_mm else None


def _common_divisor(a: Fraction, b: Fraction) -> Fraction:
    while b:
        a, b = b, a % b
    return a


def _borders(medium: LayeredMedium, width_mm: float, depth_mm: float | None) -> Floats:
    """Depths of the tops of all layers and of the bottom of the last, mm; an infinite one is cut."""
    tops = medium.tops_mm
    if medium.layers[-1].is_endless:
        tops[-1] = tops[-2] + width_mm if depth_mm is None else depth_mm
        if not tops[-1] > tops[-2]:
            raise InvalidInput(
                f"the phantom ends at {depth_mm:g} mm, above the last layer, which begins at {tops[-2]:g} mm; make it "
                "deeper"
            )
    return np.asarray(tops)


def _check(medium: LayeredMedium, borders: Floats, columns: int, voxel_mm: float) -> None:
    count = columns**2 * borders[-1]
    if count > MAX_VOXELS:
        raise InvalidInput(
            f"the phantom would have {count:.3g} voxels; at most {MAX_VOXELS:,} are possible: make it less wide, or "
            "its voxels larger"
        )
    for index in np.flatnonzero(np.diff(borders) == 0)[:1]:
        thickness, fitting = medium.layers[index].thickness_mm, common_voxel_mm(medium)
        advice = f"voxels of {fitting:g} mm fit every layer" if fitting > thickness / 100 else "take smaller voxels"
        raise InvalidInput(
            f"{medium.layer_name(index)} is {thickness:g} mm thick and gets no voxel of {voxel_mm:g} mm; {advice}"
        )


def _rounding(medium: LayeredMedium, requested: Floats, made: Floats, voxel_mm: float) -> Iterator[str]:
    """By how much thicknesses are rounded, if at all."""
    changed = [
        f"{medium.layer_name(i)} {before:.5g} → {after:.5g} mm"
        for i, (before, after) in enumerate(zip(np.diff(requested), np.diff(made), strict=True))
        if abs(after - before) > _SAME * voxel_mm and not medium.layers[i].is_endless
    ]
    if changed:
        yield f"Thicknesses were rounded to whole voxels of {voxel_mm:g} mm: {', '.join(changed)}."


def _width_note(requested: float, made: float) -> Iterator[str]:
    if not math.isclose(requested, made, rel_tol=1e-9):
        yield f"The width was rounded from {requested:g} to {made:g} mm."


def _other_notes(medium: LayeredMedium, depth_mm: float) -> Iterator[str]:
    if medium.layers[-1].is_endless:
        yield f"The last layer is infinitely thick and ends at {depth_mm:g} mm here."
    elif medium.n_below != medium.n_above:
        yield f"Below the layers n is {medium.n_below:g}; around the phantom it is {medium.n_above:g}, as above them."
