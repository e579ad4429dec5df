"""Layers as labels in voxels, to be simulated by the voxel engine or painted on.

Depth runs along the world's z, as in the layered engine; the axis of the beam is x = y = 0 unless told otherwise, so
that `napari_gpubio.light.Source()` shines where the pencil beam does.
"""

import dataclasses
import math
from fractions import Fraction
from functools import reduce

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.mcx.cases import McxCase
from napari_gpubio.light.layered.beams import Beam
from napari_gpubio.light.layered.model import LayeredMedium
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source

MOST_VOXELS = 1 << 28
CYCLIC_SIDES = ("cyclic",) * 4 + ("default",) * 2
_SAME = 1e-6  # of a voxel: rounding of floating-point numbers is no rounding of a thickness
_KINDS = {"gaussian": "gaussian", "flat": "disk"}  # of a beam, as a source knows it


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
    """Make labels 1, 2, ... of layers; what had to be changed is told in the domain's notes.

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
    across_mm = voxel_mm if across_mm is None else across_mm
    for name, value in (("voxel_mm", voxel_mm), ("width_mm", width_mm), ("across_mm", across_mm)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"{name} is {value}; it must be greater than 0 mm")
    borders_mm = _borders(medium, width_mm, depth_mm)
    borders, columns = np.rint(borders_mm / voxel_mm), max(1, round(width_mm / across_mm))
    _check(medium, borders, columns, voxel_mm)
    depths = np.diff(borders).astype(np.int64)
    labels = np.repeat(np.arange(1, len(depths) + 1, dtype=np.uint8), depths)
    notes = (
        *_rounding(medium, borders_mm, voxel_mm * borders, voxel_mm),
        *_width_note(width_mm, columns * across_mm),
        *_other_notes(medium, borders_mm[-1]),
    )
    return Domain(
        labels=np.broadcast_to(labels, (columns, columns, len(labels))),
        affine=_affine(columns, across_mm, voxel_mm, axis_mm),
        media=_media(medium, source),
        outside_n=medium.n_above,
        notes=notes,
    )


def voxel_case(
    domain: Domain, *, beam: Beam | None = None, photons: int = 1_000_000, seed: int = 1, cyclic: bool = False,
    axis_mm: tuple[float, float] = (0.0, 0.0), name: str = "layers",
) -> McxCase:  # fmt: skip
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
    source = Source(position_mm=(*axis_mm, 0.0), direction=(0.0, 0.0, 1.0))
    settings = Settings(photons=photons, seed=seed, exit_map=True)
    if beam is not None:
        source = dataclasses.replace(source, kind=_KINDS[beam.kind], radius_mm=beam.radius_mm)
    if cyclic:
        settings = dataclasses.replace(settings, faces=CYCLIC_SIDES)
    return McxCase(
        domain=domain,
        source=source,
        settings=settings,
        detectors=(),
        notes=domain.notes,
        name=name,
    )


def common_voxel_mm(medium: LayeredMedium) -> float:
    """The largest height of voxels on whose boundaries all borders lie: the thicknesses' greatest common divisor, mm.

    An infinite last layer has no border below; a single one could have voxels of any size and gets a millimetre.
    """
    thicknesses = [Fraction(repr(layer.thickness_mm)) for layer in medium.layers if not layer.is_endless]
    return float(reduce(_common_divisor, thicknesses)) if thicknesses else 1.0


def _common_divisor(a: Fraction, b: Fraction) -> Fraction:
    while b:
        a, b = b, a % b
    return a


def _borders(medium: LayeredMedium, width_mm: float, depth_mm: float | None) -> np.ndarray:
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


def _check(medium: LayeredMedium, borders: np.ndarray, columns: int, voxel_mm: float) -> None:
    count = columns**2 * borders[-1]
    if count > MOST_VOXELS:
        raise InvalidInput(
            f"the phantom would have {count:.3g} voxels; at most {MOST_VOXELS:,} are possible: make it less "
            "wide, or its voxels larger"
        )
    for index in np.flatnonzero(np.diff(borders) == 0)[:1]:
        thickness = medium.layers[index].thickness_mm
        raise InvalidInput(
            f"{_title(medium, index)} is {thickness:g} mm thick and gets no voxel of {voxel_mm:g} mm; take voxels of "
            f"{common_voxel_mm(medium):g} mm, which fit every layer"
        )


def _affine(columns: int, across_mm: float, voxel_mm: float, axis_mm: tuple[float, float]) -> np.ndarray:
    affine = np.diag([across_mm, across_mm, voxel_mm, 1.0])
    affine[:2, 3] = np.asarray(axis_mm) - across_mm * (columns - 1) / 2
    affine[2, 3] = voxel_mm / 2
    return affine


def _media(medium: LayeredMedium, source: str) -> tuple[Medium, ...]:
    names = ("name", "mua_per_mm", "mus_per_mm", "g", "n")
    return tuple(
        Medium(label=label, source=source, **{name: getattr(layer, name) for name in names})
        for label, layer in enumerate(medium.layers, start=1)
    )


def _rounding(medium: LayeredMedium, wanted: np.ndarray, got: np.ndarray, voxel_mm: float) -> list[str]:
    """By how much thicknesses are rounded, if at all."""
    off = np.diff(got) - np.diff(wanted)
    if (np.abs(off) < _SAME * voxel_mm).all():
        return []
    changed = [
        f"{_title(medium, i)} {thickness:g} → {thickness + off[i]:g} mm"
        for i, thickness in enumerate(np.diff(wanted))
        if abs(off[i]) >= _SAME * voxel_mm
    ]
    return [f"Thicknesses were rounded to whole voxels of {voxel_mm:g} mm: {', '.join(changed)}."]


def _width_note(wanted: float, got: float) -> list[str]:
    return [] if math.isclose(wanted, got, rel_tol=1e-9) else [f"The width was rounded to {got:g} mm."]


def _other_notes(medium: LayeredMedium, depth_mm: float) -> list[str]:
    if medium.layers[-1].is_endless:
        return [f"The last layer is infinitely thick and ends at {depth_mm:g} mm here."]
    if medium.n_below != medium.n_above:
        return [
            f"Below the layers n is {medium.n_below:g}; around the phantom it is {medium.n_above:g}, as above them."
        ]
    return []


def _title(medium: LayeredMedium, index: int) -> str:
    return medium.layers[index].name or f"layer {index + 1}"
