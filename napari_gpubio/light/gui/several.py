"""Inputs of a file in the panel, which has controls for one source: a run has all while none of them is changed."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_gpubio.light.gui.optodes import Optodes
from napari_gpubio.light.settings import LightCase
from napari_gpubio.optics.detectors import AnyDetector, FaceDetector
from napari_gpubio.optics.sources import AnySource, EmittingVolume, Pattern, Rectangle, Source, rectangle_of

_NO_FACES = "Whole faces that detect are left out here; napari-gpubio mcx runs the file with them."
_NO_VOLUME = (
    "The source is a volume whose cells emit, which this window does not have: a point stands in its place. Run the "
    "file from the shell (napari-gpubio mcx) or from Python."
)
_NO_SLANT = "The source's rectangle is set upright here; napari-gpubio mcx runs the file with its own edges."
_VOLUME_OF_SEVERAL = (
    "One of them is a volume whose cells emit, which this window does not have: once one of them is changed, another "
    "kind of source stands in its place."
)
_SLANT_OF_SEVERAL = "One of them is a slanted rectangle: once one of them is changed, it is set upright."


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedSources:
    """Sources of a file, result or session, and what the panel showed of them at first.

    Parameters
    ----------
    sources
        All of them.
    placed
        Where the panel has them, and which one is active.
    first
        The one with the sizes on show.
    pattern_layer
        The image that is its pattern, or None.
    """

    sources: tuple[Source, ...]
    placed: Optodes
    first: Source
    pattern_layer: Any | None = None

    def is_shown(self, placed: Optodes, source: Source, pattern_layer: Any | None) -> bool:
        """Whether the panel still has all of them as they are in the file."""
        here, there = self.placed, placed
        same_places = here.sources == there.sources and here.active == there.active
        return same_places and pattern_layer == self.pattern_layer and self.first == source


def shown_source(case: LightCase) -> AnySource:
    """The sources of a case as the panel has them: patterns that share photons are emitted together."""
    if case.patterns is None:
        return case.source
    shares = case.patterns / case.patterns.sum(axis=(1, 2), keepdims=True)
    return rectangle_of(case.sources[0]).changed_to(Pattern, pattern=np.asarray(shares.mean(axis=0)))


def case_notes(case: LightCase) -> tuple[str, ...]:
    """The notes of a case, and what the panel does with its patterns."""
    if case.patterns is None:
        return case.notes
    count = len(case.patterns)
    return (
        *case.notes,
        f"The file has {count} patterns that share photons; here they are emitted together, with equal power.",
    )


def input_notes(sources: Sequence[Source], detectors: Sequence[AnyDetector]) -> tuple[str, ...]:
    """What the panel does with the sources and detectors of a file or result, as far as it cannot show them."""
    several = len(sources) > 1
    has_volume = any(isinstance(source, EmittingVolume) for source in sources)
    has_slant = any(isinstance(source, Rectangle) and source.height_axis is not None for source in sources)
    has_faces = any(isinstance(detector, FaceDetector) for detector in detectors)
    notes = {
        f"There are {len(sources)} sources. A run has all of them, by their weights, until one is moved, changed or "
        "chosen; then it has the chosen one alone, with the sizes on show.": several,
        _VOLUME_OF_SEVERAL if several else _NO_VOLUME: has_volume,
        _SLANT_OF_SEVERAL if several else _NO_SLANT: has_slant,
        _NO_FACES: has_faces,
    }
    return tuple(note for note, counts in notes.items() if counts)
