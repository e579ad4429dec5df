"""What the JSON file beside an image says of the axes and the basis of what is in it.

This package writes ``basis`` and ``frame``. BIDS has ``OrientationEncoding`` (BIDS extension proposal 16, "Diffusion
derivatives"), whose ``Reference`` is ``xyz``, scanner axes, ``ijk``, the axes of the voxels, or ``bvec``; its
``SphericalHarmonicBasis`` is ``mrtrix3`` or ``descoteaux``. MRtrix's ``-json_export`` leaves ``mrtrix_version``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_json
from napari_gpubio.core.reading import note
from napari_gpubio.core.volumes import stem_of
from napari_gpubio.diffusion.fods.frames import FRAMES
from napari_gpubio.diffusion.fods.harmonics import BASES

_REFERENCES = {"xyz": "world", "ijk": "voxel", "bvec": "fsl"}


def json_facts(path: Path) -> dict[str, Any]:
    """What a JSON file says; nothing if it holds no object, InvalidInput if it is no JSON."""
    facts = existing_json(path)
    return facts if isinstance(facts, dict) else {}


def facts_beside(path: Path) -> dict[str, Any]:
    """What the JSON file beside an image says; nothing, with a note, if it cannot be read."""
    beside = path.with_name(f"{stem_of(path)}.json")
    try:
        return json_facts(beside) if beside.is_file() else {}
    except InvalidInput as error:
        note(f"what is said of {path.name} beside it is not known: {error}")
        return {}


def encoding_in(facts: dict[str, Any]) -> dict[str, Any]:
    """BIDS's ``OrientationEncoding`` of such facts; empty if there is none."""
    found = facts.get("OrientationEncoding")
    return found if isinstance(found, dict) else {}


def frame_in(facts: dict[str, Any]) -> str | None:
    """The frame that such facts name, a key of `napari_gpubio.diffusion.fods.frames.FRAMES`, or None."""
    named = facts.get("frame")
    if named is None:
        return _REFERENCES.get(str(encoding_in(facts).get("Reference")))
    if isinstance(named, str) and named in FRAMES:
        return str(named)
    _not_known("frame", named, FRAMES)
    return None


def basis_in(facts: dict[str, Any]) -> str | None:
    """The basis of spherical harmonics that such facts name, a key of `harmonics.BASES`, or None."""
    named = facts.get("basis")
    if named is None:
        named = encoding_in(facts).get("SphericalHarmonicBasis")
        named = "mrtrix" if str(named).casefold() == "mrtrix3" else named
    if named is None or (isinstance(named, str) and named in BASES):
        return named
    _not_known("basis", named, BASES)
    return None


def _not_known(what: str, named: object, known: Iterable[str]) -> None:
    note(f"the JSON file names the {what} {str(named)[:40]!r}, which is none of {', '.join(map(repr, known))}")
