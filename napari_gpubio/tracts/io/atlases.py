"""Atlases: a label volume, and the names of its labels."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_tables import names_of_labels
from napari_gpubio.core.layer_files import STRUCTURES, read_described
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.tracts.io.dwi import read_volume
from napari_gpubio.tracts.regions import Atlas, label_counts


def as_labels(values: npt.NDArray[Any]) -> npt.NDArray[np.integer[Any]] | None:
    """Return whole numbers as labels, whatever their type, or None if some are fractions."""
    if values.dtype.kind in "iu":
        return values
    is_whole = values.dtype.kind in "fb" and bool(np.isfinite(values).all() and (values == np.rint(values)).all())
    return values.astype(np.int64) if is_whole else None


@reads_file
def read_atlas(path: str | Path, table: str | Path | None = None) -> Atlas:
    """Read an atlas.

    Parameters
    ----------
    path
        Labels: NIfTI or MRtrix ``.mif``, whole numbers, which may be stored as floats.
    table
        Names of the labels, in any form of `napari_gpubio.core.label_tables`; None: what this package saved with the
        labels, or a table beside them (``atlas.tsv``, ``atlas_labels.txt``, ...), or FreeSurfer's names if the volume
        is one of its ``aseg``, ``aparc+aseg`` or ``wmparc``, or no names. What does not fit is noted.

    Raises
    ------
    InvalidInput
        If a file cannot be read, or the volume holds other numbers than labels.
    """
    path = Path(path)
    values, affine = read_volume(path)
    labels = as_labels(values)
    if labels is None:
        raise InvalidInput("the volume holds fractions; an atlas is a volume of labels, not of probabilities")
    own = None
    if table is None and path.name.lower().endswith(NIFTI_SUFFIXES):
        own = read_described(path, labels.shape).get("metadata", {}).get(STRUCTURES)
    names = own or names_of_labels(path, label_counts(labels), table)
    return Atlas(labels=labels, affine=affine, names=names, path=path)
