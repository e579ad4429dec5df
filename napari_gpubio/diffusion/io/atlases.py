"""Atlases: a label volume, and the names of its labels."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_tables import find_label_table, names_of_labels, table_of_labels
from napari_gpubio.core.label_volumes import as_labels, looks_like_labels
from napari_gpubio.core.layer_files import STRUCTURES, read_described, sidecar_path
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, has_orientation
from napari_gpubio.diffusion.io.dwi import read_volume
from napari_gpubio.diffusion.io.grids import Reference, place_in
from napari_gpubio.diffusion.regions import Atlas, label_counts


@reads_file
def read_atlas(path: str | Path, table: str | Path | None = None, *, reference: Reference | None = None) -> Atlas:
    """Read an atlas.

    Parameters
    ----------
    path
        Labels: NIfTI or MRtrix ``.mif``, whole numbers, which may be stored as floats; for NaN and -1 see
        `napari_gpubio.core.label_volumes.as_labels`.
    table
        Names of the labels, in any form of `napari_gpubio.core.label_tables`, or the JSON file that this package saved
        with the labels; None: what this package saved with the
        labels, or a table beside them (``atlas.tsv``, ``atlas_labels.txt``, ...), or FreeSurfer's names if the volume
        is one of its ``aseg``, ``aparc+aseg`` or ``wmparc``, or no names. What does not fit is noted.
    reference
        Where labels without an orientation lie, voxel by voxel: an image (NIfTI, MRtrix), or (affine, shape).

    Raises
    ------
    InvalidInput
        If a file cannot be read, the volume holds other numbers than labels, or a reference that is needed has other
        voxels.
    """
    path = Path(path)
    values, affine = read_volume(path)
    is_oriented = has_orientation(path)
    if reference is not None and not is_oriented:
        affine, is_oriented = place_in(reference, values.shape, affine)
    labels, about = as_labels(values)
    if labels is None:
        raise InvalidInput(
            "the volume holds fractions, or numbers beyond 2^53; an atlas is a volume of labels, not of probabilities"
        )
    if about:
        note(about)
    own = None
    is_own = table is None or Path(table) == sidecar_path(path)
    if is_own and path.name.lower().endswith(NIFTI_SUFFIXES):
        own = read_described(path, labels.shape).get("metadata", {}).get(STRUCTURES)
    names = own or names_of_labels(path, label_counts(labels), table)
    if not names and labels.min() < labels.max() and not looks_like_labels(labels):
        note("its whole numbers differ from voxel to voxel as those of an image do; they were taken for labels")
    return Atlas(labels=labels, affine=affine, names=names, path=path, is_oriented=is_oriented)


def names_beside(path: str | Path) -> Path | None:
    """Return the file from which `read_atlas` takes names of labels where none is given; None: there is none."""
    path = Path(path)
    if path.name.lower().endswith(NIFTI_SUFFIXES) and STRUCTURES in read_described(path, ()).get("metadata", {}):
        return sidecar_path(path)
    labels, _ = as_labels(read_volume(path)[0])
    return None if labels is None else table_of_labels(path, label_counts(labels))


def shown_atlas(
    path: Path, values: npt.NDArray[Any], affine: npt.NDArray[np.float64], *, is_said: bool
) -> Atlas | None:
    """Return a volume that is to be shown as an atlas, with notes, or None if it is rather an image.

    It is an atlas if the header says so (``is_said``), a table beside it names its labels, or it looks like one.
    """
    labels, about = as_labels(values)
    if labels is None:
        return None
    has_table = find_label_table(path) is not None and find_label_table(path, label_counts(labels)) is not None
    if not (has_table or is_said or looks_like_labels(labels)):
        return None
    if about:
        note(about)
    if not has_table:
        note("its whole numbers are labels here; Convert to Image in the menu of the layer list shows an image")
    return Atlas(labels=labels, affine=affine, names=names_of_labels(path, label_counts(labels)), path=path)
