"""Several sources of a file in the panel, which has controls for one: a run has all of them while none is changed."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_gpubio.light.detectors import AnyDetector, FaceDetector
from napari_gpubio.light.gui.optodes import Optodes
from napari_gpubio.light.model import VOXEL_LIMITS, Domain
from napari_gpubio.light.settings import LightCase
from napari_gpubio.light.source import AnySource, Source

_PROPERTIES = {"mua_per_mm": "µa", "mus_per_mm": "µs", "g": "g", "n": "refractive index"}


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedSources:
    """Sources of a file or result, and what the panel showed of them at first.

    Parameters
    ----------
    sources
        All of them.
    placed
        Where the panel has them, and which one is active.
    first
        The one with the sizes on show.
    image
        Layer of the irradiance on show, or None.
    """

    sources: tuple[Source, ...]
    placed: Optodes
    first: Source
    image: Any

    def is_shown(self, placed: Optodes, source: Source, image: Any) -> bool:
        """Whether the panel still has all of them as they are in the file."""
        here, there = self.placed, placed
        same = here.sources == there.sources and here.active == there.active
        same &= self.first.kind != "pattern" or image is self.image
        return same and _numbers(self.first) == _numbers(source)

    @property
    def note(self) -> str:
        """What a user needs to know about them."""
        return (
            f"There are {len(self.sources)} sources. A run has all of them, by their weights, until one is moved, "
            "changed or chosen; then it has the chosen one alone, with the sizes on show."
        )


_NO_VOLUME = (
    "The source is a volume whose cells emit, which this window does not have: a point stands in its place. Run the "
    "file from the shell (napari-gpubio light) or from Python."
)
_NO_FACES = "Whole faces that detect are left out here; napari-gpubio light runs the file with them."
_NO_SLANT = "The source's rectangle is set upright here; napari-gpubio light runs the file with its own edges."
_LATER = "Then a volume that emits becomes a point, and a rectangle with edges of its own is set upright."
_ANGLES = "The source has launch angles of its file, for which there is no control; a focus or spread replaces them."


def left_out(sources: Sequence[Source], detectors: Sequence[AnyDetector]) -> tuple[str, ...]:
    """What the panel leaves out of the sources and detectors of a file or result."""
    first, notes = sources[0], []
    if any(isinstance(detector, FaceDetector) for detector in detectors):
        notes.append(_NO_FACES)
    if first.launch_angles_deg is not None:
        notes.append(_ANGLES)
    if len(sources) > 1:
        is_special = any(source.kind == "volume" or source.height_axis is not None for source in sources)
        return (*notes, *[_LATER] * is_special)
    return (*notes, *[_NO_VOLUME] * (first.kind == "volume"), *[_NO_SLANT] * (first.height_axis is not None))


def kept_by_voxel(domain: Domain) -> tuple[str, ...]:
    """A sentence on properties that a file has voxel by voxel, which the table of labels does not change."""
    kept = [_PROPERTIES[name] for name in VOXEL_LIMITS if getattr(domain, name) is not None]
    kept += ["scattering along fibers"] * domain.is_anisotropic
    return (f"Voxel by voxel, as in the file and whatever the table says: {', '.join(kept)}.",) if kept else ()


def _numbers(source: Source) -> dict[str, Any]:
    return {field.name: getattr(source, field.name) for field in dataclasses.fields(source) if field.name != "pattern"}


def shown_source(case: LightCase) -> AnySource:
    """The sources of a case as the panel has them: patterns that share photons emit together."""
    if case.patterns is None:
        return case.source
    shares = case.patterns / case.patterns.sum(axis=(1, 2), keepdims=True)
    return dataclasses.replace(case.sources[0], kind="pattern", pattern=np.asarray(shares.mean(axis=0)))


def case_notes(case: LightCase) -> tuple[str, ...]:
    """The notes of a case, and what the panel does with its patterns."""
    if case.patterns is None:
        return case.notes
    count = len(case.patterns)
    return (
        *case.notes,
        f"The file has {count} patterns that share photons; here they are emitted together, with equal power.",
    )
