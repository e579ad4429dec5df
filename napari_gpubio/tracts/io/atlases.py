"""Atlases: a label volume, and the names of its labels."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_tables import find_label_table, read_label_names
from napari_gpubio.core.layer_files import STRUCTURES, read_described
from napari_gpubio.core.reading import reads_file
from napari_gpubio.tracts.io.dwi import read_volume
from napari_gpubio.tracts.regions import Atlas


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
        labels, or a table beside them (``atlas.tsv``, ``atlas_labels.txt``, ...), or no names.

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
    if table is None:
        own = read_described(path, labels.shape).get("metadata", {}).get(STRUCTURES) if ".nii" in path.name else None
        table = None if own else find_label_table(path)
        names = own or ({} if table is None else read_label_names(table))
    else:
        names = read_label_names(table)
    return Atlas(labels=labels, affine=affine, names=names, path=path)
