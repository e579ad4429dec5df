"""Names of files of the Brain Imaging Data Structure (BIDS), and which files another one inherits.

A name is entities, a suffix and an extension: ``sub-01_run-1_dwi.nii.gz`` has the entities sub and run, and the suffix
dwi. A table, or a description, holds for all files of its suffix in its folder and below whose names have all of its
entities (BIDS 1.10, "The Inheritance Principle").
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_json
from napari_gpubio.core.reading import note

DESCRIPTION = "dataset_description.json"
_LEVELS = 3  # folders above that of a file: session, subject, dataset
_ENTITY = re.compile(r"([a-zA-Z]+)-([a-zA-Z0-9+]+)")


class BidsName(NamedTuple):
    """What the name of a file says: labels by the short names of entities, a suffix, and an extension with its dot."""

    entities: Mapping[str, str]
    suffix: str
    extension: str


def bids_name(path: str | os.PathLike[str]) -> BidsName:
    """Return what the name of a file says.

    Raises
    ------
    InvalidInput
        If it is no name of BIDS, or has an entity twice.

    Examples
    --------
    >>> from napari_gpubio.core.bids import bids_name
    >>> bids_name("sub-01_run-1_dwi.nii.gz")
    BidsName(entities={'sub': '01', 'run': '1'}, suffix='dwi', extension='.nii.gz')
    """
    stem, dot, extension = Path(path).name.partition(".")
    *words, suffix = stem.split("_")
    found = [_ENTITY.fullmatch(word) for word in words]
    entities = {one[1]: one[2] for one in found if one}
    if not words or not all(found) or not suffix.isalnum() or not dot:
        raise InvalidInput(f"{Path(path).name} is no name of BIDS, such as sub-01_run-1_dwi.nii.gz; rename it")
    if len(entities) < len(words):
        raise InvalidInput(f"{Path(path).name} has an entity twice; keep one of them")
    return BidsName(entities, suffix, dot + extension)


def inherited(path: Path, extension: str, suffix: str = "") -> Iterator[Path]:
    """Yield the files that BIDS lets a file inherit, the nearest first, and in a folder the most special.

    Parameters
    ----------
    path
        The file; of one whose name is not made of entities there are none.
    extension
        Of what is inherited, such as ``.bval``.
    suffix
        That of what is inherited; by default that of the file.
    """
    *entities, last = path.name.split("_")
    if not entities or not all("-" in one for one in entities):
        return
    folder, wanted = path.parent, suffix or last.partition(".")[0]
    for above in (folder, *folder.resolve().parents[:_LEVELS]):
        found = (one for one in above.glob(f"*{wanted}{extension}") if one.name != path.name)
        fitting = [(one.name.removesuffix(extension).split("_"), one) for one in found]
        fitting = [(words, one) for words, one in fitting if words[-1] == wanted and {*words[:-1]} <= {*entities}]
        yield from (one for _, one in sorted(fitting, key=lambda pair: (len(pair[0]), pair[1]), reverse=True))
        if (above / DESCRIPTION).is_file():
            return  # above it is no part of the dataset


def described(path: Path) -> dict[str, Any]:
    """Return what the JSON files of a file say, of which the nearest counts; those that are damaged are noted."""
    found = dict[str, Any]()
    for one in reversed([*inherited(path, ".json")]):
        try:
            says = existing_json(one)
        except InvalidInput as error:
            note(f"{error}; what it says of {path.name} is not known")
            continue
        found |= says if isinstance(says, dict) else {}
    return found
