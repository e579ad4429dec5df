"""Several sources of a file in the panel, which has controls for one: a run has all of them while none is changed."""

import dataclasses
from typing import Any

import numpy as np

from napari_gpubio.light.gui.optodes import Optodes
from napari_gpubio.light.settings import LightCase
from napari_gpubio.light.source import AnySource, Source


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedSources:
    """Sources of a file or result, and what the panel showed of them at first.

    Parameters
    ----------
    sources
        All of them.
    placed
        Where the panel has them, and which one shines.
    first
        The one with the sizes on show.
    """

    sources: tuple[Source, ...]
    placed: Optodes
    first: Source

    def is_shown(self, placed: Optodes, source: Source) -> bool:
        """Whether the panel still has all of them as they are in the file."""
        here, there = self.placed, placed
        same = here.sources == there.sources and here.active == there.active
        return same and _numbers(self.first) == _numbers(source)

    @property
    def note(self) -> str:
        """What a user needs to know about them."""
        return (
            f"There are {len(self.sources)} sources. A run has all of them, by their weights, until one is moved, "
            "changed or chosen; then it has the chosen one alone, with the sizes on show."
        )


def _numbers(source: Source) -> dict[str, Any]:
    return {field.name: getattr(source, field.name) for field in dataclasses.fields(source) if field.name != "pattern"}


def shown_source(case: LightCase) -> AnySource:
    """The sources of a case as the panel has them: patterns that share photons shine together."""
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
        f"The file has {count} patterns that share photons; here they shine together, each as brightly.",
    )
