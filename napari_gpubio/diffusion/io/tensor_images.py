"""Tensor images of other programs, in and out.

The order of the components, and the axes they refer to: `napari_gpubio.core.tensor_components`.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.mif import MIF_SUFFIXES, read_mif
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.tensor_components import (
    FRAMES,
    FULL,
    PLACES,
    axes_of,
    flat_components,
    positive_definite,
    rotate_tensors,
)
from napari_gpubio.core.volumes import nifti_affine, nifti_array, open_nifti, save_nifti
from napari_gpubio.diffusion.io.dwi import read_mask
from napari_gpubio.diffusion.io.orientation_sidecars import encoding_in, facts_beside, frame_in
from napari_gpubio.diffusion.model import TensorField

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
SYMMATRIX = 1005  # NIfTI's intent of symmetric matrices
_CLEARLY_BETTER = 0.05
_OVERRULES = 0.5  # by so much another order than that of the kind of file must be better, as after a conversion
LARGEST_TRACE = 0.05  # mm^2/s; free water at 37 C has 0.009
_SMALLEST_TRACE = 1e-4
_UNITS = (("mm^2/s", 1.0), ("um^2/ms", 1e-3), ("um^2/s", 1e-6))  # the last one as TORTOISE has
_LARGEST = 1e30  # beyond it single precision overflows in what is made of a tensor
_FLOOR_MM2_PER_S = 1e-6


@reads_file
def read_tensors(
    path: str | Path, *, order: str = "auto", frame: str = "auto", mask: Array | str | Path | None = None
) -> TensorField:
    """Read a tensor image of MRtrix, FSL, DIPY or another program.

    Parameters
    ----------
    path
        A NIfTI or MRtrix image: (X, Y, Z, 6), (X, Y, Z, 1, 6), (X, Y, Z, 9) or (X, Y, Z, 3, 3).
    order
        ``"mrtrix"``, ``"fsl"``, ``"dipy"``, ``"full"`` (see `napari_gpubio.core.tensor_components`), or ``"auto"``:
        by the file's kind and shape, or the JSON file of BIDS beside it, else the order under which clearly the most
        tensors are positive definite.
    frame
        Axes that the components refer to: ``"world"``, ``"voxel"`` (the image's own), ``"fsl"`` (the same, the first
        one reversed if the affine has a positive determinant), or ``"auto"``: what the JSON file beside the image says,
        else the program's convention.
    mask
        Voxels to use, an array of shape (X, Y, Z) or a file. Without one: every tensor that is not zero.

    Returns
    -------
    TensorField
        World axes, mm^2/s (converted where the trace shows um^2/ms or um^2/s); every tensor is positive definite, and
        the notes give the number of repaired ones.

    Raises
    ------
    InvalidInput
        If the file cannot be read, the shape is not one of the above, the order is not clear, or no voxel is left.
    """
    _check_choice("order", order, ("auto", *PLACES))
    _check_choice("frame", frame, ("auto", "world", "voxel", "fsl"))
    path = existing_file(path)
    components, affine, known = _components(path)
    inside, mask_notes = _inside(components, affine, mask, path.name)
    facts = facts_beside(path)
    if known is None and order == "auto" and encoding_in(facts).get("Type") == "tensor":
        known = "fsl"  # BIDS has the order of FSL, and says the axes
    order, order_note = order_of(order, known, components[inside], path.name)
    source = "as requested" if frame != "auto" else "as the JSON file says"
    if frame == "auto" and (frame := frame_in(facts) or "auto") == "auto":
        frame, source = FRAMES[order], "as is usual in that order; frame= takes others"
    rows = symmetric(components[inside].astype(np.float64), path.name)
    rows = np.take(rows, PLACES[order], axis=1)
    rows = rotate_tensors(rows, axes_of(frame, affine))
    rows, unit_notes = _in_mm2_per_s(rows)
    tensors = np.zeros((*inside.shape, 6), np.result_type(components.dtype, np.float32))
    tensors[inside] = rows
    return _mended(
        TensorField(
            tensors=tensors,
            mask=inside,
            affine=affine,
            path=path,
            notes=(f"{order_note}; components refer to {frame} axes, {source}", *mask_notes, *unit_notes),
        )
    )


def write_tensors(path: str | Path, field: TensorField, order: str = "mrtrix") -> None:
    """Write a tensor field as NIfTI, in the order and the axes of a program; mm^2/s.

    Parameters
    ----------
    path
        Ends in ``.nii`` or ``.nii.gz``; an older file is replaced only when the new one is complete.
    field
        The tensors.
    order
        ``"mrtrix"``, ``"fsl"``, ``"dipy"`` (5 dimensions, intent SYMMATRIX) or ``"full"`` (9 volumes).

    Raises
    ------
    InvalidInput
        If the order or the ending is not known, or the folder does not exist.
    """
    _check_choice("order", order, tuple(PLACES))
    own = rotate_tensors(field.tensors, axes_of(FRAMES[order], field.affine).T)
    if own.dtype not in (np.float32, np.float64):
        own = own.astype(np.float32)
    values = own[..., list(FULL) if order == "full" else np.argsort(PLACES[order])]
    import nibabel

    image = nibabel.Nifti1Image(values[:, :, :, None] if order == "dipy" else values, field.affine)
    if order == "dipy":
        image.header.set_intent("symmetric matrix", (3,))
    save_nifti(path, image, f"diffusion tensors, mm2/s, {order} order")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidInput(f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}")


def _components(path: Path) -> tuple[Array, npt.NDArray[np.float64], str | None]:
    """Components (X, Y, Z, 6 or 9) as the file has them, the affine, and the order if the kind of file has one."""
    if path.name.lower().endswith(MIF_SUFFIXES):
        mif = read_mif(path)
        return flat_components(mif.data, path.name), mif.affine, "mrtrix"
    image = open_nifti(path)
    data = flat_components(nifti_array(image, path), path.name)
    known = "dipy" if int(image.header["intent_code"]) == SYMMATRIX else None
    return data, nifti_affine(image), known


def _inside(
    components: Array, affine: npt.NDArray[np.float64], mask: Array | str | Path | None, name: str
) -> tuple[Mask, tuple[str, ...]]:
    """Voxels that hold a tensor, and notes on those of the mask that do not."""
    finite = ((components < _LARGEST) & (components > -_LARGEST)).all(axis=3)
    usable = finite & (components != 0).any(axis=3)
    lost = np.count_nonzero(~finite)
    notes = [f"{lost} tensors are not finite, or beyond 1e30; they were left out"] if lost else []
    if mask is not None:
        shape = components.shape[:3]
        chosen = read_mask(mask, shape, affine) if isinstance(mask, str | Path) else np.asarray(mask) != 0
        if chosen.shape != shape:
            raise InvalidInput(f"the mask has shape {chosen.shape} and the tensors {shape}; they must be the same")
        if empty := int(np.count_nonzero(chosen & finite & ~usable)):
            notes.append(f"{empty} voxels of the mask have a zero tensor; they were left out")
        usable &= chosen
    if not usable.any():
        raise InvalidInput(f"{name} has no tensor in the mask that is finite and not zero; check the file and the mask")
    return usable, tuple(notes)


def definite_shares(rows: Array) -> dict[str, float]:
    """Share of positive definite tensors among six components (M, 6), in each order that they may have."""
    orders = ("mrtrix", "fsl", "dipy")
    return {order: float(positive_definite(np.take(rows, PLACES[order], axis=1)).mean()) for order in orders}


def order_of(order: str, known: str | None, rows: Array, name: str) -> tuple[str, str]:
    """Return the order of components (M, 6 or 9) and a note on how it was found.

    Parameters
    ----------
    order
        As requested; see `read_tensors`.
    known
        By the kind of the file, or None.
    rows
        Of the tensors that are not zero.
    name
        Of the file.

    Raises
    ------
    InvalidInput
        If the numbers do not show the order, or there are not as many components as it has.
    """
    if (rows.shape[1] == 9) != (order == "full") and order != "auto":
        raise InvalidInput(f"{name} has {rows.shape[1]} components, which order={order!r} does not; choose another")
    if order != "auto":
        return order, f"components in {order} order, as requested"
    if rows.shape[1] == 9:
        return "full", "components are full 3 x 3 matrices"
    shares = definite_shares(rows)
    if known is not None:
        best = max(shares, key=lambda name: shares[name])
        if shares[best] - shares[known] < _OVERRULES:
            return known, f"components in {known} order, by the kind of the file"
        return best, (
            f"components taken in {best} order ({100 * shares[best]:.1f} % positive definite), though by the kind of "
            f"the file it should be {known} ({100 * shares[known]:.1f} %)"
        )
    first, second, _ = sorted(shares, key=lambda o: -shares[o])
    if shares[first] - shares[second] <= _CLEARLY_BETTER:
        shown = ", ".join(f"{order} {100 * share:.1f} %" for order, share in shares.items())
        raise InvalidInput(
            f"the order of the components of {name} cannot be determined (positive definite tensors: {shown}); "
            "give order='mrtrix', 'fsl' or 'dipy'"
        )
    return first, f"components taken in {first} order ({100 * shares[first]:.1f} % positive definite)"


def symmetric(rows: Array, name: str) -> Array:
    """Check that full matrices are symmetric, and make them so to the last digit; six components stay as they are."""
    if rows.shape[1] == 6:
        return rows
    turned = rows[:, [0, 3, 6, 1, 4, 7, 2, 5, 8]]
    if np.median(np.abs(rows - turned).max(axis=1)) > 1e-3 * np.median(np.abs(rows).max(axis=1)):
        raise InvalidInput(f"the 3 x 3 matrices of {name} are not symmetric, so they are no diffusion tensors")
    return (rows + turned) / 2


def _in_mm2_per_s(rows: Array) -> tuple[Array, tuple[str, ...]]:
    trace = float(np.median(rows[:, :3].sum(axis=1)))
    unit, factor = next(pair for pair in _UNITS if trace * pair[1] <= LARGEST_TRACE or pair is _UNITS[-1])
    if 0 < trace * factor < _SMALLEST_TRACE or trace * factor > LARGEST_TRACE:
        return rows * factor, (f"the median trace is {trace:.3g} {unit}, far from that of tissue; check the unit",)
    converted = " and converted to mm^2/s" if factor != 1 else ""
    return rows * factor, (f"the median trace is {trace:.3g}, so {unit} were taken{converted}",)


def _mended(field: TensorField) -> TensorField:
    """Return a field whose tensors are all positive definite, with a note on how many were not."""
    from napari_gpubio.diffusion.tensors.repair import repair_tensors

    bad = int(np.count_nonzero(~positive_definite(field.tensors[field.mask])))
    tensors, repaired = repair_tensors(field.tensors, field.mask, _FLOOR_MM2_PER_S)
    note = (
        f"{np.count_nonzero(repaired)} of {np.count_nonzero(field.mask)} tensors had an eigenvalue below "
        f"{_FLOOR_MM2_PER_S:g} mm^2/s ({bad} were not positive definite); it was raised to that"
    )
    notes = (*field.notes, note) if repaired.any() else field.notes
    return dataclasses.replace(field, tensors=tensors, repaired=repaired, notes=notes)
