"""What made a file: the record that it is, that lies beside it, or that is in it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.foreign import existing_json, json_of
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.ome_zarr import OURS, SUFFIX
from napari_gpubio.core.operations.files import RECORD_ENDING, outputs_in, read_outputs
from napari_gpubio.core.operations.kinds import known_conversions, known_kinds
from napari_gpubio.core.operations.records import Output, Reading, input_infos, verbs
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.stores import Store
from napari_gpubio.core.operations.volumes import Volume, record_beside
from napari_gpubio.core.reading import without_notes
from napari_gpubio.core.volumes import NIFTI_SUFFIXES

_TIFF_SUFFIXES = (".tif", ".tiff")


def outputs_of_file(path: str | Path) -> tuple[Output[Any], ...]:
    """Return the results that a record is of, or the one that a file holds, by the record that it carries.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or carries no record.
    """
    path = Path(path)
    verbs()  # of all engines, with their kinds of files
    ending = path.name.lower()
    if ending.endswith(SUFFIX):
        record = _in_zarr(path)
    elif existing_file(path) and ending.endswith(RECORD_ENDING):
        return read_outputs(path)
    elif ending.endswith(NIFTI_SUFFIXES):
        record = record_beside(path)
    else:
        record = _described(path) if ending.endswith(_TIFF_SUFFIXES) else _record_inside(path)
    if record is None:
        raise InvalidInput(
            f"{path.name} carries no record of what made it; give a record ({RECORD_ENDING}), as --record writes it, "
            "a session, or a file that carries one: an image with what lies beside it, fibers as .trx or .tck"
        )
    return outputs_in(record, path.parent)


def _in_zarr(path: Path) -> Any:
    """The record in the attributes of an OME-Zarr image; None if there is none."""
    about = existing_json(path / "zarr.json") if (path / "zarr.json").is_file() else None
    for name in ("attributes", OURS, RECORD):
        about = about.get(name) if isinstance(about, Mapping) else None
    return about


def _described(path: Path) -> Any:
    """The record in the description of a TIFF file; None if there is none."""
    import tifffile  # takes longest of all imports of a command line

    try:
        with tifffile.TiffFile(path) as file:
            about = json_of(file.pages.first.description, path.name)
    except (InvalidInput, OSError, ValueError, tifffile.TiffFileError):  # another one, or none
        return None
    return about.get(RECORD) if isinstance(about, Mapping) else None


def _record_inside(path: Path) -> Any:
    """The record that a result says in its parameters; None if it says none, or is no result."""
    for opens in ways_to_open(path):
        try:
            with without_notes():
                value = run(opens.at(path), device=choose_device("cpu"), store=Store())
        except GpuBioError:  # another way may open it
            continue
        return getattr(value, "parameters", {}).get(RECORD)
    return None


def ways_to_open(path: Path, made_by: Output[Any] | None = None) -> Iterator[type[Reading]]:
    """Operations that may open a file: by what made it, by what it is, by its name; and as a mere volume."""
    named = [kind for kind in known_kinds() if any(end and path.name.lower().endswith(end) for end in kind.endings)]
    is_volume = any(kind.type is Volume for kind in named)
    sources = {input_infos(one.operation)[one.field].kind for one in known_conversions()}  # such as scans
    ways = [
        [kind for kind in named if made_by is not None and issubclass(made_by.kind, kind.type)],
        [kind for kind in named if not is_volume or kind.type in sources],
        [kind for kind in named if kind.type is Volume],
    ]
    return (one for kinds in ways for kind in kinds for one in kind.opening)
