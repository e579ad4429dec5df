"""Transforms from the space of one image to that of another, and the figures by which they are judged."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import checked_affine


@dataclass(frozen=True, eq=False, kw_only=True)
class Transform(ShortRepr):
    """Where the points of an image (fixed) lie in another one (moving).

    Parameters
    ----------
    matrix
        4 x 4, world mm of the fixed image to world mm of the moving one. InvalidInput if it cannot be inverted.
    figures
        By which a registration is judged; empty for a transform that was read.
    notes
        What is to be looked at, in sentences.
    complete
        Whether the registration came to its end.
    """

    matrix: npt.NDArray[np.float64]
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complete: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", checked_affine(self.matrix))

    def lines(self) -> Iterator[str]:
        """Its figures, for people."""
        if found := self.figures:
            yield (
                f"mutual information: {found['mutual_information_before']:.3g} bits before, "
                f"{found['mutual_information_after']:.3g} after; metric {found['final_metric']:.3g}"
            )
            yield f"overlap of the brains: {found['overlap_before']:.0%} before, {found['overlap_after']:.0%} after"
            yield (
                f"displacement: {found['least_displacement_mm']:.3g} to {found['largest_displacement_mm']:.3g} mm; "
                f"turned by {found['rotation_degrees']:.3g}°"
            )
            yield f"determinant: {found['determinant']:.4g}; largest scaling {found['largest_scaling']:.4g}"


def sitk() -> Any:
    """Return SimpleITK; InvalidInput if it is not installed."""
    try:
        import SimpleITK as library  # noqa: N813 - as everybody calls it
    except ImportError as error:
        raise InvalidInput(
            "this needs SimpleITK, which is not installed: python -m pip install 'napari-gpubio[registration]'"
        ) from error
    return library
