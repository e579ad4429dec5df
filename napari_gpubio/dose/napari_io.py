"""Doses and structures as napari layers and back, without importing napari."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import label_volume
from napari_gpubio.core.layer_files import STRUCTURES
from napari_gpubio.core.named_layers import NAMED_BY, closed_shapes, label_names
from napari_gpubio.core.napari_io import (
    IN_MM,
    KEY,
    LayerData,
    affine_mm,
    carried,
    is_oriented,
    stored_array,
    volume_layer,
)
from napari_gpubio.core.operations.layer_sources import register_finder
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.quantity import (
    UNIT,
    Quantity,
    Scale,
    guide_of,
    halves_of,
    quantity_metadata,
    quantity_of,
    standard_error_of,
)
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import slice_steps_mm
from napari_gpubio.dose.metrics.parameters import same_kind
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.structures.contours import Color, ContourStructure, contour_structure, emptied
from napari_gpubio.dose.structures.labels import LabelStructures
from napari_gpubio.dose.structures.overlaps import UNION, XOR
from napari_gpubio.dose.structures.planes import planar_frame
from napari_gpubio.dose.structures.raster import thickness_along
from napari_gpubio.dose.volumes import dose_of_volume, factor_to

Array = npt.NDArray[Any]
FRAME, PATIENT = "frame_of_reference", "patient"  # under which a layer carries them
TREATMENT = "treatment"  # of what of a treatment a layer is the dose
RTDOSE, NUMBERS = "rtdose", "roi_numbers"  # the file of a dose, and what an RTSTRUCT file calls structures by name
OVERLAPPING = "overlapping"  # whether structures of labels overlap, so that parts of some are lost
THICKNESS, JOINED, PARTED = (
    "thickness_mm",
    "joined_mm",
    "parted_mm",
)  # what contours have by name; see `ContourStructure`
CUT_OUT = "cut_out"  # names of structures whose loops cut out what two of them hold
PRESCRIPTION, PRESCRIPTIONS = "prescription", "prescriptions"  # in Gy; all of a plan, and where each was found
PLAN = "plan"  # the `napari_gpubio.dose.io.Plan` that a layer is the dose of, or of beams of it
CT_NUMBER = "CT number"  # the quantity of a CT, which is no dose


# -- doses ------------------------------------------------------------------------------------------------------------


register_finder((RTDOSE,), "napari_gpubio.dose.operations.layer_sources:finder")


def dose_layer(dose: Dose, name: str = "", **keywords: Any) -> LayerData:
    """Return the image layer of a dose, with its unit.

    Parameters
    ----------
    dose
        The dose.
    name
        Of the layer; empty: the dose's own.
    **keywords
        What else the layer is given; ``metadata`` is what it carries besides.
    """
    name_of_values = dose.quantity or ("absorbed dose" if same_kind(dose.unit, "Gy") else "dose")
    own = {**quantity_metadata(Quantity(name_of_values, dose.unit)), FRAME: dose.frame_of_reference}
    own |= {PATIENT: dose.patient, TREATMENT: (dose.summation, dose.plans, dose.beams)}
    metadata = {**own, **keywords.pop("metadata", {})}
    if dose.notes:
        metadata["notes"] = list(dict.fromkeys((*dose.notes, *metadata.get("notes", ()))))
    low = min(0.0, dose.least)
    limits = low, dose.largest if dose.largest > low else low + 1.0
    display = {"colormap": "inferno", "contrast_limits": limits, **keywords}
    return volume_layer(dose.values, dose.affine, name or dose.name or "dose", metadata=metadata, **display)


def of_plan(dose: Dose, plan: Any) -> dict[str, Any]:
    """Return what the layer of a dose carries of its plan: also the prescription, or else a note says why not."""
    found: dict[str, Any] = {PLAN: plan}
    try:
        if prescription := plan.prescription_of(dose):
            found |= {PRESCRIPTION: prescription[0], PRESCRIPTIONS: plan.prescriptions}
    except InvalidInput as error:
        note(str(error))
    return found


def unit_of(layer: Any) -> str:
    """Return the unit of a layer's values from its metadata, or an empty text: it is not guessed."""
    known = quantity_of(layer)
    unit = (known.unit if known else "") or carried(layer, UNIT) or layer.metadata.get(UNIT)
    return str(unit).strip() if unit else ""


def dose_of(layer: Any, unit: str, *, frame: int | None = None, scale: Scale | None = None) -> Dose:
    """Return the dose of an image layer, on the layer's own grid and on the linear scale.

    Parameters
    ----------
    layer
        Of three dimensions (z, y, x), or of four.
    unit
        Of its values, which are converted where the layer carries another unit of the same kind. Of logarithms it is
        the unit of the numbers that have them.
    frame
        Which volume of a layer of four dimensions.
    scale
        ``"log10"`` if the layer holds decimal logarithms; what the layer carries itself comes first.

    Raises
    ------
    InvalidInput
        If the values cannot be a dose, or the unit is missing, not known, or of another kind than the layer's.
    """
    summation, plans, beams = carried(layer, TREATMENT) or ("", (), ())
    dose = dose_of_volume(
        volume_of_dose(layer, scale),
        unit,
        frame=frame,
        standard_error=standard_error_of(layer),
        values_unit=unit_of(layer),
        frame_of_reference=str(carried(layer, FRAME) or ""),
        is_oriented=is_oriented(layer),
    )
    return dataclasses.replace(
        dose,
        notes=tuple(dict.fromkeys((*(carried(layer, "notes") or ()), *dose.notes))),
        summation=summation,
        plans=tuple(plans),
        beams=tuple(beams),
        patient=str(carried(layer, PATIENT) or ""),
    )


def volume_of_dose(layer: Any, scale: Scale | None = None) -> Volume:
    """Return an image layer as the volume that a dose is made of; arguments and errors as of `dose_of`."""
    if layer.ndim not in (3, 4) or getattr(layer, "rgb", False):
        raise InvalidInput(f"layer {layer.name!r} has {layer.ndim} dimensions; choose a dose with three, or a series")
    return Volume(
        array=np.asarray(stored_array(layer)),
        affine=affine_mm(layer),
        name=layer.name,
        quantity=quantity_of(layer) or Quantity("values", scale=scale or "linear"),
        halves=halves_of(layer),
        guide=guide_of(layer),
    )


def scale_of(layer: Any) -> Scale | None:
    """Return whether a layer holds its values or their decimal logarithms, or None where it does not say so."""
    known = quantity_of(layer)
    return None if known is None else known.scale


def unit_scale(layer: Any, unit: str) -> float:
    """Return what a layer's (linear) values are multiplied by, to be in a unit.

    Raises
    ------
    InvalidInput
        If the unit is not known, or measures something else than the one that the layer carries.
    """
    return factor_to(unit, unit_of(layer), layer.name)


# -- labels -----------------------------------------------------------------------------------------------------------


def labels_layer(
    structures: LabelStructures, name: str, colors: Mapping[int, Color] | None = None, **keywords: Any
) -> LayerData:
    """Return the labels layer of structures, with their names.

    Parameters
    ----------
    structures
        Labels and names.
    name
        Of the layer.
    colors
        Red, green, blue, 0 to 255, of labels; others are gray.
    **keywords
        What else the layer is given.
    """
    named = dict(zip(structures.values, structures.names, strict=True))
    own = {FRAME: structures.frame_of_reference, PATIENT: structures.patient}
    metadata = {STRUCTURES: named, **{key: text for key, text in own.items() if text}, **keywords.pop("metadata", {})}
    if colors:
        scaled = {label: (*(part / 255 for part in color), 1.0) for label, color in colors.items()}
        keywords = {"colormap": {None: "gray", 0: "transparent", **scaled}, **keywords}
    return volume_layer(structures.labels, structures.affine, name, kind="labels", metadata=metadata, **keywords)


def labels_of(layer: Any) -> LabelStructures:
    """Return the structures of labels, or of an image of them: every label that occurs, named as there or ``label 1``.

    Raises
    ------
    InvalidInput
        If the labels cannot be used, or there is none.
    """
    found = LabelStructures(labels=label_volume(layer), affine=affine_mm(layer))
    if not found.values:
        raise InvalidInput(f"the labels {layer.name!r} are empty; paint a structure, or choose other labels")
    known = label_names(layer)
    names = {value: known.get(value, name) for value, name in zip(found.values, found.names, strict=True)}
    return LabelStructures(
        labels=found.labels,
        affine=found.affine,
        structures=names,
        is_oriented=is_oriented(layer),
        frame_of_reference=str(carried(layer, FRAME) or ""),
        patient=str(carried(layer, PATIENT) or ""),
    )


# -- contours ---------------------------------------------------------------------------------------------------------


def contours_layer(
    structures: Sequence[ContourStructure], name: str, grid: Array | None = None, **keywords: Any
) -> LayerData:
    """Return the shapes layer of contours, one polygon for each loop.

    Parameters
    ----------
    structures
        Contours; their names are in the layer's table.
    name
        Of the layer.
    grid
        Affine (voxel to world, mm) of the dose or image that they are shown with: sliders then stop at its slices
        instead of every millimeter, as far as that changes no coordinate in its last digit.
    **keywords
        What else the layer is given; ``metadata`` is what it carries besides.
    """
    frames, patients = ({getattr(one, key) for one in structures} for key in (FRAME, PATIENT))
    own: dict[str, Any] = {
        STRUCTURES: [one.name for one in structures],
        FRAME: frames.pop() if len(frames) == 1 else "",
        PATIENT: patients.pop() if len(patients) == 1 else "",
        CUT_OUT: [one.name for one in structures if one.overlaps == XOR],
        THICKNESS: {one.name: one.thickness_mm for one in structures if one.thickness_mm is not None},
        JOINED: {one.name: one.joined_mm for one in structures if one.joined_mm},
        PARTED: {one.name: one.parted_mm for one in structures if one.parted_mm},
    }
    loops, names, colors = [], [], []
    for structure in structures:
        for loop in structure.world_loops:
            loops.append(loop[:, ::-1])
            names.append(structure.name)
            colors.append([*(part / 255 for part in structure.color or (255, 255, 255)), 1.0])
    scale, start = np.ones(3), np.zeros(3)
    if grid is not None and loops:
        scale, start = _exact_place(loops, slice_steps_mm(grid))
    return (
        [(loop - start) / scale for loop in loops],
        {
            "name": name,
            "ndim": 3,
            "scale": tuple(map(float, scale)),
            "translate": tuple(map(float, start)),
            "edge_width": 1.0 / scale.max(),
            "shape_type": "polygon",
            "edge_color": np.array(colors).reshape(-1, 4),
            "face_color": "transparent",
            "features": {NAMED_BY[0]: names},
            **IN_MM,
            "metadata": {KEY: {**own, **keywords.pop("metadata", {})}},
            **keywords,
        },
        "shapes",
    )


def _exact_place(loops: Sequence[Array], steps: Array) -> tuple[Array, Array]:
    """Scale and translation (z, y, x) with which loops come back bit by bit, of 32, and sliders stop at slices, mm.

    Across the planes of the loops the scale is the distance of slices, or 1 where that is not exact; in the planes it
    is a power of two that is no smaller, so that the image's own voxels are the step.
    """
    flat = np.all([np.ptp(loop, axis=0) == 0 for loop in loops], axis=0)
    scale, start = np.full(3, 2.0 ** np.ceil(np.log2(steps.max()))), np.zeros(3)
    points = np.concatenate(loops).astype(np.float32).astype(np.float64)
    for axis in np.flatnonzero(flat):
        own, first = points[:, axis], points[:, axis].min()
        counted = ((own - first) / steps[axis]).astype(np.float32).astype(np.float64)
        is_exact = np.array_equal(counted * steps[axis] + first, own)
        scale[axis], start[axis] = (steps[axis], first) if is_exact else (1.0, 0.0)
    return scale, start


def contours_of(layer: Any, dose: Dose) -> tuple[ContourStructure, ...]:
    """Return the structures of a shapes layer: one for each name in its table, or one named as the layer.

    Polygons, rectangles and ellipses are contours; a structure in a single plane is taken to be as thick as a slice of
    the dose.

    Parameters
    ----------
    layer
        Shapes of at least three dimensions.
    dose
        Over which they were drawn.

    Raises
    ------
    InvalidInput
        If there is no contour, or they do not lie in parallel planes.
    """
    loops, colors, left_out = _loops_of(layer)
    if not loops:
        more = f" ({left_out} shapes are open: lines or paths)" if left_out else ""
        raise InvalidInput(f"the shapes {layer.name!r} hold no contour{more}; draw polygons in slices of the dose")
    open_shapes = f"{left_out} shapes of {layer.name!r} are open (lines or paths) and were left out"
    given = _Given(layer, dose, (open_shapes,) if left_out else ())
    found, refusals = [], []
    for name, parts in loops.items():
        try:
            found.append(_structure(name, parts, colors[name], given))
        except InvalidInput as error:
            refusals.append(error)
            found.append(emptied(ContourStructure(name=name, planes=(), color=colors[name]), error))
    if refusals and len(refusals) == len(found):
        raise refusals[0]
    frame, patient = (str(carried(layer, key) or "") for key in (FRAME, PATIENT))
    return tuple(dataclasses.replace(one, frame_of_reference=frame, patient=patient) for one in found)


class _Given(NamedTuple):
    """What structures of a layer have in common."""

    layer: Any
    dose: Dose  # over which they were drawn
    notes: tuple[str, ...]


def _structure(name: str, loops: Sequence[Array], color: Color, given: _Given) -> ContourStructure:
    cut_out, known = carried(given.layer, CUT_OUT) or (), (carried(given.layer, THICKNESS) or {}).get(name)
    joined = carried(given.layer, JOINED)  # of a file, whose copies of contours have been found by its CT
    frame, _ = planar_frame([loop for loop in loops if len(loop) >= 3] or [np.zeros((3, 3))])
    thickness = thickness_along(given.dose.affine, frame[:3, 2]) if known is None else float(known)
    found = contour_structure(
        name,
        loops,
        thickness_mm=thickness,
        color=color,
        overlaps=XOR if name in cut_out else UNION,
        slice_mm=None if joined is None else 0.0,
        joined_mm=(joined or {}).get(name, ()),
        parted_mm=(carried(given.layer, PARTED) or {}).get(name, ()),
    )
    notes = [*found.notes, *given.notes]
    if len(found.planes) == 1 and known is None:
        notes.append(
            f"{name!r} lies in a single plane and is taken to be {thickness:.3g} mm thick, as the dose's slices"
        )
    return dataclasses.replace(found, notes=tuple(notes))


def _loops_of(layer: Any) -> tuple[dict[str, list[Array]], dict[str, Color], int]:
    """Loops by the name of their structure, world mm, their colors, and how many shapes are none."""
    drawn, left_out = closed_shapes(layer)
    loops: dict[str, list[Array]] = {}
    colors: dict[str, Color] = {}
    for shape in drawn:
        loops.setdefault(shape.name, []).append(shape.points_mm)
        colors.setdefault(shape.name, shape.color)
    return loops, colors, left_out
