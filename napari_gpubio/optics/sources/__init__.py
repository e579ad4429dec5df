"""Light sources: a class for each kind, and what holds for one or several of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.sources.base import (
    AllRound,
    Collimated,
    Directed,
    Focusable,
    Linear,
    Opening,
    Patterned,
    Rectangle,
    Ring,
    Round,
    Scattered,
    Sector,
    Source,
    Vector,
    frame_along,
)
from napari_gpubio.optics.sources.kinds import (
    KINDS,
    Cone,
    Cylinder,
    Disk,
    EmittingBox,
    EmittingVolume,
    EvenCone,
    Fiber,
    Fourier,
    Fourier2D,
    Gaussian,
    Hyperboloid,
    Isotropic,
    Lambertian,
    Line,
    NormalCone,
    Pattern,
    PatternArea,
    Pencil,
    PencilArray,
    PlacedSource,
    Planar,
    RadialLine,
    Slit,
    SourceChoice,
    ZGaussian,
    emitting_volume,
)

__all__ = [
    "KINDS",
    "MAX_PATTERNS",
    "AllRound",
    "AnySource",
    "Collimated",
    "Cone",
    "Cylinder",
    "Directed",
    "Disk",
    "EmittingBox",
    "EmittingVolume",
    "EvenCone",
    "Fiber",
    "Focusable",
    "Fourier",
    "Fourier2D",
    "Gaussian",
    "Hyperboloid",
    "Isotropic",
    "Lambertian",
    "Line",
    "Linear",
    "NormalCone",
    "Opening",
    "Pattern",
    "PatternArea",
    "Patterned",
    "Pencil",
    "PencilArray",
    "PlacedSource",
    "Planar",
    "RadialLine",
    "Rectangle",
    "Ring",
    "Round",
    "Scattered",
    "Sector",
    "Slit",
    "Source",
    "SourceChoice",
    "Vector",
    "ZGaussian",
    "all_sources",
    "checked_patterns",
    "emitting_volume",
    "frame_along",
    "one_or_all",
    "rectangle_of",
    "single_source",
]

AnySource = Source | tuple[Source, ...]
MAX_SOURCES, MAX_PATTERNS = 1 << 16, 4096
_WHOLE = tuple(KINDS.values())


def all_sources(source: Source | Sequence[Source]) -> tuple[Source, ...]:
    """Return one or several sources as a tuple.

    Raises
    ------
    InvalidInput
        If there is none, something is no source, or there are too many.
    """
    sources = (source,) if isinstance(source, Source) else tuple(source)
    if blank := [one for one in sources if isinstance(one, (PatternArea, EmittingBox)) and type(one) not in _WHOLE]:
        raise InvalidInput(f"the source of kind {blank[0].kind!r} needs its pattern: an array of what it emits")
    if odd := [one for one in sources if type(one) not in _WHOLE]:
        raise InvalidInput(f"{odd[0]!r} is no light source; give one, such as Pencil(), or a list of them")
    if not 1 <= len(sources) <= MAX_SOURCES:
        raise InvalidInput(f"there are {len(sources)} sources; give 1 to {MAX_SOURCES:,}")
    return sources


def one_or_all(sources: tuple[Source, ...]) -> AnySource:
    """Return the source, where there is one, or all of them."""
    return sources[0] if len(sources) == 1 else sources


def single_source(source: AnySource, what: str) -> Source:
    """Return the only source, or raise InvalidInput with the name of what needs a single one."""
    if isinstance(source, Source):
        return source
    raise InvalidInput(f"there are {len(source)} sources, and {what} needs a single one; simulate it alone")


def rectangle_of(source: Source) -> Planar | Pattern:
    """Return the source on whose rectangle patterns lie, or raise InvalidInput if it has none."""
    if not isinstance(source, (Planar, Pattern)):
        raise InvalidInput(
            f"the source is of kind {source.kind!r}, and patterns lie on a rectangle; give Planar or Pattern"
        )
    return source


def checked_patterns(patterns: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a stack of patterns, shape (K, rows, columns), or raise InvalidInput with the number of a bad one."""
    images = np.asarray(patterns, np.float64)
    if images.ndim != 3 or not images.size:
        raise InvalidInput(f"the patterns have shape {images.shape}; give a stack of images (patterns, rows, columns)")
    if len(images) > MAX_PATTERNS:
        raise InvalidInput(f"there are {len(images):,} patterns; at most {MAX_PATTERNS:,} can share photons")
    for number, image in enumerate(images, 1):
        if not np.isfinite(image).all() or (image < 0).any() or not image.sum() > 0:
            raise InvalidInput(
                f"pattern {number} of {len(images)} must be finite, nowhere negative and somewhere positive; signed "
                "patterns are differences of two of these"
            )
    return images
