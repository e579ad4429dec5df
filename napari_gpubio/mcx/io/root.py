"""What an MCX input file says before it is a case, and its labels alone."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import reads_file
from napari_gpubio.mcx.io.domain import read_labels
from napari_gpubio.mcx.io.inp import load_inp
from napari_gpubio.mcx.io.jdata import Section, load_json
from napari_gpubio.optics.io.foreign import check_mcx_bytes, check_mcx_root

_SECTIONS = ("Session", "Forward", "Domain", "Optode")


def read_root(path: Path) -> Section:
    """Return what an input file says, JSON or lines; errors as `napari_gpubio.mcx.io.cases.read_mcx`."""
    if path.suffix.lower() == ".mcxp":
        raise InvalidInput(
            f"{path.name} is a project of MCX Studio, which holds several inputs; save the one you need there as JSON"
        )
    if path.is_file():
        with path.open("rb") as file:
            check_mcx_bytes(path.name, file.read(4096))
    fields = load_inp(path) if path.suffix.lower() == ".inp" else load_json(path)
    root = Section("", fields)
    if root.get("Shapes") is not None and not any(root.get(name) for name in _SECTIONS):
        raise InvalidInput(
            "it has shapes and nothing else: it is the volume of an input file, which names it as Domain.VolumeFile; "
            "open that one"
        )
    check_mcx_root(path.name, fields)
    return root


@reads_file
def read_mcx_labels(path: str | Path) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Read the labels of an MCX input file, and their affine, also where it has no case that can be simulated.

    Errors as of `napari_gpubio.mcx.io.cases.read_mcx`, as far as they concern the volume.
    """
    path = Path(path)
    return read_labels(read_root(path), path.parent)
