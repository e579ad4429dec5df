"""Maps of multi-exposure fits as TIFF."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.speckle.io import TIFF_SUFFIXES
from napari_gpubio.speckle.mesi.result import NAMES, MesiResult

MAIN = "ict"  # map of a fit
UNITS = {
    "ict": "1/s",
    "ict_error": "1/s",
    "tau_ms": "ms",
    "tau_error_ms": "ms",
    "rho": "",
    "rho_error": "",
    "beta": "",
    "beta_error": "",
    "noise": "",
    "noise_error": "",
    "residual": "",
    "mask": "",
}


def write_fit(
    path: str | os.PathLike[str], fit: MesiResult, part: str, *, record: Mapping[str, Any] | None = None
) -> None:
    """Write one map of a fit as TIFF, readable by ImageJ; parameters and notes are in its description (JSON).

    Parameters
    ----------
    path
        A ``.tif`` file.
    fit
        Result of a fit.
    part
        A name among `UNITS`: ``"ict"``, ``"tau_ms"``, ``"rho"``, ``"beta"``, ``"noise"``, their errors, ``"residual"``
        (float32), or ``"mask"`` (uint8).
    record
        The operation that made it, as plain data.

    Raises
    ------
    InvalidInput
        If there is no such part, or the file cannot be written.
    """
    import tifffile

    if part not in UNITS:
        raise InvalidInput(f"part is {part!r}; choose one of {', '.join(map(repr, UNITS))}")
    if Path(path).suffix.lower() not in TIFF_SUFFIXES:
        raise InvalidInput(f"{Path(path).name} does not end in .tif; give it this ending")
    about = {**fit.parameters, "map": part, "unit": UNITS[part], "notes": fit.notes, "complete": fit.complete}
    about |= {} if record is None else {RECORD: record}
    if part == "mask":
        about["bits"] = {name: bit for bit, name in NAMES.items()}
    with atomic_write(Path(path)) as unfinished:
        tifffile.imwrite(
            unfinished, np.asarray(getattr(fit, part)), description=json.dumps(about), metadata=None,
            photometric="minisblack",
        )  # fmt: skip


def files_beside(path: Path) -> dict[str, Path]:
    """Return the files that `write_fits` writes beside that of 1/τ, by what they hold."""
    return {part: path.with_name(f"{path.stem}_{part}{path.suffix}") for part in UNITS if part != MAIN}


def write_fits(path: str | os.PathLike[str], fit: MesiResult, *, record: Mapping[str, Any] | None = None) -> None:
    """Write all maps of a fit as TIFF: 1/τ into a file, and the others beside it; see `write_fit`."""
    for part, one in {MAIN: Path(path), **files_beside(Path(path))}.items():
        write_fit(one, fit, part, record=record)
